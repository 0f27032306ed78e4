"""The report of `accelerate`, and the replacements that it can undo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..functional.problem import Problem
from ..report.table import Column, table


@dataclass(frozen=True)
class Row:
    """A layer of the model: both times of one run, in seconds, and whether it was replaced.

    Times of a training step include the gradients that operators of ours compute, each by the faster kernel. If the
    times are 0, the layer was not measured, for the reason in `why`.

    `directions` names the parts of a training step that our kernels compute: the forward call, gradients.
    """

    name: str
    problem: Problem
    ours: float
    theirs: float
    replaced: bool
    why: str = ""
    directions: tuple[str, ...] = ()


class Acceleration:
    """The changes of `accelerate` to a model. Printing it shows the table; `undo()` takes everything back.

    Attributes
    ----------
    rows : list of Row
        A row per layer that was measured.
    before, after : float
        Seconds of one run of the whole model on the sample, or of one training step, as it was and as it is. Both are
        0 if nothing was replaced. On a GPU in a CUDA graph, without the host's time.
    eager_before, eager_after : float
        The same with the host's time, as the model runs without a graph.
    """

    def __init__(self, model: Any, training: bool = False) -> None:
        self.model = model
        self.training = training
        self.rows: list[Row] = []
        self.before = self.after = self.eager_before = self.eager_after = 0.0
        self._replaced: list[tuple[Any, type, type]] = []

    def replace(self, layer: Any, kind: type) -> None:
        """Make a layer one of ours: the same object, with its parameters, hooks and names, of another class."""
        self._replaced.append((layer, type(layer), kind))
        layer.__class__ = kind

    def undo(self) -> None:
        """Make the layers PyTorch's again, with their present state; layers that left the model stay away."""
        while self._replaced:
            layer, own, kind = self._replaced.pop()
            if type(layer) is kind:
                layer.__class__ = own
            elif kind in type(layer).__bases__:  # a parametrization of PyTorch's derived a class for this layer alone
                type(layer).__bases__ = tuple(own if base is kind else base for base in type(layer).__bases__)
        self.rows = [replace(row, replaced=False) for row in self.rows]

    @contextmanager
    def originals(self) -> Iterator[None]:
        """Have the model's own layers for a while."""
        for layer, own, _ in self._replaced:
            layer.__class__ = own
        try:
            yield
        finally:
            for layer, _, kind in self._replaced:
                layer.__class__ = kind

    def __enter__(self) -> Acceleration:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def __str__(self) -> str:
        if not self.rows:
            return "nothing to replace: the model contains no convolution of PyTorch's that Tilewright covers"
        heads = [Column("layer", right=False), Column("problem", right=False)]
        heads += [Column("PyTorch, µs"), Column("ours, µs"), Column("gain"), Column("", right=False)]
        lines = [
            [row.name, str(row.problem), *_times(row), _what(row)]
            for row in self.rows
        ]  # fmt: skip
        count = sum(row.replaced for row in self.rows)
        whole = f"{count} of {len(self.rows)} layers replaced"
        if self.after:
            times = f"{self.before * 1e3:.3f} ms before, {self.after * 1e3:.3f} ms after"
            run = "a training step" if self.training else "the model"
            whole += f"; {run}: {times}, {self.before / self.after:.2f} times as fast"
            if (self.eager_before, self.eager_after) != (self.before, self.after):
                whole += (
                    f"; without a graph {self.eager_before * 1e3:.3f} ms before, {self.eager_after * 1e3:.3f} ms after"
                )
            whole += "" if count else "; all of them undone, since the model did not become faster"
        return "\n".join([*table(heads, lines), whole])

    __repr__ = __str__


def _times(row: Row) -> list[str]:
    """The times of a row, and their quotient."""
    if not row.ours:
        return ["–"] * 3
    return [f"{row.theirs * 1e6:.1f}", f"{row.ours * 1e6:.1f}", f"{row.theirs / row.ours:.2f}"]


def _what(row: Row) -> str:
    """The outcome of a layer."""
    if row.replaced:
        return f"replaced: {', '.join(row.directions)}" if row.directions else "replaced"
    return f"kept: {row.why}" if row.why else "kept"
