"""Random cases for automatic schedules: a graph, and the line that has a target's schedule made."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.fuzz.cases import SIZES, Case
from tests.fuzz.declarations import draw_operators, draw_symbolic
from tests.schedule.choosers import Seeded
from tests.schedule.random_dags import draw_dag
from tests.schedule.random_graphs import draw_graph, draw_symbolic_graph
from tests.schedule.random_programs import RandomProgram
from tests.schedule.random_tiles import GRAPHS

TARGETS = {"llvm": "llvm", "cuda": "cuda -arch=sm_90", "opencl": "opencl -device=gpu"}
LARGE = (1, 4, 16, 33, 64, 100, 128, 257, 512)
LARGE_SIZES = ((33, 20), (1, 257), (100, 2), (16, 40))
"""Of n and m."""
REDUCTIONS = ("reduction", "pair_reduction", "largest_place", "product")


def _graph(program: RandomProgram) -> None:
    draw_graph(program, program.pick([4, 2, 3, 8]))


def _large(program: RandomProgram) -> None:
    draw_graph(program, program.pick([2, 3, 5]), sizes=LARGE, largest=1 << 14)


def _reductions(program: RandomProgram) -> None:
    draw_graph(
        program, program.pick([1, 2, 3]), ranks=(2, 1), sizes=LARGE, first=program.pick(REDUCTIONS), largest=1 << 14
    )


def _products(program: RandomProgram) -> None:
    draw_graph(program, 3, ranks=(2, 3), sizes=(16, 32, 20, 64, 7, 1), first="product", largest=1 << 12)


def _images(program: RandomProgram) -> None:
    draw_graph(program, 3, ranks=(3,), sizes=(4, 6, 5, 3, 1), first="image")


def _scans(program: RandomProgram) -> None:
    draw_graph(program, 3, ranks=(2, 1), first="scan")


def _corners(program: RandomProgram) -> None:
    draw_graph(program, 3, ranks=(0, 1, 2, 3), sizes=(1, 2, 1, 0, 3))


def _dag(program: RandomProgram) -> None:
    draw_dag(program, program.pick([3, 5, 8]), (1, 2, 3, 4, 5, 7, 8, 13), (1, 2, 3, 4), 200)


def _large_dag(program: RandomProgram) -> None:
    largest = program.pick([1 << 10, 1 << 12, 1 << 14])
    draw_dag(program, program.pick([2, 4, 6]), (1, 16, 31, 64, 97, 128, 256, 257), (1, 2, 2, 3), largest)


def _corner_dag(program: RandomProgram) -> None:
    draw_dag(program, program.pick([2, 4]), (1, 2, 1, 0, 3), (0, 1, 2, 3), 30)


def _tiles(program: RandomProgram) -> None:
    program.pick(GRAPHS)(program)
    program.do("kept = []")
    program.do("outputs = ['T']")


FAMILIES: dict[str, tuple[int, Callable[[RandomProgram], Any]]] = {
    "dag": (30, _dag),
    "large dag": (30, _large_dag),
    "corner dag": (6, _corner_dag),
    "graph": (20, _graph),
    "large": (14, _large),
    "reductions": (14, _reductions),
    "products": (10, _products),
    "images": (10, _images),
    "symbolic": (5, draw_symbolic_graph),
    "symbolic rows": (9, draw_symbolic),
    "operators": (16, draw_operators),
    "tiles": (6, _tiles),
    "scans": (4, _scans),
    "corners": (4, _corners),
}


def draw_automatic(seed: int, kind: str = "any") -> Case:
    """The case of a seed: its graph, with an automatic schedule for one of the targets, or for the given one."""
    chooser = Seeded(f"automatic {seed}")
    family = chooser.pick([name for name, (weight, _) in FAMILIES.items() for _ in range(weight)])
    program = RandomProgram(chooser)
    FAMILIES[family][1](program)
    lines = [line for line in program.lines if not line.startswith("s = ")]
    # Statements of te.extern have loops of their own, which run on a CPU.
    drawn = chooser.pick(list(TARGETS))
    target = TARGETS["llvm" if "te.extern(" in program.text else drawn if kind == "any" else kind]
    lines.append(f"s = auto_schedule([{', '.join([*program.names['outputs'], *program.names['kept']])}], {target!r})")
    sizes = tuple(chooser.permuted((*SIZES, *LARGE_SIZES))[:3]) if family.startswith("symbolic") else ()
    return Case(f"automatic {family}", seed, tuple(lines), tuple(program.tensors), (), sizes)


def target_of(case: Case) -> str:
    """The kind of target that a case is scheduled for; "" for a case with a schedule of its own."""
    found = re.search(r"^s = auto_schedule\(.*'(\w+)[^']*'\)$", case.text, re.MULTILINE)
    return found[1] if found else ""
