"""OpenCL devices: what they refuse, and that their driver's errors are ours."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.codegen import programs as p
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.expr.nodes import Var
from tilewright.loops.nodes import Function
from tilewright.runtime import opencl_driver
from tilewright.runtime.compile import compile_function
from tilewright.runtime.device import opencl
from tilewright.runtime.driver import DeviceError

pytestmark = pytest.mark.opencl


def added(threads: int, target: str) -> Any:
    """A program with so many threads in its only block."""
    a = te.placeholder((threads,), name="A")
    b = te.compute((threads,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[0], factor=min(threads, 1024))  # no axis of a target is longer
    s[b].bind(outer, te.thread_axis("threadIdx.y"))
    s[b].bind(inner, te.thread_axis("threadIdx.x"))
    return tw.build(s, [a, b], target)


def test_more_threads_than_the_device_has() -> None:
    """A target says what most devices allow; the device has the last word."""
    most = opencl().attributes.max_threads_per_block
    module = added(2 * most, f"opencl -max_num_threads={2 * most}")
    arrays = [tw.nd.empty((2 * most,), device=opencl()) for _ in range(2)]
    with pytest.raises(
        DeviceError, match=r"launch of main_kernel .*\n  fix: bind fewer threads.* at most [\d,]+ of them"
    ):
        module(*arrays)


def test_a_block_longer_than_its_device_allows_along_an_axis() -> None:
    x, _, z = opencl().attributes.max_thread_dimensions
    if z >= x:
        pytest.skip("the device's axes are equally long")
    b = p.buf("B", 2 * z)
    thread = Var("t")
    body = p.launch(p.put(b, thread, p.c(1.0)), threadIdx_z=(thread, 2 * z))
    module = compile_function(Function("main", (b,), body), "opencl")
    with pytest.raises(DeviceError, match=rf"longer axis to threadIdx.x: here threadIdx.z is below {z}"):
        module(tw.nd.empty((2 * z,), device=opencl()))


def test_a_buffer_that_no_device_has_memory_for() -> None:
    with pytest.raises(DeviceError, match=r"opencl\(0\) cannot allocate 4,611,686,018,427,387,904 bytes"):
        tw.nd.empty((1 << 60,), device=opencl())


def test_what_the_driver_raises_is_an_error_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a kernel that faults: each call after it fails, of whatever kind."""
    module, driver = added(32, "opencl"), opencl().driver
    a = tw.nd.array(np.ones(32, "float32"), opencl())
    b = tw.nd.empty((32,), device=opencl())
    module(a, b)
    cl = driver._at(0).cl  # type: ignore[attr-defined]

    def broken(*_: Any, **__: Any) -> None:
        raise cl.RuntimeError("clFinish failed: OUT_OF_RESOURCES")

    monkeypatch.setattr(cl, "enqueue_copy", broken)
    for what, call in {"cannot be read": b.numpy, "cannot be written": lambda: a.copyfrom(np.ones(32))}.items():
        with pytest.raises(DeviceError, match=rf"opencl\(0\) {what}.*OUT_OF_RESOURCES"):
            call()
    with pytest.raises(DeviceError, match="cannot copy"):
        a.copyto(b)


def test_options_that_only_some_sources_break(monkeypatch: pytest.MonkeyPatch) -> None:
    """An option that the compiler knows is not blamed for a source that it refuses: that is a fault of ours."""
    monkeypatch.setenv("TILEWRIGHT_OPENCL_OPTIONS", "-DthreadIdx_x=0")
    module, arrays = added(32, "opencl"), [tw.nd.empty((32,), device=opencl()) for _ in range(2)]
    with pytest.raises(tw.error.InternalError, match="OpenCL refuses generated code"):
        module(*arrays)
    monkeypatch.setenv("TILEWRIGHT_OPENCL_OPTIONS", "-cl-no-such-option")
    with pytest.raises(UserError, match="refuses the options"):
        module(*arrays)


def test_threads_that_use_a_device_first_share_its_context() -> None:
    """`functools.cached_property` has no lock since Python 3.12."""
    made: list[int] = []
    begin = threading.Barrier(4)

    def open_context(devices: list[Any]) -> object:
        made.append(threading.get_ident())
        time.sleep(0.05)  # the others look meanwhile
        return object()

    cl = SimpleNamespace(Context=open_context, Error=RuntimeError)
    opened = opencl_driver._Device(cl, SimpleNamespace(name="made up", platform=SimpleNamespace(name="")))
    seen: list[object] = []

    def look() -> None:
        begin.wait()
        seen.append(opened.context)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len(seen) == 4
    assert len(set(map(id, seen))) == 1


def test_a_home_that_takes_no_files_though_it_may_be_written() -> None:
    """As /proc, of which the superuser is told that it may."""
    program = "import tilewright as tw\nprint(tw.opencl().exist)"
    environment = {**os.environ, "HOME": "/proc/nowhere", "XDG_CACHE_HOME": ""}
    environment.pop("POCL_CACHE_DIR", None)
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
