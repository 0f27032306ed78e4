"""Operators of the legacy API that packaged templates compute: their declarations name the template.

`topi.cuda.conv2d_nchw` and its kin choose the template and a configuration when they declare the convolution: from
logs, as within `autotvm.apply_history_best`, else the first one. `topi.cuda.schedule_conv2d_nchw` applies them to the
convolution and to element-wise operators after it, as `auto_schedule` does with convolutions that it recognises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...core.errors import UserError
from ...core.target import Target
from ...expr.nodes import IntImm
from ...expr.operators import cast
from ...expr.traverse import loads
from ...schedule.handle import ScheduleHandle
from ...tensor.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, compute
from ...topi.idioms.chosen import with_choice
from ...topi.templates.template import PackagedTemplate, default_strategy, named
from ...topi.templates.workload import sum_dtype
from ...tune.space.config import Config
from ...tune.task import Workload, freeze
from .workloads import legacy_padding, named_by, workload_of

Convolve = Callable[..., Tensor]
Answers = Callable[[Target, Sequence[Workload]], Iterable[tuple[int, Any]]]
"""Returns the records for the names of one workload: the place of a name, and a configuration."""
_asked: list[Answers] = []


def ask(answers: Answers) -> None:
    """Let convolutions declared from now on have the configurations that `answers` returns."""
    _asked[:] = [answers]


def by_template(
    kind: type[Any],
    layout: str,
    plain: Convolve,
    target: Callable[[], Target],
    name: str = "",
) -> Convolve:
    """Return `plain`, an operator over data and filters, with the name of a template and of its first configuration.

    Workloads that the templates do not cover (sizes known at the call, other types of results) get no name.
    `name` is the operator's, if it is not that of `plain`; rows of the table limit some operators to their strategies.
    """
    name = name or plain.__name__
    able = named_by(name) or named(f"topi/{kind.name}").strategies

    def convolve(
        Input: Tensor, Filter: Tensor, stride: Any, padding: Any, dilation: Any = 1, *rest: Any, **more: Any
    ) -> Tensor:
        made = plain(Input, Filter, stride, padding, dilation, *rest, **more)
        workload = _workload(kind, layout, Input, Filter, (stride, padding, dilation), made)
        called = (f"{name}.cuda", *map(freeze, (Input, Filter, stride, padding, dilation)), str(made.dtype))
        return _planned(able, workload, target(), called, made)

    convolve.__name__ = convolve.__qualname__ = name
    convolve.__doc__ = plain.__doc__
    return convolve


def product_by_template(
    kind: type[Any],
    plain: Convolve,
    target: Callable[[], Target],
    name: str,
) -> Convolve:
    """Return a product of matrices `plain`, with its options, as the operator `name` declares it.

    As with `by_template`, other products are declared as they are. A bias is added to the result of a template.
    """
    strategies = named_by(name)

    def multiply(x: Tensor, y: Tensor, *rest: Any, **more: Any) -> Tensor:
        made = plain(x, y, *rest, **more)
        summands = [t for t in (*rest, *more.values()) if isinstance(t, Tensor)]
        product = next(t for t in made.op.input_tensors if isinstance(t.op, ComputeOp)) if summands else made
        called = (f"{name}.cuda", freeze(x), freeze(y), str(product.dtype))
        workload = _product_workload(kind, x, y, product)
        computed = _planned(strategies, workload, target(), called, product)
        if computed is product:
            return made
        if not summands:
            return computed
        (bias,) = summands
        added: Tensor = compute(
            made.shape, lambda *i: computed(*i) + cast(made.dtype, bias(i[-1])), "T_add", "broadcast"
        )
        return added

    multiply.__name__ = multiply.__qualname__ = name
    multiply.__doc__ = plain.__doc__
    return multiply


def _product_workload(kind: type[Any], x: Tensor, y: Tensor, made: Tensor) -> Any:
    """The workload of the product `made` of two tensors; None if templates do not compute the same."""
    inputs = all(isinstance(t.op, PlaceholderOp) for t in (x, y))
    if not inputs or x.dtype != y.dtype or not all(isinstance(e, IntImm) for t in (x, y) for e in t.shape):
        return None
    found = kind.of(tuple(int(e) for e in x.shape), int(y.shape[-2]), str(x.dtype))
    weights = tuple(int(e) for e in y.shape)
    turned = weights != found.weights_shape or tuple(int(e) for e in made.shape) != found.out_shape
    # Square factors have the same shape in every order: the declaration tells how they are read.
    last = made.op.reduce_axis[0].var if made.op.reduce_axis else None
    read = all(load.indices[-1] is last for load in loads(*made.op.body[0].children()))
    return None if turned or not read or str(made.dtype) not in (found.result, sum_dtype(found.dtype)) else found


def _planned(
    strategies: Sequence[PackagedTemplate[Any]],
    workload: Any,
    target: Target,
    called: Workload,
    made: Tensor,
) -> Tensor:
    """Return the declaration `made` with the chosen one of `strategies`, or unchanged if none covers the workload."""
    able = [] if workload is None else [each for each in strategies if each.covers(workload, target)]
    if not able:
        return made
    chosen = _measured(able, workload, target, called)
    if chosen is None:
        best = default_strategy(able, workload, target)
        chosen = best, best.default_config(workload, target)
    return with_choice(made, *chosen, workload, target)


def _measured(
    able: Sequence[PackagedTemplate[Any]], workload: Any, target: Target, called: Workload
) -> tuple[PackagedTemplate[Any], Config] | None:
    """The strategy and the configuration that logs know, under the package's names or as the legacy task `called`."""
    if not _asked:
        return None
    args: Workload = freeze(workload.args)
    for place, found in _asked[0](target, [*((strategy.name, *args) for strategy in able), called]):
        strategy = able[place] if place < len(able) else default_strategy(able, workload, target)
        config = getattr(found, "config", found)
        space = strategy.strategy(target).space(workload)
        index = space.find(config) if isinstance(config, Config) else None
        if index is not None:
            return strategy, space.get(index)
    return None


def _workload(
    kind: type[Any], layout: str, data: Tensor, weights: Tensor, window: tuple[Any, Any, Any], made: Tensor
) -> Any:
    """The workload of a convolution that was declared as `made`; None if templates do not compute the same."""
    inputs = all(isinstance(t.op, PlaceholderOp) for t in (data, weights))
    if not inputs or not all(isinstance(e, IntImm) for t in (data, weights) for e in t.shape):
        return None
    stride, padding, dilation = window
    kernel = tuple(int(e) for e in (weights.shape[2:] if layout == "NCHW" else weights.shape[:2]))
    options = {"stride": stride, "padding": legacy_padding(kind.name, padding, kernel, dilation), "dilation": dilation}
    options |= {"weights": "HWIO"} if layout == "NHWC" else {}
    try:
        found = workload_of(kind, data, weights, {"layout": layout, **options})
    except UserError:
        return None
    same = tuple(int(e) for e in made.shape) == found.out_shape
    return found if same and str(made.dtype) in (found.result, sum_dtype(found.dtype)) else None
