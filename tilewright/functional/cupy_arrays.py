"""The fast path for CuPy's arrays: one look-up by shapes and options, then a launch with addresses.

Misaligned arrays, arrays with gaps, and an `out` that shares memory with an operand go through DLPack, like the arrays
of other libraries (`arrays.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from . import arrays as any_arrays
from .arguments.call import OperatorCall, operator_call
from .arguments.signature import ArrayProperties, Arrays
from .planning.prepared_calls import PreparedCalls
from .programs.launcher import MISALIGNED
from .programs.running import GpuProgram

Run = Callable[[Any, Any, Any, Any, Any], Any]
_calls = PreparedCalls()


def call(name: str, x: Any, w: Any, bias: Any, residual: Any, out: Any, options: tuple[Any, ...]) -> Any:
    """Compute an operator on arrays of CuPy; `options` are in the order of `call.py`."""
    given = (x, w, bias, residual, out)
    try:
        key = (name, options, *[None if a is None else (a.shape, a.dtype, a.data.device_id) for a in given])
        run = _calls.get(key)
        made = _first(key, operator_call(name, *given, options)) if run is None else run(*given)
    except (TypeError, AttributeError):  # an option in a list, or an array of another library
        made = None
    return any_arrays.compute(operator_call(name, *given, options)) if made is None else made


def _first(key: Any, call: OperatorCall) -> Any:
    """Compute the first call of its kind."""
    if not all(type(a) is type(call.x) for a in call.arrays if a is not None):
        return None
    return _calls.made(key, lambda: _prepared(call))(*call.arrays)


def _properties_of(a: Any) -> ArrayProperties | None:
    return None if a is None else ArrayProperties(a.shape, str(a.dtype), ("cuda", a.data.device_id))


def _prepared(call: OperatorCall) -> Run:
    """Return the executor of all calls with these shapes, types and options; it returns None for arrays with gaps."""
    seen = Arrays(*[_properties_of(a) for a in call.arrays])  # type: ignore[arg-type]  # x is there
    checked, program = any_arrays.prepared(call.name, seen, call.options)
    if 0 in checked.shape:
        return lambda *_: None
    assert isinstance(program, GpuProgram)
    cupy, index, kernel = sys.modules["cupy"], program.index, program.direct
    empty, current, stream = partial(cupy.empty, checked.shape, call.x.dtype), cupy.cuda.runtime.getDevice, _stream

    def run(x: Any, w: Any, bias: Any, residual: Any, out: Any) -> Any:
        given = [a for a in (x, w, bias, residual) if a is not None]
        if current() != index or not all([a.flags.c_contiguous for a in given]):
            return None
        if out is not None and not (out.flags.c_contiguous and all([_are_apart(a, out) for a in given])):
            return None
        made = empty() if out is None else out
        pointers = [a.data.ptr for a in given]
        if kernel is None:
            program([*pointers, made.data.ptr], stream())
        elif status := kernel.start(*pointers, made.data.ptr, stream()):
            if status == MISALIGNED:
                return None
            kernel.failed(status, (*pointers, made.data.ptr, stream()))
        return made

    return run


def _are_apart(a: Any, b: Any) -> bool:
    """Return whether contiguous arrays share no memory."""
    return bool(a.data.ptr + a.nbytes <= b.data.ptr or b.data.ptr + b.nbytes <= a.data.ptr)


def _stream() -> int:
    """Return the address of the current stream of the current GPU."""
    found: int = sys.modules["cupy"].cuda.get_current_stream().ptr
    return found
