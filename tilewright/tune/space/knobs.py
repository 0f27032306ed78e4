"""Knobs: a name, the choices that it offers, and its printed form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np

from ...core.errors import UserError
from ...core.own_code import calling
from ...expr.nodes import Expr, IntImm
from ...expr.operand import Operand
from ...tensor.axis import IterVar
from . import factors
from .choices import AnnotateChoice, Choice, OrderChoice, SplitChoice, ValueChoice
from .lazy import Choices, Orders, Splits, Words, choices_of

_NO_LIMIT = 1 << 31
_MOST_VALUES = 1_000_000
"""The most values of a plain knob, and the most choices of a filtered knob."""
_MOST_PARTS = 64
_SHOWN = 100
"""The number of values of a plain knob in its label."""


@dataclass(frozen=True)
class KnobAxis:
    """A placeholder for a loop that a knob will create: `define_split` returns it, and `define_reorder` accepts it."""

    space: str | None
    """The knob's name; None once a configuration is applied."""
    index: int


@dataclass(frozen=True)
class Knob:
    """One decision of a space. `label` is the printed name of its kind, `outputs` the number of loops that it
    creates."""

    name: str
    label: str
    choices: Sequence[Choice]
    outputs: int = 0

    def __post_init__(self) -> None:
        if not self.choices:
            raise UserError(
                f"knob {self.name!r} has no choices ({self.label})",
                primitive="define",
                fix="loosen its filter or max_factor, or give candidates",
            )

    def __len__(self) -> int:
        return len(self.choices)

    def __getitem__(self, index: int) -> Choice:
        return self.choices[index]

    def __iter__(self) -> Iterator[Choice]:
        return iter(self.choices)

    def __repr__(self) -> str:
        return f"{self.label} len={len(self)}"

    @property
    def num_output(self) -> int:
        """The legacy name of `outputs`."""
        return self.outputs

    @property
    def entities(self) -> Sequence[Choice]:
        """The legacy name of `choices`."""
        return self.choices if isinstance(self.choices, Choices) else list(self.choices)

    @cached_property
    def _places(self) -> Mapping[Choice, int]:
        return {choice: i for i, choice in enumerate(self.choices)}

    def place_of(self, choice: Choice) -> int | None:
        """Return the index of a choice; None if the knob does not offer it."""
        return self.choices.place(choice) if isinstance(self.choices, Choices) else self._places.get(choice)

    def numbers(self, index: int) -> list[float]:
        """Return a choice as numbers for a cost model; the index of the choice if it is a word."""
        return self.choices[index].numbers or [float(index)]


@dataclass(frozen=True, repr=False)
class SplitKnob(Knob):
    """The ways to split an axis of extent `product`."""

    policy: str = "factors"
    product: int = 1


@dataclass(frozen=True, repr=False)
class _Alike(Knob):
    """A knob with one choice, for which every other choice counts as that one."""

    def place_of(self, choice: Choice) -> int | None:
        return 0


@dataclass(frozen=True, repr=False)
class _Reorder(Knob):
    policy: str = field(default="all")


def extent_of(axis: Any, name: str) -> int:
    """Return the extent of an axis to split, from an int, an axis of a stage, or an integer expression."""
    extent = axis
    if isinstance(extent, IterVar):
        extent = extent.dom.extent if extent.dom is not None else None
    if isinstance(extent, IntImm):
        extent = extent.value
    if isinstance(extent, (bool, Operand, type, np.ndarray)) or not hasattr(extent, "__index__"):
        raise UserError(
            f"the extent of the axis of knob {name!r} is not known: it is {axis!r}",
            primitive="define_split",
            fix="give an axis of an operation (s[B].op.axis) of constant extent, or the extent as an int",
        )
    found = int(extent.__index__())
    if found < 1:
        raise UserError(
            f"the axis of knob {name!r} has extent {found}", primitive="define_split", fix="give an extent of 1 or more"
        )
    return found


def check_name(name: Any, primitive: str) -> None:
    """Raise UserError for a knob's name that is not text, which logs could not represent."""
    if not isinstance(name, str) or not name:
        raise UserError(
            f"the name of a knob is {name!r}, which is not text", primitive=primitive, fix='give some text: "tile_x"'
        )


def listed(values: Any, name: str, what: str, primitive: str) -> list[Any]:
    """Return the choices or objects of a knob as a list."""
    no_list = isinstance(values, np.ndarray) and values.ndim == 0
    if no_list or isinstance(values, (str, Expr)) or not isinstance(values, Iterable):
        raise UserError(
            f"{what} of knob {name!r} is {values!r}, which is not a list", primitive=primitive, fix="give a list"
        )
    return list(islice(values, _MOST_VALUES + 1))  # the iterator may be endless


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= 1


def split_knob(
    name: str,
    axis: Any,
    policy: str = "factors",
    *,
    num_outputs: int = 0,
    max_factor: int = _NO_LIMIT,
    filter: Callable[[Any], bool] | None = None,
    no_tail: bool | None = None,
    candidate: Sequence[Sequence[int]] | None = None,
) -> SplitKnob:
    """Return the knob for splits of an axis into `num_outputs` loops.

    `policy`: "factors" (divisors), "power2", "verbose" (both), or "candidate" (the list `candidate` of lists of
    extents, -1 for an inferred one). `max_factor` bounds each size. `filter` is a predicate of choices: `lambda e:
    e.size[-1] <= 4`. `no_tail` keeps only sizes that divide the extent.
    """
    check_name(name, "define_split")
    _check_options(name, num_outputs, max_factor, filter)
    if not isinstance(policy, str):
        raise _unknown(policy, name, "define_split", (*factors.POLICIES, "candidate"))
    listed_sizes = None if candidate is None else listed(candidate, name, "candidate", "define_split")
    sizes = [listed(c, name, "a candidate", "define_split") for c in listed_sizes or ()]
    given = extent_of(axis, name) if policy != "candidate" or not isinstance(axis, KnobAxis) else 0
    parts = num_outputs or (len(sizes[0]) if sizes else 0)
    if not 1 <= parts <= _MOST_PARTS:
        raise UserError(
            f"knob {name!r} has num_outputs={parts}, which is not from 1 to {_MOST_PARTS}",
            primitive="define_split",
            fix=f"give {_MOST_PARTS} or less" if parts > _MOST_PARTS else "give 1 or more",
        )
    choices: Sequence[Choice]
    if policy == "candidate":
        choices = _listed_splits(name, sizes, parts)
    elif policy in factors.POLICIES:
        tried = [f for f in factors.candidates(given, policy) if f <= max_factor]
        splits = Splits(given, parts, tried, policy == "factors" if no_tail is None else bool(no_tail))
        choices = choices_of(name, splits.count, splits.at, splits.place, SplitChoice, lambda c: c.sizes)
    else:
        raise _unknown(policy, name, "define_split", (*factors.POLICIES, "candidate"))
    if filter is not None:
        choices = _filtered(name, choices, filter)
    label = f"Split(policy={policy}, product={given}, num_outputs={parts})"
    return SplitKnob(name, label, choices, parts, policy, given)


def _check_options(name: str, num_outputs: Any, max_factor: Any, filter: Any) -> None:
    """Raise UserError for invalid options of a split."""
    if isinstance(num_outputs, bool) or not isinstance(num_outputs, int) or num_outputs < 0:
        problem, fix = f"has num_outputs={num_outputs!r}", "give 1 or more"
    elif not _is_size(max_factor):
        problem, fix = f"has max_factor={max_factor!r}", "give 1 or more, or leave it out"
    elif filter is not None and not callable(filter):
        raise UserError(
            f"the filter of knob {name!r} is {filter!r}, which is not a function",
            primitive="define_split",
            fix="give a function of the choice: filter=lambda e: e.size[-1] <= 4",
        )
    else:
        return
    raise UserError(f"knob {name!r} {problem}", primitive="define_split", fix=fix)


def _listed_splits(name: str, sizes: list[list[Any]], parts: int) -> tuple[SplitChoice, ...]:
    """Return the listed choices; each has one extent per part."""
    for each in sizes:
        if len(each) != parts:
            raise UserError(
                f"candidate {each} of knob {name!r} has {len(each)} sizes, but num_outputs is {parts}",
                primitive="define_split",
                fix=f"give {parts} extents in each candidate, -1 for an inferred one",
            )
    for each in sizes:
        if not all(_is_size(x) or (x == -1 and i == 0) for i, x in enumerate(each)):
            raise UserError(
                f"candidate {each} of knob {name!r} holds something that is not an extent",
                primitive="define_split",
                fix="give whole numbers of 1 or more; the first may be -1, to be inferred",
            )
    return tuple(map(SplitChoice, sizes))


def _filtered(name: str, choices: Sequence[Choice], filter: Callable[[Any], bool]) -> tuple[Choice, ...]:
    """Return the choices that pass a filter; raise UserError if there are too many to test."""
    if len(choices) > _MOST_VALUES:
        raise UserError(
            f"the filter of knob {name!r} would have to be tried on {len(choices):,} choices",
            primitive="define_split",
            fix="give fewer outputs, a max_factor, or cfg.multi_filter(...), which tests configurations as they come",
        )
    with calling(f"the filter of the knob {name!r}"):
        return tuple([choice for choice in choices if filter(choice)])


def reorder_knob(
    name: str,
    axes: Sequence[Any],
    policy: str,
    *,
    interval: tuple[int, int] | None = None,
    candidate: Sequence[Sequence[Any]] | None = None,
    spatial: Sequence[Sequence[Any]] = (),
    reduce: Sequence[Sequence[Any]] = (),
) -> Knob:
    """Return the knob for orders of the loops `axes`.

    `policy`: "identity", "all", "interval_all" (all orders of `axes[interval[0]:interval[1]]`), "candidate" (the listed
    orders), or "interleave" and "interleave_cuda" (chains of spatial and of reduction loops, merged).
    """
    count = len(axes)
    everything = range(count)

    def places(what: str, given: Any) -> list[list[int]]:
        chosen = listed(given, name, what, "define_reorder")
        return [[_place(axes, x, name) for x in listed(one, name, f"a {what}", "define_reorder")] for one in chosen]

    label = f"Reorder(policy={policy})"
    orders: Sequence[Sequence[int]]
    known = ("identity", "all", "interval_all", "candidate", "interleave", "interleave_cuda")
    if not isinstance(policy, str):
        raise _unknown(policy, name, "define_reorder", known)
    if policy == "identity":
        orders = [everything]
    elif policy == "all":
        return _Reorder(name, label, _orders(name, count, 0, count), count, policy)
    elif policy == "interval_all":
        whole = isinstance(interval, (tuple, list)) and all(isinstance(i, (int, np.integer)) for i in interval)
        if not whole or interval is None or len(interval) != 2 or not 0 <= interval[0] <= interval[1] <= count:
            raise UserError(
                f"knob {name!r} reorders {count} loops within the interval {interval}",
                primitive="define_reorder",
                fix=f"give interval=(begin, end) with 0 <= begin <= end <= {count}",
            )
        return _Reorder(name, label, _orders(name, count, *map(int, interval)), count, policy)
    elif policy == "candidate":
        orders = places("candidate", candidate or ())
    elif policy in ("interleave", "interleave_cuda"):
        orders = list(_interleaved(places("spatial", spatial), places("reduce", reduce), policy))
    else:
        raise _unknown(policy, name, "define_reorder", known)
    return _Reorder(name, label, tuple(OrderChoice(o) for o in orders), count, policy)


def _orders(name: str, count: int, begin: int, end: int) -> Sequence[Choice]:
    """Return all orders of `count` loops that permute the loops from `begin` to `end`."""
    moved = Orders(end - begin)

    def at(place: int) -> list[int]:
        return [*range(begin), *(begin + i for i in moved.at(place)), *range(end, count)]

    def place(order: Sequence[int]) -> int | None:
        return moved.place([i - begin for i in order[begin:end]]) if len(order) == count else None

    return choices_of(name, moved.count, at, place, OrderChoice, lambda c: c.places)


def _place(axes: Sequence[Any], wanted: Any, name: str) -> int:
    for i, axis in enumerate(axes):
        if axis is wanted or (not isinstance(axis, IterVar) and axis == wanted):
            return i
    raise UserError(
        f"a candidate of knob {name!r} names {wanted!r}, which is not one of its axes",
        primitive="define_reorder",
        fix="name the axes that the knob was given",
    )


def _interleaved(spatial: list[list[int]], reduce: list[list[int]], policy: str) -> Iterator[list[int]]:
    outer = list(_merged([chain[:-1] for chain in spatial]))
    last = [chain[-1] for chain in spatial]
    if policy == "interleave":
        inner = list(_merged([[axis] for axis in last] + reduce))
    else:
        inner = [merged + last for merged in _merged(reduce)]
    for o in outer:
        for i in inner:
            yield o + i


def _merged(chains: list[list[int]]) -> Iterator[list[int]]:
    """Merge chains, and keep the order within each: the head of the longest remaining chain comes next."""
    done = [0] * len(chains)
    order = []
    for _ in range(sum(map(len, chains))):
        left = [len(chain) - at for chain, at in zip(chains, done, strict=True)]
        longest = left.index(max(left))
        order.append(chains[longest][done[longest]])
        done[longest] += 1
    yield order


_GPU = {
    "bind_gpu": {
        6: "blockIdx.z blockIdx.y blockIdx.x threadIdx.z threadIdx.y threadIdx.x",
        4: "blockIdx.y blockIdx.x threadIdx.y threadIdx.x",
        2: "blockIdx.x threadIdx.x",
    },
    "bind_gpu_virtual": {
        9: "blockIdx.z blockIdx.y blockIdx.x vthread vthread vthread threadIdx.z threadIdx.y threadIdx.x",
        6: "blockIdx.y blockIdx.x vthread vthread threadIdx.y threadIdx.x",
        3: "blockIdx.x vthread threadIdx.x",
    },
}


_ANNOTATING = ("try_unroll", "try_vec", "try_unroll_vec", "unroll", "vec", *_GPU, "locate_cache")


def annotate_knob(name: str, axes: Sequence[Any], policy: str, *, num_anchor: int = 1) -> Knob:
    """Return the knob for annotations of the loops `axes`.

    `policy` is a list of the words "none", "unroll" and "vec", joined by "_". Each loop gets one of the words, and at
    most one loop gets "vec". "try" means "none", as in "try_unroll_vec". "bind_gpu" and "bind_gpu_virtual" bind the
    loops to blocks and threads, and fuse surplus outermost loops. "locate_cache" chooses `num_anchor` loops at which
    caches are computed.
    """
    count = len(axes)
    marks: list[Sequence[str | int]]
    if not isinstance(policy, str):
        raise _unknown(policy, name, "define_annotate", _ANNOTATING)
    if policy in _GPU:
        gpu = next((w.split() for least, w in _GPU[policy].items() if count >= least), None)
        if gpu is None:
            raise UserError(
                f"knob {name!r} has too few loops ({count}) for {policy!r}",
                primitive="define_annotate",
                fix=f"give {min(_GPU[policy])} or more",
            )
        marks = [["fuse"] * (count - len(gpu)) + gpu]
    elif policy == "locate_cache":
        if not _is_size(num_anchor) or num_anchor > count:
            raise UserError(
                f"knob {name!r} chooses num_anchor={num_anchor!r} of {count} loops",
                primitive="define_annotate",
                fix=f"give a number from 1 to {count}",
            )
        if comb(count, num_anchor) > _MOST_VALUES:
            raise UserError(
                f"knob {name!r} chooses {num_anchor} of {count} loops, in {comb(count, num_anchor):,} ways",
                primitive="define_annotate",
                fix="give fewer loops",
            )
        marks = list(combinations(range(count), num_anchor))
    else:
        tried = policy.replace("try", "none").split("_")
        if not set(tried) <= {"none", "unroll", "vec"}:
            raise _unknown(policy, name, "define_annotate", _ANNOTATING)
        words = Words(tried, count, once="vec")
        made = choices_of(name, words.count, words.at, words.place, AnnotateChoice, lambda c: c.marks)
        return Knob(name, f"Annotate(policy={policy})", made, count)
    return Knob(name, f"Annotate(policy={policy})", tuple(AnnotateChoice(m) for m in marks), count)


def value_knob(name: str, candidate: Sequence[Any]) -> Knob:
    """Return the knob for a choice among listed values."""
    check_name(name, "define_knob")
    values = listed(candidate, name, "candidate", "define_knob")
    if len(values) > _MOST_VALUES:
        raise UserError(
            f"knob {name!r} chooses among more than {_MOST_VALUES:,} values",
            primitive="define_knob",
            fix="list fewer, or put the value together from several knobs",
        )
    for value in values:
        if value is not None and not isinstance(value, (bool, int, float, str, list, tuple, np.generic)):
            raise UserError(
                f"knob {name!r} chooses among {values!r}, but {value!r} cannot be written to a log",
                primitive="define_knob",
                fix="give numbers, strings, None, or lists of these, and look other things up by them",
            )
    more = f"[{', '.join(map(repr, values[:_SHOWN]))}, ... {len(values):,} values]" if len(values) > _SHOWN else values
    return Knob(name, f"OtherOption({more})", tuple(ValueChoice(v) for v in values))


def alike(knob: Knob) -> Knob:
    """Return a knob with one choice that accepts all others as equivalent: in logs, they mean the same program."""
    return _Alike(knob.name, knob.label, knob.choices, knob.outputs)


def _unknown(policy: str, name: str, primitive: str, known: Sequence[str]) -> UserError:
    return UserError(
        f"knob {name!r} has the unknown policy {policy!r}", primitive=primitive, fix=f"use one of {', '.join(known)}"
    )
