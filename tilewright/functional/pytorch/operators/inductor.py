"""Calls of our operators in programs of PyTorch's Inductor, without PyTorch's dispatcher.

The dispatcher converts all arguments and comes back to Python, which takes longer than a small kernel. So each such
program names a call site by its operator, its options and the layouts of its tensors. The site remembers the executor
of its last call (`pytorch/tensors.py::KnownCall`).
"""

from __future__ import annotations

import sys
from ast import literal_eval
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import torch

from ...planning.prepared_calls import PreparedCalls
from ..eager import is_plain
from ..state import modes
from ..tensors import KnownCall, known_call

Run = Callable[..., Any]
Prepare = Callable[[tuple[Any, ...], tuple[Any, ...]], Run]
"""Returns the executor for the tensors of a call and its options, without gradients.

The executor is a function of the tensors; missing trailing tensors are None.
"""
_grad_enabled = torch.is_grad_enabled


class _Operator(NamedTuple):
    """An operator of ours: the number of tensors, which are its first arguments, and the function that prepares
    calls."""

    tensors: int
    prepare: Prepare


_operators: dict[str, _Operator] = {}
_lowered: set[str] = set()


class _CallSites(PreparedCalls):
    """The call sites of all programs, by their texts, until plans change."""

    def __missing__(self, text: str) -> Run:
        site: Run = self.made(text, lambda: _call_site(*literal_eval(text)[:3]))
        return site


torch.ops.tilewright.call_sites = _CallSites()  # programs reach it by this name: they import PyTorch alone


def _call_site(name: str, places: tuple[int, ...], options: tuple[Any, ...]) -> Run:
    """Return the function of one call site. `places` are the positions of its tensors in the operator's arguments."""
    operator, (count, prepare) = getattr(torch.ops.tilewright, name).default, _operators[name]
    leading = places == tuple(range(len(places)))
    known: KnownCall[Any] | None = None
    last: Run | None = None

    def spread(arrays: tuple[Any, ...]) -> list[Any]:
        found = dict(zip(places, arrays, strict=True))
        return [found.get(place) for place in range(count)]

    def call(*arrays: Any) -> Any:
        now = known  # another thread may replace `known`
        if now is not None and not _grad_enabled() and not modes() and now.is_like(*arrays):
            return now.run(*arrays)
        if _grad_enabled() or not is_plain(arrays):
            return operator(*spread(arrays), *options)
        return looked_up(arrays)(*arrays)

    def looked_up(arrays: tuple[Any, ...]) -> Run:
        nonlocal known, last
        run = prepare(tuple(spread(arrays)), options)
        ready = run if leading else lambda *arrays: run(*spread(arrays))
        if run is last:  # a check pays only if sizes do not change at each call
            known = known_call(ready, *arrays)
        last = run
        return ready

    return call


def call_directly(name: str, tensors: int, prepare: Prepare) -> None:
    """Make programs of Inductor call `torch.ops.tilewright.<name>` through call sites."""
    _operators[name] = _Operator(tensors, prepare)


def lower() -> None:
    """Register our operators with Inductor if Inductor is loaded. PyTorch loads it before it compiles a graph."""
    lowering = sys.modules.get("torch._inductor.lowering")
    for name in _operators.keys() - _lowered if hasattr(lowering, "lowerings") else ():
        _lowered.add(name)
        # In versions of PyTorch with other names, programs use the dispatcher.
        with suppress(AttributeError, ImportError, KeyError, TypeError):
            _lower(lowering, name)


_NARROW = (torch.float16, torch.bfloat16)
_CONVERT = torch.ops.prims.convert_element_type.default
_PARTS = (torch.ops.aten.slice.Tensor, torch.ops.aten.view.default, torch.ops.aten.reshape.default)


def _widens(node: Any) -> bool:
    """Return whether a program reads a weight gradient in float32 only; if so, remove its conversions to float32.

    The gradients of float32 parameters under autocast are such. The kernel then stores its float32 sums.
    """
    conversions = _conversions(node)
    for each in conversions or ():
        each.target, each.args = torch.ops.aten.alias.default, each.args[:1]
    return bool(conversions)


def _conversions(node: Any) -> list[Any] | None:
    """Return the conversions to float32 of a node and its parts; None if anything else reads the node."""
    found: list[Any] = []
    for user in node.users:
        is_conversion = user.target is _CONVERT and user.args[1] is torch.float32
        below = [user] if is_conversion else _conversions(user) if user.target in _PARTS else None
        if below is None:
            return None
        found += below
    return found


def _lower(lowering: Any, name: str) -> None:
    from torch._inductor import ir
    from torch._library.utils import get_layout_constraint_tag
    from torch.utils import _pytree as pytree

    operator, tensors = getattr(torch.ops.tilewright, name).default, _operators[name].tensors
    schema = operator._schema.arguments

    class Site(ir.FallbackKernel):  # type: ignore[misc]  # PyTorch is not followed
        """A call of the operator, which the generated program makes through its call site."""

        places: tuple[int, ...] | None = None
        """The positions of the tensors that the call site gets; None if the program calls the operator."""

        def codegen(self, wrapper: Any) -> None:
            self.places = None
            if not ir.V.graph.cpp_wrapper:
                # A size known only when the program runs is no literal.
                with suppress(AttributeError, KeyError, SyntaxError, TypeError, ValueError):
                    self._name_site(super().codegen_args())
            super().codegen(wrapper)

        def codegen_args(self) -> list[str]:
            written: list[str] = super().codegen_args()
            return written if self.places is None else [written[i] for i in self.places]

        def codegen_kwargs(self, *skipped: Any, **more: Any) -> list[str]:
            return super().codegen_kwargs(*skipped, **more) if self.places is None else []

        def _name_site(self, written: list[str]) -> None:
            places = tuple(i for i, a in enumerate(written[:tensors]) if a != "None")
            options = [*written[tensors:], *(repr(self.kwargs[a.name]) for a in schema[len(written) :])]
            seen = [f"{a.get_dtype()} {a.get_size()} {a.get_stride()}" for a in self.inputs]
            text = f"{name!r}, {places}, ({''.join(f'{option}, ' for option in options)}), {self.get_name()!r}, {seen}"
            literal_eval(text)
            self.python_kernel_name, self.places = f"torch.ops.tilewright.call_sites[{text!r}]", places

    def lowered(*args: Any, **kwargs: Any) -> Any:
        if name == "weight_gradient" and args[0].get_dtype() in _NARROW:
            given = [*args, *(kwargs.pop(a.name, a.default_value) for a in schema[len(args) :])]
            args = (*given[:-1], given[-1] or _widens(ir.V.graph.current_node))
        made = Site.create(operator, *args, **kwargs)
        return pytree.tree_map(lambda a: ir.TensorBox.create(a) if isinstance(a, ir.IRNode) else a, made)

    constraint = lowering.tag_to_layout_constraint(get_layout_constraint_tag(operator, with_default=True))
    lowering.make_fallback(operator, layout_constraint=constraint)
    lowered._is_fallback_handler = True  # type: ignore[attr-defined]  # Inductor's own fallbacks have this attribute
    lowering.register_lowering(operator, type_promotion_kind=None)(lowered)
