"""Replace the calls of PyTorch's convolutions in a graph of Dynamo's, one by one.

Such a graph has the functions that a model calls, including in-place operations. A replacement has the same operands
and the same position in the graph, so that the order of writes is kept.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from ..core.errors import UserError
from ..core.windows import extents
from ..functional.arguments.call import OPERATORS, CallOptions
from ..functional.arguments.problem import Problem
from ..functional.arguments.signature import signature
from ..functional.planning.decision import Tune
from ..functional.pytorch import tensors as torch_tensors
from ..functional.pytorch.operators.arguments import numbers, padding
from ..functional.pytorch.operators.layer import gradients_of_ours
from .fusion import (
    OURS_IN_GRAPH,
    FusedRow,
    NotOurs,
    compile_ahead,
    device_of,
    properties_of,
    reason_of,
    row_by_plan,
    row_of_pytorch,
)

_CONVOLUTIONS = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_TRANSPOSED = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")
_CALLS = {
    torch.conv1d: ("conv1d", _CONVOLUTIONS),
    torch.conv2d: ("conv2d", _CONVOLUTIONS),
    torch.conv_transpose1d: ("conv_transpose1d", _TRANSPOSED),
    torch.conv_transpose2d: ("conv_transpose2d", _TRANSPOSED),
}


def replace_calls(gm: GraphModule, tune: Tune = None) -> list[FusedRow]:
    """Replace the convolutions of a graph if our kernel of the forward call or of a gradient is faster."""
    found: list[tuple[Node, _Call | str]] = []
    for node in list(gm.graph.nodes):
        if node.op == "call_function" and node.target in _CALLS:
            try:
                found.append((node, _Call(node)))
            except (NotOurs, UserError) as refused:
                found.append((node, reason_of(refused)))
    if tune is None:
        calls = [call for _, call in found if isinstance(call, _Call)]
        compile_ahead((problem, call.on) for call in calls for problem in call.problems)
    rows = [row_of_pytorch(node, call) if isinstance(call, str) else call.replace(tune) for node, call in found]
    if any(row.replaced for row in rows):
        gm.recompile()
    return rows


def _arguments(node: Node) -> dict[str, Any]:
    _, names = _CALLS[node.target]
    return {"bias": None, **dict(zip(names, node.args, strict=False)), **node.kwargs}


class _Call:
    """A call of a PyTorch function, with the arguments of our operator."""

    def __init__(self, node: Node) -> None:
        self.node, self.result, given = node, node.meta["example_value"], _arguments(node)
        self.name = name = _CALLS[node.target][0]
        if any(isinstance(a, Node) for key in given for a in _flat(given[key]) if key not in _TENSORS):
            raise NotOurs("its options change from call to call")
        rank, weight = OPERATORS[name].rank, given["weight"].meta["example_value"]
        self.stride, self.dilation = (numbers(given.get(key, 1), rank) for key in ("stride", "dilation"))
        self.output_padding = numbers(given.get("output_padding", 0), rank)
        self.groups = given.get("groups", 1)
        around = padding(name, given.get("padding", 0), extents(weight.shape[2:], self.dilation), self.stride)
        self.padding = list(around)
        self.problems, self.on = self._problems(), device_of(given["input"].meta["example_value"])

    @property
    def tensors(self) -> list[Any]:
        """Return the present nodes of input, weight and bias: earlier calls may have been replaced."""
        return [_arguments(self.node)[name] for name in _TENSORS]

    def _problems(self) -> list[Problem]:
        """Return the problems of the forward call and of the gradients that our operators compute."""
        rank, dtype = OPERATORS[self.name].rank, torch_tensors.NAMES.get(self.result.dtype, "")
        x: Any
        weight: Any
        x, weight, bias = (None if a is None else a.meta["example_value"] for a in self.tensors)
        seen = [None if a is None else properties_of(a, rank)._replace(dtype=dtype) for a in (x, weight, bias)]
        given = torch_tensors.in_result_order(seen, rank, (x, weight))
        options = CallOptions(
            tuple(self.stride), tuple(self.padding), tuple(self.dilation), self.groups,
            output_padding=tuple(self.output_padding),
        )  # fmt: skip
        problem = signature(self.name, given, options).problem
        if 0 in problem.shape:
            raise NotOurs("the sample has no images")
        if not torch.is_grad_enabled():
            return [problem]
        return [problem, *gradients_of_ours(problem, weight.requires_grad, x.requires_grad)]

    def replace(self, tune: Tune) -> FusedRow:
        """Replace the call if our kernel of the forward call, or of a gradient, is expected to be faster."""
        try:
            row = row_by_plan(self.node, self.problems, self.on, tune)
        except UserError as refused:
            return row_of_pytorch(self.node, reason_of(refused))
        if row.replaced:
            self._put_in_place()
        return row

    def _put_in_place(self) -> None:
        """Replace the call by our operator. Arguments are cast to the type of the result, since autocast does not see
        the call."""
        node, name = self.node, self.name
        graph = node.graph
        with graph.inserting_before(node):
            given = [
                a
                if a is None or a.meta["example_value"].dtype == self.result.dtype
                else graph.call_method("to", (a, self.result.dtype))
                for a in self.tensors
            ]
            made = graph.call_function(
                OURS_IN_GRAPH,
                (
                    *given, None, name, self.stride, self.padding, self.dilation, self.groups, "",
                    "NCHW" if OPERATORS[name].rank == 2 else "NCW", self.output_padding,
                ),
            )  # fmt: skip
        made.meta = dict(node.meta)
        node.replace_all_uses_with(made)
        graph.erase_node(node)


_TENSORS = ("input", "weight", "bias")


def _flat(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)
