"""Programs as operators registered with PyTorch. Calls are prepared by shapes and types, then launched with
addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.library import Library, register_autograd, register_fake

from .... import driver
from ....core.errors import InternalError, UserError
from ....core.target import Target
from ....runtime.compile import resolve_target, target_on
from ....runtime.module import Module
from ....schedule.handle import ScheduleHandle
from ....tensor.tensor import Tensor
from ...planning.prepared_calls import PreparedCalls
from ...programs.declared_program import DeclaredProgram, declared
from ...programs.executable import Executable
from ...programs.sized_programs import UnsuitableError, sized
from ..allocation import strided_allocator
from ..launches import starts_of
from ..state import differentiates, transforms
from ..tensors import NAMES, place

Run = Callable[..., list[Any]]
Declare = Callable[[str], DeclaredProgram]
"""Returns the program for a kind of target."""
_ALIGNMENT = 16
_libraries: dict[str, Library] = {}
"""Libraries by operator, kept alive: PyTorch drops the operators of a garbage-collected library."""


def register_program(name: str, inputs: Any, args: Sequence[Any] | None, gradient: bool, target: Any) -> Any:
    """Register a program; see `torch_operator`."""
    given = None if target is None else Target.parse(target)
    known: dict[str, DeclaredProgram] = {}

    def declare(kind: str) -> DeclaredProgram:
        if not callable(inputs) or isinstance(inputs, (ScheduleHandle, Tensor)):
            kind = ""
        if kind not in known:
            known[kind] = declared(name, inputs, args) if not kind else _of_template(name, inputs, args, given or kind)
        return known[kind]

    return _Operator(name, declare, gradient, given).packet


def _of_template(name: str, template: Callable[..., Any], args: Sequence[Any] | None, target: Any) -> DeclaredProgram:
    with Target.parse(target):
        made = template(*(args or ()))
    if not isinstance(made, (tuple, list)) or len(made) != 2:
        raise UserError(
            f"the template returned {made!r}", primitive=name, fix="return a schedule and its arguments: s, [A, W, B]"
        )
    return declared(name, *made)


class _CheckedLibrary(Library):  # type: ignore[misc]  # PyTorch is not followed
    """A library of operators that raise an error if PyTorch would omit a derivative, or refuse it without a remedy."""

    def impl(self, op_name: str, fn: Any, dispatch_key: str = "", **more: Any) -> None:
        """Register an implementation. The implementation of a gradient gets the key set as its first argument."""

        def checked(keys: Any, *arguments: Any) -> Any:
            if differentiates() and any(map(_is_differentiated, arguments)):
                raise UserError(
                    "forward gradients and the transforms of torch.func do not differentiate registered operators",
                    primitive=f"{self.ns}::{op_name}",
                    fix="use torch.autograd.grad, or torch.autograd.functional.jvp",
                )
            return fn(keys, *arguments)

        super().impl(op_name, checked if dispatch_key == "Autograd" else fn, dispatch_key, **more)


def _is_differentiated(a: Any) -> bool:
    if not isinstance(a, torch.Tensor):
        return False
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(a).tangent is not None:
        return True
    return bool(transforms() and a.requires_grad and torch.is_grad_enabled())


class _Operator:
    """One operator: its programs, its prepared calls, and the operators of its gradients."""

    def __init__(
        self, name: str, declare: Declare, gradient: bool, target: Target | None, checked: bool = False
    ) -> None:
        self.name, self._declare, self._target = name, declare, target
        self._modules: dict[Any, Module] = {}
        self._gradients: dict[Any, _Operator] = {}
        first = declare(target.kind if target is not None else "llvm")
        self._tensors, self._several = len(first.inputs), len(first.outputs) > 1
        if not first.inputs:
            raise UserError("no argument is an input", primitive=name, fix="add a te.placeholder to the arguments")
        for output in range(
            len(first.outputs) if gradient and not checked else 0
        ):  # an error now, rather than in a backward pass
            first.gradient(output, [t.dtype.is_float for t in first.inputs], name)
        space, _, own = name.partition("::")
        if name in _libraries or hasattr(getattr(torch.ops, space), own):
            raise UserError(f"there is an operator {name} already", primitive="torch_operator", fix="give another name")
        self._runs = PreparedCalls()
        library = _libraries[name] = _CheckedLibrary(space, "FRAGMENT")
        library.define(f"{own}{_schema(first)}", tags=(torch.Tag.pt2_compliant_tag,))
        for key in ("CPU", "CUDA"):
            library.impl(own, self.compute, key)
        register_fake(name, self._shaped)
        backward = self._differentiated if gradient else self._refused
        register_autograd(name, backward, setup_context=self._save, lib=library)
        self.packet = getattr(getattr(torch.ops, space), own)

    def _declared(self, x: Any) -> DeclaredProgram:
        kind = "cuda" if x.device.type == "cuda" else "llvm"
        return self._declare(kind if self._target is None else self._target.kind)

    def _shapes(self, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        tensors, sizes = arguments[: self._tensors], arguments[self._tensors :]
        if len(devices := list(dict.fromkeys(str(t.device) for t in tensors))) > 1:
            raise UserError(
                f"the tensors are on {' and '.join(devices)}", primitive=self.name, fix="move them to one device"
            )
        seen = [(tuple(t.shape), NAMES.get(t.dtype, str(t.dtype).removeprefix("torch."))) for t in tensors]
        return self._declared(tensors[0]).shapes(seen, sizes)

    def _returned(self, made: list[Any]) -> Any:
        return tuple(made) if self._several else made[0]

    def _shaped(self, *arguments: Any) -> Any:
        """Infer the results' shapes."""
        x, outputs = arguments[0], self._declared(arguments[0]).outputs
        shapes = zip(self._shapes(arguments), outputs, strict=True)
        return self._returned([x.new_empty(shape, dtype=_type(output)) for shape, output in shapes])

    def compute(self, *arguments: Any) -> Any:
        """Compute the results for tensors on one device, and sizes."""
        tensors, sizes = arguments[: self._tensors], arguments[self._tensors :]
        with torch.no_grad():
            suitable = [_suitable(t) for t in tensors]
        key = (*[(t.shape, t.dtype, t.device) for t in tensors], *sizes)
        run = self._runs.made(key, lambda: self._prepared(suitable, sizes))
        return self._returned(run(suitable))

    def _prepared(self, tensors: list[Any], sizes: Sequence[Any]) -> Run:
        """Return the executor of all calls with tensors of these shapes and types."""
        x, shapes = tensors[0], self._shapes([*tensors, *sizes])
        module, outputs = self._module(x), self._declared(x).outputs
        fresh = [
            strided_allocator(x, shape, tuple(torch.empty(shape, device="meta").stride()), _type(output))
            for shape, output in zip(shapes, outputs, strict=True)
        ]
        program = module.program
        arrays = [(tuple(t.shape), None) for t in tensors] + [(shape, None) for shape in shapes]
        found = None
        integers = all(size.dtype.is_int for size in self._declared(x).sizes)
        if integers and "packed(" not in program.entries[0].source and not program.objects:
            found = _sized(program, arrays, sizes)

        def general(given: list[Any]) -> list[Any]:
            """Call the function as users do: it raises users' errors, and may call Python."""
            made = [allocate() for allocate in fresh]
            with torch.no_grad():
                module(*given, *made, *sizes)
            return made

        if found is None:
            return general
        start = starts_of(found, x, place(self.name, x))

        def run(given: list[Any]) -> list[Any]:
            made = [allocate() for allocate in fresh]
            start([t.data_ptr() for t in (*given, *made)])
            return made

        return run

    def _module(self, x: Any) -> Module:
        """Return the program for the device of a tensor, built once per architecture."""
        on = place(self.name, x)
        target = target_on(on) if self._target is None else resolve_target(self._target, on)
        if str(target) not in self._modules:
            made = self._declared(x)
            source: Any = made.schedule if made.schedule is not None else list(made.outputs)
            own = self.name.partition("::")[2]
            self._modules[str(target)] = driver.build(source, made.arguments, target, name=own)
        return self._modules[str(target)]

    # Gradients

    def _save(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[: self._tensors])
        ctx.sizes = inputs[self._tensors :]

    def _differentiated(self, ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Return the gradients with respect to the inputs, for gradients with respect to the outputs."""
        tensors, wanted = ctx.saved_tensors, tuple(ctx.needs_input_grad[: self._tensors])
        total: list[Any] = [None] * self._tensors
        for output, grad in enumerate(grads):
            if grad is None:
                continue
            found = self._gradient(output, wanted).packet(*tensors, grad, *ctx.sizes)
            each = iter(found if isinstance(found, (tuple, list)) else (found,))
            for place_, asked in enumerate(wanted):
                if asked:
                    made = next(each)
                    total[place_] = made if total[place_] is None else total[place_] + made
        return *total, *[None] * len(ctx.sizes)

    def _refused(self, ctx: Any, *grads: Any) -> Any:
        raise UserError(
            "it has no gradient",
            primitive=self.name,
            fix="register it by torch_operator(..., gradient=True), or call it within torch.no_grad()",
        )

    def _gradient(self, output: int, wanted: tuple[bool, ...]) -> _Operator:
        """Return the operator of the gradients of one output with respect to the wanted inputs."""
        found = self._gradients.get((output, wanted))
        if found is None:
            by = "_".join(str(number) for number, asked in enumerate(wanted) if asked)
            name = f"{self.name}_gradient_of_{output}_by_{by}"
            known: dict[str, DeclaredProgram] = {}

            def declare(kind: str) -> DeclaredProgram:
                if kind not in known:
                    known[kind] = self._declare(kind).gradient(output, wanted, name)
                return known[kind]

            found = self._gradients[output, wanted] = _Operator(name, declare, True, self._target, checked=True)
        return found


def _sized(program: Any, arrays: list[tuple[Any, Any]], sizes: Sequence[Any]) -> Executable | None:
    """Return the executable of a program for arrays of these shapes; None if launches cannot represent it."""
    try:
        return sized(program, arrays, sizes)
    except (InternalError, UnsuitableError):
        return None


def _suitable(t: Any) -> Any:
    """Return the tensor, or a copy if it has gaps or is misaligned for vector loads."""
    t = t.resolve_conj().resolve_neg().contiguous()
    return t if t.data_ptr() % _ALIGNMENT == 0 else t.clone()


def _type(tensor: Tensor) -> Any:
    return getattr(torch, str(tensor.dtype))


def _schema(of: DeclaredProgram) -> str:
    """Return the operator's schema in PyTorch's notation."""
    inputs = [f"Tensor {_name(t.name, number)}" for number, t in enumerate(of.inputs)]
    kinds = ["SymInt" if v.dtype.is_int else "float" for v in of.sizes]
    places = range(len(inputs), len(inputs) + len(kinds))
    inputs += [f"{kind} {_name(v.name, at)}" for kind, v, at in zip(kinds, of.sizes, places, strict=True)]
    results = ", ".join(["Tensor"] * len(of.outputs))
    return f"({', '.join(inputs)}) -> {results if len(of.outputs) == 1 else f'({results})'}"


def _name(text: str, number: int) -> str:
    """Return a name for an argument: the tensor's name, made unique by its position."""
    return f"{text if text.isidentifier() else 'argument'}_{number}"
