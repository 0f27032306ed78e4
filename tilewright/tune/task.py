"""Tasks: a template with a workload and a target; its space, and the schedule of each configuration.

Templates are pure: `declare(args, target)` returns the space, `instantiate(config, args, target)` a new schedule.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..core.errors import UserError
from ..core.target import Target
from ..core.views import view
from ..expr import nodes as n
from ..measure.job import ReferenceFunc
from ..schedule.handle import ScheduleHandle
from ..tensor.tensor import Tensor, placeholder
from .flops import count_flop
from .space.config import Config
from .space.space import Space

_POINTS_DRAWN = 64
"""The number of random points drawn to find one configuration."""

Program = tuple[ScheduleHandle, list[Any]]
"""A schedule and its arguments, in the order of the entry point's parameters."""

Workload = tuple[Any, ...]
"""The template's name and its arguments, as hashable values."""


class Expectation(NamedTuple):
    """The prediction of a configuration: its cycles (infinite if it cannot run), and its kernel's threads and
    blocks."""

    cycles: float
    threads: int
    blocks: int


@dataclass(frozen=True)
class Expected:
    """A template's own model of its configurations, for kernels that loops alone do not describe.

    `of` returns the expectation for choices by the names of knobs. `rank` returns the indices of the fastest
    configurations, the best first, in the given number.
    """

    of: Callable[[Mapping[str, Any]], Expectation]
    rank: Callable[[int], list[int]]


class RankedDefault(NamedTuple):
    """The default configuration at the start of a ranking: the function that finds its index, and its lead.

    Another configuration ranks higher only if the model expects it to be faster by more than the fraction `lead`, the
    model's error among good configurations. The model has separate weights for templates with threads that mostly load
    their operands directly.
    """

    find: Callable[[], int]
    lead: float


@dataclass(frozen=True)
class Declared:
    """A template's declaration for a workload: its space, and its number of operations (0: count them).

    `reference` returns random inputs and their correct outputs, in the order of the arguments. It is for templates with
    a quicker way than evaluating the tensors' declarations. `expected` ranks the space if the machine model does not
    cover the template, as with matrix instructions. `ranked_default` is the start of the ranking. `default` returns the
    configuration of calls without measurements, which every search measures first; None if the template has no default
    of its own.
    """

    space: Space
    flop: float = 0
    reference: ReferenceFunc | None = None
    expected: Expected | None = None
    ranked_default: RankedDefault | None = None
    default: Callable[[], Config | None] | None = None


class Template(Protocol):
    """A way to schedule a family of workloads."""

    @property
    def name(self) -> str:
        """The template's name in logs."""

    def declare(self, args: tuple[Any, ...], target: Target | None) -> Declared:
        """Return the declaration of a workload."""

    def instantiate(self, config: Config, args: tuple[Any, ...], target: Target | None) -> Program:
        """Return the schedule of a configuration; raise UserError if there is none."""


@dataclass(frozen=True)
class PureTemplate:
    """A template made of two functions: `space(*args)` and `build(config, *args)`."""

    name: str
    space: Callable[..., Space]
    build: Callable[..., Program]

    def declare(self, args: tuple[Any, ...], target: Target | None) -> Declared:
        """Return the space by the first function."""
        return Declared(self.space(*thaw(args)))

    def instantiate(self, config: Config, args: tuple[Any, ...], target: Target | None) -> Program:
        """Return the schedule by the second function."""
        schedule, tensors = self.build(config, *thaw(args))
        return schedule, list(tensors)


_templates: dict[str, Template] = {}


def register(template: Template) -> Template:
    """Register a template by its name; a template of the same name is replaced."""
    _templates[template.name] = template
    return template


def lookup(name: str) -> Template:
    """Return the template of a name; raise UserError if there is none."""
    if name not in _templates:
        view("registered templates")  # the package's, also by legacy names, such as "conv2d_nchw.cuda"
    found = _templates.get(name)
    if found is None:
        beside = ", ".join(each for each in map(str, _templates) if each.split(".")[0] == name.split(".")[0])
        known = f"import its module first; known: {', '.join(map(str, _templates)) or 'none'}"
        raise UserError(
            f"there is no template {name!r}",
            primitive="task.create",
            fix=f"records of removed strategies are of no use: tune again; there are {beside}" if beside else known,
        )
    return found


class Task:
    """One workload of a template on one target.

    `args` are plain values (see `freeze`). The space is declared at its first use, so a task read from a log does not
    need its template before.
    """

    def __init__(
        self, name: str, args: Sequence[Any], target: Target | None = None, template: Template | None = None
    ) -> None:
        self.name = name
        self.args = freeze_all(args, "Task")
        self.kwargs: dict[str, Any] = {}
        self.target = target
        self._template = template
        self._declared: Declared | None = None
        self._flop: float | None = None

    @classmethod
    def of_frozen(cls, name: str, args: tuple[Any, ...], target: Target) -> Task:
        """Return the task of frozen arguments, which the lines of a log share."""
        made = cls.__new__(cls)
        made.name, made.args, made.kwargs, made.target = name, args, {}, target
        made._template = made._declared = made._flop = None
        return made

    @property
    def workload(self) -> Workload:
        """The name and the frozen arguments."""
        return (self.name, *self.args)

    @property
    def template(self) -> Template:
        """The template; raises UserError if its name is not defined."""
        if self._template is None:
            self._template = lookup(self.name)
        return self._template

    @property
    def declared(self) -> Declared:
        """The template's declaration for this workload."""
        if self._declared is None:
            self._declared = self.template.declare(self.args, self.target)
        return self._declared

    @property
    def config_space(self) -> Space:
        """The space of configurations."""
        return self.declared.space

    @property
    def default(self) -> int | None:
        """The index of the default configuration, for calls without measurements; None if there is none."""
        found = self.declared.default() if self.declared.default is not None else None
        return self.config_space.find(found) if found is not None else None

    @property
    def flop(self) -> float:
        """Floating-point operations of one run."""
        if self._flop is None:
            counted = self.declared.flop
            if not counted:
                # All configurations compute the same, so any one is used. In a sparse space, fewer points than
                # requested are drawn.
                some, *_ = self.config_space.draw(np.random.default_rng(0), _POINTS_DRAWN).tolist()
                config = self.config_space.get(self.config_space.index(some))
                counted = count_flop(self.instantiate(config)[0].value)
            self._flop = counted
        return self._flop

    def instantiate(self, config: Config) -> Program:
        """Return the schedule of a configuration, and its arguments; raise UserError if there is none."""
        if not isinstance(config, Config):
            raise UserError(
                f"the configuration is {config!r}, which is not a configuration",
                primitive="task.instantiate",
                fix="give one of the task's space: task.config_space.get(0)",
            )
        return self.template.instantiate(config, self.args, self.target)

    def identity(self, index: int | None) -> str:
        """Return the identity of a configuration of this task, as text."""
        return json.dumps([self.name, self.args, str(self.target), index], default=str)

    def index_of(self, identity: str) -> int | None:
        """Return the index of the configuration with an identity; None if it belongs to another task."""
        try:
            index = json.loads(identity)[-1]
        except (ValueError, LookupError, TypeError):
            return None
        own = isinstance(index, int) and identity == self.identity(index)
        return index if own and 0 <= index < self.config_space.range_length else None

    def with_target(self, target: Target) -> Task:
        """Return this task on another target."""
        return Task(self.name, self.args, target, self._template)

    def __repr__(self) -> str:
        return f"Task(func_name={self.name}, args={self.args}, kwargs={self.kwargs}, workload={self.workload})"

    def __reduce__(self) -> tuple[Any, ...]:
        # The template is pickled by name, because its functions may be the user's own, in `__main__`.
        return Task, (self.name, self.args, self.target)


def create(
    task_name: str | Callable[..., Any], args: Sequence[Any], target: Any = None, target_host: Any = None
) -> Task:
    """Return the task of a template at `args` on `target`; raise UserError if its space cannot be declared.

    The template is a name or, as in the oldest scripts, the decorated function. `target_host` is ignored.
    """
    name = getattr(task_name, "task_name", task_name)
    chosen = Target.parse(target) if target is not None else Target.current()
    if chosen is None:
        raise UserError("no target is given", primitive="task.create", fix='pass target="cuda", "opencl" or "llvm"')
    if not isinstance(name, str):
        raise UserError(
            f"the template is given as {name!r}",
            primitive="task.create",
            fix='give the name that it was registered under: autotvm.task.create("conv2d", args, target)',
        )
    if isinstance(args, str) or not isinstance(args, Sequence):
        raise UserError(
            f"args={args!r} of the template {name!r} is not a tuple",
            primitive="task.create",
            fix="give args=(), or the template's arguments" if args is None else f"give args=({args!r},)",
        )
    task = Task(name, args, chosen)
    task.config_space.check()
    _ = task.flop  # an error in the template reaches the caller now, not at the first trial
    return task


@dataclass(frozen=True)
class Candidate:
    """A configuration of a task as a function that returns its schedule. It can be pickled for another host.

    A template of the package is pickled as its name, and a template of a script by value.
    """

    task: Task
    config: Config

    def __call__(self) -> Program:
        return self.task.instantiate(self.config)

    @property
    def identity(self) -> str:
        """The identity, which is valid in other processes as well."""
        return self.task.identity(self.config.index)

    def __reduce__(self) -> tuple[Any, ...]:
        task = self.task
        return _candidate, (task.name, task.args, task.target, task.template, self.config)


def _candidate(
    name: str, args: tuple[Any, ...], target: Target | None, template: Template, config: Config
) -> Candidate:
    return Candidate(Task(name, args, target, template), config)


_DEEPEST_NESTING = 32


def freeze(value: Any, depth: int = 0) -> Any:
    """Return an argument as a hashable value that logs can represent: tensors by shape and type."""
    if depth > _DEEPEST_NESTING:
        raise UserError(
            f"the arguments of a template are nested more than {_DEEPEST_NESTING} deep",
            primitive="task.create",
            fix="templates take numbers, strings, None, tensors, and tuples of these",
        )
    if isinstance(value, (list, tuple)):
        return tuple([freeze(v, depth + 1) for v in value])
    if isinstance(value, Tensor):
        return ("TENSOR", tuple(freeze(e) for e in value.shape), str(value.dtype))
    if isinstance(value, (n.IntImm, n.FloatImm, n.StringImm)):
        return value.value
    if value is None or isinstance(value, (bool, int, float, n.Var)):
        return value
    if isinstance(value, str):
        return str(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    if isinstance(value, Mapping):
        return tuple([(str(k), freeze(v, depth + 1)) for k, v in value.items()])
    raise UserError(
        f"the argument {value!r} of a template is a {type(value).__name__}",
        primitive="task.create",
        fix="templates take numbers, strings, None, tensors, and tuples of these",
    )


def freeze_all(args: Any, primitive: str) -> tuple[Any, ...]:
    """Return the frozen arguments of a template; raise UserError for anything except a list of arguments."""
    if not isinstance(args, (list, tuple)):
        raise UserError(f"args={args!r} is not a list of arguments", primitive=primitive, fix="give a tuple: (512, 3)")
    return tuple([freeze(arg, 1) for arg in args])


def thaw(args: tuple[Any, ...]) -> list[Any]:
    """Return arguments for a template's function: descriptions of tensors become fresh placeholders."""
    return [placeholder(a[1], a[2]) if isinstance(a, tuple) and a[:1] == ("TENSOR",) else a for a in args]
