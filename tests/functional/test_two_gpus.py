"""Calls on the arrays of one GPU while another one is current: right results, and the thread's GPU stays as it was.

`torch.cuda.graph` without `stream` captures on a stream that PyTorch makes once per process, on the GPU that is current
then. A graph of work on any other GPU is empty, PyTorch's own work included; so each test names its stream.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.paths import ROOT
from tests.runtime.test_several import scaled
from tilewright.core.errors import UserError
from tilewright.runtime.array import array, empty
from tilewright.runtime.device import cuda
from tilewright.runtime.driver import DeviceError
from tilewright.runtime.from_dlpack import from_dlpack

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
TorchGraphTimer = pytest.importorskip("tilewright.functional.pytorch.graphs").TorchGraphTimer
F = torch.nn.functional
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="it takes two GPUs, and there are fewer"),
]
CALLS = 20
"""More than the launches after which the compiled launcher takes over."""


@pytest.fixture(params=[(0, 1), (1, 0)], ids=["0 is current", "1 is current"])
def on(request: pytest.FixtureRequest) -> Iterator[str]:
    """The GPU of the arrays; the other one is current, and must be afterwards."""
    current, other = request.param
    torch.cuda.set_device(current)
    yield f"cuda:{other}"
    assert torch.cuda.current_device() == current
    assert float(torch.ones(3, device="cuda").sum()) == 3
    torch.cuda.set_device(0)


def arrays(on: str, channels: int = 32, size: int = 14) -> tuple[Any, Any]:
    return torch.randn(2, channels, size, size, device=on), torch.randn(channels, 1, 3, 3, device=on)


def call(x: Any, w: Any, **options: Any) -> Any:
    return tw.conv2d(x, w, padding=1, groups=len(w), **options)


def check(found: Any, x: Any, w: Any) -> None:
    assert found.device == x.device
    torch.testing.assert_close(found, F.conv2d(x, w, padding=1, groups=len(w)), rtol=1e-4, atol=1e-4)


def test_the_first_calls_and_later_ones(on: str) -> None:
    x, w = arrays(on)
    for _ in range(CALLS):
        check(call(x, w), x, w)


def test_calls_in_turns(on: str) -> None:
    both = arrays("cuda:0"), arrays("cuda:1")
    for _ in range(CALLS):
        for x, w in both:
            check(call(x, w), x, w)


def test_a_thread_for_each(on: str) -> None:
    wrong: list[Any] = []

    def work(index: int, current: int | None) -> None:
        try:
            if current is not None:
                torch.cuda.set_device(current)
            before = torch.cuda.current_device()
            x, w = arrays(f"cuda:{index}", channels=24)
            for _ in range(CALLS):
                check(call(x, w), x, w)
            assert torch.cuda.current_device() == before
        except BaseException as error:  # for the thread that waits
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(i, c)) for i in (0, 1) for c in (0, 1, None)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_gradients(on: str) -> None:
    x, w = arrays(on, channels=8)
    found, wanted = ([a.clone().requires_grad_() for a in (x, w)] for _ in range(2))
    call(*found, activation="gelu").square().sum().backward()
    F.gelu(F.conv2d(*wanted, padding=1, groups=8)).square().sum().backward()
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-3)


def test_a_side_stream(on: str) -> None:
    x, w = arrays(on, channels=64, size=56)
    wanted = 2 * x
    call(x, w)
    torch.cuda.synchronize(on)
    before = torch.cuda.current_device()
    with torch.cuda.stream(torch.cuda.Stream(device=on)):
        torch.cuda._sleep(50_000_000)  # what comes before on the stream takes its time
        y = 2 * x
        torch.cuda.set_device(before)
        found = call(y, w)
        torch.cuda.current_stream(on).synchronize()
    check(found, wanted, w)


def test_a_graph(on: str) -> None:
    x, w = arrays(on)
    call(x, w)
    before, graph = torch.cuda.current_device(), torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream(device=on)
    with torch.cuda.device(on), torch.cuda.graph(graph, stream=stream), torch.cuda.device(before):
        found = call(x, w)
    x.copy_(torch.randn_like(x))
    graph.replay()
    torch.cuda.synchronize(on)
    check(found, x, w)


def test_times_are_those_of_the_work(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timer captures on the GPU of the work, whichever one PyTorch's own stream for captures is on."""
    elsewhere = torch.cuda.Stream(device=torch.cuda.current_device())
    monkeypatch.setattr(torch.cuda.graph, "default_capture_stream", elsewhere)
    x = torch.ones(1 << 26, device=on)
    with torch.cuda.device(on):
        timer = TorchGraphTimer(lambda: x.add_(1))
        seconds = [timer(runs) for runs in (1, 50)]
    assert seconds[1] > 10 * seconds[0]  # 512 MiB are moved per run, next to which the start of a graph takes no time


def test_what_lies_on_both_is_refused(on: str) -> None:
    x, w = arrays(on)
    elsewhere = f"cuda:{torch.cuda.current_device()}"
    for options in ({"weight": w.to(elsewhere)}, {"weight": w, "bias": torch.ones(32, device=elsewhere)}):
        with pytest.raises(UserError, match=f"{[*options][-1]} is on "):
            tw.conv2d(x, padding=1, groups=32, **options)


def test_a_model(on: str) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(64, 64, 7, padding=3, groups=64), torch.nn.ReLU()).to(on).eval()
    x = torch.randn(8, 64, 56, 56, device=on)
    with torch.no_grad():
        wanted = model(x)
        done = tw.accelerate(model, x)
        torch.testing.assert_close(model(x), wanted, rtol=1e-4, atol=1e-4)
        assert all(row.ours > 1e-6 for row in done.rows)  # measured where the work went
        elsewhere = f"cuda:{torch.cuda.current_device()}"
        found = model.to(elsewhere)(x.to(elsewhere))
        torch.testing.assert_close(found.to(on), wanted, rtol=1e-4, atol=1e-4)


def test_data_parallel() -> None:
    model = tw.nn.Conv2d(32, 32, 3, padding=1, groups=32, device="cuda:0")
    x = torch.randn(6, 32, 14, 14, device="cuda:0")
    with torch.no_grad():
        found = [torch.nn.DataParallel(model, [0, 1])(x) for _ in range(CALLS)][-1]
        torch.testing.assert_close(found, F.conv2d(x, model.weight, model.bias, 1, 1, 1, 32), rtol=1e-4, atol=1e-4)


def test_arrays_and_modules_of_ours(on: str) -> None:
    device = cuda(int(on[-1]))
    module = tw.build(*scaled(2, "cuda"), "cuda")
    out = empty((5,), device=device)
    for _ in range(3):
        module(array(np.arange(5, dtype="float32"), device), out)
    np.testing.assert_array_equal(out.numpy(), 2 * np.arange(5))
    assert module.time_evaluator(module.entry_name, device, number=10)(out, empty((5,), device=device)).mean > 0
    with pytest.raises(UserError, match="but an earlier argument is on"):
        module(out, empty((5,), device=cuda(1 - device.index)))


def test_memory_is_shared_where_it_lies(on: str) -> None:
    class Shown:
        """Memory of a library without DLPack."""

    x: Any = torch.arange(10.0, device=on)
    shown: Any = Shown()
    shown.__cuda_array_interface__ = x.__cuda_array_interface__
    for a in (from_dlpack(x), from_dlpack(shown)):
        assert repr(a.device) == f"cuda({on[-1]})"
        np.testing.assert_array_equal(a.numpy(), np.arange(10))
    assert torch.from_dlpack(from_dlpack(x)).device == x.device


def test_memory_is_shared_while_the_other_gpu_is_unused() -> None:
    """PyTorch keeps a GPU current that has no context yet, which the driver does not know of."""
    script = (
        "import torch\n"
        "from tilewright.runtime.from_dlpack import from_dlpack\n"
        "a = from_dlpack(torch.arange(3.0, device='cuda:1'))\n"
        "print(a.device, a.numpy().tolist(), torch.cuda.current_device())\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "cuda(1) [0.0, 1.0, 2.0] 0\n", done.stderr


def test_a_stream_of_the_other_gpu_is_refused(on: str) -> None:
    device, elsewhere = cuda(int(on[-1])), torch.cuda.Stream()
    module = tw.build(*scaled(2, "cuda"), "cuda")
    a, out = array(np.arange(5, dtype="float32"), device), empty((5,), device=device)
    with pytest.raises(UserError, match=r"is a stream of cuda\(\d\), not of cuda\(\d\)"), device.use_stream(elsewhere):
        pass
    says = rf"is not one of cuda\({device.index}\)\n  fix: use a stream that exists"
    with device.use_stream(elsewhere.cuda_stream), pytest.raises(DeviceError, match=says):
        module(a, out)
    module(a, out)
    np.testing.assert_array_equal(out.numpy(), 2 * np.arange(5))
