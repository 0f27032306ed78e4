"""What users do with calls on PyTorch's tensors, on the CPU and on a GPU, beside PyTorch's own functions."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.core.errors import UserError
from tilewright.runtime.device import cuda
from tilewright.runtime.from_dlpack import from_dlpack

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F = torch.nn.functional
C = 8
CALLS = 20
"""More than the launches after which the compiled launcher takes over."""
TOLERANCES = {"float32": 1e-4, "float16": 2e-2}


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def on(request: pytest.FixtureRequest) -> str:
    made: str = request.param
    return made


def random(on: str, *shape: int, dtype: str = "float32") -> Any:
    return torch.randn(*shape, device=on).to(getattr(torch, dtype))


def ours(x: Any, w: Any, b: Any = None, **options: Any) -> Any:
    return tw.conv2d(x, w, b, padding=1, groups=C, **options)


def theirs(x: Any, w: Any, b: Any = None) -> Any:
    return F.conv2d(x, w, b, padding=1, groups=C)


def check(found: Any, x: Any, w: Any, b: Any = None) -> None:
    wanted = theirs(*(None if a is None else a.double() for a in (x, w, b)))
    bound = TOLERANCES[str(x.dtype).removeprefix("torch.")]
    torch.testing.assert_close(found.double(), wanted, rtol=bound, atol=bound)


def alike(mine: Callable[[], Any], other: Callable[[], Any]) -> None:
    """Check that both results are of the same kind; their values are others' matter."""

    def seen(of: Any) -> Any:
        return of.shape, of.dtype, of.device, of.stride(), of.requires_grad, of.is_inference(), type(of)

    assert seen(mine()) == seen(other())


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_batches_of_every_size(on: str, dtype: str) -> None:
    w = random(on, C, 1, 3, 3, dtype=dtype)
    for batch in (1, 2, 3, 7, 64, 129, 257) if on == "cuda" else (1, 2, 7):
        x = random(on, batch, C, 9, 7, dtype=dtype)
        check(ours(x, w), x, w)


def test_no_images(on: str) -> None:
    x, w = random(on, 0, C, 9, 9).requires_grad_(), random(on, C, 1, 3, 3)
    alike(lambda: ours(x, w), lambda: theirs(x, w))
    alike(lambda: tw.max_pool2d(x, 2), lambda: F.max_pool2d(x, 2))
    alike(lambda: tw.conv_transpose2d(x, w, groups=C), lambda: F.conv_transpose2d(x, w, groups=C))
    ours(x, w).sum().backward()
    assert x.grad.shape == x.shape


VIEWS: dict[str, Callable[[Any], Any]] = {
    "channels": lambda a: a[:, 1:],
    "window": lambda a: a[:, :C, 1:, 1:],
    "steps": lambda a: a[:, :C, :, ::2],
    "turned": lambda a: a[:, :C].transpose(2, 3),
    "repeated": lambda a: a[:1, :C].expand(5, C, 10, 10),
    "one channel": lambda a: a[:, :1].expand(3, C, 10, 10),
    "images": lambda a: a[1:, :C].contiguous()[1:],
    "channels last": lambda a: a.to(memory_format=torch.channels_last)[:, 1:],
    "odd address": lambda a: a.flatten()[1 : 1 + 3 * C * 100].view(3, C, 10, 10),
}


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("view", VIEWS)
def test_views(on: str, view: str, dtype: str) -> None:
    base, w, b = (random(on, *shape, dtype=dtype) for shape in ((3, C + 1, 10, 10), (C, 1, 3, 4), (2 * C,)))
    x, taps, every_other = VIEWS[view](base), w[..., :3], b[::2]
    check(ours(x, taps), x, taps)
    for _ in range(CALLS):
        found = ours(x, taps, every_other)
    check(found, x, taps, every_other)


@pytest.mark.parametrize("view", ["columns", "odd address"])
def test_results_go_into_views(on: str, view: str) -> None:
    x, w = random(on, 3, C, 10, 10), random(on, C, 1, 3, 3)
    whole = torch.full((3 * C * 200 + 1,), 7.0, device=on)
    out = whole[1:].view(3, C, 10, 20)[..., ::2] if view == "columns" else whole[1 : 1 + x.numel()].view(x.shape)
    assert ours(x, w, out=out) is out
    check(out, x, w)
    assert int((whole == 7).sum()) == whole.numel() - out.numel()


def test_memory_that_arguments_share(on: str) -> None:
    x, w = random(on, 2, C, 10, 10), random(on, C, 1, 3, 3)
    base = random(on, 2 * C * 100 + 100)
    for residual, out in (
        (base[:-100].view(x.shape), base[:-100].view(x.shape)),
        (base[100:].view(x.shape), base[:-100].view(x.shape)),
    ):
        wanted = theirs(x, w) + residual
        ours(x, w, residual=residual, out=out)
        torch.testing.assert_close(out, wanted, rtol=1e-4, atol=1e-4)
    bias, out = base[:C], base[:-100].view(x.shape)
    wanted = theirs(x, w, bias.clone())
    ours(x, w, bias, out=out)
    torch.testing.assert_close(out, wanted, rtol=1e-4, atol=1e-4)
    with pytest.raises(UserError, match="conv2d: out shares memory with an input"):
        ours(x, w, out=x)


@pytest.mark.parametrize("given", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("cast", ["float16", "bfloat16"])
def test_autocast_casts_what_pytorch_casts(on: str, given: str, cast: str) -> None:
    x, w, b = (random(on, *shape, dtype=given) for shape in ((2, C, 9, 9), (C, 1, 3, 3), (C,)))
    with torch.autocast(on, getattr(torch, cast)):
        alike(lambda: ours(x, w, b), lambda: theirs(x, w, b))
        alike(lambda: tw.max_pool2d(x, 2), lambda: F.max_pool2d(x, 2))
        with torch.autocast(on, enabled=False):
            alike(lambda: ours(x, w, b), lambda: theirs(x, w, b))
    alike(lambda: ours(x, w, b), lambda: theirs(x, w, b))


def test_modes_of_gradients(on: str) -> None:
    x, w = random(on, 2, C, 9, 9), torch.nn.Parameter(random(on, C, 1, 3, 3))
    for _ in range(2):  # the second time, the calls are known
        for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
            with mode():
                alike(lambda: ours(x, w), lambda: theirs(x, w))
    with torch.inference_mode():
        made = ours(x, w)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        ours(made, w)
    with torch.no_grad():
        check(ours(made, w), made, w)


class Named(torch.Tensor):  # type: ignore[misc]  # PyTorch is not followed
    """A tensor of a class of the user's."""


def test_classes_of_tensors(on: str) -> None:
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    x, w = random(on, 2, C, 9, 9), random(on, C, 1, 3, 3)
    alike(lambda: ours(x.as_subclass(Named), w), lambda: theirs(x.as_subclass(Named), w))
    with fake.FakeTensorMode() as mode:
        given = [mode.from_tensor(a) for a in (x, w)]
        alike(lambda: ours(*given), lambda: theirs(*given))


def test_deterministic_algorithms(on: str) -> None:
    x, w = random(on, 2, C, 9, 9), random(on, C, 1, 3, 3)
    torch.use_deterministic_algorithms(True)
    try:
        first, *others = [ours(x, w) for _ in range(CALLS)]
    finally:
        torch.use_deterministic_algorithms(False)
    check(first, x, w)
    assert all(torch.equal(first, other) for other in others)


def test_an_exported_module_takes_any_batch(on: str) -> None:
    model = tw.nn.Conv2d(C, C, 3, padding=1, groups=C, device=on).eval()
    batch = {0: torch.export.Dim("n", min=1, max=64)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(model, (random(on, 2, C, 9, 9),), dynamic_shapes=(batch,)).module()
    x = random(on, 5, C, 9, 9)
    torch.testing.assert_close(program(x), model(x))


def test_a_module_traced_by_fx(on: str) -> None:
    model = torch.nn.Sequential(
        tw.nn.Conv2d(C, C, 3, padding=1, groups=C, activation="relu"), tw.nn.MaxPool2d(2),
        tw.nn.ConvTranspose2d(C, C, 2, stride=2, groups=C), tw.nn.AvgPool2d(2),
    ).to(on)  # fmt: skip
    x = random(on, 2, C, 10, 10)
    torch.testing.assert_close(torch.fx.symbolic_trace(model)(x), model(x))
    with pytest.raises(UserError, match="conv2d: x is a Size"):
        tw.conv2d(x.shape, x)


def test_operations_are_counted(on: str) -> None:
    counter = pytest.importorskip("torch.utils.flop_counter")
    x, w, dense = random(on, 2, C, 9, 9), random(on, 2 * C, 1, 3, 3), random(on, C, 5, 3, 3)
    filters = dense.transpose(0, 1)

    def count(work: Callable[[], Any]) -> int:
        with counter.FlopCounterMode(display=False) as counted:
            work()
        return int(counted.get_total_flops())

    for mine, other in (
        (lambda: ours(x, w), lambda: theirs(x, w)),
        (lambda: tw.depthwise_conv2d(x, w.view(C, 2, 3, 3)), lambda: F.conv2d(x, w, groups=C)),
        (lambda: tw.conv_transpose2d(x, dense, stride=2), lambda: F.conv_transpose2d(x, dense, stride=2)),
        (lambda: tw.conv2d(x.movedim(1, 3), filters, layout="NHWC"), lambda: F.conv2d(x, filters)),
    ):
        assert count(mine) == count(other)


def test_threads_at_once(on: str) -> None:
    w, wrong = random(on, C, 1, 3, 3), []

    def work(index: int) -> None:
        try:
            x = random(on, 1, C, 10 + index % 3, 11)
            for _ in range(3 * CALLS):
                found = ours(x * 1, w)
            check(found, x, w)
        except BaseException as error:  # for the thread that waits
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_forked_process_computes() -> None:
    x, w = random("cpu", 2, C, 9, 9), random("cpu", C, 1, 3, 3)
    wanted = ours(x, w)
    child = os.fork()
    if not child:
        os._exit(0 if torch.equal(ours(x, w), wanted) else 1)
    assert os.waitpid(child, 0)[1] == 0


# What only a GPU has


@pytest.mark.cuda
def test_a_forked_process_gets_an_error() -> None:
    x, w = random("cuda", 2, C, 9, 9), random("cuda", C, 1, 3, 3)
    check(ours(x, w), x, w)
    child = os.fork()
    if not child:
        try:
            ours(x, w)
            torch.cuda.synchronize()
        except RuntimeError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    check(ours(x, w), x, w)


@pytest.mark.cuda
def test_a_result_that_does_not_fit_into_memory() -> None:
    x, w = random("cuda", 8, C, 1024, 1024), random("cuda", C, 1, 3, 3)
    ours(x[:1], w)
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 1e8) / total)
    try:
        for _ in range(2):
            with pytest.raises(torch.OutOfMemoryError):
                ours(x, w)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    check(ours(x[:1], w), x[:1], w)


@pytest.mark.cuda
@pytest.mark.parametrize("last", [False, True])
def test_more_than_2_to_the_31_elements(last: bool) -> None:
    channels, size = 64, 6000
    if torch.cuda.mem_get_info()[0] < 20e9:
        pytest.skip("the GPU has less than 20 GB free")
    x = torch.randn(1, channels, size, size, device="cuda", dtype=torch.float16)
    x = x.to(memory_format=torch.channels_last) if last else x
    w = random("cuda", channels, 1, 3, 3, dtype="float16")
    found = tw.conv2d(x, w, padding=1, groups=channels)
    for place in (slice(None, 10), slice(-10, None)):
        part = F.conv2d(x[:, -3:, place, place].double(), w[-3:].double(), groups=3)
        inner = found[:, -3:, place, place][:, :, 1:-1, 1:-1].double()
        torch.testing.assert_close(inner, part, rtol=2e-2, atol=2e-2)
    assert torch.equal(tw.max_pool2d(x, 2)[..., -5:, -5:], F.max_pool2d(x[..., -10:, -10:], 2))


@pytest.mark.cuda
def test_a_module_with_its_graphs() -> None:
    model = tw.nn.Conv2d(C, C, 3, padding=1, groups=C, device="cuda")
    x = random("cuda", 2, C, 9, 9).requires_grad_()
    wanted = torch.autograd.grad(model(x).square().sum(), x)[0]
    graphed = torch.cuda.make_graphed_callables(model, (x,))
    torch.testing.assert_close(torch.autograd.grad(graphed(x).square().sum(), x)[0], wanted)


@pytest.mark.cuda
def test_the_stream_of_an_interface_is_waited_for() -> None:
    class Shown:
        """Memory that a stream still writes."""

    shown: Any = Shown()
    x, stream = torch.zeros(1 << 20, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        x += 1
    shown.__cuda_array_interface__ = {**x.__cuda_array_interface__, "version": 3, "stream": stream.cuda_stream}
    np.testing.assert_array_equal(from_dlpack(shown).copyto(cuda()).numpy(), 1)


@pytest.mark.cuda
def test_a_model_that_accelerate_refuses() -> None:
    class Noisy(torch.nn.Module):  # type: ignore[misc]  # PyTorch is not followed
        """Something else every time."""

        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Conv2d(64, 64, 7, padding=3, groups=64)

        def forward(self, x: Any) -> Any:
            """The layer, and noise."""
            return self.layer(x) + torch.randn_like(x)

    model, x = Noisy().to("cuda").eval(), random("cuda", 8, 64, 56, 56)
    with pytest.raises(UserError, match="the accelerated model differs from the model"):
        tw.accelerate(model, x)
    assert type(model.layer) is torch.nn.Conv2d
