"""`python -m tests.fuzz --count 10000 --seed 0`: random schedules of random computations, and what goes wrong there.

Cases are numbered by their seeds: `--seed 123 --count 1` shows one again. A child process judges them one after the
other; after a crash or a hang the next child goes on behind it. `--auto` draws other graphs, each with the schedule
that `tw.auto_schedule` returns for some target, or for the given one. At the end stand the cases by computation and by
primitive, and the reasons of refusals. `--log` keeps a line of JSON for each case. `--jobs` judges on several cores.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import queue
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

from tests.fuzz.automatic import TARGETS as AUTOMATIC_TARGETS
from tests.fuzz.automatic import target_of
from tests.fuzz.children import Children
from tests.fuzz.engines import FAULTS, Verdict
from tests.fuzz.worker import decoded

Counts = collections.Counter[str]


class Tally:
    """What became of the cases so far."""

    def __init__(self) -> None:
        self.outcomes, self.families, self.computations, self.accepted = Counts(), Counts(), Counts(), Counts()
        self.refusals, self.steps, self.seen, self.unbuilt = Counts(), Counts(), Counts(), Counts()
        self.engines = Counts()
        self.count = 0

    def add(self, message: dict[str, Any]) -> None:
        verdict = message["verdict"]
        self.count += 1
        self.outcomes[verdict["outcome"]] += 1
        self.families[f"{message['family']}: {verdict['outcome']}"] += 1
        self.steps.update(line.split(":")[0] for line in message["refused"])
        self.engines.update(f"{engine}: {verdict['outcome']}" for engine in message.get("engines", ()))
        if verdict["outcome"] == "refused":
            self.refusals[Verdict(verdict["outcome"], verdict["where"], verdict["detail"]).kind] += 1
            self.unbuilt.update(set(message["primitives"]))
        else:
            self.accepted.update(set(message["primitives"]))
            self.computations.update(message["computations"])

    def markdown(self) -> str:
        """Tables by primitive (programs with it that ran, that were refused, refused steps) and by computation."""
        lines = ["| primitive | programs that ran | refused when built | steps refused |", "|:--|--:|--:|--:|"]
        for name, ran in self.accepted.most_common():
            lines.append(f"| `{name}` | {ran:,} | {self.unbuilt[name]:,} | {self.steps[name]:,} |")
        lines += ["", "| computation | programs that ran |", "|:--|--:|"]
        lines += [f"| {name} | {ran:,} |" for name, ran in self.computations.most_common()]
        whole = ", ".join(f"{number:,} {outcome}" for outcome, number in self.outcomes.most_common())
        engines = "; ".join(f"{number:,} {name}" for name, number in sorted(self.engines.items()))
        reasons = [f"- {number:,}: {kind}" for kind, number in self.refusals.most_common()]
        return "\n".join([*lines, "", *reasons, "", engines, "", f"{self.count:,} programs: {whole}"])

    def text(self) -> str:
        """The tables at the end."""
        tables = {
            "outcomes": self.outcomes,
            "cases that fit an engine": self.engines,
            "families": self.families,
            "cases that ran, by what they compute": self.computations,
            "cases that ran, by primitive": self.accepted,
            "steps that were refused when they were taken": self.steps,
            "programs that were refused when they were built": self.refusals,
        }
        return "\n\n".join(
            f"{title}\n" + "\n".join(f"{number:8d}  {name}" for name, number in table.most_common(24))
            for title, table in tables.items()
        )


def main() -> int:
    """Run the command; 1 where a case ended as none may."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first case")
    parser.add_argument("--engines", default="text,interpreter,llvm,ptx,opencl", help="also emulated, cuda")
    parser.add_argument("--every", type=int, default=1, help="give only every n-th kernel to OpenCL, which is slow")
    parser.add_argument("--log", type=Path, help="a file to write a line for each case to")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes judge cases at a time")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no case later than that")
    parser.add_argument("--only", choices=("kernels", "programs"), help="draw only cases with threads, or without")
    parser.add_argument(
        "--auto", nargs="?", const="any", choices=("any", *AUTOMATIC_TARGETS),
        help="automatic schedules for any target or for one, of which none may be refused",
    )  # fmt: skip
    parser.add_argument("--read", type=Path, nargs="+", help="run nothing: sum up what --log has written, by primitive")
    given = parser.parse_args()
    if given.read:
        tally = Tally()
        for line in (line for path in given.read for line in path.read_text(encoding="utf-8").splitlines()):
            tally.add(json.loads(line))
        print(tally.markdown())
        return 0
    began, tally = time.monotonic(), Tally()
    faulty = (*FAULTS, "refused") if given.auto else FAULTS
    log: TextIO | None = given.log.open("a") if given.log else None
    children = Children(tuple(given.engines.split(",")), given.every, given.only, began + given.seconds, given.auto)
    for message in judged(children, given.seed, given.count, given.jobs):
        tally.add(message)
        if log is not None:
            print(json.dumps(message), file=log, flush=True)
        verdict = message["verdict"]
        if verdict["outcome"] in faulty:
            kind = f"{verdict['outcome']} {verdict['where']} {verdict['kind']}"
            tally.seen[kind] += 1
            if tally.seen[kind] == 1:
                print(f"\n{shown(message)}\n", flush=True)
        if tally.count % 500 == 0:
            print(f"{tally.count} cases, {dict(tally.outcomes)}, {time.monotonic() - began:.0f} s", flush=True)
    faults = sum(tally.outcomes[outcome] for outcome in faulty)
    print(f"\n{tally.text()}\n\n{tally.count} cases, {faults} faults, {time.monotonic() - began:.0f} s")
    return 1 if faults else 0


def judged(children: Children, first: int, count: int, jobs: int) -> Iterator[dict[str, Any]]:
    """What became of each case, from as many processes at a time as there are jobs."""
    found: queue.Queue[dict[str, Any] | None] = queue.Queue()
    stretch = -(-count // jobs)

    def run(job: int) -> None:
        begin = first + job * stretch
        try:
            for message in children.run(begin, min(stretch, first + count - begin)):
                found.put(message)
        finally:
            found.put(None)

    with ThreadPoolExecutor(jobs) as pool:
        runs = [pool.submit(run, job) for job in range(jobs)]
        left = jobs
        while left:
            if (message := found.get()) is None:
                left -= 1
            else:
                yield message
        for done in runs:
            done.result()


def shown(message: dict[str, Any]) -> str:
    """A fault, with the script that shows it."""
    verdict, case = message["verdict"], message["case"]
    script = "\n".join(f"    {line}" for line in ["from tilewright import auto_schedule, te, tir", *case["lines"]])
    target = target_of(decoded(case))
    auto = f" --auto {target}" if target else ""
    return (
        f"{verdict['outcome']} ({verdict['where']}): {verdict['detail']}\n{script}\n"
        f"    again: python -m tests.fuzz{auto} --seed {case['seed']} --count 1"
    )


if __name__ == "__main__":
    sys.exit(main())
