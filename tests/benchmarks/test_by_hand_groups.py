"""The kernels written by hand: NVRTC compiles every form, and each is right on the emulated device."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.by_hand_groups import LEFT_OUT, PARTS, Variant, built, variants
from tests.emulator.device import TARGET, EmulatedCuda
from tests.emulator.marks import emulates
from tests.topi.test_direct import exact
from tilewright.codegen.abi import CompiledProgram, KernelAbi
from tilewright.topi.templates import Conv2dLayer

FORMS = [
    *((0, copy, *form) for copy in (1, 2, 4, 8) for form in ((0, 2), (1, 2), (1, 1), (1, 0))),
    *((1, copy, 0, store) for copy in (0, 1) for store in (0, 2)),
]
"""Layout, copy, rows of the instruction, and store."""


def small(form: tuple[int, ...], cg: int, kind: str = "f16") -> Variant:
    """A form on a small layer: in blocks of all rows where its copies need them, else of half of them."""
    last, copy, rows_are, store = form
    block_rows = 8 if copy == 8 else 4
    return Variant(2, 16, 8, 20, cg, last, copy, rows_are, store, block_rows, 2 - copy % 2, 2, kind=kind)


@pytest.mark.parametrize("part", PARTS)
def test_every_form_is_there_and_compiles(part: str) -> None:
    made = {(v.last, v.copy, v.rows_are, v.store): v for v in variants(part) if not v.left_out}
    wanted = [form for form in FORMS if form[0] == ("NHWC" in part)]
    assert set(made) == set(wanted)
    if "bfloat16" not in part:
        for form in wanted[::3]:
            _, cubin, registers = built(made[form])
            assert cubin
            assert registers <= 128


def test_what_is_left_out_is_left_out() -> None:
    found = [v for v in variants("b16-float16") if v.block_rows == 28]
    assert {v.left_out for v in found} == set(LEFT_OUT)


@emulates
@pytest.mark.parametrize(
    "form",
    [pytest.param(form, marks=pytest.mark.slow if number % 3 else ()) for number, form in enumerate(FORMS)],
    ids=lambda form: "-".join(map(str, form)),
)
def test_it_is_right_on_the_emulated_device(form: tuple[int, ...]) -> None:
    made = small(form, cg=8 if form[1] % 2 else 4)
    assert made.is_possible
    layout = "NHWC" if made.last else "NCHW"
    shape = (made.images, made.channels, made.height, made.width)
    of = Conv2dLayer.of(shape, groups=made.channels // made.cg, dtype="float16", layout=layout)
    data, weights = of.inputs(np.random.default_rng(0))
    right = exact(of, data, weights)
    out = np.full(right.shape, np.nan, "float16")
    driver = EmulatedCuda()
    for array in (data, weights, out):
        driver.adopt(array.ctypes.data, array.nbytes)
    abi = KernelAbi("grouped", ("buffer",) * 3, made.shared)
    launch = driver.load(CompiledProgram(str(TARGET), (), (abi,), made.source()), 0)["grouped"]
    launch(made.grid, 1, 1, made.threads, 1, 1, *(array.ctypes.data for array in (data, weights, out)))
    assert np.linalg.norm(out.astype("float64") - right) / np.linalg.norm(right) < 1e-3
