"""Comparison of a kernel's outputs with the expected values.

A runner compares while it has the device, millions of elements per candidate. So statistics of a reference are computed
once, and a comparison without findings allocates nothing. In a virtual machine, the first touch of each new page costs
more than the arithmetic, and still more if several runners share a host.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

from ..core.system import process_library
from .reference_file import OutputSample

POISON = 0xFF
"""In every byte of outputs before they are written: NaN for floats, -1 or the largest value for integers."""
SECOND_POISON = 0x5A
"""The same before the timed runs, if only a sample of an output is compared with expected values."""
_RARE = 1000
"""One integer in this number may differ if it comes from floats."""
_VERY_RARE = 100_000
"""One float in this number may differ if floats choose between values."""
_STRETCH = 1 << 16
_EXAMPLES = 4
"""The wrong elements of a stretch that are noted."""
_DISPUTED = 64
"""The most elements that are added to a sample at a time."""
_memcmp = process_library().memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays, each without gaps, hold the same bytes."""
    return a.nbytes == b.nbytes and not _memcmp(a.ctypes.data, b.ctypes.data, a.nbytes)


def compare(name: str, got: np.ndarray, want: np.ndarray, relative: float) -> str:
    """Compare an output once with expected values, as `Wanted.compare` does."""
    return Wanted(want).compare(name, got, relative)


class Wanted:
    """The expected values of an output, and their statistics after the first comparison; see `CheckSpec.branches`."""

    def __init__(self, values: np.ndarray, branches: bool = False) -> None:
        self.values = values
        self.branches = branches

    def compare(self, name: str, got: np.ndarray, relative: float) -> str:
        """The elements of an output beyond the tolerance, as text (empty: none).

        Floats may be off by `relative` of their own magnitude and of the output's, the root mean square of the nonzero
        expected values. A small sum of large numbers is no more exact than they are. Expected values beyond the range
        of the output's type must be infinite. Integers are exact; if they come from floats (`relative` is not 0), one
        in a thousand may have been rounded or chosen differently. Of floats that branch, it is one in 100,000, which
        must be finite: elements that were never written are not.
        """
        want = self.values
        if got.shape != want.shape:
            return f"{name} has shape {got.shape}, but the reference has {want.shape}"
        count, places = self.wrong(got, relative)
        return _described(name, got, count, places[0], want.flat[places[0]], self.room(got, relative)) if count else ""

    def wrong(self, got: np.ndarray, relative: float) -> tuple[int, list[int]]:
        """The number of elements beyond the tolerance, and the positions of some of them, beginning with the first."""
        exact = got.dtype.kind in "iub"
        allowed = self.room(got, relative)[0]
        count, places, branches = 0, list[int](), self.branches
        for begin, here, there in _stretches(got, self.values):
            if not exact and self._is_finite and self._is_near(here, there, allowed):
                continue
            wrong = here != there if exact else _is_off(here, there, allowed, relative)
            bad = int(np.count_nonzero(wrong))
            if bad:
                branches = branches and bool(np.isfinite(here[wrong].astype(np.float64)).all())
                places += (begin + np.flatnonzero(wrong)[:: max(1, bad // _EXAMPLES)]).tolist()
            count += bad
        rounded = got.dtype.kind in "iu" and relative
        forgiven = got.size // _RARE if rounded else got.size // _VERY_RARE if branches else 0
        return (count, places) if count > forgiven else (0, [])

    def room(self, got: np.ndarray, relative: float) -> tuple[float, float]:
        """The absolute and the relative tolerance."""
        return (0.0, 0.0) if got.dtype.kind in "iub" else (relative * self._magnitude, relative)

    def _is_near(self, got: np.ndarray, want: np.ndarray, allowed: float) -> bool:
        """Whether the error of every element is at most `allowed`: a fast test that most kernels pass."""
        apart = self._memory[: got.size]
        np.copyto(apart, got, casting="unsafe")
        np.subtract(apart, want, out=apart)
        np.abs(apart, out=apart)
        return bool(apart.max() <= allowed)  # False for NaN

    @cached_property
    def _memory(self) -> np.ndarray:
        return np.empty(min(_STRETCH, self.values.size))

    @cached_property
    def _is_finite(self) -> bool:
        return all(np.isfinite(here.astype(np.float64, copy=False)).all() for _, here in _stretches(self.values))

    @cached_property
    def _magnitude(self) -> float:
        """The root mean square of the values that are finite and not zero; 1 if there are none."""
        norm, count = 0.0, 0
        for _, here in _stretches(self.values):
            values = here.astype(np.float64, copy=False)
            usual = values[np.isfinite(values) & (values != 0)]
            if usual.size:
                largest = float(np.abs(usual).max())  # squares of large values would overflow: anything would pass
                usual = usual / largest
                norm, count = math.hypot(norm, largest * math.sqrt(np.dot(usual, usual))), count + usual.size
        return norm / math.sqrt(count) if count else 1.0


class WantedSample:
    """The expected values of a sample of an output, and the first output that agreed with them.

    Each later output is compared with this one, too, element by element. If they differ, one of the two is wrong, and
    the expected values of elements in `disputed` decide.
    """

    def __init__(self, sample: OutputSample, branches: bool = False) -> None:
        self.sample = sample
        self.branches = branches
        self._wanted = Wanted(sample.values, branches)
        self._agreed: Wanted | None = None

    def compare(self, name: str, got: np.ndarray, relative: float) -> str:
        """The elements of the sample beyond the tolerance, as text (empty: none)."""
        if got.shape != self.sample.shape:
            return f"{name} has shape {got.shape}, but the reference has {self.sample.shape}"
        taken = got.reshape(-1)[self.sample.points]
        count, places = self._wanted.wrong(taken, relative)
        if not count:
            return ""
        at, value = int(self.sample.points[places[0]]), self.sample.values[places[0]]
        return _described(name, got, count, at, value, self._wanted.room(got, relative), taken.size)

    def disputed(self, got: np.ndarray, relative: float) -> np.ndarray:
        """The positions of some elements that differ from the output that agreed; empty if there is none."""
        places = self._agreed.wrong(got, 2 * relative)[1] if self._agreed is not None else []
        return np.array(places[:: -(-len(places) // _DISPUTED) or 1], np.int64)

    def agreed(self, got: np.ndarray) -> None:
        """Keep an output that passed all checks, unless there is one."""
        if self._agreed is None:
            kept = got.astype(np.float32) if got.dtype.kind == "V" else got.copy()
            self._agreed = Wanted(kept, self.branches)


def changed(name: str, before: np.ndarray, after: np.ndarray, relative: float) -> str:
    """Describe elements that differ between two runs, which began with other values in the output (empty: none)."""
    wanted = Wanted(after.astype(np.float32) if after.dtype.kind == "V" else after)
    count, places = wanted.wrong(before, 2 * relative)
    if not count:
        return ""
    at = tuple(int(i) for i in np.unravel_index(places[0], before.shape))
    what = "was never written" if _is_poison(before[at]) else f"is {before[at]!s} in one run, {after[at]!s} in another"
    return f"{name}{_index(at)} {what}; {count:,} of {before.size:,} elements are wrong"


def _described(
    name: str, got: np.ndarray, count: int, place: int, want: Any, room: tuple[float, float], compared: int = 0
) -> str:
    at = tuple(int(i) for i in np.unravel_index(place, got.shape))
    found = "was never written" if _is_poison(got[at]) else f"is {got[at]!s}"
    allowed = f" ± {room[0] + room[1] * abs(float(want)):.2g}" if room[0] else ""
    of = f"{compared:,} compared elements" if compared else f"{got.size:,} elements"
    return f"{name}{_index(at)} {found}, expected {want!s}{allowed}; {count:,} of {of} are wrong"


def _index(at: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, at))}]" if at else ""


def _stretches(*arrays: np.ndarray) -> Iterator[tuple[Any, ...]]:
    """Yield each stretch of the arrays, with its position; its temporaries stay in the processor's cache.

    For 58 million elements, this is five times as fast as comparing whole arrays.
    """
    flat = [array.reshape(-1) for array in arrays]
    for begin in range(0, flat[0].size, _STRETCH):
        yield begin, *(array[begin : begin + _STRETCH] for array in flat)


def _is_off(got: np.ndarray, want: np.ndarray, allowed: float, relative: float) -> np.ndarray:
    """Mark elements that are off by more than `allowed` plus `relative` of the wanted ones, or not equally finite."""
    value, exact = got.astype(np.float64), want.astype(np.float64, copy=False)
    largest = float(ml_dtypes.finfo(got.dtype).max)  # type: ignore[no-untyped-call]  # missing in the stubs
    with np.errstate(invalid="ignore"):
        far = ~(np.abs(value - exact) <= allowed + relative * np.abs(exact))
        if far.any() or not np.isfinite(exact).all():
            far |= ~np.isfinite(exact)
            far &= ~((value == exact) | (np.isnan(value) & np.isnan(exact)))
            too_large = np.abs(exact) >= largest * (1 - relative)
            far &= ~(too_large & np.isinf(value) & (np.sign(value) == np.sign(exact)))
    return far


def _is_poison(value: Any) -> bool:
    return bool((np.atleast_1d(np.asarray(value)).view(np.uint8) == POISON).all())
