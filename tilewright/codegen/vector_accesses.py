"""Vector loads and stores of a kernel, as wide as the dialect has vectors and the address is aligned."""

from __future__ import annotations

from typing import Any, Protocol

from ..core.dtype import DType
from ..core.hardware import MemoryScope
from ..expr import nodes as n
from ..expr import operators as op
from ..expr.traverse import reads_memory
from ..loops.nodes import Buffer, Store
from .c_expr import OR, ExprWriter
from .dialect import Dialect
from .kernel import Kernel, root
from .names import Names
from .padded_loads import padded_load
from .vectors import contiguous, flat_index, guarded_load, known_divisor, lane_of, reads, strict_loads


class VectorAccessWriter(Protocol):
    """The interface of the kernel writer that vector accesses use."""

    dialect: Dialect
    kernel: Kernel
    names: Names
    expr: ExprWriter
    aligned: set[Buffer]
    unrolled: frozenset[n.Var]

    def _line(self, text: str) -> None: ...
    def _access(self, buffer: Any, index: n.Expr) -> str: ...
    def _pointer(self, buffer: Any, index: n.Expr) -> str: ...
    def _unmerged(self, load: n.Load, text: str) -> str: ...


class VectorAccesses:
    """Writes the vector accesses of a kernel, for the writer of its statements."""

    def __init__(self, by: VectorAccessWriter) -> None:
        self.by = by

    def width(self, buffer: Any, index: n.Expr) -> int:
        """Return the elements of one vector access at `index`; 1 if no vector of the dialect fits."""
        ramp = contiguous(index)
        base = root(buffer)
        if ramp is None or buffer.dtype.is_bool or buffer.dtype.lanes != 1:
            return 1
        for lanes in self.by.dialect.vector_widths(buffer.dtype):
            fits = ramp.lanes % lanes == 0
            if fits and self.by.dialect.vector_needs_alignment():
                divisor = known_divisor(ramp.base)
                fits = divisor % lanes == 0 and base.align % (lanes * buffer.dtype.bytes) == 0
            if fits:
                return lanes
        return 1

    def store(self, s: Store, index: n.Expr) -> None:
        """Write the store of a vector, in as few accesses as possible."""
        lanes, dtype = index.dtype.lanes, s.buffer.dtype
        value = s.value if s.value.dtype.lanes == lanes else n.Broadcast(s.value, lanes)
        others = [load for load in reads(value, s.buffer, root) if load.indices != s.indices]
        known = self._load_first(value)
        width = self.width(s.buffer, index)
        if others:  # all elements must be read before any of them is overwritten
            value = self._keep_lanes(value, lanes, known)
        for start in range(0, lanes, width):
            if width == 1:
                at, one = lane_of(index, start, known), lane_of(value, start, known)
                self.by._line(f"{self.by._access(s.buffer, at)} = {self.by.expr.stored(one, dtype)};")
            else:
                ramp = contiguous(index)
                assert ramp is not None
                at = op.add(ramp.base, op.const(start, ramp.base.dtype))
                self.aligned(s.buffer)
                text = self.value(value, start, width, dtype, known)
                pointer, space = self.by._pointer(s.buffer, at), self.by.dialect.space(root(s.buffer).scope)
                self.by._line(self.by.dialect.vector_store(pointer, dtype, width, space, text))

    def aligned(self, buffer: Any) -> None:
        """Note that a vector access needs the memory of a buffer aligned."""
        if self.by.dialect.vector_needs_alignment():
            self.by.aligned.add(root(buffer))

    def _load_first(self, value: n.Expr) -> dict[n.Expr, tuple[n.Expr, ...]]:
        """Contiguous loads that are part of `value` go into vector variables first, to be read by lane."""
        known: dict[n.Expr, tuple[n.Expr, ...]] = {}
        if isinstance(value, n.Load):
            return known
        for wanted in strict_loads(value, lambda at: self.width(at.source, self.index(at)) > 1):
            guarded = guarded_load(wanted)
            load = wanted if guarded is None else guarded
            assert isinstance(load, n.Load)
            index = self.index(load)
            width = self.width(load.source, index)
            parts: list[n.Expr] = []
            for start in range(0, load.dtype.lanes, width):
                name = self.by.names.fresh(f"{root(load.source).name}_vector")
                kind = self.by.dialect.vector_type(load.source.dtype, width)
                text = self.load(load, start, width)
                if guarded is not None:
                    assert isinstance(wanted, (n.IfThenElse, n.Select))
                    fixed = self._fixed_pointer(load, start)
                    text = padded_load(self.by, wanted.condition, text, fixed, load.source.dtype, width)
                self.by._line(f"const {kind} {name} = {text};")
                for lane in range(width):
                    part = n.Var(name, load.source.dtype)
                    text = self.by.dialect.lane(name, lane, load.source.dtype, width)
                    self.by.names.bind(part, self.by.expr.loaded(text, load.source.dtype))
                    parts.append(part)
            known[wanted] = tuple(parts)
        return known

    def _keep_lanes(self, value: n.Expr, lanes: int, known: dict[n.Expr, tuple[n.Expr, ...]]) -> n.Expr:
        """Every lane of `value` in a variable; returns a load that `known` maps to those variables."""
        variables = []
        for lane in range(lanes):
            one = lane_of(value, lane, known)
            var = n.Var("lane", one.dtype)
            self.by._line(f"const {self.by.dialect.scalar_type(one.dtype)} {self.by.names(var)} = {self.by.expr(one)};")
            variables.append(var)
        holder = n.Load(Buffer("lanes", value.dtype.scalar, ()), (n.Ramp(op.const(0), op.const(1), lanes),))
        known[holder] = tuple(variables)
        return holder

    def index(self, load: n.Load) -> n.Expr:
        """Return the index of a load in its flat buffer."""
        source: Any = load.source
        return flat_index(source, load.indices)

    def load(self, load: n.Load, start: int, width: int) -> str:
        """Return the load of `width` lanes from lane `start` on."""
        self.aligned(load.source)
        space = self.by.dialect.space(root(load.source).scope)
        if self._is_constant(load):
            space += "const "
        pointer = self.by._pointer(load.source, self._first(load, start))
        return self.by._unmerged(load, self.by.dialect.vector_load(pointer, load.source.dtype, width, space))

    def _first(self, load: n.Load, start: int) -> n.Expr:
        """Return the index of lane `start` of the load of a vector."""
        ramp = contiguous(self.index(load))
        assert ramp is not None
        return op.add(ramp.base, op.const(start, ramp.base.dtype))

    def _is_constant(self, load: n.Load) -> bool:
        """Return whether a load is of a parameter that the kernel does not write."""
        return root(load.source) not in self.by.kernel.written and root(load.source) in self.by.kernel.params

    def _fixed_pointer(self, load: n.Load, start: int) -> str | None:
        """Return the place of lane `start` of a load, if nothing writes there and its index reads no memory."""
        index = self._first(load, start)
        if not self._is_constant(load) or reads_memory(index):
            return None
        return self.by._pointer(load.source, index)

    def value(self, e: n.Expr, start: int, width: int, dtype: DType, known: dict[n.Expr, tuple[n.Expr, ...]]) -> str:
        """Lanes `start` to `start + width` of a vector expression, as one vector."""
        if isinstance(e, n.Load) and e not in known and self.width(e.source, self.index(e)) == width:
            return self.load(e, start, width)
        if isinstance(e, (n.IfThenElse, n.Select)) and e.condition.dtype.lanes == 1:
            parts = [self.value(part, start, width, dtype, known) for part in (e.true_value, e.false_value)]
            return f"({self.by.expr(e.condition, OR)} ? {parts[0]} : {parts[1]})"
        each = [lane_of(e, start + i, known) for i in range(width)]
        if f"{dtype}_pair" in self.by.dialect.helpers:
            loads = [lane for lane in each if isinstance(lane, n.Load) and self._in_registers(lane, dtype)]
            if len(loads) == width:
                return self._moved(loads, dtype)
            pair, values = self.by.expr.helper(f"{dtype}_pair"), [self.by.expr.unrounded(lane, dtype) for lane in each]
            words = [f"{pair}({low}, {high})" for low, high in zip(values[::2], values[1::2], strict=True)]
            return self.by.dialect.vector_value(dtype, words)
        return self.by.dialect.vector_value(dtype, [self.by.expr.stored(lane, dtype) for lane in each])

    @staticmethod
    def _in_registers(load: n.Load, dtype: DType) -> bool:
        """Whether a load reads an element of private memory, of the type that is stored."""
        return load.dtype == dtype and root(load.source).scope is MemoryScope.LOCAL

    def _moved(self, loads: list[n.Load], dtype: DType) -> str:
        """Return 16-bit floats that are only moved as one vector: of their bits, which takes no conversions."""
        bits, word = [self.by.expr.element(load) for load in loads], self.by.expr.helper("word_of_2")
        words = [f"{word}({low}, {high})" for low, high in zip(bits[::2], bits[1::2], strict=True)]
        return self.by.dialect.vector_value(dtype, words)
