"""Readable forms of a module for the CPU: its LLVM IR as generated, after LLVM's passes, and as assembly."""

from __future__ import annotations

from ...core.errors import UserError
from ...core.target import Target
from ..abi import CompiledProgram
from .compile import assembly, machine_of, optimised_ir

FORMS = ("ll", "opt", "asm", "host")


def show(program: CompiledProgram, form: str) -> str:
    """The program as "ll" (or ""), "opt", "asm", or the Python that checks the arguments of a call, "host"."""
    if not isinstance(form, str):
        raise _unknown(form)
    if form in ("", "ll", "llvm"):
        return program.source
    if form == "host":
        return "\n\n".join(entry.source for entry in program.entries)
    machine = machine_of(Target(program.target))
    if form == "opt":
        return optimised_ir(program.source, machine)
    if form in ("asm", "s"):
        return assembly(program.source, machine)
    raise _unknown(form)


def _unknown(form: object) -> UserError:
    return UserError(f"a module for llvm has no form {form!r}", fix=f"ask for one of {', '.join(FORMS)}")
