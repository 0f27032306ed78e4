"""A module for the CPU: its functions as LLVM IR, and the runtime's data for calling them.

A finished function holds launches without thread indices (see `passes/launch_on_host.py`). Each becomes an LLVM
function with one parameter per buffer or number, and an entry for the runtime. The entry reads the parameters from
memory, eight bytes each.
"""

from __future__ import annotations

from ...core.errors import InternalError, UserError
from ...core.target import Target
from ...loops.nodes import Buffer, Function
from ..abi import CompiledProgram, KernelAbi
from ..c_compiler import CSource, compile_c, llvm_ir, merged
from ..host import HOST_WORDS, write_entry
from ..kernel import Kernel, Param, called_in, kernels_of
from ..names import Names
from .binding import PACKED
from .compile import Processor, compile_ir, machine_of, with_imports
from .convert import from_single
from .mathlib import MathLibrary
from .statements import BodyWriter, CodeOptions
from .types import LLVMValue, memory_type
from .writer import FunctionWriter, ModuleWriter


def compile_llvm(functions: tuple[Function, ...], target: Target) -> CompiledProgram:
    """Generate and compile functions for the CPU of this machine, or for the one that the target names."""
    machine = machine_of(target)
    names = Names(HOST_WORDS | called_in(functions))
    found = [kernels_of(f, names) for f in functions]
    kernels = tuple(kernel for own in found for kernel in own)
    source = write_module(kernels, machine, _options(target))
    imported = dict.fromkeys(code for f in functions for code in f.imports)
    if inline := [llvm_ir(text) for kind, text in imported if kind == "import_llvm" and not isinstance(text, CSource)]:
        source = with_imports(source, machine, inline)
    objects = merged([compile_c(text) for kind, text in imported if kind == "import_c" or isinstance(text, CSource)])
    entries = tuple(write_entry(f, own, frozenset(), target) for f, own in zip(functions, found, strict=True))
    abi = tuple(KernelAbi(k.name, k.kinds) for k in kernels)
    code = compile_ir(source, machine)
    seconds = code.seconds
    return CompiledProgram(
        str(target), entries, abi, source, binary=code.binary, compile_seconds=seconds, objects=objects,
        called=tuple(sorted(called_in(functions))),
    )  # fmt: skip


def _options(target: Target) -> CodeOptions:
    chosen = dict(target.labels).get("fp-contract", "on")
    if chosen not in ("on", "off"):
        raise UserError(f"target {str(target)!r}: -fp-contract={chosen}", primitive="Target", fix='give "on" or "off"')
    return CodeOptions(contract=chosen == "on")


def write_module(kernels: tuple[Kernel, ...], machine: Processor, options: CodeOptions) -> str:
    """The IR of some kernels, by name: any order of functions gives the same module."""
    module = ModuleWriter(machine)
    library = MathLibrary(module)
    for kernel in sorted(kernels, key=lambda kernel: kernel.name):
        if kernel.launch.threads:
            raise InternalError(f"kernel {kernel.name} for llvm has thread indices")
        module.symbol(kernel.name)
        body = BodyWriter(module, library, options, kernel.name)
        body.take(kernel.params)
        body.write(kernel.launch.body)
        module.functions.append(_packed(module, kernel))
    return module.text([f"for {machine.cpu}"])


def _packed(module: ModuleWriter, kernel: Kernel) -> str:
    """The function that the runtime calls with the address of its arguments."""
    out = FunctionWriter(module, ("arguments",))
    args = [_unpack(out, slot, p) for slot, p in enumerate(kernel.params)]
    status = out.op("i32", f"call i32 @{kernel.name}({', '.join(map(str, args))})", "status")
    out.give(str(status))
    return out.text(f"define i32 @{kernel.name}{PACKED}(ptr %arguments) #0")


def _unpack(out: FunctionWriter, slot: int, p: Param) -> LLVMValue:
    at = (
        out.op("ptr", f"getelementptr i64, ptr %arguments, i64 {slot}", "slot")
        if slot
        else LLVMValue("ptr", "%arguments")
    )
    if isinstance(p, Buffer):
        return out.op("ptr", f"load ptr, {at}", p.name)
    if p.dtype.is_float and p.dtype.bits == 16:  # comes as a float32, exactly
        return from_single(out, out.op("float", f"load float, {at}", p.name), p.dtype)
    value = out.op(memory_type(p.dtype), f"load {memory_type(p.dtype)}, {at}", p.name)
    return out.convert("trunc", value, "i1") if p.dtype.is_bool else value
