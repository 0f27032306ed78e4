"""Whose kernels calls run, as a test says: no clock, no estimate for this processor and no other test decides."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

SAID = "a test says so"


@contextmanager
def decided(whose: str, cache: Path | None = None, keeps_measured: bool = False) -> Iterator[None]:
    """Have all calls on PyTorch's tensors run "ours", our kernels, or all run "theirs", PyTorch's.

    Kernels are kept beside `cache`, apart from those of other decisions. Choices that a test measures are kept there
    only if it `keeps_measured` ones.
    """
    from tilewright.functional.planning import (  # conftest.py is imported before tests of what imports load
        plans,
        rivals,
    )

    keep, ours = plans._keep, {"ours": True, "theirs": False}[whose]

    def kept(plan: Any, *rest: Any) -> None:
        if keeps_measured or not plan.threads:
            keep(plan, *rest)

    rules: dict[str, Any] = {
        "is_undecided": lambda *_: False,
        "reason_for_rival": lambda *_: "" if ours else SAID,
        "saved_by": lambda *_: (1.0, 1.0) if ours else (0.0, 1.0),
    }
    folder = "0" if cache is None else str(cache.with_name(whose))
    with (
        mock.patch.multiple(rivals, **rules),
        mock.patch.object(plans, "_keep", kept),
        mock.patch.dict(os.environ, {"TILEWRIGHT_CACHE": folder}),
    ):
        plans.forget()
        try:
            yield
        finally:
            plans.forget()
