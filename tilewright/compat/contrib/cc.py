"""The system's C compiler, under the legacy API's names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ...codegen.c_compiler import c_compiler
from ...codegen.exported.linker import compiler_words, required_compiler, run_compiler
from ...core.errors import UserError


def get_cc() -> str | None:
    """Return the path of the C compiler: the value of CC, or cc, gcc or clang; None if there is none."""
    return c_compiler()


def create_shared(
    output: str | os.PathLike[str], objects: Any, options: Sequence[str] | None = None, cc: str | None = None
) -> None:
    """Link object files, or C files, into a shared library.

    Parameters
    ----------
    output
        The library.
    objects
        The files.
    options
        Further options of the compiler.
    cc
        The compiler, instead of the system's.

    Raises
    ------
    UserError
        If there is no compiler, or it fails, with its messages.
    """
    _link(output, objects, ["-shared", "-fPIC"], options, cc, "create_shared")


def create_executable(
    output: str | os.PathLike[str], objects: Any, options: Sequence[str] | None = None, cc: str | None = None
) -> None:
    """Link object files, or C files, into a program; the parameters are the same as for `create_shared`."""
    _link(output, objects, [], options, cc, "create_executable")


def _link(output: Any, objects: Any, how: list[str], options: Any, cc: Any, primitive: str) -> None:
    files = [objects] if isinstance(objects, (str, os.PathLike)) else objects
    if not isinstance(files, (list, tuple)) or not all(isinstance(f, (str, os.PathLike)) for f in files) or not files:
        raise UserError(f"{objects!r} is not a list of files", primitive=primitive, fix='give paths: ["lib.o"]')
    more = compiler_words(primitive, options=options)
    named = compiler_words(primitive, output=output, objects=list(files), cc=cc)
    compiler = named.pop() if cc is not None else required_compiler("linking", primitive)
    libraries = ["-lm", "-lpthread", "-ldl"]
    run_compiler([compiler, *how, "-o", *named, *more, *libraries], primitive)
