"""`tilewright ...` in a fork of a process that has imported the package already: half a second less per command.

A command sees what a process of its own would: arguments, working folder, environment, files as standard streams, exit
handlers. It differs in what is imported, and in variables that Python reads as it starts (PYTHONPATH, PYTHONHASHSEED).
Tests of those start a process.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from tests.paths import ROOT, python_path

IMPORTED = "cli.app cli.run cli.ladder legacy te tir topi autotvm driver runtime.module codegen.llvm.compile"
OTHERS = ("llvmlite.binding", "numpy.random", "numpy.linalg")


@cache
def _server(owner: int) -> subprocess.Popen[str]:
    """The process that forks, one per test process."""
    command = [sys.executable, "-m", "tests.warm"]
    env = {**os.environ, "PYTHONPATH": python_path()}
    made = subprocess.Popen(command, env=env, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(_end, made, owner)
    return made


def _end(server: subprocess.Popen[str], owner: int) -> None:
    """Let the process end, and wait for it."""
    if os.getpid() == owner and server.stdin is not None:
        server.stdin.close()
        server.wait()


def tilewright(
    *arguments: object, cwd: Path | None = None, env: Mapping[str, str] | None = None, warns: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run `python -m tilewright` with these arguments, and return what `subprocess.run` would.

    Without `warns`, as `python -W ignore`.
    """
    words = [str(word) for word in arguments]
    server = _server(os.getpid())
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory(prefix="warm-") as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        asked = {"arguments": words, "cwd": str(cwd or os.getcwd()), "env": dict(env or os.environ),
                 "out": str(out), "err": str(err), "warns": warns}  # fmt: skip
        print(json.dumps(asked), file=server.stdin, flush=True)
        status = int(server.stdout.readline())
        return subprocess.CompletedProcess(words, status, out.read_text(), err.read_text())


def serve() -> None:
    """Fork for each request on stdin, and answer with its exit status."""
    sys.argv = [str(ROOT / "tilewright" / "__main__.py")]  # modules look at it as they are imported
    for name in IMPORTED.split():
        import_module(f"tilewright.{name}")
    for name in OTHERS:
        import_module(name)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(asked: dict[str, Any]) -> NoReturn:
    """Be the command."""
    status: Any = 1
    try:
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["env"])
        _redirect(0, os.devnull, os.O_RDONLY)
        for descriptor, path in ((1, asked["out"]), (2, asked["err"])):
            _redirect(descriptor, path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        sys.argv[1:] = asked["arguments"]
        sys.path[0] = asked["cwd"]
        if not asked["warns"]:
            warnings.simplefilter("ignore")
        status = _main()
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _redirect(descriptor: int, path: str, flags: int) -> None:
    opened = os.open(path, flags, 0o600)
    os.dup2(opened, descriptor)
    os.close(opened)


def _main() -> int:
    try:
        import_module("tilewright.cli").main()
    except SystemExit as error:
        if isinstance(error.code, int) or error.code is None:
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        return 1
    return 0


if __name__ == "__main__":
    serve()
