"""Compile finished functions to a module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..codegen.exported.exporter import Exporter
from ..codegen.program import compile_program
from ..core.target import Target
from .device import Device, cuda
from .driver import target_for
from .module import Module

if TYPE_CHECKING:
    from ..loops.nodes import Function


def compile_function(function: Function, target: Target | str) -> Module:
    """A module of one finished function; no device is needed before the first call."""
    return compile_functions((function,), target)


def compile_functions(functions: tuple[Function, ...], target: Target | str) -> Module:
    """A module of several finished functions; the first one is the entry."""
    program = compile_program(functions, resolve_target(Target.parse(target)))
    return Module(program, Exporter(functions, program))


def target_on(on: Device) -> Target:
    """Return the target that compiles for a device."""
    return resolve_target(Target({"cpu": "llvm"}.get(on.kind, on.kind)), on)


def resolve_target(target: Target, on: Device | None = None) -> Target:
    """`target` for a device, by default the first one: a CUDA target without an architecture gets the device's."""
    gpu = on or cuda()
    return target_for(target, lambda: gpu.attributes) if target.kind == "cuda" and gpu.exist else target
