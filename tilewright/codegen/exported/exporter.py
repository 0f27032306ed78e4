"""Whole programs in forms for other languages than Python: header, object file, shared library, bitcode."""

from __future__ import annotations

from dataclasses import replace

from ...core.errors import UserError
from ...core.target import Target
from ...loops.nodes import Function
from ..abi import CompiledProgram
from ..kernel import Kernel, kernels_of
from ..llvm.binding import PARALLEL_FOR
from ..llvm.compile import bitcode, compile_ir, machine_of, with_imports
from ..names import Names
from .header import header
from .host_ir import FORK_JOIN, embedded, entry_points
from .launcher import launcher, module_bytes
from .linker import compiled, linked
from .signature import CSignature, signatures


class Exporter:
    """Export formats of a program besides its archive, available while its functions are in memory."""

    def __init__(self, functions: tuple[Function, ...], program: CompiledProgram) -> None:
        self._functions = functions
        self._program = program
        self._target = Target(program.target)

    @property
    def _kernels(self) -> tuple[tuple[Kernel, ...], ...]:
        """The kernels of each function, under the names that they were compiled by."""
        abis = iter(self._program.kernels)
        return tuple(
            tuple([replace(kernel, name=next(abis).name) for kernel in kernels_of(f, Names())]) for f in self._functions
        )

    @property
    def _signatures(self) -> tuple[CSignature, ...]:
        return signatures(self._functions, self._kernels, self._program.entries)

    def header(self) -> str:
        """The C header of the entry points."""
        return header(self._signatures, str(self._target.kind), str(self._target))

    def object_file(self, archive: bytes) -> bytes:
        """One ELF object: the program, its entry points, and the archive for `load_module`."""
        if self._target.kind == "c":
            made = compiled(self._program.source + "\n" + module_bytes(archive) + "\n", "save")
            return linked([made, *self._program.objects], "save", relocatable=True) if self._program.objects else made
        if self._target.kind != "llvm":
            return compiled(self._launcher(archive), "save")
        machine = machine_of(self._target)
        made = compile_ir(self._whole(archive), machine).binary
        others = self._program.objects
        return linked([made, *others], "save", relocatable=True, triple=machine.triple) if others else made

    def shared_library(self, archive: bytes) -> bytes:
        """A shared library of the program, linked by the system's compiler."""
        triple = machine_of(self._target).triple if self._target.kind == "llvm" else ""
        return linked([self.object_file(archive)], "export_library", triple=triple)

    def bitcode(self) -> bytes:
        """The program with its entry points as LLVM bitcode."""
        return bitcode(self._whole(None))

    def c_source(self) -> str:
        """The launcher of a program for a GPU, in C, its kernels included."""
        if self._target.kind == "c":
            return self._program.source
        if self._target.kind == "llvm":
            raise UserError("a module for llvm has no C source", primitive="save", fix='ask for "ll", "opt" or "asm"')
        return self._launcher(None)

    def _launcher(self, archive: bytes | None) -> str:
        return launcher(self._signatures, self._kernels, self._program, str(self._target.kind), archive)

    def _whole(self, archive: bytes | None) -> str:
        machine = machine_of(self._target)
        parts = [entry_points(self._signatures, self._kernels, machine)]
        parts += [FORK_JOIN] if PARALLEL_FOR in self._program.source else []
        parts += [] if archive is None else [embedded(archive)]
        return with_imports(self._program.source, machine, parts)
