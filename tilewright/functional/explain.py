"""The kernel that a call runs, and the reason."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.errors import UserError
from ..core.libraries import library_name
from ..core.text import quantity
from ..runtime.device import Device, cpu, device
from . import numpy_arrays
from . import operators as public
from .arguments.activations import custom
from .arguments.call import ARRAYS, PUBLIC, CallOptions, OperatorCall
from .arguments.named_arguments import named_input
from .arguments.problem import Problem
from .arguments.signature import Arrays, Signature, signature
from .arrays import library_of, properties_of, shared
from .planning.decision import Side
from .planning.plans import CallPlan, plan_for
from .programs.store import store

_TF32 = {
    "topi/conv2d.tf32": "operands are rounded to 11 significant bits",
    "topi/conv2d.wgmma_tf32": "operands are cut to 11 significant bits: errors of some 7e-4",
}
"""The rounding of float32 operands, by template."""


def explain_call(function: Callable[..., Any] | str, *args: Any, **named: Any) -> str:
    """Describe the kernel that a call would run, without running the call.

    On CPUs, kernels may be timed, as in a first call.

    Parameters
    ----------
    function : callable or str
        One of the package's operators, such as `tilewright.conv2d`, or its name.
    *args, **named
        The arguments of the call.

    Returns
    -------
    str
        A few lines: the problem, the kernel and its configuration, the reason for the choice, and its origin. If
        PyTorch would record the call for gradients, the text describes each gradient computed by our operators the same
        way. It also says if one kernel computes all gradients, or PyTorch the whole layer.

    Raises
    ------
    UserError
        If the call itself would raise it, or if the function is not one of the operators.
    """
    name = function if isinstance(function, str) else getattr(function, "__name__", "")
    if name not in PUBLIC:
        named_or_called = isinstance(function, str) or callable(function)
        shown = repr(function) if named_or_called else f"the first argument, of type {type(function).__name__},"
        raise UserError(
            f"{shown} is not one of the operators",
            primitive="explain_call",
            fix=f"give one of {', '.join(PUBLIC)} first, then the arguments of the call",
        )
    public_function = getattr(public, name)
    try:
        bound = inspect.signature(public_function).bind(*args, **named)
    except TypeError as error:
        raise UserError(str(error), primitive=name, fix=f"see help(tilewright.{name}) for the arguments") from error
    bound.apply_defaults()
    given = dict(bound.arguments)
    x, named_x = given.pop("x"), given.pop("named")
    x = named_input(public_function, x, named_x) if named_x else x
    arrays = {what: given.pop(what, None) for what in ARRAYS[1:]}
    call = OperatorCall(name, x, **arrays, options=CallOptions(**given))
    checked, on, rival, function_of = _seen(call)
    rank = call.operator.rank
    seen = f"problem: {checked.problem.text(rank)}\nresult:  {checked.shape} on {on}"
    if 0 in checked.shape:
        return f"{seen}\nruns:    nothing, since the result is empty"
    if by_xla := _by_xla(call, checked.problem, on):
        return f"{seen}\nruns:    XLA's own operator: {by_xla}"
    if rival:
        from .pytorch import explanations

        if explanations.is_by_pytorch_alone(call, checked):
            return f"{seen}\nruns:    {explanations.ALONE}"
    plan = plan_for(checked.problem, on, rival, function_of, call.options.tune)
    lines = _lines(rank, checked.problem, f"{checked.shape}", plan, rival)
    for gradient, result in explanations.gradients(call, checked) if rival else ():
        lines += ["", *_lines(rank, gradient.problem, result, gradient, rival)]
    return "\n".join(lines)


def _by_xla(call: OperatorCall, problem: Problem, on: Device) -> str:
    """Return the reason why a call on arrays of JAX runs XLA's own operator; "" if it runs ours."""
    if library_name(type(call.x)) != "jax" or call.options.tune is not None:
        return ""
    from .jax.lowering import reason_for_xla

    return reason_for_xla(problem, on)


def _seen(call: OperatorCall) -> tuple[Signature, Device, str, Any]:
    """Return the signature of a call, its device, its rival and its activation."""
    if isinstance(call.x, np.ndarray):
        checked, function = numpy_arrays.signed(call)
        return checked, cpu(), "", function
    if library_name(type(call.x)) == "torch":
        from .pytorch import explanations, tensors

        tensors.check_types(call)
        checked, function = tensors.signed(explanations.as_read(call))
        return checked, tensors.place(call.name, call.x), tensors.RIVAL, function
    library_of(call.x)  # an error, if it is no array
    arrays = [None if a is None else properties_of(shared(a)) for a in call.arrays]
    assert arrays[0] is not None
    function, text = custom(call.name, call.options.activation, arrays[0].dtype)
    checked = signature(call.name, Arrays(*arrays), call.options, text)  # type: ignore[arg-type]  # x is there
    return checked, device(*arrays[0].device), "", function


def _lines(rank: int, problem: Problem, result: str, plan: CallPlan, rival: str) -> list[str]:
    choice, executable = plan.choice, plan.executable
    lines = [f"problem: {problem.text(rank)}", f"result:  {result} on {plan.on}"]
    if choice.side == Side.THEIRS:
        lines.append(f"runs:    the kernel of {rival}: {choice.why}")
    elif executable is not None:
        launch = executable.launches[-1]
        count = quantity(len(executable.launches), "kernel")
        size = f"{count}, the last one of grid {launch.grid} and block {launch.block}"
        lines += [f"runs:    {choice.template}, {size}" if plan.on.kind == "cuda" else f"runs:    {choice.template}"]
        lines += [f"config:  {choice.config}", f"because: {choice.why}"]
        lines += [f"remark:  {choice.remark}"] if choice.remark else []
        lines += [f"tf32:    {_TF32[choice.template]}"] if choice.template in _TF32 else []
    if choice.seconds:
        other = f", {rival} {choice.rival_seconds * 1e6:.2f} µs" if choice.rival_seconds else ""
        lines.append(f"time:    {choice.seconds * 1e6:.2f} µs{other}")
    where = store().folder
    origin = {"disk": f"off the disk ({where})", "compiled": "compiled in this process"}[plan.origin]
    return [*lines, f"origin:  {origin}"]
