"""Object files linked by the system's C compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...core.errors import UserError
from ...core.files import replaced
from ..c_compiler import c_compiler, surroundings

_HINT = "install one (apt-get install gcc) or name it in the variable CC"


def required_compiler(what: str, primitive: str) -> str:
    """The system's C compiler; raises UserError if there is none."""
    found = c_compiler()
    if found is None:
        raise UserError(f"{what} needs a C compiler, and none is on the PATH", primitive=primitive, fix=_HINT)
    return found


def cross_compiler(triple: str, primitive: str) -> str:
    """The C compiler for another system; raises UserError if there is none."""
    found = shutil.which(f"{triple}-gcc")
    if found is None:
        raise UserError(
            f"linking for {triple} needs its compiler, and there is no {triple}-gcc on the PATH",
            primitive=primitive,
            fix=f'install it (apt-get install gcc-{triple}), or save an object, "lib.o", and link it there',
        )
    return found


def compiler_words(primitive: str, **given: Any) -> list[str]:
    """The words of a command that arguments give: None for none, a path or a list of texts. UserError for others."""
    made: list[str] = []
    for name, value in given.items():
        single = isinstance(value, (str, os.PathLike)) and name != "options"
        words = [value] if single else [] if value is None else value
        if not isinstance(words, (list, tuple)) or not all([_is_word(word) for word in words]):
            what, fix = ("a list of texts", '["-O2"]') if name == "options" else ("a path", '"/usr/bin/gcc"')
            raise UserError(f"{name}={value!r} is not {what}", primitive=primitive, fix=f"give {what}: {fix}")
        made += map(os.fspath, words)
    return made


def _is_word(word: Any) -> bool:
    """Whether a process can be started with such an argument."""
    if not isinstance(word, (str, os.PathLike)) or not isinstance(text := os.fspath(word), str):
        return False
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def run_compiler(command: Sequence[str], primitive: str, given: bytes = b"") -> bytes:
    """Run a compiler on `given` arguments, and return its output; raise UserError with its messages if it fails."""
    try:
        done = subprocess.run([*command], input=given, env=surroundings(), capture_output=True, check=False)
    except OSError as error:
        raise UserError(f"cannot run {command[0]}: {error.strerror}", primitive=primitive, fix=_HINT) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip() or done.stdout.decode(errors="replace").strip()
        raise UserError(
            f"{' '.join(command[:1])} fails: {said or f'status {done.returncode}'}",
            primitive=primitive,
            fix="correct the errors it reports, or give the options that it needs",
        )
    return done.stdout


def linked(objects: Sequence[bytes], primitive: str, relocatable: bool = False, triple: str = "") -> bytes:
    """Link objects into a shared library, or into one object file; for another system, by its cross compiler."""
    compiler = cross_compiler(triple, primitive) if triple else required_compiler("linking", primitive)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        paths = [Path(folder, f"part{i}.o") for i in range(len(objects))]
        for path, content in zip(paths, objects, strict=True):
            path.write_bytes(content)
        made = Path(folder, "made")
        how = ["-r", "-nostdlib"] if relocatable else ["-shared", "-fPIC"]
        libraries = [] if relocatable else ["-lm", "-lpthread", "-ldl"]
        run_compiler([compiler, *how, "-o", str(made), *map(str, paths), *libraries], primitive)
        return made.read_bytes()


def compiled(source: str, primitive: str) -> bytes:
    """Return the object file of C source with wrapping arithmetic and without strict aliasing."""
    compiler = required_compiler("compiling C", primitive)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        path, made = Path(folder, "source.c"), Path(folder, "source.o")
        path.write_text(source, encoding="utf-8")
        run_compiler(
            [
                compiler,
                "-std=gnu11",
                "-O3",
                "-fwrapv",
                "-fno-strict-aliasing",
                "-ffp-contract=off",
                "-w",
                "-fPIC",
                "-c",
                str(path),
                "-o",
                str(made),
            ],
            primitive,
        )
        return made.read_bytes()


def written_whole(path: Path, content: bytes, primitive: str) -> None:
    """Write a file whole or not at all."""
    try:
        replaced(path, content)
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror}",
            primitive=primitive,
            fix="give a file in a folder that can be written",
        ) from error
