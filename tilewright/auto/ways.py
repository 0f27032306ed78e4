"""Ways to schedule a kernel: their knobs, the configuration that rules choose, and the steps of any configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import numpy as np

from ..schedule.handle import ScheduleHandle
from ..tensor.tensor import Operation
from ..tune.space.choices import Choice
from ..tune.space.config import Config
from ..tune.space.knobs import value_knob
from ..tune.space.predicates import Predicate
from ..tune.space.space import Space
from ..tune.task import Expectation, Expected

Steps = Callable[[ScheduleHandle, Config], None]
Model = Callable[[Mapping[str, Any]], Expectation]


@dataclass(frozen=True)
class Way:
    """A way to schedule a kernel.

    Attributes
    ----------
    name, why : str
        A short name, and the reason for the way.
    space : Space
        The knobs; an empty space if there is nothing to choose.
    default : int
        The index of the configuration that rules or a model choose.
    apply : callable
        Applies a configuration to a schedule.
    model : callable, optional
        Predicts the time of choices, if the way has its own model.
    likely : callable, optional
        Returns the indices of the fastest configurations by this model, the best first.
    placed : sequence of Operation
        Cheap stages that the way schedules itself; they are not inlined.
    """

    name: str
    why: str
    space: Space
    default: int
    apply: Steps
    model: Model | None = None
    likely: Callable[[int], list[int]] | None = None
    placed: Sequence[Operation] = ()

    @property
    def chosen(self) -> Config:
        """The configuration that rules or a model choose."""
        return self.space.get(self.default) if self.space.knobs else Config({}, 0)


def fixed(name: str, why: str, apply: Callable[[ScheduleHandle], None]) -> Way:
    """Return a way without knobs."""
    return Way(name, why, Space(), 0, lambda s, _: apply(s))


def with_values(
    name: str,
    why: str,
    default: Any,
    values: Mapping[str, Sequence[Any]],
    apply: Callable[[ScheduleHandle, Any], None],
    possible: Callable[[Any], bool] | None = None,
) -> Way:
    """Return a way that applies a dataclass, with a knob per entry of `values`; `possible` limits the combinations."""
    knobs = []
    for field, listed in values.items():
        own = getattr(default, field)
        knobs.append(value_knob(field, [own, *(value for value in listed if value != own)]))

    def made(choices: Mapping[str, Any]) -> Any:
        return replace(default, **{field: choices[field].val for field in values})

    space = Space(knobs)
    if possible is not None:
        space = space.where(lambda choices: possible(made(choices)), list(values), "a tile that the kernel can have")
    return Way(name, why, space, 0, lambda s, config: apply(s, made(config)))


class _Named(Mapping[str, Choice]):
    """The choices of one kernel, among all choices of a program."""

    def __init__(self, choices: Mapping[str, Choice], prefix: str) -> None:
        self._choices = choices
        self._prefix = prefix

    def __getitem__(self, name: str) -> Choice:
        return self._choices[self._prefix + name]

    def __contains__(self, name: object) -> bool:
        return self._prefix + str(name) in self._choices

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._prefix) for name in self._choices if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def joined(spaces: Mapping[str, Space]) -> Space:
    """Return the space of several kernels: their knobs with the kernels' prefixes."""
    knobs = [replace(knob, name=prefix + knob.name) for prefix, space in spaces.items() for knob in space.knobs]
    predicates = [_renamed(p, prefix) for prefix, space in spaces.items() for p in space.predicates]
    return Space(knobs, predicates)


def _renamed(given: Predicate, prefix: str) -> Predicate:
    names = tuple(prefix + name for name in given.names)
    return replace(given, test=lambda choices: given.test(_Named(choices, prefix)), names=names)


def part_of(config: Mapping[str, Choice], prefix: str) -> Config:
    """Return the choices of one kernel."""
    return Config(dict(_Named(config, prefix)), 0)


def _remembering(model: Model) -> Model:
    """Return a model that caches its results: candidates of a program often differ in few kernels."""
    known: dict[tuple[Choice, ...], Expectation] = {}

    def of(choices: Mapping[str, Any]) -> Expectation:
        key = tuple(choices.values())
        if key not in known:
            known[key] = model(choices)
        return known[key]

    return of


def expected_of(ways: Mapping[str, Way], space: Space) -> Expected | None:
    """Return the model of the program: the kernels' models, by the prefixes of their knobs in a space.

    The times of kernels add up. A kernel without a model counts as 0, and keeps its default in the ranking. Returns
    None if no kernel has a model.
    """
    models = {prefix: _remembering(way.model) for prefix, way in ways.items() if way.model is not None}
    if not models:
        return None

    def of(choices: Mapping[str, Any]) -> Expectation:
        found = [model(_Named(choices, prefix)) for prefix, model in models.items()]
        return max(found, key=lambda each: each.cycles)._replace(cycles=sum(each.cycles for each in found))

    def rank(count: int) -> list[int]:
        each = max(2, int(count ** (1 / len(models))))
        listed = [way.likely(each) if way.likely is not None else [way.default] for way in ways.values()]
        points = [
            np.concatenate([way.space.point(index) for way, index in zip(ways.values(), indices, strict=True)])
            for indices in islice(product(*listed), count)
        ]
        return list(space.indices(np.array(points, dtype=np.int64)))

    return Expected(of, rank)
