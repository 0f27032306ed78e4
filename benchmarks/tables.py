"""Record tables of measured configurations, by which the machine model and every search are judged.

    python -m benchmarks.tables --seconds 150 --out DIR [NAME ...]
    python -m benchmarks.tables --choose 36 --chosen FILE [NAME ...]
    python -m benchmarks.tables --seconds 60 --out DIR --chosen FILE

Each space gets its share of the time, and one file in the format of logs, DIR/NAME.log. It has configurations in a
random order that the seed decides. Each has the registers, spills and shared memory of its kernel. A file that exists
is resumed. `tests/data/tables` holds the compressed output of these commands on an H200. `--choose` writes, for each
packaged template, its first configuration, its neighbours in one or two knobs, and configurations that the model ranks
high. It needs no GPU; with the file alone, these are measured, all tables in one go.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import tune_conv1d  # noqa: F401  # each defines a template
import tune_conv2d  # noqa: F401  # likewise
import tune_depthwise  # noqa: F401  # likewise

from benchmarks.convolution_rows import WORKLOADS
from tilewright.cli.tune import OPERATORS
from tilewright.core.target import Target
from tilewright.measure.job import Job
from tilewright.measure.option import LocalBuilder, LocalRunner
from tilewright.measure.outcome import Failure, Measured, Outcome, to_result
from tilewright.measure.session import MeasureSession
from tilewright.topi.templates import named
from tilewright.tune.model.ranking import rank
from tilewright.tune.model.scoring import Scorer
from tilewright.tune.records.format import COMPILER, MeasureInput, Notes, encode
from tilewright.tune.session.prefilter import Prefilter
from tilewright.tune.space.config import Config
from tilewright.tune.space.moves import Moves
from tilewright.tune.task import Task, freeze

_BATCH, _LOOKED_AT = 48, 256


@dataclass(frozen=True)
class Table:
    """One space: its task, the part that is measured, and its share of the time."""

    template: str
    args: tuple[Any, ...]
    share: float
    keep: Callable[[Config], bool] | None = None

    def task(self, target: Target) -> Task:
        """Return the task on a target."""
        return Task(self.template, freeze(self.args), target)


def _row(name: str, share: float) -> Table:
    operator, options = WORKLOADS[name]
    template = OPERATORS[operator]
    return Table(template.name, template.kind.of(**options).args, share)


def _by(template: str, share: float = 0.5, **options: Any) -> Table:
    """Return the table of a layer by one of the packaged strategies."""
    return Table(template, named(template).kind.of(**options).args, share)


def _cut_filters(config: Config) -> bool:
    """Keep configurations that differ in filters: rows, columns and sums as some of the best known configurations have
    them."""
    fixed = {"tile_y": [-1, 1, 7, 1], "tile_x": [-1, 1, 7, 1], "tile_ry": [-1, 1, 3], "tile_rx": [-1, 3, 1]}
    return (
        all(config[name].data == data for name, data in fixed.items())
        and config["tile_rc"].data in ([-1, 16, 8], [-1, 4, 4], [-1, 2, 4])
        and (config["auto_unroll_max_step"].data, config["unroll_explicit"].data) == (1500, 1)
    )


def _cut_sums(config: Config) -> bool:
    """Keep configurations that differ in the order of sums: the tile of the results as one configuration has it."""
    fixed = {"tile_f": [-1, 1, 2, 2], "tile_y": [-1, 1, 7, 1], "tile_x": [-1, 1, 7, 1]}
    return (
        all(config[name].data == data for name, data in fixed.items())
        and config["tile_ry"].data in ([-1, 1, 3], [-1, 3, 1])
        and config["tile_rx"].data in ([-1, 1, 3], [-1, 3, 1])
        and config["auto_unroll_max_step"].data in (512, 1500)
        and config["unroll_explicit"].data == 1
    )


def _cut_line(config: Config) -> bool:
    """Keep configurations without virtual threads that unroll up to 64 steps."""
    return config["tile"].data[1] == 1 and config["auto_unroll_max_step"].data == 64


def _cut_threads(config: Config) -> bool:
    """Keep small tiles of 2 to 16 results of a thread, in blocks of 64 to 256, that all sum alike."""
    (fv, ft, fn), (yv, yt, yn) = config["tile_f"].data[1:], config["tile_y"].data[1:]
    if fv > 2 or fn > 4 or ft > 32 or yv > 1 or yn > 2:
        return False
    xv, xt, xn = config["tile_x"].data[1:]
    if xv > 2 or xn > 2 or not (2 <= fv * fn * yn * xv * xn <= 16 and 64 <= ft * yt * xt <= 256):
        return False
    fixed = {"tile_rc": [-1, 1, 4], "tile_ry": [-1, 3, 1], "tile_rx": [-1, 3, 1],
             "auto_unroll_max_step": 512, "unroll_explicit": 1}  # fmt: skip
    return all(config[name].data == data for name, data in fixed.items())


def _cut_steps(config: Config) -> bool:
    """Keep configurations that differ in the order and the unrolling of sums, in four tiles of the results."""
    return (
        config["tile_f"].data in ([-1, 1, 4, 1], [-1, 1, 4, 2], [-1, 2, 4, 1], [-1, 1, 8, 1])
        and config["tile_y"].data == [-1, 1, 14, 1]
        and config["tile_x"].data == [-1, 1, 7, 1]
        and config["tile_rc"].data[1] * config["tile_rc"].data[2] <= 32
        and (config["auto_unroll_max_step"].data, config["unroll_explicit"].data)
        in ((0, 0), (512, 0), (512, 1), (1500, 1))
    )


_LAYER = (1, 7, 7, 512, 512, 3, 3, (1, 1), (1, 1))
_LAST = {"dtype": "float16", "layout": "NHWC"}
TABLES: dict[str, Table] = {
    "tutorial": Table("examples/conv2d", _LAYER, 4.0),
    "tutorial-best": Table("examples/conv2d", _LAYER, 1.0),
    "depthwise": Table("examples/depthwise", (3, 4, 16, 32, 7), 4.0),
    "conv1d": Table("examples/conv1d", (16384, 32), 2.0),
    "r50-b1-l1.3x3": _row("r50-b1-l1.3x3", 2.0),
    "r50-b1-l3.3x3": _row("r50-b1-l3.3x3", 2.0),
    "r50-b1-l3.1x1": _row("r50-b1-l3.1x1", 1.0),
    "r50-b64-l3.3x3": _row("r50-b64-l3.3x3", 1.0),
    "tutorial-filters": Table("examples/conv2d", _LAYER, 3.0, _cut_filters),
    "tutorial-sums": Table("examples/conv2d", _LAYER, 3.0, _cut_sums),
    "conv1d-line": Table("examples/conv1d", (16384, 32), 2.0, _cut_line),
    "conv2d-threads": replace(_row("r50-b1-l1.3x3", 2.0), keep=_cut_threads),
    "conv2d-steps": replace(_row("r50-b1-l3.3x3", 2.0), keep=_cut_steps),
    "packaged-conv1d": _row("conv1d-16384-k32", 1.0),
    "dense-mma-512x1024-f16": _by("topi/dense.mma", shape=(512, 1024), units=1024, dtype="float16"),
    "direct-256x64-k3": _by("topi/depthwise.direct", shape=(1, 256, 64, 64)),
    "direct-16x576x14s2-f16": _by("topi/depthwise.direct", shape=(16, 576, 14, 14), stride=2, **_LAST),
    "direct-grouped-128x56": _by("topi/conv2d.direct", shape=(1, 128, 56, 56), groups=32),
    "dwmma-1x96x56-k7-f16": _by("topi/depthwise.mma", shape=(1, 96, 56, 56), kernel=7, dtype="float16"),
    "dwmma-32x96x56-k7-f16": _by("topi/depthwise.mma", shape=(32, 96, 56, 56), kernel=7, dtype="float16"),
    "gemm-1x256x14": _by("topi/conv2d.gemm", shape=(1, 256, 14, 14)),
    "gemm-16x128x28": _by("topi/conv2d.gemm", shape=(16, 128, 28, 28)),
    "mma-16x128x28-f16": _by("topi/conv2d.mma", shape=(16, 128, 28, 28), **_LAST),
    "mma-32x256x14-f16": _by("topi/conv2d.mma", shape=(32, 256, 14, 14), **_LAST),
    "mma-8x256x14-f32": _by("topi/conv2d.mma", shape=(8, 256, 14, 14)),
    "window-16x32x56-f16": _by("topi/conv2d.window", shape=(16, 32, 56, 56), **_LAST),
    "window-16x64x56-f16": _by("topi/conv2d.window", shape=(16, 64, 56, 56), **_LAST),
    "line-4096-k8": _by("topi/conv1d", shape=4096, kernel=8),
    "line-262144-k15": _by("topi/conv1d", shape=262144, kernel=15),
    "line-1000000-k3": _by("topi/conv1d", shape=1_000_000, kernel=3),
    "line-65536-k128": _by("topi/conv1d", shape=65536, kernel=128),
    "line-16384-k32-f16": _by("topi/conv1d", shape=16384, kernel=32, dtype="float16"),
    "pool-64x112": _by("topi/pool", shape=(1, 64, 112, 112), kernel=3, stride=2, padding=1),
    "pool-16x256x14-f16": _by("topi/pool", shape=(16, 256, 14, 14), how="average", stride=2, **_LAST),
    "pool-8x512x7": _by("topi/pool", shape=(8, 512, 7, 7), how="average", kernel=7),
    "pool-32x96x56": _by("topi/pool", shape=(32, 96, 56, 56), kernel=3, padding=1),
    "transposed-64x56": _by("topi/conv_transpose", shape=(1, 64, 56, 56), filters=32, kernel=4, stride=2, padding=1),
    "transposed-8x256x14-f16": _by(
        "topi/conv_transpose", shape=(8, 256, 14, 14), filters=128, kernel=4, stride=2, padding=1, dtype="float16"
    ),
    "transposed-128x28-k2": _by("topi/conv_transpose", shape=(1, 128, 28, 28), filters=64, kernel=2, stride=2),
    "transposed-4x64x28": _by("topi/conv_transpose", shape=(4, 64, 28, 28), filters=64, layout="NHWC"),
    "held-line-100000-k9": _by("topi/conv1d", shape=100_000, kernel=9),
    "held-line-30000-k5-f16": _by("topi/conv1d", shape=30_000, kernel=5, dtype="float16"),
    "held-pool-4x128x28": _by("topi/pool", shape=(4, 128, 28, 28), stride=2),
    "held-pool-192x35": _by("topi/pool", shape=(1, 192, 35, 35), how="average", kernel=3, padding=1),
    "held-transposed-32x28": _by("topi/conv_transpose", shape=(1, 32, 28, 28), filters=16),
    "held-transposed-2x128x7": _by("topi/conv_transpose", shape=(2, 128, 7, 7), kernel=4, stride=2, padding=1),
}
USUAL = ("tutorial", "depthwise", "conv1d", "r50-b1-l1.3x3", "r50-b1-l3.3x3")


def main() -> None:
    """Measure the spaces of the command line; print a line for each space."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", default=USUAL, metavar="NAME")
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--out", type=Path, default=Path("tables"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--min-repeat-ms", type=float, default=2)
    parser.add_argument("--choose", type=int, default=0, metavar="N", help="the number beside the first configuration")
    parser.add_argument("--chosen", type=Path, metavar="FILE", help="the configurations to measure, or to write")
    given = parser.parse_args()
    if given.choose:
        given.chosen.write_text(json.dumps({name: near(name, given.choose, given.seed) for name in given.names}))
        return
    given.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    runner = LocalRunner(timeout=4, number=1, repeat=3, min_repeat_ms=given.min_repeat_ms, cooldown_interval=0)
    left = sum(TABLES[name].share for name in given.names)
    with MeasureSession(given.target, LocalBuilder(timeout=8), runner) as session:
        print(f"{session.attributes.name}, {session.target}", flush=True)
        if given.chosen is not None:
            record_chosen(json.loads(given.chosen.read_text()), session, given.out, began + given.seconds)
            return
        for name in given.names:
            share = TABLES[name].share
            until = time.monotonic() + (given.seconds - (time.monotonic() - began)) * share / left
            left -= share
            print(record(name, session, given.out / f"{name}.log", given.seed, until), flush=True)


def record(name: str, session: MeasureSession, path: Path, seed: int, until: float) -> str:
    """Measure one space until a moment or its end; returns a line about it."""
    table, began = TABLES[name], time.monotonic()
    task = table.task(session.target)
    known = {json.loads(line)["config"]["index"] for line in path.read_text().splitlines()} if path.exists() else set()
    failures = done = 0
    best = float("inf")
    with path.open("a") as log, ExitStack() as stack:
        prefilter = None
        if table.keep is None:  # a cut-down space has few configurations that cannot run
            prefilter = stack.enter_context(Prefilter(task, session.target, "knob", LocalBuilder().processes))
        batches = _batches(task, _chunks(table, task, seed), prefilter, known, until)
        for job, outcome in session.measure_all(batches):
            if time.monotonic() >= until:
                break
            log.write(_line(task, session, job, outcome) + "\n")
            done += 1
            failures += isinstance(outcome, Failure)
            if isinstance(outcome, Measured):
                best = min(best, outcome.mean)
    seconds = time.monotonic() - began
    rate = f"{done / seconds:.1f}/s"
    return f"{name:20} {done:6} measured in {seconds:6.1f} s ({rate}), {failures} failed, best {best * 1e6:.2f} µs"


def record_chosen(chosen: dict[str, list[int]], session: MeasureSession, out: Path, until: float) -> None:
    """Measure the chosen configurations of many tables as one stream, and print the first and the best of each.

    Configurations that the spaces of this board rule out are left out.
    """
    tasks = {name: TABLES[name].task(session.target) for name in chosen}
    admitted = {name: [*filter(task.config_space.is_index_valid, chosen[name])] for name, task in tasks.items()}
    chosen = {name: indices for name, indices in admitted.items() if indices}
    batches = ([replace(job_of(tasks[name], session.target, index), key=(name, index)) for index in chosen[name]]
               for name in chosen if time.monotonic() < until)  # fmt: skip
    seconds: dict[str, dict[int, float]] = {name: {} for name in chosen}
    for job, outcome in session.measure_all(batches):
        name, index = job.key
        with (out / f"{name}.log").open("a") as log:
            log.write(_line(tasks[name], session, replace(job, key=index), outcome) + "\n")
        if isinstance(outcome, Measured):
            seconds[name][index] = outcome.mean
        if time.monotonic() >= until:
            break
    for name, found in seconds.items():
        first, best = found.get(chosen[name][0], float("nan")), min(found.values(), default=float("nan"))
        print(f"{name:24} {len(found):4} of {len(chosen[name]):4}: first {first * 1e6:8.2f}, best {best * 1e6:8.2f} µs")


def near(name: str, count: int, seed: int) -> list[int]:
    """The first configuration of a packaged template, and a number of configurations that are like it or that the model
    ranks high."""
    task, rng = TABLES[name].task(Target.parse("cuda -arch=sm_90")), np.random.default_rng(seed)
    space = task.config_space
    first = named(task.name).default_config(named(task.name).workload(task.args), task.target).index
    points = np.repeat(np.array([space.point(first)], dtype=np.int64), 8 * count, axis=0)
    beside = rng.permutation(np.array(space.indices(Moves(space, rng).mutated(points, knobs=2))))
    runs = np.isfinite(Scorer(task).seconds(beside.tolist()))
    return list(dict.fromkeys([first, *rank(task, count // 4).indices, *beside[runs].tolist()]))[: count + 1]


def _batches(
    task: Task, chunks: Iterable[Sequence[int]], prefilter: Prefilter | None, known: set[int], until: float
) -> Iterator[list[Job]]:
    """The configurations that can run, while there is time."""
    assert task.target is not None
    for some in chunks:
        possible = new = [index for index in some if index not in known]
        if prefilter is not None:
            possible = [index for index, found in prefilter.inspect(new).items() if found.refusal is None]
        known.update(new)
        size = _BATCH if prefilter is not None else len(possible)
        for at in range(0, len(possible), size):
            if time.monotonic() >= until:
                return
            yield [job_of(task, task.target, index) for index in possible[at : at + size]]


def _chunks(table: Table, task: Task, seed: int) -> Iterator[Sequence[int]]:
    space, rng = task.config_space, np.random.default_rng(seed)
    if table.keep is not None or space.range_length <= 1 << 16:
        listed = list(space) if table.keep is None else _kept(table, task)
        order = rng.permutation(np.array(listed, dtype=np.int64)).tolist()
        size = _LOOKED_AT if table.keep is None else len(order)
        yield from (order[at : at + size] for at in range(0, len(order), size))
        return
    while True:
        yield list(dict.fromkeys(space.indices(space.draw(rng, _LOOKED_AT))))


def _kept(table: Table, task: Task) -> list[int]:
    """The indices of a cut-down space: a knob's choice is kept if it can be part of a kept configuration."""
    space = task.config_space
    keep = table.keep
    assert keep is not None
    found: list[int] = []
    partial: list[tuple[int, ...]] = [()]
    for knob in space.knobs:
        places = range(len(knob))
        partial = [(*point, place) for point in partial for place in places if _may(keep, space, (*point, place))]
    for point in partial:
        index = space.index(point)
        if space.is_index_valid(index) and keep(space.get(index)):
            found.append(index)
    return found


class _Partial(dict[str, Any]):
    """The choices of some knobs; asking for another one stops the question."""

    def __missing__(self, name: str) -> Any:
        raise _UndecidedError


class _UndecidedError(Exception):
    """The predicate asks for a knob that is not chosen yet."""


def _may(keep: Callable[[Any], bool], space: Any, point: tuple[int, ...]) -> bool:
    choices = _Partial((knob.name, knob.choices[place]) for knob, place in zip(space.knobs, point, strict=False))
    try:
        return keep(choices)
    except _UndecidedError:
        return True


def job_of(task: Task, target: Target, index: int) -> Job:
    """Return the job that measures a configuration."""
    config = task.config_space.get(index)
    return Job(lambda: task.instantiate(config), index, target, task.declared.reference)


def _line(task: Task, session: MeasureSession, job: Job, outcome: Outcome) -> str:
    """A record, with the compiler's report on the kernel."""
    reason = outcome.reason if isinstance(outcome, Failure) else ""
    notes = Notes(session.attributes.name, COMPILER, reason=reason[:120], flop=task.flop)
    inp = MeasureInput(session.target, task, task.config_space.get(job.key)).noted(notes)
    line = json.loads(encode(inp, to_result(outcome)))
    if isinstance(outcome, Measured):
        line["resources"] = {name: vars(found) for name, found in outcome.resources.items()}
    return json.dumps(line)


if __name__ == "__main__":
    main()
