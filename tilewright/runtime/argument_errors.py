"""Errors of a call's arguments: the slow path, taken only after a failed check.

Host code compares (`if A.kind is not A_kind: wrong(A, 0)`); it then calls a method of `ArgumentErrors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..codegen.abi import ArrayArgument, EntryPoint, ScalarArgument
from ..core.dtype import DType
from ..core.errors import InternalError, UserError
from ..core.text import quantity
from .array import NDArray
from .layout import packed

if TYPE_CHECKING:
    from .device import Device


def raise_error(entry: EntryPoint, kind: str, args: tuple[Any, ...]) -> None:
    """Raise the UserError that describes a call's mistake; return if there is none."""
    if len(args) != len(entry.arguments):
        takes = f"{entry.name} takes {quantity(len(entry.arguments), 'argument')} ({_signature(entry)})"
        raise UserError(
            f"{takes}, but {len(args)} {'was' if len(args) == 1 else 'were'} given",
            fix=f"call it as f({', '.join(want.name for want in entry.arguments)})",
        )
    first: Device | None = None
    for position, (want, arg) in enumerate(zip(entry.arguments, args, strict=True)):
        if isinstance(want, ArrayArgument):
            check_array(entry, position, arg, kind, first)
            first = first or arg.device
        else:
            scalar(entry, position, arg)


def keyword_error(entry: EntryPoint, named: Mapping[str, Any]) -> UserError:
    """The error for a call with keywords."""
    return UserError(
        f"{entry.name} takes its {len(entry.arguments)} arguments by position, but {', '.join(named)} came by name",
        fix=f"call it as f({', '.join(want.name for want in entry.arguments)})",
    )


def _signature(entry: EntryPoint) -> str:
    return ", ".join(f"{want.name}: {_type(want)}" for want in entry.arguments)


def _type(want: ArrayArgument | ScalarArgument) -> str:
    if isinstance(want, ScalarArgument):
        return want.dtype
    return f"{want.dtype}[{', '.join(map(str, want.shape))}]"


def _who(entry: EntryPoint, position: int) -> str:
    want = entry.arguments[position]
    return f"argument {position} of {entry.name} ({want.name}: {_type(want)})"


def check_array(entry: EntryPoint, position: int, arg: Any, kind: str, first: Device | None) -> None:
    """Raise if `arg` cannot be the array argument at `position` of a module that runs on `kind`."""
    want = entry.arguments[position]
    if isinstance(want, ScalarArgument):
        raise InternalError(f"argument {position} of {entry.name} is not an array")
    who = _who(entry, position)
    if not isinstance(arg, NDArray):
        raise UserError(f"{who} is {_foreign(arg)}, not an NDArray", fix=_how_to_pass(arg, kind))
    if arg.device.kind != kind:
        raise UserError(
            f"{who} is on {arg.device}, but this module runs on {kind}", fix=f"use nd.array(x, nd.{kind}(0))"
        )
    if first is not None and arg.device is not first:
        raise UserError(
            f"{who} is on {arg.device}, but an earlier argument is on {first}",
            fix=f"copy it there: x.copyto(nd.{kind}({first.index}))",
        )
    if arg.dtype != want.dtype and not _holds_bits(arg, want):
        raise UserError(
            f"{who} has type {arg.dtype}, but the program reads {want.dtype}",
            fix=f"convert it: nd.array(x.numpy().astype({want.dtype!r}), x.device)",
        )
    static = all(isinstance(extent, int) for extent in want.shape)
    if len(arg.shape) != len(want.shape) or (static and arg.shape != want.shape):
        raise UserError(f"{who} has shape {arg.shape}", fix=f"pass an array of shape {_shape(want)}")
    if (arg.strides is not None or arg.offset) and not want.strided:
        held = f"strides {arg.strides}" if arg.strides is not None else f"an offset of {arg.offset} elements"
        raise UserError(
            f"{who} has {held}, but the program was built for contiguous elements",
            fix="pass a contiguous copy (nd.array(x.numpy(), x.device)), or build with binds={tensor: "
            "tir.decl_buffer(shape, dtype, strides=[...])}",
        )


def _holds_bits(arg: NDArray, want: ArrayArgument) -> bool:
    """Whether an array holds bfloat16 numbers as NumPy without ml_dtypes does: as uint16."""
    return (str(arg.dtype), str(want.dtype)) == ("uint16", "bfloat16")


def _foreign(arg: Any) -> str:
    """A description of an argument that is not one of our arrays."""
    if isinstance(arg, np.ndarray):
        return f"a NumPy array of {arg.dtype}{list(arg.shape)}"
    if hasattr(arg, "__dlpack__"):
        return f"a {type(arg).__module__.partition('.')[0]}.{type(arg).__name__}"
    return repr(arg)[:80]


def _how_to_pass(arg: Any, kind: str) -> str:
    if hasattr(arg, "__dlpack__") and not isinstance(arg, np.ndarray):
        return "share its memory with nd.from_dlpack(x)"
    return f"put it on the device first: nd.array(x, nd.{kind}(0))"


def _shape(want: ArrayArgument) -> str:
    return f"({', '.join(map(str, want.shape))}{',' if len(want.shape) == 1 else ''})"


def scalar(entry: EntryPoint, position: int, arg: Any) -> bool | int | float:
    """The scalar argument at `position` as a Python number; raises if it has another type."""
    dtype = DType(entry.arguments[position].dtype)
    who = _who(entry, position)
    accepted: tuple[type, ...] = (bool, np.bool_) if dtype.is_bool else (bool, np.bool_, int, np.integer)
    if dtype.is_float:
        accepted += (float, np.floating)
    if not isinstance(arg, accepted):
        raise UserError(f"{who} is {arg!r}, of type {type(arg).__name__}", fix=f"pass a number of type {dtype}")
    number: Any = arg
    value = bool(number) if dtype.is_bool else float(number) if dtype.is_float else int(number)
    if dtype.is_float and dtype.bits == 16:  # a kernel takes a float32, which must be a number of the 16-bit type
        with np.errstate(over="ignore"):
            return float(np.asarray(value).astype(dtype.numpy))
    if dtype.is_int and not dtype.min_value <= value <= dtype.max_value:
        raise UserError(
            f"{who} is {value}, which does not fit", fix=f"{dtype} holds {dtype.min_value} to {dtype.max_value}"
        )
    return value


class ArgumentErrors:
    """The functions that the host code of one function calls for a wrong argument; every method raises or returns a
    value."""

    def __init__(self, entry: EntryPoint, kind: str, on: Device) -> None:
        self.entry = entry
        self.kind = kind
        self.on = on

    def names(self) -> dict[str, Any]:
        """The methods under the names that host code uses."""
        found = (name for name in vars(ArgumentErrors) if not name.startswith("_") and name != "names")
        return {name: getattr(self, name) for name in found}

    def wrong(self, array: Any, position: int) -> None:
        """Raise for an argument of another type, device, shape or layout; return for one that only has another name."""
        check_array(self.entry, position, array, self.kind, self.on)
        want = self.entry.arguments[position]
        if isinstance(want, ArrayArgument) and _holds_bits(array, want):
            return
        raise InternalError(f"argument {position} of {self.entry.name} was refused, and nothing is wrong with it")

    def scalar(self, value: Any, position: int) -> bool | int | float:
        """A scalar that is not a plain Python number of its type."""
        return scalar(self.entry, position, value)

    def strided(self, array: Any, position: int) -> tuple[int, ...]:
        """Return the strides of an array that may have any strides, after checks of its device, type and rank."""
        if not isinstance(array, NDArray) or array.device is not self.on:
            self.wrong(array, position)
        want = self.entry.arguments[position]
        if not isinstance(want, ArrayArgument) or array.dtype != want.dtype or len(array.shape) != len(want.shape):
            self.wrong(array, position)
        return array.strides or packed(array.shape)

    def wrong_extent(self, array: NDArray, position: int, axis: int, want: int) -> NoReturn:
        """An extent that does not agree with the other arguments."""
        raise UserError(
            f"{_who(self.entry, position)} has shape {array.shape}: extent {axis} is {array.shape[axis]}, but "
            f"the other arguments make it {want}",
            fix="pass arrays with extents that agree with the declaration"
            if want >= 0
            else "the others are too small for this program",
        )

    def wrong_size(self, which: int, value: int) -> NoReturn:
        """A size that violates the declaration of its variable."""
        fact = self.entry.facts[which]
        raise UserError(
            f"{fact.name} is {value} ({fact.place}), but it is declared to be {fact.known}",
            fix="pad the arrays to such a size, or build the program without declaring that",
        )

    def beyond(self, which: int, low: int, high: int, extent: int, *values: int) -> NoReturn:
        """Refuse arguments for which an index leaves its tensor."""
        read = self.entry.reads[which]
        runs = f"is {low}" if low == high else f"runs from {low} to {high}"
        where = ", ".join(f"{name} = {value}" for name, value in zip(read.names, values, strict=True))
        inside = f"must stay within 0 to {extent - 1}" if extent > 0 else f"{read.tensor!r} has no element there"
        raise UserError(
            f"this call of {self.entry.name} reads beyond the ends of {read.tensor!r}: in {read.read} of stage "
            f"{read.stage!r}, index {read.dimension} {runs} at {where}, but {inside}",
            fix="pass arguments for which it stays inside, or build the program with a read under a condition: "
            f"te.if_then_else(..., {read.read}, 0)",
        )

    def wrong_stride(self, array: NDArray, position: int, axis: int, want: int) -> NoReturn:
        """Refuse a stride other than the declared stride."""
        strides = array.strides or packed(array.shape)
        raise UserError(
            f"{_who(self.entry, position)} has strides {strides}: the stride of dimension {axis} is {strides[axis]}, "
            f"but the program was built for {want}",
            fix="pass a copy with the declared strides, or declare the stride as a variable",
        )

    def wrong_offset(self, array: NDArray, position: int, want: int) -> NoReturn:
        """A first element elsewhere than declared."""
        raise UserError(
            f"{_who(self.entry, position)} starts {array.offset} elements into its memory, but the program was built "
            f"for {want}",
            fix='declare it: tir.decl_buffer(..., elem_offset=te.var("offset"))',
        )

    def too_large(self, name: str, elements: int) -> NoReturn:
        """More elements than 32-bit indices count."""
        raise UserError(
            f"{name} of {self.entry.name} has {elements:,} elements, too many for the 32-bit indices of this program",
            fix='declare its sizes with 64 bits: te.var("n", "int64")',
        )

    def too_many(self, name: str, needed: int) -> NoReturn:
        """A launch that is larger than the hardware allows."""
        limit = next(limit for limit in self.entry.limits if limit.name == name)
        stages = ", ".join(map(repr, limit.stages))
        why = f" of {limit.registers} registers each" if limit.registers else ""
        raise UserError(
            f"this call of {self.entry.name} needs {needed:,} {limit.what} for stage {stages}, but {self.kind} allows "
            f"{limit.allowed:,}{why}",
            primitive="bind",
            fix="split the bound axis by a constant factor and bind the inner loop there, or pass smaller arrays",
        )

    def overlap(self, first: int, second: int) -> NoReturn:
        """Refuse two arguments that share memory if the program writes one of them."""
        raise UserError(
            f"{_who(self.entry, first)} and {_who(self.entry, second)} share memory, and one of them is written",
            fix="give each result an array of its own: the kernels rely on it",
        )

    def apart(self, *spans: tuple[int, int, int, bool]) -> None:
        """Check that memory that is written is not shared: (start, end, position, whether it is written) of each."""
        last = last_written = (0, 0)  # the largest end so far, and its argument
        for start, end, position, written in sorted(span for span in spans if span[0] < span[1]):
            before, other = last if written else last_written
            if start < before:
                self.overlap(min(other, position), max(other, position))
            last = max(last, (end, position))
            last_written = max(last_written, (end, position)) if written else last_written

    def misaligned(self, array: NDArray, position: int) -> NoReturn:
        """Memory that vector accesses cannot use."""
        raise UserError(
            f"argument {position} of {self.entry.name} ({self.entry.arguments[position].name}) starts at address "
            f"{int(array.handle):#x}, which is not a multiple of 16, but the kernel reads or writes it by vectors",
            fix="pass an array that is not a slice of another, such as a copy of it",
        )
