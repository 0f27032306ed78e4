"""A backend of `torch.compile`: `torch.compile(model, backend="tilewright")`.

Graphs without gradients are traced to ATen operators, rewritten by `fuse`, and compiled by Inductor. If a graph has
gradients, or writes to its inputs, only convolutions are replaced, without fusion; AOTAutograd differentiates our
operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ..core.errors import UserError, warn_caller
from ..functional.planning.decision import Tune
from ..functional.planning.plans import seconds_of_tune
from ..functional.pytorch.native import forbids_tf32, tf32_settings
from ..functional.pytorch.operators.registration import key_compiled_graphs
from .folding import FoldedParameters
from .fusion import FusedGraph, fuse
from .graph_choice import faster_graph
from .traced_calls import replace_calls

Compiled = Callable[..., Any]
GraphCompiler = Callable[..., Compiled]
"""A compiler of graphs, such as Inductor, called with a graph, its inputs, and options of its own."""
_OWN = ("tune", "report", "channels_last")
"""Options of this backend; all other options go to Inductor."""


def dynamo_backend(
    gm: GraphModule, inputs: Sequence[Any], *, mode: str | None = None, options: dict[str, Any] | None = None
) -> Compiled:
    """Compile a graph of Dynamo's, with our convolutions if these are expected to be faster.

    Users name it: `torch.compile(model, backend="tilewright")`.

    Parameters
    ----------
    gm : GraphModule
        The graph that Dynamo traced.
    inputs : sequence
        Its sample inputs.
    mode : str, optional
        One of Inductor's modes, such as "reduce-overhead".
    options : dict, optional
        Options of Inductor, and of this backend:

        - ``"tune"``: "quick", or the seconds to measure configurations of each layer;
        - ``"report"``: a function called with the report of each graph, such as `print`;
        - ``"channels_last"``: whether images have channels last in memory, which overrides the default choice.

    Raises
    ------
    UserError
        If an option has a wrong value.
    """
    given = dict(options or {})
    own = {name: given.pop(name, None) for name in _OWN}
    seconds_of_tune(own["tune"])
    if own["report"] is not None and not callable(own["report"]):
        raise UserError(
            f"report is {own['report']!r}, which is not a function",
            primitive="torch.compile",
            fix="give a function, such as print",
        )
    patches = {**_patches_of(mode), **given}
    key_compiled_graphs()

    def inductor(made: GraphModule, arguments: Sequence[Any], **more: Any) -> Compiled:
        from torch._inductor.compile_fx import compile_fx

        run: Compiled = compile_fx(made, arguments, config_patches={**patches, **more})
        return run

    return compile_graph(gm, inputs, inductor, timed=True, **own)


def _patches_of(mode: str | None) -> dict[str, Any]:
    if mode is None or mode == "default":
        return {}
    from torch._inductor import list_mode_options

    return dict(list_mode_options(mode))


def compile_graph(
    gm: GraphModule,
    inputs: Sequence[Any],
    compiler: GraphCompiler,
    *,
    tune: Tune = None,
    report: Callable[[Any], Any] | None = None,
    channels_last: bool | None = None,
    timed: bool = False,
) -> Compiled:
    """Rewrite a graph and have it compiled.

    With `timed`, a graph on a CPU stays as it was unless the rewritten graph is faster.
    """
    try:
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in inputs):
            raise _NotTraceable("it records gradients")
        made = fuse(*_traced(gm, inputs), channels_last=channels_last, tune=tune)
    except _NotTraceable as why:
        rows = replace_calls(gm, tune)
        _tell(report, FusedGraph(gm, None, rows, False, f"convolutions were replaced one by one: {why}"))
        changed = any(row.replaced for row in rows)
        return compiler(gm, inputs, **({"layout_optimization": False} if changed else {}))
    if timed and made.changed and not any(isinstance(a, torch.Tensor) and a.is_cuda for a in inputs):
        run = faster_graph(made, partial(_compiled, gm, made, inputs, compiler), partial(compiler, gm, inputs), inputs)
    else:
        run = _compiled(gm, made, inputs, compiler) if made.changed else compiler(gm, inputs)
    _tell(report, made)
    return run


def _compiled(gm: GraphModule, made: FusedGraph, inputs: Sequence[Any], compiler: GraphCompiler) -> Compiled:
    """Compile the rewritten form of a graph; weights are folded when it runs."""
    new = made.graph_module
    _keep_metadata(gm, new)
    if made.prologue is None:
        return _as_allowed(gm, made, compiler(new, inputs, layout_optimization=False))
    folded = FoldedParameters(made.prologue)
    run = compiler(new, [*inputs, *_fake_results(made.prologue)], layout_optimization=False)
    return _as_allowed(gm, made, lambda *arguments: run(*arguments, *folded.of(arguments)))


def _as_allowed(gm: GraphModule, made: FusedGraph, run: Compiled) -> Compiled:
    """Return a function that runs the compiled graph, or PyTorch's operators once PyTorch's settings forbid TF32.

    Dynamo compiles again if the setting of matrix products changes, but not for the setting of convolutions.
    """
    if not made.uses_tf32:
        return run
    before = tf32_settings()

    def call(*arguments: Any) -> Any:
        if not forbids_tf32(before):
            return run(*arguments)
        warn_caller(
            "PyTorch's settings forbid TF32 since the model was compiled: a graph runs PyTorch's operators. "
            "Call torch.compiler.reset(), and the model is compiled again",
            UserWarning,
        )
        return gm(*arguments)

    return call


def _tell(report: Callable[[Any], Any] | None, made: FusedGraph) -> None:
    if report is not None:
        report(made)


class _NotTraceable(Exception):  # noqa: N818  # a reason, which the report tells
    """Raised if a graph has no functional form."""


_EFFECTS = "aot_export_joint_simple does not support "
"""The beginning of PyTorch's refusal of a graph that writes to its inputs, or returns one of them."""


def _traced(gm: GraphModule, inputs: Sequence[Any]) -> tuple[GraphModule, Callable[[Node], bool]]:
    """Return a graph of functional ATen operators, and a predicate of inputs that are parameters or buffers."""
    from torch._functorch.aot_autograd import aot_export_joint_simple

    if any(node.op == "get_attr" for node in gm.graph.nodes):
        raise _NotTraceable("it has branches or loops, which are graphs themselves")
    if not any(isinstance(a, torch.Tensor) for a in inputs):
        raise _NotTraceable("it reads no tensor")
    places = [node for node in gm.graph.nodes if node.op == "placeholder"]
    try:
        traced = aot_export_joint_simple(gm, tuple(inputs), trace_joint=False, decompositions={})
    except RuntimeError as refused:
        if str(refused).startswith(_EFFECTS):
            raise _NotTraceable("it writes to its inputs, or returns one of them") from refused
        reason = f"PyTorch does not trace it: {type(refused).__name__}: {refused}".partition("\n")[0][:300]
        names = ", ".join(str(node) for node in gm.graph.nodes if node.op == "call_function")
        warn_caller(f"the graph of {names[:100]} is not rewritten as a whole, because {reason}", UserWarning)
        raise _NotTraceable(reason) from refused
    own = [node for node in traced.graph.nodes if node.op == "placeholder"]
    static = {new for new, old, a in zip(own, places, inputs, strict=True) if _is_parameter(old, a)}
    return traced, static.__contains__


def _is_parameter(node: Node, value: Any) -> bool:
    """Return whether an input of a graph of Dynamo's is a parameter or a buffer of a module."""
    marked = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
    return isinstance(value, torch.nn.Parameter) or (isinstance(value, torch.Tensor) and bool(marked))


def _keep_metadata(old: GraphModule, new: GraphModule) -> None:
    """Copy Dynamo's marks of inputs that are parameters: CUDA graphs may record their addresses."""
    if list(new.parameters()) or list(new.buffers()) or not hasattr(old, "_param_name_to_source"):
        return
    new.meta.update(old.meta)
    new._param_name_to_source = old._param_name_to_source
    places = [node for node in old.graph.nodes if node.op == "placeholder"]
    for place, node in enumerate(n for n in new.graph.nodes if n.op == "placeholder"):
        if place < len(places):
            node.meta.update({key: places[place].meta[key] for key in ("tensor_dict",) if key in places[place].meta})
            node._dynamo_source = getattr(places[place], "_dynamo_source", None)
        else:
            node.meta["tensor_dict"] = {"_dynamo_static_input_type": "unguarded"}
            node._dynamo_source = None


def _fake_results(prologue: GraphModule) -> list[Any]:
    """Return fake tensors for the results of a prologue."""
    places = [node.meta["val"] for node in prologue.graph.nodes if node.op == "placeholder"]
    mode = next(a.fake_mode for a in places if isinstance(a, torch.Tensor))
    with mode, torch.no_grad():
        return [a.clone() for a in prologue(*places)]
