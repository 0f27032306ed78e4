"""Times of kernels on an NVIDIA GPU, by graphs of many runs."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from .cuda_calls import bindings, call
from .driver import DeviceError

_GRAPH_NODES = 256
_SHORT = 0.02
"""Seconds below which the host's own delays would show in a measurement."""
_LEAD = 0.5e-3
"""Seconds of work that keep a GPU busy until a measurement is on its way."""


class Gpu(Protocol):
    """The operations of a GPU that a timer calls; `recording` is true while a graph is recorded."""

    recording: bool

    @property
    def stream(self) -> int: ...

    def __enter__(self) -> Any: ...

    def __exit__(self, *_: object) -> None: ...

    def set_stream(self, stream: int) -> None: ...


class GraphTimer:
    """Times runs recorded into a CUDA graph, so that the gaps between launches from Python do not count.

    The clock starts while the GPU is busy with an uncounted run or with `before`. Otherwise it would also measure how
    long the host takes to start the graph.
    """

    def __init__(self, gpu: Gpu, run: Callable[[], None], before: Callable[[], None] | None) -> None:
        self.gpu = gpu
        self.run = run
        self.before = before
        self.each = math.inf  # seconds of one run, once known
        self.graphs: dict[int, Any] = {}
        flags = bindings().CUstream_flags.CU_STREAM_NON_BLOCKING
        self.stream = call("cuStreamCreate", int(flags))
        self.began, self.ended = call("cuEventCreate", 0), call("cuEventCreate", 0)

    def __call__(self, number: int) -> float:
        """Return the seconds of that many runs."""
        with self.gpu:
            return self._seconds(number)

    def _seconds(self, number: int) -> float:
        call("cuCtxSynchronize")
        if self.before is not None:
            return math.fsum(self._apart(self.before) for _ in range(number))
        whole, rest = divmod(number, _GRAPH_NODES)
        sizes = [_GRAPH_NODES] * whole + [rest] * (rest > 0)
        graphs = [self._graph(size) for size in sizes]
        if self.each * number < _SHORT or not math.isfinite(self.each):
            call("cuGraphLaunch", self.graphs[self._lead()], self.stream)
        seconds = self._timed(graphs)
        self.each = seconds / number
        return seconds

    def _lead(self) -> int:
        """The number of runs of the shortest graph that keeps the GPU busy until the timed graphs arrive.

        If no graph is long enough, the longest; if the time of a run is not yet known, the shortest.
        """
        return min((size for size in self.graphs if size * self.each >= _LEAD), default=max(self.graphs))

    def _timed(self, graphs: list[Any]) -> float:
        call("cuEventRecord", self.began, self.stream)
        for graph in graphs:
            call("cuGraphLaunch", graph, self.stream)
        call("cuEventRecord", self.ended, self.stream)
        call("cuEventSynchronize", self.ended)
        return float(call("cuEventElapsedTime", self.began, self.ended)) * 1e-3

    def _apart(self, before: Callable[[], None]) -> float:
        """Time one run after `before`, both on the timer's stream."""
        graph = self._graph(1)
        with self._on_stream():
            before()
        return self._timed([graph])

    @contextmanager
    def _on_stream(self) -> Iterator[None]:
        kept = self.gpu.stream
        self.gpu.set_stream(int(self.stream))
        try:
            yield
        finally:
            self.gpu.set_stream(kept)

    def _graph(self, number: int) -> Any:
        """A graph of that many runs, ready to launch."""
        found = self.graphs.get(number)
        if found is not None:
            return found
        mode = bindings().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        collects = gc.isenabled()
        gc.disable()  # an array or a module that is collected frees memory, which would end the capture
        try:
            call("cuStreamBeginCapture", self.stream, mode)
            graph = self._recorded(number)
        finally:
            if collects:
                gc.enable()
        executable = call("cuGraphInstantiate", graph, 0)
        call("cuGraphDestroy", graph)
        call("cuGraphUpload", executable, self.stream)
        self.graphs[number] = executable
        return executable

    def _recorded(self, number: int) -> Any:
        """Record the runs in the capture that has begun; end it, and return its graph."""
        self.gpu.recording = True
        try:
            with self._on_stream():
                for _ in range(number):
                    self.run()
        finally:
            self.gpu.recording = False
            graph = call("cuStreamEndCapture", self.stream)
        return graph

    def __del__(self) -> None:
        try:
            for graph in self.graphs.values():
                call("cuGraphExecDestroy", graph)
            call("cuEventDestroy", self.began)
            call("cuEventDestroy", self.ended)
            call("cuStreamDestroy", self.stream)
        except (DeviceError, AttributeError, TypeError, ImportError):  # the process is ending, or the context has died
            pass
