"""The figures of `s.explain` beside the counters of the GPU.

    python -m benchmarks.counters [--ncu PATH] [--markdown] [NAME ...]

The figures of the documents' kernels are sectors per request of global loads and stores, the slowdown by bank
conflicts, shared memory, and occupancy. Nsight Compute (`ncu`) runs each kernel once, in a process of its own; it needs
a GPU, and the right to read its counters. Ends with status 1 if a number differs by more than a tenth. Without `ncu`,
the numbers of `s.explain` are printed alone.
"""

from __future__ import annotations

import argparse
import csv
import io
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

import tilewright as tw
from benchmarks.steps import Program, transpose
from examples import conv2d_hwcn
from tilewright.core.hardware import MemoryScope
from tilewright.explain.explanation_data import KernelExplanation
from tilewright.ladder.conv1d import Conv1dLadder
from tilewright.ladder.depthwise import DepthwiseLadder
from tilewright.ladder.rung import Ladder

ALLOWED = 0.1
"""How far apart two numbers may be, as a part of the counted one."""

_LOADS, _STORES = "l1tex__{}_pipe_lsu_mem_global_op_ld.sum", "l1tex__{}_pipe_lsu_mem_global_op_st.sum"
_WAVES = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
_STATIC, _DYNAMIC = "launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic"
_OCCUPANCY = "sm__maximum_warps_per_active_cycle_pct"

Metrics = Mapping[str, float]


@dataclass(frozen=True)
class Number:
    """One of the numbers that are compared: how it follows from counters, and from an explanation.

    Both are None if a kernel has no such accesses.
    """

    name: str
    metrics: tuple[str, ...]
    counted: Callable[[Metrics], float | None]
    explained: Callable[[KernelExplanation], float | None]


def _ratio(above: float, below: float) -> float | None:
    return above / below if below else None


def _sectors(stores: bool) -> Number:
    pattern = _STORES if stores else _LOADS
    sectors, requests = pattern.format("t_sectors"), pattern.format("t_requests")
    return Number(
        f"sectors per {'store' if stores else 'load'}",
        (sectors, requests),
        lambda found: _ratio(found[sectors], found[requests]),
        lambda kernel: _ratio(*_sums(kernel, MemoryScope.GLOBAL, stores, "requests")),
    )


def _conflicts(stores: bool) -> Number:
    waves, lost = (text.format("st" if stores else "ld") for text in (_WAVES, _CONFLICTS))
    return Number(
        f"bank conflicts of {'stores' if stores else 'loads'}",
        (waves, lost),
        lambda found: _ratio(found[waves], found[waves] - found[lost]),
        lambda kernel: _ratio(*_sums(kernel, MemoryScope.SHARED, stores, "least")),
    )


def _sums(kernel: KernelExplanation, scope: MemoryScope, stores: bool, below: str) -> tuple[float, float]:
    found = [a for a in kernel.counts.accesses.values() if a.scope is scope and a.stores is stores]
    return sum(access.units for access in found), sum(getattr(access, below) for access in found)


NUMBERS = (
    _sectors(stores=False),
    _sectors(stores=True),
    _conflicts(stores=False),
    _conflicts(stores=True),
    Number(
        "bytes of shared memory",
        (_STATIC, _DYNAMIC),
        lambda found: found[_STATIC] + found[_DYNAMIC],
        lambda kernel: float(kernel.shared_bytes),
    ),
    Number(
        "occupancy, %",
        (_OCCUPANCY,),
        lambda found: found[_OCCUPANCY],
        lambda kernel: None if kernel.occupancy is None else 100 * kernel.occupancy.share,
    ),
)


def programs() -> dict[str, Callable[[], Program]]:
    """The documents' kernels by name."""
    found: dict[str, Callable[[], Program]] = {}
    for title, ladder in {"conv1d": Conv1dLadder(), "depthwise": DepthwiseLadder()}.items():
        for rung in ladder.rungs:
            found[f"{title} {rung.name}"] = lambda ladder=ladder, rung=rung: _of_rung(ladder, rung.name)  # type: ignore[misc]
    for step in conv2d_hwcn.STEPS:
        found[f"conv2d {step.__name__}"] = lambda step=step: _of_step(step)  # type: ignore[misc]
    for kind in ("direct", "tile", "padded"):
        found[f"transpose {kind}"] = lambda kind=kind: transpose(kind, 4096)  # type: ignore[misc]
    return found


def _of_rung(ladder: Ladder, name: str) -> Program:
    made = next(rung for rung in ladder.rungs if rung.name == name).make(ladder)
    return made.schedule, list(made.args)


def _of_step(step: Callable[..., tuple[object, ...]]) -> Program:
    s, *args = step(conv2d_hwcn.Problem())
    return s, args


def run(name: str) -> None:
    """Run a kernel once, on random input."""
    s, args = programs()[name]()
    module, dev = tw.build(s, args, "cuda"), tw.cuda()
    rng = np.random.default_rng(0)
    shapes = [[int(extent) for extent in tensor.shape] for tensor in args]
    module(*[tw.nd.array(rng.uniform(-1, 1, shape).astype("float32"), dev) for shape in shapes])
    dev.sync()


def profile(name: str, ncu: str) -> dict[str, float]:
    """The counters of one run of a kernel."""
    metrics = ",".join(dict.fromkeys(metric for number in NUMBERS for metric in number.metrics))
    command = [ncu, "--csv", "--page", "raw", "--metrics", metrics, "--target-processes", "all",
               sys.executable, "-m", "benchmarks.counters", "--run", name]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"ncu could not profile {name}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return read(done.stdout)


def read(text: str) -> dict[str, float]:
    """The counters in the output of `ncu --csv --page raw`: heads, units, and one row per kernel; summed over kernels.

    Launch properties, which are the same for each launch of a kernel, come from the first.
    """
    table = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(table))))[1:]  # the first one has the units
    if not rows:
        raise SystemExit(f"ncu found no kernel:\n{text[-2000:]}")
    found: dict[str, float] = {}
    for metric in (metric for number in NUMBERS for metric in number.metrics):
        values = [float(row[metric].replace(",", "")) for row in rows]
        found[metric] = sum(values) if metric.startswith("l1tex") else values[0]
    return found


@dataclass(frozen=True)
class Row:
    """One number of one kernel; `counted` is None without hardware counters."""

    kernel: str
    number: str
    explained: float
    counted: float | None

    @property
    def agrees(self) -> bool:
        """Whether the two are within a tenth of each other."""
        return self.counted is None or abs(self.explained - self.counted) <= ALLOWED * abs(self.counted) + 1e-9


def compare(name: str, kernel: KernelExplanation, metrics: Metrics | None) -> Iterable[Row]:
    """The rows of one kernel: the numbers that it has."""
    for number in NUMBERS:
        explained = number.explained(kernel)
        counted = None if metrics is None else number.counted(metrics)
        if explained is not None and (metrics is None or counted is not None):
            yield Row(name, number.name, explained, counted)


def _shown(rows: Iterable[Row]) -> Iterable[str]:
    for row in rows:
        apart = f"{row.explained / row.counted - 1:+.1%}" if row.counted else "–"
        yield "{:22} {:24} {:>12} {:>12} {:>8}".format(row.kernel, row.number, *_figures(row), apart)


def _figures(row: Row) -> tuple[str, str]:
    return f"{row.explained:,.4g}", "–" if row.counted is None else f"{row.counted:,.4g}"


def markdown(rows: Iterable[Row]) -> Iterable[str]:
    """A table of one line per kernel: each number as explained, and as counted."""
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        found.setdefault(row.kernel, {})[row.number] = " / ".join(_figures(row))
    table = [["kernel", *(number.name for number in NUMBERS)]]
    table += [[name, *(cells.get(number.name, "–") for number in NUMBERS)] for name, cells in found.items()]
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    rule = [":" + "-" * (width - 1) if i == 0 else "-" * (width - 1) + ":" for i, width in enumerate(widths)]
    for line in (table[0], rule, *table[1:]):
        cells = (
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        yield f"| {' | '.join(cells)} |"


def main() -> int:
    """Explain, count, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="beginnings of the names of kernels; by default all")
    parser.add_argument("--ncu", default=shutil.which("ncu") or "", help="the program ncu; by default the one on PATH")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--run", metavar="NAME", help="run this kernel once, and do nothing else")
    given = parser.parse_args()
    if given.run:
        run(given.run)
        return 0
    counts = bool(given.ncu) and tw.cuda().exist
    if not counts:
        print("ncu or an NVIDIA GPU is missing: only the figures of explain follow", file=sys.stderr)
    rows: list[Row] = []
    for name, make in programs().items():
        if given.names and not name.startswith(tuple(given.names)):
            continue
        (kernel,) = make()[0].explain("cuda").kernels
        rows += compare(name, kernel, profile(name, given.ncu) if counts else None)
    for line in markdown(rows) if given.markdown else _shown(rows):
        print(line)
    wrong = [row for row in rows if not row.agrees]
    if counts:
        print(f"{len(rows) - len(wrong)} of {len(rows)} within {ALLOWED:.0%}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
