"""Automatic schedules of layers beside tuned kernels: python -m benchmarks.automatic_layers [ROW ...] [--trials 64]

`tw.auto_schedule` schedules the declarations of the rows of `benchmarks.convolution_rows`. "ranked" is without a
measurement, "tuned" with `--trials`, and "rules" without the packaged strategies. The speed is the time of the kernel
that the shipped records chose, divided by the time of the schedule. Dense layers have matrix instructions, in float16
and, as `--modes tf32`, in rounded float32. Results are checked against float64, and all sides are timed in turns.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import tilewright as tw
from benchmarks.convolution_rows import DENSE, WORKLOADS
from benchmarks.likely_configurations import TARGET
from benchmarks.stored_runs import run_of, write
from benchmarks.timed_rows import FAMILIES, TOLERANCE, Row, in_turns, workload_of
from tilewright.auto.program import AutomaticProgram
from tilewright.codegen.abi import CompiledProgram
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.driver import build
from tilewright.functional.planning.compiler import recorded_selection

_ROUNDED = 2e-3
"""The error of sums of products of rounded float32."""


class Built(NamedTuple):
    """The programs of a row by their side, the strategy of the shipped record, and the seconds of the search."""

    programs: dict[str, CompiledProgram]
    strategy: str
    seconds: float = 0.0


def rows_of(modes: Sequence[str], only: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the names of rows with their modes; plain float32 has no dense rows."""
    for mode in modes:
        for name in WORKLOADS:
            dense = name.startswith(DENSE)
            if (mode == "float16" or dense == (mode == "tf32")) and (not only or name in only):
                yield name, mode


def of_mode(mode: str) -> tuple[str, str]:
    """Return the type and the precision of a mode."""
    return ("float32", "tf32") if mode == "tf32" else (mode, "fp32")


def declared(name: str, mode: str) -> list[Any]:
    """Return the tensors of a row as its plainest strategy declares them."""
    family, of = FAMILIES[WORKLOADS[name][0]], workload_of(name, of_mode(mode)[0])
    for target in (TARGET, Target("llvm")):
        try:
            return list(family.program(family.default_config(of, target), of, target)[1])
        except UserError:
            continue
    raise UserError(f"no strategy declares {name}", primitive="automatic_layers", fix="name another row")


def built(row: tuple[str, str], trials: int = 0) -> Built:
    """Build all sides of a row."""
    (name, mode), args = row, declared(*row)
    dtype, precision = of_mode(mode)
    of, sides = workload_of(name, dtype), {"ranked": tw.auto_schedule(args, TARGET, precision=precision)}
    program = AutomaticProgram([args[-1].op], TARGET, precision)
    by_rules = [next(way for way in ways if way.name.split()[0] not in FAMILIES) for ways in program.ways]
    sides["rules"] = program.schedule(by_rules)
    began = time.perf_counter()
    if trials:
        sides["tuned"] = tw.auto_schedule(args, TARGET, precision=precision, trials=trials)
    took = time.perf_counter() - began
    family = FAMILIES[WORKLOADS[name][0]]
    template, config = family.choose(of, TARGET)
    known = recorded_selection([t for t in family.of_precision(precision) if t.covers(of, TARGET)], of, TARGET)
    if known is not None:
        template, config = known.template, known.config
    programs = {side: build(s, args, TARGET).program for side, s in sides.items()}
    s, own = template.program(config, of, TARGET)
    programs["packaged"] = build(s, own, TARGET).program
    return Built(programs, template.strategy_name, took)


def measured(row: tuple[str, str], of: Built) -> dict[str, Any]:
    """Check and time the sides of a row, in µs."""
    (name, mode), timers, wrong = row, dict[str, Any](), []
    dtype, precision = of_mode(mode)
    on_gpu = Row(name, dtype)
    for side, program in of.programs.items():
        timers[side], error = on_gpu.ours(program, False)
        if not error <= (_ROUNDED if precision == "tf32" else TOLERANCE[dtype]):
            wrong.append(f"{side} is wrong: {error:.1e}")
    times = {side: round(each, 2) for side, each in in_turns(timers).items()}
    return {"row": name, "mode": mode, **times, "seconds": round(of.seconds, 1), "failure": "; ".join(wrong)}


def _means(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Lines with the geometric means of the speed, of our own rows and of the dense ones in each mode."""
    kinds = {row["row"].startswith(DENSE) * row["mode"] for row in rows}
    for kind in sorted(kinds):
        own = [row for row in rows if row["row"].startswith(DENSE) * row["mode"] == kind]
        for side in ("ranked", "rules", "tuned"):
            speeds = [row["packaged"] / row[side] for row in own if side in row]
            if speeds:
                mean, title = statistics.geometric_mean(speeds), f"dense {kind}" if kind else "depthwise, grouped, 1-D"
                yield f"{title}, {side}: geometric mean {mean:.2f}, least {min(speeds):.2f}, of {len(speeds)}"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*", help="names of rows; by default all")
    parser.add_argument("--modes", nargs="+", default=["float32", "float16", "tf32"])
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no row later than that")
    parser.add_argument("--store", help="a name in benchmarks/data under which to store the run")
    given = parser.parse_args()
    until, wanted = time.monotonic() + given.seconds, list(rows_of(given.modes, given.rows))
    rows: list[dict[str, Any]] = []
    device = tw.cuda()
    made = run_of("python -m benchmarks.automatic_layers", device.name if device.exist else "none")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=multiprocessing.get_context("spawn")) as pool:
        each = pool.map(built, wanted) if not given.trials else map(partial(built, trials=given.trials), wanted)
        for row, found in zip(wanted, each, strict=False):
            rows.append(measured(row, found) if device.exist else {"row": row[0], "mode": row[1]})
            print(*(f"{key} {value}" for key, value in rows[-1].items() if value), found.strategy, flush=True)
            if given.store:
                write(given.store, made, rows)
            if time.monotonic() > until:
                pool.shutdown(cancel_futures=True)
                break
    print("\n".join(_means(rows)) if device.exist else "no GPU: the kernels compile, and nothing is timed")


if __name__ == "__main__":
    main()
