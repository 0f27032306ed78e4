"""Random graphs under random schedules: whatever is accepted computes what the declarations say.

Each program runs on the interpreter twice, as lowered (without barriers yet, so races are not looked for) and as
finished; once more where GPUs run it in another form than it is scheduled in; and a few also on an OpenCL device. The
oracle is the NumPy reference. A failing program prints as a script.
"""

from __future__ import annotations

import collections
import json
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import tilewright
from tests.passes.running import finish
from tests.schedule.choosers import Drawn
from tests.schedule.random_graphs import draw_graph, draw_symbolic_graph
from tests.schedule.random_programs import RandomProgram, poison
from tests.schedule.random_steps import draw_schedule
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Function
from tilewright.loops.verify import Form, verify
from tilewright.tensor.reference import reference

CUDA = Target("cuda -arch=sm_90")
COUNTS: collections.Counter[str] = collections.Counter()
quiet = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much])


def examples(share: float) -> Any:
    """So many times the examples of the profile that is loaded; `make fuzz-properties` runs ten times the default."""
    return settings(quiet, max_examples=int(share * settings.default.max_examples))


@st.composite
def programs(draw: Any, steps: int = 8, gpu: bool | None = None, stages: int = 4) -> RandomProgram:
    program = RandomProgram(Drawn(draw))
    draw_graph(program, stages)
    draw_schedule(program, steps, gpu)
    return program


def forms(program: RandomProgram) -> tuple[Function, ...] | None:
    """The lowered and the finished program, and the one for GPUs if it differs; None where the schedule is refused."""
    note(program.text)
    try:
        (part,) = tilewright.lower(program.schedule, program.arguments).parts
        function, finished = part.function, [finish(part.function, check=True)]
        compiled = part.compiled_for(CUDA).function
        if compiled is not function:
            hypothesis.event("in another form on GPUs")
            finished.append(finish(compiled, check=True))
    except UserError as error:
        COUNTS["refused"] += 1
        note(f"refused: {error}")
        hypothesis.event("refused")
        return None
    COUNTS["accepted"] += 1
    hypothesis.event("accepted")
    verify(function, Form.FLAT)
    return function, *finished


def arrays(program: RandomProgram) -> list[np.ndarray]:
    """The inputs' values, and others than right ones for what is to be computed."""
    inputs = program.inputs()
    return [*inputs.values(), *(poison(t) for t in program.arguments if t not in inputs)]


def check(program: RandomProgram, values: list[np.ndarray], how: str) -> None:
    """The outputs, last among `values`, are what the reference computes."""
    expected = program.expected()
    for tensor, found, right in zip(program.outputs, values[-len(expected) :], expected, strict=True):
        np.testing.assert_array_equal(found, right, err_msg=f"{tensor.name}, {how}")


def interpreted(program: RandomProgram, function: Function, *, races: bool, how: str) -> None:
    values = arrays(program)
    interpret(function, values, races=races, outputs=function.buffers[len(program.inputs()) :])
    check(program, values, how)


@examples(2)
@given(programs())
def test_a_schedule_changes_no_value(program: RandomProgram) -> None:
    if (found := forms(program)) is not None:
        function, *finished = found
        interpreted(program, function, races=False, how="lowered")
        for made in finished:
            interpreted(program, made, races=True, how="finished")


@st.composite
def symbolic_programs(draw: Any) -> tuple[RandomProgram, list[str]]:
    program = RandomProgram(Drawn(draw))
    shapes = draw_symbolic_graph(program)
    draw_schedule(program)
    return program, shapes


@examples(1)
@given(symbolic_programs())
def test_sizes_that_are_known_at_the_call(drawn: tuple[RandomProgram, list[str]]) -> None:
    """One program for all sizes: multiples of its tiles, others, and single elements."""
    program, shapes = drawn
    if (found := forms(program)) is None:
        return
    sizes = program.names["n"], program.names["m"]
    rng = np.random.default_rng(len(program.text))
    for n, m in ((1, 1), (5, 3), (8, 4), (13, 7), (17, 2)):
        extents = [eval(shape, {"n": n, "m": m}) for shape in shapes]
        if min(extents[-1]) < 0:
            continue
        given_values = [rng.integers(-2, 3, shape).astype("float32") for shape in extents[:-1]]
        inputs = dict(zip([*program.arguments[:-1], *sizes], [*given_values, n, m], strict=True))
        (expected,) = reference(program.outputs, inputs)
        for function in found:
            result = np.full(extents[-1], np.nan, "float32")
            interpret(function, [*given_values, result], races=function is not found[0], outputs=function.buffers[-1:])
            np.testing.assert_array_equal(result, expected, err_msg=f"n = {n}, m = {m}")


def test_most_schedules_are_accepted() -> None:
    """Else the test above tests little."""
    total = COUNTS.total()
    if not total:
        pytest.skip("no random schedule ran in this process")
    assert COUNTS["accepted"] * 2 >= total, dict(COUNTS)


def outcome(schedule: Any, arguments: list[Any]) -> str:
    """The lowered program as text, or why there is none."""
    try:
        return str(tilewright.lower(schedule, arguments))
    except UserError as error:
        return error.message


@examples(1)
@given(programs(steps=12))
def test_recorded_steps_replay(program: RandomProgram) -> None:
    """Through JSON, on a fresh schedule of the same tensors, to the same program."""
    note(program.text)
    steps = json.loads(json.dumps([step.to_json() for step in program.schedule.steps]))
    again = te.create_schedule([tensor.op for tensor in program.outputs])
    again.replay(steps)
    assert [step.to_json() for step in again.steps] == steps
    assert outcome(again, program.arguments) == outcome(program.schedule, program.arguments)


@pytest.mark.opencl
@examples(0.4)
@given(programs(gpu=True, stages=3))
def test_kernels_compute_the_same(program: RandomProgram) -> None:
    note(program.text)
    device = tilewright.opencl(0)
    try:
        module = tilewright.build(program.schedule, program.arguments, "opencl")
    except UserError as error:
        note(f"refused: {error}")
        hypothesis.event("refused")
        return
    hypothesis.event("accepted")
    handles = [tilewright.nd.array(value, device) for value in arrays(program)]
    module(*handles)
    check(program, [handle.numpy() for handle in handles], "opencl")
