"""Random tiled kernels, in the form in which GPUs run them: fills of shared memory dealt out and loaded ahead.

The oracle is the NumPy reference. The interpreter looks for races; a few programs also run on an OpenCL device.
"""

from __future__ import annotations

import collections
from typing import Any

import hypothesis
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import tilewright
from tests.schedule.random_programs import RandomProgram
from tests.schedule.random_tiles import draw_tiles
from tests.schedule.test_random_schedules import arrays, check, examples, interpreted
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.loops.interpret import InterpretError
from tilewright.loops.nodes import Function
from tilewright.passes.pipeline import FINISH, PassRecord, run

CUDA = Target("cuda -arch=sm_90")
IDLE = "writes another value than several threads"
COUNTS: collections.Counter[str] = collections.Counter()


@st.composite
def tiles(draw: Any) -> RandomProgram:
    program = RandomProgram(draw)
    draw_tiles(program)
    return program


def count(what: str) -> None:
    COUNTS[what] += 1
    hypothesis.event(what)


def without_races(program: RandomProgram, function: Function) -> None:
    """The function computes what it should, without races but for one kind that does no harm.

    Where the remainder of a loop only fills memory that nobody reads any more, there is no barrier between its
    iterations; then the program as scheduled does the same.
    """
    try:
        interpreted(program, function, races=True, how="finished for CUDA")
    except InterpretError as error:
        if IDLE not in str(error):
            raise
    else:
        return
    count("fills idly")
    (scheduled,) = tilewright.lower(program.schedule, program.arguments).functions
    with pytest.raises(InterpretError, match=IDLE):
        interpreted(program, run(FINISH, scheduled), races=True, how="finished as scheduled")
    interpreted(program, function, races=False, how="finished for CUDA")


@examples(2)
@given(tiles())
def test_a_tiled_kernel_computes_the_same_as_it_is_compiled(program: RandomProgram) -> None:
    note(program.text)
    try:
        (part,) = lower_for(CUDA, program.schedule, program.arguments).parts
        records: list[PassRecord] = []
        function = run(FINISH, part.function, records, check=True)
    except UserError as error:
        note(f"refused: {error}")
        count("refused")
        return
    count("accepted")
    changed = [record.name for record in (*part.records, *records) if record.result is not None]
    for name in {"spread_fills", "prefetch_fills"}.intersection(changed):
        count(name)
    without_races(program, function)


def test_most_kernels_are_accepted_and_changed() -> None:
    """Else the test above tests little."""
    if not COUNTS:
        pytest.skip("no random kernel ran in this process")
    total = COUNTS["accepted"] + COUNTS["refused"]
    assert COUNTS["accepted"] * 2 >= total, dict(COUNTS)
    assert min(COUNTS["spread_fills"], COUNTS["prefetch_fills"]) * 10 >= total, dict(COUNTS)


@pytest.mark.opencl
@settings(
    examples(0.25), derandomize=True
)  # PoCL makes NaN of about one in a thousand, where barriers stand in two loops
@given(tiles())
def test_tiled_kernels_run(program: RandomProgram) -> None:
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
