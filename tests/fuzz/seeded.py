"""Families whose programs are drawn by a seed alone, and not as scripts: pipelines of copies, matrix instructions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tilewright
from tests.emulator.device import EmulationError, emulated, emulation
from tests.passes.running import compiled
from tests.programs import random_tensorized
from tests.schedule import random_pipelines
from tilewright.loops.interpret import interpret


def _pipeline(seed: int, engine: str) -> str:
    program = random_pipelines.draw(seed)
    out = np.full(program.expected.shape, -7, program.expected.dtype)
    if engine == "interpreter":
        function = compiled(program.schedule, program.tensors)
        interpret(function, [*program.inputs, out], outputs=function.buffers[-1:])
    elif engine == "emulated":
        try:
            with emulation(seed):
                arrays = [tilewright.nd.array(array, tilewright.cuda()) for array in (*program.inputs, out)]
                emulated(program.schedule, program.tensors)(*arrays)
                out = np.asarray(arrays[-1].numpy())
        except EmulationError as failure:
            return str(failure)
    elif engine != "opencl" or seed % 8 == 0:  # PoCL takes many seconds for some
        device = tilewright.device(engine, 0)
        arrays = [tilewright.nd.array(array, device) for array in (*program.inputs, out)]
        tilewright.build(program.schedule, program.tensors, engine)(*arrays)
        out = np.asarray(arrays[-1].numpy())
    else:
        return ""
    return "" if np.array_equal(out, program.expected) else f"{(out != program.expected).sum()} elements differ"


def _tensorized(seed: int, engine: str) -> str:
    case = random_tensorized.draw(seed, small=True)
    if engine == "emulated":
        return random_tensorized.emulated(case)
    if engine in ("opencl", "cuda"):
        s, args = random_tensorized.program(case)
        return random_tensorized.on_device(case, tilewright.build(s, args, engine), args, engine)
    if engine != "interpreter":
        return ""
    times = random_tensorized.interpreted(case)
    return "" if times <= 1 else f"the error is {times:.1e} times what it may be: {case}"


SEEDED: dict[str, Callable[[int, str], str]] = {"pipelines": _pipeline, "tensorized": _tensorized}
"""What is wrong with the program of a seed by an engine, or ""."""
