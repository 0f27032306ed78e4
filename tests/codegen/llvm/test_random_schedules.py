"""Random graphs under random schedules, compiled for this CPU, against the NumPy reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import tilewright
from tests.schedule.choosers import Drawn
from tests.schedule.random_graphs import draw_graph
from tests.schedule.random_programs import RandomProgram, poison
from tests.schedule.random_steps import draw_schedule
from tilewright.core.errors import UserError
from tilewright.runtime import set_num_threads

quiet = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much])


@st.composite
def programs(draw: Any) -> RandomProgram:
    """A program that binds nothing to a GPU's threads."""
    program = RandomProgram(Drawn(draw))
    draw_graph(program, 4)
    draw_schedule(program, 8, False)
    return program


@pytest.fixture(autouse=True, scope="module")
def _several_threads() -> Iterator[None]:
    set_num_threads(3)
    yield
    set_num_threads(None)


@settings(quiet, max_examples=settings.default.max_examples)
@given(programs())
def test_a_schedule_changes_no_value(program: RandomProgram) -> None:
    note(program.text)
    try:
        module = tilewright.build(program.schedule, program.arguments, "llvm -fp-contract=off")
    except UserError as error:
        note(f"refused: {error}")
        return
    values = program.inputs()
    rest = [t for t in program.arguments if t not in values]
    arrays = [tilewright.nd.array(x) for x in (*values.values(), *map(poison, rest))]
    module(*arrays)
    expected = program.expected()
    for tensor, found, right in zip(program.outputs, arrays[-len(expected) :], expected, strict=True):
        np.testing.assert_array_equal(found.numpy(), right, err_msg=tensor.name)
