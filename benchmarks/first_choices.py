"""The first configuration of depthwise and 1-D rows beside the best known one, the record that ships, timed in turns.

    python -m benchmarks.first_choices [--modes float32 float16] [--seconds 60] [--out FILE]

A first configuration is used by calls without a record. Both are compiled by all processors before any is timed, and
checked against float64 on poisoned output.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from math import prod
from pathlib import Path

from benchmarks.convolution_rows import DENSE, WORKLOADS
from benchmarks.convolution_sweep import TARGET, Job, compiled
from benchmarks.timed_rows import FAMILIES, TOLERANCE, Row, in_turns, workload_of
from tilewright.functional.planning.compiler import recorded_selection

MODES = ("float32", "float16", "bfloat16", "float16/NHWC")
_OTHERS = ("grouped", "replk", *DENSE)
"""How the names of rows begin that are neither depthwise nor 1-D, or too long for a short run."""


def pair_of(name: str, mode: str) -> dict[str, Job]:
    """Return the first configuration of a row and the recorded_selection one; only the first if that is the record."""
    family, of = FAMILIES[WORKLOADS[name][0]], workload_of(name, mode)
    template, first = family.choose(of, TARGET)
    made = {"first": (name, mode, template.name, first.index, False)}
    known = recorded_selection([t for t in family.strategies if t.covers(of, TARGET)], of, TARGET)
    if known is not None and (known.template.name, known.config.index) != (template.name, first.index):
        made["best known"] = (name, mode, known.template.name, known.config.index, False)
    return made


def main() -> None:
    """Print a line for each row and mode, and the geometric mean of each mode."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--modes", nargs="+", default=MODES)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this many")
    parser.add_argument("--out", type=Path, default=Path("first-choices.json"))
    given = parser.parse_args()
    began, lines = time.perf_counter(), []
    rows = [name for name in WORKLOADS if not name.startswith(_OTHERS)]
    names = [(name, mode) for mode in given.modes for name in rows if workload_of(name, mode) is not None]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        pairs = list(pool.map(pair_of, *zip(*names, strict=True)))
        done = pool.map(compiled, [job for pair in pairs for job in pair.values()])
        print(f"{'':24} {'':13} {'first':>8} {'best':>8} {'part':>5}")
        for (name, mode), pair in zip(names, pairs, strict=True):
            programs = {who: next(done)[1] for who in pair}
            if time.perf_counter() - began > given.seconds:
                continue
            row, timers = Row(name, mode), {}
            for who, program in programs.items():
                assert not isinstance(program, str), f"{name} {mode} {who}: {program}"
                timers[who], error = row.ours(program, False)
                assert error <= TOLERANCE[row.of.dtype], f"{name} {mode} {who}: off by {error}"
            line = in_turns(timers)
            best = min(line.values())
            lines.append({"row": name, "mode": mode, **line, "part": best / line["first"]})
            print(f"{name:24} {mode:13} {line['first']:8.2f} {best:8.2f} {best / line['first']:5.2f}", flush=True)
    given.out.write_text(json.dumps(lines))
    for mode in given.modes:
        parts = [float(line["part"]) for line in lines if line["mode"] == mode]
        if parts:
            mean = prod(parts) ** (1 / len(parts))
            print(f"{mode:14} geometric mean {mean:.3f} over {len(parts)}, least {min(parts):.2f}")


if __name__ == "__main__":
    main()
