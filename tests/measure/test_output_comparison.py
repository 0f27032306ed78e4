"""How far from the expected values is still right, and how that is found out."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tilewright.measure.output_comparison import POISON, Wanted, compare, same_bytes


class TestCompare:
    """How far from the expected values is still right."""

    def test_within_the_tolerance_of_the_outputs_magnitude(self) -> None:
        want = np.array([1e3, 1e-3, -1e3, 0.0])
        assert not compare("B", (want + 5e-3).astype("float32"), want, 1e-5)
        assert "B[0] is 1000.1" in compare("B", (want + 0.1).astype("float32"), want, 1e-5)

    def test_zeros_do_not_make_the_rest_look_wrong(self) -> None:
        want = np.zeros(10_000)
        want[7] = 100.0
        got = want.astype("float32")
        got[7] += 5e-4
        assert not compare("B", got, want, 1e-5)

    def test_values_whose_squares_overflow_are_compared_all_the_same(self) -> None:
        want = np.array([1e200, -2e250, 3.0])
        assert not compare("B", want.copy(), want, 1e-10)
        assert "1 of 3 elements are wrong" in compare("B", want * [1, -1, 1], want, 1e-10)

    def test_what_is_not_finite_must_be_the_same(self) -> None:
        want = np.array([np.nan, np.inf, -np.inf, 1.0])
        assert not compare("B", want.astype("float32"), want, 1e-5)
        for at in range(4):
            got = want.astype("float32")
            got[at] = 2.0
            assert "1 of 4 elements are wrong" in compare("B", got, want, 1e-5)
        assert "B[3] was never written, expected 1.0" in compare(
            "B", np.frombuffer(b"\xff" * 16, "float32"), np.array([np.nan, np.nan, np.nan, 1.0]), 1e-5
        )

    def test_integers_are_exact(self) -> None:
        want = np.array([[1, 2], [3, 4]])
        assert not compare("B", want.astype("int32"), want, 0.0)
        assert compare("B", np.array([[1, 2], [3, 5]], "int32"), want, 0.0) == (
            "B[1, 1] is 5, expected 4; 1 of 4 elements are wrong"
        )

    def test_integers_made_of_floats_may_rarely_be_rounded_otherwise(self) -> None:
        want = np.zeros(2000, "int32")
        got = want.copy()
        got[5:7] = 1
        assert not compare("B", got, want, 1e-6)
        assert "2 of 2,000" in compare("B", got, want, 0.0)
        got[7] = 1
        assert "B[5] is 1, expected 0; 3 of 2,000" in compare("B", got, want, 1e-6)

    @pytest.mark.parametrize(("dtype", "large"), [("float16", 7e4), (ml_dtypes.bfloat16, 4e38), ("float32", 1e39)])
    def test_what_the_type_cannot_hold_is_infinite(self, dtype: object, large: float) -> None:
        want = np.array([large, -large, 1.0, 2.0])
        assert not compare("B", np.array([np.inf, -np.inf, 1.0, 2.0]).astype(dtype), want, 1e-3)
        for wrong in (-np.inf, np.nan, 1.0):
            assert "B[0] is" in compare("B", np.array([wrong, -np.inf, 1.0, 2.0]).astype(dtype), want, 1e-3)
        assert "B[0] is inf" in compare("B", np.array([np.inf, 1.0]).astype(dtype), np.array([large / 10, 1.0]), 1e-3)

    def test_shapes(self) -> None:
        assert "has shape (3,), but the reference has (4,)" in compare("B", np.zeros(3), np.zeros(4), 1e-5)

    def test_numbers_without_dimensions(self) -> None:
        assert not compare("B", np.float32(2.0).reshape(()), np.array(2.0), 1e-5)
        assert compare("B", np.float32(3.0).reshape(()), np.array(2.0), 1e-5).startswith("B is 3.0, expected 2.0")

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ml_dtypes.bfloat16])
    def test_a_reference_that_was_prepared_judges_as_the_rule_says(self, dtype: object) -> None:
        rng = np.random.default_rng(3)
        exact = rng.normal(size=(3, 70_000)) * 10.0 ** rng.integers(-3, 3, (3, 1))
        wanted, relative = Wanted(exact), 2e-2
        room = relative * (np.sqrt(np.mean(exact**2)) + np.abs(exact))
        for scale in (0.1, 0.5, 0.9, 1.1, 3.0):
            got = (exact + scale * room * rng.choice([-1, 0, 1], exact.shape, p=[1e-4, 1 - 2e-4, 1e-4])).astype(dtype)
            off = np.abs(got.astype(float) - exact) > room
            said = wanted.compare("B", got, relative)
            assert said.partition("; ")[2] == (f"{off.sum():,} of 210,000 elements are wrong" if off.any() else "")
            if off.any():
                assert said.startswith(f"B[{', '.join(map(str, np.argwhere(off)[0]))}] is ")

    def test_a_few_floats_that_comparisons_of_floats_choose_may_be_others(self) -> None:
        want = np.zeros(300_000, "float32")
        for count, branches, fits in ((0, False, True), (1, False, False), (3, True, True), (4, True, False)):
            got = want.copy()
            got[:count] = 1
            assert (Wanted(want, branches).compare("B", got, 1e-5) == "") == fits
        got = want.copy()
        got[7:8].view("uint8")[:] = POISON
        assert "B[7] was never written" in Wanted(want, True).compare("B", got, 1e-5)

    def test_values_are_the_same_where_their_bytes_are(self) -> None:
        values = np.array([0.0, np.nan, 1.0])
        assert same_bytes(values, values.copy())
        assert not same_bytes(values, np.array([-0.0, np.nan, 1.0]))
        assert not same_bytes(values, values[:2])
        assert same_bytes(values[:0], values[:0])
