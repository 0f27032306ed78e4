"""Training steps of whole models, as `accelerate` measures them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .samples import tensors_in


class TrainingStep:
    """The forward call of a model, and the required gradients of its parameters and inputs.

    The gradients of the results are fixed random numbers. Gradients of a plain sum would vanish in a normalization.
    """

    def __init__(self, model: Any, run: Callable[[], Any], inputs: Sequence[Any]) -> None:
        self._run = run
        self._leaves = [a for a in (*model.parameters(), *tensors_in(inputs)) if a.requires_grad]
        self._above: list[Any] = []

    def __call__(self) -> tuple[Any, list[Any]]:
        """Return the results and the gradients; tensors without a gradient are left out."""
        made = self._run()
        results = [a for a in tensors_in(made) if a.requires_grad]
        if [a.shape for a in results] != [a.shape for a in self._above]:
            self._above = [torch.randn_like(a) for a in results]
        gradients = torch.autograd.grad(results, self._leaves, self._above, allow_unused=True)
        return made, [a for a in gradients if a is not None]

    def outcome(self) -> tuple[list[Any], Any]:
        """Return the results, and all gradients as one vector: a single gradient may consist of rounding errors.

        Random layers, such as dropout, draw the same numbers each time.
        """
        with torch.random.fork_rng({a.get_device() for a in self._leaves if a.is_cuda}):
            torch.manual_seed(0)
            made, gradients = self()
        return [a.detach() for a in tensors_in(made)], torch.cat([a.detach().flatten().float() for a in gradients])
