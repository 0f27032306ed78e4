"""Hand-written kernels for depthwise layers of small images: python -m benchmarks.by_hand_small_images [LAYER ...]

Rows of such images are shorter than a sector of memory, but planes lie one after another. So a block copies whole
planes to shared memory and computes them there. Variants of one kernel show which choices pay. They differ in the
copies of planes (ordinary loads, `cp.async`, or the bulk copies of sm_90) and the number of their buffers. They also
differ in the planes, images and results per block and thread, and in the stores of results. Each variant is checked
against float64 and timed in CUDA graphs. The best variants, overall and per kind and number of copies, are then timed
in turns with PyTorch in both memory orders. So are the first configurations of `topi/depthwise.planes`, which generates
such kernels. A line has the time, PyTorch's time divided by it, and the time at the rate of a copy divided by it.

docs/notes/planes.md has their times on an H200; `tests/benchmarks/test_by_hand_small_images.py` compiles them.
"""

from __future__ import annotations

import argparse
import heapq
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from tilewright.codegen.abi import CompiledProgram, KernelAbi
from tilewright.codegen.nvrtc import compile_cuda
from tilewright.driver import build
from tilewright.topi.templates import Depthwise, named
from tilewright.topi.templates.thread_tiles import BYTES

DEPTHWISE_PLANES = named("topi/depthwise.planes")

LAYERS = {
    "mbv2-b128-dw576x14s2": ((128, 576, 14, 14), 3, 2),
    "b128-dw960x7": ((128, 960, 7, 7), 3, 1),
    "b128-dw768x7-k7": ((128, 768, 7, 7), 7, 1),
    "b32-dw960x7-k5": ((32, 960, 7, 7), 5, 1),
    "b32-dw384x14": ((32, 384, 14, 14), 3, 1),
    "b32-dw384x14-k7": ((32, 384, 14, 14), 7, 1),
    "b1-dw960x7": ((1, 960, 7, 7), 3, 1),
}
ARCH, TARGET = "sm_90", "cuda -arch=sm_90"
SOURCE = Path(__file__).with_suffix(".cu")
LOADS, STORES = ("load", "cp.async", "bulk"), ("straight", "vectors", "bulk", "elements")
ALLOWED = {"float32": 1e-5, "float16": 2e-3}
COPY_RATE = 4.25e12
"""Bytes per second that a copy moves on an H200."""
_SHARED, _LINE, _LEFT = 220 * 1024, 128, 5


@dataclass(frozen=True)
class Variant:
    """One kernel.

    A block copies `planes` channels of `images` images one after another, into `copies` places, as `load` says. Its
    threads compute `rows` by `columns` results each, which leave as `store` says.
    """

    planes: int
    images: int
    rows: int
    columns: int
    copies: int
    load: str
    store: str

    def threads(self, of: Depthwise) -> int:
        """Return the threads of a block: whole warps, a thread for each tile if these are not too many."""
        return min(512, -(-self._tiles(of) // 32) * 32)

    def _tiles(self, of: Depthwise) -> int:
        return self.planes * -(-of.places[0] // self.rows) * -(-of.places[1] // self.columns)

    def bytes(self, of: Depthwise) -> tuple[int, int]:
        """Return the bytes of a block's planes of one image, before and after."""
        size = self.planes * BYTES[of.dtype]
        return size * prod(of.shape[2:]), size * prod(of.places)

    def shared_bytes(self, of: Depthwise) -> int:
        """Return the shared memory of a block; the last line has the barriers of bulk copies."""
        held, results = (-(-size // _LINE) * _LINE for size in self.bytes(of))
        return self.copies * held + {"straight": 0, "bulk": 2}.get(self.store, 1) * results + _LINE

    def is_possible(self, of: Depthwise) -> bool:
        """Whether it divides the layer, and moves vectors of 16 bytes only."""
        whole = of.shape[0] % self.images == 0 and of.shape[1] % self.planes == 0
        aligned = not any(size % 16 for size in self.bytes(of))
        return whole and aligned and self.copies <= self.images and self.shared_bytes(of) <= _SHARED

    def source(self, of: Depthwise) -> str:
        """Return the CUDA source of the kernel `planes`."""
        chunk = next(n for n in (8, 4, 2, 1) if of.shape[3] % n == 0 and n * BYTES[of.dtype] <= 16)
        half, load, store = of.dtype == "float16", LOADS.index(self.load), STORES.index(self.store)
        numbers = {
            **dict(zip("CHW", of.shape[1:], strict=True)),
            **dict(zip(("OH", "OW"), of.places, strict=True)),
            "R": of.kernel[0],
            "STRIDE": of.stride[0],
            "PAD": of.padding[0],
            "K": self.planes,
            "L": self.images,
            "TY": self.rows,
            "TX": self.columns,
            "COPIES": self.copies,
            "THREADS": self.threads(of),
            "CHUNK": chunk,
        }
        chosen = [f"#define {name} {int(n)}" for name, n in (("HALF", half), ("LOAD", load), ("STORE", store))]
        constants = [f"constexpr int {name} = {number};" for name, number in numbers.items()]
        return "\n".join((*chosen, *constants, SOURCE.read_text(encoding="utf-8")))

    def program(self, of: Depthwise, compiled: bool = True) -> CompiledProgram:
        """Return the program for the runtime: the kernel `planes`, compiled for `ARCH` unless the source is enough."""
        source, kernel = self.source(of), KernelAbi("planes", ("buffer",) * 3, self.shared_bytes(of))
        if not compiled:
            return CompiledProgram(TARGET, (), (kernel,), source)
        made = compile_cuda(source, ARCH)
        return CompiledProgram(TARGET, (), (kernel,), source, made.cubin, made.resources, made.log)

    def extents(self, of: Depthwise) -> tuple[int, ...]:
        """Return the extents of the grid and of a block."""
        return prod(of.shape[:2]) // (self.planes * self.images), 1, 1, self.threads(of), 1, 1

    def __str__(self) -> str:
        of = f"{self.planes} planes, {self.images} images, {self.copies} copies, {self.rows}x{self.columns} results"
        return f"by hand: {of}, {self.load}, {self.store}"


def layer(name: str, dtype: str) -> Depthwise:
    """Return a layer as a workload."""
    shape, kernel, stride = LAYERS[name]
    return Depthwise.of(shape, kernel, stride, dtype=dtype)


def variants(of: Depthwise) -> Iterator[Variant]:
    """Variants of a layer: some hundred with every way to load and to store."""
    rows, columns = of.places
    tiles = [(rows, columns), (rows, 1), (1, columns), (rows // 2, columns), (1, 1)]
    for (down, across), planes in product(dict.fromkeys(tiles), (8, 16, 32, 64)):
        for images, copies in ((1, 1), (4, 2), (8, 3), (8, 4), (16, 4)):
            for load, store in product(LOADS, STORES):
                found = Variant(planes, images, down, across, copies, load, store)
                scattered = store == "straight" and across == columns > 1
                kept = load == "load" and copies > 1  # nothing would arrive meanwhile
                small = found.threads(of) >= 32 and down * across < 100
                if found.is_possible(of) and small and not scattered and not kept:
                    yield found


Made = tuple[str, Any, CompiledProgram]
"""A kernel's description, the extents of its launch (None: an entry that takes arrays), and the program."""


def compiled(job: tuple[Depthwise, Variant | int]) -> Made:
    """Compile a variant, or the configuration of `topi/depthwise.planes` with that place in the order of its model."""
    of, which = job
    if isinstance(which, Variant):
        return str(which), which.extents(of), which.program(of)
    strategy = DEPTHWISE_PLANES.gpu
    choices = strategy.rank(of)[which]
    built = build(*DEPTHWISE_PLANES.program(strategy.nearest(of, choices), of, None), TARGET)
    return (
        "topi/depthwise.planes: " + ", ".join(f"{value} {name}" for name, value in choices.items()),
        None,
        built.program,
    )


class Bench:
    """A layer on the GPU: its tensors, and the expected result."""

    def __init__(self, of: Depthwise) -> None:
        import torch

        from tilewright.runtime.device import cuda

        self.of, self.torch, self.on = of, torch, cuda(0).require()
        kind = getattr(torch, of.dtype)
        self.x = (torch.rand(of.shape, device="cuda") * 2 - 1).to(kind)
        self.w = (torch.rand(of.weights_shape, device="cuda") * 2 - 1).to(kind)
        self.y = torch.empty(of.out_shape, device="cuda", dtype=kind)
        with torch.backends.cudnn.flags(enabled=False):
            ((_, exact), *_) = of.torch(self.x.double(), self.w.double())
            self.right = exact()

    def timer(self, made: Made) -> tuple[Any, float]:
        """Return a timer of a program, and the relative error of its result."""
        from tilewright.nd import from_dlpack
        from tilewright.runtime.module import Module

        _, extents, program = made
        given = (self.x, self.w, self.y)
        if extents is None:
            run = partial(Module(program), *map(from_dlpack, given))
        else:
            run = partial(self.on.driver.load(program, 0)["planes"], *extents, *(t.data_ptr() for t in given))
        self.y.fill_(float("nan"))
        self.torch.cuda.synchronize()
        run()
        self.on.sync()
        error = float((self.y.double() - self.right).norm() / self.right.norm())
        return self.on.driver.timer(self.on.index, run), error


def kind_of(title: str) -> str:
    """Return the part of a title about the arrival of planes: the way to load of a kernel by hand, and the number of
    copies."""
    source, _, choices = title.partition(": ")
    told = [part for part in choices.split(", ") if part.endswith("copies") or part in LOADS]
    return ", ".join((source, *told))


def measure(of: Depthwise, programs: Iterator[Made]) -> Iterator[str]:
    """Yield a line for each program that is wrong, then one for each that is among the best, and for PyTorch's."""
    from benchmarks.timed_rows import in_turns, theirs

    bench = Bench(of)
    best: list[tuple[float, str, Any]] = []
    kinds: dict[str, tuple[float, str, Any]] = {}
    for made in programs:
        timer, error = bench.timer(made)
        if not error < ALLOWED[of.dtype]:
            yield f"WRONG by {error:.1e}: {made[0]}"
            continue
        seconds = min(timer(16) / 16 for _ in range(3))
        found = seconds, made[0], timer
        best = heapq.nsmallest(_LEFT, [*best, found], key=lambda each: each[0])
        kind = kind_of(made[0])
        kinds[kind] = min(kinds.get(kind, found), found, key=lambda each: each[0])
    timers = {name: timer for _, name, timer in [*best, *kinds.values()]}
    timers |= {f"PyTorch, {how}": timer for how, timer in theirs(of, bench.x, bench.w)}
    times = in_turns(timers)
    rival = min(us for name, us in times.items() if name.startswith("PyTorch"))
    moved = (prod(of.shape) + prod(of.out_shape)) * BYTES[of.dtype] / COPY_RATE * 1e6
    for name, us in times.items():
        yield f"{us:8.2f} µs  {rival / us:5.2f}  {moved / us:5.2f}  {name}"


def main() -> None:
    """Measure the layers that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="LAYER", help=f"of {', '.join(LAYERS)}; by default all")
    parser.add_argument("--types", nargs="+", default=["float32", "float16"], choices=list(ALLOWED))
    parser.add_argument("--generated", type=int, default=40, metavar="N", help="configurations of the strategy")
    parser.add_argument("--compile-only", action="store_true")
    given = parser.parse_args()
    for name in given.names or LAYERS:
        if name not in LAYERS:
            parser.error(f"the layer {name!r} is none of {', '.join(LAYERS)}")
    layers = [layer(name, dtype) for name in given.names or LAYERS for dtype in given.types]
    jobs: dict[Depthwise, list[tuple[Depthwise, Variant | int]]] = {
        of: [*((of, v) for v in variants(of)), *((of, i) for i in range(min(given.generated, _count(of))))]
        for of in layers
    }
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        done = pool.map(compiled, (job for own in jobs.values() for job in own), chunksize=4)
        for of, own in jobs.items():
            programs = (next(done) for _ in own)
            print(f"{of.title}: {len(own)} kernels", flush=True)
            for line in (made[0] for made in programs) if given.compile_only else measure(of, programs):
                print(line, flush=True)


def _count(of: Depthwise) -> int:
    return len(DEPTHWISE_PLANES.gpu.rank(of))


if __name__ == "__main__":
    main()
