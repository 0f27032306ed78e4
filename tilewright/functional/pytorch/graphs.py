"""Timing of PyTorch's work on a GPU in CUDA graphs, which excludes the host's time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class TorchGraphTimer:
    """Times calls on the GPU, with one graph per number of calls."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._began, self._ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def __call__(self, number: int) -> float:
        """Return the seconds of `number` calls."""
        graph = self.graph(number)
        torch.cuda.synchronize()
        graph.replay()  # the clock starts while the GPU is busy with this replay, which hides the host's delay
        self._began.record()
        graph.replay()
        self._ended.record()
        self._ended.synchronize()
        return float(self._began.elapsed_time(self._ended)) * 1e-3

    def graph(self, number: int) -> torch.cuda.CUDAGraph:
        """Return the graph of `number` calls, recorded at the first request."""
        found = self._graphs.get(number)
        if found is None:
            found = self._graphs[number] = self._recorded(number)
        return found

    def _recorded(self, number: int) -> torch.cuda.CUDAGraph:
        # Before the recording, calls choose their algorithm and allocate memory: a recording permits neither.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # Without `stream`, PyTorch captures on a stream that it creates once, on the GPU that is current then. A graph
        # of work on any other GPU would be empty.
        with torch.cuda.graph(graph, stream=side):
            for _ in range(number):
                self._call()
        return graph
