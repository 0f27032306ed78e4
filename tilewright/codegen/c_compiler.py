"""C functions that come with a program: compiled by the system's compiler into object files."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from ..core.errors import UserError

_COMPILERS = ("cc", "gcc", "clang")


class CSource(str):
    """C source in place of LLVM IR, if no compiler that writes IR is installed."""

    __slots__ = ()


def c_compiler() -> str | None:
    """The path of the C compiler that the variable CC names, or of the system's; None if there is no compiler."""
    wanted = os.environ.get("CC", "").split(" ")[0]
    found = (shutil.which(name) for name in (*([wanted] if wanted else []), *_COMPILERS))
    return next((path for path in found if path is not None), None)


def surroundings() -> dict[str, str]:
    """Return the environment of a compiler, with our folder for temporary files: TMPDIR may have no room."""
    with suppress(OSError):
        return {**os.environ, "TMPDIR": tempfile.gettempdir()}
    return dict(os.environ)


def compile_c(code: str) -> bytes:
    """The object file of C source, or of a file that holds it."""
    return _compiled(text_of(code, (".c", ".cc", ".cpp", ".h")))


def merged(objects: Sequence[bytes]) -> tuple[bytes, ...]:
    """Merge object files into at most one; the last definition of a function replaces earlier ones."""
    different = list(dict.fromkeys(objects))
    if len(different) < 2:
        return tuple(different)
    compiler = c_compiler()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        files = [Path(folder, f"{i}.o") for i in range(len(different))]
        for path, code in zip(files, reversed(different), strict=True):
            path.write_bytes(code)
        made = Path(folder, "merged.o")
        command = [str(compiler), "-r", "-nostdlib", "-Wl,-z,muldefs", *map(str, files), "-o", str(made)]
        done = subprocess.run(command, env=surroundings(), capture_output=True, check=False)
        if done.returncode or not made.exists():
            raise UserError(
                f"{compiler} does not link the imported C code: {done.stderr.decode(errors='replace').strip()}",
                primitive="pragma",
                fix="import one source that defines all functions",
            )
        return (made.read_bytes(),)


def llvm_ir(code: str) -> str:
    """Return LLVM IR, from text or from the file at a path."""
    return text_of(code, (".ll",))


def text_of(code: str, endings: tuple[str, ...]) -> str:
    """The code itself, or the contents of the file if it is a path."""
    try:
        code.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            f"the code is not text: it holds {code[error.start]!r}, half of a character",
            primitive="pragma",
            fix='decode the bytes of the file with their own encoding: Path(name).read_text("latin-1")',
        ) from error
    if "\n" in code or not code.strip().endswith(endings):
        return code
    try:
        return Path(code.strip()).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"cannot read {code}: {error.strerror}", primitive="pragma", fix="give the path of a file, or the code"
        ) from error


def language(source: str) -> str:
    """Return the language of a source: C++ if it declares functions as extern "C"."""
    return "c++" if 'extern "C"' in source else "c"


@lru_cache(maxsize=64)
def _compiled(source: str) -> bytes:
    compiler = c_compiler()
    if compiler is None:
        raise UserError(
            f"C code is imported, but no C compiler is on the PATH ({', '.join(_COMPILERS)})",
            primitive="pragma",
            fix="install one (apt-get install gcc), name it in the variable CC, or give LLVM IR by import_llvm",
        )
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        made = Path(folder, "imported.o")
        command = [compiler, "-c", "-O3", "-fPIC", "-x", language(source), "-", "-o", str(made)]
        done = subprocess.run(command, input=source.encode(), env=surroundings(), capture_output=True, check=False)
        if done.returncode or not made.exists():
            said = done.stderr.decode(errors="replace").strip()
            raise UserError(
                f"{compiler} does not compile the imported C code:\n{said}",
                primitive="pragma",
                fix='correct the code; functions of C++ need extern "C"',
            )
        return made.read_bytes()
