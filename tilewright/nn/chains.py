"""Find the operators after a convolution of an ATen graph that its kernel can compute as well."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch.fx import Node

from ..functional.arguments.signature import ACTIVATIONS
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
        """The last node of the chain."""
        return self.nodes[-1]

    @property
    def adds_bias(self) -> bool:
        """Whether the folded weights have a bias."""
        return self.conv.args[2] is not None or any(map(_adds_bias, self.steps))


def _adds_bias(step: Affine) -> bool:
    if step[0] == "branch":
        _, _, bias, steps, _ = step
        return bias is not None or any(map(_adds_bias, steps))
    return step[0] in ("batch_norm", "shift")


def chain_of(conv: Node, static: set[Node], taken: set[Node]) -> Chain:
    """Follow the results of a convolution while the only reader is an operator that the kernel can compute."""
    x, padding = conv.args[0], [*conv.args[4], *conv.args[4]]
    assert isinstance(x, Node)
    found = Chain(conv, x, padding, nodes=[conv], parts=["convolution"])
    _take_padding(found)
    folds = conv.args[1] in static and (conv.args[2] is None or conv.args[2] in static)
    while not found.activation:
        if not any(step(found, static, folds, taken) for step in _STEPS):
            break
    return found


def _take_padding(found: Chain) -> None:
    """Replace a pad of the input with zeros by padding of the convolution."""
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
    """Return the only reader of the last result; None if there are several, or if it belongs to another convolution."""
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


def _take_branch(found: Chain, static: set[Node], folds: bool, taken: set[Node]) -> bool:
    """Fold the addition of another convolution of the same input, or of the input itself, into the weights."""
    node = _reader(found, taken)
    if node is None or node.target is not _aten.add.Tensor or not folds or found.residual is not None:
        return False
    other, conv = _other(node, found.last), found.conv
    if other is None or conv.args[6] or conv.args[0] is not found.x or not _same_kind(node, found):
        return False
    if other is found.x:
        same = all(step == 1 for step in conv.args[3]) and _same_kind(other, found)
        offsets = _offsets(found, [0] * len(conv.args[4]), [1] * len(conv.args[4])) if same else None
        if offsets is None:
            return False
        found.steps.append(("identity", offsets))
        found.nodes.append(node)
        found.parts.append("input")
        return True
    branch = _branch_to(other, static, taken)
    if branch is None or any(branch.conv.args[i] != conv.args[i] for i in (0, 3, 5, 6, 8)):
        return False
    offsets = _offsets(found, branch.conv.args[4], branch.conv.args[1].meta["val"].shape[2:])
    if offsets is None:
        return False
    found.steps.append(("branch", *branch.conv.args[1:3], branch.steps, offsets))
    found.nodes += [*branch.nodes, node]
    found.parts.append("branch")
    return True


def _branch_to(node: Node, static: set[Node], taken: set[Node]) -> Chain | None:
    """Return the convolution and the affine steps that compute a result; None if a part has another reader."""
    first = node
    while first.target in (operator.getitem, _BATCH_NORM):
        first = first.args[0]
    if first.target is not CONVOLUTION or first in taken or len(node.users) != 1:
        return None
    found = Chain(first, first.args[0], [*first.args[4], *first.args[4]], nodes=[first], parts=["convolution"])
    folds = first.args[1] in static and (first.args[2] is None or first.args[2] in static)
    while folds and found.last is not node and _take_affine(found, static, folds, taken):
        pass
    return found if folds and found.last is node else None


def _offsets(found: Chain, padding: Any, taps: Any) -> list[int] | None:
    """Return the offsets of a smaller window in the window of a convolution; None if it does not lie inside."""
    _, weight, _, _, around, dilation, *_ = found.conv.args
    made = []
    for mine, its, step, size, whole in zip(around, padding, dilation, taps, weight.meta["val"].shape[2:], strict=True):
        offset, rest = divmod(mine - its, step)
        if rest or offset < 0 or offset + size > whole:
            return None
        made.append(offset)
    return made


def _take_residual(found: Chain, static: set[Node], folds: bool, taken: set[Node]) -> bool:
    node = _reader(found, taken)
    if node is None or node.target is not _aten.add.Tensor or found.residual is not None or found.conv.args[6]:
        return False
    other = _other(node, found.last)
    if other is None or not _same_kind(node, found) or not _same_kind(other, found):
        return False
    larger = _branch_to(other, static, taken)
    if larger is not None and larger.conv.args[0] is found.x and _has_larger_window(larger.conv, found.conv):
        return False  # the larger window contains this one
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
    """Return both operators of `v * sigmoid(v)`; an empty list for other readers."""
    readers = list(node.users)
    gates = [r for r in readers if r.target is _aten.sigmoid.default and len(r.users) == 1]
    products = [r for r in readers if r.target is _aten.mul.Tensor and gates and set(r.args) == {node, gates[0]}]
    return [gates[0], products[0]] if len(readers) == 2 and products else []


def _has_larger_window(one: Node, other: Node) -> bool:
    larger, smaller = (int(prod(node.args[1].meta["val"].shape[2:])) for node in (one, other))
    return larger > smaller


_STEPS = (_take_affine, _take_branch, _take_residual, _take_activation)
_ACTIVATION_NODES: dict[Any, tuple[tuple[float, ...], dict[tuple[float, ...], str]]] = {
    _aten.relu.default: ((), {(): "relu"}),
    _aten.silu.default: ((), {(): "silu"}),
    _aten.sigmoid.default: ((), {(): "sigmoid"}),
    _aten.hardswish.default: ((), {(): "hardswish"}),
    _aten.tanh.default: ((), {(): "tanh"}),
    _aten.mish.default: ((), {(): "mish"}),
    _aten.hardtanh.default: ((-1, 1), {(-1, 1): "hardtanh", (0, 6): "relu6"}),
    _aten.clamp.default: ((), {(-1, 1): "hardtanh", (0, 6): "relu6"}),
    _aten.leaky_relu.default: ((0.01,), {(0.01,): "leaky_relu"}),
    _aten.elu.default: ((1, 1, 1), {(1, 1, 1): "elu"}),
    _aten.softplus.default: ((1, 20), {(1, 20): "softplus"}),
}
"""For each operator, the default arguments, and the name of the activation per tuple of arguments."""


def activation_of(node: Node) -> str:
    """Return the name of the activation that a node computes; "" for any other node."""
    if node.target is _aten.gelu.default:
        return {"none": "gelu", "tanh": "gelu_tanh"}[node.kwargs.get("approximate", "none")]
    if node.target not in _ACTIVATION_NODES or node.kwargs:
        return ""
    defaults, names = _ACTIVATION_NODES[node.target]
    given = tuple(node.args[1:])
    return names.get((*given, *defaults[len(given) :]), "")


def _other(node: Node, one: Node) -> Node | None:
    """Return the other operand of a sum or a product."""
    if node.kwargs or len(node.args) != 2 or not all(isinstance(a, Node) for a in node.args):
        return None
    first, second = node.args
    if first is second:
        return None
    return second if first is one else first


def _same_kind(node: Node, found: Chain) -> bool:
    """Return whether a node has the shape and the type of the convolution's result."""
    a, b = node.meta.get("val"), found.conv.meta["val"]
    return isinstance(a, torch.Tensor) and a.dtype == b.dtype and list(map(str, a.shape)) == list(map(str, b.shape))


def _is_per_channel(node: Node | None, found: Chain) -> bool:
    value, result = node.meta.get("val") if node is not None else None, found.conv.meta["val"]
    if not isinstance(value, torch.Tensor):
        return False
    rank, shape = result.dim() - 2, tuple(value.shape)
    ones = (1,) * rank
    return shape in ((result.shape[1], *ones), (1, result.shape[1], *ones))
