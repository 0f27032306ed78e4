"""Packaged templates under the names that the legacy operator library's tasks have, such as "conv2d_nchw.cuda".

A task of such a name has the arguments that the legacy API's has: tensors, strides, padding, and so on. Its space is
that of the strategy which is expected to be the fastest for the workload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ....core.errors import UserError
from ....core.target import Target
from ....expr.nodes import IntImm
from ....tensor.tensor import Tensor
from ....topi.templates.convolutions import Conv2dLayer, Depthwise
from ....topi.templates.matmul import BatchMatmul, Dense
from ....topi.templates.template import PackagedTemplate, default_strategy, named
from ....topi.templates.transposed import Transposed
from ....topi.templates.workload import Convolution
from ....tune.space.config import Config
from ....tune.task import Declared, Program, Template, register, thaw
from ...topi.workloads import legacy_padding, named_by, workload_of
from .lines import LINES

Read = Callable[..., tuple[Convolution, Any]]
"""Returns the workload for the arguments of a task, and the type that they name for the result."""


@dataclass(frozen=True)
class LegacyTemplate:
    """A packaged template under a legacy task's name.

    `example` are its arguments, for messages.
    """

    name: str
    read: Read
    example: str

    def declare(self, args: tuple[Any, ...], target: Target | None) -> Declared:
        """The space of the workload, and the operations of one run."""
        template, workload = self._chosen(args, target)
        return template.declare(workload.args, target)

    def instantiate(self, config: Config, args: tuple[Any, ...], target: Target | None) -> Program:
        """The schedule of a configuration, and its tensors: data, weights, result."""
        template, workload = self._chosen(args, target)
        return template.instantiate(config, workload.args, target)

    def _chosen(self, args: tuple[Any, ...], target: Target | None) -> tuple[PackagedTemplate[Any], Any]:
        try:
            workload, out_dtype = self.read(*thaw(args))
        except (TypeError, AttributeError, IndexError, ValueError) as error:
            raise UserError(
                f"{args} are not the arguments of the template {self.name!r}",
                primitive="task.create",
                fix=f"give args=({self.example})",
            ) from error
        if out_dtype not in (None, workload.result):
            raise UserError(
                f"the template {self.name!r} stores {workload.result} here, not {out_dtype}",
                primitive="task.create",
                fix=f"give out_dtype={workload.result!r}, or write a template of your own",
            )
        only = named_by(self.name.partition(".")[0])
        if not only:
            return named(f"topi/{workload.name}").choose(workload, target)[0], workload
        able = [t for t in only if t.covers(workload, target)]
        if not able:
            raise UserError(
                f"the template {self.name!r} does not cover {workload.title}",
                primitive="task.create",
                fix=f"use one of another name, such as {workload.name!r}",
            )
        return default_strategy(able, workload, target), workload


def _sizes(tensor: Tensor) -> tuple[int, ...]:
    """The shape of a tensor; raises ValueError if it is not constant."""
    if not all(isinstance(e, IntImm) for e in tensor.shape):
        raise ValueError(f"{tensor.shape} is not constant")
    return tuple(e.value for e in tensor.shape if isinstance(e, IntImm))


def _images(kind: type[Any], layout: str) -> Read:
    """Read the arguments of a convolution of images."""

    def read(
        data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, out_dtype: Any = None
    ) -> tuple[Convolution, Any]:
        taps = _sizes(kernel)[2:] if layout == "NCHW" else _sizes(kernel)[:2]
        zeros = legacy_padding("task.create", padding, taps, dilation)
        options = {"layout": layout, "stride": strides, "padding": zeros, "dilation": dilation}
        options |= {"weights": "HWIO"} if layout == "NHWC" else {}
        return workload_of(kind, data, kernel, options), out_dtype

    return read


def _grouped(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any, groups: int, out_dtype: Any = None
) -> tuple[Convolution, Any]:
    found = _images(Conv2dLayer, "NCHW")(data, kernel, stride, padding, dilation, out_dtype)
    if getattr(found[0], "groups", groups) != groups:
        raise ValueError(f"{groups} groups")
    return found


def _blocked(kind: type[Any]) -> Read:
    """Read the arguments of a convolution with named layouts, in the form of tasks for CPUs."""

    def read(
        data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, layout: str, out_layout: str,
        out_dtype: Any = None,
    ) -> tuple[Convolution, Any]:  # fmt: skip
        if (layout, out_layout) != ("NCHW", "NCHW"):
            raise ValueError(f"the layouts {layout} and {out_layout}")
        return _images(kind, layout)(data, kernel, strides, padding, dilation, out_dtype)

    return read


def _transposed(
    data: Tensor, kernel: Tensor, strides: Any, padding: Any, out_dtype: Any = None, output_padding: Any = (0, 0)
) -> tuple[Convolution, Any]:
    _, filters, *window = _sizes(kernel)
    cut = legacy_padding("task.create", padding, tuple(window), 1)
    made = Transposed.of(_sizes(data), filters, tuple(window), strides, cut, output_padding, dtype=str(data.dtype))
    return made, out_dtype


def _dense(data: Tensor, weight: Tensor, bias: Any = None, out_dtype: Any = None) -> tuple[Convolution, Any]:
    if bias is not None or _sizes(data)[1] != _sizes(weight)[1]:
        raise ValueError("a bias, or factors of different depths")
    return Dense.of(_sizes(data), _sizes(weight)[0], str(data.dtype)), out_dtype


def _batch_matmul(
    x: Tensor, y: Tensor, out_shape: Any = None, out_dtype: Any = None, transpose_a: bool = False,
    transpose_b: bool = True,
) -> tuple[Convolution, Any]:  # fmt: skip
    if transpose_a or not transpose_b or _sizes(x)[::2] != _sizes(y)[::2]:
        raise ValueError("factors of other orders or sizes")
    return BatchMatmul.of(_sizes(x), _sizes(y)[1], str(x.dtype)), out_dtype


_CONV = "data, kernel, strides, padding, dilation, out_dtype"
_BLOCKED = 'data, kernel, strides, padding, dilation, "NCHW", "NCHW", out_dtype'
_TABLE: dict[str, tuple[Read, str]] = {
    "conv2d_nchw.cuda": (_images(Conv2dLayer, "NCHW"), _CONV),
    "conv2d_nchw_winograd.cuda": (_images(Conv2dLayer, "NCHW"), _CONV),
    "conv2d_hwcn.cuda": (_images(Conv2dLayer, "HWCN"), _CONV),
    "conv2d_nhwc.cuda": (_images(Conv2dLayer, "NHWC"), _CONV),
    "conv2d_nhwc_tensorcore.cuda": (_images(Conv2dLayer, "NHWC"), _CONV),
    "depthwise_conv2d_nchw.cuda": (_images(Depthwise, "NCHW"), _CONV),
    "group_conv2d_nchw.cuda": (_grouped, "data, kernel, stride, padding, dilation, groups, out_dtype"),
    "conv2d_transpose_nchw.cuda": (_transposed, "data, kernel, strides, padding, out_dtype, output_padding"),
    "conv2d_NCHWc.x86": (_blocked(Conv2dLayer), _BLOCKED),
    "depthwise_conv2d_NCHWc.x86": (_blocked(Depthwise), _BLOCKED),
    **dict.fromkeys(
        (
            "dense_small_batch.gpu",
            "dense_large_batch.gpu",
            "dense_nopack.x86",
            "dense_pack.x86",
            "dense_tensorcore.cuda",
        ),
        (_dense, "data, weight, None, out_dtype"),
    ),
    **dict.fromkeys(("batch_matmul.cuda", "batch_matmul.x86", "batch_matmul_tensorcore.cuda"), (_batch_matmul, "x, y")),
}
LEGACY = [LegacyTemplate(name, read, example) for name, (read, example) in _TABLE.items()]
for _template in LEGACY:
    register(_template)
register(LINES)


def templates() -> list[Template]:
    """Return these templates. `tilewright/tune/task.py::lookup` calls it, and so imports this module."""
    return [*LEGACY, LINES]
