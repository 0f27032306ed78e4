"""Linear layers on images, as in ConvNeXt, rewritten as 1 × 1 convolutions, and back.

A linear layer reads an image with channels last. As a convolution, it may become one call with the activation, the
scale and the residual after it. Layers that are not replaced become matrix products again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from .chains import CONVOLUTION, activation_of

_aten = torch.ops.aten
_VIEWS = (_aten.view.default, _aten._unsafe_view.default, _aten.reshape.default)
_TO_CHANNELS_FIRST = [0, 3, 1, 2]
"""The permutation of dimensions from channels last to channels first."""
_TO_CHANNELS_LAST = [0, 2, 3, 1]
"""The permutation of dimensions from channels first to channels last."""
_MARK = "linear"


def linear_as_convolution(graph: Graph) -> None:
    """Replace linear layers on images by 1 × 1 convolutions, and cancel permutations between them."""
    for node in list(graph.nodes):
        if node.target in (_aten.addmm.default, _aten.mm.default) and not node.kwargs:
            _rewrite(graph, node)
    for node in list(graph.nodes):
        source = node.args[0] if node.args and isinstance(node.args[0], Node) else None
        if source is None or source.target is not _aten.permute.default or not source.meta.get(_MARK):
            continue
        inner, order = source.args
        if node.target is _aten.permute.default:
            if [order[dim] for dim in node.args[1]] == [0, 1, 2, 3]:
                node.replace_all_uses_with(inner)
        elif node.target is _aten.clone.default and not node.kwargs:
            node.replace_all_uses_with(source)
        elif activation_of(node) and len(source.users) == 1:
            with graph.inserting_before(node):
                moved = graph.call_function(node.target, (inner, *node.args[1:]), dict(node.kwargs))
                moved.meta["val"] = inner.meta["val"]
                node.replace_all_uses_with(_permuted(graph, moved, order))
    graph.eliminate_dead_code()


def _rewrite(graph: Graph, node: Node) -> None:
    *bias, rows, transposed = node.args
    readers = list(node.users)
    if rows.target not in _VIEWS or transposed.target is not _aten.t.default or len(readers) != 1:
        return
    image, weight, result = rows.args[0], transposed.args[0], readers[0]
    x, out = image.meta["val"], result.meta.get("val")
    if x.dim() != 4 or result.target not in _VIEWS or out.dim() != 4 or str(x.shape[:3]) != str(out.shape[:3]):
        return
    filters, channels = weight.meta["val"].shape
    if (x.shape[3], out.shape[3]) != (channels, filters) or (bias and bias[0].meta["val"].dim() != 1):
        return
    with graph.inserting_before(node):
        first = _permuted(graph, image, _TO_CHANNELS_FIRST)
        taps = graph.call_function(_aten.view.default, (weight, [filters, channels, 1, 1]))
        taps.meta["val"] = weight.meta["val"].reshape(filters, channels, 1, 1)
        made = graph.call_function(
            CONVOLUTION, (first, taps, bias[0] if bias else None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
        )
        made.meta = {"val": out.permute(_TO_CHANNELS_FIRST), _MARK: True}
        result.replace_all_uses_with(_permuted(graph, made, _TO_CHANNELS_LAST))


def _permuted(graph: Graph, node: Node, order: list[int]) -> Node:
    made = graph.call_function(_aten.permute.default, (node, order))
    made.meta = {"val": node.meta["val"].permute(order), _MARK: True}
    return made


def is_linear(node: Node) -> bool:
    """Whether a convolution of the graph was a linear layer."""
    return bool(node.meta.get(_MARK))


def convolution_as_linear(graph: Graph) -> None:
    """Turn former linear layers that are still PyTorch's convolutions into matrix products again."""
    for node in list(graph.nodes):
        if node.target is CONVOLUTION and is_linear(node):
            x, weight, bias, *_ = node.args
            _, filters, height, width = node.meta["val"].shape
            with graph.inserting_before(node):
                rows = _called(graph, _aten.permute.default, x, _TO_CHANNELS_LAST)
                rows = _called(graph, _aten.reshape.default, rows, [-1, weight.meta["val"].shape[1]])
                flat = _called(graph, _aten.reshape.default, weight, list(weight.meta["val"].shape[:2]))
                flat = _called(graph, _aten.t.default, flat)
                operands = (rows, flat) if bias is None else (bias, rows, flat)
                product = _called(graph, _aten.mm.default if bias is None else _aten.addmm.default, *operands)
                image = _called(graph, _aten.reshape.default, product, [-1, height, width, filters])
                node.replace_all_uses_with(_called(graph, _aten.permute.default, image, _TO_CHANNELS_FIRST))
            graph.erase_node(node)


def _called(graph: Graph, target: Any, *given: Any) -> Node:
    return graph.call_function(target, given)
