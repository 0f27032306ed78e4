"""Rows of `benchmarks.convolution_rows` on the GPU: their tensors, expected results, and times in turns.

Small tensors are timed in several places of memory. The L2 cache holds all that a small kernel reads, and the addresses
of its tensors decide how loads share the slices of that cache. On a layer of 512 KB, the address of the bias makes the
same kernel take 1.00 to 1.05 times as long. The time in one place repeats within 0.2%, in any module, graph or process.
So a kernel is judged by its mean over places, not by the luck of an allocator's.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

from benchmarks.convolution_rows import WORKLOADS
from tilewright.codegen.abi import CompiledProgram
from tilewright.nd import from_dlpack
from tilewright.runtime.device import cuda
from tilewright.runtime.module import Module
from tilewright.topi.templates import named

CONV1D = named("topi/conv1d")
CONV2D = named("topi/conv2d")
DEPTHWISE = named("topi/depthwise")

FAMILIES = {"conv1d": CONV1D, "conv2d": CONV2D, "depthwise": DEPTHWISE}
TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2, "float64": 1e-12}
ROUNDS, CALLS, GRAPH = 9, 20, 256
"""Rounds in which everything is timed in turns; calls in a graph of PyTorch's; kernels in a graph of ours."""
PLACES, PLACE_ROUNDS = 8, 3
"""Places in memory of small tensors, the one that PyTorch gives among them, and the rounds for each."""
SMALL = 16 << 20
"""Bytes of a row's tensors up to which they are timed in several places."""
_APART, _ALIGNED = 4 << 20, 512
"""Bytes up to which a place begins after the tensor before it, and the alignment of PyTorch's allocator."""


def workload_of(name: str, mode: str) -> Any:
    """The workload of a row in a type and a layout, "float16/NHWC"; None if it has no layout."""
    operator, options = WORKLOADS[name]
    dtype, _, layout = mode.partition("/")
    if layout and operator == "conv1d":
        return None
    return FAMILIES[operator].kind.of(**options, dtype=dtype, **({"layout": layout} if layout else {}))


class Place(NamedTuple):
    """The tensors of a row somewhere in memory."""

    data: Any
    weights: Any
    bias: Any
    out: Any

    def arrays(self, fused: bool) -> list[Any]:
        """The arguments of a kernel."""
        return [from_dlpack(t) for t in (self.data, self.weights, *([self.bias] if fused else []), self.out)]


class Row:
    """A workload on the GPU: its tensors, the expected result, and all timed programs."""

    def __init__(self, name: str, mode: str) -> None:
        import torch

        self.name, self.mode, self.of = name, mode, workload_of(name, mode)
        self.torch = torch
        kind = getattr(torch, self.of.dtype)
        shapes = [[int(str(e)) for e in t.shape] for t in self.of.placeholders()]
        self.data, self.weights = ((torch.rand(s, device="cuda") * 2 - 1).to(kind) for s in shapes)
        self.bias = (torch.rand(self.of.channels, device="cuda") * 2 - 1).to(kind)
        self.out = torch.empty(self.of.out_shape, device="cuda", dtype=kind)
        self.times: list[dict[str, Any]] = []
        with torch.backends.cudnn.flags(enabled=False):
            ((_, exact), *_) = self.of.torch(self.data.double(), self.weights.double())
            self.right = exact().reshape(self.out.shape)

    @property
    def bytes(self) -> int:
        """The total bytes of the input, the weights and the result."""
        return sum(t.numel() * t.element_size() for t in (self.data, self.weights, self.out))

    @property
    def given(self) -> Place:
        """The tensors at PyTorch's places."""
        return Place(self.data, self.weights, self.bias, self.out)

    @cached_property
    def places(self) -> list[Place]:
        """Copies of the tensors in several places, the first as PyTorch gave them; the first alone if they are
        large."""
        count = PLACES if self.bytes <= SMALL else 1
        return [self.given, *(self._elsewhere(self.given, random.Random(seed)) for seed in range(1, count))]

    def _elsewhere(self, given: Place, rng: random.Random) -> Place:
        sizes = [t.numel() * t.element_size() for t in given]
        memory = self.torch.empty(sum(sizes) + len(sizes) * (_APART + _ALIGNED), dtype=self.torch.uint8, device="cuda")
        made, end = [], 0
        for tensor, size in zip(given, sizes, strict=True):
            start = -(-end // _ALIGNED) * _ALIGNED + rng.randrange(0, _APART, _ALIGNED)
            end = start + size
            made.append(memory[start:end].view(tensor.dtype).view(tensor.shape).copy_(tensor))
        return Place(*made)

    def error(self, fused: bool) -> float:
        """The relative error of the output in the L2 norm; infinite if elements were not written."""
        right = self.right
        if fused:
            shape = [1] * right.dim()
            shape[self.of.channel_axis or 0] = -1
            right = (right + self.bias.double().view(shape)).clamp(min=0)
        off = (self.out.double() - right).norm() / right.norm()
        return float("inf") if off.isnan() else float(off)

    def ours(self, program: CompiledProgram, fused: bool) -> tuple[Any, float]:
        """A timer of a program at PyTorch's places of the tensors, and its error on poisoned output."""
        module, arrays, on = Module(program), self.given.arrays(fused), cuda(0).require()
        self.out.fill_(float("nan") if self.out.is_floating_point() else 77)
        self.torch.cuda.synchronize()
        module(*arrays)
        on.sync()
        error = self.error(fused)
        self.torch.cuda.synchronize()
        return on.driver.timer(on.index, partial(module, *arrays)), error

    def timers(self, program: CompiledProgram, fused: bool, places: int = PLACES) -> list[Any]:
        """Timers of a program in the first places, one each."""
        module, on = Module(program), cuda(0).require()
        return [on.driver.timer(on.index, partial(module, *each.arrays(fused))) for each in self.places[:places]]

    def theirs(self) -> list[tuple[str, Any]]:
        """PyTorch's ways as timers, at its own places of the tensors."""
        return theirs(self.of, self.data, self.weights)

    def theirs_in_places(self) -> dict[str, list[Any]]:
        """PyTorch's ways as timers, one for each place."""
        found: dict[str, list[Any]] = {}
        for place in self.places:
            for how, timer in theirs(self.of, place.data, place.weights):
                found.setdefault(how, []).append(timer)
        return found


def theirs(of: Any, data: Any, weights: Any) -> list[tuple[str, Any]]:
    """PyTorch's ways to compute a workload as timers."""
    import torch

    found = []
    for how, call in of.torch(data, weights):
        with torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=False), torch.inference_mode():
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                for _ in range(3):
                    call()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            calls = 100 if of.flop < 5e8 else CALLS if of.flop < 4e9 else 4
            with torch.cuda.graph(graph):
                for _ in range(calls):
                    call()
        found.append((how, partial(replayed, torch, graph, calls)))
    return found


def replayed(torch: Any, graph: Any, calls: int, number: int) -> float:
    """Seconds of a number of calls, by replays of a graph that has `calls`."""
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    runs = max(1, number // calls)
    graph.replay()
    began.record()
    for _ in range(runs):
        graph.replay()
    ended.record()
    ended.synchronize()
    return float(began.elapsed_time(ended)) * 1e-3 / (runs * calls) * number


def in_turns(timers: dict[Any, Any], rounds: int = ROUNDS) -> dict[Any, float]:
    """Microseconds a call, medians of rounds in which everything is timed once."""
    able = {who: timer for who, timer in timers.items() if timer is not None}
    runs = {}
    for who, timer in able.items():
        once = timer(GRAPH) / GRAPH if timer(4) < 2e-3 else 1e-3
        runs[who] = max(1, round(3e-3 / once / GRAPH)) * GRAPH if once < 2e-5 else max(4, int(4e-3 / once))
    seconds: dict[Any, list[float]] = {who: [] for who in able}
    for _ in range(rounds):
        for who, timer in able.items():
            seconds[who].append(timer(runs[who]) / runs[who])
    return {who: statistics.median(values) * 1e6 for who, values in seconds.items()}


def in_places(timers: dict[Any, list[Any]]) -> dict[Any, list[float]]:
    """Microseconds a call in each place; each is timed in turns with all others."""
    rounds = PLACE_ROUNDS if max(map(len, timers.values())) > 1 else ROUNDS
    found = in_turns(dict(_each(timers)), rounds)
    return {who: [found[who, at] for at in range(len(own))] for who, own in timers.items()}


def _each(timers: dict[Any, list[Any]]) -> Iterator[tuple[tuple[Any, int], Any]]:
    """The timers of a place beside each other, so that compared programs are timed within milliseconds."""
    for at in range(max(map(len, timers.values()))):
        yield from (((who, at), own[at]) for who, own in timers.items() if at < len(own))
