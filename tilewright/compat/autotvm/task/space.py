"""The result of `autotvm.get_config()` inside a template: it collects knobs, or holds the choices to apply.

The spaces and configurations behind it are values of `tune.space`; only here is there something that changes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from ....core.divisors import divisors
from ....core.errors import UserError
from ....measure.outcome import InstantiationError
from ....tune.records.format import pairs_of
from ....tune.space import factors
from ....tune.space.choices import (
    AnnotateChoice as AnnotateEntity,
)
from ....tune.space.choices import (
    Choice,
)
from ....tune.space.choices import (
    OrderChoice as ReorderEntity,
)
from ....tune.space.choices import (
    SplitChoice as SplitEntity,
)
from ....tune.space.choices import (
    ValueChoice as OtherOptionEntity,
)
from ....tune.space.config import Config as ConfigEntity
from ....tune.space.indices import Indices, whole
from ....tune.space.knobs import (
    Knob,
    KnobAxis,
    SplitKnob,
    annotate_knob,
    check_name,
    extent_of,
    listed,
    reorder_knob,
    split_knob,
    value_knob,
)
from ....tune.space.space import Space

Axis = KnobAxis
get_factors = divisors
get_pow2s = factors.powers_of_two


class Ambient:
    """The interface of both roles for templates: the names of the legacy `ConfigSpace` and `ConfigEntity`."""

    is_fallback = False
    code_hash: str | None = None
    cost: Any = None

    def __init__(self) -> None:
        self.flop = 0.0
        self.errors: list[str] = []

    # Knobs: each role has its own `_define`.

    def _define(self, make: Callable[[], Knob], name: str, kind: type[Choice], count: int) -> list[KnobAxis]:
        raise NotImplementedError

    def define_split(self, name: str, axis: Any, policy: str = "factors", **options: Any) -> list[KnobAxis]:
        """A knob that splits `axis` into `num_outputs` loops; see `tune.space.knobs.split_knob` for the options."""
        _check_options("define_split", split_knob, options)
        outputs, first = options.get("num_outputs"), next(iter(_list_or_none(options.get("candidate")) or [()]), ())
        count = outputs if isinstance(outputs, int) and outputs else len(first) if isinstance(first, Sized) else 0
        return self._define(lambda: split_knob(name, axis, policy, **options), name, SplitEntity, count)

    def define_reorder(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> list[KnobAxis]:
        """A knob that orders loops; see `tune.space.knobs.reorder_knob`."""
        _check_options("define_reorder", reorder_knob, options)
        check_name(name, "define_reorder")
        given = listed(axes, name, "axes", "define_reorder")
        return self._define(lambda: reorder_knob(name, given, policy, **options), name, ReorderEntity, len(given))

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> list[KnobAxis]:
        """A knob that annotates loops; see `tune.space.knobs.annotate_knob`."""
        _check_options("define_annotate", annotate_knob, options)
        check_name(name, "define_annotate")
        given = listed(axes, name, "axes", "define_annotate")
        return self._define(lambda: annotate_knob(name, given, policy, **options), name, AnnotateEntity, len(given))

    def define_knob(self, name: str, candidate: Sequence[Any]) -> list[KnobAxis]:
        """A knob that chooses among values; `cfg[name].val` is the value."""
        return self._define(lambda: value_knob(name, candidate), name, OtherOptionEntity, 0)

    def multi_filter(self, filter: Callable[[Any], bool], names: Sequence[str] = (), reason: str = "") -> None:
        """Keep the configurations for which `filter` holds; it gets the choices by name.

        `names` (the knobs that it reads) and `reason` (its description) are optional.
        """

    def axis(self, var: Any) -> Any:
        """An axis to split: the extent of an axis of a stage, or an int."""
        return extent_of(var, "axis")

    reduce_axis = axis

    def add_flop(self, flop: Any) -> None:
        """Count floating-point operations by hand, in place of the automatic count."""
        number = getattr(flop, "value", flop)
        if not isinstance(number, (int, float, np.number)) or not number >= 0:
            raise UserError(
                f"add_flop({flop!r}) counts nothing", primitive="add_flop", fix="give a number of at least 0"
            )
        self.flop += float(number)

    def raise_error(self, message: str) -> None:
        """Refuse this configuration, at the end of the template."""
        self.errors.append(message)

    def valid(self) -> bool:
        """Whether nothing has been refused."""
        return not self.errors

    def check(self) -> None:
        """Raise InstantiationError if something was refused."""
        if self.errors:
            raise InstantiationError(
                "; ".join(map(str, self.errors)), primitive="template", fix="take another configuration of the space"
            )


def _check_options(primitive: str, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    known = [name for name, p in inspect.signature(function).parameters.items() if p.kind is p.KEYWORD_ONLY]
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        raise UserError(
            f"there is no option {unknown!r}", primitive=primitive, fix=f"its options are {', '.join(known)}"
        )


def _list_or_none(given: Any) -> list[Any] | None:
    return list(given) if isinstance(given, (list, tuple)) else None


class ConfigSpace(Ambient, Indices):
    """Collects the knobs of a template; each knob stands at its first choice meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.space = Space()
        self._chosen: dict[str, Choice] = {}

    def _define(self, make: Callable[[], Knob], name: str, kind: type[Choice], count: int) -> list[KnobAxis]:
        knob = make()
        self.space = self.space.with_knob(knob)
        self._chosen[knob.name] = knob.choices[0]
        return [KnobAxis(knob.name, i) for i in range(knob.outputs)]

    def multi_filter(self, filter: Callable[[Any], bool], names: Sequence[str] = (), reason: str = "") -> None:
        self.space = self.space.where(filter, names, reason)

    @property
    def space_map(self) -> Mapping[str, Knob]:
        """The knobs by name."""
        return self.space.space_map

    @property
    def dims(self) -> list[int]:
        """The number of choices of each knob."""
        return self.space.dims

    @property
    def range_length(self) -> int:
        """How many indices there are: the product of the numbers of choices."""
        return self.space.range_length

    def is_index_valid(self, index: int) -> bool:
        """Whether the index lies in the space and no predicate excludes it."""
        whole("is_index_valid", "index", index)
        return self.space.is_index_valid(index)

    def point(self, index: int) -> tuple[int, ...]:
        """The place of each knob's choice, for an index."""
        whole("point", "index", index)
        return self.space.point(index)

    def index(self, point: Sequence[int]) -> int:
        """The index of a point."""
        given = isinstance(point, (list, tuple)) or (isinstance(point, np.ndarray) and point.ndim == 1)
        listed = given and len(point) == len(self.dims)
        if not listed:
            raise UserError(
                f"{point!r} is not the index of each knob's choice, which is a whole number",
                primitive="index",
                fix=f"give {len(self.dims)} numbers",
            )
        for place in point:
            whole("index", "point", place)
        return self.space.index(point)

    def get(self, index: int) -> ConfigEntity:
        """The configuration of an index."""
        return self.space.get(index)

    def __len__(self) -> int:
        return len(self.space)

    def __iter__(self) -> Iterator[str]:
        return iter(self._chosen)

    def __getitem__(self, name: str) -> Any:
        self.space[name]
        return self._chosen[name]

    def __repr__(self) -> str:
        return repr(self.space)


class AppliedConfig(Ambient):
    """Holds one configuration: all choices are made, so definitions of knobs have no effect."""

    def __init__(self, config: ConfigEntity) -> None:
        super().__init__()
        self.config = config
        self.index = config.index
        self.code_hash = config.code_hash

    def _define(self, make: Callable[[], Knob], name: str, kind: type[Choice], count: int) -> list[KnobAxis]:
        if isinstance(name, str) and name in self.config:
            fix = "use configurations of this template only: its knobs may have changed since the log was written"
            _check_choice(self.config[name], name, kind, count, fix)
        return [KnobAxis(None, i) for i in range(count)]

    def __len__(self) -> int:
        return len(self.config)

    def __iter__(self) -> Iterator[str]:
        return iter(self.config)

    def __getitem__(self, name: str) -> Any:
        return self.config[name]

    def __repr__(self) -> str:
        return repr(self.config)

    def to_json_dict(self) -> dict[str, Any]:
        """The configuration as a log line has it."""
        return self.config.to_json_dict()


def _check_choice(chosen: Choice, name: str, kind: type[Choice], count: int, fix: str) -> None:
    """Raise UserError if a choice does not fit the knob that the template defines."""
    parts = len(chosen.sizes) if isinstance(chosen, SplitEntity) and count else count
    if not isinstance(chosen, kind) or parts != count:
        wanted = f"{count} extents" if kind is SplitEntity and count else f"a {kind.__name__}"
        raise UserError(
            f"the configuration has {chosen!r} for the knob {name!r}, which needs {wanted}",
            primitive="cfg.define",
            fix=fix,
        )


class FallbackConfigEntity(ConfigSpace):
    """The configuration of a workload that no log has: first choices, unless the template sets others.

    A template that finds `cfg.is_fallback` sets `cfg["tile"] = SplitEntity([-1, 4])`, before or after it defines the
    knob, or calls `cfg.fallback_split` after it.
    """

    is_fallback = True

    def __init__(self) -> None:
        super().__init__()
        self.states_default = False
        """Whether the template has set a choice."""

    def _define(self, make: Callable[[], Knob], name: str, kind: type[Choice], count: int) -> list[KnobAxis]:
        given = self._chosen.get(name) if isinstance(name, str) else None
        axes = super()._define(make, name, kind, count)
        if given is not None:
            _check_choice(given, name, kind, count, f"set cfg[{name!r}] to a choice of this knob")
            self._chosen[name] = given
        return axes

    def __getitem__(self, name: str) -> Any:
        return self._chosen[name] if name in self._chosen else super().__getitem__(name)

    def __setitem__(self, name: str, entity: Choice) -> None:
        if not isinstance(entity, Choice):
            raise UserError(
                f"cfg[{name!r}] = {entity!r} is not a choice of a knob",
                primitive="cfg[...]",
                fix="give SplitEntity([-1, 4]), ReorderEntity([1, 0]), AnnotateEntity([...]), OtherOptionEntity(value)",
            )
        self._choose(name, entity)

    def _choose(self, name: str, entity: Choice) -> None:
        self._chosen[name] = entity
        self.states_default = True

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Split by the largest divisors within `constraints` (one a loop, -1 for none), innermost first.

        An axis of 128 and [-1, 8, 4] gives [4, 8, 4]; one of 49 gives [7, 7, 1].
        """
        knob = self.space[name]
        bounds = constraints if isinstance(constraints, (list, tuple)) else [0]
        whole = all(isinstance(bound, (int, np.integer)) and (bound == -1 or bound > 0) for bound in bounds)
        if not isinstance(knob, SplitKnob) or len(bounds) != knob.outputs or not whole:
            raise UserError(
                f"knob {name!r} ({knob.label}) cannot fall back to {constraints!r}",
                primitive="fallback_split",
                fix="give one bound for each loop of a split, as [-1, 8, 4]",
            )
        left, sizes = knob.product, []
        for bound in reversed(constraints):
            sizes.append(max(f for f in divisors(left) if bound == -1 or f <= bound))
            left //= sizes[-1]
        self._choose(name, SplitEntity(sizes[::-1]))

    def fallback_with_reference_log(self, ref_log: Sequence[Any]) -> None:
        """Take over the choices of the log's most similar configuration, by the factors that splits share.

        `ref_log`: (MeasureInput, MeasureResult) pairs. Nothing changes if the log is empty.
        """
        splits = {name: set(get_factors(k.product)) for name, k in self.space_map.items() if isinstance(k, SplitKnob)}
        best: ConfigEntity | None = None
        best_score = 0.0
        for inp, _ in pairs_of(ref_log, "fallback_with_reference_log"):
            config = inp.config
            if not all(name in config for name in self.space_map):
                continue
            score = sum(len(own & set(get_factors(_product(config[name])))) / len(own) for name, own in splits.items())
            if score > best_score:
                best, best_score = config, score
        if best is None:
            return
        for name in self.space_map:
            if name in splits:
                self.fallback_split(name, [-1, *best[name].size[1:]])
            else:
                self._choose(name, best[name])

    def default(self) -> ConfigEntity | None:
        """Return the configuration that the template states for workloads that no log knows; None if it states none.

        A split with all extents listed by the template is the choice of the space that leaves the first extent open.
        """
        if not self.states_default:
            return None
        found = dict(self._chosen)
        for name, knob in self.space_map.items():
            choice = found[name]
            if isinstance(choice, SplitEntity) and knob.place_of(choice) is None:
                found[name] = SplitEntity([-1, *choice.sizes[1:]])
        return ConfigEntity(found)

    def __repr__(self) -> str:
        return f"{list(self._chosen.items())},{self.code_hash}"


def _product(split: SplitEntity) -> int:
    total = 1
    for size in split.sizes:
        total *= abs(size)
    return total
