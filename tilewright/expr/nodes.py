"""The scalar expression grammar, on one page.

    Expr = Var | IntImm | FloatImm | StringImm | Cast
         | Add | Sub | Mul | Div | Mod | FloorDiv | FloorMod | Min | Max        same type on both sides
         | EQ | NE | LT | LE | GT | GE | And | Or | Not                         of type bool
         | Select | IfThenElse | Load | Call | Ramp | Broadcast

`Div` and `Mod` truncate on integers, `FloorDiv` and `FloorMod` round down. `Select` evaluates both branches,
`IfThenElse` only the one taken. A `Load` reads element `indices` of a source: a tensor above the loops, a
buffer within them. `Ramp` and `Broadcast` make vectors. Nodes are interned (see `core.node`): `is` is
structural equality. These constructors do not check or convert; `operators.py` does.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar, NamedTuple, Protocol

from ..core.dtype import BOOL, DType
from ..core.errors import UserError
from ..core.node import Node, node
from ..core.type_annotations import PointerType, PrimType, TypeAnnotation
from .effects import note_effect
from .operand import BUILD, TEXT, Operand
from .runtime_value import same


class Expr(Node, Operand):
    """A scalar or vector expression of type `dtype`."""

    __slots__ = ()
    dtype: DType

    def as_expr(self) -> Expr:
        return self

    def __eq__(self, other: object) -> Any:
        return BUILD["equal"](self, other)

    def __ne__(self, other: object) -> Any:
        return BUILD["not_equal"](self, other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return TEXT[Expr](self)


class Known(NamedTuple):
    """The declared facts of an integer variable. A call with a value that violates them is refused."""

    minimum: int | None = None
    maximum: int | None = None
    multiple_of: int = 1

    def __str__(self) -> str:
        parts = [] if self.minimum is None else [f"at least {self.minimum}"]
        parts += [] if self.maximum is None else [f"at most {self.maximum}"]
        parts += [] if self.multiple_of == 1 else [f"a multiple of {self.multiple_of}"]
        return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 2 else parts)


ANYTHING = Known()
A_SIZE = Known(minimum=0)


class Var(Expr):
    """A named scalar. Each `Var` is unique: two variables with the same name are different."""

    __slots__ = ("_annotation", "dtype", "known", "name")
    FIELDS = ("name", "dtype", "known")
    acts_below = False
    choices_below = 0

    def __init__(self, name: str, dtype: str | TypeAnnotation = "int32", known: Known = ANYTHING) -> None:
        if not isinstance(name, str) or not isinstance(known, Known):
            raise UserError(
                f"a variable cannot be made of {name!r} and {known!r}", fix='give a name: te.var("n"), te.size_var("n")'
            )
        self.name = name
        self.dtype = DType(dtype)
        self.known = known
        self._annotation = None if isinstance(dtype, str) else dtype

    @property
    def type_annotation(self) -> TypeAnnotation:
        """The type of the variable as the legacy API writes it."""
        given = self._annotation
        return given if isinstance(given, (PrimType, PointerType)) else PrimType(self.dtype)


class SizeVar(Var):
    """A variable that holds a size: known to be at least 0."""

    __slots__ = ()

    def __init__(self, name: str, dtype: str = "int32", known: Known = A_SIZE) -> None:
        super().__init__(name, dtype, known)


def _float_key(value: float) -> bytes:
    return struct.pack("d", value)


@node()
class IntImm(Expr):
    """An integer or boolean constant (`value` is a Python int)."""

    acts_below = False
    choices_below = 0

    value: int
    dtype: DType

    def __bool__(self) -> bool:
        return self.value != 0

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value


@node(keys={"value": "float_key(value)"}, float_key=_float_key)
class FloatImm(Expr):
    """A floating-point constant; interned by its bits, so -0.0 and NaN keep their identity."""

    acts_below = False
    choices_below = 0

    value: float
    dtype: DType

    def __float__(self) -> float:
        return self.value


@node(derived={"dtype": "handle"}, handle=DType("handle"))
class StringImm(Expr):
    """A string argument of a call; equal to its text."""

    value: str

    def __eq__(self, other: object) -> Any:
        return self.value == other if isinstance(other, str) else super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        return self.value != other if isinstance(other, str) else super().__ne__(other)

    __hash__ = Expr.__hash__


@node()
class Cast(Expr):
    """`value` converted to `dtype`: integers wrap; floats to integers truncate and saturate, NaN gives 0."""

    dtype: DType
    value: Expr


class Binary(Expr):
    """Base of the operators of two arguments."""

    __slots__ = ()
    a: Expr
    b: Expr


class Arithmetic(Binary):
    """Operators with results of the arguments' type."""

    __slots__ = ()


class Compare(Binary):
    """Comparisons: the result is bool, with the lanes of the arguments."""

    __slots__ = ()


@node(derived={"dtype": "a.dtype"})
class Add(Arithmetic):
    """a + b"""

    a: Expr
    b: Expr


@node(derived={"dtype": "a.dtype"})
class Sub(Arithmetic):
    """a - b"""

    a: Expr
    b: Expr


@node(derived={"dtype": "a.dtype"})
class Mul(Arithmetic):
    """a * b"""

    a: Expr
    b: Expr


@node(derived={"dtype": "a.dtype"})
class Div(Arithmetic):
    """a / b; on integers it truncates towards zero."""

    a: Expr
    b: Expr


@node(derived={"dtype": "a.dtype"})
class Mod(Arithmetic):
    """The remainder of `Div`, with the sign of a."""

    a: Expr
    b: Expr


@node(derived={"dtype": "a.dtype"})
class FloorDiv(Arithmetic):
    """a // b, rounded down."""

    a: Expr
    b: Expr


@node(derived={"dtype": "a.dtype"})
class FloorMod(Arithmetic):
    """a % b, with the sign of b."""

    a: Expr
    b: Expr


@node(derived={"dtype": "a.dtype"})
class Min(Arithmetic):
    """The smaller of a and b; NaN if one is NaN, as in NumPy and PyTorch."""

    a: Expr
    b: Expr


@node(derived={"dtype": "a.dtype"})
class Max(Arithmetic):
    """The larger of a and b; NaN if one is NaN."""

    a: Expr
    b: Expr


def _bool_of(a: Expr) -> DType:
    return BOOL if a.dtype.lanes == 1 else BOOL.with_lanes(a.dtype.lanes)


@node(derived={"dtype": "bool_of(a)"}, bool_of=_bool_of)
class EQ(Compare):
    """a == b. The Python truth value is whether both sides are the same node."""

    a: Expr
    b: Expr

    def __bool__(self) -> bool:
        return same(self)


@node(derived={"dtype": "bool_of(a)"}, bool_of=_bool_of)
class NE(Compare):
    """a != b. As a Python truth value: whether the sides are different nodes."""

    a: Expr
    b: Expr

    def __bool__(self) -> bool:
        return not same(self)


@node(derived={"dtype": "bool_of(a)"}, bool_of=_bool_of)
class LT(Compare):
    """a < b"""

    a: Expr
    b: Expr


@node(derived={"dtype": "bool_of(a)"}, bool_of=_bool_of)
class LE(Compare):
    """a <= b"""

    a: Expr
    b: Expr


@node(derived={"dtype": "bool_of(a)"}, bool_of=_bool_of)
class GT(Compare):
    """a > b"""

    a: Expr
    b: Expr


@node(derived={"dtype": "bool_of(a)"}, bool_of=_bool_of)
class GE(Compare):
    """a >= b"""

    a: Expr
    b: Expr


@node(derived={"dtype": "a.dtype"})
class And(Binary):
    """a and b; b is evaluated only if a holds."""

    a: Expr
    b: Expr


@node(derived={"dtype": "a.dtype"})
class Or(Binary):
    """a or b; b is evaluated only if a fails."""

    a: Expr
    b: Expr


@node(derived={"dtype": "a.dtype"})
class Not(Expr):
    """not a"""

    a: Expr


@node(derived={"dtype": "true_value.dtype"})
class Select(Expr):
    """`true_value` if `condition` holds, else `false_value`; both are evaluated."""

    condition: Expr
    true_value: Expr
    false_value: Expr


@node(derived={"dtype": "true_value.dtype"})
class IfThenElse(Expr):
    """`true_value` if `condition` holds, else `false_value`; only that one is evaluated."""

    condition: Expr
    true_value: Expr
    false_value: Expr


class LoadSource(Protocol):
    """The source of a `Load`: a tensor or a buffer, hashed by identity."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> DType: ...


def _load_dtype(source: LoadSource, indices: tuple[Expr, ...]) -> DType:
    for index in indices:
        if index.dtype.lanes != 1:
            return source.dtype.with_lanes(index.dtype.lanes * source.dtype.lanes)
    return source.dtype


@node(derived={"dtype": "load_dtype(source, indices)"}, load_dtype=_load_dtype)
class Load(Expr):
    """The element of `source` at `indices` (one index a dimension; a `Ramp` index reads a vector)."""

    source: LoadSource
    indices: tuple[Expr, ...]


class Intrinsic(NamedTuple):
    """The name of an intrinsic function, such as "tir.exp"."""

    name: str


@node(derived={"has_effect": "note_effect(name)"}, note_effect=note_effect)
class Call(Expr):
    """A function by its name: `numerics.py` defines the value of each name, `loops/calls.py` the effect of others."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType
    has_effect: ClassVar[bool]
    """Whether the call has side effects."""

    @property
    def op(self) -> Intrinsic:
        """The called function, under its name in the legacy API."""
        return Intrinsic(f"tir.{self.name}")


@node(derived={"dtype": "base.dtype.with_lanes(lanes)"})
class Ramp(Expr):
    """The vector base, base + stride, ..., of `lanes` elements."""

    base: Expr
    stride: Expr
    lanes: int


@node(derived={"dtype": "value.dtype.with_lanes(lanes)"})
class Broadcast(Expr):
    """`lanes` copies of `value`."""

    value: Expr
    lanes: int


TRUE = IntImm(1, BOOL)
FALSE = IntImm(0, BOOL)
