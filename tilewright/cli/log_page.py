"""The page of `tilewright log report`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..report.inline_svg import COLORS, Steps, clean, step_chart
from ..report.page import Markup, Number, bar, facts, fold, grid, page
from ..report.units import NONE, duration
from ..tune.records.format import mean_cost
from ..tune.records.insight import Insight
from .winner import CompiledWinner

_MOST_RUNS = 24
"""The most workloads with separate sections; a table has the others."""
_MOST_ROWS = 500
_MOST_REASON = 400


@dataclass(frozen=True)
class LoggedWorkload:
    """The results of a workload in a log; `bound` is the roofline in seconds, 0 if unknown."""

    log: str
    name: str
    found: Insight
    program: CompiledWinner | None = None
    bound: float = 0.0

    @property
    def cost(self) -> float | None:
        """The seconds of the winner; None if there is none."""
        return None if self.found.winner is None else mean_cost(self.found.winner[1])

    @property
    def rate(self) -> str:
        """The rate of the winner in GFLOPS."""
        return f"{self.found.flop / self.cost / 1e9:,.0f}" if self.cost and self.found.flop else NONE


def whole_page(logs: Sequence[str], runs: Sequence[LoggedWorkload], skipped: Sequence[tuple[str, int]]) -> str:
    """Return the report: an overview, then a section for each workload with all logs that have it."""
    groups: dict[str, list[LoggedWorkload]] = {}
    for run in runs:
        groups.setdefault(run.name, []).append(run)
    title = "Tuning report" if len(logs) != 1 else f"Tuning report: {logs[0]}"
    notes = "".join(f"<p>{clean(path)}: {count:,} lines are not records.</p>" for path, count in skipped)
    if not runs:
        notes += "<p>The logs hold no measurements.</p>"
    head = f'<header><h1>{clean(title)}</h1><p class="dim">{clean(_scope(logs, runs, groups))}</p></header>'
    shown = list(groups.items())[:_MOST_RUNS]
    overview = _overview(runs) if len(runs) > 1 else ""
    if len(shown) > 1:
        links = "".join(f'<li><a href="#w{i}">{clean(name)}</a></li>' for i, (name, _) in enumerate(shown))
        overview = f'<nav aria-label="Workloads"><ol>{links}</ol></nav>{overview}'
    sections = "".join(_section(i, name, own) for i, (name, own) in enumerate(shown))
    left = len(groups) - len(shown)
    rest = f"<p>{left:,} more workloads are only in the table.</p>" if left else ""
    foot = "<footer><p>Made by <code>tilewright log report</code>; nothing on this page loads or runs.</p></footer>"
    return page(title, f'{head}<main id="main" tabindex="-1">{notes}{overview}{sections}{rest}</main>{foot}')


def _scope(logs: Sequence[str], runs: Sequence[LoggedWorkload], groups: dict[str, list[LoggedWorkload]]) -> str:
    trials = sum(run.found.trials for run in runs)
    seconds = sum(run.found.seconds for run in runs)
    devices = ", ".join(dict.fromkeys(run.found.device or run.found.target for run in runs if run.found))
    one = "" if len(logs) == 1 else f"{len(logs)} logs, "
    return f"{one}{_count(len(groups), 'workload')}, {_count(trials, 'trial')} in {_clock(seconds)}. {devices[:300]}"


def _overview(runs: Sequence[LoggedWorkload]) -> str:
    heads = ("Workload", "Log", "Device", *map(Number, ("Best", "GFLOPS", "Roofline", "Trials", "Failed", "Time")))
    rows = [
        (run.name, run.log, run.found.device or run.found.target, Number(duration(run.cost)), Number(run.rate),
         Number(_roofline(run)), Number(f"{run.found.trials:,}"), Number(f"{_failed(run.found):,}"),
         Number(_clock(run.found.seconds)))
        for run in runs[:_MOST_ROWS]
    ]  # fmt: skip
    more = f", the first {_MOST_ROWS} of {len(runs):,}" if len(runs) > _MOST_ROWS else ""
    return f"<h2>Overview</h2>{grid(f'The best of each workload{more}', heads, rows)}"


def _section(number: int, name: str, runs: Sequence[LoggedWorkload]) -> str:
    labels = _labels(runs)
    parts = [f'<section aria-labelledby="w{number}"><h2 id="w{number}">{clean(name)}</h2>', _charts(runs, labels)]
    for run, label in zip(runs, labels, strict=True):
        parts += [f"<h3>{clean(label)}</h3>" if len(runs) > 1 else "", _figures(run), _winner(run)]
        parts.append(
            f'<div class="two"><div>{_failures(run.found)}{_time(run.found)}</div><div>{_knobs(run)}</div></div>'
        )
    return "".join(parts) + "</section>"


def _labels(runs: Sequence[LoggedWorkload]) -> list[str]:
    several = len({run.log for run in runs}) > 1
    made = []
    for run in runs:
        where = run.found.device or run.found.target
        made.append(f"{run.log} ({where})" if several else where)
    return [
        label if made.count(label) == 1 else f"{label}, {run.found.target}"
        for run, label in zip(runs, made, strict=True)
    ]


def _charts(runs: Sequence[LoggedWorkload], labels: Sequence[str]) -> str:
    if not any(run.found.points for run in runs):
        return "<p>No trial succeeded.</p>"
    figures = []
    guessed = any(point.predicted for run in runs for point in run.found.points)
    for across, by_time in (("trials", False), ("seconds", True)):
        lines = []
        for run, label in zip(runs, labels, strict=True):
            points = [(point.seconds if by_time else float(point.trial), point) for point in run.found.points]
            end = run.found.seconds if by_time else float(run.found.trials)
            guesses = [(x, point.predicted) for x, point in points if point.predicted > 0]
            lines.append(Steps(label, [(x, point.cost) for x, point in points], end, guesses))
        keys = "".join(
            f'<span class="name"><span class="key k{i % COLORS}"></span>{clean(label)}</span>'
            for i, label in enumerate(labels)
        )
        note = " Circles: the model’s prediction." if guessed else ""
        figures.append(
            f"<figure>{step_chart(f'The least time against {across}', across, lines)}"
            f"<figcaption>Least time against {across}.{note} {keys if len(runs) > 1 else ''}</figcaption></figure>"
        )
    return f'<div class="two">{"".join(figures)}</div>'


def _figures(run: LoggedWorkload) -> str:
    found = run.found
    spread = ""
    if found.winner is not None and len(costs := found.winner[1].costs) > 1:
        spread = f" ±{(max(costs) - min(costs)) / 2 / (sum(costs) / len(costs)):.1%}"
    items = [("Best time", duration(run.cost) + spread), ("GFLOPS", run.rate), ("Of the roofline", _roofline(run)),
             ("Trials", f"{found.trials:,}"), ("Failed trials", f"{_failed(found):,}"),
             ("Session", _clock(found.seconds))]  # fmt: skip
    return facts([item for item in items if item[1] != NONE])


def _winner(run: LoggedWorkload) -> str:
    found = run.found
    if found.winner is None:
        return ""
    best, second = found.winner, found.runner_up
    other = {} if second is None else {name: str(choice) for name, choice in second[0].config.items()}
    rows = [(name, str(choice), other.get(name, NONE)) for name, choice in best[0].config.items()]
    differs = [i for i, row in enumerate(rows) if second is not None and row[1] != row[2]]
    caption = "The winner’s configuration"
    if second is not None:
        ratio = mean_cost(second[1]) / mean_cost(best[1]) - 1
        how = f"{ratio:.1%} slower" if ratio >= 0 else f"{-ratio:.1%} faster, but not as well verified"
        caption += f" and the runner-up’s, which is {how} and differs in {_count(len(differs), 'knob')}"
    heads = (
        "Knob",
        f"Winner: {duration(run.cost)}",
        f"Runner-up: {duration(mean_cost(second[1]))}" if second else NONE,
    )
    table = grid(caption, heads if second else heads[:2], [row if second else row[:2] for row in rows], differs)
    how = "measured again beside its rivals" if best[0].notes.confirmed else "measured once, not confirmed"
    how += ", output compared with the reference" if best[0].notes.checked else ", output not compared"
    return f"{table}<p class=dim>The winner was {how}.</p>{_compiled(run.program)}"


def _compiled(program: CompiledWinner | None) -> str:
    if program is None:
        return ""
    parts = []
    if program.resources:
        heads = ("Kernel", *map(Number, ("Registers", "Spilled bytes", "Stack bytes", "Shared bytes")))
        rows = [
            (name, *(Number(f"{value:,}") for value in (
                taken["registers"], taken["spill_store_bytes"] + taken["spill_load_bytes"], taken["stack_bytes"],
                taken["shared_bytes"],
            )))
            for name, taken in program.resources.items()
        ]  # fmt: skip
        parts.append(grid("The resources of each kernel, from the compiler", heads, rows))
    parts += [
        fold(f"The winner’s {what}", text)
        for what, text in (("program", program.text), ("source", program.source))
        if text
    ]
    parts += [f"<p class=dim>The compiler remarks: {clean(remark[:_MOST_REASON])}</p>" for remark in program.remarks]
    if program.missing:
        parts.append(f"<p class=dim>The winner is not compiled here: {clean(program.missing[:_MOST_REASON])}</p>")
    return "".join(parts)


def _failures(found: Insight) -> str:
    if not found.causes:
        return "<h3>Failures</h3><p>None.</p>"
    rows = []
    for cause in found.causes:
        example = cause.example[:_MOST_REASON] or "no reason is given"
        steps = "".join(f"\n{count:,} at {step}" for step, count in cause.steps)
        rows.append((cause.kind, Number(f"{cause.count:,}"), example + steps))
    return f"<h3>Failures</h3>{grid('By cause, with an example', ('Cause', Number('Count'), 'Example'), rows)}"


def _time(found: Insight) -> str:
    total = sum(found.spent.values())
    if total <= 0:
        return ""
    rows = [
        (what, Number(f"{found.counts[what]:,}"), Number(_clock(seconds)), Number(f"{seconds / total:.0%}"),
         bar(seconds / total))
        for what, seconds in sorted(found.spent.items(), key=lambda item: -item[1])
    ]  # fmt: skip
    caption = f"Building and running: {_clock(total)} of all workers, in a session of {_clock(found.seconds)}"
    heads = ("What", Number("Count"), Number("Time"), Number("Share"), "")
    return f"<h3>Time by phase</h3>{grid(caption, heads, rows)}"


def _knobs(run: LoggedWorkload) -> str:
    if not run.found.knobs:
        return ""
    rows = []
    for knob in run.found.knobs:
        best = knob.choices[0].best
        tops = "\n".join(f"{c.shown}: {duration(c.best)}" + (f" (+{c.best / best - 1:.0%})" if c.best > best else "")
                         for c in knob.choices[:3])  # fmt: skip
        lines = clean(tops).replace("\n", "<br>")
        rows.append((knob.name, Number(f"{knob.worth:.0%}"), bar(knob.worth), Number(f"{knob.number:,}"),
                     Markup(f'<span class="few">{lines}</span>')))  # fmt: skip
    caption = "How much of the differences in log(time) a knob explains alone, and the least time with its best choices"
    heads = ("Knob", Number("Explains"), "", Number("Choices"), "Best choices")
    return f"<h3>The effect of each knob</h3>{grid(caption, heads, rows)}"


def _failed(found: Insight) -> int:
    return sum(n for kind, n in found.counts.items() if kind not in ("measured", "confirmed", "refused"))


def _roofline(run: LoggedWorkload) -> str:
    return f"{run.bound / run.cost:.0%}" if run.bound and run.cost else NONE


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _clock(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"
