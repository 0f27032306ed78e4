"""Tensors, and the operations that produce them: `placeholder` and `compute`.

A schedule has a stage for each operation (`schedule/schedule.py`); loops keep the results in a `Buffer`
(`loops/build.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from ..core.dtype import DType
from ..core.errors import UserError
from ..core.own_code import calling
from ..core.refusals import not_made, refusal, refuses
from ..core.text import one_line, quantity
from ..expr.nodes import Expr, IntImm, Load
from ..expr.operand import Operand
from ..expr.operators import as_expr
from ..expr.runtime_value import RuntimeValue, declaring
from ..expr.traverse import post_order
from .arithmetic import TensorArithmetic
from .attributes import Attributes
from .axis import AxisKind, IterVar, Range, counted, known_before, whole
from .element_function import axis_names, check_values
from .intrinsic_call import IntrinsicCall, TensorRegion, declared_by_call
from .pickling import blank, landings
from .reduction import Reduce
from .tag_scope import tagged


class Operation:
    """The producer of tensors: a placeholder, a computation, an extern or a scan. Immutable, compared by identity."""

    __slots__ = ("__weakref__", "attrs", "dtypes", "name", "outputs", "shape", "tag")

    def __init__(
        self, name: str, shape: tuple[Expr, ...], dtypes: tuple[DType, ...], tag: str = "", attrs: Any = None
    ) -> None:
        if not (isinstance(name, str) and isinstance(shape, tuple) and isinstance(dtypes, tuple)):
            raise not_made("Operation", "make one with te.placeholder or te.compute")
        if not (attrs is None or isinstance(attrs, Mapping)):
            raise not_made("Operation", "give attrs a dict")
        self.name = name
        self.shape = shape
        self.dtypes = dtypes
        self.tag = tag
        self.attrs: Mapping[str, Any] = Attributes(attrs)
        self.outputs = tuple(Tensor(self, i) for i in range(len(dtypes)))

    @property
    def num_outputs(self) -> int:
        """How many tensors the operation produces."""
        return len(self.outputs)

    def output(self, index: int) -> Tensor:
        """The `index`-th tensor that the operation produces."""
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(self.outputs):
            raise UserError(
                f"{self.name!r} has no output {index!r}",
                primitive="output",
                fix=f"it has {len(self.outputs)}: give a number from 0 to {len(self.outputs) - 1}",
            )
        return self.outputs[index]

    def shape_of(self, index: int) -> tuple[Expr, ...]:
        """The extents of the `index`-th tensor that the operation produces."""
        return self.shape

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The data axes (none for a placeholder)."""
        return ()

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        """The reduction axes."""
        return ()

    @property
    def loop_axes(self) -> tuple[IterVar, ...]:
        """The axes that the operation's loops run over, outermost first."""
        return (*self.axis, *self.reduce_axis)

    @property
    def values(self) -> tuple[Expr, ...]:
        """The value of an element of each output; empty if elements are not computed one by one."""
        return ()

    @property
    def body(self) -> Any:
        """The values; of an operation that is given by a statement, the statement."""
        return self.values

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that the operation reads, in order of first use."""
        return read_tensors(self.values)

    def same_as(self, other: object) -> bool:
        """Whether the two are one object."""
        return self is other

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        plain: Any = object.__reduce_ex__(self, 2)
        return blank, (type(self), landings(self)), plain[2]

    def __repr__(self) -> str:
        return one_line(f"{type(self).__name__}({self.name})")


class PlaceholderOp(Operation):
    """An input."""

    __slots__ = ()


class ComputeOp(Operation):
    """An operation given by the value of each element; `call` is the intrinsic call that it was declared by, if any."""

    __slots__ = ("_axis", "_body", "_inputs", "_reduce_axis", "call")

    def __init__(
        self,
        name: str,
        axis: tuple[IterVar, ...],
        body: tuple[Expr, ...],
        tag: str = "",
        attrs: Any = None,
        call: IntrinsicCall | None = None,
    ) -> None:
        parts = (axis, body)
        if not all(isinstance(part, tuple) for part in parts) or not body or not all(isinstance(e, Expr) for e in body):
            raise not_made("ComputeOp", "make one with te.compute(shape, lambda i: ...).op")
        if not all(isinstance(a, IterVar) for a in axis):
            raise not_made("ComputeOp", "make one with te.compute(shape, lambda i: ...).op")
        self._axis = axis
        self._body = body
        self._inputs: tuple[Tensor, ...] | None = None
        self.call = call
        self._reduce_axis = body[0].axes if isinstance(body[0], Reduce) else ()
        shape = tuple(_extent(a) for a in axis)
        super().__init__(name, shape, tuple(e.dtype for e in body), tag, attrs)

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        self._inputs = self.call = None  # pickles of version 0.2.0 lack them
        for name, value in state[1].items():
            setattr(self, name, value)

    @property
    def axis(self) -> tuple[IterVar, ...]:
        return self._axis

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        return self._reduce_axis

    @property
    def values(self) -> tuple[Expr, ...]:
        return self._body

    @property
    def body(self) -> tuple[Expr, ...]:
        return self._body

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        if self._inputs is None:
            self._inputs = read_tensors(self._body)
        return self._inputs


# Operators and functions of elements, and methods of NumPy arrays: an element or a computation has them, not the whole
# tensor.
_NOT_OF_WHOLE_TENSORS = (
    "floordiv mod and or xor lshift rshift pow matmul "
    "rfloordiv rmod rand ror rxor rlshift rrshift rpow rmatmul "
    "lt le gt ge neg invert abs int float index round bool array array_ufunc array_function len iter setitem delitem "
    "getattr"
)
_AXES = "ijklmnpq"


def _extent(axis: IterVar) -> Expr:
    if axis.dom is None:
        raise UserError(f"axis {axis.name!r} has no extent", primitive="compute", fix="give its range: te.Range(0, n)")
    return axis.dom.extent


@refuses("tensor", _NOT_OF_WHOLE_TENSORS)
class Tensor(TensorArithmetic):
    """A multi-dimensional value; `A[i, j]` (or `A(i, j)`) is one element of it, in an expression.

    `A + B` and other operators on whole tensors are operators of the library, which broadcast.
    """

    __slots__ = ("__weakref__", "op", "value_index")

    def __init__(self, op: Operation, value_index: int) -> None:
        if not isinstance(op, Operation) or not isinstance(value_index, int):
            raise not_made("Tensor", "make one with te.placeholder or te.compute")
        self.op = op
        self.value_index = value_index

    @property
    def shape(self) -> tuple[Expr, ...]:
        """The extent of each dimension."""
        return self.op.shape_of(self.value_index)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.op.dtypes[self.value_index]

    @property
    def name(self) -> str:
        """The operation's name, with `.v0`, `.v1` ... if it has several outputs."""
        return self.op.name if len(self.op.outputs) == 1 else f"{self.op.name}.v{self.value_index}"

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The data axes of the operation."""
        return self.op.axis

    def __getitem__(self, indices: Any) -> Any:
        return TensorSlice(self, ())[indices]

    def __call__(self, *indices: Any) -> Expr:
        return self._element(indices)

    def _element(self, indices: Sequence[Any]) -> Expr:
        if len(indices) != self.ndim:
            raise UserError(
                f"tensor {self.name!r} has {quantity(self.ndim, 'dimension')} {list(self.shape)}, but is indexed with "
                f"{len(indices)}: {TensorSlice(self, tuple(indices))!r}",
                fix=f"give {quantity(self.ndim, 'index', 'indices')}: {element_of(self)}",
            )
        converted = tuple(as_expr(i) for i in indices)
        for i in converted:
            if not i.dtype.is_int:
                raise UserError(
                    f"tensor {self.name!r} is indexed with `{i}` of type {i.dtype}",
                    fix='indices are integers: convert with .astype("int32")',
                )
        return Load(self, converted)

    def same_as(self, other: object) -> bool:
        """Whether the two are one object."""
        return self is other

    def __repr__(self) -> str:
        return one_line(f"Tensor(shape={list(self.shape)}, dtype={self.dtype}, name={self.name})")


class TensorSlice(Operand):
    """A tensor with some of its indices given, so that `A[i][j]` works like `A[i, j]`."""

    __slots__ = ("indices", "tensor")

    def __init__(self, tensor: Tensor, indices: tuple[Any, ...]) -> None:
        if not isinstance(tensor, Tensor) or not isinstance(indices, tuple):
            raise not_made("TensorSlice", "index a tensor: A[i]")
        self.tensor = tensor
        self.indices = indices

    def __getitem__(self, more: Any) -> Any:
        given = (*self.indices, *(more if isinstance(more, tuple) else (more,)))
        if any(isinstance(g, slice) or g is Ellipsis for g in given):
            return TensorRegion(self.tensor, given)
        if len(given) < self.tensor.ndim:
            return TensorSlice(self.tensor, given)
        return self.tensor._element(given)

    def as_expr(self) -> Expr:
        return self.tensor._element(self.indices)

    def __iter__(self) -> NoReturn:
        raise refusal("tensor", "iter", self.tensor)

    def __setitem__(self, more: Any, value: Any) -> None:
        raise refusal("tensor", "setitem", self.tensor)

    def __repr__(self) -> str:
        given = (i.spelled() if isinstance(i, RuntimeValue) else repr(i) for i in self.indices)
        return one_line(f"{self.tensor.name}[{', '.join(given)}]")


def is_reduction(op: Operation) -> bool:
    """Return whether an operation reduces."""
    return isinstance(op, ComputeOp) and isinstance(op.body[0], Reduce)


def element_of(tensor: Tensor) -> str:
    """Write an element of a tensor: `A[i, j]`."""
    return f"{tensor.name}[{', '.join(_AXES[: tensor.ndim])}]" if tensor.ndim else f"{tensor.name}()"


def read_tensors(body: Sequence[Expr]) -> tuple[Tensor, ...]:
    """The tensors that expressions read, in order of first use."""
    found = (e.source for e in post_order(*body) if isinstance(e, Load))
    return tuple(dict.fromkeys(t for t in found if isinstance(t, Tensor)))


def extents(shape: Any, primitive: str, name: str) -> tuple[Expr, ...]:
    """`shape`, an extent or several, as integer expressions of at least 0."""
    given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    result = []
    for extent in given:
        e = whole(extent)
        if e is None or (isinstance(e, IntImm) and e.value < 0):
            raise UserError(
                f"{extent!r} is not an extent for a dimension of {name!r} (shape {shape!r})",
                primitive=primitive,
                fix="extents are whole numbers of at least 0, or integer variables",
            )
        fix = "declare the largest extent, a number or a size variable; a reduction axis may have such a range"
        result.append(counted(known_before(e, primitive, f"an extent of {name!r}", fix)))
    return tuple(result)


def _check_name(name: Any, primitive: str) -> None:
    if not isinstance(name, str):
        raise UserError(
            f"the name of the tensor is {name!r}, which is not text",
            primitive=primitive,
            fix='give some text: name="A"',
        )


def placeholder(shape: Any, dtype: str | None = None, name: str = "placeholder") -> Tensor:
    """An input tensor.

    `shape`: extents (ints or integer expressions; () for a 0-d tensor); `dtype` defaults to float32.
    """
    kind = DType("float32" if dtype is None else dtype)
    _check_name(name, "placeholder")
    if kind == "handle":
        raise UserError(
            f"the elements of {name!r} would be of type handle, which are not numbers",
            primitive="placeholder",
            fix='give a numeric dtype such as "float32"',
        )
    return PlaceholderOp(name, extents(shape, "placeholder", name), (kind,)).outputs[0]


def compute(
    shape: Any,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Any = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """A tensor given element by element: `compute((n, m), lambda i, j: A[i, j] + 1, name="B")`.

    `fcompute` is called with one axis per dimension, named after its parameters; parameters with a default get no axis.
    It returns the element's value, or a tuple of values for an operation of several outputs. A reduction
    (`te.sum(...)`) must be the whole value. A function of fewer axes calls an intrinsic of `te.decl_tensor_intrin` on
    regions of tensors: `compute((n, 16), lambda i: intrinsic(A[i, 0:16]))`. Returns the tensor (a tuple of tensors for
    several values).
    """
    _check_name(name, "compute")
    if attrs is not None and not isinstance(attrs, Mapping):
        raise UserError(f"attrs={attrs!r} of {name!r} is not a mapping", primitive="compute", fix='give {"key": value}')
    if not isinstance(tag, str):
        raise UserError(f"tag={tag!r} of {name!r} is not text", primitive="compute", fix='give tag="injective"')
    tag = tagged(tag, name)
    sizes = extents(shape, "compute", name)
    by_call = declared_by_call(fcompute, sizes, name)
    if by_call is not None:
        return ComputeOp(name, *by_call[:2], tag, attrs, by_call[2]).outputs[0]
    names = axis_names(fcompute, len(sizes), name, varargs_names)
    axes = tuple(IterVar(a, Range(e), AxisKind.DATA) for a, e in zip(names, sizes, strict=True))
    variables = tuple(axis.var for axis in axes)
    with declaring(variables), calling(f"the function of te.compute {name!r}"):
        value = fcompute(*variables)
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not values or not all(isinstance(v, (Operand, int, float, np.generic)) for v in values):
        raise UserError(
            f"the function of {name!r} returns {value!r}, which is not a value for an element",
            primitive="compute",
            fix="return an expression such as A[i, j] + 1, or a tuple of expressions",
        )
    body = tuple(as_expr(v) for v in values)
    check_values(body, name)
    op = ComputeOp(name, axes, body, tag, attrs)
    return op.outputs if isinstance(value, (tuple, list)) and len(body) > 1 else op.outputs[0]


def topological(outputs: Sequence[Operation]) -> tuple[Operation, ...]:
    """Every operation that `outputs` depend on and the outputs themselves, producers first."""
    order: dict[Operation, None] = {}
    stack = [(op, False) for op in reversed(outputs)]
    while stack:
        op, ready = stack.pop()
        if ready:
            order[op] = None
        elif op not in order:
            stack.append((op, True))
            stack.extend((t.op, False) for t in reversed(op.input_tensors) if t.op not in order)
    return tuple(order)
