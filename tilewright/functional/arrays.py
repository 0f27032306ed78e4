"""Calls on arrays of any library that supports DLPack.

NumPy, CuPy, JAX and PyTorch have fast paths of their own; this module serves every other library. It imports arrays
through DLPack, computes in their memory, and exports the result through DLPack.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core.errors import UserError
from ..core.libraries import library_name
from ..core.text import kind_of
from ..runtime.array import NDArray, empty
from ..runtime.device import cpu, device
from ..runtime.dlpack import CUDA, CUDA_MANAGED
from ..runtime.foreign import STREAMS, on_stream_of
from ..runtime.from_dlpack import from_dlpack
from .arguments.activations import custom
from .arguments.call import CallOptions, OperatorCall
from .arguments.outputs import ArrayMemory, check_places
from .arguments.signature import ArrayProperties, Arrays, Signature, signature
from .planning.plans import runner_of
from .programs.running import Program


@dataclass(frozen=True)
class Library:
    """The import and export of one library's arrays.

    Attributes
    ----------
    name : str
        Its module.
    give : callable
        Returns one of our arrays as an array of the library that shares its memory.
    """

    name: str
    give: Callable[[NDArray], Any]


LIBRARIES = {
    "tilewright": Library("tilewright", lambda out: out),
    "cupy": Library("cupy", lambda out: sys.modules["cupy"].from_dlpack(out)),
}


def library_of(array: Any) -> Library:
    """The library of an array; raises UserError for anything else."""
    name = library_name(type(array))
    found = LIBRARIES.get(name)
    if found is not None:
        return found
    if not hasattr(array, "__dlpack__"):
        raise UserError(
            f"x is {kind_of(array)}, which is not an array",
            fix="give a NumPy array, as by numpy.asarray(x), a tensor of PyTorch, or anything with __dlpack__",
        )
    module = sys.modules.get(name)
    give = getattr(module, "from_dlpack", None)
    return Library(name, give if callable(give) else lambda out: out)


def shared(array: Any) -> NDArray:
    """Return another library's array as one of ours in the same memory; a copy if it is not contiguous."""
    if isinstance(array, NDArray):
        found = array
    else:
        found = from_dlpack(array.copy() if _is_reversed(array) else array, read_only=True)
    return found if _lies_in_rows(found) else found.copyto(found.device)


def properties_of(array: Any) -> ArrayProperties:
    """The properties of one of our arrays that a call needs."""
    return ArrayProperties(tuple(array.shape), str(array.dtype), (array.device.kind, array.device.index))


def compute(call: OperatorCall) -> Any:
    """Compute an operator on arrays of any library."""
    library, on = library_of(call.x), cpu()
    if library.name in STREAMS:
        kind, index = map(int, call.x.__dlpack_device__())
        on = device("cuda", index) if kind in (CUDA, CUDA_MANAGED) else on
    with on_stream_of(library.name, on):
        return _computed(call, library)


def _computed(call: OperatorCall, library: Library) -> Any:
    given = [None if array is None else shared(array) for array in call.arrays[:-1]]
    name, out = call.name, call.out
    target = None if out is None else _written(name, out)
    seen = Arrays(*(None if array is None else properties_of(array) for array in (*given, target)))  # type: ignore[arg-type]
    checked, run = prepared(name, seen, call.options)
    on, aligned = device(*seen.x.device), max(run.program.alignment)
    reverse = out is not None and _is_reversed(out)
    suits = target is not None and not reverse and _lies_in_rows(target) and int(target.handle or 0) % aligned == 0
    result = target if suits and target is not None else empty(checked.shape, seen.x.dtype, on)
    if suits:
        _MEMORY.check_inputs(name, result, given[:2])
        given[2:] = [_MEMORY.apart(array, result) for array in given[2:]]
    if result.size:
        ready = [a if int(a.handle) % aligned == 0 else a.copyto(on) for a in (*given, result) if a is not None]
        run([int(array.handle) for array in ready], on.driver.consumer_stream(on.index) or 0)
    if target is None:
        return library.give(result)
    if reverse:
        out[...] = library_of(out).give(result)
    elif not suits:
        result.copyto(target)
    return out


def _written(name: str, out: Any) -> NDArray:
    """Return `out` as one of our arrays in the same memory; dimensions with negative strides are reversed."""
    if _is_reversed(out):
        out = out[tuple(slice(None, None, -1 if step < 0 else 1) for step in out.strides)]
    target = out if isinstance(out, NDArray) else from_dlpack(out)
    check_places(name, target.shape, target.strides or ())
    return target


def _is_reversed(array: Any) -> bool:
    """Return whether some strides are negative: producers of DLPack export them wrongly, and consumers reject them."""
    return not isinstance(array, NDArray) and any(step < 0 for step in getattr(array, "strides", None) or ())


def _lies_in_rows(array: NDArray) -> bool:
    return array.strides is None and not array.offset


def _overlap(a: NDArray, b: NDArray) -> bool:
    return a.start < b.end and b.start < a.end


_MEMORY = ArrayMemory(
    "an array", lambda array: (array.start, array.end), _overlap, lambda array: array.copyto(array.device)
)


def prepared(name: str, seen: Arrays, options: CallOptions) -> tuple[Signature, Program]:
    """Return the checked signature of a call, and the function that runs it."""
    function, text = custom(name, options.activation, seen.x.dtype)
    checked = signature(name, seen, options, text)
    return checked, runner_of(checked.problem, device(*seen.x.device), function, options.tune)
