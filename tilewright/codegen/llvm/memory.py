"""Loads and stores: one element, contiguous vectors, and lanes that lie apart."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from ...core.dtype import DType
from ...core.errors import InternalError
from ...core.hardware import MemoryScope
from ...core.system import family_of
from ...expr import nodes as n
from ...expr import operators as op
from ...loops.nodes import Store
from ..vectors import contiguous, covering_vectors, flat_index, lane_offsets
from .convert import mangled
from .expr import LLVMExprWriter
from .types import LLVMValue, constant, lanes_constant, memory_type, splat_constant, vector
from .writer import FunctionWriter

_LINE = 64
"""Bytes that leave for memory together, past the caches, from an address that is a multiple of them (shorter vectors:
of their own size)."""


class BufferAccesses:
    """Accesses to buffers, in the function that `out` writes."""

    def __init__(self, out: FunctionWriter) -> None:
        self.out = out
        self.past_caches = False
        """Whether vectors are stored to the memory of arguments past the caches, if their addresses permit it."""
        self.unordered = False
        """Whether a store went past the caches: other threads see it only behind a fence."""
        self.expr: LLVMExprWriter
        """Set after both objects are created, because each needs the other."""

    # Loads

    def load(self, e: n.Load, mask: LLVMValue | None) -> LLVMValue:
        """The element or the vector that a load reads; if there is a mask, its lanes only."""
        source: Any = e.source
        index = flat_index(source, e.indices)
        dtype = e.dtype
        if index.dtype.lanes == 1:
            address = self._address(source, self.expr.index(index))
            return self._narrow(self._load(address, dtype, source.dtype), dtype)
        if source.dtype.lanes > 1:
            raise InternalError(f"a vector of the vectors in {source.name}")
        return self._narrow(self._vector_load(source, index, dtype, mask), dtype)

    def _load(self, address: LLVMValue, dtype: DType, element: DType) -> LLVMValue:
        kind = memory_type(dtype)
        return self.out.op(kind, f"load {kind}, {address}, align {element.scalar.bytes}")

    def _vector_load(self, source: Any, index: n.Expr, dtype: DType, mask: LLVMValue | None) -> LLVMValue:
        if mask is None:
            near = self._near(source, index, dtype)
            return self._gather(source, index, dtype, None) if near is None else near
        ramp = contiguous(index)
        if ramp is None:
            return self._gather(source, index, dtype, mask)
        return self._masked(self._address(source, self.expr.index(ramp.base)), dtype, mask)

    def _near(self, source: Any, index: n.Expr, dtype: DType) -> LLVMValue | None:
        """Load lanes near each other as whole vectors, from the first element to the last, and pick them from these.

        None if they are too far apart, or not at constant distances.
        """
        known = lane_offsets(index)
        if known is None:
            return None
        base, offsets = known
        first, lanes = min(offsets), len(offsets)
        places = [offset - first for offset in offsets]
        span, in_order = max(places) + 1, places == [*range(lanes)]
        width, starts = (lanes, [0]) if in_order else covering_vectors(span, lanes)
        if not starts:
            return None
        address = self._address(source, self.expr.index(op.add(base, op.const(first, base.dtype))))
        loaded = {at: self._piece(source, address, at, dtype.scalar.with_lanes(width)) for at in starts}
        if span == 1:
            return self.out.splat(loaded[0], lanes)
        return loaded[0] if in_order else self._picked(loaded, width, places, dtype)

    def _picked(self, loaded: dict[int, LLVMValue], width: int, places: list[int], dtype: DType) -> LLVMValue:
        """The elements at `places` as a vector of type `dtype`, from vectors of `width` elements, keyed by their first
        position."""
        starts, kind = [*loaded], memory_type(dtype)
        numbers = [bisect_right(starts, place) - 1 for place in places]  # the vector with each lane's element
        made, *others = loaded.values()
        for number, piece in enumerate(others or [made], 1):
            order = [*range(dtype.lanes)]  # lanes picked before stay in place
            for lane, (place, of) in enumerate(zip(places, numbers, strict=True)):
                if of == number:
                    order[lane] = width + place - starts[of]
                elif of < number == 1:
                    order[lane] = place
            made = self.out.op(kind, f"shufflevector {made}, {piece}, {lanes_constant(order, 'i32')}", "picked")
        return made

    def _piece(self, source: Any, address: LLVMValue, at: int, dtype: DType) -> LLVMValue:
        """A vector of neighbouring elements, `at` elements behind an address."""
        kind = memory_type(source.dtype)
        there = self.out.op("ptr", f"getelementptr inbounds {kind}, {address}, i64 {at}", "at") if at else address
        return self._load(there, dtype, source.dtype)

    def _masked(self, address: LLVMValue, dtype: DType, mask: LLVMValue) -> LLVMValue:
        return self._read(f"llvm.masked.load.{mangled(memory_type(dtype))}.p0", address, dtype, mask)

    def _read(self, name: str, places: LLVMValue, dtype: DType, mask: LLVMValue) -> LLVMValue:
        kind = memory_type(dtype)
        args = [places, LLVMValue("i32", str(dtype.scalar.bytes)), mask, LLVMValue(kind, "zeroinitializer")]
        return self.out.call(name, kind, args)

    def _gather(self, source: Any, index: n.Expr, dtype: DType, mask: LLVMValue | None) -> LLVMValue:
        kind, lanes = memory_type(dtype), dtype.lanes
        places = self._addresses(source, self.expr.lanes_index(index), lanes)
        return self._read(f"llvm.masked.gather.{mangled(kind)}.v{lanes}p0", places, dtype, mask or _all(lanes))

    def _narrow(self, value: LLVMValue, dtype: DType) -> LLVMValue:
        """The contents of memory, as a value."""
        if dtype.is_bool:
            zero = constant(0, DType("uint8").with_lanes(dtype.lanes))
            return self.out.compare("icmp ne", value, zero, dtype.lanes)
        return value

    # Stores

    def store(self, s: Store) -> None:
        """`buffer[indices] = value`."""
        index = flat_index(s.buffer, s.indices)
        lanes, element = index.dtype.lanes, s.buffer.dtype
        value = self.expr(s.value)
        if element.is_bool:
            value = self.out.convert("zext", value, vector("i8", s.value.dtype.lanes))
        if lanes == 1:
            address = self._address(s.buffer, self.expr.index(index))
            self.out.do(f"store {value}, {address}, align {element.scalar.bytes}")
            return
        if element.lanes > 1:
            raise InternalError(f"a vector of the vectors in {s.buffer.name}")
        self._vector_store(s.buffer, index, self.out.splat(value, lanes) if s.value.dtype.lanes == 1 else value)

    def _vector_store(self, buffer: Any, index: n.Expr, value: LLVMValue) -> None:
        lanes, align = index.dtype.lanes, buffer.dtype.bytes
        mask = self.expr.mask
        ramp = contiguous(index)
        if ramp is not None:
            address = self._address(buffer, self.expr.index(ramp.base))
            if mask is None and self.past_caches and buffer.scope is MemoryScope.GLOBAL:
                self._store_past_caches(value, address, align, lanes * align)
            elif mask is None:
                self.out.do(f"store {value}, {address}, align {align}")
            else:
                value = self._computed(value, lanes)
                self._write(f"llvm.masked.store.{mangled(value.type)}.p0", value, address, align, mask)
            return
        places = self._addresses(buffer, self.expr.lanes_index(index), lanes)
        name = f"llvm.masked.scatter.{mangled(value.type)}.v{lanes}p0"
        self._write(name, value, places, align, mask or _all(lanes))

    def _store_past_caches(self, value: LLVMValue, address: LLVMValue, align: int, size: int) -> None:
        """Store a vector of `size` bytes with a non-temporal hint, which is for aligned addresses only."""
        out, unit = self.out, min(size, _LINE)
        if size % unit or unit & (unit - 1):
            out.do(f"store {value}, {address}, align {align}")
            return
        low = out.binary("and", out.convert("ptrtoint", address, "i64"), LLVMValue("i64", str(unit - 1)), "low")
        aligned, elsewhere, stored = out.label("aligned"), out.label("elsewhere"), out.label("stored")
        out.branch_if(out.compare("icmp eq", low, LLVMValue("i64", "0")), aligned, elsewhere)
        for label, how in ((aligned, f"align {unit}, {out.module.nontemporal()}"), (elsewhere, f"align {align}")):
            out.start(label)
            out.do(f"store {value}, {address}, {how}")
            out.branch(stored)
        out.start(stored)
        self.unordered = True

    def order(self) -> None:
        """Make stores past the caches visible to other threads before later accesses; x86 has an instruction for it."""
        if self.unordered and family_of(self.out.module.machine.triple) == "x86_64":
            self.out.module.declare("llvm.x86.sse.sfence", "void", [], "nounwind")
            self.out.do("call void @llvm.x86.sse.sfence()")
        elif self.unordered:
            self.out.do("fence release")

    def _computed(self, value: LLVMValue, lanes: int) -> LLVMValue:
        """Hide the origin of a vector of narrow integers from LLVM.

        LLVM 22.1 for x86 stores one lane of truncated integers at the width before the truncation, and so overwrites
        the elements behind it. A fence separates the truncation from the store.
        """
        bits = {f"<{lanes} x i{width}>": lanes * width for width in (8, 16)}.get(value.type, 0)
        if not bits or bits % 16:  # an odd number of bytes is stored lane by lane anyway
            return value
        element, name = ("half", "f16") if bits % 32 else ("float", "f32")
        count = bits // (16 if bits % 32 else 32)
        kind, name = (f"<{count} x {element}>", f"v{count}{name}") if count > 1 else (element, name)
        called = self.out.call(f"llvm.arithmetic.fence.{name}", kind, [self.out.convert("bitcast", value, kind)])
        return self.out.convert("bitcast", called, value.type)

    def _write(self, name: str, value: LLVMValue, places: LLVMValue, align: int, mask: LLVMValue) -> None:
        args = [value, places, LLVMValue("i32", str(align)), mask]
        self.out.module.declare(name, "void", [arg.type for arg in args])
        self.out.do(f"call void @{name}({', '.join(map(str, args))})")

    # Addresses

    def address_of(self, e: n.Load) -> LLVMValue:
        """The address of the element that a load would read."""
        source: Any = e.source
        return self._address(source, self.expr.index(flat_index(source, e.indices)))

    def _address(self, buffer: Any, index: LLVMValue) -> LLVMValue:
        pointer = self.expr.pointer(buffer)
        if index.text == "0":
            return pointer
        kind = memory_type(buffer.dtype)
        return self.out.op("ptr", f"getelementptr inbounds {kind}, {pointer}, {index}", "at")

    def _addresses(self, buffer: Any, indices: LLVMValue, lanes: int) -> LLVMValue:
        pointer = self.expr.pointer(buffer)
        kind = memory_type(buffer.dtype)
        return self.out.op(f"<{lanes} x ptr>", f"getelementptr inbounds {kind}, {pointer}, {indices}", "places")


def _all(lanes: int) -> LLVMValue:
    return splat_constant(LLVMValue("i1", "true"), lanes)
