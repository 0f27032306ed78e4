"""Calls on an NVIDIA GPU: results, streams, graphs, compilation, and the context of the calling thread."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import tilewright as tw
from tilewright.functional.arguments.call import CallOptions, OperatorCall
from tilewright.functional.planning import plans, rivals
from tilewright.functional.planning.plans import plan_for, program_of
from tilewright.runtime.device import device

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
torch_launches = pytest.importorskip("tilewright.functional.pytorch.launches")
torch_tensors = pytest.importorskip("tilewright.functional.pytorch.tensors")
F = torch.nn.functional
pytestmark = pytest.mark.cuda
TYPES = [("float32", 1e-5), ("float64", 1e-11), ("float16", 2e-3), ("bfloat16", 1e-2)]


def random(*shape: int, dtype: str = "float32", last: bool = False) -> Any:
    made = torch.randn(*shape, device="cuda").to(getattr(torch, dtype))
    return made.to(memory_format=torch.channels_last) if last else made


def error(found: Any, wanted: Any) -> float:
    return float((found.double() - wanted).norm() / wanted.norm())


@pytest.mark.parametrize(("dtype", "bound"), TYPES)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("channels", "filters", "groups"), [(32, 32, 32), (8, 24, 8), (64, 64, 16), (5, 7, 1)])
def test_results(dtype: str, bound: float, last: bool, channels: int, filters: int, groups: int) -> None:
    x, w = random(3, channels, 17, 19, dtype=dtype, last=last), random(filters, channels // groups, 3, 5, dtype=dtype)
    bias = random(filters, dtype=dtype)
    wanted = F.silu(F.conv2d(x.double(), w.double(), bias.double(), 2, 1, 1, groups))
    for _ in range(20):  # past the point where the compiled launcher takes over
        found = tw.conv2d(x, w, bias, 2, 1, 1, groups, activation="silu")
    assert error(found, wanted) <= bound
    if dtype != "float64":  # cuDNN, which computes some of these, has no channels-last kernels for it
        assert found.is_contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


def test_a_graph_captures_a_call_of_several_kernels() -> None:
    """Memory between kernels is the graph's own: two graphs that were captured alike may run side by side."""
    x, w = random(1, 512, 7, 7), random(512, 512, 3, 3)
    checked, _ = torch_tensors.signed(OperatorCall("conv2d", x, w, None, None, None, CallOptions(padding=1)))
    program = program_of(plan_for(checked.problem, device("cuda"), ""))
    assert program.program.scratch
    outs, graphs = [torch.empty_like(x) for _ in range(2)], [torch.cuda.CUDAGraph() for _ in range(2)]
    for graph, out in zip(graphs, outs, strict=True):
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):  # without a run before
            torch_launches.launch(program, [a.data_ptr() for a in (x, w, out)], x)
    wanted = F.conv2d(x.double(), w.double(), padding=1)
    for _ in range(20):
        for graph in graphs:
            with torch.cuda.stream(torch.cuda.Stream()):
                graph.replay()
    torch.cuda.synchronize()
    assert all(error(out, wanted) <= 1e-5 for out in outs)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_filters_channels_last_are_not_copied(dtype: str) -> None:
    x, w = (random(*shape, dtype=dtype, last=True) for shape in ((2, 32, 14, 14), (48, 32, 3, 3)))
    checked, _ = torch_tensors.signed(OperatorCall("conv2d", x, w, None, None, None, CallOptions(padding=1)))
    assert checked.problem.weights == "OHWI"
    out = torch.empty(2, 48, 14, 14, device="cuda", dtype=x.dtype).to(memory_format=torch.channels_last)
    run = program_of(plan_for(checked.problem, device("cuda"), ""))  # ours, whatever is faster
    run([a.data_ptr() for a in (x, w, out)], torch.cuda.current_stream().cuda_stream)
    wanted = F.conv2d(x.double(), w.double(), padding=1)
    assert error(out, wanted) <= dict(TYPES)[dtype]
    assert error(tw.conv2d(x, w, padding=1), wanted) <= dict(TYPES)[dtype]


def test_other_operators() -> None:
    x, w = random(2, 16, 20, 21), random(16, 8, 4, 4)
    wanted = F.conv_transpose2d(x.double(), w.double(), None, 2, 1)
    assert error(tw.conv_transpose2d(x, w, None, 2, 1), wanted) <= 1e-5
    assert torch.equal(tw.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 2, 1))
    assert error(tw.avg_pool2d(x, 2), F.avg_pool2d(x.double(), 2)) <= 1e-5
    line, taps = random(2, 16, 300), random(16, 1, 4)
    wanted = F.conv1d(F.pad(line, (3, 0)).double(), taps.double(), groups=16)
    assert error(tw.conv1d(line, taps, padding=(3, 0), groups=16), wanted) <= 1e-5


def test_a_side_stream_is_followed() -> None:
    x, w = random(8, 64, 56, 56), random(64, 1, 3, 3)
    wanted = F.conv2d(x.double() * 2, w.double(), padding=1, groups=64)
    stream = torch.cuda.Stream()
    tw.conv2d(x, w, padding=1, groups=64)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # what comes before on the stream takes its time
        y = x * 2
        found = tw.conv2d(y, w, padding=1, groups=64)
    stream.synchronize()
    assert error(found, wanted) <= 1e-5


def test_a_graph_captures_a_call() -> None:
    x, w = random(2, 32, 14, 14), random(32, 1, 3, 3)
    tw.conv2d(x, w, padding=1, groups=32)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        found = tw.conv2d(x, w, padding=1, groups=32, activation=None)
    x.copy_(random(2, 32, 14, 14))
    graph.replay()
    torch.cuda.synchronize()
    assert error(found, F.conv2d(x.double(), w.double(), padding=1, groups=32)) <= 1e-5


def test_another_thread_may_call() -> None:
    x, w = random(2, 32, 14, 14), random(32, 1, 3, 3)
    wanted = F.conv2d(x.double(), w.double(), padding=1, groups=32)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(tw.conv2d(x, w, padding=1, groups=32) for _ in range(30)))
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert error(found[-1], wanted) <= 1e-5


def test_gradients() -> None:
    x = torch.randn(1, 3, 5, 4, device="cuda", dtype=torch.double, requires_grad=True)
    w = torch.randn(6, 1, 3, 3, device="cuda", dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: tw.conv2d(x, w, padding=1, groups=3, activation="gelu"), (x, w))


def test_a_slice_of_a_tensor() -> None:
    base, w = random(1 + 2 * 32 * 14 * 14), random(32, 1, 3, 3)
    x = base[1:].view(2, 32, 14, 14)
    wanted = F.conv2d(x.double(), w.double(), padding=1, groups=32)
    for _ in range(2):
        assert error(tw.conv2d(x, w, padding=1, groups=32), wanted) <= 1e-5
        tw.conv2d(base[:-1].view(2, 32, 14, 14), w, padding=1, groups=32)


def test_a_compiled_model() -> None:
    model = tw.nn.Conv2d(32, 32, 7, padding=3, groups=32, activation="relu", device="cuda")
    x = random(2, 32, 14, 14)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.parametrize("precision", ["ieee", "fp32", "tf32"])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("taps", [1, 3])
def test_errors_of_a_layer_have_no_sign(precision: str, order: Any, taps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands that are cut, not rounded, make all results smaller, and a network of many layers wrong."""
    monkeypatch.setattr(rivals, "reason_for_rival", lambda *_: "")  # a kernel of ours
    monkeypatch.setattr(plans, "_plans", {})
    monkeypatch.setenv("TILEWRIGHT_CACHE", "0")
    plans.forget()
    x = torch.rand(2, 64, 28, 28, device="cuda").to(memory_format=order) + 0.5
    w = (torch.rand(96, 64, taps, taps, device="cuda") + 0.5).to(memory_format=order)
    right = torch.nn.functional.conv2d(x.double(), w.double())
    away = tw.conv2d(x, w, precision=precision).double() / right - 1
    plans.forget()
    # Cut operands make results smaller by 7e-4; the tensor cores' own sums, which are cut, by a few 1e-6.
    assert abs(float(away.mean())) < 2e-5
