"""Epilogues as code generation might write them, by changing the CUDA text of a kernel: which of them are worth it?

    python -m benchmarks.by_hand_epilogues [--modes float32 float16] [--rounds 5] [--out FILE] [ROW ...]
    python -m benchmarks.by_hand_epilogues --count nvdisasm

Every variant is checked against float64 and timed in turns with the layer without an epilogue. The column `again` is
that layer a second time: its distance from 1 is noise. `--count` needs no GPU: it takes the path of a disassembler, and
prints the additional instructions of each variant compared with the plain layer.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.convolution_rows import WORKLOADS
from benchmarks.epilogues import Row
from benchmarks.timed_rows import FAMILIES, TOLERANCE, in_turns, workload_of
from tilewright.codegen.abi import CompiledProgram
from tilewright.codegen.nvrtc import compile_cuda
from tilewright.core.target import Target
from tilewright.driver import build
from tilewright.functional.planning.compiler import recorded_selection
from tilewright.topi.templates import Epilogue
from tilewright.topi.templates.tensors import FIRST

ROWS = ("dw-256x32-k3", "dw-256x96-k3", "dw-256x96-k5-m2", "mbv2-b128-dw144x56")
MODES = ("float32", "float16", "bfloat16")
TARGET, ARCH = Target("cuda -arch=sm_90"), "sm_90"
_VALUE = r"([\w.]+(?:\[[^\]]*\])?)"
"""An element of the sums in the text of a kernel."""
_HELPER = "static __device__ __forceinline__"


def relu_of_integers(source: str) -> str:
    """Compare bits as integers: negative floats are negative integers (of NaN, only those of the other sign differ)."""
    return re.sub(rf"max_float32\({_VALUE}, 0\.0f\)", r"__int_as_float(max(__float_as_int(\1), 0))", source)


def exact_sigmoid(source: str) -> str:
    """Compute the exponential by expf, and a quotient that is rounded to the nearest."""
    return re.sub(rf"sigmoid_float32\({_VALUE}\)", r"(1.0f / (1.0f + expf(-(\1))))", source)


def approximate_quotient(source: str) -> str:
    """Compute the exponential by expf, and the reciprocal by one instruction, of 1 ulp."""
    text, count = re.subn(rf"sigmoid_float32\({_VALUE}\)", r"reciprocal(1.0f + expf(-(\1)))", source)
    return _RECIPROCAL + text if count else source


def gelu_by_tanh(source: str) -> str:
    """Compute gelu_tanh as PyTorch defines it, by the hyperbolic tangent."""
    of = rf"{_VALUE} \* sigmoid_float32\(\1 \* \([^()]*\)\)"
    by = r"\1 * 0.5f * (tanhf(0.7978846f * (\1 + 0.044715f * \1 * \1 * \1)) + 1.0f)"
    return re.sub(of, by, source)


def clamped(source: str) -> str:
    """Clamp to 0 .. 6 by two instructions instead of to 0 .. 1 in the product before."""
    of = rf"__saturatef\({_VALUE} \* 0\.16666667f \+ 0\.5f\)"
    return re.sub(of, r"fminf(fmaxf(\1 + 3.0f, 0.0f), 6.0f) * 0.16666667f", source)


_RECIPROCAL = (
    f"{_HELPER} float reciprocal(float x) {{\n  float y;\n"
    '  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));\n  return y;\n}\n'
)


def as_it_is(source: str) -> str:
    """Change nothing."""
    return source


@dataclass(frozen=True)
class Variant:
    """An epilogue, the change of its kernel's text, and whether its sums start at the bias."""

    epilogue: Epilogue
    rewrite: Callable[[str], str] = as_it_is
    starts_at_bias: bool = True


def _of(activation: str | None, rewrite: Callable[[str], str] = as_it_is, starts_at_bias: bool = True) -> Variant:
    return Variant(Epilogue(bias=True, activation=activation), rewrite, starts_at_bias)


VARIANTS: dict[str, Variant] = {
    "none": Variant(Epilogue()),
    "again": Variant(Epilogue()),
    "bias": _of(None),
    "bias, at the end": _of(None, starts_at_bias=False),
    "relu without bias": Variant(Epilogue(activation="relu")),
    "relu": _of("relu"),
    "relu, of integers": _of("relu", relu_of_integers),
    "relu, bias at the end": _of("relu", starts_at_bias=False),
    "silu": _of("silu"),
    "silu, approximate quotient": _of("silu", approximate_quotient),
    "silu, exact": _of("silu", exact_sigmoid),
    "gelu": _of("gelu"),
    "gelu_tanh": _of("gelu_tanh"),
    "gelu_tanh, by tanh": _of("gelu_tanh", gelu_by_tanh),
    "hardswish": _of("hardswish"),
    "hardswish, clamped": _of("hardswish", clamped),
}


def compiled(row: str, mode: str, name: str) -> CompiledProgram | None:
    """The kernel of a variant; None if it equals the kernel without the change."""
    family, of, variant = FAMILIES[WORKLOADS[row][0]], workload_of(row, mode), VARIANTS[name]
    template, config = family.choose(of, TARGET)
    able = [t for t in family.strategies if t.covers(of, TARGET)]
    known = recorded_selection(able, of, TARGET, fused=variant.epilogue != Epilogue())
    if known is not None:
        template, config = known.template, known.config
    strategy = template.strategy(TARGET)
    starts = strategy.starts_at_bias and variant.starts_at_bias
    template = replace(template, gpu=replace(strategy, starts_at_bias=starts))
    if starts and "bias" in config:
        config = strategy.nearest(of, {**{name: choice.wanted for name, choice in config.items()}, "bias": FIRST})
    program = build(*template.program(config, of, TARGET, variant.epilogue), TARGET).program
    source = variant.rewrite(program.source)
    if source == program.source:
        return program if variant.rewrite is as_it_is else None
    code = compile_cuda(source, ARCH)
    return replace(program, source=source, binary=code.cubin, resources=code.resources)


def measure(row: Row, programs: dict[str, CompiledProgram], rounds: int) -> dict[str, list[float]]:
    """Return the quotients of each variant's time to that of the layer without an epilogue, in rising order."""
    timers = {}
    for name, program in programs.items():
        timer, error = row.timed(program, VARIANTS[name].epilogue)
        if error > TOLERANCE[row.of.dtype]:
            print(f"{row.name} {row.mode} {name}: off by {error:.2g}", flush=True)
        timers[name] = timer
    lines = [in_turns(timers) for _ in range(rounds)]
    print(f"{row.name} {row.mode}: {min(line['none'] for line in lines):.2f} µs without an epilogue")
    return {name: sorted(line[name] / line["none"] for line in lines) for name in timers}


def instructions(program: CompiledProgram, disassembler: str) -> Counter[str]:
    """Count the instructions of a kernel by name, without those that fill its end."""
    assert program.binary is not None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(program.binary)
        file.flush()
        text = subprocess.run([disassembler, "-c", file.name], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?\s*([A-Z][\w.]*)", text)
    return Counter(name for name in found if name not in ("NOP", "BRA"))


def counted(programs: dict[str, CompiledProgram], disassembler: str) -> None:
    """Print for each variant how many instructions it has beyond the plain layer, in all and for the instructions that
    differ most."""
    each = {name: instructions(program, disassembler) for name, program in programs.items()}
    for name, count in each.items():
        more = Counter(count)
        more.subtract(each["none"])
        most = sorted(((n, what) for what, n in more.items() if n), key=lambda pair: -abs(pair[0]))[:6]
        total = sum(count.values())
        print(
            f"  {name:28} {total:5} {total - sum(each['none'].values()):+5}  {', '.join(f'{w} {n:+}' for n, w in most)}"
        )


def main() -> None:
    """Print a table for each row and mode."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", default=ROWS, help="rows, by how their names begin")
    parser.add_argument("--modes", nargs="+", default=MODES, help="types and layouts: float16/NHWC")
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is timed in turns")
    parser.add_argument("--count", metavar="NVDISASM", help="count instructions instead, by this disassembler")
    parser.add_argument("--out", type=Path, default=Path("by-hand-epilogues.json"))
    given = parser.parse_args()
    rows = [row for row in WORKLOADS if row.startswith(tuple(given.rows))]
    pairs = [(row, mode) for mode in given.modes for row in rows if workload_of(row, mode) is not None]
    names = [name for name in VARIANTS if name != "again"]
    results = []
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        jobs = [(*pair, name) for pair in pairs for name in names]
        done = pool.map(compiled, *zip(*jobs, strict=True))
        for pair in pairs:
            made = {name: next(done) for name in names}
            programs = {name: program for name, program in made.items() if program is not None}
            if given.count:
                print(*pair, flush=True)
                counted(programs, given.count)
                continue
            programs["again"] = programs["none"]
            found = measure(Row("cuda", *pair), programs, given.rounds)
            for name, quotients in found.items():
                print(f"  {name:28} " + " ".join(f"{q:.3f}" for q in quotients), flush=True)
            results.append({"row": pair[0], "mode": pair[1], "quotients": found})
            given.out.write_text(json.dumps(results))


if __name__ == "__main__":
    main()
