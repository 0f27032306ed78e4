"""Templates that come with the package: `conv1d`, `conv2d` and `depthwise`, for any size, on GPUs and CPUs.

task = autotvm.templates.conv2d.task("cuda", shape=(1, 512, 7, 7), filters=512)
with autotvm.apply_history_best("conv2d.log"), tvm.target.Target("cuda"):
    s, args = autotvm.templates.conv2d(shape=(1, 512, 7, 7), filters=512)
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from ..core.errors import UserError
from ..core.target import Target
from ..topi import templates as packaged
from ..topi.templates.workload import Convolution
from ..tune.space.config import Config
from ..tune.task import Program, Task
from ..tune.task import create as create_task
from .task.dispatcher import DispatchContext
from .task.space import AppliedConfig
from .task.templates import args_to_workload

W = TypeVar("W", bound=Convolution)


class Packaged(Generic[W]):
    """A packaged template, called as those of `autotvm.template` are.

    Its options are those of `tilewright tune`: `shape` of the input, `kernel`, `stride`, `padding` ("same", "valid",
    "full", or numbers), `dtype`; for images `dilation`; `filters` and `groups` of `conv2d`, `multiplier` of
    `depthwise`. An int stands for both sides of a window.
    """

    def __init__(self, template: packaged.PackagedTemplate[W]) -> None:
        self.template = template

    def task(self, target: Any = None, **options: Any) -> Task:
        """What is to be tuned; `target` is by default the one of the context. UserError for wrong options."""
        return create_task(self.template.name, self.template.kind.of(**options).args, target)

    def __call__(self, **options: Any) -> Program:
        """The schedule of the configuration that the contexts around the call know, and data, weights, result.

        Where no log knows the workload, the schedule is a plain one that suits most sizes. UserError for wrong options,
        and where no target is given.
        """
        target = Target.current()
        if target is None:
            raise UserError(
                "no current target to schedule for",
                primitive=self.template.kind.name,
                fix='call the template inside `with tw.target.Target("cuda"):`',
            )
        args = self.template.kind.of(**options).args
        found = DispatchContext.current.query(target, args_to_workload(args, self.template.name))
        config = found.config if isinstance(found, AppliedConfig) else found
        if not isinstance(config, Config):
            config = self.template.first(args, target)
        return self.template.instantiate(config, args, target)


conv1d = Packaged(packaged.CONV1D)
conv2d = Packaged(packaged.CONV2D)
depthwise = Packaged(packaged.DEPTHWISE)

__all__ = ["Packaged", "conv1d", "conv2d", "depthwise"]
