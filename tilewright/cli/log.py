"""`tilewright log`: show, compare, merge and plot tuning logs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..core.errors import UserError
from ..core.text import one_line, quantity
from ..measure.outcome import MeasureResult
from ..report.chart import WITH_CHARTS, can_draw
from ..report.curves import Line, line_chart
from ..report.table import Column, table
from ..report.units import NONE, duration
from ..topi.templates import ALL
from ..topi.templates.workload import written
from ..tune.records.curve import Curve, curves
from ..tune.records.failure_kinds import gist
from ..tune.records.files import merge_pairs
from ..tune.records.format import MeasureInput, Pair, mean_cost
from ..tune.records.history import History
from ..tune.records.log import SkippedLine, load_from_file
from ..tune.space.choices import SplitChoice
from ..tune.task import Workload
from .console import fitted, heading, print_lines

_FORMATS = (".svg", ".png", ".pdf")
_MOST_ROWS = 30
_MOST_REASONS = 8


def show(path: Path, rows: int = _MOST_ROWS) -> int:
    """Print a log: its workloads, and the fastest `rows` lines of each; return 1 if it holds lines that are not
    records."""
    pairs, problems = read_log(path)
    for workload, own in _by_workload(pairs).items():
        failed = sum(result.error_no != 0 for inp, result in own if not inp.notes.refused)
        refused = sum(inp.notes.refused for inp, _ in own)
        again = sum(inp.notes.confirmed for inp, _ in own)
        counts = f"{quantity(len(own) - refused, 'measurement')}: {failed} failed"
        counts += f", {again} to confirm the best" if again else ""
        counts += f"; {quantity(refused, 'configuration')} refused without measuring"
        print_lines([heading(workload_name(workload)), counts])
        print_lines(["", *_fastest(own, rows), ""])
    return _tell(path, pairs, problems)


def best(path: Path) -> int:
    """Print the best configuration of each workload, over all devices."""
    pairs, problems = read_log(path)
    known = _by_workload(History(pairs, lambda _: "").pairs())
    for workload, own in _by_workload(pairs).items():
        print_lines([heading(workload_name(workload))])
        if workload not in known:
            print_lines([f"none of {len(own)} configurations could be measured: tilewright log show {path}", ""])
        for inp, result in known.get(workload, ()):
            _print_best(inp, result)
    return _tell(path, pairs, problems)


def _print_best(inp: MeasureInput, result: MeasureResult) -> None:
    """Print the best configuration of a workload on a target."""
    where = f" on {inp.notes.device}" if inp.notes.device else ""
    where += ("" if inp.notes.checked else ", not checked") + (", the default" if inp.notes.default else "")
    cost = mean_cost(result)
    print_lines([f"{duration(cost)}{_rate(inp.notes.flop, cost)}{where}, {inp.target}"])
    width = max((len(name) for name in inp.config), default=0)
    print_lines([*(one_line(f"  {name:{width}}  {choice}") for name, choice in inp.config.items()), ""])


def merge_logs(out: Path, paths: Sequence[Path]) -> int:
    """Write the lines of several logs into one; return 1 if they hold lines that are not records."""
    if os.path.exists(out) and out not in paths:  # unlike `Path.exists`, false for a name that is too long
        raise UserError(f"{out} exists", fix="name a new file, or list it among the logs to merge, too", where="")
    found = [(path, *read_log(path)) for path in paths]
    print_lines([f"{merge_pairs((pair for _, pairs, _ in found for pair in pairs), out)} lines in {out}"])
    return max(_tell(path, pairs, problems) for path, pairs, problems in found)


def plot(out: Path, paths: Sequence[Path]) -> int:
    """Draw the best against the number of trials, a line for each log and workload; return 1 if a log has no trials."""
    check_figure(out)
    found = [(path, *read_log(path)) for path in paths]
    print_lines(draw(out, [(path, pairs) for path, pairs, _ in found]))
    return max(_tell(path, pairs, problems) for path, pairs, problems in found)


def check_figure(out: Path) -> None:
    """Raise UserError if no figure of that name can be drawn."""
    if not can_draw():
        raise UserError("charts need matplotlib, which is not installed", fix=WITH_CHARTS, where="")
    if out.suffix not in _FORMATS:
        raise UserError(f"{out.name}: unknown kind of file", fix=f"end the name in {', '.join(_FORMATS)}", where="")
    if out.is_dir() or not out.parent.is_dir():
        reason = "it is a folder" if out.is_dir() else f"there is no folder {out.parent}"
        raise UserError(f"cannot write {out}: {reason}", fix="name a file in a folder that exists", where="")


def draw(out: Path, logs: Sequence[tuple[Path, Sequence[Pair]]]) -> list[str]:
    """Draw the curves of logs into a file that `check_figure` has passed; return a sentence about it."""
    found = [(path, curve) for path, pairs in logs for curve in curves(pairs)]
    drawn = [(path, curve) for path, curve in found if curve.best[-1] is not None]
    if not drawn:
        raise UserError(
            "the logs hold no trial that succeeded", fix=f"tilewright log show {logs[0][0]} says why", where=""
        )
    in_flops = all(curve.flop for _, curve in drawn)
    single = len({curve.workload for _, curve in drawn}) == 1
    name_of = _short_names([path for path, _ in drawn])
    lines = [
        Line(name_of[path] if single else f"{name_of[path]}: {workload_name(curve.workload)}", _values(curve, in_flops))
        for path, curve in drawn
    ]
    title = workload_name(drawn[0][1].workload) if single else "tuning"
    line_chart(title, "best, GFLOPS" if in_flops else "best, µs", lines, out)
    left_out = [f"{path}: no trial of {workload_name(curve.workload)} succeeded" for path, curve in found
                if curve.best[-1] is None]  # fmt: skip
    return [f"{len(lines)} curve{'s' * (len(lines) > 1)} in {out}", *left_out]


def _short_names(paths: Sequence[Path]) -> dict[Path, str]:
    """A name for each log: its file name, or the whole path if two files have the same name."""
    stems = [path.stem for path in dict.fromkeys(paths)]
    return {path: path.stem if stems.count(path.stem) == 1 else str(path) for path in paths}


def read_log(path: Path) -> tuple[list[Pair], list[SkippedLine]]:
    """Return the records of a log, and its lines that are none."""
    problems: list[SkippedLine] = []
    try:
        return list(load_from_file(path, problems)), problems
    except UserError as error:
        raise UserError(error.message, fix="name a log that a tuner has written", where="") from None
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {error.strerror}", fix="name a log that a tuner has written", where=""
        ) from None


def _by_workload(pairs: Sequence[Pair]) -> dict[Workload, list[Pair]]:
    found: dict[Workload, list[Pair]] = {}
    for inp, result in pairs:
        found.setdefault(inp.task.workload, []).append((inp, result))
    return found


def _tell(path: Path, pairs: Sequence[Pair], problems: Sequence[SkippedLine]) -> int:
    """Report lines that are not records, or a log without records; returns the exit status."""
    print_lines([f"{path}:{problem.line}: skipped: {one_line(problem.reason)}" for problem in problems])
    if not pairs:
        print_lines([f"{path} holds no measurements"])
    return 1 if problems or not pairs else 0


def _fastest(pairs: Sequence[Pair], rows: int) -> list[str]:
    """The table of the fastest lines of one workload, then the count of each failure."""
    last = {pair[0].config: pair for pair in pairs if pair[1].error_no == 0}  # the last measurement of each counts
    good = sorted(last.values(), key=lambda pair: mean_cost(pair[1]))
    columns = (Column("time"), Column("GFLOPS"), Column("index"), Column("configuration", right=False))
    cells = []
    for inp, result in good[:rows]:
        cost = mean_cost(result)
        rate = f"{inp.notes.flop / cost / 1e9:,.1f}" if inp.notes.flop else NONE
        knobs = "  ".join(f"{name}={_brief(choice)}" for name, choice in inp.config.items())
        cells.append((duration(cost), rate, str(inp.config.index), knobs))
    lines = table(columns, cells) if cells else []
    if len(good) > rows:
        lines.append(f"... and {len(good) - rows} slower: --rows {len(good)} shows them")
    return [fitted(line) for line in (*lines, *_failures(pairs))]


def _brief(choice: Any) -> str:
    """A choice without blanks: a split's sizes as a product, ? for an inferred size."""
    if isinstance(choice, SplitChoice):
        return "×".join("?" if size < 0 else str(size) for size in choice.sizes)
    return str(choice).replace(" ", "")


def _failures(pairs: Sequence[Pair]) -> list[str]:
    """The failures with their counts, the most frequent first, each with the schedule steps at fault.

    Reasons that differ in their numbers only are one; the first of them stands for all.
    """
    groups: dict[str, list[MeasureInput]] = {}
    for inp, result in pairs:
        if result.error_no:
            kind = gist(inp.notes.reason) or f"error number {result.error_no}"
            groups.setdefault(kind, []).append(inp)
    lines = []
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    for reason, inputs in ordered[:_MOST_REASONS]:
        first = inputs[0].notes.reason.partition("\n")[0] or reason
        alike = any(inp.notes.reason != inputs[0].notes.reason for inp in inputs)
        lines.append(f"{len(inputs)} × {first}{', and the like' if alike else ''}")
        steps = Counter(inp.notes.step for inp in inputs if inp.notes.step)
        lines += [f"    {count} at {step}" for step, count in steps.most_common(2)]
    rest = sum(len(inputs) for _, inputs in ordered[_MOST_REASONS:])
    return [*lines, *([f"{rest} × something else"] if rest else [])]


def _values(curve: Curve, in_flops: bool) -> list[float | None]:
    return [None if cost is None else curve.flop / cost / 1e9 if in_flops else cost * 1e6 for cost in curve.best]


def workload_name(workload: Workload) -> str:
    """A workload for people: the template's name with its arguments or, for our templates, with its options."""
    name, *args = workload
    ours = next((t for t in ALL if t.name == name), None)
    with suppress(UserError, TypeError):  # perhaps a workload of another version
        if ours is not None:
            return f"{name}({', '.join(f'{k}={written(v)}' for k, v in ours.workload(tuple(args)).shortest.items())})"
    return one_line(f"{name}({', '.join(map(str, args))})")


def _rate(flop: float, cost: float) -> str:
    return f", {flop / cost / 1e9:,.1f} GFLOPS" if flop else ""
