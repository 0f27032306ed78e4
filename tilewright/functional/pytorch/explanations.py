"""The kernels of calls on PyTorch's tensors with gradients, for `explain_call`."""

from __future__ import annotations

from typing import Any

import torch

from ..arguments.call import OperatorCall
from ..arguments.signature import Signature
from ..planning.plans import CallPlan, plan_for
from .calls import is_direct
from .eager import records
from .operators import joint_gradients
from .operators.gradients import is_one_pass
from .operators.layer import CalledLayer, gradients_of_ours, is_wide
from .operators.registration import convolution_options
from .state import as_autocast
from .tensors import RIVAL, place
from .training import steps

ALONE = f"the kernels of {RIVAL} in both passes: PyTorch computes and differentiates the whole layer in less time"


def as_read(call: OperatorCall) -> OperatorCall:
    """Return the call with its tensors in the types of autocast, except for poolings, which ignore autocast."""
    if call.weight is None:
        return call
    return OperatorCall._make((call.name, *as_autocast(call.arrays[:4]), call.out, call.options))


def is_by_pytorch_alone(call: OperatorCall, checked: Signature) -> bool:
    """Return whether PyTorch computes and differentiates a call as a whole."""
    return records(call.arrays) and is_direct(call) and steps.by_pytorch_alone(call, checked) is not None


def gradients(call: OperatorCall, checked: Signature) -> list[tuple[CallPlan, str]]:
    """Return the plans of the gradients that our operators compute, with the shapes of their results."""
    if call.weight is None or not records(call.arrays):
        return []
    wanted = of_x, of_weight, *_ = [a is not None and a.requires_grad for a in call.arrays[:4]]
    arrays, biased = as_read(call).arrays[:4], call.bias is not None
    x, weight, *_ = arrays
    options, on = convolution_options(call, arrays), place(call.name, x)
    with torch.no_grad():  # backward passes run without gradients
        if is_one_pass(options, x, weight, tuple(wanted), call.residual is not None):
            plan = joint_gradients.plan_of(options, x, weight, biased)
            if plan is not None:
                return [(plan, f"{tuple(x.shape)} and {(weight.numel() + weight.shape[0] * biased,)}")]
            problems = gradients_of_ours(checked.problem, of_weight, of_x)
        else:
            wide = is_direct(call) and is_wide(call.weight.dtype, x.dtype)
            together = CalledLayer.of(options, x, weight).adds_up_bias(x, wanted, biased)
            problems = gradients_of_ours(checked.problem, of_weight, of_x, wide, together)
        found: list[tuple[CallPlan, Any]] = [(plan_for(each, on, RIVAL), each.made_shape) for each in problems]
    return [(plan, f"{shape}") for plan, shape in found]
