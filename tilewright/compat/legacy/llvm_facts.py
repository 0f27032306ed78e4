"""`target.codegen` of the legacy API: facts about the LLVM that compiles for the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...codegen.llvm.binding import binding
from ...core.errors import UserError
from ...core.refusals import old_name as _old_name
from ...driver import build as build_module

__all__ = [
    "build_module",
    "llvm_get_intrinsic_name",
    "llvm_get_system_cpu",
    "llvm_get_system_triple",
    "llvm_lookup_intrinsic_id",
    "llvm_version_major",
]
_INTRINSICS: list[str] = [""]
"""Names of intrinsics that were looked up; their places are their numbers."""


def llvm_version_major(allow_none: bool = False) -> int:
    """Return the major version of LLVM; `allow_none` has no effect, as LLVM is always there."""
    return int(binding().llvm_version_info[0])


def llvm_get_system_triple() -> str:
    """Return the triple of this machine: "x86_64-unknown-linux-gnu"."""
    return str(binding().get_process_triple())


def llvm_get_system_cpu() -> str:
    """Return LLVM's name of this machine's processor."""
    return str(binding().get_host_cpu_name())


def llvm_lookup_intrinsic_id(name: str) -> int:
    """Return a number for an intrinsic, for this process only: calls name intrinsics by their names."""
    if not isinstance(name, str) or not name.startswith("llvm."):
        return 0
    if name not in _INTRINSICS:
        _INTRINSICS.append(name)
    return _INTRINSICS.index(name)


def llvm_get_intrinsic_name(intrin_id: int) -> str:
    """Return the name of the intrinsic that `llvm_lookup_intrinsic_id` gave this number."""
    if isinstance(intrin_id, int) and 0 < intrin_id < len(_INTRINSICS):
        return _INTRINSICS[intrin_id]
    raise UserError(
        f"{intrin_id!r} is the number of no intrinsic",
        primitive="llvm_get_intrinsic_name",
        fix="give a number of llvm_lookup_intrinsic_id, of this process",
    )


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
