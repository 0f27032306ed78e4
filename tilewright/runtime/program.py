"""From finished functions to a module."""

from __future__ import annotations

from ..codegen.program import compile_program
from ..core.target import Target
from ..loops.nodes import Function
from .device import resolve_target
from .module import Module


def compile_function(function: Function, target: Target | str) -> Module:
    """A module of one finished function; no device is needed before the first call."""
    return compile_functions((function,), target)


def compile_functions(functions: tuple[Function, ...], target: Target | str) -> Module:
    """A module of several finished functions; the first one is the entry."""
    return Module(compile_program(functions, resolve_target(Target.parse(target))))
