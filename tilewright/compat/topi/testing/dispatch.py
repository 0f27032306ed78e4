"""The schedules and declarations that suit a target, for programs that run on several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....core.errors import UserError
from ....core.target import Target
from ....driver import build
from ....runtime.array import array
from ....runtime.device import Device
from ....schedule.handle import ScheduleHandle
from ....tensor.tensor import Tensor, placeholder
from ....topi import nn
from .. import cuda, generic, x86

Scheduler = Callable[..., ScheduleHandle]
_FACES: dict[str, Any] = {"generic": generic, "cpu": x86, "gpu": cuda}


def dispatch(target: Any, dispatch_map: Mapping[str, Any]) -> Any:
    """Return the entry for the first key of a target that the table has, else the one for "generic".

    Parameters
    ----------
    target : Target or str
        The target of a program.
    dispatch_map : mapping
        Anything by keys of targets: "cpu", "gpu", "cuda", "opencl", "generic".

    Raises
    ------
    UserError
        If no key fits.
    """
    chosen = Target.parse(target)
    key = next((key for key in (*chosen.keys, "generic") if key in dispatch_map), None)
    if key is None:
        raise UserError(
            f"none of the keys {', '.join(map(repr, dispatch_map))} is one of {chosen}",
            primitive="dispatch",
            fix=f'add one of {", ".join(map(repr, chosen.keys))}, or "generic"',
        )
    return dispatch_map[key]


def get_injective_schedule(target: Any) -> Scheduler:
    """Return the function that schedules operators without reductions for a target."""
    made: Scheduler = dispatch(target, _FACES).schedule_injective
    return made


def get_broadcast_schedule(target: Any) -> Scheduler:
    """Return the function that schedules broadcasting operators for a target."""
    return get_injective_schedule(target)


def get_elemwise_schedule(target: Any) -> Scheduler:
    """Return the function that schedules element-wise operators for a target."""
    return get_injective_schedule(target)


def get_reduce_schedule(target: Any) -> Scheduler:
    """Return the function that schedules reductions for a target."""
    made: Scheduler = dispatch(target, _FACES).schedule_reduce
    return made


def get_conv2d_nchw_implement(target: Any) -> tuple[Any, Scheduler]:
    """Return the declaration of `conv2d_nchw` for a target, and the function that schedules it."""
    face = dispatch(target, _FACES)
    return face.conv2d_nchw if face is cuda else nn.conv2d_nchw, face.schedule_conv2d_nchw


def compare_numpy_tvm(
    inputs: Sequence[np.ndarray],
    output: np.ndarray,
    target: Any,
    device: Device,
    compute: Callable[..., Tensor],
    schedule: Scheduler,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> None:
    """Build an operator, run it, and raise AssertionError unless its result equals NumPy's.

    Parameters
    ----------
    inputs : list of numpy.ndarray
        The operator's inputs; they give the shapes and types of its tensors.
    output : numpy.ndarray
        The expected result.
    target : Target or str
        The target to build for.
    device : Device
        The device to run on.
    compute : callable
        From tensors to the result's tensor.
    schedule : callable
        From the result's tensor to a schedule.
    rtol, atol : float
        The error allowed, relative to the value and absolute.
    """
    from_numpy = [placeholder(a.shape, str(a.dtype), f"input{i}") for i, a in enumerate(inputs)]
    out = compute(*from_numpy)
    with Target.parse(target):
        s = schedule([out])
    found = array(np.zeros(output.shape, output.dtype), device)
    build(s, [*from_numpy, out], target=target)(*(array(a, device) for a in inputs), found)
    np.testing.assert_allclose(found.numpy(), output, rtol=rtol, atol=atol)
