"""Random programs under random schedules explain and draw themselves, and their numbers fit each other."""

from __future__ import annotations

import contextlib
import xml.etree.ElementTree as ET

import pytest

import tilewright as tw
from tests.schedule.choosers import Seeded
from tests.schedule.random_graphs import draw_graph
from tests.schedule.random_programs import RandomProgram
from tests.schedule.random_steps import draw_schedule
from tests.schedule.random_tiles import draw_tiles


def drawn(seed: int) -> RandomProgram:
    program = RandomProgram(Seeded(seed))
    if seed % 2:
        draw_tiles(program)
    else:
        draw_graph(program, 4)
        draw_schedule(program, 8, None)
    return program


@pytest.mark.parametrize("seed", range(30))
def test_a_random_schedule_is_explained(seed: int) -> None:
    program = drawn(seed)
    for target in ("opencl -device=gpu", "llvm"):
        with contextlib.suppress(tw.UserError):  # what cannot be built for a target is refused as by `build`
            explanation = program.schedule.explain(target, args=program.arguments)
            assert str(explanation)
            for kernel in explanation.kernels:
                for access in kernel.counts.accesses.values():
                    assert 0 <= access.lanes <= kernel.warp * access.requests * (1 + 1e-9)
                    assert access.least <= access.units * (1 + 1e-9)
                    assert access.units <= 32 * max(1, access.width // 4) * access.requests * (1 + 1e-9)
                for guard in kernel.counts.guards.values():
                    assert 0 <= guard.passed <= guard.tested * (1 + 1e-9)
    for view in ("tile", "banks", "schedule"):
        with contextlib.suppress(tw.UserError):
            ET.fromstring(program.schedule.draw(view=view, args=program.arguments))
