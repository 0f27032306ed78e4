"""Fold batch norms and scales into the weights of convolutions, once, and again when a parameter has changed.

A separate graph computes the folded tensors. `FoldedParameters` runs it, and keeps the results while all of its input
tensors have the same identity, address and version.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.optim.optimizer import register_optimizer_step_post_hook

Affine = tuple[Any, ...]
"""An affine step per channel, or an addition that the weight can include:

- ("batch_norm", mean, variance, weight, bias, epsilon), ("scale", tensor), ("shift", tensor);
- ("branch", weight, bias, steps, offsets): a convolution of the same input is added;
- ("identity", offsets): the input itself is added.

Offsets place the smaller window inside the larger one.
"""


def fold(weight: Any, bias: Any, steps: Sequence[Affine], groups: int, last: bool) -> tuple[Any, Any]:
    """Return the weight and bias of a convolution that includes the affine steps after it.

    Sums and products are computed in float32 (float64 for a float64 weight), and rounded once. `groups` is 0 for a
    convolution. For a transposed one it is the number of groups, because filters are the second dimension of its
    weight. With `last`, the new weight has channels last in memory; otherwise it has the order of its dimensions.
    """
    made, shift = _fold_unrounded(weight, bias, steps, groups)
    made = made.to(weight.dtype).contiguous(memory_format=_order(last))
    return made, None if shift is None else shift.to(weight.dtype).contiguous()


def is_in_order(weight: Any, last: bool) -> bool:
    """Return whether a weight already has the memory order of `fold`'s result."""
    found: bool = weight.is_contiguous(memory_format=_order(last))
    return found


def _order(last: bool) -> Any:
    return torch.channels_last if last else torch.contiguous_format


def _fold_unrounded(weight: Any, bias: Any, steps: Sequence[Affine], groups: int) -> tuple[Any, Any]:
    """Return the folded weight and bias, unrounded."""
    kind = torch.float64 if weight.dtype == torch.float64 else torch.float32
    made, shift = weight.to(kind), None if bias is None else bias.to(kind)
    ones = [1] * (weight.dim() - 2)
    for step in steps:
        by, plus = None, None
        if step[0] == "branch":
            _, one, its_bias, its_steps, offsets = step
            other, plus = _fold_unrounded(one, its_bias, its_steps, 0)
            made = made + _in_window_of(other, made, offsets)
        elif step[0] == "identity":
            made = made + _in_window_of(_identity(made), made, step[1])
        else:
            by, plus = _scale_and_shift(step, kind)
        if by is not None:
            if groups:
                made = (made.unflatten(0, (groups, -1)) * by.view(groups, 1, -1, *ones)).flatten(0, 1)
            else:
                made = made * by.view(-1, 1, *ones)
            shift = None if shift is None else shift * by
        if plus is not None:
            shift = plus if shift is None else shift + plus
    return made, shift


def _identity(weight: Any) -> Any:
    """Return the one-tap weight of a convolution that computes the identity, in the same number of groups."""
    filters, per_group, *taps = weight.shape
    place = torch.arange(filters, device=weight.device) % per_group
    made = torch.nn.functional.one_hot(place, per_group).to(weight.dtype)
    return made.view(filters, per_group, *[1] * len(taps))


def _in_window_of(taps: Any, weight: Any, offsets: Sequence[int]) -> Any:
    """Return a small window padded with zeros to the window of `weight`."""
    sides: list[int] = []
    for offset, size, whole in zip(offsets, taps.shape[2:], weight.shape[2:], strict=True):
        sides = [offset, whole - size - offset, *sides]
    return torch.nn.functional.pad(taps, sides)


def _scale_and_shift(step: Affine, kind: Any) -> tuple[Any, Any]:
    """Return the scale and the shift of a step; None for a scale of 1 and for a shift of 0."""
    kind_of_step, *values = step
    if kind_of_step == "batch_norm":
        mean, variance, weight, bias, epsilon = values
        by = torch.rsqrt(variance.to(kind) + epsilon)
        by = by if weight is None else by * weight.to(kind)
        plus = -mean.to(kind) * by
        return by, plus if bias is None else plus + bias.to(kind)
    vector = values[0].to(kind).reshape(-1)
    return (vector, None) if kind_of_step == "scale" else (None, vector)


def static_nodes(graph: Graph, is_parameter: Callable[[Node], bool]) -> set[Node]:
    """Return the nodes that depend on parameters and constants only."""
    found: set[Node] = set()
    for node in graph.nodes:
        if node.op == "placeholder":
            static = is_parameter(node)
        elif node.op == "get_attr":
            static = True
        else:
            before = node.all_input_nodes
            static = node.op == "call_function" and bool(before) and found.issuperset(before) and not _is_random(node)
        if static:
            found.add(node)
    return found


def _is_random(node: Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def hoist(gm: GraphModule, wanted: Sequence[Node], readers: Sequence[Node]) -> GraphModule | None:
    """Move the computation of the `wanted` static nodes into a separate graph. The `readers`, which are convolutions,
    read new inputs of the graph instead.

    Other nodes keep their operands: the graph may return them, and its caller may write into results. The new graph
    takes the inputs of the old one. Return None if `wanted` has no node to move.
    """
    wanted = [node for node in dict.fromkeys(wanted) if node.op == "call_function"]
    if not wanted:
        return None
    needed: set[Node] = set()
    stack = list(wanted)
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack += node.all_input_nodes
    graph, copies = Graph(), dict[Node, Node]()
    for node in gm.graph.nodes:
        if node in needed or node.op == "placeholder":
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in wanted))
    prologue = GraphModule(gm, graph)
    last = [node for node in gm.graph.nodes if node.op == "placeholder"][-1]
    for place, node in enumerate(wanted):
        with gm.graph.inserting_after(last):
            last = gm.graph.placeholder(f"folded_{place}")
        node.replace_all_uses_with(last, readers.__contains__)
    for node in reversed(gm.graph.nodes):
        if node in needed and not node.users and node.op != "placeholder":
            gm.graph.erase_node(node)
    return prologue


class _UnversionedChanges:
    """Counts events that change weights, but not the versions of their tensors.

    Such events are PyTorch's fused optimizers, which write parameters, and its kernels of batch norms, which write
    statistics. The count rises with each step of an optimizer, and with each module switched to training mode.
    """

    def __init__(self) -> None:
        self.count, self._registered = 0, False

    def watch(self) -> None:
        """Start counting."""
        if self._registered:
            return
        self._registered = True
        register_optimizer_step_post_hook(self._note)
        train = torch.nn.Module.train

        @wraps(train)
        def counted(module: Any, mode: bool = True) -> Any:
            if mode:
                self._note()
            return train(module, mode)

        torch.nn.Module.train = counted

    def _note(self, *_: Any) -> None:
        if not torch.compiler.is_compiling():  # compiled writes have versions, and would depend on the number
            self.count += 1


_unversioned = _UnversionedChanges()


_recorded: dict[int, list[Any]] = {}
"""Folded tensors that a CUDA graph reads. The graph does not keep them alive, so they stay until the process ends."""


def _is_recorded() -> bool:
    """Return whether a CUDA graph is being captured."""
    return torch.cuda.is_available() and bool(torch.cuda.is_current_stream_capturing())


_MOST_SETS = 16
"""The most sets of parameters with folded tensors per graph."""


@dataclass(eq=False)
class _FoldedSet:
    """The folded tensors of a set of parameters, and the versions of the parameters that they were computed from."""

    versions: list[int] = field(default_factory=list)
    made: list[Any] = field(default_factory=list)
    memory: list[Any] = field(default_factory=list)
    """Weak references to the memory of the parameters: when it is freed, another tensor may get the same address."""


class FoldedParameters:
    """The folded tensors of a graph, computed again when one of their input tensors has changed.

    Several models of one class run the same graph, perhaps in several threads or in CUDA graphs. So each set of
    parameters has folded tensors of its own, which are written only when these parameters change.
    """

    def __init__(self, prologue: GraphModule) -> None:
        places = [node for node in prologue.graph.nodes if node.op == "placeholder"]
        self._prologue = prologue
        self._used = [place for place, node in enumerate(places) if node.users]
        self._sets: dict[Any, _FoldedSet] = {}
        _unversioned.watch()

    def of(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the folded tensors for the inputs of the graph."""
        used = [inputs[place] for place in self._used]
        try:
            versions = [_unversioned.count, *[a._version for a in used]]
            key = tuple([(id(a), a.data_ptr()) for a in used])
        except RuntimeError:  # tensors of inference mode have no version, which would show changes
            return self._compute(inputs)
        found = self._sets.get(key)
        if found is None or versions != found.versions:
            made = self._compute(inputs)
            if _is_recorded():
                return made  # the kernels are recorded, and did not run
            found = self._set_of(key, used)
            _write(found, made)
            found.versions = versions
        elif _is_recorded():
            _recorded[id(found.made)] = found.made
        return found.made

    def _compute(self, inputs: Sequence[Any]) -> list[Any]:
        with torch.no_grad():
            return list(self._prologue(*inputs))

    def _set_of(self, key: Any, used: Sequence[Any]) -> _FoldedSet:
        """Return the entry of a set of parameters, which is dropped when a parameter is freed."""
        found = self._sets.get(key)
        if found is None:
            while len(self._sets) >= _MOST_SETS:
                self._sets.pop(next(iter(self._sets), None), None)
            found = self._sets[key] = _FoldedSet()
            drop = partial(_drop, weakref.ref(self), key)
            found.memory = [weakref.ref(a.untyped_storage(), drop) for a in used]
        return found


def _write(found: _FoldedSet, made: list[Any]) -> None:
    """Write new values into the existing folded tensors, which captured CUDA graphs read."""
    with torch.inference_mode(False), torch.no_grad():  # tensors of inference mode cannot be written outside of it
        if [(a.shape, a.dtype, a.device) for a in made] == [(a.shape, a.dtype, a.device) for a in found.made]:
            for old, new in zip(found.made, made, strict=True):
                old.copy_(new)
        else:
            found.made = [a.clone() for a in made]  # copies: no later write reaches a weight


def _drop(owner: Callable[[], FoldedParameters | None], key: Any, _: Any) -> None:
    folded = owner()
    if folded is not None:
        folded._sets.pop(key, None)
