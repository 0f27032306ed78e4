"""Products by instructions of a warpgroup that read the right factor as it lies in memory, columns side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from benchmarks.automatic_programs import product
from tilewright import te
from tilewright.auto.program import AutomaticProgram
from tilewright.auto.ways import Way
from tilewright.core.target import Target
from tilewright.tensor.reference import reference

TARGET = Target("cuda -arch=sm_90")
CASES = {
    "one tile": ((64, 64, 64, 0), {"columns": 64, "stages": 1, "store": "fragments"}),
    "tiles": ((128, 256, 192, 0), {"columns": 128, "stages": 3, "store": "shared"}),
    "split": ((64, 128, 256, 0), {"columns": 128, "stages": 2, "split": 2}),
    "batches": ((64, 128, 128, 3), {"columns": 64, "stages": 2, "store": "shared"}),
    "few rows": ((16, 128, 256, 0), {"columns": 64, "stages": 2, "split": 2}),
    "uneven": ((100, 200, 136, 0), {"columns": 128, "stages": 2, "store": "fragments"}),
    "warpgroups": ((128, 128, 128, 0), {"rows": 128, "columns": 128, "stages": 2}),
}


def _way(case: str) -> tuple[AutomaticProgram, Way, list[tw.te.Tensor]]:
    (m, n, k, batch), _ = CASES[case]
    inputs, outputs = product(m, n, k, batch, fused=case == "tiles")
    program = AutomaticProgram([outputs[0].op], TARGET)
    (ways,) = program.ways
    return program, next(way for way in ways if way.name == "turned warpgroup instructions"), [*inputs, *outputs]


def _wanted(way: Way, wanted: dict[str, object]) -> int:
    """The first configuration with some choices; rows and columns are the tile of a block."""
    for index in way.space:
        found = {
            name: int(np.prod(choice.size[1:])) if hasattr(choice, "size") else choice.val
            for name, choice in way.space.get(index).items()
        }
        if all(found[name] == value for name, value in wanted.items()):
            return index
    raise AssertionError(f"no configuration has {wanted}")


@pytest.mark.cuda
@pytest.mark.parametrize("case", [pytest.param(c, marks=[pytest.mark.slow] * (c != "tiles")) for c in CASES])
def test_results(case: str) -> None:
    program, way, args = _way(case)
    s = program.begun()
    way.apply(s, way.space.get(_wanted(way, CASES[case][1])))
    module = tw.build(s, args, TARGET)
    assert "_turned(" in module.imported_modules[0].get_source()
    rng = np.random.default_rng(0)
    given = [rng.standard_normal([int(e) for e in t.shape]).astype("float16") for t in args[:-1]]
    a, b, *rest = (x.astype("float64") for x in given)
    expected = a @ b
    if rest:
        from math import erf

        value = expected + rest[0]
        expected = value * 0.5 * (1 + np.vectorize(erf)(value * 0.5**0.5)) + rest[1]
    held = [tw.nd.array(x, tw.cuda()) for x in (*given, np.full(expected.shape, np.nan, "float16"))]
    module(*held)
    np.testing.assert_allclose(held[-1].numpy(), expected, rtol=4e-3, atol=4e-3)


def test_a_large_product_is_computed_so() -> None:
    inputs, outputs = product(4096, 4096, 4096)
    (ways,) = AutomaticProgram([outputs[0].op], TARGET).ways
    assert ways[0].name == "turned warpgroup instructions"
    s = tw.auto_schedule(outputs, TARGET)
    tw.build(s, [*inputs, *outputs], TARGET)


def test_products_of_halves_are_added_up_in_float32() -> None:
    """Sums of more than 2,048 ones stop growing in float16; matrix instructions compute sums that are declared so."""
    a, b, k = (*(te.placeholder((64, 3000), "float16", name) for name in "ab"), te.reduce_axis((0, 3000), "k"))
    c = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), "c")
    (ways,) = AutomaticProgram([c.op], TARGET).ways
    assert "instructions" in ways[0].name
    s = te.create_schedule(c.op)
    s[c].as_product([], c.op.axis[:1], c.op.axis[1:], c.op.reduce_axis)
    ones, out = tw.nd.array(np.ones((64, 3000), "float16")), tw.nd.array(np.zeros((64, 64), "float16"))
    tw.build(s, [a, b, c], "llvm")(ones, ones, out)
    assert (out.numpy() == 3000).all()


def test_sums_of_16_bits_that_start_at_1_stay_so() -> None:
    """Matrix instructions add up in float32 from 0 on."""
    odd = te.comm_reducer(lambda x, y: x + y, lambda t: te.const(1.0, t), name="odd")
    A, B = (te.placeholder((16, 16), "float16", name) for name in "AB")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute((16, 16), lambda i, j: odd(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].as_product([], [C.op.axis[0]], [C.op.axis[1]], [C.op.reduce_axis[0]])
    a, b = np.random.default_rng(0).random((2, 16, 16))
    found = reference(s[C].op.output(0), {A: a, B: b})[0]
    np.testing.assert_allclose(found, a @ b + 1, rtol=1e-12)


def test_the_order_of_factors_does_not_matter() -> None:
    """A term may read the right factor first."""
    left, right = te.placeholder((128, 64), "float16", name="left"), te.placeholder((64, 128), "float16", name="right")
    k = te.reduce_axis((0, 64), name="k")
    texts = []
    for first in (True, False):

        def term(i: Any, j: Any, first: bool = first) -> Any:
            a, b = left[i, k].astype("float32"), right[k, j].astype("float32")
            return te.sum(a * b if first else b * a, axis=k)

        s = tw.auto_schedule(te.compute((128, 128), term, name="sums"), TARGET)
        texts.append(s.as_python().partition("as_product")[2])
    assert texts[0] == texts[1]
    assert "tensorize" in texts[0]


def test_four_warpgroups_of_a_large_product_share_a_multiprocessor() -> None:
    """In two blocks, with slices of three stages each; in one, if the kernel reads further tensors at the end.

    A product of few blocks has more stages.
    """
    found = []
    for rows, fused in ((4096, False), (4096, True), (128, False)):
        _, outputs = product(rows, 4096, 4096, fused=fused)
        (ways,) = AutomaticProgram([outputs[0].op], TARGET).ways
        assert ways[0].name == "turned warpgroup instructions"
        found.append((int(np.prod(ways[0].chosen["rows"].size[1:])), ways[0].chosen["stages"].val))
    assert found[:2] == [(128, 3), (256, 3)]
    assert found[2][1] > 3
