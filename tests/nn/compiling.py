"""The compile backend in tests: eager operators take the place of Inductor, and no test remembers another's choices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch

from tilewright.functional.planning import plans

dynamo = import_module("tilewright.nn.dynamo")  # needs PyTorch


@contextmanager
def nothing_remembered() -> Iterator[None]:
    """Forget choices of kernels and compiled graphs, before and after."""
    plans.forget()
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
    plans.forget()


class Backend:
    """The backend, with eager operators in the place of Inductor; it counts graphs, and keeps reports and options."""

    def __init__(self, after: Any = lambda gm, inputs: gm.forward, **own: Any) -> None:
        self.after = after
        """The compiler of the rewritten graph."""
        self.own, self.reports, self.options = own, list[Any](), list[dict[str, Any]]()

    def __call__(self, gm: Any, inputs: Any) -> Any:
        return dynamo.compile_graph(gm, inputs, self.compiler, report=self.reports.append, **self.own)

    def compiler(self, gm: Any, inputs: Any, **options: Any) -> Any:
        self.options.append(options)
        return self.after(gm, inputs)

    @property
    def parts(self) -> list[str]:
        return [" + ".join(row.parts) for report in self.reports for row in report.rows]
