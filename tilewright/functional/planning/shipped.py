"""The records in the package: configurations tuned for known layers.

`records/*.log` are logs in AutoTVM's format, written by `python -m benchmarks.convolution_sweep`. A layer without a
record gets the configuration of the nearest recorded layer. The records of `*epilogues.log` were tuned with a bias and
relu, for layers with a different fastest configuration in that case.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.target import Target
from ...topi.templates import Conv2dLayer
from ...tune.records.best import best_of
from ...tune.records.format import MeasureInput, decode, mean_cost
from ...tune.task import freeze

if TYPE_CHECKING:
    from ...topi.templates import Convolution, PackagedTemplate
    from ...tune.space.config import Config

RECORDS = Path(__file__).parent / "records"
Args = tuple[Any, ...]
_EPILOGUES = "epilogues"
"""The suffix of logs of kernels with an epilogue."""
_NEAR = 2.0
"""The largest distance of a similar layer: the sum of the binary logarithms of the ratios of all sizes."""
_OTHER = {"float16": "bfloat16", "bfloat16": "float16"}
"""For each 16-bit type, the other one."""


@dataclass(frozen=True)
class ShippedRecord:
    """A configuration from a record, with its origin, recorded time and architecture, and the distance of its layer."""

    config: Config
    why: str
    seconds: float
    arch: str
    away: float = 0.0


@cache
def _records(fused: bool) -> dict[tuple[str, str], dict[Args, list[str]]]:
    """Return the lines of the logs, with or without an epilogue, by kind of target and template, then by workload.

    A call reads one or two lines. Decoding all of them would dominate the time of the look-up.
    """
    found: dict[tuple[str, str], dict[Args, list[str]]] = {}
    for path in (path for path in sorted(RECORDS.glob("*.log")) if path.stem.endswith(_EPILOGUES) is fused):
        for line in path.read_text(encoding="utf-8").splitlines():
            target, name, args, _ = json.loads(line)["input"]
            found.setdefault((_kind(target), name), {}).setdefault(freeze(args), []).append(line)
    return found


@cache
def _kind(target: str) -> str:
    return Target.parse(target).kind


def configuration(template: PackagedTemplate[Any], workload: Convolution, target: Target) -> ShippedRecord | None:
    """Return the record of a workload, or of the nearest recorded workload; None if none is near."""
    exact = record_of(template, workload, target)
    if exact is not None:
        return exact
    args, known = tuple(workload.args), _records(False).get((target.kind, template.name), {})
    near = [(away, place) for place, other in enumerate(known) if (away := _away(args, other)) <= _NEAR]
    away, place = min(near, default=(0.0, None))
    best = best_of([decode(line) for line in [*known.values()][place]]) if place is not None else None
    if best is None:
        return None
    inp, result = best
    why = f"a record of a similar layer, {template.kind.of(*inp.task.args).title}"
    config = _nearest(template, workload, target, inp.config)
    return ShippedRecord(config, why, mean_cost(result), _arch(inp), away)


def record_of(
    template: PackagedTemplate[Any], workload: Convolution, target: Target, fused: bool = False
) -> ShippedRecord | None:
    """Return the record of this workload, or of an equivalent one; with `fused`, a record with an epilogue."""
    known = _records(fused).get((target.kind, template.name), {})
    for of in _alike(workload):
        best = best_of([decode(line) for line in known.get(tuple(of.args), [])])
        if best is not None:
            inp, result = best
            layer = f"this layer{' with an epilogue' if fused else ''}{'' if of is workload else f' in {of.element}'}"
            why = f"a record of {layer} on {inp.notes.device or inp.target}"
            config = inp.config if of is workload else _nearest(template, workload, target, inp.config)
            return ShippedRecord(config, why, mean_cost(result), _arch(inp))
    return None


def _alike(workload: Convolution) -> Iterator[Convolution]:
    """Yield the workload, then, for a dense convolution, the same in the other 16-bit type: its record also applies.

    Most dense layers use matrix instructions, which cost the same in both types. On an H200, 51 layers in bfloat16
    were timed with their earlier choice and with the record of float16. 12 layers of three channels became 1.57 times
    as fast on average (the slowest 0.86 times). 39 others became 1.08 times as fast (0.95). 3 lost more than 3%.
    Depthwise layers use ordinary instructions, and their costs differ by type. Of 97, 14 lost more than 3%, though the
    average was 1.06 times as fast (0.71).
    """
    yield workload
    if isinstance(workload, Conv2dLayer) and workload.groups == 1 and workload.dtype in _OTHER:
        yield replace(workload, dtype=_OTHER[workload.dtype])


def _nearest(template: PackagedTemplate[Any], workload: Convolution, target: Target, config: Config) -> Config:
    """Return the configuration nearest to a configuration of another workload."""
    return template.strategy(target).nearest(workload, {name: choice.wanted for name, choice in config.items()})


def _arch(inp: MeasureInput) -> str:
    return Target.parse(inp.target).arch


def _away(a: tuple[Any, ...], b: tuple[Any, ...]) -> float:
    """Return the distance of two workloads, in doublings of the input's extents; infinity if anything else differs."""
    if len(a) != len(b) or any(v != w for v, w in zip(a[1:], b[1:], strict=True) if not _extent(v, w)):
        return float("inf")
    pairs = [*zip(a[0], b[0], strict=True), *((v, w) for v, w in zip(a[1:], b[1:], strict=True) if _extent(v, w))]
    return sum(abs(log2(v) - log2(w)) for v, w in pairs)


def _extent(v: Any, w: Any) -> bool:
    """Return whether two arguments are numbers of filters or of groups, which count as sizes."""
    return isinstance(v, int) and isinstance(w, int)
