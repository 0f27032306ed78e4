"""What is wrong with a call's arguments: the slow path, taken only when something is."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..codegen.abi import ArrayArgument, EntryPoint, ScalarArgument
from ..core.dtype import DType
from ..core.errors import InternalError, UserError
from .array import NDArray
from .device import Device


def explain(entry: EntryPoint, kind: str, args: tuple[Any, ...]) -> None:
    """Raise the UserError that says what is wrong with a call; return where nothing is."""
    if len(args) != len(entry.arguments):
        raise UserError(
            f"{entry.name} takes {len(entry.arguments)} arguments ({_signature(entry)}), but {len(args)} were given"
        )
    first: Device | None = None
    for position, (want, arg) in enumerate(zip(entry.arguments, args, strict=True)):
        if isinstance(want, ArrayArgument):
            check_array(entry, position, arg, kind, first)
            first = first or arg.device
        else:
            scalar(entry, position, arg)


def _signature(entry: EntryPoint) -> str:
    return ", ".join(f"{want.name}: {_type(want)}" for want in entry.arguments)


def _type(want: ArrayArgument | ScalarArgument) -> str:
    if isinstance(want, ScalarArgument):
        return want.dtype
    return f"{want.dtype}[{', '.join(map(str, want.shape))}]"


def check_array(entry: EntryPoint, position: int, arg: Any, kind: str, first: Device | None) -> None:
    """Raise where `arg` cannot be the array argument at `position` of a module that runs on `kind`."""
    want = entry.arguments[position]
    if isinstance(want, ScalarArgument):
        raise InternalError(f"argument {position} of {entry.name} is no array")
    who = f"argument {position} of {entry.name} ({want.name}: {_type(want)})"
    if not isinstance(arg, NDArray):
        given = f"a NumPy array of {arg.dtype}{list(arg.shape)}" if isinstance(arg, np.ndarray) else repr(arg)[:80]
        raise UserError(f"{who} is {given}", fix=f"put it on the device first: nd.array(x, tvm.{kind}(0))")
    if arg.device.kind != kind:
        raise UserError(
            f"{who} is on {arg.device}, but this module runs on {kind}", fix=f"use nd.array(x, tvm.{kind}(0))"
        )
    if first is not None and arg.device is not first:
        raise UserError(f"{who} is on {arg.device}, but an earlier argument is on {first}")
    if arg.dtype != want.dtype:
        raise UserError(f"{who} has type {arg.dtype}", fix=f"convert it: x.astype({want.dtype!r})")
    static = all(isinstance(extent, int) for extent in want.shape)
    if len(arg.shape) != len(want.shape) or (static and arg.shape != want.shape):
        raise UserError(f"{who} has shape {arg.shape}")


def scalar(entry: EntryPoint, position: int, arg: Any) -> bool | int | float:
    """The scalar argument at `position` as a Python number; raises where it is none of that type."""
    want = entry.arguments[position]
    dtype = DType(want.dtype)
    who = f"argument {position} of {entry.name} ({want.name}: {want.dtype})"
    accepted: tuple[type, ...] = (bool, np.bool_) if dtype.is_bool else (bool, np.bool_, int, np.integer)
    if dtype.is_float:
        accepted += (float, np.floating)
    if not isinstance(arg, accepted):
        raise UserError(f"{who} is {arg!r}, of type {type(arg).__name__}")
    number: Any = arg
    value = bool(number) if dtype.is_bool else float(number) if dtype.is_float else int(number)
    if dtype.is_int and not dtype.min_value <= value <= dtype.max_value:
        raise UserError(f"{who} is {value}, which does not fit")
    return value


def wrong_extent(entry: EntryPoint, position: int, array: NDArray, axis: int, want: int) -> NoReturn:
    """An extent that does not agree with the other arguments."""
    argument = entry.arguments[position]
    raise UserError(
        f"argument {position} of {entry.name} ({argument.name}: {_type(argument)}) has shape "
        f"{array.shape}: extent {axis} is {array.shape[axis]}, but the other arguments make it {want}"
    )


def misaligned(entry: EntryPoint, position: int, array: NDArray) -> NoReturn:
    """Memory that vector accesses cannot use."""
    argument = entry.arguments[position]
    raise UserError(
        f"argument {position} of {entry.name} ({argument.name}) starts at address {int(array.handle):#x}, "
        "which is not a multiple of 16, but the kernel reads or writes it by vectors",
        fix="pass an array that is no slice of another, such as a copy of it",
    )
