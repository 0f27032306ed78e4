"""The C entry point of a function: its name and its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...core.dtype import DType
from ...core.errors import UserError
from ...core.text import identifier, remark
from ...expr import nodes as n
from ...expr import operators as op
from ...expr.traverse import variables
from ...loops.nodes import Buffer, Function
from ..abi import EntryPoint
from ..dialect import C_WORDS
from ..host_checks import INT32_ELEMENTS
from ..kernel import Kernel
from ..names import Names

DONE, OUT_OF_MEMORY, WRONG_SIZE, NO_DEVICE = range(4)
"""The status codes of an entry point."""
_TYPES = {"bool": "uint8_t", "float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float", "float64": "double"}


def c_type(dtype: DType) -> str:
    """The C type of an element; 16-bit floats are their bits."""
    scalar = dtype.scalar
    return _TYPES.get(str(scalar)) or f"{scalar}_t"


def scalar_c_type(dtype: DType) -> str:
    """The C type of a number that is passed: 16-bit floats come as a float."""
    return "float" if dtype.is_float and dtype.bits == 16 else c_type(dtype)


class CParameter(NamedTuple):
    """One parameter: a pointer, a number, or a size of arrays."""

    name: str
    value: Buffer | n.Var
    written: bool
    note: str
    align: int = 1
    """Bytes that a pointer has to be a multiple of."""


@dataclass(frozen=True)
class CSignature:
    """An entry point in C."""

    name: str
    function: Function
    parameters: tuple[CParameter, ...]
    requires: tuple[n.Expr, ...]
    """Conditions on the numbers and sizes: if one fails, the entry point returns `WRONG_SIZE`."""

    @property
    def sizes(self) -> tuple[n.Var, ...]:
        """The parameters that are numbers."""
        return tuple(p.value for p in self.parameters if isinstance(p.value, n.Var))


_OTHERS = frozenset(("stream", "queue", "status", "arguments", "main"))


def signatures(
    functions: Sequence[Function], kernels: Sequence[Sequence[Kernel]], entries: Sequence[EntryPoint]
) -> tuple[CSignature, ...]:
    """Return the entry points of functions, given their kernels and host code.

    Raises UserError if two would have the same name.
    """
    names = [_symbol(function.name) for function in functions]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(
            f"two functions would be called {twice!r} in C", primitive="export_library", fix="give them other names"
        )
    return tuple(map(_signature, functions, names, kernels, entries))


def _symbol(name: str) -> str:
    """A function's name in C: its own if that is an identifier, `default_function` for `main`."""
    if name == "main":
        return "default_function"
    base = identifier(name)
    return f"{base}_" if base in C_WORDS else base


def _signature(function: Function, symbol: str, kernels: Sequence[Kernel], entry: EntryPoint) -> CSignature:
    names = Names(C_WORDS | _OTHERS | {symbol})
    written = {buffer for kernel in kernels for buffer in kernel.written}
    parameters = [
        CParameter(names(p), p, p in written, _note(p), getattr(argument, "align", 1))
        for p, argument in zip(function.params, entry.arguments, strict=True)
    ]
    known = {p for p in function.params if isinstance(p, n.Var)}
    for buffer in function.buffers:
        given = (*buffer.shape, *(buffer.layout.given or ()), buffer.layout.start)
        for size in variables(*given):
            if size not in known:
                known.add(size)
                parameters.append(CParameter(names(size), size, False, _note(size)))
    return CSignature(symbol, function, tuple(parameters), _required(function, known))


def _note(p: Buffer | n.Var) -> str:
    if isinstance(p, n.Var):
        return str(p.known)
    shape = " x ".join(str(extent) for extent in p.shape) or "one element"
    strides = "" if p.layout.given is None else f", strides {', '.join(map(str, p.layout.given))}"
    return f"{p.dtype}, {remark(shape)}{remark(strides)}"


def _required(function: Function, known: set[n.Var]) -> tuple[n.Expr, ...]:
    """Write the checks that calls from Python also make: declared facts, invalid sizes, indices beyond 32 bits, and
    reads out of range."""
    found: dict[n.Expr, None] = {}
    extents = [extent for buffer in function.buffers for extent in buffer.shape]
    for size in sorted(known, key=lambda v: v.name):
        least, most, step = size.known
        if any(extent is size for extent in extents):
            least = max(least or 0, 0)
        found.update({op.greater_equal(size, least): None} if least is not None else {})
        found.update({op.less_equal(size, most): None} if most is not None else {})
        found.update({op.equal(op.floormod(size, step), 0): None} if step > 1 else {})
    for buffer in function.buffers:
        if any(extent.dtype.bits > 32 for extent in buffer.shape) or not variables(*buffer.shape):
            continue
        wide = [op.cast("int64", extent) for extent in buffer.shape]
        elements = op.cast("int64", op.multiply(buffer.layout.size(wide), buffer.dtype.lanes))
        found[op.less_equal(elements, INT32_ELEMENTS)] = None
    for check in function.reads:
        if all(v in known for v in check.arguments):
            found[op.logical_not(op.all_of(*check.when, check.outside))] = None
    return tuple(e for e in found if not isinstance(e, n.IntImm))
