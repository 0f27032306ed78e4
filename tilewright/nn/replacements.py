"""The report of `accelerate`, and the replacements that it can undo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ..functional.arguments.call import OPERATORS
from ..functional.arguments.problem import Problem
from ..functional.planning.timed_comparison import Comparison, Verdict
from ..report.table import Column, table
from .fused_models import remove

_CONTRADICTION = 1.05
"""The least speedup of a model by the times of its layers for which the report notes that the model is not faster."""
UNDONE, SLOWER = "faster, but the model is too close to call", "faster, but the model became slower"
"""Reasons to keep a layer of PyTorch although ours is faster."""
Spread = tuple[float, float]


@dataclass(frozen=True)
class Row:
    """A layer of the model: the seconds of one run with both kernels, and whether it was replaced.

    Times of a training step include the gradients that our operators compute, each by the faster kernel. Times of 0
    mean that the layer was not measured, for the reason `why`.

    `spread` is the confidence interval of the gain. `directions` names the parts of a training step that our kernels
    compute: the forward call, gradients.
    """

    name: str
    text: str
    problem: Problem | None = None
    ours: float = 0.0
    theirs: float = 0.0
    gain: float = 0.0
    spread: Spread = (0.0, 0.0)
    replaced: bool = False
    why: str = ""
    directions: tuple[str, ...] = ()
    layer: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, name: str, operator: str, problem: Problem, layer: Any) -> Row:
        """Return the row of a layer that is not measured yet."""
        return cls(name, problem.text(OPERATORS[operator].rank), problem, layer=layer)

    @property
    def dtype(self) -> str:
        """The type that the layer computes in."""
        return "" if self.problem is None else self.problem.dtype

    @property
    def is_close(self) -> bool:
        """Whether the spread of the gain includes 1, or the gain is too small to count."""
        return self.spread[1] >= 1

    def with_times(self, parts: Mapping[str, Comparison], margin: float, training: bool) -> Row:
        """Return the row with the times of its parts. In a training step, each part runs the faster kernel."""
        forward = parts["forward"]
        if not training:
            faster = forward.verdict(margin) == Verdict.FASTER
            ours, theirs = forward.seconds
            return replace(self, ours=ours, theirs=theirs, gain=forward.gain, spread=forward.spread, replaced=faster)
        wins = tuple(name for name, part in parts.items() if part.verdict(margin) == Verdict.FASTER)
        theirs = sum(part.seconds[1] for part in parts.values())
        # Seconds of a step with our kernels, at the median gain and at both ends of its spread.
        gains = [
            (part.seconds[1], (part.gain, *part.spread) if name in wins else (1, 1, 1)) for name, part in parts.items()
        ]
        ours, slow, fast = (sum(seconds / each[at] for seconds, each in gains) for at in range(3))
        return replace(
            self, ours=ours, theirs=theirs, gain=theirs / ours, spread=(theirs / slow, theirs / fast), directions=wins,
            replaced=theirs >= margin * ours,
        )  # fmt: skip

    def kept(self, why: str, tune: Any = False) -> Row:
        """Return the row of a layer that stays PyTorch's, with the reason, and a hint if tuning may help."""
        return replace(self, replaced=False, directions=(), why=why if tune is False else f"{why}; {_way_out(tune)}")


def _way_out(tune: Any) -> str:
    """Return the argument of `accelerate` that may find a faster kernel."""
    return 'tune="quick" searches for a faster kernel' if tune is None else "a larger tune= searches for longer"


class Acceleration:
    """The changes of `accelerate` to a model. Printing it shows the table; `undo()` takes everything back.

    Attributes
    ----------
    rows : list of Row
        A row per convolution and pooling of the model.
    run, eager : Comparison or None
        Comparisons of one run of the model on the sample, or of one training step: the model after and before the
        changes. On a GPU, `run` uses a CUDA graph and excludes the host's time; `eager` includes it. None if not
        measured.
    before, after : float
        Seconds of `run` before and after the changes; 0 if nothing was replaced.
    eager_before, eager_after : float
        The same for `eager`, with the host's time.
    """

    def __init__(self, model: Any, training: bool = False, tune: Any = None) -> None:
        self.model, self.training, self.tune = model, training, tune
        self.rows: list[Row] = []
        self.run: Comparison | None = None
        self.eager: Comparison | None = None
        self.functions = 0
        self.fusion = ""
        self.tf32 = False
        self._replaced: list[tuple[Any, type, type]] = []

    @property
    def before(self) -> float:
        return self.run.seconds[1] if self.run else 0.0

    @property
    def after(self) -> float:
        return self.run.seconds[0] if self.run else 0.0

    @property
    def eager_before(self) -> float:
        return self.eager.seconds[1] if self.eager else self.before

    @property
    def eager_after(self) -> float:
        return self.eager.seconds[0] if self.eager else self.after

    def replace(self, layer: Any, kind: type) -> None:
        """Replace the class of a layer by ours; the object keeps its parameters, hooks and names."""
        self._replaced.append((layer, type(layer), kind))
        layer.__class__ = kind

    def undo(self, why: str = "undone") -> None:
        """Restore PyTorch's classes of the layers, which keep their present state. Layers removed from the model since
        are not put back."""
        remove(self.model)
        self._undo(self._replaced)
        self._replaced = []
        self.rows = [row.kept(why) if row.replaced else row for row in self.rows]

    @staticmethod
    def _undo(replaced: list[tuple[Any, type, type]]) -> None:
        for layer, own, kind in reversed(replaced):
            if type(layer) is kind:
                layer.__class__ = own
            elif kind in type(layer).__bases__:  # a parametrization of PyTorch's derived a class for this layer alone
                type(layer).__bases__ = tuple(own if base is kind else base for base in type(layer).__bases__)

    @contextmanager
    def originals(self) -> Iterator[None]:
        """Restore the model's own layers inside the context."""
        with self.only(0):
            yield

    @contextmanager
    def only(self, count: int) -> Iterator[None]:
        """Undo all replacements inside the context except the `count` that save most time."""
        away = self.by_saving()[count:]
        for layer, own, _ in away:
            layer.__class__ = own
        try:
            yield
        finally:
            for layer, _, kind in away:
                layer.__class__ = kind

    def by_saving(self) -> list[tuple[Any, type, type]]:
        """Return the replacements, the one that saves most time first."""
        saved = {id(row.layer): row.theirs - row.ours for row in self.rows if row.replaced}
        return sorted(self._replaced, key=lambda each: -saved.get(id(each[0]), 0.0))

    def leave(self, count: int) -> None:
        """Undo all replacements except the `count` that save most time."""
        ordered = self.by_saving()
        self._undo(ordered[count:])
        self._replaced = ordered[:count]
        away = {id(layer) for layer, *_ in ordered[count:]}
        why = "it saves less than its call costs the host; cuda_graph=True leaves that time out"
        self.rows = [row.kept(why) if id(row.layer) in away else row for row in self.rows]

    def report_fusion(self, rows: Sequence[Any], timed: Comparison, wins: bool) -> None:
        """Store the outcome of fusion: the rows of the graph, and the times of the model with its graph and with its
        modules."""
        count = sum(row.replaced for row in rows)
        gain = f"{_both(timed, 'by modules', 'by the graph')}, {timed.gain:.2f} times as fast ({_to(timed.spread)})"
        kept = (
            "kept"
            if wins
            else f"not kept, {timed.verdict().value}"
            if timed.verdict() != Verdict.FASTER
            else ("not kept, since it is slower without a CUDA graph")
        )
        parts = f"{count} of {len(rows)} convolutions are one call of ours with the layers after them"
        self.fusion = f"in evaluation mode, {parts}: {gain}; {kept}"

    def __enter__(self) -> Acceleration:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def __str__(self) -> str:
        if not self.rows:
            return self._nothing()
        heads = [Column("layer", right=False), Column("problem", right=False), Column("PyTorch, µs")]
        heads += [Column("ours, µs"), Column("gain"), Column("spread"), Column("", right=False)]
        lines = [[row.name, row.text, *_times(row), _what(row)] for row in self.rows]
        count = sum(row.replaced for row in self.rows)
        whole = [f"{count} of {len(self.rows)} layers replaced", *self._whole()]
        notes = ["PyTorch's float32 convolutions used TF32, as its settings allow"] if self.tf32 else []
        notes += [self.fusion] if self.fusion else []
        notes += self._contradictions()
        return "\n".join([*table(heads, lines), "; ".join(whole), *notes])

    __repr__ = __str__

    def _nothing(self) -> str:
        if not self.functions:
            return "nothing to replace: the model contains no convolution"
        what = "a convolution as a function" if self.functions == 1 else f"{self.functions} convolutions as functions"
        return f"nothing to replace: the model calls {what}, without modules; call tilewright.conv2d there"

    def _whole(self) -> list[str]:
        """Return the lines with the times of the whole model."""
        if self.run is None:
            return []
        what = "a training step" if self.training else "the model"
        found = [f"{what}: {_both(self.run)}, {self.run.gain:.2f} times as fast ({_to(self.run.spread)})"]
        found += [f"without a graph {_both(self.eager)}"] if self.eager else []
        return found

    def _contradictions(self) -> list[str]:
        """Return a line if the times of the layers contradict the times of the whole model."""
        if self.run is None:
            return []
        measured = [row for row in self.rows if row.ours]
        saved = sum(row.theirs - row.ours for row in measured if row.replaced or row.why in (UNDONE, SLOWER))
        left = self.before - saved
        too_long = sum(row.theirs for row in measured) > 1.5 * self.before
        expected = self.before / left if left > 0 else float("inf")
        if not too_long and (expected < _CONTRADICTION or self.run.spread[1] > expected**0.5):
            return []
        said = f"by its layers, the model should be {expected:.2f} times as fast"
        said = "its layers take longer than the model" if too_long else said
        return [f"the rows contradict the whole model ({said}): the machine is busy; run accelerate again"]


def _both(timed: Comparison, first: str = "before", second: str = "after") -> str:
    after, before = timed.seconds
    return f"{before * 1e3:.3f} ms {first}, {after * 1e3:.3f} ms {second}"


def _to(spread: Spread) -> str:
    return f"{spread[0]:.2f}–{spread[1]:.2f}"


def _times(row: Row) -> list[str]:
    """Return the times of a row, and their quotient with its spread."""
    if not row.ours:
        return ["–"] * 4
    return [f"{row.theirs * 1e6:.1f}", f"{row.ours * 1e6:.1f}", f"{row.gain:.2f}", _to(row.spread)]


def _what(row: Row) -> str:
    """Return the outcome of a layer in words."""
    if row.replaced:
        return f"replaced: {', '.join(row.directions)}" if row.directions else "replaced"
    return f"kept: {row.why}" if row.why else "kept"
