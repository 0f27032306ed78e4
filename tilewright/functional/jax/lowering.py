"""Lower the operator for XLA: to a custom call of our kernel, or to XLA's own operators.

The device is first known when JAX lowers a program, so that is when the plan is made.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax.interpreters import mlir

from ...runtime.device import Device, cpu, cuda
from ..arguments.activations import FUNCTIONS
from ..arguments.problem import Problem
from ..planning import rivals
from ..planning.decision import Tune
from ..planning.plans import plan_for
from .by_xla import by_xla, made_shape
from .operator import operator
from .xla_targets import target_of


def _lowered(place: Callable[[], Device | None], ctx: Any, *operands: Any, problem: Problem, tune: Tune) -> Any:
    """Return the operations of a call on a supported kind of device."""
    return mlir.lower_fun(_chosen(problem, place(), tune), multiple_results=False)(ctx, *operands)


def _chosen(problem: Problem, on: Device | None, tune: Tune) -> Callable[..., Any]:
    """Return the JAX function for a problem on a device; `on` is None for devices without kernels of ours."""
    if 0 in problem.shape:
        return lambda *_: jax.numpy.zeros(made_shape(problem), problem.dtype)
    if on is None or (tune is None and reason_for_xla(problem, on)):
        return partial(by_xla, problem)
    plan = plan_for(problem, on, "", FUNCTIONS.get(problem.activation), tune)
    program = plan.executable
    assert program is not None  # without a rival, a plan always has our kernel
    results = (
        jax.ShapeDtypeStruct(made_shape(problem), problem.dtype),
        *[jax.ShapeDtypeStruct((size,), "uint8") for size in program.scratch],
    )
    target = jax.ffi.ffi_call(target_of(program, on), results)
    return lambda *arrays: target(*arrays)[0]


def reason_for_xla(problem: Problem, on: Device) -> str:
    """Return the reason why XLA's own operator computes a problem, or "" if ours does.

    For dense layers, XLA calls cuDNN, as PyTorch does. On CPUs, and for groups, XLA's kernels are slower than
    PyTorch's.
    """
    if on.kind != "cuda" or not problem.has_weights or problem.groups != 1 or problem.activation.startswith("custom:"):
        return ""
    return rivals.reason_on_gpu(problem, rivals.table())


def _gpu() -> Device | None:
    """Return JAX's first GPU, for which plans are made; other GPUs of the same kind run the same machine code.

    Returns None without a GPU: a program may be lowered for another machine.
    """
    try:
        return cuda(jax.local_devices(backend="cuda")[0].local_hardware_id or 0)
    except RuntimeError:
        return None


mlir.register_lowering(operator, partial(_lowered, lambda: None))
mlir.register_lowering(operator, partial(_lowered, cpu), platform="cpu")
mlir.register_lowering(operator, partial(_lowered, _gpu), platform="cuda")
