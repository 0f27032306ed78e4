"""A program to schedule: its kernels, and the ways to compute each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..core.errors import UserError
from ..core.log import logger
from ..core.target import Target
from ..driver import refined_bounds
from ..loops.build import build_function
from ..measure.reference import describe, structure_of
from ..refine.usage import kernel_uses
from ..schedule.handle import ScheduleHandle, create_schedule
from ..tensor.axis import thread_axis
from ..tensor.scan import ScanOp
from ..tensor.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from ..tune.analysis.refuse import refuse
from ..tune.flops import count_flop
from ..tune.model.machine import Machine
from ..tune.space.choices import Choice
from ..tune.space.config import Config
from ..tune.task import Declared, Task
from .dataflow import Dataflow, weight
from .inline import inline_cheap
from .kernels import FusedKernel, RowLimits, kernels
from .rules import ways_of
from .ways import Way, expected_of, fixed, joined, part_of

_MOST_ROW_ITERATIONS = 1 << 16
"""The most iterations of a kernel that a single block may compute."""
_MOST_ROW_ELEMENTS = 1 << 17
"""The most elements of a row, which must fit a processor's L2 cache."""


@dataclass
class AutomaticProgram:
    """A program for a target.

    `precision` is the least precision of float32 products. `ways` lists the ways of each kernel; rules choose the
    first.
    """

    outputs: Sequence[Operation]
    target: Target
    precision: str = "fp32"
    flow: Dataflow = field(init=False)
    kernels: list[FusedKernel] = field(init=False)
    ways: list[list[Way]] = field(init=False)

    def __post_init__(self) -> None:
        self.flow = Dataflow(self.begun())
        fewest = Machine.for_models(self.target).multiprocessors // 2 if self.target.is_gpu else 1
        limits = RowLimits(fewest, _MOST_ROW_ITERATIONS, _MOST_ROW_ELEMENTS, self.target.is_gpu)
        self.kernels = kernels(self.flow, limits)
        self.ways = [ways_of(self.flow, kernel, self.target, self.precision) for kernel in self.kernels]

    @cached_property
    def flop(self) -> float:
        """The number of floating-point operations of one run, or of instructions if a stage is a scan or computes
        tuples."""
        try:
            return count_flop(create_schedule(list(self.outputs)).value)
        except UserError:
            each = ((self.flow.work(op), weight(self.flow.bodies.get(op, ()))) for op in self.flow.stored)
            return sum(work * max(instructions, 1.0) for work, instructions in each)

    def begun(self, ways: Sequence[Way] = ()) -> ScheduleHandle:
        """Return a schedule with cheap stages inlined, except the stages that the ways place."""
        s = create_schedule(list(self.outputs))
        s.reason = "inline: repeating these stages costs less than storing them"
        inline_cheap(s, self.target, [op for way in ways for op in way.placed])
        s.reason = ""
        return s

    def schedule(self, ways: Sequence[Way], choices: Mapping[str, Choice] | None = None) -> ScheduleHandle:
        """Return the schedule of one way per kernel, with the given choices or the default ones."""
        s = self.begun(ways)
        for way, prefix in zip(ways, prefixes(ways), strict=True):
            tuned = choices is not None and bool(way.space.knobs)
            s.reason = f"{way.why} ({'tuned' if tuned else 'ranked, not tuned'})"
            way.apply(s, way.chosen if choices is None else part_of(choices, prefix))
        s.reason = ""
        return s

    def by_rules(self) -> ScheduleHandle:
        """Return the schedule by rules, or a simple schedule if a rule does not fit the program."""
        return self._fitting()[1]

    @cached_property
    def ways_by_rules(self) -> list[Way]:
        """Return the ways of the schedule by rules: one per kernel, or a simple one for the program."""
        return self._fitting()[0]

    def _fitting(self) -> tuple[list[Way], ScheduleHandle]:
        for place in (0, -1):
            chosen = [ways[place] for ways in self.ways]
            try:
                s = self.schedule(chosen)
                reason = unfit(s, self.target)
            except UserError as error:
                reason = error.message
            if not reason:
                return chosen, s
            logger.debug("the rules do not fit %s: %s", [op.name for op in self.outputs], reason)
        why = "no rule fits: each stage runs by itself, each of its elements on one thread"
        simple = [fixed("separate stages", why, self._separate)]
        return simple, self.schedule(simple)

    def _separate(self, s: ScheduleHandle) -> None:
        """Compute each stage in a separate kernel, with one thread per element."""
        for op in self.flow.stored:
            if not isinstance(op, ComputeOp) or op.call is not None:
                continue
            whole = s[op].fuse(*op.axis)
            if not self.target.is_gpu:
                s[op].parallel(whole)
                continue
            block, thread = s[op].split(whole, factor=min(128, self.target.max_threads_per_block))
            s[op].bind(block, thread_axis("blockIdx.x"))
            s[op].bind(thread, thread_axis("threadIdx.x"))

    def alternatives(self) -> list[list[Way]]:
        """Return lists of one way per kernel: first the default ways, then each alternative way of a single kernel."""
        first = [ways[0] for ways in self.ways]
        others = [[*first[:at], way, *first[at + 1 :]] for at, ways in enumerate(self.ways) for way in ways[1:]]
        return [first, *others]


def unfit(s: ScheduleHandle, target: Target) -> str:
    """Return the reason why a schedule cannot run on a target; an empty string if it can."""
    ops = [stage.op for stage in s.value.in_order()]
    states = {t.op for op in ops if isinstance(op, ScanOp) for t in op.state}
    ends = [op for op in ops if (isinstance(op, PlaceholderOp) and op not in states) or op in s.outputs]
    args = [t for op in ends for t in op.outputs]
    bounds = refined_bounds(s.value, target)
    refusal = refuse(s, kernel_uses(bounds), target)
    if refusal is None:
        build_function(s.value, bounds, args)
    return "" if refusal is None else refusal.reason


def prefixes(ways: Sequence[Way]) -> list[str]:
    """Return the prefix of each kernel's knobs; empty if only one kernel has knobs."""
    if sum(bool(way.space.knobs) for way in ways) <= 1:
        return [""] * len(ways)
    return [f"{number}." for number in range(len(ways))]


@dataclass(frozen=True)
class AutomaticTemplate:
    """The template of a program with one way per kernel."""

    program: AutomaticProgram
    ways: Sequence[Way]
    args: Sequence[Tensor]

    @cached_property
    def name(self) -> str:
        """The name in logs: the ways, and the structure of the program. Searches start from records of equal
        structure."""
        ways = "+".join(dict.fromkeys(way.name.replace(" ", "_") for way in self.ways))
        return f"auto/{ways}.{structure_of(self.args)[:12]}"

    def task(self) -> Task:
        """Return the task of tuning the program; its argument identifies the structure with its sizes."""
        return Task(self.name, (describe(self.args).declaration,), self.program.target, self)

    def declare(self, args: tuple[Any, ...], target: Target | None) -> Declared:
        """Return the joined space of all kernels."""
        names = prefixes(self.ways)
        tuned = {prefix: way for prefix, way in zip(names, self.ways, strict=True) if way.space.knobs}
        space = joined({prefix: way.space for prefix, way in tuned.items()})
        expected = expected_of(tuned, space)
        return Declared(space, flop=self.program.flop, expected=expected, default=self._default)

    def _default(self) -> Config:
        pairs = zip(prefixes(self.ways), self.ways, strict=True)
        return Config({prefix + name: choice for prefix, way in pairs for name, choice in way.chosen.items()})

    def instantiate(
        self, config: Any, args: tuple[Any, ...], target: Target | None
    ) -> tuple[ScheduleHandle, list[Any]]:
        """Return the schedule of a configuration, and the program's arguments."""
        return self.program.schedule(self.ways, config), list(self.args)
