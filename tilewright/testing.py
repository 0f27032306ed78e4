"""Helpers for tests of numerical programs."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any

import numpy as np

from .core.refusals import missing_from_module as _missing
from .core.target import KINDS
from .runtime.device import Device, device, enabled

device_enabled = enabled


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets whose programs can run on this machine, each with its first device."""
    return [(kind, device(kind)) for kind in KINDS if enabled(kind)]


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise AssertionError unless |actual - desired| <= atol + rtol * |desired| everywhere and the shapes agree."""
    got, wanted = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_equal(got.shape, wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol, verbose=True)


if not _TYPE_CHECKING:  # type checkers see what is there

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name, globals())
