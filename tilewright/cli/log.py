"""`tilewright log`: what logs of tuning hold, the best of them, several merged, and curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..core.errors import UserError
from ..report.chart import MISSING, can_draw
from ..report.curves import Line, line_chart
from ..report.table import Column, table
from ..report.units import NONE, duration
from ..tune.records.curve import Curve, curves
from ..tune.records.files import merge
from ..tune.records.format import Pair, mean_cost
from ..tune.records.history import History
from ..tune.records.log import Problem, load_from_file
from ..tune.task import Workload
from .console import heading, print_lines

_FORMATS = (".svg", ".png", ".pdf")
_MOST_ROWS = 30


def show(path: Path, rows: int = _MOST_ROWS) -> int:
    """Print a log: its workloads, and the fastest `rows` lines of each; 1 where it holds lines that are no records."""
    pairs, problems = _read(path)
    for workload in dict.fromkeys(inp.task.workload for inp, _ in pairs):
        own = [pair for pair in pairs if pair[0].task.workload == workload]
        failed = sum(result.error_no != 0 for inp, result in own if not inp.notes.refused)
        refused = sum(inp.notes.refused for inp, _ in own)
        print_lines(
            [heading(_name(workload)), f"{len(own) - refused} measured, {failed} of them failed; {refused} refused"]
        )
        print_lines(["", *_fastest(own, rows), ""])
    return _tell(path, problems)


def best(path: Path) -> int:
    """Print the best configuration of each workload, whatever device measured it."""
    pairs, problems = _read(path)
    for inp, result in History(pairs, lambda _: "").pairs():
        where = f" on {inp.notes.device}" if inp.notes.device else ""
        cost = mean_cost(result)
        print_lines(
            [heading(_name(inp.task.workload)), f"{duration(cost)}{_rate(inp.notes.flop, cost)}{where}, {inp.target}"]
        )
        width = max((len(name) for name in inp.config), default=0)
        print_lines([*(f"  {name:{width}}  {choice}" for name, choice in inp.config.items()), ""])
    return _tell(path, problems)


def merge_logs(out: Path, paths: Sequence[Path]) -> int:
    """Write the lines of several logs into one."""
    if out.exists() and out not in paths:
        raise UserError(f"{out} exists", primitive="log merge", fix="name a new file", where="")
    print_lines([f"{merge(paths, out)} lines in {out}"])
    return 0


def plot(out: Path, paths: Sequence[Path]) -> int:
    """Draw the best against the number of trials, a line for each log and workload, into an SVG, PNG or PDF."""
    if not can_draw():
        raise UserError(MISSING, where="")
    if out.suffix not in _FORMATS:
        raise UserError(f"{out.name}: unknown kind of file", fix=f"end the name in {', '.join(_FORMATS)}", where="")
    found = [(path, curve) for path in paths for curve in curves(_read(path)[0])]
    if not found:
        raise UserError("the logs hold no trials", primitive="log plot", where="")
    in_flops = all(curve.flop for _, curve in found)
    single = len({curve.workload for _, curve in found}) == 1
    lines = [Line(_label(path, curve, single), _values(curve, in_flops)) for path, curve in found]
    title = _name(found[0][1].workload) if single else "tuning"
    line_chart(title, "best, GFLOPS" if in_flops else "best, µs", lines, out)
    print_lines([f"{len(lines)} curves in {out}"])
    return 0


def _read(path: Path) -> tuple[list[Pair], list[Problem]]:
    problems: list[Problem] = []
    return list(load_from_file(path, problems)), problems


def _tell(path: Path, problems: Sequence[Problem]) -> int:
    print_lines([f"{path}:{problem.line}: skipped: {problem.reason}" for problem in problems])
    return 1 if problems else 0


def _fastest(pairs: Sequence[Pair], rows: int) -> list[str]:
    """The table of the fastest lines of one workload, then how often what went wrong."""
    last = {pair[0].config: pair for pair in pairs if pair[1].error_no == 0}  # the last measurement of each counts
    good = sorted(last.values(), key=lambda pair: mean_cost(pair[1]))
    columns = (Column("time"), Column("GFLOPS"), Column("index"), Column("configuration", right=False))
    cells = []
    for inp, result in good[:rows]:
        cost = mean_cost(result)
        rate = f"{inp.notes.flop / cost / 1e9:,.1f}" if inp.notes.flop else NONE
        knobs = "  ".join(f"{name}={choice}" for name, choice in inp.config.items())
        cells.append((duration(cost), rate, str(inp.config.index), knobs))
    reasons: dict[str, int] = {}
    for inp, result in pairs:
        if result.error_no:
            reason = inp.notes.reason.partition("\n")[0] or f"error {result.error_no}"
            reasons[reason] = reasons.get(reason, 0) + 1
    most = sorted(reasons.items(), key=lambda item: -item[1])[:8]
    return [*table(columns, cells), *(f"{count} × {reason}" for reason, count in most)]


def _values(curve: Curve, in_flops: bool) -> list[float | None]:
    return [None if cost is None else curve.flop / cost / 1e9 if in_flops else cost * 1e6 for cost in curve.best]


def _name(workload: Workload) -> str:
    name, *args = workload
    return f"{name}({', '.join(map(str, args))})"


def _label(path: Path, curve: Curve, single: bool) -> str:
    return path.stem if single else f"{path.stem}: {_name(curve.workload)}"


def _rate(flop: float, cost: float) -> str:
    return f", {flop / cost / 1e9:,.1f} GFLOPS" if flop else ""
