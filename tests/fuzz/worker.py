"""Judges cases in a process of its own, which a device's compiler may take down; lines of JSON say what it does."""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
from dataclasses import asdict
from typing import Any, TextIO

from tests.fuzz.automatic import draw_automatic
from tests.fuzz.cases import Case, computations, draw, primitives
from tests.fuzz.engines import Verdict, judge, stations
from tests.fuzz.shrink import shrunk


class Channel:
    """Where messages go: what standard output was when the process began."""

    def __init__(self) -> None:
        self.lines: TextIO = sys.stdout

    def keep(self) -> None:
        """Send what anybody else prints, such as a device's driver, to standard error."""
        self.lines = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)


CHANNEL = Channel()


def say(**message: Any) -> None:
    print(json.dumps(message), file=CHANNEL.lines, flush=True)


def decoded(message: dict[str, Any]) -> Case:
    """A case from JSON."""
    lists = {name: tuple(message[name]) for name in ("lines", "tensors", "refused")}
    return Case(message["family"], message["seed"], **lists, sizes=tuple(map(tuple, message["sizes"])))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--engines", default="interpreter")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", choices=("kernels", "programs"), help="draw only cases with threads, or without")
    parser.add_argument("--auto", help="draw cases with automatic schedules for this target, or for any")
    parser.add_argument("--case", action="store_true", help="judge the one case on standard input")
    given = parser.parse_args()
    wanted = tuple(given.engines.split(","))
    CHANNEL.keep()
    if given.case:
        say(**asdict(judge(decoded(json.load(sys.stdin)), wanted)))
        return 0
    for seed in range(given.first, given.first + given.count):
        say(seed=seed)
        case = draw_automatic(seed, given.auto) if given.auto else draw(seed)
        if given.only and case.on_grid != (given.only == "kernels"):
            continue
        engines = tuple(e for e in wanted if e != "opencl" or seed % given.every == 0)
        verdict = judge(case, engines, lambda where: say(where=where))
        # A device's compiler may be at fault, which another process finds out.
        if (verdict.is_fault or (given.auto and verdict.outcome == "refused")) and verdict.where in (
            "interpreter",
            "llvm",
        ):
            say(shrinking=True, verdict=asdict(verdict))
            case, verdict = shrunk(case, verdict, functools.partial(judge, engines=engines))
        report(case, verdict, stations(case, engines))
    say(done=True)
    return 0


def report(case: Case, verdict: Verdict, engines: list[str]) -> None:
    say(
        verdict={**asdict(verdict), "kind": verdict.kind},
        engines=engines,
        family=case.family,
        primitives=primitives(case.lines),
        refused=[f"{(primitives((line,)) or ['declaration'])[0]}: {line.split('  # ', 1)[1]}" for line in case.refused],
        computations=sorted(computations(case.lines)),
        case=asdict(case) if verdict.outcome != "right" else None,
    )


if __name__ == "__main__":
    sys.exit(main())
