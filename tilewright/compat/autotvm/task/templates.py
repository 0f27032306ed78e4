"""Templates as the legacy API writes them: functions that ask `get_config()` for their knobs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar, overload

from ....core.errors import UserError
from ....core.own_code import calling
from ....core.target import Target
from ....core.text import quantity
from ....schedule.handle import ScheduleHandle
from ....tune.flops import count_flop
from ....tune.space.config import Config
from ....tune.task import Declared, Program, freeze_all, register, thaw
from .contexts import ApplyConfig, DispatchContext
from .space import Ambient, AppliedConfig, ConfigSpace, FallbackConfigEntity


class AmbientTemplate:
    """A function that takes its configuration from the context, as a pure template."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function

    def __repr__(self) -> str:
        return f"AmbientTemplate({self.name}{inspect.signature(self.function)})"

    def declare(self, args: tuple[Any, ...], target: Target | None) -> Declared:
        """The knobs that the function defines when it runs, and the operations that it computes."""
        collected = ConfigSpace()
        schedule, _ = self._run(collected, args, target)
        default = functools.partial(self._default, args, target)
        return Declared(collected.space, collected.flop or count_flop(schedule.value), default=default)

    def _default(self, args: tuple[Any, ...], target: Target | None) -> Config | None:
        """Return the configuration that the function states as its fallback; None without a statement."""
        fallback = FallbackConfigEntity()
        try:
            self._run(fallback, args, target)
        except UserError:  # a fallback that makes no schedule is not a default
            return None
        return fallback.default()

    def instantiate(self, config: Config, args: tuple[Any, ...], target: Target | None) -> Program:
        """The schedule that the function makes of a configuration."""
        applied = AppliedConfig(config)
        schedule, tensors = self._run(applied, args, target)
        applied.check()
        return schedule, list(tensors)

    def _run(self, config: Ambient, args: tuple[Any, ...], target: Target | None) -> Any:
        with ExitStack() as around:
            around.enter_context(ApplyConfig(config))
            if target is not None:
                around.enter_context(target)
            around.enter_context(calling(f"the template {self.name!r}"))
            made = self.function(*self.given("task.create", *thaw(args)))
        if not (
            isinstance(made, (tuple, list)) and len(made) == 2
            and isinstance(made[0], ScheduleHandle) and isinstance(made[1], (tuple, list))
        ):  # fmt: skip
            kinds = ", ".join(type(part).__name__ for part in made) if isinstance(made, (tuple, list)) else ""
            raise UserError(
                f"the template {self.name!r} returns {type(made).__name__}" + (f" of ({kinds})" if kinds else ""),
                primitive="template",
                fix="return the schedule and its arguments: return s, [A, W, B]",
            )
        return made

    def given(self, primitive: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the arguments by position, after a check that the function accepts them."""
        signature = inspect.signature(self.function)
        try:
            return signature.bind(*args, **kwargs).args
        except TypeError as error:
            raise UserError(
                f"the template {self.name!r} cannot be called with the "
                f"{quantity(len(args), 'argument')} {args}: {error}",
                primitive=primitive,
                fix=f"its parameters are {signature}",
            ) from None


_F = TypeVar("_F", bound=Callable[..., Any])


@overload
def template(task_name: str) -> Callable[[_F], _F]: ...
@overload
def template(task_name: _F) -> _F: ...
@overload
def template(task_name: str, func: _F) -> _F: ...
def template(task_name: str | Callable[..., Any], func: Callable[..., Any] | None = None) -> Any:
    """Make a function a template under a name: `@autotvm.template("conv1d")`.

    The function's arguments are the workload. It asks `autotvm.get_config()` for the configuration, defines
    knobs on it, applies them, and returns (schedule, [tensors]). Called directly, it gets the configuration
    that the contexts around it know, such as `with autotvm.apply_history_best(log), target:`.

    `@autotvm.template` without a name, as in the oldest scripts, takes the function's own.
    """
    if inspect.isfunction(task_name) and func is None:
        return template(task_name.__qualname__, task_name)
    if not isinstance(task_name, str):
        raise UserError(
            f"the name of the template is {task_name!r}, which is not text",
            primitive="template",
            fix='name it in parentheses: @autotvm.template("conv2d")',
        )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        made = AmbientTemplate(task_name, function)
        register(made)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = made.given(task_name, *args, **kwargs)
            config = DispatchContext.current.query(Target.current(), args_to_workload(given, task_name))
            ambient = AppliedConfig(config) if isinstance(config, Config) else config
            with ApplyConfig(ambient):
                result = function(*args, **kwargs)
            ambient.check()
            return result

        call.task_name = task_name  # type: ignore[attr-defined]  # for task.create
        return call

    return decorate if func is None else decorate(func)


def get_config() -> Any:
    """Inside a template: the object that collects its knobs, or holds the choices to apply."""
    found = DispatchContext.current.query(Target.current(), None)
    return AppliedConfig(found) if isinstance(found, Config) else found


def serialize_args(args: Any) -> tuple[Any, ...]:
    """Arguments as values that compare, hash and can be written to a log: tensors by shape and type."""
    return freeze_all(args, "serialize_args")


def deserialize_args(args: Any) -> list[Any]:
    """Arguments for a template's function from a workload's: descriptions of tensors become placeholders."""
    return thaw(freeze_all(args, "deserialize_args"))


def args_to_workload(args: Any, task_name: str | None = None) -> tuple[Any, ...]:
    """The workload of arguments: plain values, the template's name first."""
    frozen = freeze_all(args, "args_to_workload")
    return frozen if task_name is None else (task_name, *frozen)
