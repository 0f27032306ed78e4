"""Products by matrix instructions: what they mean, that they compile, and what a GPU computes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from benchmarks.matmul import Tiling, product
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tests.passes.running import finish
from tests.programs.tensorized import PROGRAMS, Program
from tilewright import intrin
from tilewright.core.dtype import DType
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.loops.interpret import interpret
from tilewright.runtime.module import Module

CUDA = "cuda -arch=sm_90"
ATOMS = ("float16", "float16_float16", "bfloat16", "tf32", "3xtf32", "3xtf32_one", "bf16x6", "int8", "uint8", "float64")
TURNS = ((False, False), (False, True), (True, False), (True, True))
WAYS = [(atom, *turn) for atom in ATOMS for turn in TURNS if "int8" not in atom or turn == (False, True)]
ERRORS = {"float16": 4e-6, "bfloat16": 4e-6, "tf32": 1e-3, "3xtf32": 3e-7, "float64": 1e-15, "int8": 0, "uint8": 0}
ERRORS |= {"float16_float16": 4e-3, "bf16x6": 3e-7, "3xtf32_one": 3e-7}
"""The largest relative L2 error, against float64 on the operands as they are."""


def draw(tensor: Any) -> np.ndarray:
    """Random values of a tensor's shape and type."""
    shape = [int(extent) for extent in tensor.shape]
    rng = np.random.default_rng([*shape, *tensor.op.name.encode()])
    kind = DType(tensor.dtype)
    if kind.is_float:
        return rng.uniform(-1, 1, shape).astype(kind.numpy)
    return rng.integers(0 if kind == "uint8" else -128, 128, shape).astype(kind.numpy)


def exact(a: np.ndarray, b: np.ndarray, a_turned: bool, b_turned: bool) -> np.ndarray:
    """The product in float64."""
    left, right = a.astype("float64"), b.astype("float64")
    made: np.ndarray = (left.T if a_turned else left) @ (right.T if b_turned else right)
    return made


def error(found: np.ndarray, wanted: np.ndarray) -> float:
    """The relative L2 norm of the difference."""
    return float(np.linalg.norm(found.astype("float64") - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize(("atom", "a_turned", "b_turned"), [way for way in WAYS if way[0] == "float16" or way[2]])
def test_bodies_mean_the_product_and_kernels_compile_without_spills(atom: str, a_turned: bool, b_turned: bool) -> None:
    s, args = product(64, 32, 64, atom, Tiling((32, 32), (32, 16)), a_turned=a_turned, b_turned=b_turned)
    lowered = lower_for(Target(CUDA), s, args).functions[0]
    inputs = [draw(tensor) for tensor in args[:2]]
    wanted = exact(*inputs, a_turned, b_turned)
    for function, races in ((lowered, False), (finish(lowered, CUDA, check=True), True)):
        found = np.empty(wanted.shape, DType(args[2].dtype).numpy)
        interpret(function, [*inputs, found], races=races)
        assert error(found, wanted) <= max(ERRORS[atom], 0) * (atom != "tf32") + 1e-6
    module = tw.build(s, args, CUDA)
    (used,) = module.resources.values()
    assert used.spill_store_bytes == used.stack_bytes == 0
    assert "mma.sync" in module.program.source


@pytest.mark.parametrize("atom", ["float16_float16", "bf16x6"])
def test_the_source_of_sums_in_float16_and_of_six_products(atom: str, golden: Callable[[str, str], None]) -> None:
    s, args = product(64, 32, 64, atom, Tiling((32, 32), (32, 16)), b_turned=True)
    golden(f"tensorize/{atom}.cu", tw.build(s, args, CUDA).program.source)


@pytest.mark.cuda
@pytest.mark.parametrize(("atom", "a_turned", "b_turned"), WAYS)
@pytest.mark.parametrize(
    "tiling", [Tiling((32, 32), (32, 16)), Tiling((64, 48), (32, 24), 64), Tiling((128, 64), (64, 32), 32, 3)], ids=str
)
def test_a_gpu_computes_the_product(atom: str, a_turned: bool, b_turned: bool, tiling: Tiling) -> None:
    m, n, k = 2 * tiling.block[0], 3 * tiling.block[1], 256
    s, args = product(m, n, k, atom, tiling, a_turned=a_turned, b_turned=b_turned)
    module = tw.build(s, args, "cuda")
    inputs = [draw(tensor) for tensor in args[:2]]
    poison = np.full((m, n), 77, DType(args[2].dtype).numpy)
    arrays = [tw.nd.array(x, tw.cuda()) for x in (*inputs, poison)]
    module(*arrays)
    assert error(arrays[2].numpy(), exact(*inputs, a_turned, b_turned)) <= ERRORS[atom]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_around_an_instruction_means_the_same_everywhere(program: Callable[[], Program]) -> None:
    made = program()
    lowered = lower_for(Target(CUDA), made.s, made.args).functions[0]
    for function, races in ((lowered, False), (finish(lowered, CUDA, check=True), True)):
        found = np.full(made.wanted.shape, 77, DType(made.args[-1].dtype).numpy)
        interpret(function, [*made.inputs, found], races=races)
        assert error(found, made.wanted) <= 4e-4
    (used,) = tw.build(made.s, made.args, CUDA).resources.values()
    assert used.spill_store_bytes == used.stack_bytes == 0


RUNS = [pytest.param(program, "cuda", marks=pytest.mark.cuda) for program in PROGRAMS]
RUNS += [pytest.param(program, "opencl", marks=pytest.mark.opencl) for program in PROGRAMS[::3]]


@pytest.mark.parametrize(("program", "target"), RUNS)
def test_a_program_around_an_instruction_runs(program: Callable[[], Program], target: str) -> None:
    made = program()
    poison = np.full(made.wanted.shape, 77, DType(made.args[-1].dtype).numpy)
    arrays = [tw.nd.array(x, tw.device(target)) for x in (*made.inputs, poison)]
    tw.build(made.s, made.args, target)(*arrays)
    assert error(arrays[-1].numpy(), made.wanted) <= (4e-4 if target == "opencl" else 2e-3)


SPLIT = ["3xtf32", "3xtf32_one", "bf16x6"]


@pytest.mark.cuda
@pytest.mark.parametrize("atom", ["float16", "tf32", *SPLIT])
def test_infinities_and_nan_go_where_they_go_in_float32(atom: str) -> None:
    check_infinities(atom, 64, Tiling((32, 32), (32, 32)), partial(tw.build, target="cuda"))


@emulates
@pytest.mark.parametrize("atom", SPLIT)
@pytest.mark.parametrize(
    "steps", [1, 5]
)  # partial sums are added after fewer terms than usual, and some terms are left
def test_the_source_takes_infinities_and_nan_where_float32_does(atom: str, steps: int) -> None:
    tiling = Tiling((32, 32), (32, 16), steps * intrin.mma(atom).k)
    with emulation():
        check_infinities(atom, 80, tiling, emulated)


def check_infinities(atom: str, depth: int, tiling: Tiling, build: Callable[..., Module]) -> None:
    s, args = product(32, 32, depth, atom, tiling)
    a, b = (draw(tensor) for tensor in args[:2])
    a[3, 5], a[7, 9], a[9, 40], b[50, 4], b[51, 6], b[12, 20], a[20, 12], a[21, 12] = (
        *(np.inf, np.nan, -np.inf, np.inf, np.nan, -np.inf, 0.0, -3.0),
    )
    arrays = [tw.nd.array(x, tw.cuda()) for x in (a, b, np.zeros((32, 32), "float32"))]
    build(s, args)(*arrays)
    found = arrays[2].numpy()
    with np.errstate(invalid="ignore"):
        wanted = exact(a, b, False, False)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(found[np.isinf(wanted)], wanted[np.isinf(wanted)])
    finite = np.isfinite(wanted)
    assert error(found[finite], wanted[finite]) <= ERRORS[atom]
