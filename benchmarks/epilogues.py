"""The cost of each epilogue: a layer's time with it over its time without, timed in turns in one process.

    python -m benchmarks.epilogues [--target llvm] [--modes float32 float16] [--names relu gelu] [--out FILE] [ROW ...]

Layers run as a call runs them, by the record that ships for the layer, or for the layer with an epilogue. Every kernel
is checked against float64 on poisoned output. The cost of a residual includes reading it from memory. The column
`again` is the layer without an epilogue a second time: its distance from 1 is noise. `--rounds 5` times everything five
times, and prints medians. Needs PyTorch, which computes the expected results.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from benchmarks.convolution_rows import WORKLOADS
from benchmarks.timed_rows import FAMILIES, TOLERANCE, in_turns, workload_of
from tilewright import te
from tilewright.codegen.abi import CompiledProgram
from tilewright.core.errors import TVMError
from tilewright.core.target import Target
from tilewright.driver import build
from tilewright.functional.planning.compiler import recorded_selection
from tilewright.nd import from_dlpack
from tilewright.runtime.device import device
from tilewright.runtime.module import Module
from tilewright.topi.templates import Epilogue

ROWS = (
    "dw-256x32-k3",
    "dw-256x96-k3",
    "dw-256x96-k5-m2",
    "mbv2-b128-dw144x56",
    "convnext-b128-dw96x56",
    "dw1d-768x1024-k7",
)
MODES = ("float32", "float16", "bfloat16", "float16/NHWC")


def softsign(v: Any) -> Any:
    """An activation of the user's own, with a division."""
    return v / (te.abs(v) + 1.0)


EPILOGUES: dict[str, Epilogue] = {
    "none": Epilogue(),
    "again": Epilogue(),
    "bias": Epilogue(bias=True),
    **{
        name: Epilogue(bias=True, activation=name)
        for name in ("relu", "relu6", "hardswish", "sigmoid", "silu", "gelu", "gelu_tanh")
    },
    "softsign": Epilogue(bias=True, activation=softsign),
    "residual": Epilogue(bias=True, residual=True),
    "residual+relu": Epilogue(bias=True, residual=True, activation="relu"),
}


def compiled(target: str, row: str, mode: str, name: str) -> CompiledProgram | str:
    """The kernel that a call runs, or why there is none."""
    family, of, epilogue = FAMILIES[WORKLOADS[row][0]], workload_of(row, mode), EPILOGUES[name]
    on = Target(target)
    template, config = family.choose(of, on)
    able = [t for t in family.strategies if t.covers(of, on)]
    known = recorded_selection(able, of, on, fused=epilogue != Epilogue())
    if known is not None:
        template, config = known.template, known.config
    try:
        return build(*template.program(config, of, on, epilogue), on).program
    except TVMError as failure:
        return str(failure).splitlines()[0]


class Row:
    """A layer on a device: its tensors, and the expected result."""

    def __init__(self, target: str, name: str, mode: str) -> None:
        import torch

        self.name, self.mode, self.of, self.torch = name, mode, workload_of(name, mode), torch
        self.device = device("cuda" if target == "cuda" else "cpu").require()
        kind, where = getattr(torch, self.of.dtype), "cuda" if target == "cuda" else "cpu"
        shapes = [[int(str(e)) for e in t.shape] for t in self.of.placeholders()]
        shapes += [[self.of.channels], list(self.of.out_shape), list(self.of.out_shape)]
        made = [(torch.rand(shape, device=where) * 2 - 1).to(kind) for shape in shapes]
        self.data, self.weights, self.bias, self.residual, self.out = made
        with torch.backends.cudnn.flags(enabled=False):
            ((_, exact), *_) = self.of.torch(self.data.double(), self.weights.double())
            self.right = exact().reshape(self.out.shape)
        functional = torch.nn.functional
        self.activations: dict[Any, Callable[[Any], Any]] = {
            None: lambda v: v,
            "relu": functional.relu,
            "relu6": functional.relu6,
            "hardswish": functional.hardswish,
            "sigmoid": torch.sigmoid,
            "silu": functional.silu,
            "gelu": functional.gelu,
            "gelu_tanh": partial(functional.gelu, approximate="tanh"),
            softsign: functional.softsign,
        }

    def timed(self, program: CompiledProgram, epilogue: Epilogue) -> tuple[Any, float]:
        """A timer of a kernel, and its relative error in the L2 norm on poisoned output."""
        extras = [self.bias] * epilogue.bias + [self.residual] * epilogue.residual
        arrays = [from_dlpack(t) for t in (self.data, self.weights, *extras, self.out)]
        module, on = Module(program), self.device
        self.out.fill_(float("nan"))
        self.wait()
        module(*arrays)
        on.sync()
        right = self.expected(epilogue)
        error = float((self.out.double() - right).norm() / right.norm())
        self.wait()
        return on.driver.timer(on.index, partial(module, *arrays)), float("inf") if error != error else error

    def wait(self) -> None:
        """Wait for PyTorch's stream, which is not the one of our kernels."""
        if self.data.is_cuda:
            self.torch.cuda.synchronize()

    def expected(self, epilogue: Epilogue) -> Any:
        """The result in float64."""
        right = self.right
        if epilogue.bias:
            shape = [1] * right.dim()
            shape[self.of.channel_axis or 0] = -1
            right = right + self.bias.double().view(shape)
        if epilogue.residual:
            right = right + self.residual.double()
        return self.activations[epilogue.activation](right)


def measure(row: Row, programs: dict[str, CompiledProgram | str], rounds: int) -> dict[str, Any]:
    """A line: by epilogue microseconds, the error, and the quotient of its time to that of the plain layer."""
    timers, errors = {}, {}
    for name, program in programs.items():
        if isinstance(program, str):
            print(f"{row.name} {row.mode} {name}: {program}", flush=True)
            continue
        timers[name], errors[name] = row.timed(program, EPILOGUES[name])
        if errors[name] > TOLERANCE[row.of.dtype]:
            print(f"{row.name} {row.mode} {name}: off by {errors[name]:.2g}", flush=True)
    lines = [in_turns(timers) for _ in range(rounds)]
    quotients = {name: sorted(line[name] / line["none"] for line in lines) for name in timers}
    return {"row": row.name, "mode": row.mode, "us": lines, "errors": errors, "quotients": quotients}


def main() -> None:
    """Print a line for each row and mode."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", default=ROWS, help="rows, by how their names begin")
    parser.add_argument("--target", choices=("cuda", "llvm"), default="cuda")
    parser.add_argument("--modes", nargs="+", default=MODES, help="types and layouts: float16/NHWC")
    parser.add_argument("--names", nargs="+", default=list(EPILOGUES), choices=list(EPILOGUES))
    parser.add_argument("--rounds", type=int, default=1, help="how often everything is timed in turns")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this many")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("epilogues.json"))
    given = parser.parse_args()
    began, lines = time.perf_counter(), []
    rows = [row for row in WORKLOADS if row.startswith(tuple(given.rows))]
    pairs = [(row, mode) for mode in given.modes for row in rows if workload_of(row, mode) is not None]
    names = list(dict.fromkeys(["none", *given.names]))
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        jobs = [(given.target, *pair, name) for pair in pairs for name in names if name != "again"]
        done = pool.map(compiled, *zip(*jobs, strict=True))
        print(f"{'':23} {'':13} {'µs':>8} " + " ".join(f"{name[:9]:>9}" for name in names[1:]), flush=True)
        for pair in pairs:
            programs = {name: next(done) for name in names if name != "again"}
            if time.perf_counter() - began > given.seconds:
                print(*pair, "no time left", flush=True)
                continue
            if given.compile_only:
                failed = [program for program in programs.values() if isinstance(program, str)]
                print(*pair, f"{len(programs)} programs, {len(failed)} failed {failed[:1]}", flush=True)
                continue
            if "again" in names:
                programs["again"] = programs["none"]
            lines.append(measure(Row(given.target, *pair), programs, given.rounds))
            print(shown(lines[-1], names), flush=True)
            given.out.write_text(json.dumps(lines))
    for mode in given.modes:
        print(f"{mode:13} geometric means: {means([line for line in lines if line['mode'] == mode], names)}")


def shown(line: dict[str, Any], names: list[str]) -> str:
    """A line of the table: medians of the quotients."""
    middle = {name: found[len(found) // 2] for name, found in line["quotients"].items()}
    us = sorted(each["none"] for each in line["us"])[len(line["us"]) // 2]
    cells = [f"{middle[name]:9.3f}" if name in middle else "        –" for name in names[1:]]
    return f"{line['row']:23} {line['mode']:13} {us:8.2f} " + " ".join(cells)


def means(lines: list[dict[str, Any]], names: list[str]) -> str:
    """The geometric mean of each epilogue's quotients."""
    found = []
    for name in names[1:]:
        each = [line["quotients"][name] for line in lines if name in line["quotients"]]
        if each:
            found.append(f"{name} {prod(q[len(q) // 2] for q in each) ** (1 / len(each)):.3f}")
    return ", ".join(found)


if __name__ == "__main__":
    main()
