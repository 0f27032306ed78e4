"""Runs programs on an OpenCL device, in a process that the device's compiler may take down with it.

Reads a list of programs from standard input, each as lines and names of tensors; writes a line of JSON for each.
"""

from __future__ import annotations

import json
import sys

import numpy as np

import tilewright
from tests.schedule.choosers import Finished
from tests.schedule.random_programs import RandomProgram, poison
from tilewright.core.errors import UserError

TARGET = "opencl -device=gpu"
"""Kernels in the form for GPUs, whatever the device is."""


def remade(lines: list[str], tensors: list[str]) -> RandomProgram:
    """A program from its lines."""
    program = RandomProgram(Finished())
    for line in lines:
        program.do(line)
    program.tensors = tensors
    return program


def outcome(program: RandomProgram) -> str:
    """ "right", "wrong", or "refused"."""
    try:
        module = tilewright.build(program.schedule, program.arguments, TARGET)
    except UserError:
        return "refused"
    device = tilewright.opencl(0)
    inputs = program.inputs()
    results = map(poison, program.outputs)
    arrays = [tilewright.nd.array(value, device) for value in (*inputs.values(), *results)]
    module(*arrays)
    expected = program.expected()
    found = [each.numpy() for each in arrays[-len(expected) :]]
    return "right" if all(map(np.array_equal, found, expected)) else "wrong"


if __name__ == "__main__":
    for lines, tensors in json.load(sys.stdin):
        print(json.dumps(outcome(remade(lines, tensors))), flush=True)
