"""The sample of a model: the arguments of one run."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ..core.errors import UserError


class Sample(NamedTuple):
    """The positional and the keyword arguments of one run of a model."""

    positional: tuple[Any, ...]
    named: dict[str, Any]

    @classmethod
    def of(cls, model: Any, given: Any, named: dict[str, Any]) -> Sample:
        """Return the sample of a model from a user's arguments; a mapping may stand for keyword arguments."""
        if given is None and not named:
            raise UserError(
                "no sample is given",
                primitive="accelerate",
                fix="give the inputs of one run: accelerate(model, x), or by name: accelerate(model, pixel_values=x)",
            )
        if isinstance(given, Mapping) and _takes_by_name(model, given):
            return cls((), {**given, **named})
        if given is None:
            return cls((), dict(named))
        return cls(tuple(given) if isinstance(given, (tuple, list)) else (given,), dict(named))

    def run(self, model: Any) -> Any:
        """Return the model's result."""
        return model(*self.positional, **self.named)

    def copy(self) -> Sample:
        """Return a copy of the arguments: a model may write to them."""
        return Sample(*_copies((self.positional, self.named)))


def _takes_by_name(model: Any, given: Mapping[Any, Any]) -> bool:
    """Return whether the keys of a mapping are keyword arguments of a model. Otherwise the mapping is a single
    argument."""
    parameters = inspect.signature(model.forward).parameters.values()
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    any_name = any(p.kind is p.VAR_KEYWORD for p in parameters) and not names
    return all(isinstance(key, str) and (any_name or key in names) for key in given)


def _copies(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        copy = value.detach().clone()
        return copy.requires_grad_() if value.requires_grad else copy
    if isinstance(value, dict):
        return {key: _copies(part) for key, part in value.items()}
    return type(value)(map(_copies, value)) if type(value) in (tuple, list) else value


def tensors_in(value: Any) -> list[Any]:
    """Return the tensors among the arguments or the results of a model."""
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, (tuple, list)) else ()
    return [tensor for part in parts for tensor in tensors_in(part)]
