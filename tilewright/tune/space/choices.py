"""The choices of a configuration, one per knob: a split, an order, annotations, or a plain value.

A choice defines its printed form, its form in logs (`data`, with its kind as `TAG`), and its features for a cost model.
It can be applied to a stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, NoReturn

from ...core.errors import UserAttributeError, UserError
from ...measure.outcome import InstantiationError
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar, thread_axis


def check_schedule(given: Any) -> None:
    """Raise UserError for a first argument of `apply` that is not a schedule."""
    if not isinstance(given, ScheduleHandle):
        raise UserError(
            f"the schedule is given as {given!r}", primitive="apply", fix='cfg["tile"].apply(s, C, axis): s comes first'
        )


def listed_axes(given: Any) -> list[Any]:
    """Return the loops passed to `apply` as a list; raise UserError for other objects."""
    if isinstance(given, (str, Mapping)) or not isinstance(given, Iterable):
        raise UserError(
            f"the loops are given as {given!r}", primitive="apply", fix='give a list: cfg["order"].apply(s, C, [y, x])'
        )
    return list(given)


@dataclass(frozen=True)
class Choice:
    """Base of the kinds of choices."""

    TAG: ClassVar[str]

    @property
    def data(self) -> Any:
        """The choice as JSON data."""
        raise NotImplementedError

    @property
    def numbers(self) -> list[float]:
        """Return the choice as numbers; all choices of a knob have the same number of them."""
        raise NotImplementedError

    @property
    def wanted(self) -> Any:
        """Return the value by which a choice is looked up in the space of another workload."""
        return self.data

    def __getattr__(self, name: str) -> NoReturn:
        instead = _HAS.get(type(self).__name__, "")
        if name not in ("size", "val", "perm", "anns", "apply") or not instead:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        raise UserAttributeError(f"the choice {self!r} has no {name!r}", fix=instead)

    def __repr__(self) -> str:
        return str(self.data)


_HAS = {
    "SplitChoice": "a split has .size, its extents, and .apply(s, C, axis)",
    "OrderChoice": "an order has .perm, and .apply(s, C, axes)",
    "AnnotateChoice": "annotations have .anns, and .apply(s, C, axes)",
    "ValueChoice": "a plain knob has .val, its value",
}


@dataclass(frozen=True, repr=False)
class SplitChoice(Choice):
    """Extents of the loops that an axis is split into, outermost first; -1 for an inferred size."""

    TAG = "sp"
    sizes: tuple[int, ...]

    def __init__(self, sizes: Sequence[int]) -> None:
        object.__setattr__(self, "sizes", tuple(int(s) for s in sizes))

    @property
    def size(self) -> list[int]:
        """The extents as a list, as in the legacy API."""
        return list(self.sizes)

    @property
    def data(self) -> list[int]:
        return list(self.sizes)

    @property
    def numbers(self) -> list[float]:
        return [float(s) for s in self.sizes]

    @property
    def wanted(self) -> list[int]:
        """Return all sizes except the outermost, which follows from the extent."""
        return list(self.sizes[1:])

    def apply(self, sch: ScheduleHandle, op: Any, axis: IterVar) -> list[IterVar]:
        """Split `axis` of the stage of `op`; returns the loops, outermost first."""
        check_schedule(sch)
        made = []
        for i in range(1, len(self.sizes)):
            outer, axis = sch[op].split(axis, prod(self.sizes[i:]))
            made.append(outer)
        return [*made, axis]


@dataclass(frozen=True, repr=False)
class OrderChoice(Choice):
    """An order of loops: the indices in the given list of the first, second, ... loop."""

    TAG = "re"
    places: tuple[int, ...]

    def __init__(self, places: Sequence[int]) -> None:
        object.__setattr__(self, "places", tuple(int(p) for p in places))

    @property
    def perm(self) -> list[int]:
        """The legacy name of `places`."""
        return list(self.places)

    @property
    def data(self) -> list[int]:
        return list(self.places)

    @property
    def numbers(self) -> list[float]:
        return [float(p) for p in self.places]

    def apply(self, sch: ScheduleHandle, op: Any, axes: Sequence[IterVar]) -> list[IterVar]:
        """Reorder the loops, and return them in the new order; indices beyond the given loops are ignored."""
        check_schedule(sch)
        loops = listed_axes(axes)
        order = [loops[p] for p in self.places if p < len(loops)]
        sch[op].reorder(*order)
        return order


_BOUND = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread")
ANNOTATIONS = ("none", "vec", "unroll", *_BOUND, "fuse")


@dataclass(frozen=True, repr=False)
class AnnotateChoice(Choice):
    """The annotations of several loops, by name; or the loops at which caches are computed."""

    TAG = "an"
    marks: tuple[str | int, ...]

    def __init__(self, marks: Sequence[str | int]) -> None:
        object.__setattr__(self, "marks", tuple(marks))

    @property
    def anns(self) -> list[str | int]:
        """The legacy name of `marks`."""
        return list(self.marks)

    @property
    def data(self) -> list[str | int]:
        return list(self.marks)

    @property
    def numbers(self) -> list[float]:
        one_hot = []
        for mark in self.marks:
            one_hot += [float(mark)] if isinstance(mark, int) else [float(mark == known) for known in ANNOTATIONS]
        return one_hot

    def apply(
        self,
        sch: ScheduleHandle,
        op: Any,
        axes: Sequence[IterVar],
        axis_lens: Sequence[int] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: Any = None,
        source: Sequence[Sequence[Any]] | None = None,
    ) -> list[IterVar]:
        """Annotate the loops `axes` of the stage of `op`, or compute the caches `source` at them; returns the loops.

        `axis_lens`: the loops' extents, required with the limits `max_unroll` (the longest loop to unroll) and
        `vec_size` (the lengths to vectorize). An exceeded limit is passed to `cfg.raise_error`, or raised without a
        `cfg`.
        """
        check_schedule(sch)
        loops = listed_axes(axes)
        places = [mark for mark in self.marks if isinstance(mark, int)]
        needed = len(self.marks) if source is None else 1 + max(places, default=0)
        if len(loops) < needed or (axis_lens is not None and len(axis_lens) < needed):
            raise UserError(
                f"the annotations {self!r} are for {needed} loops or more, but {len(loops)} are given",
                primitive="annotate",
                fix="give the loops that the knob was defined for",
            )
        if source is not None:
            for caches, at in zip(source, self.marks, strict=False):
                for cache in caches:
                    sch[cache].compute_at(sch[op], loops[int(at)])
            return loops

        def refuse(message: str) -> None:
            if cfg is None:
                raise InstantiationError(message, primitive="annotate")
            cfg.raise_error(message)

        for i, mark in enumerate(self.marks):
            extent = None if axis_lens is None else axis_lens[i]
            if mark == "unroll" and max_unroll and extent is not None and extent > max_unroll:
                refuse("Too large factor for unrolling")
            if mark == "vec" and vec_size and extent is not None and extent not in vec_size:
                refuse("Wrong size of lanes in vectorization")
            self._mark(sch, op, loops, i, str(mark))
        return loops

    def _mark(self, sch: ScheduleHandle, op: Any, loops: list[IterVar], i: int, mark: str) -> None:
        if mark == "fuse" and i + 1 >= len(loops):
            raise UserError("there is no loop to fuse the last one with", primitive="annotate", fix="give one more")
        if mark == "unroll":
            sch[op].unroll(loops[i])
        elif mark == "vec":
            sch[op].vectorize(loops[i])
        elif mark == "fuse":
            loops[i + 1] = sch[op].fuse(loops[i], loops[i + 1])
        elif mark in _BOUND:
            sch[op].bind(loops[i], thread_axis(mark))
        elif mark != "none":
            raise UserError(f"unknown annotation {mark!r}", primitive="annotate", fix=f"use {', '.join(ANNOTATIONS)}")


@dataclass(frozen=True, repr=False, eq=False)
class ValueChoice(Choice):
    """One of the values that the template lists."""

    TAG = "ot"
    val: Any

    @property
    def data(self) -> Any:
        return _json(self.val)

    def __eq__(self, other: object) -> bool:
        # In the form of logs, in which (1, 2) and [1, 2] are the same value.
        return isinstance(other, ValueChoice) and self.data == other.data

    def __hash__(self) -> int:
        return hash(_hashable(self.data))

    @property
    def numbers(self) -> list[float]:
        if isinstance(self.val, (bool, int, float)):
            return [float(self.val)]
        return []  # a word: the knob itself numbers its candidates


def _json(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_json(v) for v in value]
    return value.item() if hasattr(value, "item") else value


def _hashable(data: Any) -> Any:
    """Return JSON data as hashable values, which are equal if the data are."""
    if isinstance(data, list):
        return tuple(map(_hashable, data))
    return frozenset((key, _hashable(value)) for key, value in data.items()) if isinstance(data, dict) else data


KINDS: dict[str, Callable[[Any], Choice]] = {
    "sp": SplitChoice, "re": OrderChoice, "an": AnnotateChoice, "ot": ValueChoice,
}  # fmt: skip


def named_choice(row: Any) -> tuple[str, Choice]:
    """Return the name and the choice of an entry [name, tag, data] of a log line; raise ValueError for other data."""
    name, tag, data = row
    return str(name), KINDS[tag](_checked(tag, data))


def _checked(tag: str, data: Any) -> Any:
    """Return the JSON data of a choice; raise ValueError if no choice of its kind has such data."""
    if tag == "ot":
        return data
    fits = {
        "sp": lambda x: type(x) is int and (x >= 1 or x == -1),
        "re": lambda x: type(x) is int and x >= 0,
        "an": lambda x: isinstance(x, str) or (type(x) is int and x >= 0),
    }.get(tag)
    if fits is not None and not (isinstance(data, list) and all(map(fits, data))):
        raise ValueError(f"{data!r} is not a choice of the kind {tag!r}")
    return data
