"""Hand-written convolutions in small groups: copies, products and stores in several forms, against PyTorch.

    python -m benchmarks.by_hand_groups [--parts NAME ...] [--compile-only] [--out DIR]

`by_hand_groups.cu` has the forms. Each part is a layer in a layout. Every variant is compiled, and checked against
float64 on poisoned output. It is timed in turns with PyTorch (both memory orders, `benchmark=True`), the shipped
record, and the best configurations of `topi/conv2d.grouped_rows` by its model. That template has the same products.
Variants that leave something out show the time of each part of a kernel. docs/notes/small-groups.md has the figures.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from benchmarks.convolution_sweep import TARGET, compiled
from benchmarks.timed_rows import TOLERANCE, Row, in_turns, workload_of
from tilewright.codegen.abi import CompiledProgram, KernelAbi
from tilewright.codegen.nvrtc import compile_cuda
from tilewright.functional.planning.compiler import recorded_selection
from tilewright.topi.templates import named

CONV2D = named("topi/conv2d")
CONV2D_ROWS = named("topi/conv2d.grouped_rows")

SOURCE = Path(__file__).with_suffix(".cu")
PARTS = {
    f"{row}-{mode.replace('/', '-')}": (name, mode)
    for row, name in (("b16", "grouped-b16-256x28-g32"), ("b1", "grouped-b1-128x56-g32"))
    for mode in ("float16", "bfloat16", "float16/NHWC")
}
"""Layers and modes of `benchmarks.convolution_rows`."""
LEFT_OUT = {0: "", 1: "without products", 2: "without loads", 3: "without stores"}
_SHOWN = ("copy", "rows_are", "store", "block_rows", "units", "row_warps", "left_out")
_LIKED = 4
"""Configurations of the packaged strategy that are timed too."""


@dataclass(frozen=True)
class Variant:
    """The choices of a kernel, by the names of `by_hand_groups.cu`."""

    images: int
    channels: int
    height: int
    width: int
    cg: int
    last: int
    copy: int
    rows_are: int
    store: int
    block_rows: int
    units: int
    row_warps: int
    left_out: int = 0
    kind: str = "f16"

    @property
    def column_warps(self) -> int:
        """Warps along columns, of 16 each."""
        return -(-self.width // 16)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.units * self.row_warps * self.column_warps

    @property
    def grid(self) -> int:
        """Blocks of the grid."""
        return self.images * self.channels // (8 * self.units) * (self.height // self.block_rows)

    @property
    def shared(self) -> int:
        """Bytes of shared memory: tile of the image, weights, results if they pass through, and unread parts."""
        image = 16 * self.units * (self.block_rows + 2) * (16 * self.column_warps + 2)
        if self.store != 2:
            results = 0
        elif self.last:
            results = 2 * self.block_rows * self.width * (8 * self.units + 8)
        else:
            results = 16 * self.units * (self.block_rows * 16 * self.column_warps + 8)
        return image + 144 * self.units * self.cg + results + 512

    @property
    def is_possible(self) -> bool:
        """Whether the parts divide each other, and addresses are aligned for the vectors."""
        own, rest = divmod(self.block_rows, self.row_warps)
        even = rest == 0 and self.height % self.block_rows == 0 and not (self.rows_are and own % 2)
        whole = self.copy != 8 or self.block_rows == self.height or self.width % 8 == 0
        return even and whole and self.threads <= 1024 and self.channels % (8 * self.units) == 0

    def source(self) -> str:
        """The text of the kernel."""
        given = {**asdict(self), "column_warps": self.column_warps}
        kind = given.pop("kind")
        defined = "".join(f"#define {name.upper()} {value}\n" for name, value in given.items())
        return defined + SOURCE.read_text(encoding="utf-8").replace("TYPE", kind)

    def __str__(self) -> str:
        return " ".join(f"{name} {getattr(self, name)}" for name in _SHOWN)


def variants(part: str) -> Iterator[Variant]:
    """The kernels of a part; of the plainest tilings also variants that leave something out."""
    name, mode = PARTS[part]
    of = workload_of(name, mode)
    last = int(of.layout == "NHWC")
    images, channels, height, width = of.shape
    kind = "bf16" if of.dtype == "bfloat16" else "f16"
    layer = (images, channels, height, width, channels // of.groups, last)
    copies = (0, 1) if last else (2, 4, 1, 8)
    forms = ((0, 2), (0, 0)) if last else ((0, 2), (1, 2), (1, 1), (1, 0))
    rows = [r for r in (2, 4, 7, 8, 14, 28) if height % r == 0]
    for units, block_rows, row_warps in product((1, 2, 4, 8), rows, (1, 2, 4, 7)):
        for copy, (rows_are, store) in product(copies, forms):
            made = Variant(*layer, copy, rows_are, store, block_rows, units, row_warps, kind=kind)
            if made.is_possible and _is_likely(made):
                yield made
                if copy in (1, 2) and store in (1, 2) and block_rows >= height // 8:
                    yield from (replace(made, left_out=what) for what in LEFT_OUT if what)


def _is_likely(made: Variant) -> bool:
    """Whether a block is neither tiny nor large, the grid fills a GPU, and whole sectors of memory are read."""
    sectors = made.units > 1 if made.last else made.units <= 2
    return sectors and 128 <= made.threads <= 512 and 100 <= made.grid <= 1100 and made.shared <= 56 << 10


def built(made: Variant) -> tuple[Variant, bytes, int]:
    """A variant, its cubin, and the registers of a thread."""
    found = compile_cuda(made.source(), "sm_90")
    (resources,) = found.resources.values()
    return made, found.cubin, resources.registers


def measure(part: str, kernels: list[tuple[Variant, bytes, int]]) -> dict[str, float]:
    """Check and time everything of a part: microseconds by title."""
    from tilewright.runtime.device import cuda

    row, on = Row(*PARTS[part]), cuda(0).require()
    timers: dict[str, Any] = {}
    for title, program in _packaged(part):
        timer, error = row.ours(program, False)
        timers[title] = timer if error <= TOLERANCE[row.of.dtype] else None
    for made, cubin, registers in kernels:
        abi = KernelAbi("grouped", ("buffer",) * 3, made.shared)
        launch = on.driver.load(CompiledProgram(str(TARGET), (), (abi,), "", cubin), 0)["grouped"]
        places = (t.data_ptr() for t in (row.data, row.weights, row.out))
        run = partial(launch, made.grid, 1, 1, made.threads, 1, 1, *places)
        row.out.fill_(float("nan"))
        row.torch.cuda.synchronize()
        run()
        on.sync()
        if made.left_out or row.error(False) <= TOLERANCE[row.of.dtype]:
            timers[f"{made} registers {registers}"] = on.driver.timer(on.index, run)
        else:
            print(f"{part}: {made} is wrong by {row.error(False)}", flush=True)
    timers.update({f"PyTorch {how}": timer for how, timer in row.theirs()})
    return in_turns(timers)


def _packaged(part: str) -> Iterator[tuple[str, CompiledProgram]]:
    """The record that ships, and the favourite of the packaged strategy's model."""
    name, mode = PARTS[part]
    of = workload_of(name, mode)
    known = recorded_selection([t for t in CONV2D.strategies if t.covers(of, TARGET)], of, TARGET)
    found = [] if known is None else [("record", known.template.name, known.config.index)]
    strategy = CONV2D_ROWS.strategy(TARGET)
    liked = [strategy.nearest(of, choices) for choices in strategy.rank(of)[:_LIKED]]
    found += [(f"{CONV2D_ROWS.name} {config}", CONV2D_ROWS.name, config.index) for config in liked]
    for title, template, index in found:
        _, program = compiled((name, mode, template, index or 0, False))
        if isinstance(program, CompiledProgram):
            yield title, program


def main() -> None:
    """Compile and measure the parts that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--out", type=Path, help="a folder for the times as JSON")
    given = parser.parse_args()
    with ProcessPoolExecutor() as pool:
        kernels = {part: list(pool.map(built, variants(part), chunksize=4)) for part in given.parts}
    for part, made in kernels.items():
        if given.compile_only:
            print(f"{part}: {len(made)} kernels, {max(prod((v.grid, v.threads)) for v, *_ in made):,} threads at most")
            continue
        times = measure(part, made)
        pytorch = min(us for title, us in times.items() if title.startswith("PyTorch"))
        print(f"{part}: µs, PyTorch ÷ it")
        for title, us in sorted(times.items(), key=lambda pair: pair[1]):
            print(f"{us:8.2f} {pytorch / us:6.2f}  {title}", flush=True)
        if given.out is not None:
            given.out.mkdir(parents=True, exist_ok=True)
            (given.out / f"by-hand-{part}.json").write_text(json.dumps(times, indent=1))


if __name__ == "__main__":
    main()
