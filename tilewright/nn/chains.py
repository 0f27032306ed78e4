"""Find the operators after a convolution of an ATen graph that one kernel can compute with it."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch.fx import Node

from ..functional.signature import ACTIVATIONS
from .folding import Affine

_aten = torch.ops.aten
CONVOLUTION = _aten.convolution.default
_BATCH_NORM = _aten._native_batch_norm_legit_no_training.default


@dataclass
class Chain:
    """A convolution and the operators after it that one kernel can compute."""

    conv: Node
    x: Node
    padding: list[int]
    steps: list[Affine] = field(default_factory=list)
    residual: Node | None = None
    activation: str = ""
    nodes: list[Node] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    @property
    def last(self) -> Node:
        return self.nodes[-1]


def chain_of(conv: Node, static: set[Node], taken: set[Node]) -> Chain:
    """Follow the results of a convolution while the only reader is an operator that its kernel can compute."""
    x, padding = conv.args[0], [*conv.args[4], *conv.args[4]]
    assert isinstance(x, Node)
    found = Chain(conv, x, padding, nodes=[conv], parts=["convolution"])
    _take_padding(found)
    folds = conv.args[1] in static and (conv.args[2] is None or conv.args[2] in static)
    while not found.activation:
        if not any(step(found, static, folds, taken) for step in (_take_affine, _take_residual, _take_activation)):
            break
    return found


def _take_padding(found: Chain) -> None:
    """Compute zeros that are put around the input beforehand as padding of the convolution."""
    node, rank = found.x, len(found.padding) // 2
    if node.target is not _aten.constant_pad_nd.default or found.conv.args[6]:
        return
    inner, sides, *value = node.args
    if (
        not all(isinstance(side, int) for side in sides)
        or len(sides) > 2 * rank
        or min(sides, default=0) < 0
        or (value and value[0] != 0)
    ):
        return
    for dim in range(len(sides) // 2):
        found.padding[rank - 1 - dim] += sides[2 * dim]
        found.padding[2 * rank - 1 - dim] += sides[2 * dim + 1]
    found.x = inner
    found.parts.insert(0, "padding")


def _reader(found: Chain, taken: set[Node]) -> Node | None:
    """The only reader of the last result, unless it belongs to another convolution."""
    readers = list(found.last.users)
    if len(readers) != 1 or readers[0].op != "call_function" or readers[0] in taken:
        return None
    return readers[0]


def _take_affine(found: Chain, static: set[Node], folds: bool, taken: set[Node]) -> bool:
    node = _reader(found, taken)
    if node is None or not folds or found.residual is not None:
        return False
    if node.target is _BATCH_NORM and node.args[0] is found.last:
        _, weight, bias, mean, variance, _, epsilon = node.args
        reads = [a for a in (weight, bias, mean, variance) if a is not None]
        results = list(node.users)
        if not static.issuperset(reads) or [r.args[1] for r in results] != [0] or not _same_kind(results[0], found):
            return False
        found.steps.append(("batch_norm", mean, variance, weight, bias, epsilon))
        found.nodes += [node, results[0]]
        found.parts.append("batch norm")
        return True
    if node.target in (_aten.mul.Tensor, _aten.add.Tensor) and _same_kind(node, found):
        other = _other(node, found.last)
        if other not in static or not _is_per_channel(other, found):
            return False
        found.steps.append(("scale" if node.target is _aten.mul.Tensor else "shift", other))
        found.nodes.append(node)
        found.parts.append(found.steps[-1][0])
        return True
    return False


def _take_residual(found: Chain, static: set[Node], folds: bool, taken: set[Node]) -> bool:
    node = _reader(found, taken)
    if node is None or node.target is not _aten.add.Tensor or found.residual is not None or found.conv.args[6]:
        return False
    other = _other(node, found.last)
    if other is None or not _same_kind(node, found) or not _same_kind(other, found):
        return False
    found.residual = other
    found.nodes.append(node)
    found.parts.append("addition")
    return True


def _take_activation(found: Chain, static: set[Node], folds: bool, taken: set[Node]) -> bool:
    node = _reader(found, taken)
    nodes = [node] if node is not None else _silu_in_parts(found.last)
    name = "silu" if node is None and nodes else "" if node is None else activation_of(node)
    if name not in ACTIVATIONS or not _same_kind(nodes[-1], found):
        return False
    found.activation = name
    found.nodes += nodes
    found.parts.append(name)
    return True


def _silu_in_parts(node: Node) -> list[Node]:
    """Both operators of `v * sigmoid(v)`; [] if the readers are others."""
    readers = list(node.users)
    gates = [r for r in readers if r.target is _aten.sigmoid.default and len(r.users) == 1]
    products = [r for r in readers if r.target is _aten.mul.Tensor and gates and set(r.args) == {node, gates[0]}]
    return [gates[0], products[0]] if len(readers) == 2 and products else []


_PLAIN = {
    _aten.relu.default: "relu",
    _aten.silu.default: "silu",
    _aten.sigmoid.default: "sigmoid",
    _aten.hardswish.default: "hardswish",
    _aten.tanh.default: "tanh",
    _aten.mish.default: "mish",
}


def activation_of(node: Node) -> str:
    """Return the name of the activation that a node computes; "" for any other node."""
    target, rest, named = node.target, node.args[1:], node.kwargs
    if target in _PLAIN:
        return _PLAIN[target]
    if target is _aten.gelu.default:
        return {"none": "gelu", "tanh": "gelu_tanh"}[named.get("approximate", "none")]
    if target in (_aten.hardtanh.default, _aten.clamp.default) and not named and tuple(rest) == (0, 6):
        return "relu6"
    return ""


def _other(node: Node, one: Node) -> Node | None:
    """The other operand of a sum or a product."""
    if node.kwargs or len(node.args) != 2 or not all(isinstance(a, Node) for a in node.args):
        return None
    first, second = node.args
    if first is second:
        return None
    return second if first is one else first


def _same_kind(node: Node, found: Chain) -> bool:
    """Whether a node has the shape and the type of the convolution's result."""
    a, b = node.meta.get("val"), found.conv.meta["val"]
    return isinstance(a, torch.Tensor) and a.dtype == b.dtype and list(map(str, a.shape)) == list(map(str, b.shape))


def _is_per_channel(node: Node | None, found: Chain) -> bool:
    value, result = node.meta.get("val") if node is not None else None, found.conv.meta["val"]
    if not isinstance(value, torch.Tensor):
        return False
    rank, shape = result.dim() - 2, tuple(value.shape)
    ones = (1,) * rank
    return shape in ((result.shape[1], *ones), (1, result.shape[1], *ones))
