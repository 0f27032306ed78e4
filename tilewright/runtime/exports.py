"""Export of modules to files; the name of the file selects the format."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..codegen.exported.linker import written_whole
from ..codegen.llvm.module_text import show
from ..core.errors import UserError
from ..core.paths import file_path
from ..core.target import Target
from .saved import archive_of, llvm_ir_of

if TYPE_CHECKING:
    from ..codegen.abi import CompiledProgram

ARCHIVE = "tw"
_NAMES = {
    **dict.fromkeys((".so",), "so"),
    **dict.fromkeys((".o", ".obj"), "o"),
    **dict.fromkeys((".s", ".asm"), "s"),
    **{f".{fmt}": fmt for fmt in ("ll", "bc", "h", "c", "cu", "cubin", "cl", "tar", ARCHIVE)},
}
"""The formats by the endings of files."""
_FORMATS = {
    "llvm": (ARCHIVE, "so", "o", "tar", "h", "ll", "bc", "s"),
    "c": (ARCHIVE, "so", "o", "tar", "h", "c"),
    "cuda": (ARCHIVE, "so", "o", "tar", "h", "c", "cu", "cubin"),
    "opencl": (ARCHIVE, "so", "o", "tar", "h", "c", "cl"),
}
"""The formats of a module, by the kind of its target."""
_PROMISES = frozenset((".dylib", ".dll", ".a", ".lib", ".cc", ".cpp", ".ptx", ".fatbin", ".hsaco", ".spv", ".zip"))
"""Endings of formats that no module has: a file with such a name is refused."""


def write_module(
    program: CompiledProgram, exporter: Any, path: str | os.PathLike[str], fmt: Any, primitive: str
) -> None:
    """Write a program into one file, whole or not at all, in the format `fmt`, or in the format of its ending."""
    target = file_path(path, primitive, "kernel.tw")
    kind = str(Target(program.target).kind)
    chosen = _format(target, fmt, kind, primitive)
    written_whole(target, _content(program, exporter, chosen, kind, primitive), primitive)


def _format(path: Path, fmt: Any, kind: str, primitive: str) -> str:
    ending = path.suffix.lower()
    known = _FORMATS[kind]
    if not isinstance(fmt, str) or (fmt and fmt not in _NAMES.values()):
        raise UserError(f"there is no format {fmt!r}", primitive=primitive, fix=f"give one of {', '.join(known)}")
    said = _NAMES.get(ending)
    if fmt and said not in (None, fmt):
        raise UserError(
            f"{path.name} has another ending than fmt={fmt!r}", primitive=primitive, fix=f'call it "{path.stem}.{fmt}"'
        )
    chosen = fmt or said or ARCHIVE
    if chosen not in known or (ending in _PROMISES):
        raise UserError(
            f"a module for {kind} cannot be written as {ending if ending in _PROMISES else '.' + chosen}",
            primitive=primitive,
            fix=f"end the name in one of {', '.join('.' + each for each in known)}; .{ARCHIVE} is an archive for "
            "load_module",
        )
    return chosen


def _content(program: CompiledProgram, exporter: Any, fmt: str, kind: str, primitive: str) -> bytes:
    if fmt == ARCHIVE:
        return archive_of(program)
    if fmt == "ll":
        return llvm_ir_of(program)
    if fmt in ("cu", "cl") or (fmt == "c" and kind == "c"):
        return program.source.encode()
    if fmt == "s":
        return show(program, "asm").encode()
    if fmt == "cubin":
        return program.binary or b""
    if exporter is None:
        raise UserError(
            f"a module that was loaded from a file cannot be written as .{fmt}",
            primitive=primitive,
            fix=f"write that on the machine that builds the module: tw.build(...).{primitive}(...)",
        )
    if fmt == "o":
        return bytes(exporter.object_file(archive_of(program)))
    if fmt == "so":
        return bytes(exporter.shared_library(archive_of(program)))
    if fmt == "bc":
        return bytes(exporter.bitcode())
    if fmt == "tar":
        return _tar({"lib.o": exporter.object_file(archive_of(program)), "lib.h": exporter.header().encode()})
    text: str = exporter.header() if fmt == "h" else exporter.c_source()
    return text.encode()


def _tar(members: dict[str, bytes]) -> bytes:
    """Return a tar archive; equal contents give equal bytes."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return made.getvalue()
