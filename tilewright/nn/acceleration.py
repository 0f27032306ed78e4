"""`accelerate(model, sample)`: the convolutions of a model by Tilewright, if that is faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from math import isfinite
from typing import Any, NamedTuple

import torch

from ..core.errors import UserError
from ..core.text import kind_of
from ..functional import torch_tensors
from ..functional.call import OPERATORS, CallOptions
from ..functional.plans import OURS, THEIRS, CallPlan, decide, plan_for
from ..functional.problem import WEIGHT_GRADIENT, Problem
from ..functional.signature import FLOATS, Arrays, signature
from ..functional.torch_arguments import type_in_autocast
from ..functional.torch_gradients import gradients_of_ours
from ..functional.torch_timing import ROUNDS, Around, both, in_turns
from ..report.progress import progress
from . import modules
from .replacements import Acceleration, Row
from .steps import TrainingStep, tensors_in

_KINDS: dict[type, tuple[type, str]] = {
    torch.nn.Conv1d: (modules.Conv1d, "conv1d"),
    torch.nn.Conv2d: (modules.Conv2d, "conv2d"),
    torch.nn.ConvTranspose1d: (modules.ConvTranspose1d, "conv_transpose1d"),
    torch.nn.ConvTranspose2d: (modules.ConvTranspose2d, "conv_transpose2d"),
}
_WHOLE = "(the model)"
"""The name of a model that is a layer itself."""
_GAIN = 1.02
"""How much faster a layer has to be: less is noise."""
_BOUNDS = {"float16": 3e-2, "bfloat16": 2e-1}
"""By type: how far results may differ, in the relative L2 norm; 1e-3 for all others."""
_NOISE = 1.01
"""How much longer a run without a graph may seem to take. It takes the same time if the host has less to do than the
GPU."""
_MORE_ROUNDS, _LONGEST = 5 * ROUNDS, 4.0
"""Rounds, and seconds that they may take, of a second measurement, before a model is given back as it was."""


def accelerate(model: Any, sample: Any, *, tune: Any = None, training: bool = False) -> Acceleration:
    """Replace the convolutions of a model by Tilewright's if these are faster, as measured on a sample.

    Parameters
    ----------
    model : torch.nn.Module
        Changed in place: layers become modules of `tilewright.nn`, and keep their parameters, buffers and hooks.
    sample : tensor or tuple
        The input, or inputs, that the model is timed with. Under `torch.autocast`, also within the model, layers are
        timed in the type that they compute in.
    tune : "quick" or float, optional
        Measure configurations of each layer for that long first. That includes dense layers, although their untuned
        kernels are known to be no faster than matrix products.
    training : bool
        Measure whole training steps: the forward call, and the gradients of all parameters that require them. The
        forward call and both gradients of a layer each run by the kernel that was faster.

    Returns
    -------
    Acceleration
        A table of the layers; its `undo()` makes them PyTorch's modules again. If the whole model does not become
        faster, or becomes slower without a CUDA graph, nothing stays replaced.

    Raises
    ------
    UserError
        If the model is not a module, cannot run on the sample, or is not deterministic. The model is then as it was.
    """
    if not isinstance(model, torch.nn.Module):
        raise UserError(f"model is {kind_of(model)}", primitive="accelerate", fix="give a torch.nn.Module")
    if training and not any(p.requires_grad for p in model.parameters()):
        raise UserError(
            "no parameter of the model requires a gradient", primitive="accelerate", fix="leave training=True out"
        )
    given = tuple(sample) if isinstance(sample, (tuple, list)) else (sample,)
    done = Acceleration(model, training)
    gpu = max((a.get_device() for a in given if isinstance(a, torch.Tensor)), default=-1)
    # Events and graphs are the current GPU's.
    with torch.set_grad_enabled(training), torch.cuda.device(gpu), _state_kept(model):
        inputs = _copies(given)
        seen = _seen(model, inputs)
        writes = any(a._version for a in tensors_in(inputs) if not a.is_inference())
        if not seen:
            return done
        measured: dict[Problem, tuple[float, float]] = {}
        try:
            with progress(len(seen) + 1) as (say, done_one):
                for name, layer in seen.items():
                    say(name)
                    _measure(done, name, layer, tune, measured)
                    done_one()
                say("the whole model")
                run = (lambda: model(*_copies(given))) if writes else lambda: model(*given)
                if training:
                    step = TrainingStep(model, run, given)
                    _prove(done, step, step.outcome, on_gpu=gpu >= 0)
                else:
                    _prove(done, run, run, on_gpu=gpu >= 0)
        except BaseException:  # nobody gets the object that could undo the replacements
            done.undo()
            raise
    return done


def _copies(value: Any) -> Any:
    """The same inputs in tensors that a model may write to."""
    if isinstance(value, torch.Tensor):
        copy = value.detach().clone()
        return copy.requires_grad_() if value.requires_grad else copy
    if isinstance(value, dict):
        return {key: _copies(part) for key, part in value.items()}
    return type(value)(map(_copies, value)) if type(value) in (tuple, list) else value


@contextmanager
def _state_kept(model: Any) -> Iterator[None]:
    """Restore the state that runs of the model change: running statistics of layers in training mode, and counters."""
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


class Layer(NamedTuple):
    """A convolution of PyTorch's, its input when the model runs on its sample, and the type that it computes in.

    `needs_gradient` says whether a training step computes the gradient of the input.
    """

    module: Any
    x: Any
    dtype: str
    needs_gradient: bool = False


def _seen(model: Any, inputs: tuple[Any, ...]) -> dict[str, Layer]:
    """The layers that could be replaced, by name."""
    found: dict[str, Layer] = {}
    names = {module: name or _WHOLE for name, module in model.named_modules() if type(module) in _KINDS}
    hooks = []

    def note(module: Any, given: tuple[Any, ...], named: dict[str, Any], result: Any) -> None:
        x = given[0] if given else named.get("input")
        if isinstance(x, torch.Tensor) and module.padding_mode == "zeros":
            needs, x = x.requires_grad, x.detach()
            dtype = type_in_autocast(x)
            found.setdefault(names[module], Layer(module, x, torch_tensors.NAMES.get(dtype, str(dtype)), needs))

    try:
        hooks = [module.register_forward_hook(note, with_kwargs=True) for module in names]
        try:
            model(*inputs)
        except Exception as error:
            raise UserError(
                f"the model does not run on its sample: {error}",
                primitive="accelerate",
                fix="give the inputs that model(*sample) takes, on the device of the model",
            ) from error
    finally:
        for hook in hooks:
            hook.remove()
    return found


def problem_of(module: Any, x: Any, dtype: str = "") -> Problem:
    """The problem that a PyTorch convolution computes on an input, cast to another type if necessary."""
    _, operator = _KINDS[type(module)]
    options = CallOptions(module.stride, module.padding, module.dilation, module.groups)
    if "transpose" in operator:
        options = options._replace(output_padding=tuple(module.output_padding))
    given = [torch_tensors.described(a, OPERATORS[operator].rank) for a in (x, module.weight, module.bias)]
    cast = [a if a is None else a._replace(dtype=dtype or a.dtype) for a in given]
    return signature(operator, Arrays(*cast), options).problem  # type: ignore[arg-type]  # x is there


def _measure(
    done: Acceleration, name: str, layer: Layer, tune: Any, measured: dict[Problem, tuple[float, float]]
) -> None:
    """Time a layer both ways, keep the decision, and replace the layer if it gains."""
    kind, operator = _KINDS[type(layer.module)]
    if layer.dtype not in FLOATS:
        return
    problem = problem_of(*layer[:3])
    if 0 in problem.shape:
        done.rows.append(Row(name, problem, 0.0, 0.0, False, "the sample has no images"))
        return
    on = torch_tensors.place(operator, layer.x)
    plan = plan_for(problem, on, torch_tensors.RIVAL, tune=tune)
    if plan.executable is None and problem.groups == 1:
        done.rows.append(Row(name, problem, 0.0, 0.0, False, plan.choice.why))
        return
    try:
        times = [_timed(problem, on, tune, measured)]
    except UserError as refused:  # none of our kernels computes it
        done.rows.append(Row(name, problem, 0.0, 0.0, False, refused.message))
        return
    parts = ["forward"]
    if done.training:
        for gradient in gradients_of_ours(problem, layer.module.weight.requires_grad, layer.needs_gradient):
            with suppress(UserError):
                times.append(_timed(gradient, on, tune, measured))
                parts.append("weight gradient" if gradient.op == WEIGHT_GRADIENT else "data gradient")
    # Of a training step, each part runs by the faster kernel.
    mine = sum(min(pair) for pair in times) if done.training else times[0][0]
    theirs = sum(pair[1] for pair in times)
    wins = theirs >= _GAIN * mine
    faster = tuple(part for part, (own, other) in zip(parts, times, strict=True) if other >= _GAIN * own)
    done.rows.append(Row(name, problem, mine, theirs, wins, directions=faster if done.training else ()))
    if wins:
        done.replace(layer.module, kind)


def _timed(problem: Problem, on: Any, tune: Any, measured: dict[Problem, tuple[float, float]]) -> tuple[float, float]:
    """Time our kernel and PyTorch's for a problem, and have later calls run the faster one."""
    plan = plan_for(problem, on, torch_tensors.RIVAL, tune=tune)
    if plan.executable is None:  # by an estimate, or by measurements from elsewhere: here it is measured
        plan = plan_for(problem, on, "")
    assert plan.executable is not None
    if problem not in measured:
        measured[problem] = both(problem, on, plan.executable)
    mine, theirs = measured[problem]
    _keep(plan, theirs >= _GAIN * mine, mine, theirs)
    return mine, theirs


def _keep(plan: CallPlan, wins: bool, mine: float, theirs: float) -> None:
    """Make later calls of this problem use the kernel that was faster here."""
    how = OURS if wins else THEIRS
    why = f"measured {max(mine, theirs) / min(mine, theirs):.2f} times as fast as the other on this machine"
    choice = plan.choice._replace(how=how, why=why, seconds=mine, rival_seconds=theirs)
    decide(plan, choice, torch_tensors.RIVAL)


def _prove(done: Acceleration, run: Callable[[], Any], outcome: Callable[[], Any], on_gpu: bool) -> None:
    """Compare the outcome and the time of a run with the original's; undo replacements that did not help."""
    if not any(row.replaced for row in done.rows):
        return
    mine = outcome()
    with done.originals():
        theirs = outcome()
    _agree(theirs, mine, {row.problem.dtype for row in done.rows if row.replaced})
    _time(done, run, on_gpu, ROUNDS)
    if _is_slower(done):  # or seems to be: other programs on the host can make a run without a graph twice as long
        rounds = int(_LONGEST / (done.eager_before + done.eager_after))
        _time(done, run, on_gpu, max(ROUNDS, min(_MORE_ROUNDS, rounds)))
    if _is_slower(done):
        done.undo()


def _time(done: Acceleration, run: Callable[[], Any], on_gpu: bool, rounds: int) -> None:
    """Measure the model as it was and as it is, in turns."""
    sides: list[Around] = [lambda: done.originals(), nullcontext]
    done.before, done.after = done.eager_before, done.eager_after = in_turns([run, run], on_gpu, sides, False, rounds)
    if on_gpu:
        done.eager_before, done.eager_after = in_turns([run, run], on_gpu, sides, True, rounds)


def _is_slower(done: Acceleration) -> bool:
    """Whether the model did not become faster, or became slower without a graph."""
    return done.after > done.before or done.eager_after > _NOISE * done.eager_before


def _agree(theirs: Any, mine: Any, within: set[str]) -> None:
    """Raise UserError for results that differ by more than their type explains, or the types `within` the model."""
    expected, found = tensors_in(theirs), tensors_in(mine)
    if [a.shape for a in expected] != [a.shape for a in found]:
        shapes = " and ".join(str([tuple(a.shape) for a in each]) for each in (expected, found))
        raise _differs(f"the model gives results of other shapes in each run: {shapes}")
    for one, other in zip(expected, found, strict=True):
        error = _error(one, other)
        bound = max(_BOUNDS.get(name, 1e-3) for name in (torch_tensors.NAMES.get(one.dtype, ""), *within))
        if not error <= bound:
            raise _differs(f"the accelerated model differs from the model by {error:.2g} (relative L2)")


def _differs(message: str) -> UserError:
    fix = "put it into evaluation mode first, model.eval(): in training mode, layers such as dropout differ in each run"
    return UserError(message, primitive="accelerate", fix=fix)


def _error(expected: Any, found: Any) -> float:
    """The relative error in the L2 norm, of all elements that are not the same infinity, or both no number."""
    expected, found = expected.double(), found.double()
    error, scale = float((found - expected).norm()), float(expected.norm())
    if not isfinite(error) or not isfinite(scale):
        same = (expected == found) | (expected.isnan() & found.isnan())
        expected, found = (a.masked_fill(same & ~expected.isfinite(), 0) for a in (expected, found))
        error, scale = float((found - expected).norm()), float(expected.norm())
    return error / scale if scale else error
