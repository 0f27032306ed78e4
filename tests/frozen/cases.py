"""Frozen outputs: the CUDA text of every shipped record, and the configuration that a call chooses for known layers.

    python -m tests.frozen.cases [--update] [programs] [choices]

compares all of them, in all processors, and lists each difference; `--update` writes the files anew. A commit that
updates them says why, with the time of each changed kernel before and after: a changed text is a kernel that nobody
has timed.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.convolution_rows import WORKLOADS
from benchmarks.network_layers import layers
from benchmarks.timed_rows import FAMILIES, workload_of
from benchmarks.untuned import SHAPES
from tests.functional.random_problems import draw
from tilewright.codegen.program import generate
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.driver import finished, lower_for
from tilewright.functional.arguments.problem import Problem
from tilewright.functional.planning.compiler import default_selection
from tilewright.functional.planning.shipped import RECORDS
from tilewright.topi.templates import ALL, Convolution, Epilogue, PackagedTemplate
from tilewright.topi.templates.epilogue import NO_EPILOGUE
from tilewright.tune.records.format import decode
from tilewright.tune.space.config import Config

FOLDER = Path(__file__).parent
TARGET = Target("cuda -arch=sm_90")
FUSED = Epilogue(bias=True, residual=False, activation="relu")
RANDOM_PROBLEMS = 1500
MODES = ("float32", "float16", "bfloat16", "float16/NHWC")

Case = tuple[str, str]
"""A table ("programs", "choices") and the key of a line in it."""


def records() -> dict[str, str]:
    """Return the lines of the shipped logs by file and number."""
    return {
        f"{path.stem}:{number}": line
        for path in sorted(RECORDS.glob("*.log"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    }


def problems() -> dict[str, Problem]:
    """Return the layers of networks, the untuned shapes and random problems, by name."""
    named = {f"network:{place}": problem for place, problem in enumerate(layers())}
    named |= {f"untuned:{place}": problem for place, problem in enumerate(SHAPES)}
    return named | {f"random:{seed}": draw(seed).problem for seed in range(RANDOM_PROBLEMS)}


def rows() -> dict[str, tuple[str, str]]:
    """Return the rows of `convolution_rows` in each mode that they have, by name."""
    pairs = ((name, mode) for name in WORKLOADS for mode in MODES)
    return {f"row:{name}/{mode}": (name, mode) for name, mode in pairs if workload_of(name, mode) is not None}


def cases(table: str) -> list[Case]:
    """Return the cases of a table, in the order of its file."""
    return [(table, key) for key in (records() if table == "programs" else {**rows(), **problems()})]


def value_of(case: Case) -> str:
    """Return the text that the file holds for a case: two digests of CUDA text, or a template and an index."""
    table, key = case
    if table == "programs":
        pair = decode(records()[key])
        template = next(t for t in ALL if t.name == pair[0].task.name)
        workload = template.workload(pair[0].task.args)
        texts = [cuda_text(template, workload, pair[0].config, epilogue) for epilogue in (NO_EPILOGUE, FUSED)]
        return " ".join(map(digest, texts))
    if key in rows():
        name, mode = rows()[key]
        template, config = FAMILIES[WORKLOADS[name][0]].choose(workload_of(name, mode), TARGET)
        return f"{template.name} {config.index}"
    try:
        found = default_selection(problems()[key], TARGET)
    except UserError:
        return "refused"
    return f"{found.template.name} {found.config.index}"


def cuda_text(
    template: PackagedTemplate[Convolution], workload: Convolution, config: Config, epilogue: Epilogue
) -> str:
    """Return the CUDA source of a configuration, before NVRTC sees it."""
    schedule, args = template.program(config, workload, TARGET, epilogue)
    lowered = lower_for(TARGET, schedule, args, workload.name)
    program, _ = generate(tuple(finished(f, TARGET) for f in lowered.functions), TARGET)
    return program.source


def digest(text: str) -> str:
    """Return ten hexadecimal digits of SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def held(table: str) -> dict[str, str]:
    """Return the lines of a table's file."""
    lines = (FOLDER / f"{table}.tsv").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("\t") for line in lines)
    return {key: value for key, _, value in pairs}


def compared(chosen: Iterable[Case], compute: Callable[[Iterable[Case]], Iterator[str]]) -> list[str]:
    """Return a line for each case whose value is not the one in its file."""
    chosen = list(chosen)
    files = {table: held(table) for table in {table for table, _ in chosen}}
    pairs = zip(chosen, compute(chosen), strict=True)
    return [
        f"{table} {key}: {files[table].get(key, 'nothing')} became {now}"
        for (table, key), now in pairs
        if files[table].get(key) != now
    ]


def in_parallel(chosen: Iterable[Case]) -> Iterator[str]:
    """Compute values in all processors."""
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        yield from pool.map(value_of, chosen, chunksize=8)


def main() -> int:
    """Compare or update the tables that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tables", nargs="*", default=["programs", "choices"])
    parser.add_argument("--update", action="store_true", help="write the files anew")
    given = parser.parse_args()
    differences: list[str] = []
    for table in given.tables:
        every = cases(table)
        if given.update:
            lines = (f"{key}\t{value}\n" for (_, key), value in zip(every, in_parallel(every), strict=True))
            (FOLDER / f"{table}.tsv").write_text("".join(lines), encoding="utf-8")
        else:
            differences += compared(every, in_parallel)
    print("\n".join(differences) or "no difference")
    return bool(differences)


if __name__ == "__main__":
    sys.exit(main())
