"""A program as on a platform without forks, file locks, users and /proc: calls, modules, and a search of ten trials.

python -m tests.measure.on_other_platform [LOG FOLDER]; the facilities are taken away before Tilewright is imported.
Without arguments, it imports each module of the package, and prints the modules that cannot be imported.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import importlib
import multiprocessing
import os
import pkgutil
import platform
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "_posixshmem")
ABSENT = {
    os: (
        "fork forkpty register_at_fork sched_getaffinity sched_setaffinity getuid geteuid getgid killpg setsid getpgid "
        "wait4 waitid mkfifo memfd_create pidfd_open getpriority uname getloadavg nice sysconf pread pwrite setpgid "
        "getpgrp set_blocking posix_fadvise posix_spawn O_CLOEXEC O_NONBLOCK O_DIRECTORY O_NOFOLLOW O_PATH"
    ),
    signal: "SIGHUP SIGQUIT SIGALRM SIGBUS SIGSTOP pthread_sigmask setitimer getitimer alarm sigwait",
    socket: "MSG_DONTWAIT socketpair",
    select: "poll epoll",
}
"""Names that Windows lacks; macOS has some of them."""


class _Library(ctypes.CDLL):
    """As on Windows: the process has no name as a library, and the C library is called ucrtbase."""

    def __init__(self, name: str | None, *args: Any, **kwargs: Any) -> None:
        if name is None:
            raise TypeError("LoadLibrary() argument 1 must be str, not None")
        super().__init__("libc.so.6" if name == "ucrtbase" else name, *args, **kwargs)


class _Absent:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def take_away() -> None:
    """Take the facilities of Linux away from this process, once its libraries have theirs."""
    for name in ("numpy", "ml_dtypes", "llvmlite.binding"):
        importlib.import_module(name)
    platform.uname()
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Absent())  # type: ignore[arg-type]
    for module, names in ABSENT.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    ctypes.CDLL = _Library  # type: ignore[misc]
    opened = builtins.open

    def open_outside(file: Any, *args: Any, **kwargs: Any) -> Any:
        if str(file).startswith(("/proc/", "/sys/")):
            raise FileNotFoundError(2, "No such file or directory", str(file))
        return opened(file, *args, **kwargs)

    builtins.open = open_outside
    multiprocessing.set_start_method("spawn")


def unimportable() -> list[str]:
    """Return the modules of the package that need a facility of Linux to be imported.

    A module that needs an absent package is left out.
    """
    import tilewright

    found = []
    for module in pkgutil.walk_packages(tilewright.__path__, "tilewright.", onerror=lambda name: None):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if error.name in MODULES:
                found.append(module.name)
        except tilewright.UserError:  # of a package that needs PyTorch
            pass
        except Exception as error:
            found.append(f"{module.name}: {type(error).__name__}: {error}")
    return found


def main(log: str, folder: str) -> None:
    """Call, build, export, load and search."""
    import numpy as np

    import tilewright as tw
    from tilewright import autotvm, te
    from tilewright.core.system import FORKS
    from tilewright.topi.templates import Depthwise, named

    assert not FORKS
    rng = np.random.default_rng(0)
    x, w = rng.random((1, 4, 9, 9), "float32"), rng.random((4, 1, 1, 1), "float32")
    np.testing.assert_allclose(tw.conv2d(x, w, groups=4), x * w.reshape(1, 4, 1, 1), rtol=1e-6)
    A = te.placeholder((1000,), name="A")
    B = te.compute((1000,), lambda i: A[i] * 2 + 1, name="B")
    s = te.create_schedule(B.op)
    s[B].parallel(s[B].op.axis[0])
    path = str(Path(folder, "lib.so"))
    tw.build(s, [A, B], "llvm").export_library(path)
    data, out = (tw.nd.array(np.ones(1000, "float32")) for _ in range(2))
    tw.runtime.load_module(path)(data, out)
    assert (out.numpy() == 3).all()
    template, of = named("topi/depthwise"), Depthwise.of((1, 4, 9, 9))
    task = template.task(of, tw.target.Target("llvm"))
    option = autotvm.measure_option(
        autotvm.LocalBuilder(), autotvm.LocalRunner(number=1, repeat=1, cooldown_interval=0)
    )
    tuner = autotvm.tuner.RandomTuner(task)
    tuner.tune(n_trial=10, measure_option=option, callbacks=[autotvm.callback.log_to_file(log)])
    print("measured", sum(result.error_no == 0 for _, result in autotvm.record.load_from_file(log)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        take_away()
        main(*sys.argv[1:])
    else:
        for package in ("torch", "jax"):  # on other platforms, their own modules do not need these facilities
            with contextlib.suppress(ImportError):
                importlib.import_module(package)
        take_away()
        print("\n".join(unimportable()))
