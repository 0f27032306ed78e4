"""`tilewright run`: a script runs as `python` would run it, except that `import tvm` means Tilewright."""

from __future__ import annotations

import builtins
import importlib
import os
import runpy
import stat
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeVar

from ..compat import legacy
from ..core.errors import AbsentDeviceError, UserError
from ..core.system import WITHOUT_WAITING
from .commands import FAILED, INTERRUPTED

_HOUSE = str(Path(__file__).resolve().parent.parent) + os.sep
_STARTED_AS = sys.argv[0]
_T = TypeVar("_T")
_PART_BYTES = 1 << 20
_MOST_BYTES = 64 << 20
"""Bytes read from a script at a time, and altogether."""


def run_script(script: Path, arguments: Sequence[str]) -> int:
    """Run a file as `__main__`; return the exit status 0, unless the script exits or an exception ends it.

    The script sees `sys.argv` and `sys.path` as under `python`. A mistake that Tilewright explains is printed under the
    script's own lines; every other exception as Python prints it. Raises UserError if the file does not exist or cannot
    be a script.
    """
    source = _source(script)
    sys.argv = [str(script), *arguments]
    put_first(script.resolve().parent)
    legacy.install(override=True)
    main = ModuleType("__main__")
    main.__dict__.update(__file__=str(script), __builtins__=builtins)
    # The module stays there afterwards: threads and exit handlers of the script still need its globals.
    sys.modules["__main__"] = main
    # The `from __future__` imports of this file do not apply.
    reported(lambda: exec(compile(source, str(script), "exec", dont_inherit=True), main.__dict__))
    return 0


def names_of(file: Path, command: str) -> dict[str, Any]:
    """Run a user's file as a separate module; return its names. Imports search the file's folder first."""
    put_first(file.resolve().parent)
    return reported(lambda: runpy.run_path(str(file), run_name=f"<tilewright {command}>"))


def reported(call: Callable[[], _T]) -> _T:
    """Call code of the user's. If an exception ends it, print that and exit with status 1, or 130 if interrupted."""
    try:
        return call()
    except SystemExit:
        raise
    except BaseException as error:
        _report(error)
        raise SystemExit(INTERRUPTED if isinstance(error, KeyboardInterrupt) else FAILED) from None


def _source(script: Path) -> bytes:
    """The text of a script, from a file or a pipe."""
    source = bytearray()
    try:
        with open(os.open(script, os.O_RDONLY | WITHOUT_WAITING), "rb", buffering=0) as file:
            part = file.read(_PART_BYTES)  # a pipe: empty if nobody writes, None if nothing is written yet
            if not part and part is not None and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
                raise _no_script(f"{script} is a pipe that nobody writes to")
            if WITHOUT_WAITING:
                os.set_blocking(file.fileno(), True)
            while (part is None or part) and len(source) <= _MOST_BYTES:
                source += part or b""
                part = file.read(_PART_BYTES)
    except OSError as error:
        raise _no_script(f"cannot read {script}: {error.strerror}") from error
    if part:
        raise _no_script(f"{script} is too large for a script: more than {_MOST_BYTES >> 20} MiB")
    return bytes(source)


def _no_script(what: str) -> UserError:
    return UserError(what, fix="name a Python script: tilewright run script.py", where="")


def put_first(folder: Path) -> None:
    """Make `folder` the first entry of `sys.path`, in place of the entry of this command."""
    started = {"", os.getcwd(), str(Path(_STARTED_AS).parent), str(Path(_STARTED_AS).resolve().parent)}
    if sys.path and sys.path[0] in started:
        del sys.path[0]
    sys.path.insert(0, str(folder))


def _report(error: BaseException) -> None:
    """Print an exception that ended the script."""
    if isinstance(error, AbsentDeviceError):  # no line of the script is to blame
        print(error.line, file=sys.stderr)
        return
    explained = legacy.explain(error)
    if explained is not None:
        frames = traceback.StackSummary.from_list(
            [frame for frame in traceback.extract_tb(error.__traceback__) if _is_the_users(frame.filename)]
        )
        if frames:
            print("Traceback (most recent call last):", file=sys.stderr)
            print("".join(frames.format()), end="", file=sys.stderr)
        print(explained, file=sys.stderr)
        return
    # Calls the hook, because a script may have set one; without our frames before the script's.
    inner: TracebackType | None = error.__traceback__
    while inner is not None and not _is_the_users(inner.tb_frame.f_code.co_filename):
        inner = inner.tb_next
    sys.excepthook(type(error), error.with_traceback(inner), inner)


def _is_the_users(filename: str) -> bool:
    """Whether a traceback's file is none of Tilewright's own, and not the import machinery's."""
    return not filename.startswith((_HOUSE, "<frozen ", importlib.__file__))
