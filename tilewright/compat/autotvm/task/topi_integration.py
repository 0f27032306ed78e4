"""Templates in two parts, a declaration and a schedule of its own, as the legacy operator library has them.

@autotvm.register_topi_compute("conv2d_nchw.mine")
def conv2d(cfg, data, kernel, stride): ...           # knobs of the declaration; returns a tensor
@autotvm.register_topi_schedule("conv2d_nchw.mine")
def schedule(cfg, outs): ...                         # knobs of the schedule; returns a schedule
task = autotvm.task.create("conv2d_nchw.mine", args=(data, kernel, 1), target="cuda")

Both get the configuration that the contexts around the call know for the workload. The schedule finds the workload by
the operation that the declaration returned.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from ....core.errors import UserError
from ....core.target import Target
from ....tensor.tensor import Operation, Tensor
from ....tune.space.config import Config
from ....tune.task import register
from .contexts import DispatchContext
from .space import AppliedConfig
from .templates import AmbientTemplate, args_to_workload

_schedules: dict[str, Callable[..., Any]] = {}
_declared: WeakKeyDictionary[Operation, tuple[str, tuple[Any, ...]]] = WeakKeyDictionary()
"""The task and the workload of each operation that a registered declaration returned."""


def register_topi_compute(task_name: str, func: Callable[..., Any] | None = None) -> Any:
    """Make a function the declaration of an operator that can be tuned.

    Parameters
    ----------
    task_name : str
        Its name in tasks and logs.
    func : callable, optional
        The function, of a configuration and the arguments of the operator; without it, a decorator is returned.

    Returns
    -------
    callable
        The operator, called without the configuration. Its arguments, given by position, are the workload.
    """
    _check_name("register_topi_compute", task_name)

    def decorate(compute: Callable[..., Any]) -> Callable[..., Any]:
        register(AmbientTemplate(task_name, functools.partial(_program, task_name, compute)))

        @functools.wraps(compute)
        def declare(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                raise UserError(
                    f"the arguments {', '.join(kwargs)} of {task_name!r} are given by name",
                    primitive=task_name,
                    fix="give them by position: they are the workload",
                )
            return _marked(task_name, args, compute(_config(args_to_workload(args, task_name)), *args))

        declare.task_name = task_name  # type: ignore[attr-defined]  # for task.create
        return declare

    return decorate if func is None else decorate(func)


def register_topi_schedule(task_name: str, func: Callable[..., Any] | None = None) -> Any:
    """Make a function the schedule of an operator that `register_topi_compute` registered under the same name.

    Parameters
    ----------
    task_name : str
        Its name in tasks and logs.
    func : callable, optional
        The function, of a configuration and the output tensors; without it, a decorator is returned.

    Returns
    -------
    callable
        The schedule function, called with the outputs alone.
    """
    _check_name("register_topi_schedule", task_name)

    def decorate(schedule: Callable[..., Any]) -> Callable[..., Any]:
        _schedules[task_name] = schedule

        @functools.wraps(schedule)
        def apply(outs: Any, *args: Any, **kwargs: Any) -> Any:
            workload = get_workload(outs, task_name)
            if workload is None:
                raise UserError(
                    f"none of the outputs depends on a tensor of {task_name!r}",
                    primitive=task_name,
                    fix="give the tensor that its declaration returned, or a tensor computed from it",
                )
            return schedule(_config(workload), outs, *args, **kwargs)

        return apply

    return decorate if func is None else decorate(func)


def get_workload(outs: Any, task_name: str | None = None) -> tuple[Any, ...] | None:
    """Return the workload that the outputs were declared for; None if no registered declaration made them.

    Parameters
    ----------
    outs : Tensor or list of Tensor
        Outputs, or tensors computed from them.
    task_name : str, optional
        Only workloads of this task count.
    """
    listed = [outs] if isinstance(outs, Tensor) else outs
    if not isinstance(listed, (list, tuple)) or not all(isinstance(out, Tensor) for out in listed):
        raise UserError(f"outs={outs!r} are not tensors", primitive="get_workload", fix="give the outputs: [C]")
    for op in _operations(listed):
        name, workload = _declared.get(op, ("", ()))
        if name and task_name in (None, name):
            return workload
    return None


def _operations(outs: Any) -> Iterator[Operation]:
    """The operations that tensors are computed from, the outputs first, each once."""
    seen: set[Operation] = set()
    waiting = [t.op for t in outs]
    while waiting:
        op = waiting.pop(0)
        if op not in seen:
            seen.add(op)
            yield op
            waiting += [t.op for t in op.input_tensors]


def _config(workload: tuple[Any, ...]) -> Any:
    found = DispatchContext.current.query(Target.current(), workload)
    return AppliedConfig(found) if isinstance(found, Config) else found


def _marked(task_name: str, args: Any, out: Any) -> Any:
    """The result of a declaration, with its operations registered by workload."""
    outs = [out] if isinstance(out, Tensor) else out
    if not isinstance(outs, (list, tuple)) or not all(isinstance(t, Tensor) for t in outs):
        raise UserError(f"the declaration of {task_name!r} returns {out!r}", primitive=task_name, fix="return a tensor")
    _declared.update({t.op: (task_name, args_to_workload(args, task_name)) for t in outs})
    return out


def _program(task_name: str, compute: Callable[..., Any], *args: Any) -> tuple[Any, list[Tensor]]:
    """The schedule of a configuration, in the form that templates return."""
    schedule = _schedules.get(task_name)
    if schedule is None:
        raise UserError(
            f"{task_name!r} has a declaration and no schedule",
            primitive="task.create",
            fix=f"register one: @autotvm.register_topi_schedule({task_name!r})",
        )
    config = DispatchContext.current.query(Target.current(), None)
    out = _marked(task_name, args, compute(config, *args))
    outs = [out] if isinstance(out, Tensor) else list(out)
    inputs = [t for arg in args for t in (arg if isinstance(arg, (list, tuple)) else [arg]) if isinstance(t, Tensor)]
    return schedule(config, outs), [*inputs, *outs]


def _check_name(primitive: str, task_name: Any) -> None:
    if not isinstance(task_name, str):
        shown = task_name.__name__ if inspect.isfunction(task_name) else repr(task_name)
        raise UserError(
            f"the name of the task is {shown}, which is not text",
            primitive=primitive,
            fix=f'name it: @autotvm.{primitive}("conv2d.mine")',
        )
