"""Choose the memory order of the images in an ATen graph, and convert the inputs of all convolutions to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from .chains import CONVOLUTION

_aten = torch.ops.aten


def in_memory_format(graph: Graph, node: Node, memory_format: Any = torch.channels_last) -> Node:
    """Return a node that converts images to a memory format. It copies nothing if they have that format."""
    return graph.call_function(_aten.contiguous.default, (node,), {"memory_format": memory_format})


def in_order(graph: Graph, node: Node, order: tuple[int, ...]) -> Node:
    """Return a node that converts a tensor to a memory order of its dimensions, outermost first."""
    inner = graph.call_function(_aten.permute.default, (node, list(order)))
    inner = in_memory_format(graph, inner, torch.contiguous_format)
    back = sorted(range(len(order)), key=order.__getitem__)
    return graph.call_function(_aten.permute.default, (inner, back))


def prefers_channels_last(gm: GraphModule, convolutions: list[Node]) -> bool:
    """Return whether images should have channels last: for 16-bit types, or if PyTorch's compiler would do so."""
    images = [node for node in convolutions if len(node.args[3]) == 2]
    if not images:
        return False
    types = {node.meta["val"].dtype for node in images}
    if types & {torch.float16, torch.bfloat16}:
        return True
    try:
        from torch._inductor.graph import GraphLowering

        return bool(GraphLowering.decide_layout_opt(gm, is_inference=True))
    except (ImportError, AttributeError, TypeError):
        return False  # a version without this private interface keeps the order of the input


def depends_on_strides(graph: Graph) -> bool:
    """Return whether a node depends on the strides of its input. Nodes that only change strides of dimensions of extent
    1, as after global pooling, are removed."""
    for node in list(graph.nodes):
        if node.target is _aten.as_strided.default:
            source = node.args[0]
            value = source.meta["val"]
            same = [str(size) for size in value.shape] == [str(size) for size in node.meta["val"].shape]
            pairs = zip(value.shape, value.stride(), node.meta["val"].stride(), strict=False)
            if len(node.args) > 3 or not same or any(str(a) != str(b) for size, a, b in pairs if size != 1):
                return True
            node.replace_all_uses_with(source)
            graph.erase_node(node)
    return False


def results_share_memory(graph: Graph) -> bool:
    """Return whether a result is a view of another result. A reordered copy would separate them."""
    values = [node.meta.get("val") for node in results_of(graph)]
    memory = [value.untyped_storage()._cdata for value in values if isinstance(value, torch.Tensor)]
    return len(set(memory)) < len(memory)


def order_images(graph: Graph, static: set[Node], orders: list[tuple[int, ...] | None]) -> None:
    """Give all remaining convolutions inputs with channels last, and restore the strides of the graph's results."""
    for node in list(graph.nodes):
        if node.target is CONVOLUTION and len(node.args[3]) == 2:
            x, weight, *rest = node.args
            with graph.inserting_before(node):
                pair = [in_memory_format(graph, x), in_memory_format(graph, weight)]
            if weight in static:
                static.add(pair[1])
            node.args = (*pair, *rest)
        elif node.target in (_aten.view.default, _aten._unsafe_view.default):
            node.target = _aten.reshape.default  # a view of the old strides may be a copy of the new ones
    results = list(results_of(graph))
    output = next(iter(reversed(graph.nodes)))
    swapped: dict[Node, Node] = {}
    with graph.inserting_before(output):
        for node, order in zip(results, orders, strict=True):
            if order is not None and node not in swapped:
                swapped[node] = in_order(graph, node, order)
    output.args = map_arg(output.args, lambda node: swapped.get(node, node))


def results_of(graph: Graph) -> Iterator[Node]:
    output = next(iter(reversed(graph.nodes)))
    yield from output.all_input_nodes


def order_of(node: Node) -> tuple[int, ...] | None:
    """Return the dimensions of a result, the outermost in memory first; None if the order is arbitrary or has gaps."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dim() < 3 or node.op == "placeholder":
        return None
    hints = [step if isinstance(step, int) else step.node.hint for step in value.stride()]
    order = tuple(sorted(range(value.dim()), key=lambda d: -hints[d]))
    return order if value.permute(order).is_contiguous() else None
