"""Random schedules of corners: tensors of no dimension or element, axes of extent 1, operations of several values.

As in `test_random_schedules.py`, whatever is accepted computes what the declarations say: on the interpreter, and on
this CPU where no axis is bound to a GPU's threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, note
from hypothesis import strategies as st

import tilewright
from tests.schedule.choosers import Drawn
from tests.schedule.random_graphs import draw_graph
from tests.schedule.random_programs import RandomProgram
from tests.schedule.random_steps import draw_schedule
from tests.schedule.test_random_schedules import arrays, check, examples, forms, interpreted
from tilewright.core.errors import UserError


@st.composite
def corners(draw: Any, gpu: bool | None) -> RandomProgram:
    program = RandomProgram(Drawn(draw))
    draw_graph(program, 3, ranks=(0, 1, 2, 3), sizes=(1, 2, 1, 0, 3))
    draw_schedule(program, 6, gpu)
    return program


@examples(1.5)
@given(corners(gpu=None))
def test_a_schedule_changes_no_value(program: RandomProgram) -> None:
    if (found := forms(program)) is not None:
        function, *finished = found
        interpreted(program, function, races=False, how="lowered")
        for made in finished:
            interpreted(program, made, races=True, how="finished")


@examples(0.8)
@given(corners(gpu=False))
def test_a_cpu_computes_the_same(program: RandomProgram) -> None:
    note(program.text)
    try:
        module = tilewright.build(program.schedule, program.arguments, "llvm -fp-contract=off")
    except UserError as error:
        note(f"refused: {error}")
        return
    handles = [tilewright.nd.array(value) for value in arrays(program)]
    module(*handles)
    check(program, [np.asarray(handle.numpy()) for handle in handles], "llvm")
