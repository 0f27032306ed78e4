"""`accelerate(model, sample)`: replace a model's convolutions and poolings by Tilewright's if these are faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import torch

from ..core.errors import UserError
from ..core.text import kind_of
from ..functional.arguments.problem import POOLS, WEIGHT_GRADIENT, Problem
from ..functional.planning.decision import Side
from ..functional.planning.plans import CallPlan, decide, plan_for
from ..functional.planning.timed_comparison import Comparison, Verdict
from ..functional.pytorch import tensors as torch_tensors
from ..functional.pytorch.native import allows_tf32, exact_convolutions
from ..functional.pytorch.timing import Around, compare, compared
from ..report.progress import progress
from .agreement import require_agreement
from .fused_models import CannotFuse, FusedModel, install, remove, without
from .fusion import compile_ahead
from .layers import ModelLayer, convolutions_in, layers_of, replacement
from .replacements import SLOWER, UNDONE, Acceleration, Row
from .samples import Sample, tensors_in
from .steps import TrainingStep

_GAIN = 1.02
"""The least gain of a layer that counts; a smaller gain is noise."""
_NOISE = 1.01
"""The largest slowdown of a run without a graph that is accepted: if the GPU is the bottleneck, it is noise."""
Timed = dict[Problem, Comparison]


def accelerate(
    model: Any, sample: Any = None, *, tune: Any = None, training: bool = False, cuda_graph: bool = False, **named: Any
) -> Acceleration:
    """Replace the convolutions and poolings of a model by Tilewright's if these are faster, as measured on a sample.

    Parameters
    ----------
    model : torch.nn.Module
        The model, which is changed in place: layers become modules of `tilewright.nn`, and keep their parameters,
        buffers and hooks. Accelerate a model before compiling it.
    sample : tensor, tuple or dict, optional
        The inputs of the timed runs. A dictionary stands for the keyword arguments of the model's `forward` if its keys
        are their names. Under `torch.autocast`, also inside the model, layers are timed in the type in which they
        compute.
    tune : "quick" or float, optional
        The time to measure configurations of each layer first. Dense layers are included, although their untuned
        kernels are known to be no faster than matrix products.
    training : bool
        Whether to measure whole training steps: the forward call, and the gradients of all parameters that require
        them. The forward call and both gradients of a layer each run the faster kernel.
    cuda_graph : bool
        Whether the model will run in a CUDA graph, as with `torch.compile(mode="reduce-overhead")`. The host's time
        then does not count.
    **named
        Keyword arguments of the model: `accelerate(model, pixel_values=x)`.

    Returns
    -------
    Acceleration
        A table of the layers; its `undo()` restores PyTorch's modules. For each decision, both sides are timed in
        turns. If the spread of the gain includes 1, the layer or the model is too close to call, and stays as it was.
        If the whole model becomes slower without a CUDA graph, only the layers that gain most stay replaced. In
        evaluation mode without gradients, the model then runs a graph for inputs like its sample, if the graph is
        faster still. In the graph, a convolution is one call with the batch norm, the addition and the activation after
        it. Weights are folded again when they change. If attributes change, at any depth, the model runs its modules;
        changes of global variables are not seen. The report says why a model has no graph.

    Raises
    ------
    UserError
        If the model is not a module, is compiled, cannot run on the sample, or is not deterministic. The model is then
        as it was.
    """
    _check(model, training)
    given = Sample.of(model, sample, named)
    done = Acceleration(model, training, tune)
    gpu = max((a.get_device() for a in tensors_in(given)), default=-1)
    # Events and graphs belong to the current GPU.
    with torch.set_grad_enabled(training), torch.cuda.device(gpu), _state_kept(model):
        inputs = given.copy()
        layers = layers_of(model, inputs)
        writes = any(a._version for a in tensors_in(inputs) if not a.is_inference())
        run = (lambda: given.copy().run(model)) if writes else lambda: given.run(model)
        if not layers:
            done.functions = convolutions_in(run)
            return done
        done.tf32 = gpu >= 0 and allows_tf32()
        if tune is None:
            ours = [layer for layer in layers if not layer.why]
            compile_ahead((layer.problem, torch_tensors.place(layer.operator, layer.x)) for layer in ours)
        timed: Timed = {}
        try:
            with progress(len(layers) + 1) as (say, done_one):
                for layer in layers:
                    say(layer.name)
                    _measure(done, layer, timed)
                    done_one()
                say("the whole model")
                if training:
                    step = TrainingStep(model, run, given)
                    _prove(done, step, step.outcome, gpu >= 0, cuda_graph)
                else:
                    _prove(done, run, run, gpu >= 0, cuda_graph)
                    _fuse(done, run, given, gpu >= 0, cuda_graph)
        except BaseException:  # nobody gets the object that could undo the replacements
            done.undo()
            raise
    return done


def _check(model: Any, training: bool) -> None:
    """Raise UserError if the layers of a model cannot be replaced."""
    if not isinstance(model, torch.nn.Module):
        raise UserError(
            f"model is {kind_of(model)}, not a module", primitive="accelerate", fix="give a torch.nn.Module"
        )
    for part in model.modules():
        if isinstance(part, torch._dynamo.OptimizedModule) or part._compiled_call_impl is not None:
            what = "the model is compiled" if part is model else f"its part {type(part).__name__} is compiled"
            raise UserError(what, primitive="accelerate", fix="call accelerate before torch.compile")
        if isinstance(part, torch.jit.ScriptModule):
            what = "the model is a program of TorchScript" if part is model else "a part of it is TorchScript"
            raise UserError(what, primitive="accelerate", fix="call accelerate before torch.jit.trace")
    if training and not any(p.requires_grad for p in model.parameters()):
        raise UserError(
            "no parameter of the model requires a gradient", primitive="accelerate", fix="leave training=True out"
        )


@contextmanager
def _state_kept(model: Any) -> Iterator[None]:
    """Restore the state that runs of the model change, such as running statistics of layers in training mode."""
    kept = [
        (module, name, buffer, buffer.clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None and not torch.nn.parameter.is_lazy(buffer)
    ]
    try:
        yield
    finally:
        for module, name, buffer, before in kept:
            if name in module._buffers:
                module._buffers[name] = buffer
            if not torch.equal(buffer, before):  # tensors created in inference mode that remain cannot be written
                with torch.no_grad():
                    buffer.copy_(before)


def _measure(done: Acceleration, layer: ModelLayer, timed: Timed) -> None:
    """Time a layer with both kernels, store the decision, and replace the layer if ours is faster."""
    if layer.why:
        done.rows.append(Row(layer.name, f"{type(layer.module).__name__}({layer.module.extra_repr()})", why=layer.why))
        return
    problem, on = layer.problem, torch_tensors.place(layer.operator, layer.x)
    row = Row.of(layer.name, layer.operator, problem, layer.module)
    if problem.op in POOLS and done.training:
        done.rows.append(row.kept("PyTorch computes the gradients of poolings"))
        return
    plan = plan_for(problem, on, torch_tensors.RIVAL, tune=done.tune)
    if plan.executable is None and problem.groups == 1:
        done.rows.append(row.kept(plan.choice.why, done.tune))
        return
    try:
        parts = {"forward": _timed(done, problem, on, timed)}
    except UserError as refused:  # none of our kernels computes it
        done.rows.append(row.kept(refused.message))
        return
    if done.training:
        for gradient in layer.gradients(on.kind):
            with suppress(UserError):
                name = "weight gradient" if gradient.op == WEIGHT_GRADIENT else "data gradient"
                parts[name] = _timed(done, gradient, on, timed)
    row = row.with_times(parts, _GAIN, done.training)
    if row.replaced:
        done.replace(layer.module, replacement(type(layer.module)))
    else:
        row = row.kept("too close to call" if row.is_close else "PyTorch's is faster", done.tune)
    done.rows.append(row)


def _timed(done: Acceleration, problem: Problem, on: Any, timed: Timed) -> Comparison:
    """Time our kernel and PyTorch's for a problem, and make later calls run the faster kernel."""
    plan = plan_for(problem, on, torch_tensors.RIVAL, tune=done.tune)
    if plan.executable is None:  # estimates, or measurements from elsewhere, chose PyTorch: measure here
        plan = plan_for(problem, on, "")
    assert plan.executable is not None
    if problem not in timed:
        timed[problem] = compared(problem, on, plan.executable, _GAIN)
    wins = timed[problem].verdict(_GAIN) == Verdict.FASTER
    # Calls run PyTorch's kernel without TF32. A comparison in which PyTorch used TF32 decides nothing about calls.
    if wins or not (done.tf32 and problem.dtype == "float32" and problem.op not in POOLS):
        _keep(plan, wins, timed[problem])
    return timed[problem]


def _keep(plan: CallPlan, wins: bool, timed: Comparison) -> None:
    """Make later calls of a problem run the faster kernel of this comparison."""
    mine, theirs = timed.seconds
    side = Side.OURS if wins else Side.THEIRS
    why = f"measured {max(mine, theirs) / min(mine, theirs):.2f} times as fast as the other on this machine"
    if timed.verdict(_GAIN) == Verdict.CLOSE:
        why = "measured on this machine, and too close to call"
    choice = plan.choice._replace(side=side, why=why, seconds=mine, rival_seconds=theirs)
    decide(plan, choice, torch_tensors.RIVAL)


def _prove(
    done: Acceleration, run: Callable[[], Any], outcome: Callable[[], Any], on_gpu: bool, cuda_graph: bool
) -> None:
    """Compare the outcome and the time of a run with the original's; undo replacements that did not help."""
    if not any(row.replaced for row in done.rows):
        return
    with exact_convolutions():
        mine = outcome()
        with done.originals():
            theirs = outcome()
        require_agreement(done, theirs, mine, {row.dtype for row in done.rows if row.replaced}, outcome)
    sides: list[Around] = [nullcontext, lambda: done.originals()]

    def timed(eager: bool) -> Comparison:
        return compare([run, run], on_gpu, sides, eager, _NOISE if eager else 1.0)

    done.run = timed(eager=False)
    if on_gpu and not cuda_graph and done.run.verdict() == Verdict.FASTER:
        done.eager = timed(eager=True)
        if done.eager.verdict(_NOISE) == Verdict.SLOWER:
            _keep_fewer(done, timed)
    if done.run.verdict() != Verdict.FASTER:
        done.undo(SLOWER if done.run.verdict() == Verdict.SLOWER else UNDONE)


def _fuse(done: Acceleration, run: Callable[[], Any], given: Sample, on_gpu: bool, cuda_graph: bool) -> None:
    """Make the model run a graph with fused convolutions, if that is faster than its modules."""
    model = done.model
    with done.originals():
        try:
            fused = FusedModel(model, given)
        except CannotFuse as refused:
            done.fusion = f"not fused, layers are replaced one by one: {refused}"
            return
        with exact_convolutions():
            right = run()
    install(model, fused)
    try:
        with exact_convolutions():
            require_agreement(done, right, run(), fused.kinds, run)
        sides: list[Around] = [nullcontext, lambda: without(model)]
        timed = compare([run, run], on_gpu, sides, False, 1.0)
        wins = timed.verdict() == Verdict.FASTER
        if wins and on_gpu and not cuda_graph:
            wins = compare([run, run], on_gpu, sides, True, _NOISE).verdict(_NOISE) != Verdict.SLOWER
    except UserError as differs:
        remove(model)
        done.fusion = f"not fused, layers are replaced one by one: {differs.message}"
        return
    except BaseException:
        remove(model)
        raise
    done.report_fusion(fused.graph.rows, timed, wins)
    if not wins:
        remove(model)


def _keep_fewer(done: Acceleration, timed: Callable[[bool], Comparison]) -> None:
    """Keep only the layers that save most time: as many as possible without making the model slower without a graph.

    Our calls may cost the host more time than PyTorch's. That matters if the GPU waits for the host.
    """
    enough, too_many = 0, len(done.by_saving())
    while too_many - enough > 1:
        middle = (enough + too_many) // 2
        with done.only(middle):
            slower = timed(True).verdict(_NOISE) == Verdict.SLOWER
        enough, too_many = (enough, middle) if slower else (middle, too_many)
    done.leave(enough)
    if enough:
        done.run, done.eager = timed(False), timed(True)
        if done.eager.verdict(_NOISE) == Verdict.SLOWER:
            done.undo(SLOWER)
