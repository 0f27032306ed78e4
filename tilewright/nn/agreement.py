"""The comparison of an accelerated model's results with the model's own, and the cause of a difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from ..core.errors import UserError
from ..functional.pytorch import tensors as torch_tensors
from .fused_models import without
from .replacements import Acceleration
from .samples import tensors_in

_MOST_ERRORS = {"float16": 3e-2, "bfloat16": 2e-1, "tf32": 1e-2}
"""The largest error of results in the relative L2 norm, by type and precision; 1e-3 for all others."""
_MODEL_SHARE = 0.1
"""The model itself is the cause of a difference if its own results change by at least this fraction of the
difference."""
_RANDOM = "put it into evaluation mode first, model.eval(): in training mode, layers such as dropout differ in each run"


def require_agreement(done: Acceleration, theirs: Any, mine: Any, within: set[str], outcome: Callable[[], Any]) -> None:
    """Raise UserError if results differ by more than the rounding of their type and of the types `within` the model.

    The error names the cause. To find it, `outcome` runs the model's own layers again, unchanged and with other
    rounding.
    """
    expected, found = tensors_in(theirs), tensors_in(mine)
    if [a.shape for a in expected] != [a.shape for a in found]:
        shapes = " and ".join(str([tuple(a.shape) for a in each]) for each in (expected, found))
        raise UserError(
            f"the model gives results of other shapes in each run: {shapes}", primitive="accelerate", fix=_RANDOM
        )
    for one, other in zip(expected, found, strict=True):
        error = _error(one, other)
        bound = max(_MOST_ERRORS.get(name, 1e-3) for name in (torch_tensors.NAMES.get(one.dtype, ""), *within))
        if not error <= bound:
            with done.originals(), without(done.model):
                raise _difference(done.model, error, lambda: max(map(_error, expected, tensors_in(outcome()))))


def _difference(model: Any, error: float, change: Callable[[], float]) -> UserError:
    """Return the error for a difference; `change` runs the model's own layers and returns the change of its result."""
    found = f"the accelerated model differs from the model by {error:.2g} (relative L2)"
    least = error * _MODEL_SHARE
    if change() >= least:
        return UserError(found, primitive="accelerate", fix=_RANDOM)
    with _rounded_inputs(model):
        own = change()
    if own >= least:
        found += f", but the model itself changes by {own:.2g} if its inputs change by a rounding error"
        fix = "give trained weights and a sample like the real inputs; a model that amplifies rounding proves nothing"
    else:
        fix = "do not use its results: this is a fault of Tilewright, or the model reads parts of its layers; report it"
    return UserError(found, primitive="accelerate", fix=fix)


@contextmanager
def _rounded_inputs(model: Any) -> Iterator[None]:
    """Change every second input number of a model by one unit in the last place, inside the context."""

    def changed(a: Any) -> Any:
        odd = torch.arange(a.numel(), device=a.device).view(a.shape) % 2
        return a + a * (odd * torch.finfo(a.dtype).eps).to(a.dtype) if a.is_floating_point() else a

    hook = model.register_forward_pre_hook(
        lambda _, *given: tree_map_only(torch.Tensor, changed, given), with_kwargs=True
    )
    try:
        yield
    finally:
        hook.remove()


def _error(expected: Any, found: Any) -> float:
    """Return the relative error in the L2 norm. Elements that are NaN on both sides, or the same infinity, do not
    count."""
    if expected.is_complex():
        expected, found = torch.view_as_real(expected), torch.view_as_real(found)
    expected, found = expected.double(), found.double()
    error, scale = float((found - expected).norm()), float(expected.norm())
    if not isfinite(error) or not isfinite(scale):
        same = (expected == found) | (expected.isnan() & found.isnan())
        expected, found = (a.masked_fill(same & ~expected.isfinite(), 0) for a in (expected, found))
        error, scale = float((found - expected).norm()), float(expected.norm())
    return error / scale if scale else error
