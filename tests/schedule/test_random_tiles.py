"""Random tiled kernels, in the form in which GPUs run them: fills of shared memory dealt out and loaded ahead.

The oracle is the NumPy reference. The interpreter looks for races; a few programs also run on an OpenCL device.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from tests.passes.running import finish
from tests.paths import python_path
from tests.schedule.choosers import Drawn
from tests.schedule.random_programs import RandomProgram
from tests.schedule.random_tiles import draw_tiles
from tests.schedule.test_random_schedules import examples, interpreted
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.passes import widen_indices as widening
from tilewright.passes.runner import PassRecord

ROOT = Path(__file__).parents[2]
CUDA = Target("cuda -arch=sm_90")
COUNTS: collections.Counter[str] = collections.Counter()


@st.composite
def tiles(draw: Any) -> RandomProgram:
    program = RandomProgram(Drawn(draw))
    draw_tiles(program)
    return program


def count(what: str) -> None:
    COUNTS[what] += 1
    hypothesis.event(what)


@examples(0.4)
@given(tiles(), st.integers(0, 7))
def test_a_tiled_kernel_computes_the_same_as_it_is_compiled(program: RandomProgram, wide: int) -> None:
    """Some with indices of 64 bits, as if they had too many elements for others."""
    note(program.text)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(widening, "NARROW", 0 if wide == 7 else widening.NARROW)
            (part,) = lower_for(CUDA, program.schedule, program.arguments).parts
        records: list[PassRecord] = []
        function = finish(part.function, records=records, check=True)
    except UserError as error:
        note(f"refused: {error}")
        count("refused")
        return
    count("accepted")
    changed = [record.name for record in (*part.records, *records) if record.result is not None]
    for name in {"cooperative_fetch", "register_prefetch", "drop_unread_stores"}.intersection(changed):
        count(name)
    interpreted(program, function, races=True, how="finished for CUDA")


def test_most_kernels_are_accepted_and_changed() -> None:
    """Else the test above tests little."""
    if not COUNTS:
        pytest.skip("no random kernel ran in this process")
    total = COUNTS["accepted"] + COUNTS["refused"]
    assert COUNTS["accepted"] * 2 >= total, dict(COUNTS)
    assert min(COUNTS["cooperative_fetch"], COUNTS["register_prefetch"]) * 10 >= total, dict(COUNTS)


def drawn(count: int) -> list[RandomProgram]:
    """The same programs each time."""
    found: list[RandomProgram] = []

    @settings(max_examples=count, derandomize=True, database=None, phases=[Phase.generate])
    @given(tiles())
    def collect(program: RandomProgram) -> None:
        found.append(program)

    collect()
    return found


def on_opencl(programs: list[RandomProgram], **environment: str) -> list[str]:
    """What becomes of each: "right", "wrong", "refused", or "crashed"."""
    outcomes: list[str] = []
    while len(outcomes) < len(programs):
        texts = json.dumps([(p.lines, p.tensors) for p in programs[len(outcomes) :]])
        command = [sys.executable, "-m", "tests.schedule.opencl_child"]
        with tempfile.TemporaryDirectory() as folder:
            variables = {**os.environ, "PYTHONPATH": python_path(), **environment}
            done = subprocess.run(command, input=texts, capture_output=True, text=True, cwd=folder, env=variables)
        outcomes += map(json.loads, done.stdout.splitlines())
        if done.returncode > 0:
            pytest.fail(done.stderr)
        outcomes += ["crashed"] * (done.returncode < 0)
    return outcomes


@pytest.mark.opencl
def test_tiled_kernels_run() -> None:
    """PoCL 3.0 miscompiles a few in a hundred, with or without the steps for GPUs, and crashes over others.

    What it makes wrong in one of its ways to run a block's threads and right in the other does not count:
    tests/topi/test_templates.py tells of such a kernel.
    """
    programs = drawn(10)
    outcomes = on_opencl(programs)
    assert outcomes.count("right") * 2 >= len(programs), collections.Counter(outcomes)
    doubtful = [program for program, outcome in zip(programs, outcomes, strict=True) if outcome == "wrong"]
    again = on_opencl(doubtful, POCL_WORK_GROUP_METHOD="workitemrepl")
    wrong = [program.text for program, outcome in zip(doubtful, again, strict=True) if outcome == "wrong"]
    assert not wrong, "\n\n".join(wrong)
