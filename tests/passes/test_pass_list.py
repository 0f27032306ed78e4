"""The list of each target: verified after every pass, whichever optional ones are left out, and meaning the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.covering import each_value
from tests.loops.programs import alloc, buf, exprs, function, launch, load, loop, store
from tests.lowering.documents import PROGRAMS
from tests.passes.running import finish, run_pass
from tests.schedule.choosers import Drawn
from tests.schedule.random_programs import RandomProgram
from tests.schedule.random_tiles import draw_tiles
from tests.schedule.test_random_schedules import examples
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.core.hardware import LoopKind
from tilewright.core.options import Options
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.expr.nodes import SizeVar, Var
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Barrier, Evaluate, Function, MemoryScope, Stmt, seq
from tilewright.passes.pass_list import ESTABLISHES, ON_REQUEST, OPTIONAL, READABLE, pipeline_for
from tilewright.passes.runner import finishing, lowering, run
from tilewright.passes.unroll_loops import unroll_loops
from tilewright.refine.refine import REFINEMENTS, refine
from tilewright.transform import PassContext

TARGETS = ("cuda", "opencl", "opencl -device=gpu", "llvm")
EACH = [frozenset((name,)) for name in sorted(step.__name__ for step in (*OPTIONAL, *REFINEMENTS))]
CHOICES = [frozenset[str](), *EACH, frozenset().union(*EACH)]


def made_without(schedule: Any, args: list[Any], target: Target, without: Sequence[frozenset[str]]) -> list[Function]:
    """The program as it is compiled without each of the sets of optional passes; verified after each pass."""
    found = []
    for disabled in without:
        options = Options(disabled=disabled)
        with PassContext(disabled_pass=disabled):
            (part,) = lower_for(target, schedule, args).parts
        bounds = refine(part.recipe.schedule, part.recipe.bounds, target, options).bounds
        lowered = run(lowering(target, options), part.recipe.nest(bounds), target, options, check=True)
        found.append(run(finishing(target, options), lowered, target, options, check=True))
    return found


@pytest.mark.parametrize(("name", "target"), each_value(PROGRAMS, TARGETS))
def test_documents_stay_well_formed_without_any_optional_pass(name: str, target: str) -> None:
    schedule, args = PROGRAMS[name]()
    if target == "llvm":
        schedule = te.create_schedule(args[-1].op)  # that of the document binds its loops to threads
        row = schedule[args[-1]].op.axis[-1]
        schedule[args[-1]].vectorize(schedule[args[-1]].split(row, factor=12)[1])
    assert len(made_without(schedule, args, Target(target), CHOICES)) == len(CHOICES)


@st.composite
def tiles(draw: Any) -> RandomProgram:
    program = RandomProgram(Drawn(draw))
    draw_tiles(program)
    return program


@examples(0.5)
@given(tiles(), st.sampled_from(TARGETS[:3]), st.sampled_from(CHOICES))
def test_random_kernels_stay_well_formed(program: RandomProgram, target: str, without: frozenset[str]) -> None:
    note(program.text)
    try:
        (function,) = lower_for(Target(target), program.schedule, program.arguments).functions
        finish(function, target)
    except UserError as error:  # such as two extents of one thread index
        note(f"refused: {error}")
        return
    made_without(program.schedule, program.arguments, Target(target), [without])


CHECKED = Options(check_bounds=True)


def test_lists_are_consistent() -> None:
    for target in map(Target, TARGETS):
        passes = pipeline_for(target)
        assert passes[: len(READABLE)] == READABLE
        assert (*lowering(target, CHECKED), *finishing(target)) == passes
        assert (*lowering(target), *finishing(target)) == tuple(step for step in passes if step not in ON_REQUEST)
        assert len(set(passes)) == len(passes)
    listed = {step for target in TARGETS for step in pipeline_for(Target(target))}
    assert listed >= OPTIONAL
    assert not OPTIONAL.intersection(ESTABLISHES)  # what others rely on is not optional


# Statements with an effect have an identity.


def effects(stmt: Stmt, kind: type) -> int:
    """How often a statement occurs, each time that it stands somewhere counted."""
    below = sum(effects(child, kind) for child in stmt.children() if isinstance(child, Stmt))
    return below + isinstance(stmt, kind)


def test_two_equal_effects_are_two() -> None:
    x = Var("x", "float32")
    assert Evaluate(x) is not Evaluate(x)
    assert Barrier(MemoryScope.SHARED) is not Barrier(MemoryScope.SHARED)
    (one,) = [Evaluate(x)]
    assert one.map_children(lambda child: child) is one


@pytest.mark.parametrize("target", TARGETS)
def test_two_equal_effects_in_sequence_stay_two(target: str) -> None:
    """Through all passes, in a kernel as outside of one, and in copies of an unrolled loop."""
    A, B, i, tx = buf("A", 8), buf("B", 8), Var("i"), Var("tx")
    effect = [Evaluate(load(A, 0)) for _ in range(2)]
    body = seq(*effect, loop(i, 2, seq(Evaluate(load(A, i)), Evaluate(load(A, i))), LoopKind.UNROLLED))
    if target == "llvm":
        whole: Stmt = seq(body, store(B, 0, load(A, 0)))
    else:
        whole = seq(Barrier(MemoryScope.SHARED), Barrier(MemoryScope.SHARED), body, store(B, tx, load(A, tx)))
        whole = launch(whole, tx=(tx, 8))
    before = function((A, B), whole)
    unrolled = run_pass(unroll_loops, before, target)
    assert effects(unrolled.body, Evaluate) == 6
    machine = Target(target)
    made = before
    for step in pipeline_for(machine):
        if target == "llvm" or step.__name__ not in ("split_host_device",):  # it has its launch already
            made = step(made, machine, Options())
    assert effects(made.body, Evaluate) == 6
    if target != "llvm":
        assert effects(made.body, Barrier) >= 2
    out = np.full(8, np.nan, "float32")
    interpret(made, [np.arange(8, dtype="float32"), out], outputs=[B])
    assert out[0] == 0.0


def test_an_allocation_with_other_extents_is_of_another_buffer_throughout() -> None:
    n, i = SizeVar("n"), Var("i")
    A, L = buf("A", 8), buf("L", n, scope="local")
    view = buf("V", n, scope="local", of=L)
    body = alloc(L, seq(store(L, i, load(A, i)), store(A, i, load(view, i))))
    made = body.map_children(lambda child: exprs(4)[0] if child is n else child)
    assert made.buffer is not L
    (first, second) = made.body.stmts
    assert first.buffer is made.buffer
    assert second.value.source.alias_of is made.buffer
    assert made.buffer.name == "L"
