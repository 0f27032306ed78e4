"""Records that come with the package: configurations tuned for known layers, and where other libraries are faster.

`records/*.log` are logs in AutoTVM's format, as `python -m benchmarks.convolution_sweep` writes them;
`records/rivals.jsonl` has the times of both sides for known layers, as `python -m benchmarks.one_call` writes them.
For a layer that is not among them, the nearest one that is decides.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..tune.records.format import Pair, mean_cost
from ..tune.records.log import load_from_file
from .problem import CONV, Problem

if TYPE_CHECKING:
    from ..core.target import Target
    from ..runtime.device import Device
    from ..topi.templates import Convolution, PackagedTemplate
    from ..tune.space.config import Config

RECORDS = Path(__file__).parent / "records"
_NEAR = 2.0
"""How far a neighbour may be, in doublings of all sizes together."""
_FAR = 6.0
"""How far a layer may be that says which library is faster."""
_FASTER = 1.03
"""How much faster the other library has to be before it is preferred: less is noise."""
_OTHER_TYPE = 2.5
"""How far away the same layer in another type is."""
_DENSE_TERMS = 64
"""Sums over so many products are matrix products, which libraries compute with matrix units."""


@dataclass(frozen=True)
class Known:
    """A configuration from a record, and how it was come by."""

    config: Config
    why: str


@cache
def _records() -> dict[str, list[Pair]]:
    """The measurements that succeeded, by the name of their template."""
    found: dict[str, list[Pair]] = {}
    for path in sorted(RECORDS.glob("*.log")):
        for pair in load_from_file(path, []):
            if not pair[1].error_no:
                found.setdefault(pair[0].task.name, []).append(pair)
    return found


def configuration(template: PackagedTemplate[Any], workload: Convolution, target: Target) -> Known | None:
    """The configuration of the record for a workload, or of its nearest neighbour."""
    pairs = [pair for pair in _records().get(template.name, ()) if pair[0].target.kind == target.kind]
    args = tuple(workload.args)
    exact = [pair for pair in pairs if tuple(pair[0].task.args) == args]
    if exact:
        inp, _ = min(exact, key=lambda pair: mean_cost(pair[1]))
        return Known(inp.config, f"a record of this layer on {inp.notes.device or inp.target}")
    near = [(away, place) for place, pair in enumerate(pairs) if (away := _away(args, pair[0].task.args)) <= _NEAR]
    if not near:
        return None
    inp, _ = pairs[min(near)[1]]
    wanted = {name: _wanted(choice) for name, choice in inp.config.items()}
    config = template.strategy(target).nearest(workload, wanted)
    return Known(config, f"a record of the near layer {template.kind.of(*inp.task.args).title}")


def _wanted(choice: Any) -> Any:
    """A choice as `nearest` wants it: the sizes of a split but the outermost, or the choice itself."""
    return list(choice.size[1:]) if hasattr(choice, "size") else choice.data


def _away(a: tuple[Any, ...], b: tuple[Any, ...]) -> float:
    """How far apart two workloads are: doublings of the input's extents; infinitely where anything else differs."""
    if len(a) != len(b) or any(v != w for v, w in zip(a[1:], b[1:], strict=True) if not _extent(v, w)):
        return float("inf")
    pairs = [*zip(a[0], b[0], strict=True), *((v, w) for v, w in zip(a[1:], b[1:], strict=True) if _extent(v, w))]
    return sum(abs(log2(v) - log2(w)) for v, w in pairs)


def _extent(v: Any, w: Any) -> bool:
    """Whether these are numbers of filters or groups, which may differ as sizes do."""
    return isinstance(v, int) and isinstance(w, int)


# Other libraries


@cache
def _rivals() -> list[tuple[Problem, str, float, float]]:
    """Problems with the name of the device that measured them, our time and theirs."""
    path = RECORDS / "rivals.jsonl"
    if not path.is_file():
        return []
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return [(Problem.read(row["problem"]), row["device"], row["ours"], row["theirs"]) for row in rows]


def rival_is_faster(problem: Problem, on: Device) -> str:
    """Why the library's own kernel is the choice for a problem; "" where ours is."""
    near = []
    for known, where, ours, theirs in _rivals():
        away = _problem_distance(problem, known)
        if away <= _FAR and (where.startswith("cpu") == (on.kind == "cpu")):
            near.append((away, ours / theirs, known))
    if near:
        away, ratio, known = min(near, key=lambda one: one[0])
        if ratio <= _FASTER:
            return ""
        what = "this layer" if away == 0 else f"the near layer {known}"
        return f"measured {ratio:.2f} times as fast as ours for {what}"
    if problem.op == CONV and not problem.depthwise and problem.terms >= _DENSE_TERMS:
        return f"a sum over {problem.terms} products is a matrix product, and no record says that ours is faster"
    return ""


def _problem_distance(a: Problem, b: Problem) -> float:
    same = ("op", "kernel", "stride", "dilation", "layout", "depthwise", "precision")
    if any(getattr(a, name) != getattr(b, name) for name in same):
        return float("inf")
    other_type = 0.0 if a.dtype == b.dtype else _OTHER_TYPE
    pairs = [*zip(a.shape, b.shape, strict=True), (a.filters, b.filters)]
    if not a.depthwise:
        pairs.append((a.groups, b.groups))
    return other_type + sum(abs(log2(v) - log2(w)) for v, w in pairs)
