"""C functions as LLVM IR by clang, for the pragma `import_llvm`; without clang, for any C compiler."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from ...codegen.c_compiler import CSource, c_compiler, language, text_of
from ...codegen.exported.linker import compiler_words, run_compiler
from ...core.errors import UserError


def find_clang(required: bool = True) -> list[str]:
    """Return the existing paths of clang; raise UserError if clang is required and absent."""
    if not isinstance(required, (bool, int)):
        raise UserError(
            f"required={required!r} is neither True nor False", primitive="find_clang", fix="give True or False"
        )
    found = shutil.which("clang")
    if found is None and required:
        raise UserError(
            "clang is not on the PATH",
            primitive="find_clang",
            fix="install it (apt-get install clang), or use import_c",
        )
    return [] if found is None else [found]


def create_llvm(inputs: Any, output: str | None = None, options: Any = None, cc: str | None = None) -> str:
    """Compile C functions for the pragma `import_llvm`.

    Parameters
    ----------
    inputs
        C source, or the path of a file that holds it; a list of one of them.
    output
        The file to which clang's LLVM IR is written, too.
    options
        More options of the compiler.
    cc
        The path of clang.

    Returns
    -------
    LLVM IR as text. Without clang, the C source itself, with a mark for the pragma: the system's C compiler then
    creates an object file. Nothing is written to `output` then.

    Raises
    ------
    UserError
        If clang refuses the code, or if there is no C compiler at all.
    """
    given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    if len(given) != 1 or not isinstance(given[0], str):
        raise UserError(f"inputs={inputs!r} is not C source", primitive="create_llvm", fix="give one text")
    more = compiler_words("create_llvm", options=options)
    compiler_words("create_llvm", output=output, cc=cc)
    source = text_of(given[0], (".c", ".cc", ".cpp"))
    compiler = cc or next(iter(find_clang(required=False)), None)
    if compiler is None:
        if c_compiler() is None:
            raise UserError(
                "neither clang nor another C compiler is on the PATH",
                primitive="create_llvm",
                fix="install one: apt-get install clang",
            )
        return CSource(source)
    command = [compiler, "-O3", "-S", "-emit-llvm", "-x", language(source), *more, "-", "-o", "-"]
    made = run_compiler(command, "create_llvm", source.encode(errors="replace")).decode()
    if output is not None:
        try:
            Path(output).write_text(made, encoding="utf-8")
        except OSError as error:
            said = f"cannot write {output}: {error.strerror}"
            raise UserError(said, primitive="create_llvm", fix="name a file in a folder that is there") from error
    return made
