"""Modules in files: `module.save(path)`, and `load_module(path)` in a process that never imports the compiler.

A file is a zip archive: `module.json` describes functions and kernels, beside it stand the kernels' source and,
where there is one, their machine code. Nothing in it is pickled. It holds code, Python's for the host among it: load
only files that you trust.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..codegen.abi import (
    ArrayArgument,
    CompiledProgram,
    EntryPoint,
    KernelAbi,
    Resources,
    ScalarArgument,
    SizeFact,
)
from ..codegen.llvm.compile import compile_ir, host_machine
from ..core.errors import UserError
from ..core.target import Target
from ..core.version import __version__

FORMAT = 1
"""Counts up where files change so that older versions could not read them rightly."""
_DESCRIPTION = "module.json"
_SOURCES = {"cuda": "kernels.cu", "opencl": "kernels.cl", "llvm": "kernels.ll"}
_BINARIES = {"cuda": "kernels.cubin", "llvm": "kernels.o"}
_EPOCH = (1980, 1, 1, 0, 0, 0)  # files of the same content are the same


def save_program(program: CompiledProgram, path: str | os.PathLike[str]) -> None:
    """Write a program into one file, whole or not at all."""
    _check_path(path, "save")
    kind = str(Target(program.target).kind)
    members: dict[str, bytes] = {
        _DESCRIPTION: json.dumps(_described(program, kind), indent=1).encode(),
        _SOURCES[kind]: program.source.encode(),
    }
    if program.binary is not None:
        members[_BINARIES[kind]] = program.binary
    target = Path(path)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UserError(
            f"cannot write {target}: {error.strerror}",
            primitive="save",
            fix="give a file in a folder that can be written",
        ) from error


def _check_path(path: Any, primitive: str) -> None:
    if not isinstance(path, (str, os.PathLike)):
        raise UserError(f"{path!r} is no path of a file", primitive=primitive, fix='give one, such as "kernel.tw"')


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
    }
    if kind == "llvm" and "mcpu" not in dict(Target(program.target).labels):
        description["features"] = _needed(host_machine().features)
    return description


def _entry(entry: EntryPoint) -> dict[str, Any]:
    kinds = ["array" if isinstance(argument, ArrayArgument) else "scalar" for argument in entry.arguments]
    arguments = [{"kind": k, **asdict(a)} for k, a in zip(kinds, entry.arguments, strict=True)]
    return {**asdict(entry), "arguments": arguments}


def load_program(path: str | os.PathLike[str]) -> CompiledProgram:
    """The program in a file. UserError where there is none that this version can run."""
    _check_path(path, "load_module")
    try:
        with zipfile.ZipFile(path) as archive:
            described = json.loads(archive.read(_DESCRIPTION))
            _check_version(path, described)
            return _program(archive, described)
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {error.strerror}",
            primitive="load_module",
            fix="give a file that module.save(path) wrote",
        ) from error
    except (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, KeyError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} is no saved module, or a damaged one ({error})",
            primitive="load_module",
            fix="write it with module.save(path)",
        ) from error


def _check_version(path: Any, described: dict[str, Any]) -> None:
    if described["format"] != FORMAT:
        raise UserError(
            f"{path} was written by Tilewright {described['tilewright']} in format {described['format']}; this is "
            f"Tilewright {__version__}, which reads format {FORMAT}",
            primitive="load_module",
            fix="build and save the module again with this version",
        )


def _program(archive: zipfile.ZipFile, described: dict[str, Any]) -> CompiledProgram:
    target = Target(described["target"])
    source = archive.read(_SOURCES[target.kind]).decode()
    has_binary = _BINARIES.get(target.kind, "") in archive.namelist()
    program = CompiledProgram(
        described["target"],
        tuple(map(_read_entry, described["entries"])),
        tuple(KernelAbi(**{**kernel, "params": tuple(kernel["params"])}) for kernel in described["kernels"]),
        source,
        archive.read(_BINARIES[target.kind]) if has_binary else None,
        {name: Resources(**found) for name, found in described["resources"].items()},
        described["log"],
        described["compile_seconds"],
    )
    return _for_this_cpu(program, described.get("features", []))


def _for_this_cpu(program: CompiledProgram, needed: list[str]) -> CompiledProgram:
    """The program, compiled anew where its machine code uses what this processor lacks."""
    if not needed or set(needed) <= set(_needed(host_machine().features)):
        return program
    code = compile_ir(program.source, host_machine())
    return replace(program, binary=code.binary, compile_seconds=code.seconds)


def _needed(features: str) -> list[str]:
    """What a processor has, as LLVM names it."""
    return sorted(name[1:] for name in features.split(",") if name.startswith("+"))


def _read_entry(described: dict[str, Any]) -> EntryPoint:
    return EntryPoint(
        described["name"],
        tuple(map(_read_argument, described["arguments"])),
        described["source"],
        described["symbol"],
        tuple(SizeFact(**fact) for fact in described["facts"]),
    )


def _read_argument(described: dict[str, Any]) -> ArrayArgument | ScalarArgument:
    fields = {name: value for name, value in described.items() if name != "kind"}
    if described["kind"] == "scalar":
        return ScalarArgument(**fields)
    return ArrayArgument(**{**fields, "shape": tuple(fields["shape"])})
