"""A model in evaluation mode as one graph, with a convolution and the layers after it as one call.

`accelerate` exports the model, rewrites its graph by `fuse`, and lets the model run the graph for inputs like its
sample. All other calls run the model's own modules.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from functools import cache
from io import StringIO
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling
from torch.nn.modules.module import _has_any_global_hook
from torch.utils import _pytree as pytree

from ..functional.pytorch.native import NO_TF32, forbids_tf32, tf32_settings
from ..functional.pytorch.state import autocasts, modes, tracing, transforms
from .folding import FoldedParameters
from .fusion import FusedGraph, fuse
from .held_values import HeldValues, reachable
from .samples import Sample

_ATTRIBUTE = "_tilewright_graph"


class CannotFuse(Exception):  # noqa: N818  # a reason, which the report tells
    """Raised if no graph can replace a model's modules."""


class FusedModel:
    """The graph of a model for one sample."""

    def __init__(self, model: Any, sample: Sample) -> None:
        from torch._functorch.aot_autograd import aot_export_joint_simple  # PyTorch takes a second to import it

        whole = list(model.modules())
        parts = whole[1:]
        hooks = [hooks for part in parts for hooks in (part._forward_hooks, part._forward_pre_hooks)]
        if not parts or any(hooks) or any(part.training for part in whole):
            raise CannotFuse("it is a layer, is in training mode, or its layers have hooks")
        if autocasts():
            raise CannotFuse("it runs under autocast")
        program = _exported(model, sample)
        self._state = _state_of(model, program)
        """The graph's inputs before the user's: constants, or pairs of a dictionary of the model and a name in it."""
        flat, self._takes = pytree.tree_flatten((sample.positional, sample.named))
        self._like = [_facts(a) for a in flat]
        inputs = [*[owner[name] for owner, name in self._state], *flat]
        try:
            graph = aot_export_joint_simple(program.graph_module, inputs, trace_joint=False, decompositions={})
        except Exception as error:
            raise CannotFuse(f"its program has no functional graph: {_first_line(error)}") from error
        places = [node for node in graph.graph.nodes if node.op == "placeholder"]
        fixed = set(places[: len(self._state)])
        self.graph: FusedGraph = fuse(graph, fixed.__contains__)
        if not self.graph.changed:
            whys = [row.why for row in self.graph.rows]
            raise CannotFuse(f"no fused convolution is expected to be faster: {whys[0]}" if whys else "no convolution")
        self._folded = None if self.graph.prologue is None else FoldedParameters(self.graph.prologue)
        self._returns = program.call_spec.out_spec
        self._own = _own_attributes(model)
        self._held = _held_values(whole)
        self._absent = [absent for part in whole for absent in _absent(part)]
        self._tied = _ties(whole)
        self._tf32 = tf32_settings() if self.graph.uses_tf32 else NO_TF32

    @property
    def kinds(self) -> set[str]:
        """Return the types and precisions of the convolutions."""
        problems = [row.problem for row in self.graph.rows if row.problem is not None]
        return {kind for problem in problems for kind in (problem.dtype, problem.precision)}

    def fits(self, model: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> list[Any] | None:
        """Return the inputs of the graph if it computes a call, else None."""
        if torch.is_grad_enabled() or is_dynamo_compiling() or tracing() is not None or modes() or transforms():
            return None
        flat, takes = pytree.tree_flatten((positional, named))
        if takes != self._takes or autocasts() or [_facts(a) for a in flat] != self._like:
            return None
        if forbids_tf32(self._tf32) or not self._is_unchanged(model):
            return None
        state = [owner.get(name) for owner, name in self._state]
        return None if any([a is None for a in state]) else [*state, *flat]

    def _is_unchanged(self, model: Any) -> bool:
        """Whether the attributes, parts and hooks of all modules are unchanged."""
        try:
            if not self._held.are_unchanged() or _own_attributes(model) != self._own:
                return False
        except Exception:  # the comparison of a user's attributes may raise anything: two tensors have no truth value
            return False
        if _has_any_global_hook() or any([held.get(name) is not None for held, name in self._absent]):
            return False
        return all([held.get(name) is other.get(its) for (held, name), (other, its) in self._tied])

    def __call__(self, inputs: list[Any]) -> Any:
        """Return the model's result."""
        folded = [] if self._folded is None else self._folded.of(inputs)
        return pytree.tree_unflatten(self.graph.graph_module(*inputs, *folded), self._returns)


_PLAIN = frozenset(vars(torch.nn.Module()))
"""The attributes of all modules."""


def _own_attributes(model: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(model).items() if name != _ATTRIBUTE}


def _held_values(modules: list[Any]) -> HeldValues:
    """Return the hooks, parts and attributes of a model's modules, and all values reachable from the attributes."""
    parts = modules[1:]
    held = [hooks for part in parts for hooks in (part._forward_hooks, part._forward_pre_hooks)]
    held += [*map(vars, parts), *[part._modules for part in modules]]
    own = [value for part in modules for name, value in vars(part).items() if name not in _PLAIN]
    try:
        return HeldValues([*held, *reachable(own, modules)])
    except Exception as error:  # the values of a user's attributes may raise anything
        raise CannotFuse(f"its attributes cannot be compared: {_first_line(error)}") from error


def _absent(module: Any) -> list[tuple[dict[str, Any], str]]:
    """Return the parameters and buffers of a module that are None, as pairs of a dictionary and a name."""
    return [(held, name) for held in (module._parameters, module._buffers) for name, a in held.items() if a is None]


def _ties(modules: list[Any]) -> list[tuple[Any, Any]]:
    """Return each further name of a shared tensor, with its first name, the only one that the graph reads."""
    first: dict[int, Any] = {}
    ties = []
    for module in modules:
        for held in (module._parameters, module._buffers):
            for name, a in held.items():
                if a is not None and id(a) in first:
                    ties.append(((held, name), first[id(a)]))
                first.setdefault(id(a), (held, name))
    return ties


def _facts(a: Any) -> Any:
    """Return the properties of an input on which the graph depends."""
    return (a.shape, a.dtype, a.device, a.stride()) if isinstance(a, torch.Tensor) else (type(a), a)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]


@cache
def _class_with_graph(kind: Any) -> Any:
    """Return a subclass of a model's class that runs the model's graph."""

    def forward(self: Any, *positional: Any, **named: Any) -> Any:
        graph = vars(self).get(_ATTRIBUTE)
        inputs = None if graph is None else graph.fits(self, positional, named)
        return kind.forward(self, *positional, **named) if inputs is None else graph(inputs)

    def reduced(self: Any, protocol: Any) -> tuple[Any, ...]:
        """Copies run their own modules."""
        state = self.__getstate__()
        if isinstance(state, dict):
            state = {name: value for name, value in state.items() if name != _ATTRIBUTE}
        return kind.__new__, (kind,), state

    forward.__signature__ = inspect.signature(kind.forward)  # type: ignore[attr-defined]
    methods = {"forward": forward, "__reduce_ex__": reduced, "__module__": kind.__module__}
    return type(kind.__name__, (kind,), methods)


@contextmanager
def _discard_output() -> Iterator[None]:
    """Drop the graphs and warnings that `torch.export` prints before it fails: the report has the reason."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stderr(StringIO()):
            yield
    finally:
        logging.disable(before)


def _exported(model: Any, sample: Sample) -> Any:
    """Export the program of a model for a sample; raise CannotFuse if it has side effects or cannot be exported."""
    from torch.export.graph_signature import OutputKind

    try:
        with _discard_output():
            program = torch.export.export(model, sample.positional, sample.named, strict=False)
    except Exception as error:
        raise CannotFuse(f"torch.export does not trace it: {_first_line(error)}") from error
    if any(spec.kind is not OutputKind.USER_OUTPUT for spec in program.graph_signature.output_specs):
        raise CannotFuse("it writes to its buffers or inputs")
    return program


def _state_of(model: Any, program: Any) -> list[tuple[dict[str, Any], str]]:
    """Return the graph's inputs before the user's: constants, or pairs of a dictionary of the model and a name in
    it."""
    from torch.export.graph_signature import InputKind

    found: list[tuple[dict[str, Any], str]] = []
    for spec in program.graph_signature.input_specs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            path, _, name = spec.target.rpartition(".")
            owner = model.get_submodule(path)
            found.append((owner._parameters if spec.kind is InputKind.PARAMETER else owner._buffers, name))
        elif spec.kind is InputKind.CONSTANT_TENSOR:
            found.append(({"": program.constants[spec.target]}, ""))
        elif spec.kind is not InputKind.USER_INPUT:
            raise CannotFuse(f"its program has an input of the kind {spec.kind.name}")
    return found


def install(model: Any, graph: FusedModel) -> None:
    """Make a model run a graph."""
    vars(model)[_ATTRIBUTE] = graph
    kind: Any = type(model)
    model.__class__ = _class_with_graph(kind)


def remove(model: Any) -> None:
    """Make a model run its own modules again."""
    if vars(model).pop(_ATTRIBUTE, None) is not None:
        model.__class__ = type(model).__bases__[0]


@contextmanager
def without(model: Any) -> Iterator[None]:
    """Make a model run its own modules inside the context."""
    graph = vars(model).pop(_ATTRIBUTE, None)
    try:
        yield
    finally:
        if graph is not None:
            vars(model)[_ATTRIBUTE] = graph
