"""Random cases, drawn by a seed: a program of some family, as a script that says all there is to say about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.fuzz.seeded import SEEDED
from tests.schedule.choosers import Finished, Seeded
from tests.schedule.random_graphs import draw_graph, draw_symbolic_graph
from tests.schedule.random_programs import RandomProgram
from tests.schedule.random_reductions import draw_reductions
from tests.schedule.random_steps import draw_schedule, store_predicates
from tests.schedule.random_tiles import draw_tiles
from tilewright.core.errors import UserError
from tilewright.expr.evaluate import evaluate
from tilewright.expr.nodes import Expr, Var
from tilewright.tensor.reference import reference
from tilewright.tensor.tensor import PlaceholderOp

WORDS = ("blockIdx", "threadIdx", "externs.threads", "'cuda -arch=sm_90')", "'opencl -device=gpu')")
"""The words of scripts whose programs run on a GPU."""


@dataclass(frozen=True)
class Case:
    """Lines of a script that makes a schedule `s`, the names of its tensors, and what was refused on the way.

    `sizes` are the values of n and m, for programs whose sizes are known at the call: one pair for each call.
    """

    family: str
    seed: int
    lines: tuple[str, ...]
    tensors: tuple[str, ...]
    refused: tuple[str, ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def on_grid(self) -> bool:
        """Whether some loop is bound to a GPU's blocks or threads."""
        return self.family in SEEDED or any(word in self.text for word in WORDS)

    def without(self, dropped: range) -> Case:
        """The case without some of its lines."""
        return replace(self, lines=tuple(line for i, line in enumerate(self.lines) if i not in dropped))


def _graph(program: RandomProgram) -> None:
    program.on_gpu = program.chance(50)
    draw_graph(program, program.pick([4, 2, 3]))
    draw_schedule(program, program.pick([8, 4, 12]), program.on_gpu)


def _images(program: RandomProgram) -> None:
    program.on_gpu = program.chance(50)
    draw_graph(program, 2, ranks=(3,), sizes=(4, 6, 5, 3), first="image")
    draw_schedule(program, 10, program.on_gpu)


def _scans(program: RandomProgram) -> None:
    program.on_gpu = program.chance(50)
    draw_graph(program, 2, ranks=(2, 1), first=program.pick(["scan", "extern"]))
    draw_schedule(program, 6, program.on_gpu)


def _corners(program: RandomProgram) -> None:
    program.on_gpu = program.chance(40)
    draw_graph(program, 3, ranks=(0, 1, 2, 3), sizes=(1, 2, 1, 0, 3))
    draw_schedule(program, 6, program.on_gpu)


def _symbolic(program: RandomProgram) -> None:
    program.on_gpu = program.chance(50)
    draw_symbolic_graph(program)
    draw_schedule(program, 8, program.on_gpu)


FAMILIES: dict[str, tuple[int, Callable[[RandomProgram], Any]]] = {
    "graph": (30, _graph),
    "reductions": (16, draw_reductions),
    "tiles": (16, draw_tiles),
    "images": (12, _images),
    "scans": (10, _scans),
    "symbolic": (10, _symbolic),
    "corners": (6, _corners),
    "pipelines": (3, lambda program: None),
    "tensorized": (3, lambda program: None),
}
SIZES = ((1, 1), (5, 3), (8, 4), (13, 7), (17, 2))


def draw(seed: int) -> Case:
    """The case of a seed."""
    chooser = Seeded(seed)
    family = chooser.pick([name for name, (weight, _) in FAMILIES.items() for _ in range(weight)])
    program = RandomProgram(chooser)
    if family in SEEDED:
        return Case(family, seed, (), ())
    try:
        FAMILIES[family][1](program)
    except Exception:
        if not program.attempt:
            raise
        program.lines.append(program.attempt)  # the verdict on the case tells of it
    sizes = tuple(chooser.permuted(SIZES)[:3]) if family == "symbolic" else ()
    if program.on_gpu and "s" in program.names:
        store_predicates(program)
    return Case(family, seed, tuple(program.lines), tuple(program.tensors), tuple(program.refused), sizes)


class Script:
    """A case whose lines are executed: the schedule, the arguments, and their values."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.program = RandomProgram(Finished())
        for line in case.lines:
            if not self.program.do(line) and "auto_schedule(" in line:
                raise UserError(self.program.refused[-1].partition("  # ")[2])
        names = self.program.names
        self.program.tensors = [name for name in case.tensors if name in names]
        self.schedule = self.program.schedule
        self.variables = [names["n"], names["m"]] if case.sizes else []
        # The entry point takes sizes that no argument's shape tells by itself from there, too.
        self.arguments = self.program.arguments
        self.results = [t for t in self.arguments if not isinstance(t.op, PlaceholderOp)]

    def calls(self) -> list[dict[Any, Any]]:
        """The values of the inputs and of the sizes, for each call."""
        if not self.variables:
            return [dict(self.program.inputs())]
        rng = np.random.default_rng(self.case.seed)
        found: list[dict[Any, Any]] = []
        for sizes in self.case.sizes:
            given: dict[Any, Any] = dict(zip(self.variables, sizes, strict=True))
            shapes = {t: self.shape(t, given) for t in self.arguments}
            if all(extent >= 0 for shape in shapes.values() for extent in shape):
                inputs = [t for t in self.arguments if t not in self.results]
                arrays = {t: self.program.values(rng, t, shapes[t], given) for t in inputs}
                found.append({**arrays, **given})
        return found

    def shape(self, tensor: Any, given: dict[Any, Any]) -> list[int]:
        """The extents of a tensor, as numbers."""
        sizes = {key: value for key, value in given.items() if isinstance(key, Var)}
        return [int(evaluate(e, sizes)) if isinstance(e, Expr) else int(e) for e in tensor.shape]

    def empty(self, given: dict[Any, Any]) -> list[np.ndarray]:
        """Arrays for the results, of what no program here computes."""
        shapes = [(self.shape(t, given), t.dtype) for t in self.results]
        return [np.full(shape, np.nan if kind.is_float else 113, kind.numpy) for shape, kind in shapes]

    def expected(self, given: dict[Any, Any]) -> list[np.ndarray]:
        """What the results are by the NumPy reference."""
        if not self.variables:
            return self.program.expected()
        return reference(self.program.outputs, given)


def primitives(lines: tuple[str, ...]) -> list[str]:
    """The primitive that each of some lines applies; lines that apply none are left out."""
    found = [re.search(rf"\.({'|'.join(PRIMITIVES)})\(", line) for line in lines if "s." in line or "s[" in line]
    return [match[1] for match in found if match] + ["create_group" for line in lines if re.match(r"G\d+\.", line)]


PRIMITIVES = """split fuse reorder tile bind env_threads cache_read cache_write rfactor unroll vectorize parallel pragma
compute_at compute_inline compute_root set_scope storage_align pipeline double_buffer set_store_predicate tensorize
create_group prefetch rolling_buffer""".split()


KERNELS = {"convolution of an image": r"// \d+ \* \d+ \+ k|\b0 \* \d+ \+ k", "product or window": r"\* A\d+\["}


def computations(lines: tuple[str, ...]) -> set[str]:
    """What a case computes, by the words of its declarations."""
    text = "\n".join(lines)
    words = {
        "reduction": "axis=k|axis=[",
        "tuple reduction": "comm_reducer",
        "scan": "te.scan(",
        "extern": "te.extern(",
        "padding": "if_then_else",
        "symbolic": "size_var",
    }
    found = {name for name, forms in words.items() if any(form in text for form in forms.split("|"))}
    found |= {name for name, word in KERNELS.items() if re.search(word, text)}
    return found | {f"type {kind}" for kind in re.findall(r"te\.placeholder\(.*?'(\w+\d+)'", text)} or {"plain"}
