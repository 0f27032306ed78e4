"""PyTorch's tensors: their properties, the signature of a call on them, and its executor, without gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Generic, NamedTuple, TypeVar

import torch

from ...core.errors import UserError
from ...core.text import kind_of
from ...runtime.device import Device, cpu, cuda
from ..arguments.activations import custom
from ..arguments.call import ARRAYS, OperatorCall
from ..arguments.outputs import ArrayMemory, check_places
from ..arguments.problem import WEIGHT_GRADIENT
from ..arguments.signature import ArrayProperties, Arrays, Signature, channels_last_order, signature
from ..planning.decision import Activation, Side
from ..planning.plans import plan_for
from ..planning.prepared_calls import PreparedCalls
from ..programs.running import CpuProgram, Program
from . import native
from .allocation import allocator, in_shape, lies_in
from .launches import direct, launch
from .threads import by_pytorch, lost, program_of

Run = Callable[..., Any]
Result = TypeVar("Result")
"""A function of (x, weight, bias, residual, out); missing trailing arguments are None."""
TENSORS = (torch.Tensor, torch.nn.Parameter)
RIVAL = f"torch {torch.__version__}"
TensorGuards = getattr(getattr(torch._C._dynamo, "guards", None), "TensorGuards", None)
"""PyTorch's check of tensors. It is None in versions without one, in which every call is looked up."""
NAMES = {torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32", torch.float64: "float64"}


class KnownCall(NamedTuple, Generic[Result]):
    """A call that was prepared: PyTorch's own check, in C++, that tensors are like the call's, and the executor.

    The check compares type, dispatch keys (which autocast and `vmap` change, but PyTorch's own modes do not), device,
    shape and strides of each tensor. It also compares whether each requires a gradient. So another tensor may reuse the
    `id` of a weight without harm.
    """

    is_like: Callable[..., bool]
    run: Callable[..., Result]

    def suits(self, *tensors: Any) -> bool:
        """Whether tensors are like the call's. Missing ones are left out."""
        return self.is_like(*[a for a in tensors if a is not None])


def known_call(run: Callable[..., Result], *tensors: Any) -> KnownCall[Result] | None:
    """Return a call with these tensors; None if PyTorch has no check. Missing tensors are left out."""
    if TensorGuards is None:
        return None
    watched = [a for a in tensors if a is not None]
    return KnownCall(TensorGuards(*watched, dynamic_dims_sizes=None, dynamic_dims_strides=None).check, run)


class RecentCalls(PreparedCalls):
    """The last call of each key, as a `KnownCall`."""

    def remember(self, key: Any, tensors: tuple[Any, ...], run: Callable[..., Any], version: int) -> None:
        """Store an executor for the next call with this key. The key determines which tensors are given."""
        if known := known_call(run, *tensors):
            self.keep(key, known, version)

    def executor(self, key: Any, tensors: tuple[Any, ...]) -> Callable[..., Any] | None:
        """Return the executor of the last call with a key if its tensors resemble these."""
        known: KnownCall[Any] | None = self.get(key)
        if known is None:
            return None
        try:  # the check ends the process if a tensor is nested
            nested = any([a is not None and a.is_nested for a in tensors])
            return known.run if not nested and known.suits(*tensors) else None
        except (AttributeError, TypeError, RuntimeError):  # an argument is not a tensor, or has no strides
            return None


def facts(a: Any) -> tuple[Any, ...]:
    """Return the properties of a tensor on which its executor depends."""
    return a.shape, a.dtype, a.device, a.layout, a.stride(), type(a), a.is_neg(), a._is_zerotensor()


def check_types(call: OperatorCall) -> None:
    """Raise UserError if an argument of a call is not a tensor."""
    name = call.name
    for what, a in zip(ARRAYS, call.arrays, strict=True):
        if a is not None and not isinstance(a, torch.Tensor):
            raise UserError(
                f"x is a tensor, but {what} is {kind_of(a)}" if what != "x" else f"x is {kind_of(a)}",
                primitive=name,
                fix=f"leave {what} out" if isinstance(a, bool) else f"convert it: torch.as_tensor({what})",
            )
        if a is not None and a.is_nested:
            padded = f"pad it: torch.nested.to_padded_tensor({what}, 0.0)"
            raise UserError(f"{what} is a nested tensor", primitive=name, fix=padded)
        if hasattr(a, "device_mesh"):
            local = f"compute on the part of this process: {what}.to_local()"
            raise UserError(f"{what} is a DTensor, of several processes", primitive=name, fix=local)
        if a is not None and a.layout is not torch.strided:
            raise UserError(f"{what} has the layout {a.layout}", primitive=name, fix=f"convert it: {what}.to_dense()")


def channels_last(a: Any, rank: int) -> bool:
    """Return whether a tensor has channels after the `rank` spatial dimensions in memory, and not also before them."""
    if a.dim() not in (rank + 1, rank + 2) or a.is_contiguous():
        return False
    return lies_in(a, channels_last_order(a.dim(), rank))


def results_lie_last(rank: int, x: Any, weight: Any = None) -> bool:
    """Whether the result of a call lies in memory with the channels last.

    For images, this is PyTorch's rule: the input lies so, or the weight does. For lines, the input decides.
    """
    if rank == 1:
        return channels_last(x, rank)
    if 0 in x.shape:
        return False
    # PyTorch's convolutions add the batch to an image without one, and its poolings do not.
    asked = [x] if weight is None else [x.unsqueeze(0) if x.dim() == 3 else x, weight]
    return any(a.dim() == 4 and _is_like_channels_last(a) for a in asked)


def _is_like_channels_last(a: Any) -> bool:
    """Whether PyTorch takes four dimensions for images with the channels last (`c10::is_channels_last_strides_2d`).

    It reads strides alone, also of slices and of extents of 1.
    """
    sizes, steps, least = a.shape, a.stride(), 0
    if steps[1] == 0:
        return False
    for d in (1, 3, 2, 0):
        if steps[d] < least or (d == 0 and least == steps[1]):
            return False
        least = steps[d] * sizes[d]
    return True


def properties_of(a: Any, rank: int) -> ArrayProperties | None:
    """Return the properties of a tensor that a call with `rank` spatial dimensions needs."""
    if a is None:
        return None
    place = (a.device.type, a.get_device() if a.device.type != "cpu" else 0)
    return ArrayProperties(tuple(a.shape), NAMES.get(a.dtype, str(a.dtype)), place, channels_last(a, rank))


def in_result_order(seen: Sequence[Any], rank: int, arrays: Sequence[Any]) -> Arrays:
    """Return the descriptions of a call's tensors; the one of the input says how the result lies in memory."""
    return Arrays(seen[0]._replace(channels_last=results_lie_last(rank, *arrays[:2])), *seen[1:])


def signed(call: OperatorCall) -> tuple[Signature, Activation | None]:
    """Return the checked signature of a call, and the function of a user-defined activation."""
    rank = call.operator.rank
    seen = in_result_order([properties_of(a, rank) for a in call.arrays], rank, call.arrays)
    function, text = custom(call.name, call.options.activation, seen.x.dtype)
    return signature(call.name, seen, call.options, text), function


def place(name: str, x: Any) -> Device:
    """Return the device of a tensor; UserError if Tilewright does not run there."""
    if x.device.type == "cpu":
        return cpu()
    if x.device.type == "cuda" and torch.version.hip is None:
        return cuda(x.get_device())
    raise UserError(f"x is on {x.device}", primitive=name, fix="move it to a CUDA device or to the CPU")


def prepared(call: OperatorCall, checked: Signature, function: Activation | None = None, ordered: bool = False) -> Run:
    """Return the executor of all calls with these shapes, strides, types and options, without gradients.

    With `ordered`, the result has the memory order of `checked`, even if PyTorch's own kernel returns another order.
    """
    problem = checked.problem
    on = place(call.name, call.x)
    fresh = allocator(checked, call.x)
    if 0 in problem.shape:
        return lambda x, w=None, bias=None, residual=None, out=None: fresh().zero_() if out is None else out
    plan = plan_for(problem, on, RIVAL, function, call.options.tune)
    if plan.choice.side == Side.THEIRS:
        theirs = _native(call, checked, on)
        return _in_order(theirs, checked.order) if ordered else theirs
    program = program_of(plan)
    w, bias = call.weight, call.bias
    images = [a is None or lies_in(a, checked.images) for a in (call.x, call.residual)]
    plain = all(images) and (w is None or lies_in(w, _order_of(w, checked))) and (bias is None or bias.is_contiguous())
    general = _general(call.name, program, checked, fresh)
    if not plain or call.out is not None:
        return general
    return direct(program, on, fresh, call, general) or general


def _order_of(w: Any, checked: Signature) -> tuple[int, ...]:
    """Return the memory order that a kernel requires of a weight, or of the argument in its place."""
    if checked.problem.op == WEIGHT_GRADIENT:
        return checked.images
    return channels_last_order(w.dim(), w.dim() - 2) if checked.problem.weights == "OHWI" else ()


def _general(name: str, program: Program, checked: Signature, fresh: Callable[[], Any]) -> Run:
    """Return an executor for any strides, which copies tensors without the memory order that the kernel requires."""
    order, aligned = checked.order, max(program.program.alignment)
    copying = by_pytorch if isinstance(program, CpuProgram) else nullcontext

    def ready(x: Any, w: Any, bias: Any, residual: Any) -> list[Any]:
        images = [in_order(x, checked.images)]
        images += [] if w is None else [in_order(w, _order_of(w, checked))]
        images += [] if bias is None else [bias.contiguous()]
        images += [] if residual is None else [in_order(residual, checked.images)]
        return [a if a.data_ptr() % aligned == 0 else a.clone() for a in images]

    def run(x: Any, w: Any = None, bias: Any = None, residual: Any = None, out: Any = None) -> Any:
        with copying():
            if out is not None:
                _check_out(name, out, x, w)
                bias, residual = _MEMORY.apart(bias, out), _MEMORY.apart(residual, out)
            images = ready(x, w, bias, residual)
            suits = out is not None and lies_in(out, order) and out.data_ptr() % aligned == 0
            made = out if suits else fresh()
        launch(program, [a.data_ptr() for a in (*images, made)], x)
        if out is not None and made is not out:
            with copying():
                out.copy_(made)
        elif out is not None and not out.is_inference():  # inference tensors have no versions
            torch.autograd.graph.increment_version(out)  # an error for gradients that need the old values
        return made if out is None else out

    return run


def in_order(a: Any, order: tuple[int, ...]) -> Any:
    """Return the tensor, or a copy, with a memory order of its dimensions."""
    if not order:
        return a.contiguous()
    return a if lies_in(a, order) else in_shape(a.permute(order).contiguous(), order)


def _overlap(a: Any, b: Any) -> bool:
    def span(a: Any) -> tuple[int, int]:
        reach = sum((size - 1) * step for size, step in zip(a.shape, a.stride(), strict=True)) + 1
        return a.data_ptr(), a.data_ptr() + reach * a.element_size()

    (first, end), (other, other_end) = span(a), span(b)
    return bool(first < other_end and other < end)


_MEMORY = ArrayMemory("a tensor", lambda a: (a.data_ptr(), a.shape, a.stride()), _overlap, torch.clone)


def _check_out(name: str, out: Any, *inputs: Any) -> None:
    check_places(name, out.shape, out.stride(), _MEMORY.noun)
    _MEMORY.check_inputs(name, out, inputs)


def _in_order(run: Run, order: tuple[int, ...]) -> Run:
    """Return an executor with results in a memory order of their dimensions."""
    lies = False

    def ordered(*arrays: Any) -> Any:
        nonlocal lies
        made = run(*arrays)
        if lies:  # all results of an executor lie alike
            return made
        lies = lies_in(made, order)
        return made if lies else in_order(made, order)

    return ordered


def _native(call: OperatorCall, checked: Signature, on: Device) -> Run:
    """Return an executor with PyTorch's own kernel and the epilogue."""
    layout, dims, on_gpu = call.options.layout, len(checked.shape), on.kind == "cuda"
    compute = native.computed(checked.problem, call.name, layout, dims, on_gpu)

    def run(x: Any, w: Any = None, bias: Any = None, residual: Any = None, out: Any = None) -> Any:
        if out is None:
            return compute(x, w, bias, residual)
        _check_out(call.name, out, x, w)  # calls of our kernels check it, too
        return out.copy_(compute(x, w, bias, residual))

    def run_on_cpu(x: Any, w: Any = None, bias: Any = None, residual: Any = None, out: Any = None) -> Any:
        if out is None and not lost():
            return compute(x, w, bias, residual)
        with by_pytorch():
            return run(x, w, bias, residual, out)

    return run if on_gpu else run_on_cpu
