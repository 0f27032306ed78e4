"""Modules in archives: `module.save(path)`, and `load_module(path)` in a process that never imports the compiler.

An archive is a zip file: `module.json` describes functions and kernels, beside it stand the kernels' source and their
machine code, if any. Nothing in it is pickled. It holds code, Python's for the host among it: load only files that you
trust. Its digest finds damage and edits by accident; it is not a signature.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..codegen.abi import (
    ArrayArgument,
    AssertionFact,
    CompiledProgram,
    EntryPoint,
    IndexFact,
    KernelAbi,
    LaunchFact,
    ReadFact,
    Resources,
    ScalarArgument,
    SizeFact,
)
from ..codegen.exported import elf
from ..codegen.llvm.compile import compile_ir, host_processor
from ..core.errors import UserError
from ..core.paths import file_path
from ..core.system import family_of
from ..core.target import Target
from ..core.version import __version__

FORMAT = 2
"""The version of the file format: incremented when older releases cannot read new files."""
_DESCRIPTION = "module.json"
_SOURCES = {"c": "kernels.c", "cuda": "kernels.cu", "opencl": "kernels.cl", "llvm": "kernels.ll"}
_BINARIES = {"c": "kernels.o", "cuda": "kernels.cubin", "llvm": "kernels.o"}
_OBJECT = "imported."
"""The prefix of the names of object files that came with the program."""
_IN_TEXT = b"\n; For load_module: "
"""The beginning of the comment that holds the archive, at the end of a file of LLVM IR."""
_MOST_BYTES = 256 * 2**20
"""Bytes of one member: a small archive may unpack to any size."""
_LONGEST_REASON = 300
_EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that equal contents give equal files


def archive_of(program: CompiledProgram) -> bytes:
    """Return a program as an archive; equal programs give equal bytes."""
    kind = str(Target(program.target).kind)
    members: dict[str, bytes] = {_SOURCES[kind]: program.source.encode()}
    if program.binary is not None:
        members[_BINARIES[kind]] = program.binary
    members |= {f"{_OBJECT}{number}.o": content for number, content in enumerate(program.objects)}
    described = _described(program, kind)
    described["digest"] = digest(described, members)
    members = {_DESCRIPTION: json.dumps(described, indent=1).encode(), **members}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def llvm_ir_of(program: CompiledProgram) -> bytes:
    """A program for the CPU as LLVM IR; its archive stands in a comment."""
    return program.source.encode() + _IN_TEXT + base64.b64encode(archive_of(program)) + b"\n"


def digest(described: Mapping[str, Any], members: Mapping[str, bytes]) -> str:
    """The SHA-256 of a description without its digest, and of the other members."""
    rest = {name: value for name, value in described.items() if name != "digest"}
    made = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    for name, content in sorted(members.items()):
        made.update(f"\n{name} {len(content)}\n".encode())
        made.update(content)
    return made.hexdigest()


def _described(program: CompiledProgram, kind: str) -> dict[str, Any]:
    description = {
        "format": FORMAT,
        "tilewright": __version__,
        "target": program.target,
        "entries": [_entry(entry) for entry in program.entries],
        "kernels": [asdict(kernel) for kernel in program.kernels],
        "resources": {name: asdict(found) for name, found in program.resources.items()},
        "log": program.log,
        "compile_seconds": program.compile_seconds,
        "objects": len(program.objects),
        "called": list(program.called),
    }
    labels = dict(Target(program.target).labels)
    if kind == "llvm" and "mcpu" not in labels and family_of(labels.get("mtriple", "")) == family_of(""):
        description["features"] = _needed(host_processor().features)
    return description


def _entry(entry: EntryPoint) -> dict[str, Any]:
    kinds = ["array" if isinstance(argument, ArrayArgument) else "scalar" for argument in entry.arguments]
    arguments = [{"kind": k, **asdict(a)} for k, a in zip(kinds, entry.arguments, strict=True)]
    for argument in arguments:
        argument.pop("written", None)
    described = asdict(entry)
    del described["fixed"]  # the host code contains these launches, too
    return {**described, "arguments": arguments}


def program_in(archive: bytes) -> CompiledProgram:
    """The program in an archive that `archive_of` returned."""
    return _read(Path("the archive"), io.BytesIO(archive))


def read_program(path: str | os.PathLike[str]) -> CompiledProgram:
    """Return the program in a file; raise UserError if this version can run no program in it."""
    return read_programs(path)[0]


def read_programs(path: str | os.PathLike[str]) -> list[CompiledProgram]:
    """The programs in a file: several in a library that is linked from the objects of several modules."""
    path = file_path(path, "load_module", "kernel.tw")
    try:
        if path.exists() and not path.is_file():  # reading a pipe or a device may never end
            raise OSError(errno.EINVAL, "it is not a regular file")
        return [_read(path, archive) for archive in _archives(_archive_in(path))]
    except UserError:
        raise
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {error.strerror}",
            primitive="load_module",
            fix="give a file that module.save(path) wrote",
        ) from error
    except Exception as error:  # a file may hold anything, and fail in any way
        reason = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
        raise UserError(
            f"{path} is not a saved module, or a damaged one ({reason})",
            primitive="load_module",
            fix="write it with module.save(path)",
        ) from error


def _read(path: Path, content: Any) -> CompiledProgram:
    with zipfile.ZipFile(content) as archive:
        described = json.loads(_member(archive, _DESCRIPTION))
        _check_version(path, described)
        return _program(archive, described)


def _archives(content: Any) -> list[Any]:
    """The archives that a linker has concatenated in a section."""
    if not isinstance(content, io.BytesIO):
        return [content]
    found: list[Any] = []
    rest = content.getvalue()
    while rest.strip(b"\0"):
        with zipfile.ZipFile(io.BytesIO(rest)) as archive:  # the last archive, because its directory is at the end
            start = min(member.header_offset for member in archive.infolist())
        found.append(io.BytesIO(rest[start:]))
        rest = rest[:start]
    return found[::-1]


def _archive_in(path: Path) -> Any:
    """The archive that a file is, or that an object file, a shared library or a tar archive of them holds."""
    with open(path, "rb") as file:
        head = file.read(4)
        if head == elf.MAGIC:
            return io.BytesIO(_section(head + file.read()))
    if path.suffix.lower() == ".ll":
        return _in_llvm_ir(path.read_bytes())
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as whole:
            member = whole.extractfile("lib.o")
            if member is None or whole.getmember("lib.o").size > _MOST_BYTES:
                raise ValueError("it holds no lib.o")
            return io.BytesIO(_section(member.read()))
    return path


def _in_llvm_ir(content: bytes) -> io.BytesIO:
    source, mark, held = content.rpartition(_IN_TEXT)
    if not mark:
        raise ValueError("it is LLVM IR without a module of Tilewright's")
    found = io.BytesIO(base64.b64decode(held))
    with zipfile.ZipFile(found) as archive:
        if _member(archive, _SOURCES["llvm"]) != source:
            raise ValueError("its LLVM IR is not that of the module: it was edited or damaged")
    return found


def _section(content: bytes) -> bytes:
    found = elf.section(content, elf.SECTION)
    if found is None:
        raise ValueError("it is an ELF file without a module of Tilewright's")
    return found


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """One member, unpacked; raises an error if that would take more memory than any module."""
    if archive.getinfo(name).file_size > _MOST_BYTES:  # zipfile never unpacks more than this size
        raise ValueError(f"{name} unpacks to more than {_MOST_BYTES:,} bytes")
    return archive.read(name)


def _check_version(path: Any, described: dict[str, Any]) -> None:
    if not isinstance(described, dict) or "format" not in described:
        raise ValueError(f"{_DESCRIPTION} describes no module")
    if described["format"] != FORMAT:
        raise UserError(
            f"{path} was written by Tilewright {described.get('tilewright')} in format {described['format']}; this is "
            f"Tilewright {__version__}, which reads format {FORMAT}",
            primitive="load_module",
            fix="build and save the module again with this version",
        )


def _program(archive: zipfile.ZipFile, described: dict[str, Any]) -> CompiledProgram:
    target = Target(described["target"])
    there = set(archive.namelist())
    if not 0 <= (count := described.get("objects", 0)) <= len(there):
        raise ValueError(f"it names {count} object files and holds {len(there)} files")
    objects = [f"{_OBJECT}{number}.o" for number in range(count)]
    names = there & {_SOURCES[target.kind], _BINARIES.get(target.kind, ""), *objects}
    members = {name: _member(archive, name) for name in names}
    if digest(described, members) != described.get("digest"):
        raise ValueError("its digest does not match: it was edited or damaged")
    program = CompiledProgram(
        described["target"],
        tuple(map(_read_entry, described["entries"])),
        tuple(KernelAbi(**{**kernel, "params": tuple(kernel["params"])}) for kernel in described["kernels"]),
        members[_SOURCES[target.kind]].decode(),
        members.get(_BINARIES.get(target.kind, "")),
        {name: Resources(**found) for name, found in described["resources"].items()},
        described["log"],
        described["compile_seconds"],
        tuple(members[name] for name in objects),
        tuple(described.get("called", ())),
    )
    return _for_this_cpu(program, described.get("features", []))


def _for_this_cpu(program: CompiledProgram, needed: list[str]) -> CompiledProgram:
    """The program, compiled anew if its machine code uses features that this processor lacks."""
    if not needed or set(needed) <= set(_needed(host_processor().features)):
        return program
    code = compile_ir(program.source, host_processor())
    return replace(program, binary=code.binary, compile_seconds=code.seconds)


def _needed(features: str) -> list[str]:
    """The features of a processor, as LLVM names them."""
    return sorted(name[1:] for name in features.split(",") if name.startswith("+"))


def _read_entry(described: dict[str, Any]) -> EntryPoint:
    return EntryPoint(
        described["name"],
        tuple(map(_read_argument, described["arguments"])),
        described["source"],
        described["symbol"],
        tuple(SizeFact(**fact) for fact in described["facts"]),
        tuple(ReadFact(**{**read, "names": tuple(read["names"])}) for read in described.get("reads", ())),
        tuple(
            AssertionFact(**index) if "message" in index else IndexFact(**index)
            for index in described.get("indices", ())
        ),
        tuple(LaunchFact(**{**limit, "stages": tuple(limit["stages"])}) for limit in described.get("limits", ())),
    )


def _read_argument(described: dict[str, Any]) -> ArrayArgument | ScalarArgument:
    fields = {name: value for name, value in described.items() if name != "kind"}
    if described["kind"] == "scalar":
        return ScalarArgument(**fields)
    return ArrayArgument(**{**fields, "shape": tuple(fields["shape"])})
