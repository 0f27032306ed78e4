"""Programs in C: kernels as functions, an entry point for C per function, and the entry points that the runtime
calls."""

from __future__ import annotations

import time
from typing import Any

from ...core.errors import UserError
from ...core.target import Target
from ...core.text import remark
from ...expr import nodes as n
from ...expr.effects import EXTERN, PURE_EXTERN
from ...expr.traverse import post_order
from ...loops.calls import called_function
from ...loops.nodes import AddressOf, Allocate, Barrier, Buffer, For, Function, LoopKind, Stmt
from ..abi import CompiledProgram, KernelAbi
from ..arrays import note_of
from ..c_compiler import CSource, c_compiler, compile_c, merged
from ..c_family import KernelWriter, with_named_range
from ..exported.device_calls import ARITHMETIC
from ..exported.host_c import HostEntry
from ..exported.linker import compiled
from ..exported.signature import signatures
from ..host import HOST_WORDS, write_entry
from ..kernel import Kernel, called_in, kernels_of, product
from ..llvm.binding import PACKED
from ..names import Names
from .dialect import C

_C = C()
_STACK_BYTES = 16 * 1024
"""Largest buffer (bytes) on the stack: larger ones, and buffers of unknown size, are on the heap."""


def compile_c_program(functions: tuple[Function, ...], target: Target) -> CompiledProgram:
    """Generate C, and compile it if there is a C compiler."""
    names = Names(_C.reserved | HOST_WORDS | called_in(functions), _C.owned)
    found = [kernels_of(f, names) for f in functions]
    kernels = tuple(kernel for own in found for kernel in own)
    entries = tuple(write_entry(f, own, frozenset(), target) for f, own in zip(functions, found, strict=True))
    source = _source(functions, found, kernels, entries, target)
    abi = tuple(KernelAbi(k.name, k.kinds) for k in kernels)
    began = time.perf_counter()
    imported = dict.fromkeys(code for f in functions for code in f.imports)
    if any(kind == "import_llvm" and not isinstance(text, CSource) for kind, text in imported):
        raise UserError("a C program imports LLVM IR", primitive="pragma", fix='use import_c, or build for "llvm"')
    has_compiler = c_compiler() is not None
    objects = merged([compile_c(text) for _, text in imported]) if has_compiler else ()
    binary = compiled(source, "build") if has_compiler else None
    seconds = time.perf_counter() - began
    return CompiledProgram(str(target), entries, abi, source, binary=binary, compile_seconds=seconds, objects=objects)


def _source(
    functions: tuple[Function, ...],
    found: list[tuple[Kernel, ...]],
    kernels: tuple[Kernel, ...],
    entries: Any,
    target: Target,
) -> str:
    helpers: dict[str, str] = {}
    texts = []
    for kernel in kernels:
        writer = _Writer(kernel)
        texts.append(writer.write())
        helpers.update(writer.expr.helpers)
    parts = [f"/* Made by Tilewright for {remark(str(target))}. */", "\n".join(_C.preamble(frozenset()))]
    parts += [*_prototypes(functions), *helpers.values(), *texts, *map(_packed, kernels)]
    made = [_entry(signature, own) for signature, own in zip(signatures(functions, found, entries), found, strict=True)]
    parts += [ARITHMETIC] if any("tilewright_" in text for text in made) else []
    parts += made
    return "\n\n".join(part for part in parts if part) + "\n"


def _entry(signature: Any, kernels: tuple[Kernel, ...]) -> str:
    try:
        return HostEntry(signature, kernels).text()
    except UserError as error:  # a function that calls Python has no entry point for C
        return f"/* {remark(error.message)} */"


def _prototypes(functions: tuple[Function, ...]) -> list[str]:
    """Declarations of the functions that programs call and do not define."""
    found: dict[str, str] = {}
    for function in functions:
        for e in post_order(function.body):
            if isinstance(e, n.Call) and e.name in (EXTERN, PURE_EXTERN):
                given = [_passed(arg) for arg in e.args[1:]] or ["void"]
                name = called_function(e)
                found.setdefault(name, f"extern {_C.scalar_type(e.dtype)} {name}({', '.join(given)});")
    return ["\n".join(found.values())]


def _passed(arg: n.Expr) -> str:
    if isinstance(arg, n.StringImm):
        return "const char *"
    if isinstance(arg, AddressOf):
        return f"{_C.storage_type(arg.buffer.dtype)} *"
    return _C.scalar_type(arg.dtype)


def _packed(kernel: Kernel) -> str:
    """The function that the runtime calls with the address of its arguments, eight bytes each."""
    name, values = f"{kernel.name}_packed", []
    for slot, p in enumerate(kernel.params):
        if isinstance(p, Buffer):
            values.append(f"*({_C.storage_type(p.dtype)} *const *)(arguments + {slot})")
        else:
            values.append(f"*(const {_C.scalar_type(p.dtype)} *)(arguments + {slot})")
    head = f"int32_t {name}(const uint64_t *arguments)"
    label = f'{head} __asm__("{kernel.name}{PACKED}");'
    return f"{label}\n{head} {{\n  (void)arguments;\n  return {kernel.name}({', '.join(values)});\n}}"


class _Writer(KernelWriter):
    """Writes a kernel as a C function, which returns 1 if memory runs out."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(_C, kernel)

    def write(self) -> str:
        self._line("int32_t status = 0;")
        text = super().write()
        return f"{text[:-1]}  return status;\n}}"

    def _stmt(self, s: Stmt) -> None:
        if isinstance(s, For):
            self._for(s)
        elif isinstance(s, Allocate):
            self._allocate(s)
        elif not isinstance(s, Barrier):  # one thread runs the block: there is nothing to wait for
            super()._stmt(s)

    def _shared_arrays(self) -> list[str]:
        return []  # arrays are declared at their places: a thread of the CPU runs a whole block

    def _for(self, s: For) -> None:
        if (named := with_named_range(s)) is not s:
            self._stmt(named)
            return
        if s.kind is LoopKind.PARALLEL:
            self._line("#pragma omp parallel for")
        elif s.kind is LoopKind.UNROLLED:
            self._line("#pragma GCC unroll 64")
        serial = For(s.var, s.min, s.extent, LoopKind.SERIAL, None, (), s.body)
        super()._for(serial)

    def _allocate(self, s: Allocate) -> None:
        buffer, size = s.buffer, product(s.buffer.shape)
        kind, name = _C.storage_type(buffer.dtype), self.names(buffer)
        with self._block(""):
            if size is not None and size * buffer.dtype.bytes <= _STACK_BYTES:
                self._line(f"_Alignas(64) {kind} {name}[{max(1, size)}];{note_of(buffer)}")
                self._stmt(s.body)
                return
            elements = " * ".join([f"(size_t)({self.expr(extent)})" for extent in buffer.shape] or ["1"])
            self._line(f"{kind} *{name} = malloc({elements} * sizeof *{name} + 1);{note_of(buffer)}")
            with self._block(f"if ({name})"):
                self._stmt(s.body)
            self._line(f"else status = {1};")
            self._line(f"free({name});")
