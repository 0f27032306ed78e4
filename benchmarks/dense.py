"""Dense convolutions by the packaged contraction templates, beside cuDNN, in one process.

    python -m benchmarks.dense --trials 24 --out DIR [NAME ...]

All processors compile up to `--trials` configurations of each row. The first is the choice of a call without a record,
the second the packaged record. The template's model ranks the others: the best, and a random sample that prefers better
ones. Each is checked against float64 on poisoned output, and timed. Then the first, the best and PyTorch's kernels
(both memory orders, `benchmark=True`) are timed in turns, in CUDA graphs, warm, on random inputs. "alone" is the best
one without the others in between, and cuDNN likewise: the median of 21 replays of 20 calls. Errors are relative L2
norms against float64, of ours and of cuDNN's.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.timed_rows import CALLS, Row, in_turns, replayed
from tilewright.codegen.abi import CompiledProgram
from tilewright.core.errors import TVMError
from tilewright.core.target import Target
from tilewright.driver import build
from tilewright.functional.arguments.problem import Problem
from tilewright.functional.planning import shipped
from tilewright.measure.outcome import MeasureResult
from tilewright.topi.templates import ALL, Conv2dLayer, default_strategy, named
from tilewright.tune.records.format import MeasureInput, encode

CONV2D = named("topi/conv2d")
CONV2D_GEMM = named("topi/conv2d.gemm")
CONV2D_MMA = named("topi/conv2d.mma")
CONV2D_TF32 = named("topi/conv2d.tf32")
CONV2D_WGMMA = named("topi/conv2d.wgmma")
CONV2D_WGMMA_TF32 = named("topi/conv2d.wgmma_tf32")
CONV2D_WINDOW = named("topi/conv2d.window")

TARGET = Target("cuda -arch=sm_90")
ROWS: dict[str, dict[str, Any]] = {
    "r50-b1-l3.1x1b": {"shape": (1, 256, 14, 14), "filters": 1024, "kernel": 1},
    "resnet-last": {"shape": (1, 512, 7, 7)},
    "r50-b1-l3.3x3": {"shape": (1, 256, 14, 14)},
    "r50-b1-l2.3x3": {"shape": (1, 128, 28, 28)},
    "r50-b1-l2.3x3s2": {"shape": (1, 128, 56, 56), "stride": 2},
    "r50-b1-l1.3x3": {"shape": (1, 64, 56, 56)},
    "r50-b1-conv1": {"shape": (1, 3, 224, 224), "filters": 64, "kernel": 7, "stride": 2},
    "r50-b1-l4.1x1b": {"shape": (1, 512, 7, 7), "filters": 2048, "kernel": 1},
    "r50-b64-l1.3x3": {"shape": (64, 64, 56, 56)},
    "r50-b64-l2.3x3": {"shape": (64, 128, 28, 28)},
    "r50-b64-l3.3x3": {"shape": (64, 256, 14, 14)},
    "doc-hwcn": {"shape": (256, 256, 14, 14), "filters": 512},
    "convnext-b128-1x1": {"shape": (128, 96, 56, 56), "filters": 384, "kernel": 1},
}
MODES = (
    "ieee", "fp32", "tf32", "fp32/NHWC", "tf32/NHWC", "float16", "float16/NHWC", "bfloat16/NHWC", "int8/NHWC",
    "fp32/HWCN", "tf32/HWCN", "float16/HWCN",
)  # fmt: skip
"""Precisions of a float32 convolution, or element types and layouts."""
ALLOWED = {"ieee": 2e-6, "fp32": 2e-6, "tf32": 1.2e-3, "float16": 1e-3, "bfloat16": 6e-3, "int8": 0.0}
STRATEGIES = {"ieee": CONV2D_GEMM, "tf32": CONV2D_TF32}
"""The template of a mode; elsewhere the one by matrix instructions."""
ROUNDING = [CONV2D_TF32, CONV2D_WGMMA_TF32]
"""Strategies that round float32."""
Job = tuple[str, str, str, int]
"""The row, the mode, the template's name, and the configuration's index."""


def workload_of(name: str, mode: str) -> Conv2dLayer:
    """The workload of a row in a mode."""
    dtype, _, layout = mode.partition("/")
    dtype = "float32" if dtype in ("ieee", "fp32", "tf32") else dtype
    stored = {"": {}, "NHWC": {"layout": layout, "weights": "OHWI"}, "HWCN": {"layout": layout}}[layout]
    return Conv2dLayer.of(**ROWS[name], dtype=dtype, **stored)


def _named(name: str) -> Any:
    return next(t for t in ALL if t.name == name)


def first_of(of: Conv2dLayer, mode: str) -> Any:
    """The strategy that a call takes without a record, in the precision of a mode."""
    able = [t for t in CONV2D.strategies if t.covers(of, TARGET) and not (mode == "ieee" and t is CONV2D_MMA)]
    rounding = [t for t in ROUNDING if mode.startswith("tf32") and t.covers(of, TARGET)]
    return default_strategy(able + rounding, of, TARGET)


def jobs_of(name: str, mode: str, trials: int) -> Iterator[Job]:
    """The first configuration of all and of each strategy, the best by the model, and some of the others."""
    of = workload_of(name, mode)
    template = STRATEGIES.get(mode.partition("/")[0], CONV2D_MMA)
    first = first_of(of, mode)
    if first is not template:
        yield name, mode, first.name, first.default_config(of, TARGET).index
    yield from _jobs_of(name, mode, of, template, trials)
    if template is CONV2D_MMA and CONV2D_WINDOW.covers(of, TARGET):
        yield from _jobs_of(name, mode, of, CONV2D_WINDOW, max(1, trials // 3))
    wide = CONV2D_WGMMA_TF32 if mode.startswith("tf32") else CONV2D_WGMMA
    if wide.covers(of, TARGET):
        yield from _jobs_of(name, mode, of, wide, max(1, trials // 2))


def _listed(wanted: tuple[str, str, int]) -> list[Job]:
    return list(jobs_of(*wanted))


def _jobs_of(name: str, mode: str, of: Conv2dLayer, template: Any, trials: int) -> Iterator[Job]:
    found = {template.default_config(of, TARGET).index: None}
    known = shipped.configuration(template, of, TARGET)
    if known is not None and not known.away:
        found[known.config.index] = None
    order = template.strategy(TARGET).rank(of)
    draw = random.Random(f"{name} {mode}")
    drawn = sorted({int(len(order) * draw.random() ** 4) for _ in range(4 * trials)}, key=lambda _: draw.random())
    for choices in [order[at] for at in (*range(min(len(order), trials // 4)), *drawn)]:
        found[template.strategy(TARGET).nearest(of, choices).index] = None
    yield from ((name, mode, template.name, index) for index in list(found)[: max(2, trials)])


def compiled(job: Job) -> tuple[Job, CompiledProgram | str]:
    """A program, or why there is none."""
    name, mode, which, index = job
    of, template = workload_of(name, mode), _named(which)
    config = template.strategy(TARGET).space(of).get(index)
    try:
        return job, build(*template.program(config, of, TARGET), TARGET).program
    except TVMError as failure:
        return job, str(failure).splitlines()[0]


class DenseRow(Row):
    """A row on the GPU, in one mode."""

    def __init__(self, name: str, mode: str) -> None:
        import torch

        self.name, self.mode, self.of = name, mode, workload_of(name, mode)
        self.torch = torch
        kind = getattr(torch, self.of.dtype)
        shapes = [[int(str(e)) for e in t.shape] for t in self.of.placeholders()]
        if kind.is_floating_point:
            self.data, self.weights = ((torch.rand(s, device="cuda") * 2 - 1).to(kind) for s in shapes)
        else:
            self.data, self.weights = (torch.randint(-128, 128, s, device="cuda", dtype=kind) for s in shapes)
        self.bias, self.out = None, torch.empty(self.of.out_shape, device="cuda", dtype=getattr(torch, self.of.result))
        self.times = []
        with torch.backends.cudnn.flags(enabled=False):
            (_, exact) = self.of.torch(self.data.double(), self.weights.double())[0]
            self.right = exact().reshape(self.out.shape)

    def theirs(self) -> list[tuple[str, Any]]:
        """PyTorch's ways as timers; the error of the first one is kept."""
        torch = self.torch
        if not self.data.is_floating_point():
            return []
        found = []
        flags = {"enabled": True, "benchmark": True, "allow_tf32": self.mode.startswith("tf32")}
        for how, call in self.of.torch(self.data, self.weights):
            with torch.backends.cudnn.flags(**flags), torch.inference_mode():
                side = torch.cuda.Stream()
                with torch.cuda.stream(side):
                    for _ in range(3):
                        made = call()
                torch.cuda.synchronize()
                off = (made.double().reshape(self.right.shape) - self.right).norm() / self.right.norm()
                graph = torch.cuda.CUDAGraph()
                calls = 100 if self.of.flop < 5e8 else CALLS if self.of.flop < 4e9 else 4
                with torch.cuda.graph(graph):
                    for _ in range(calls):
                        call()
            found.append((f"PyTorch {how}", partial(replayed, torch, graph, calls), float(off)))
        return found


def measure(row: DenseRow, programs: list[tuple[Job, CompiledProgram | str]]) -> dict[str, Any]:
    """Check and time everything of a row: a line of the table."""
    allowed = ALLOWED[row.mode.partition("/")[0]]
    timers: dict[str, Any] = {}
    errors: dict[str, float] = {}
    best: tuple[float, Any, float, Job] | None = None
    for at, (job, program) in enumerate(programs):
        found: dict[str, Any] = {"template": job[2], "index": job[3]}
        row.times.append(found)
        if isinstance(program, str):
            found["failure"] = program
            continue
        timer, error = row.ours(program, False)
        used = max(program.resources.values(), key=lambda each: each.registers)
        config = _named(job[2]).strategy(TARGET).space(row.of).get(job[3])
        found |= {"error": error, "registers": used.registers, "spills": used.spill_store_bytes}
        found["config"] = {key: str(choice) for key, choice in config.items()}
        if not error <= allowed:
            found["failure"] = f"wrong: {error}"
            continue
        once = timer(8) / 8
        runs = max(4, min(256, int(1e-3 / once)))
        found["us"] = statistics.median(timer(runs) / runs for _ in range(3)) * 1e6
        if at == 0:
            timers["first"], errors["first"] = timer, error
        if best is None or found["us"] < best[0]:
            best = found["us"], timer, error, job
    if best is not None:
        timers["best"], errors["best"] = best[1], best[2]
    for how, timer, error in row.theirs():
        timers[how], errors[how] = timer, error
    line = in_turns(timers)
    alone = {who: statistics.median(timer(20) / 20 for _ in range(21)) * 1e6 for who, timer in timers.items()}
    theirs = [(us, who) for who, us in line.items() if who.startswith("PyTorch")]
    pytorch = min(theirs, default=(float("nan"), ""))
    rival = min((us for who, us in alone.items() if who.startswith("PyTorch")), default=float("nan"))
    return {
        "row": row.name,
        "mode": row.mode,
        "times": line,
        "alone": (alone.get("best", float("nan")), rival),
        "errors": errors,
        "pytorch": pytorch[0],
        "how": pytorch[1],
        "flop": row.of.flop,
        "best": best[3] if best else None,
    }


def keep(line: dict[str, Any], folder: Path) -> None:
    """Append the best configuration to a log, and both libraries' times to a table, as the package ships them."""
    if not line["best"]:
        return
    name, mode, which, index = line["best"]
    of, template = workload_of(name, mode), _named(which)
    config = template.strategy(TARGET).space(of).get(index)
    result = MeasureResult((line["times"]["best"] * 1e-6,), 0, 0.0, time.time())
    with (folder / "dense.log").open("a", encoding="utf-8") as file:
        file.write(encode(MeasureInput(TARGET, template.task(of, TARGET), config), result) + "\n")
    if of.weights == "OIHW":
        precision = mode.partition("/")[0] if of.dtype == "float32" else "fp32"
        problem = Problem(
            "conv", of.shape, of.filters, of.kernel, of.stride, of.padding, of.dilation, of.groups, of.dtype, of.layout,
            precision=precision,
        )  # fmt: skip
        row = {"problem": problem.description(), "device": "NVIDIA H200"}
        with (folder / "rivals.jsonl").open("a", encoding="utf-8") as file:
            times = {"ours": line["times"]["best"] * 1e-6, "theirs": line["pytorch"] * 1e-6}
            file.write(json.dumps({**row, **times}) + "\n")


def main() -> None:
    """Measure the rows that the command line names, by their beginnings; all without any."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--modes", default="ieee", help=f"of {', '.join(MODES)}, by commas; MODE:N for N trials")
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--out", type=Path, default=Path("dense"))
    parser.add_argument("--compile-only", action="store_true", help="stop before anything runs on a GPU")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    names = [name for name in ROWS if not given.names or any(map(name.startswith, given.names))]
    began = time.perf_counter()
    counts = {}
    for each in given.modes.split(","):
        mode, _, count = each.partition(":")
        if mode not in MODES:
            parser.error(f"{mode!r} is none of the modes {', '.join(MODES)}")
        counts[mode] = int(count or given.trials)
    wanted = [(name, mode, count) for name in names for mode, count in counts.items()]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        jobs = [job for found in pool.map(_listed, wanted) for job in found]
        programs = list(pool.map(compiled, jobs))
    print(f"{len(jobs)} programs in {time.perf_counter() - began:.0f} s")
    if given.compile_only:
        for job, program in programs:
            print(*job, program if isinstance(program, str) else program.resources)
        return
    lines = []
    for name in names:
        for mode in counts:
            own = [pair for pair in programs if pair[0][:2] == (name, mode)]
            if own:
                row = DenseRow(name, mode)
                lines.append(measure(row, own))
                with (given.out / "trials.jsonl").open("a") as file:
                    file.write(json.dumps({**lines[-1], "trials": row.times}) + "\n")
                keep(lines[-1], given.out)
                print(shown(lines[-1]), flush=True)
    print(f"\n{time.perf_counter() - began:.0f} s\n{HEAD}")
    print("\n".join(map(shown, lines)))


_COLUMNS = ("first", "best", "cuDNN", "÷ best", "TFLOP/s", "alone", "cuDNN", "error", "theirs")
HEAD = f"{'row':20} {'mode':12} " + " ".join(f"{name:>8}" for name in _COLUMNS)


def shown(line: dict[str, Any]) -> str:
    """A row of the table, in microseconds."""
    times, errors = line["times"], line["errors"]
    first, best = times.get("first", float("nan")), times.get("best", float("nan"))
    return (
        f"{line['row']:20} {line['mode']:12} {first:8.2f} {best:8.2f} {line['pytorch']:8.2f} "
        f"{line['pytorch'] / best:8.2f} {line['flop'] / best / 1e6:8.1f} "
        f"{line['alone'][0]:8.2f} {line['alone'][1]:8.2f} "
        f"{errors.get('best', float('nan')):8.1e} {errors.get(line['how'], float('nan')):8.1e}"
    )


if __name__ == "__main__":
    main()
