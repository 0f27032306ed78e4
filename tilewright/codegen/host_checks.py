"""The first part of host code: arguments checked, sizes and strides bound, declared facts held against them.

A size takes its value from the first extent that equals it or is linear in it (`n * 8`). Every other extent is then
compared with its required value. Every call pays for the checks, so each is one comparison. The functions that they
call when one fails compose the full message (`runtime/argument_errors.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from ..arith.affine import Affine
from ..arith.interval import interval
from ..arith.simplify import simplify
from ..core.dtype import DType
from ..core.errors import UserError
from ..expr import nodes as n
from ..expr import operators as op
from ..expr.traverse import constant_value, variables
from ..loops.nodes import Buffer, Function
from .abi import ArrayArgument, ReadFact, ScalarArgument, SizeFact
from .dialect import is_half
from .host_expr import HostExpr

INT32_ELEMENTS = 2**31 - 2**24
"""Elements that 32-bit indices may count in arrays of symbolic size: the last tile may reach a little further."""


class ArgumentChecks:
    """Writes the checks of one function's arguments. `aligned`: buffers read as vectors; `written`: outputs."""

    def __init__(
        self,
        function: Function,
        expr: HostExpr,
        aligned: frozenset[Buffer],
        written: frozenset[Buffer],
        line: Callable[[str], None],
    ) -> None:
        self.function = function
        self.expr = expr
        self.names = expr.names
        self.aligned = aligned
        self.written = written
        self.line = line
        self.known: set[n.Var] = set()
        self.limited: set[str] = set()
        self.facts: list[SizeFact] = []
        self.reads: list[ReadFact] = []
        self.buffers = [(position, p) for position, p in enumerate(function.params) if isinstance(p, Buffer)]

    def argument(self, p: Buffer | n.Var) -> ArrayArgument | ScalarArgument:
        """A parameter as the runtime sees it."""
        if isinstance(p, n.Var):
            return ScalarArgument(self.names(p), str(p.dtype))
        shape = tuple(e.value if isinstance(e, n.IntImm) else str(e) for e in p.shape)
        strided = p.layout.given is not None
        align = 16 if p in self.aligned else 1
        return ArrayArgument(self.names(p), str(p.dtype), shape, align, strided, p in self.written)

    def write(self) -> None:
        """Write all checks, each after the sizes that it needs."""
        for position, p in enumerate(self.function.params):
            if isinstance(p, n.Var):
                self._scalar(position, p)
            else:
                self._array(position, p)
        self._bind_sizes()
        for position, p in self.buffers:
            self._strides(position, p)
        for position, p in self.buffers:
            self.limit(self.names(p), position, p)
        self._overlaps()
        self._reads()

    # One argument

    def _scalar(self, position: int, p: n.Var) -> None:
        name = self.names(p)
        self.known.add(p)
        unless_plain = "" if is_half(p.dtype) else f"if {_not_of_type(name, p.dtype)}: "  # `scalar` rounds to 16 bits
        self.line(f"{unless_plain}{name} = scalar({name}, {position})")
        self._declared(p, f"argument {position} of {self.function.name} ({name}: {p.dtype})", is_size=False)

    def _array(self, position: int, p: Buffer) -> None:
        name = self.names(p)
        if p.layout.given is not None:
            self.line(f"{name}_strides = strided({name}, {position})")
        else:
            field = "layout" if _is_static(p) else "kind"
            self.line(f"if {name}.{field} is not {name}_{field}: wrong({name}, {position})")
        if p in self.aligned:
            self.line(f"if {name}.handle & 15: misaligned({name}, {position})")

    # Sizes

    def _bind_sizes(self) -> None:
        checks: list[tuple[int, Buffer, int]] = []
        for position, p in self.buffers:
            if _is_static(p) and p.layout.given is None:
                continue
            for axis, extent in enumerate(p.shape):
                if isinstance(extent, n.Var) and extent not in self.known:
                    self._bind(extent, f"{self.names(p)}.shape[{axis}]", position, p, axis)
                else:
                    checks.append((position, p, axis))
        for position, p, axis in checks:
            extent = p.shape[axis]
            self._solve(position, p, axis)
            unknown = [v.name for v in variables(extent) if v not in self.known]
            if unknown:
                raise UserError(
                    f"the size {unknown[0]} in extent {axis} of argument {p.name} (`{extent}`) cannot "
                    f"be found from the arguments of {self.function.name}",
                    fix=f"pass a tensor that has {unknown[0]} itself as an extent, or pass the variable too",
                )
            name, want = self.names(p), self.expr(extent)
            against = self.expr.operand(extent)
            self.line(f"if {name}.shape[{axis}] != {against}: wrong_extent({name}, {position}, {axis}, {want})")

    def _bind(self, size: n.Var, value: str, position: int, p: Buffer, axis: int) -> None:
        self.known.add(size)
        self.line(f"{self.names(size)} = {value}")
        self._declared(size, f"extent {axis} of argument {position} of {self.function.name} ({self.names(p)})")

    def _solve(self, position: int, p: Buffer, axis: int) -> None:
        """Bind the one unknown size of an extent that is linear in it; the extent is then checked like any other."""
        form = Affine.of(simplify(p.shape[axis]))
        unknown = [(atom, k) for atom, k in form.terms.items() if any(v not in self.known for v in variables(atom))]
        if len(unknown) != 1 or not isinstance(unknown[0][0], n.Var):
            return
        size, k = unknown[0][0], unknown[0][1]
        rest = Affine({atom: j for atom, j in form.terms.items() if atom is not size}, form.const, form.dtype)
        value = f"{self.names(p)}.shape[{axis}]"
        if rest.terms or rest.const:
            value = f"({value} - {self.expr.operand(rest.to_expr())})"
        self._bind(
            size, value if k == 1 else f"{value} // {self.expr.operand(n.IntImm(k, size.dtype))}", position, p, axis
        )

    def _declared(self, size: n.Var, place: str, is_size: bool = True) -> None:
        """Check a variable against its declaration; an extent is never negative."""
        least, most, step = size.known
        name, wrong = self.names(size), []
        if least is not None and not (is_size and least <= 0):
            wrong.append(f"{name} < {least}")
        if most is not None:
            wrong.append(f"{name} > {most}")
        if step > 1:
            wrong.append(f"{name} % {step}")
        if wrong:
            self.line(f"if {' or '.join(wrong)}: wrong_size({len(self.facts)}, {name})")
            self.facts.append(SizeFact(name, str(size.known), place))

    # Strides

    def _strides(self, position: int, p: Buffer) -> None:
        given = p.layout.given
        if given is None:
            return
        name = self.names(p)
        for axis, stride in enumerate(given):
            self._bind_or_check(stride, f"{name}_strides[{axis}]", f"wrong_stride({name}, {position}, {axis}, {{}})")
        self._bind_or_check(p.layout.start, f"{name}.offset", f"wrong_offset({name}, {position}, {{}})")

    def _bind_or_check(self, e: n.Expr, value: str, complain: str) -> None:
        if isinstance(e, n.Var) and e not in self.known:
            self.known.add(e)
            self.line(f"{self.names(e)} = {value}")
            self._declared(e, value, is_size=False)
            return
        unknown = [v.name for v in variables(e) if v not in self.known]
        if unknown:
            raise UserError(
                f"the variable {unknown[0]} in the stride or offset `{e}` cannot be found from the arguments of "
                f"{self.function.name}",
                fix=f"let a stride be {unknown[0]} itself, or pass the variable too",
            )
        self.line(f"if {value} != {self.expr.operand(e)}: {complain.format(self.expr(e))}")

    # Memory

    def limit(self, name: str, position: int | None, p: Buffer) -> None:
        """Refuse an array with more elements than 32-bit indices can count, if the program has such indices."""
        if _is_static(p) and p.layout.given is None:
            return
        if any(extent.dtype.bits > 32 for extent in p.shape):
            return
        wide = [op.cast("int64", extent) for extent in p.shape]
        size = op.multiply(p.layout.size(wide), p.dtype.lanes)
        if interval(size).hi <= INT32_ELEMENTS:
            return
        text = self.expr(_narrow(size))
        if text in self.limited:
            return
        self.limited.add(text)
        self.line(f"if {self.expr.operand(_narrow(size))} > {INT32_ELEMENTS}: too_large({name!r}, {text})")

    def _reads(self) -> None:
        """Check that reads stay inside their tensor, if that depends on the arguments of the call."""
        for check in self.function.reads:
            arguments = check.arguments
            if not all(v in self.known for v in arguments):  # a size that the program never gets
                continue
            values = [self.expr(value) for value in (check.low, check.high, check.extent)]
            values += [self.expr(value) for _, value in check.point]
            values += [self.names(v) for v in arguments]
            failing = " and ".join(self.expr.operand(e) for e in (*check.when, check.outside))
            names = tuple([name for name, _ in check.point] + [v.name for v in arguments])
            self.line(f"if {failing}: beyond({len(self.reads)}, {', '.join(values)})")
            self.reads.append(ReadFact(check.stage, check.tensor, check.read, check.dimension, names))

    def _overlaps(self) -> None:
        """Check that outputs share no memory with other arguments: the code relies on it (`__restrict__`)."""
        if len(self.buffers) > MOST_IN_PAIRS:
            spans = ((self.names(p), position, p in self.written) for position, p in self.buffers)
            listed = ", ".join(f"({name}.start, {name}.end, {at}, {written})" for name, at, written in spans)
            self.line(f"apart({listed})")
            return
        for i, (position, p) in enumerate(self.buffers):
            for other, q in self.buffers[:i]:
                if p in self.written or q in self.written:
                    a, b = self.names(q), self.names(p)
                    self.line(f"if {a}.start < {b}.end and {b}.start < {a}.end: overlap({other}, {position})")


MOST_IN_PAIRS = 12
"""The most arguments that are compared pair by pair, in generated code; more arguments are sorted."""


def _is_static(p: Buffer) -> bool:
    return all(constant_value(extent) is not None for extent in p.shape)


def _narrow(e: n.Expr) -> n.Expr:
    """`e` without casts between integers: Python's do not overflow."""
    if isinstance(e, n.Cast):
        return _narrow(e.value)
    made: n.Expr = e.map_children(_narrow)
    return made


def _not_of_type(name: str, dtype: DType) -> str:
    """The condition under which an argument is not a plain number of that type."""
    if dtype.is_int:
        return f"type({name}) is not int or not {dtype.min_value} <= {name} <= {dtype.max_value}"
    return f"type({name}) is not {'float' if dtype.is_float else 'bool'}"
