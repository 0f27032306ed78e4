"""Compile finished functions to a program: kernels as source, machine code for CUDA, and host code."""

from __future__ import annotations

from dataclasses import replace

from ..core.errors import InternalError, UserError
from ..core.target import Target
from ..loops.nodes import Function
from .abi import CompiledProgram, KernelAbi, unknown_functions
from .c.program import compile_c_program
from .c_compiler import CSource, text_of
from .c_family import write_source
from .cuda import Cuda
from .dialect import Dialect
from .host import HOST_WORDS, write_entry
from .kernel import Kernel, called_in, kernels_of
from .launch_limits import within_registers
from .limits import check
from .llvm.module import compile_llvm
from .names import Names
from .nvrtc import CompiledSource, compile_cuda
from .opencl import OpenCl
from .spills import without_needless_spills
from .warpgroups import architecture, check_overlap

_DIALECTS: dict[str, Dialect] = {"cuda": Cuda(), "opencl": OpenCl()}


def compile_program(functions: tuple[Function, ...], target: Target) -> CompiledProgram:
    """Generate and compile functions for `target`. Needs no device: OpenCL source is built on loading."""
    if target.kind == "llvm":
        return compile_llvm(functions, target)
    if target.kind == "c":
        return compile_c_program(functions, target)
    program, kernels = generate(functions, target)
    if target.kind != "cuda" or not program.kernels:
        return program
    arch = architecture(kernels, target)
    code = _compiled_cuda(program, arch)
    source, code = without_needless_spills(
        program.source, code, target.hardware, lambda changed: compile_cuda(changed, arch)
    )
    check_overlap(code.log)
    program = replace(program, source=source)
    dynamic = {kernel.name: kernel.dynamic_shared_bytes for kernel in program.kernels}
    resources = {
        name: replace(found, shared_bytes=found.shared_bytes + dynamic.get(name, 0))
        for name, found in code.resources.items()
    }
    entries = tuple(within_registers(entry, resources, target.hardware) for entry in program.entries)
    program = replace(program, entries=entries)
    return replace(program, binary=code.cubin, resources=resources, log=code.log, compile_seconds=code.seconds)


def _compiled_cuda(program: CompiledProgram, arch: str) -> CompiledSource:
    try:
        return compile_cuda(program.source, arch)
    except InternalError as error:
        raise unknown_functions(program, error) or error from error


def generate(functions: tuple[Function, ...], target: Target) -> tuple[CompiledProgram, tuple[Kernel, ...]]:
    """The program as source only, and its kernels; raises UserError if one exceeds the target's limits."""
    dialect = _DIALECTS.get(target.kind)
    if dialect is None:
        raise UserError(f"no code generation for {target.kind} yet", fix=f"use one of {', '.join(_DIALECTS)}")
    names = Names(dialect.reserved | HOST_WORDS, dialect.owned)
    found = [tuple(check(kernel, target) for kernel in kernels_of(f, names)) for f in functions]
    kernels = tuple(kernel for own in found for kernel in own)
    source, aligned = write_source(dialect, kernels)
    entries = tuple(write_entry(f, own, aligned, target) for f, own in zip(functions, found, strict=True))
    abi = tuple(KernelAbi(k.name, k.kinds, k.dynamic_shared_bytes) for k in kernels)
    imported = _imported(functions, target)
    called = tuple(sorted(called_in(functions))) or (("imported code",) if imported else ())
    return CompiledProgram(str(target), entries, abi, imported + source, called=called), kernels


def _imported(functions: tuple[Function, ...], target: Target) -> str:
    """The source of functions that pragmas import, in the language of the target."""
    texts = []
    for kind, text in dict.fromkeys(code for f in functions for code in f.imports):
        if kind != "import_c" or isinstance(text, CSource):
            raise UserError(
                f"the pragma import_llvm, in a program for {target.kind}",
                primitive="pragma",
                fix=f"give the functions as source of {target.kind}, by the pragma import_c, or build for llvm",
            )
        texts.append(text_of(text, (".c", ".cc", ".cpp", ".h", ".cu", ".cuh", ".cl")).strip() + "\n\n")
    return "".join(texts)
