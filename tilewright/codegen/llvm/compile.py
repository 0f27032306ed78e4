"""LLVM IR to machine code, through llvmlite (which is imported when something is first compiled)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

from ...core.architectures import processor_hardware
from ...core.errors import InternalError, UserError
from ...core.forking import not_while_forking
from ...core.system import family_of
from ...core.target import Target
from .binding import binding
from .probe import complaint


@dataclass(frozen=True)
class Processor:
    """The processor that code is compiled for."""

    cpu: str
    features: str
    vector_bits: int
    """The widest vectors worth using; 0 leaves it to LLVM."""
    has_fma: bool
    """Whether one instruction multiplies and adds."""
    has_scale: bool = False
    """Whether one instruction multiplies by a power of two, and LLVM uses it."""
    has_vnni: bool = False
    """Whether one instruction adds dot products of four bytes to 16 sums."""
    level: int = 3
    """LLVM's optimisation level, 0 to 3."""
    triple: str = ""
    """The triple of another system, for code that cannot run here; "" for this machine."""


@dataclass(frozen=True)
class MachineCode:
    """An object file, and the seconds that it took."""

    binary: bytes
    seconds: float


@cache
@not_while_forking
def host_processor(cpu: str | None = None, features: str | None = None) -> Processor:
    """This machine's processor, or the processor with the name `cpu` and these `features` (LLVM's names)."""
    llvm = binding()
    if cpu is None:
        known = dict(llvm.get_host_cpu_features())
        if family_of("") == "aarch64":  # vectors have 128 bits
            known = {name: on and not name.startswith(_SCALABLE) for name, on in known.items()}
        flags = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(known.items()))
        extra = f",{features}" if features else ""
        has = {name: known.get(name, False) and is_left(name, extra) for name in ("fma", "avx512vl", "avx512vnni")}
        wide = 512 if has["avx512vl"] else 0
        has_fma = has["fma"] or family_of("") == "aarch64"
        has_scale = bool(wide) and llvm.llvm_version_info >= (22,)
        has_vnni = has["avx512vnni"]
        return Processor(llvm.get_host_cpu_name(), flags + extra, wide, has_fma, has_scale, has_vnni)
    return named_processor(cpu, features or "")


def named_processor(cpu: str, features: str, triple: str = "") -> Processor:
    """The processor that LLVM calls by a name, with features; with a triple, on another system."""
    has_fma = "+fma" in features or family_of(triple) == "aarch64"
    has_vnni = is_left("avx512vnni", features) and any(
        shape.family == "vpdpbusd" for shape in processor_hardware(cpu, features, triple).matrix_shapes
    )
    return Processor(cpu, features, 0, has_fma, has_vnni=has_vnni, triple=triple)


_SCALABLE = ("sve", "sme")
"""The first letters of features with vectors of any length."""
_BUILT_ON = ("sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "avx", "avx2", "fma", "f16c", "avx512f")
"""Features of x86. Later features need earlier ones: LLVM drops features if a requirement is removed."""


def is_left(name: str, features: str) -> bool:
    """Whether an x86 processor keeps a feature after changes such as "+avx,-avx2"."""
    needed = _BUILT_ON[: _BUILT_ON.index("avx2")] if name == "fma" else _BUILT_ON
    return not any(f"-{each}" in features.split(",") for each in (name, *needed))


def machine_of(target: Target) -> Processor:
    """The processor that a target names: `-mcpu=...`, or this machine's; `-mattr=...` adds features.

    `-opt-level=0` to 3 (as without it) is how hard LLVM tries.
    """
    labels = dict(target.labels)
    level = labels.get("opt-level", "3")
    if level not in ("0", "1", "2", "3"):
        raise UserError(
            f"target {str(target)!r} has -opt-level={level}, which is not 0, 1, 2 or 3",
            primitive="Target",
            fix="leave -opt-level out, or give a number from 0 to 3",
        )
    triple = _foreign(target, labels.get("mtriple", ""))
    if "mcpu" in labels or "mattr" in labels:
        features = labels.get("mattr", "")
        unsigned = next((name for name in features.split(",") if name and name[0] not in "+-"), None)
        refused = (
            f"{unsigned!r} has no sign" if unsigned else complaint(labels.get("mcpu", "generic"), features, triple)
        )
        if refused:
            raise UserError(
                f"target {str(target)!r}: {refused}",
                primitive="Target",
                fix="name them as LLVM does (-mcpu=skylake -mattr=+avx2,-fma), or leave them out: then it is this "
                f"processor, {host_processor().cpu}",
            )
    if triple:
        made = named_processor(labels.get("mcpu", "generic"), labels.get("mattr", ""), triple)
    else:
        made = host_processor(labels.get("mcpu"), labels.get("mattr"))
    return replace(made, level=int(level))


_KNOWN = ("x86_64", "aarch64")
"""The families of processors that code is made for."""


def _foreign(target: Target, triple: str) -> str:
    """Return a triple of another family of processors, "" for this machine's; raise UserError for an unknown one."""
    if not triple or family_of(triple) == family_of(""):
        return ""
    if family_of(triple) in _KNOWN:
        return triple
    raise UserError(
        f"target {str(target)!r}: -mtriple={triple} is not of a supported processor family",
        primitive="Target",
        fix=f"give one of {', '.join(_KNOWN)}, or leave it out: then it is this machine, "
        f"{binding().get_process_triple()}",
    )


@not_while_forking
@lru_cache(maxsize=128)
def compile_ir(source: str, machine: Processor) -> MachineCode:
    """The object file of a module; the same request in one process compiles once."""
    began = time.perf_counter()
    module, target = _optimised(source, machine)
    return MachineCode(target.emit_object(module), time.perf_counter() - began)


@not_while_forking
def with_imports(source: str, machine: Processor, imports: Sequence[str]) -> str:
    """A module linked with others, given as LLVM IR; of functions that several define, the last definition counts.

    Raises UserError for text that LLVM does not take.
    """
    llvm = binding()
    module = llvm.parse_assembly(source)
    target = _target_machine(machine)
    for text in reversed(imports):  # the linker keeps the first of several weak definitions
        try:
            other = llvm.parse_assembly(text)
            for function in other.functions:
                if not function.is_declaration and function.linkage.name == "external":
                    function.linkage = "weak_any"
            other.triple, other.data_layout = target.triple, str(target.target_data)
            module.triple, module.data_layout = other.triple, other.data_layout
            module.link_in(other)
        except RuntimeError as error:
            raise UserError(
                f"LLVM does not take the code of a pragma import_llvm: {' '.join(str(error).split())}",
                primitive="pragma",
                fix=f"give LLVM IR that LLVM {'.'.join(map(str, llvm.llvm_version_info))} reads, or C by import_c",
            ) from error
    return str(module)


@not_while_forking
def bitcode(source: str) -> bytes:
    """A module as LLVM bitcode."""
    made: bytes = binding().parse_assembly(source).as_bitcode()
    return made


@not_while_forking
def assembly(source: str, machine: Processor) -> str:
    """The machine code of a module, as text."""
    module, target = _optimised(source, machine)
    target.set_asm_verbosity(True)
    text: str = target.emit_assembly(module)
    return text


@not_while_forking
def optimised_ir(source: str, machine: Processor) -> str:
    """Return the text of a module after LLVM's passes."""
    return str(_optimised(source, machine)[0])


MOST_BLOCKS = 4096
"""Largest number of basic blocks of a function that LLVM optimises: the time of some passes grows with its square."""

MOST_INSTRUCTIONS = 4096
"""Most instructions of a basic block that LLVM vectorizes: the time of vectorizing grows with their square."""

MOST_IN_A_BLOCK = 8_192
"""Most instructions of a basic block that LLVM optimises: the time of instruction selection grows with their square."""


def _optimised(source: str, machine: Processor) -> tuple[Any, Any]:
    llvm = binding()
    functions = [text.split(":\n") for text in source.split("\ndefine ")]  # each block begins with its label
    longest = max(block.count("\n") for blocks in functions for block in blocks)
    if max(map(len, functions)) > MOST_BLOCKS or longest > MOST_IN_A_BLOCK:
        machine = replace(machine, level=0)
    try:
        module = llvm.parse_assembly(source)
    except RuntimeError as error:
        raise InternalError(f"LLVM refuses generated code: {error}\n\n{source}") from error
    target = _target_machine(machine)
    module.triple = target.triple
    module.data_layout = str(target.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=machine.level)
    options.loop_vectorization = options.slp_vectorization = machine.level > 1 and longest <= MOST_INSTRUCTIONS
    passes = llvm.create_pass_builder(target, options)
    manager = passes.getModulePassManager()
    manager.run(module, passes)
    _dispose(manager)
    return module, target


def _dispose(manager: Any) -> None:
    """Free a pass manager and the memory of its passes, 70 KiB for a small module.

    A manager of llvmlite inherits the `_dispose` that does nothing before its own one, so nothing else frees it.
    """
    llvm = binding()
    if type(manager)._dispose is llvm.ffi.ObjectRef._dispose:
        llvm.newpassmanagers.NewPassManager._dispose(manager)
    manager.close()


def _target_machine(machine: Processor) -> Any:
    llvm = binding()
    if machine.triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        triple = llvm.Target.from_triple(machine.triple)
    else:
        triple = llvm.Target.from_default_triple()
    made = triple.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=machine.level, reloc="pic", codemodel="small"
    )
    if not made:
        raise UserError(f"LLVM does not know the processor {machine.cpu!r}", primitive="Target", fix="leave -mcpu= out")
    return made
