"""Training on CPUs: layers that PyTorch computes and differentiates as a whole.

PyTorch's autograd is written in C++, and computes several gradients at once. Our backward pass takes tens of
microseconds more on the host, so our kernels must save more than that in both passes together.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch

from ...arguments.call import ARRAYS, OperatorCall
from ...arguments.problem import CONV, Problem
from ...arguments.signature import Signature
from ...planning import rivals
from ...planning.decision import Side
from ...planning.plans import plan_for
from ...planning.prepared_calls import PreparedCalls
from .. import native
from ..operators.layer import gradients_of_ours
from ..state import autocasts
from ..tensors import RIVAL, channels_last, facts, in_order, place
from ..threads import by_pytorch, lost
from ..timing import in_turns
from .shortest_path import shortest

_HOST_SECONDS = 80e-6
"""The additional time on the host of our backward pass.

A step that is not timed runs our kernels if they save this time plus a share of PyTorch's time. The share is larger if
PyTorch still computes the gradient of the input.
"""
_LEAST_SAVED_SHARE = 0.1
_LEAST_SAVED_SHARE_BESIDE = 0.4
"""Larger, because PyTorch may take as long for the gradient of the input as for both gradients."""

_decisions = PreparedCalls()
"""Whether our kernels are faster, by the properties of a call. Calls and `explain_call` share these decisions."""


def by_pytorch_alone(call: OperatorCall, checked: Signature) -> Callable[..., Any] | None:
    """Return an executor of such direct calls by functions that PyTorch differentiates.

    Return None if ours is faster, or if PyTorch's own autograd cannot compute the whole layer.
    """
    x, weight = call.x, call.weight
    if x.device.type != "cpu" or not weight.requires_grad or autocasts():
        return None
    rank = call.operator.rank
    in_memory_order = all(a.is_contiguous() or (rank == 2 and channels_last(a, rank)) for a in (x, weight))
    if call.operator.op != CONV or not in_memory_order or not _has_usual_strides(x):
        return None
    if not weight.is_contiguous() and (weight.dtype == torch.float64 or 1 in weight.shape):
        return None  # PyTorch's gradients do not support some of these orders
    problem = checked.problem
    # In 16 bits, PyTorch rounds the sums before it adds a residual, and again afterwards.
    if x.element_size() == 2 and (problem.residual or not native.is_right_in_16_bits(problem)):
        return None
    if 0 in problem.shape:
        return None
    wanted = weight.requires_grad, x.requires_grad
    on, without = place(call.name, x), problem._replace(bias=False, residual=False, activation="")
    with torch.no_grad():
        directions = [problem, *gradients_of_ours(problem, *wanted)]
        ours = [each for each in directions if plan_for(each, on, RIVAL).choice.side == Side.OURS]
    every = [without, *(each for each, asked in zip(problem.gradients, wanted, strict=True) if asked)]
    compute = native.computed(problem, call.name, call.options.layout, x.dim(), on_gpu=False)
    key = (call.name, call.options, *[None if a is None else (facts(a), a.requires_grad) for a in call.arrays])
    if ours and _decisions.made(key, lambda: _are_faster(ours, every, call, checked, compute)):
        return None

    def alone(x: Any, w: Any, bias: Any, residual: Any, out: Any) -> Any:
        with by_pytorch():  # the result has the memory order that `torch.compile` infers
            return in_order(compute(x, w, bias, residual), checked.order)

    return alone


def _has_usual_strides(x: Any) -> bool:
    """Return whether dimensions of size 1 have the strides that PyTorch itself would assign.

    For other tensors, PyTorch misjudges the memory order, and computes wrong gradients of weights.
    """
    orders = (torch.contiguous_format, torch.channels_last)[: 1 + (x.dim() == 4)]
    return x.stride() in [torch.empty(x.shape, device="meta", memory_format=order).stride() for order in orders]


def _are_faster(ours: list[Problem], every: list[Problem], call: OperatorCall, checked: Signature, alone: Any) -> bool:
    """Return whether our kernels make a training step faster: by rates, or by timing both if that takes little time.

    Each process times again, so deterministic programs get the decision by rates.
    """
    saved, seconds = rivals.saved_by(ours, every)
    if seconds > rivals.MOST_TIMED_SECONDS or lost() or torch.are_deterministic_algorithms_enabled():
        alone_for_x = len(ours) < len(every) and call.x.requires_grad
        return saved > _HOST_SECONDS + (_LEAST_SAVED_SHARE_BESIDE if alone_for_x else _LEAST_SAVED_SHARE) * seconds
    with ThreadPoolExecutor(1) as apart:  # saved-tensor hooks and modes of this thread do not apply to the steps
        mine, theirs = apart.submit(_timed, call, checked, alone).result()
    return mine < theirs


def _timed(call: OperatorCall, checked: Signature, alone: Any) -> list[float]:
    """Return the seconds of steps by our operators and by PyTorch alone."""
    own = torch.Generator()  # timing does not change the caller's random state
    own.manual_seed(0)
    given = tuple(
        None if a is None else torch.empty_like(a.detach()).normal_(generator=own).requires_grad_(a.requires_grad)
        for a in call.arrays[:4]
    )
    wanted = [a for a in given if a is not None and a.requires_grad]
    above = torch.empty_like(alone(*given).detach()).normal_(generator=own)

    def step(run: Any) -> Any:
        return torch.autograd.grad(run(*given), wanted, above)

    named: dict[str, Any] = dict(zip(ARRAYS, given, strict=False))
    ours = shortest(call._replace(**named), given, checked)
    both: list[Any] = [partial(step, lambda *a: ours(*a, None)), partial(step, alone)]
    return in_turns(both, False, chosen=min)
