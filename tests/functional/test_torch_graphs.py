"""Graphs of PyTorch's work: by a `torch.cuda` of two GPUs that computes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
from tilewright.functional.pytorch import graphs as torch_graphs


class Stream:
    """A stream of the GPU that is current when it is made, and what has been launched into it."""

    def __init__(self, cuda: Cuda) -> None:
        self.gpu = cuda.gpu
        self.launched = 0

    def wait_stream(self, other: Stream) -> None:
        assert other.gpu == self.gpu


class Cuda:
    """`torch.cuda`: a current GPU, a current stream for each, and one stream for all captures that name none."""

    def __init__(self) -> None:
        self.gpu = 0
        self.streams = []
        for self.gpu in (0, 1):
            self.streams.append(Stream(self))
        self.of_captures: Stream | None = None
        self.captured: list[int] = []
        """The launches that each capture has recorded."""

    def launch_on(self, gpu: int) -> Callable[[], None]:
        """Return work on the current stream of a GPU."""

        def work() -> None:
            self.streams[gpu].launched += 1

        return work

    def namespace(self) -> SimpleNamespace:
        """What `torch.cuda` has of this."""
        return SimpleNamespace(
            Stream=lambda: Stream(self),
            Event=lambda enable_timing: object(),
            CUDAGraph=object,
            current_stream=lambda: self.streams[self.gpu],
            stream=self.stream,
            graph=self.graph,
        )

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        """Make a stream current on its GPU, and this GPU current."""
        before, self.gpu = self.gpu, stream.gpu
        kept, self.streams[stream.gpu] = self.streams[stream.gpu], stream
        yield
        self.gpu, self.streams[stream.gpu] = before, kept

    @contextmanager
    def graph(self, graph: object, stream: Stream | None = None) -> Iterator[None]:
        """Capture; the stream of captures is made once, on the GPU that is current then."""
        self.of_captures = self.of_captures or Stream(self)
        on = stream or self.of_captures
        before = on.launched
        with self.stream(on):
            yield
        self.captured.append(on.launched - before)


def test_a_graph_records_the_work_of_each_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda()
    monkeypatch.setattr(torch_graphs, "torch", SimpleNamespace(cuda=cuda.namespace()))
    for gpu in (1, 0, 1):
        cuda.gpu = gpu
        timer = torch_graphs.TorchGraphTimer(cuda.launch_on(gpu))
        for number in (1, 5):
            timer.graph(number)
        assert cuda.gpu == gpu
    assert cuda.captured == [1, 5] * 3
