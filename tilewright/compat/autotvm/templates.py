"""Templates that come with the package: convolutions and matrix products of any size, on GPUs and CPUs.

task = autotvm.templates.conv2d.task("cuda", shape=(1, 512, 7, 7), filters=512)
with autotvm.apply_history_best("conv2d.log"), tvm.target.Target("cuda"):
    s, args = autotvm.templates.conv2d(shape=(1, 512, 7, 7), filters=512)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ...core.errors import UserError
from ...core.target import Target
from ...schedule.handle import ScheduleHandle
from ...tensor.tensor import Tensor
from ...topi import templates as packaged
from ...topi.idioms.chosen import choice_of, with_choice
from ...topi.idioms.redeclared import schedule_convolution
from ...topi.templates.epilogue import finish
from ...topi.templates.workload import Convolution, of_options
from ...tune.space.config import Config
from ...tune.task import Program, Task
from ...tune.task import create as create_task
from ..topi.workloads import workload_of
from .task.contexts import DispatchContext
from .task.space import AppliedConfig
from .task.templates import args_to_workload

logger = logging.getLogger("autotvm")

W = TypeVar("W", bound=Convolution)


class Packaged(Generic[W]):
    """A packaged template, called like the templates of `autotvm.template`.

    It has the options of `tilewright tune`: the `shape` of the input, `kernel`, `stride`, `padding` and `dtype`. A
    padding is numbers, "valid", "full", or "same" with PyTorch's meaning. Operators on images have `dilation`, `conv2d`
    has `filters` and `groups`, and `depthwise` has `multiplier`. An int stands for both sides of a window. `dense`
    takes `shape` (rows, depth) and `units`, `batch_matmul` `shape` (batch, rows, depth) and `columns`.
    """

    def __init__(self, template: packaged.PackagedTemplate[W]) -> None:
        self.template = template

    def by(self, strategy: str) -> Packaged[W]:
        """The same operator by one strategy, such as `autotvm.templates.conv2d.by("mma")`.

        `strategy` is the last part of the name of a template in a log, "general" for the name without one. Raises
        UserError if there is no such strategy.
        """
        return Packaged(packaged.strategy_named(self.template, strategy))

    def task(self, target: Any = None, **options: Any) -> Task:
        """The task to tune; `target` is by default the one of the context. UserError for wrong options.

        If the general strategy does not cover the workload on the target, the task is that of the default strategy.
        """
        workload, on = of_options(self.template.kind, options), target or Target.current()
        template = self.template
        if on is not None and not template.covers(workload, Target.parse(on)):
            template = next(iter(template.able(workload, Target.parse(on))), template)
        return create_task(template.name, workload.args, target)

    def __call__(self, **options: Any) -> Program:
        """The schedule of the configuration that the contexts around the call know, and data, weights, result.

        If no log knows the workload, the schedule is a plain one that suits most sizes. Raises UserError for wrong
        options, and if no target is given.
        """
        target, workload = self._target(), of_options(self.template.kind, options)
        template, config = self._known(workload, target)
        return template.program(config, workload, target)

    def compute(
        self, x: Tensor, w: Tensor, *, epilogue: Callable[..., Any] | None = None, target: Any = None, **options: Any
    ) -> Tensor:
        """Declare the convolution of two tensors as part of a program.

        Parameters
        ----------
        x : Tensor
            Images, N x C x H x W, or N x H x W x C with `layout="NHWC"`.
        w : Tensor
            Filters of PyTorch's shape: filters x channels of a group x rows x columns.
        epilogue : callable, optional
            Called with each sum, of type float32 (float64 for float64 data), and the indices of the result. Returns the
            value to store, which is converted to the type of `x`.
        target : Target or str, optional
            The target of the program; by default the current target.
        **options
            `stride`, `padding`, `dilation`, `layout`, as for a call of the template.

        Returns
        -------
        Tensor
            The result, of the type of `x`; `schedule` schedules it.

        Raises
        ------
        UserError
            If the shapes do not fit, or there is no target.
        """
        chosen = Target.parse(target) if target is not None else self._target()
        if not isinstance(x, Tensor) or not isinstance(w, Tensor):
            raise UserError(f"the operands are {x!r} and {w!r}", primitive="compute", fix="give two tensors")
        workload = workload_of(self.template.kind, x, w, options)
        template, config = self._known(workload, chosen)
        sums = with_choice(workload.sums(x, w), template, config, workload, chosen)
        return finish(sums, workload.result, epilogue)

    def schedule(self, s: ScheduleHandle, out: Tensor) -> None:
        """Schedule the result of `compute`, its epilogue fused, in the schedule `s` of a program.

        Raises UserError for a tensor that `compute` did not return.
        """
        if not isinstance(s, ScheduleHandle) or not isinstance(out, Tensor):
            raise UserError(
                f"a schedule and a tensor are needed, got {type(s).__name__} and {type(out).__name__}",
                primitive="schedule",
                fix="give the schedule of the program, and the tensor that the template's `compute` returned",
            )
        found = [(t.op, choice) for t in (out, *out.op.input_tensors) if (choice := choice_of(t.op)) is not None]
        if not found:
            raise UserError(
                f"{out.name!r} was not declared by a packaged template",
                primitive="schedule",
                fix="give the tensor that the template's `compute` returned",
            )
        ((sums, choice), *_) = found
        schedule_convolution(s, sums, out.op, choice.template, choice.config, choice.target)

    def _target(self) -> Target:
        target = Target.current()
        if target is None:
            raise UserError(
                "no current target to schedule for",
                primitive=self.template.kind.name,
                fix='call the template inside `with tw.target.Target("cuda"):`',
            )
        return target

    def _known(self, workload: W, target: Target) -> tuple[packaged.PackagedTemplate[W], Config]:
        """The fastest strategy in the contexts, with its configuration; the default strategy if they have none."""
        able = [t for t in self.template.strategies if t.covers(workload, target)]
        names = [args_to_workload(workload.args, template.name) for template in able]
        for place, found in DispatchContext.current.answers(target, names):
            template, config = able[place], found.config if isinstance(found, AppliedConfig) else found
            if not isinstance(config, Config):
                continue
            space = template.declare(workload.args, target).space
            index = space.find(config)  # an older log counts its configurations in a space of fewer choices
            if index is not None:
                return template, space.get(index)
            logger.warning(
                "The log's record for %s on %s is not a configuration of this template, and is not used: %s",
                names[place],
                target,
                config,
            )
        return able[0], able[0].default_config(workload, target)


conv1d = Packaged(packaged.named("topi/conv1d"))
conv2d = Packaged(packaged.named("topi/conv2d"))
depthwise = Packaged(packaged.named("topi/depthwise"))
dense = Packaged(packaged.named("topi/dense"))
batch_matmul = Packaged(packaged.named("topi/batch_matmul"))

__all__ = ["Packaged", "batch_matmul", "conv1d", "conv2d", "dense", "depthwise"]
