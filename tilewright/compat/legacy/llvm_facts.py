"""`target.codegen` of the legacy API: facts about the LLVM that compiles for the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...codegen.llvm.binding import binding
from ...core.refusals import old_name as _old_name
from ...driver import build as build_module

__all__ = ["build_module", "llvm_get_system_cpu", "llvm_get_system_triple", "llvm_version_major"]


def llvm_version_major(allow_none: bool = False) -> int:
    """Return the major version of LLVM; `allow_none` has no effect, as LLVM is always there."""
    return int(binding().llvm_version_info[0])


def llvm_get_system_triple() -> str:
    """Return the triple of this machine: "x86_64-unknown-linux-gnu"."""
    return str(binding().get_process_triple())


def llvm_get_system_cpu() -> str:
    """Return LLVM's name of this machine's processor."""
    return str(binding().get_host_cpu_name())


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
