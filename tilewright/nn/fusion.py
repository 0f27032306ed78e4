"""Replace the convolutions of an ATen graph by calls of our kernels, which compute the layers after them as well.

The graph must be functional: the result of `torch.export` and `run_decompositions({})`, or traced by AOTAutograd. A
convolution becomes a node of `torch.ops.tilewright.convolution` if that is expected to be faster. The node also
computes the batch norm (in evaluation mode), the scale per channel, the addition and the activation after it.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from ..core.errors import UserError
from ..functional.arguments.call import OPERATORS, CallOptions
from ..functional.arguments.problem import Problem
from ..functional.arguments.signature import ArrayProperties, Arrays, channels_last_order, signature
from ..functional.planning import rivals
from ..functional.planning.decision import Decision, Side, Tune
from ..functional.planning.plans import plan_for
from ..functional.pytorch import tensors as torch_tensors
from ..functional.pytorch.native import tf32_settings
from ..runtime.device import Device, cpu, cuda
from .chains import CONVOLUTION, Chain, chain_of
from .folding import fold, hoist, is_in_order, static_nodes
from .linear_layers import convolution_as_linear, is_linear, linear_as_convolution
from .memory_order import (
    depends_on_strides,
    in_memory_format,
    in_order,
    order_images,
    order_of,
    prefers_channels_last,
    results_of,
    results_share_memory,
)

OURS_IN_GRAPH = torch.ops.tilewright.convolution.default
_LEAST_MMA_CHANNELS = 16
"""The least channels per group for which float32 layers use matrix instructions, if TF32 is allowed."""


_LEAST_SAVED_SECONDS = 1e-4
"""The least seconds that a kernel of ours must save in a graph on a CPU. Its call takes 50 µs inside a model. The rates
include some 40 µs for an eager call of PyTorch, which a graph avoids."""
_LEAST_SAVED_SHARES = 0.3, 0.5
"""The least fraction of PyTorch's time that a kernel of ours must save on a CPU, with one thread and with several.
Rates are for one thread, and PyTorch's compiler fuses its part of the chain."""


class NotOurs(Exception):  # noqa: N818  # a reason, which no user meets as an error
    """Raised if no kernel of ours covers a convolution."""


def reason_of(refused: Exception) -> str:
    """Return the reason of a refusal."""
    return refused.message if isinstance(refused, UserError) else str(refused)


@dataclass(frozen=True)
class FusedRow:
    """A convolution of a graph: its problem, its parts, and whether our kernel computes it.

    Attributes
    ----------
    name : str
        The node of the graph.
    problem : Problem, optional
        The computation with its epilogue; None if no kernel of ours covers it.
    parts : tuple of str
        The operators that one call of our kernel computes, or would compute.
    replaced : bool
        Whether the graph calls our kernel.
    why : str
        The reason.
    """

    name: str
    problem: Problem | None
    parts: tuple[str, ...]
    replaced: bool
    why: str

    def __str__(self) -> str:
        side = "ours" if self.replaced else "kept"
        return f"{side}  {self.name}: {' + '.join(self.parts)}  {self.problem or ''}  ({self.why})"


@dataclass
class FusedGraph:
    """The outcome of `fuse`: a graph, the graph of its folded weights, and a row per convolution.

    Attributes
    ----------
    graph_module : GraphModule
        The rewritten graph. The results of `prologue` are its last inputs.
    prologue : GraphModule, optional
        The graph that computes folded weights from the inputs; None if there are none.
    rows : list of FusedRow
        The convolutions, in the order of the graph.
    channels_last : bool
        Whether images lie in memory with the channels last.
    note : str
        A remark: the reason why convolutions were replaced without fusion, or the times of the whole graph; "" for
        none.
    """

    graph_module: GraphModule
    prologue: GraphModule | None
    rows: list[FusedRow]
    channels_last: bool
    note: str = ""

    @property
    def changed(self) -> bool:
        """Whether the graph calls a kernel of ours."""
        return any(row.replaced for row in self.rows)

    @property
    def uses_tf32(self) -> bool:
        """Whether a kernel of ours in the graph rounds its operands to TF32, which PyTorch's settings allowed."""
        return any(row.replaced and row.problem is not None and row.problem.precision == "tf32" for row in self.rows)

    def __str__(self) -> str:
        count = sum(row.replaced for row in self.rows)
        lines = [*map(str, self.rows), f"{count} of {len(self.rows)} convolutions are Tilewright's"]
        return "\n".join([*lines, self.note] if self.note else lines)


def fuse(
    gm: GraphModule,
    is_parameter: Callable[[Node], bool],
    *,
    channels_last: bool | None = None,
    tune: Tune = None,
) -> FusedGraph:
    """Rewrite the convolutions of a functional ATen graph, in place.

    Parameters
    ----------
    gm : GraphModule
        The graph, with fake tensors in `meta["val"]` of its nodes.
    is_parameter : callable
        Returns whether an input of the graph (a placeholder) is a parameter or a buffer. `FusedGraph.prologue` computes
        weights that depend on these alone.
    channels_last : bool, optional
        Whether images have channels last in memory. None: for 16-bit types, and if PyTorch's compiler would do so.
    tune : "quick" or float, optional
        The time to measure configurations of each layer.
    """
    convolutions = [node for node in gm.graph.nodes if node.target is CONVOLUTION]
    last = prefers_channels_last(gm, convolutions) if channels_last is None else channels_last
    last = last and not depends_on_strides(gm.graph) and not results_share_memory(gm.graph)
    if last and _on_gpu(gm.graph):  # on a CPU, matrix products of PyTorch's are faster
        linear_as_convolution(gm.graph)
        convolutions = [node for node in gm.graph.nodes if node.target is CONVOLUTION]
    static = static_nodes(gm.graph, is_parameter)
    if tune is None:
        compile_ahead(_problems(convolutions, static, last))
    rows, chosen = _choose(convolutions, static, last, tune)
    if not chosen:
        convolution_as_linear(gm.graph)
        gm.recompile()
        return FusedGraph(gm, None, rows, last)
    orders = [order_of(node) for node in results_of(gm.graph)] if last else []
    swapped: dict[Node, Node] = {}
    for chain, problem in chosen:
        swapped[chain.last] = _rewrite(gm.graph, chain, problem, last, static, swapped)
    if last:
        convolution_as_linear(gm.graph)
        order_images(gm.graph, static, orders)
    ours_and_theirs = [node for node in gm.graph.nodes if node.target in (CONVOLUTION, OURS_IN_GRAPH)]
    wanted = [each for node in ours_and_theirs for each in node.args[1:3] if each in static]
    prologue = hoist(gm, wanted, ours_and_theirs)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return FusedGraph(gm, prologue, rows, last)


def _on_gpu(graph: Graph) -> bool:
    values = (node.meta.get("val") for node in graph.nodes if node.op == "placeholder")
    return any(value.device.type == "cuda" for value in values if isinstance(value, torch.Tensor))


# Deciding


def compile_ahead(problems: Iterable[tuple[Problem, Device]]) -> None:
    """Make the plans of problems on GPUs in several threads. NVRTC takes most of the time, and runs without the GIL."""
    wanted = [(problem, on) for problem, on in dict.fromkeys(problems) if on.kind == "cuda"]

    def make(one: tuple[Problem, Device]) -> None:
        with suppress(UserError):  # the decision meets it again
            plan_for(*one, torch_tensors.RIVAL)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(make, wanted))


def _problems(convolutions: list[Node], static: set[Node], last: bool) -> Iterator[tuple[Problem, Device]]:
    """Yield the problem and the device of each chain, as if all chains were replaced."""
    taken: set[Node] = set()
    for conv in convolutions:
        if conv not in taken:
            chain = chain_of(conv, static, taken)
            taken.update(chain.nodes)
            with suppress(NotOurs, UserError):
                yield _problem(chain, last)


def _choose(
    convolutions: list[Node], static: set[Node], last: bool, tune: Tune
) -> tuple[list[FusedRow], list[tuple[Chain, Problem]]]:
    """Return the rows of a graph, and the chains to replace with their problems."""
    rows: list[FusedRow] = []
    chosen: list[tuple[Chain, Problem]] = []
    taken: set[Node] = set()
    for conv in convolutions:
        if conv in taken:  # a branch of another convolution
            continue
        chain = chain_of(conv, static, taken)
        try:
            problem, on = _problem(chain, last)
            row = row_by_plan(conv, [problem], on, tune, tuple(chain.parts), in_graph=True)
        except (NotOurs, UserError) as refused:
            row = row_of_pytorch(conv, reason_of(refused), tuple(chain.parts))
        if row.replaced or not is_linear(conv):
            rows.append(row)
        if row.replaced:
            chosen.append((chain, problem))
            taken.update(chain.nodes)
    return rows, chosen


def row_of_pytorch(conv: Node, why: str, parts: tuple[str, ...] = ("convolution",)) -> FusedRow:
    """Return the row of a call that stays PyTorch's, with the reason `why`."""
    return FusedRow(str(conv), None, parts, False, why)


def row_by_plan(
    conv: Node,
    problems: Sequence[Problem],
    on: Device,
    tune: Tune,
    parts: tuple[str, ...] = ("convolution",),
    in_graph: bool = False,
) -> FusedRow:
    """Return the row of a call, which is replaced if the plan of one of its problems chooses our kernel.

    With `in_graph`, a kernel on a CPU must also save more than the overhead of its call in a compiled graph. Raises
    UserError if a problem has no plan.
    """
    choices = [plan_for(problem, on, torch_tensors.RIVAL, tune=tune).choice for problem in problems]
    ours, why = any(choice.side == Side.OURS for choice in choices), choices[0].why
    if ours and in_graph and on.kind == "cpu" and (too_short := _refusal_on_cpu(problems[0], choices[0])):
        ours, why = False, too_short
    return FusedRow(str(conv), problems[0], parts, ours, why)


def _refusal_on_cpu(problem: Problem, choice: Decision) -> str:
    """Return the reason why a chain on a CPU stays PyTorch's although our kernel alone is faster; "" if it is
    replaced."""
    seconds, theirs = choice.seconds, choice.rival_seconds
    saved, theirs = (theirs - seconds, theirs) if seconds and theirs else rivals.saved_by([problem], [problem])
    least = max(_LEAST_SAVED_SECONDS, _LEAST_SAVED_SHARES[torch.get_num_threads() > 1] * theirs)
    return "" if saved >= least else f"ours saves {saved * 1e6:.0f} µs; in a graph it must save {least * 1e6:.0f} µs"


def _name(conv: Node) -> str:
    rank = len(conv.args[3])
    name = f"conv{'_transpose' if conv.args[6] else ''}{rank}d"
    if name not in OPERATORS:
        raise NotOurs(f"convolutions of {rank} dimensions are PyTorch's")
    return name


def _options(found: Chain) -> dict[str, Any]:
    _, weight, _, stride, _, dilation, transposed, output_padding, groups = found.conv.args
    value = weight.meta["val"]
    dense = value.dtype == torch.float32 and not transposed and value.shape[1] >= _LEAST_MMA_CHANNELS
    allowed = tf32_settings()
    allows = allowed.products if is_linear(found.conv) else allowed.convolutions
    tf32 = dense and value.device.type == "cuda" and allows
    return {
        "stride": tuple(stride), "padding": tuple(found.padding), "dilation": tuple(dilation), "groups": groups,
        "output_padding": tuple(output_padding) if transposed else 0, "precision": "tf32" if tf32 else "fp32",
    }  # fmt: skip


def _problem(found: Chain, last: bool) -> tuple[Problem, Device]:
    name, options = _name(found.conv), _options(found)
    rank = OPERATORS[name].rank
    x, weight = found.x.meta["val"], found.conv.args[1].meta["val"]
    if x.dim() != rank + 2:
        raise NotOurs("x has no batch")
    bias = found.conv.args[2] is not None or found.adds_bias
    filters, result = (found.conv.meta["val"].shape[1],), found.conv.meta["val"]
    given = Arrays(
        properties_of(x, rank, last),
        properties_of(weight, rank, last and options["groups"] == 1),
        ArrayProperties(filters, torch_tensors.NAMES.get(weight.dtype, ""), _place(weight)) if bias else None,
        properties_of(result, rank, last) if found.residual is not None else None,
    )
    if 0 in given.x.shape:
        raise NotOurs("the sample has no images")
    if not last:
        given = given._replace(x=given.x._replace(channels_last=torch_tensors.results_lie_last(rank, x)))
    call = CallOptions(**options, activation=found.activation or None)
    return signature(name, given, call, found.activation).problem, device_of(x)


def device_of(x: Any) -> Device:
    """Return the device of a fake tensor; NotOurs if Tilewright does not run there."""
    if x.device.type == "cpu":
        return cpu()
    if x.device.type == "cuda" and torch.version.hip is None:
        return cuda(_place(x)[1])
    raise NotOurs(f"x is on {x.device}")


def properties_of(a: Any, rank: int, last: bool = False) -> ArrayProperties:
    """Return the properties of a fake tensor; with `last`, it will have channels last in memory.

    A dynamic size counts as its size in the sample.
    """
    if any(not isinstance(size, int) for size in a.shape[1:]):
        raise NotOurs("its size changes from call to call: only the batch may")
    shape = tuple(size if isinstance(size, int) else int(size.node.hint) for size in a.shape)
    channels_last = last and rank == 2 and shape[1] > 1 and prod(shape[2:]) > 1
    dtype = torch_tensors.NAMES.get(a.dtype, str(a.dtype))
    return ArrayProperties(
        shape, dtype, _place(a), channels_last or (not last and torch_tensors.channels_last(a, rank))
    )


def _place(a: Any) -> tuple[str, int]:
    return a.device.type, a.device.index or 0


# Rewriting


def _rewrite(
    graph: Graph, found: Chain, problem: Problem, last: bool, static: set[Node], swapped: dict[Node, Node]
) -> Node:
    """Replace a chain by a call of our operator; `swapped` maps the results of earlier chains to their replacements."""
    conv, options = found.conv, _options(found)
    weight, bias = conv.args[1:3]
    channels_last = last and len(conv.args[3]) == 2
    with graph.inserting_before(found.last):
        read = [None if a is None else swapped.get(a, a) for a in (found.x, found.residual)]
        x, residual = (in_memory_format(graph, a) if channels_last and a is not None else a for a in read)
        filters_last = problem.weights == "OHWI"
        if found.steps or (weight in static and not is_in_order(weight.meta["val"], filters_last)):
            groups = options["groups"] if conv.args[6] else 0
            own = bias if found.steps else None  # an unfolded bias stays as it is: it may depend on inputs
            both = graph.call_function(fold, (weight, own, found.steps, groups, filters_last))
            weight, shift = [graph.call_function(operator.getitem, (both, place)) for place in (0, 1)]
            static.update((both, weight, shift))
            bias = shift if found.steps and found.adds_bias else bias
        rank = len(conv.args[3])
        given = (
            x, weight, bias, residual, _name(conv), list(options["stride"]), list(options["padding"]),
            list(options["dilation"]), options["groups"], found.activation, "NCHW" if rank == 2 else "NCW",
            list(options["output_padding"]) if conv.args[6] else [0] * rank, options["precision"],
        )  # fmt: skip
        made = graph.call_function(OURS_IN_GRAPH, given)
        order = order_of(found.last)
        if not channels_last and order is not None and order != _order_of_ours(problem, rank):
            made = in_order(graph, made, order)  # views behind it rely on the order in which PyTorch's result lies
    made.meta = dict(found.last.meta)
    found.last.replace_all_uses_with(made)
    for node in reversed(found.nodes):
        graph.erase_node(node)
    return made


def _order_of_ours(problem: Problem, rank: int) -> tuple[int, ...]:
    """Return the dimensions of our kernel's result, the outermost in memory first."""
    return channels_last_order(rank + 2, rank) if problem.layout == "NHWC" else tuple(range(rank + 2))
