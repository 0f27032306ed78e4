"""`python -m tests.hostile calls --count 20000 --seed 3`: hostile cases, and what goes wrong with them.

TILEWRIGHT_HOSTILE_TARGET=opencl (or cuda) builds the programs of the cases for that target; the default is llvm.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tests.hostile.children import Fault, NoStartError, run


def faults(kind: str, seed: int, first: int, count: int, jobs: int) -> Iterator[Fault]:
    """What goes wrong, as it comes; with several processes, each of which has its share, when a share is done."""
    if jobs == 1:
        yield from filter(None, run(kind, seed, first, count))
        return
    each = max(1, -(-count // jobs))
    parts = [(first + at, min(each, count - at)) for at in range(0, count, each)]
    with ThreadPoolExecutor(jobs) as pool:
        work = [pool.submit(lambda part=part: list(filter(None, run(kind, seed, *part)))) for part in parts]
        for one in work:
            yield from one.result()


def main() -> int:
    """Run the command; 1 where a case ended as none may."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["calls", "commands", "modules", "logs"])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the cases")
    given = parser.parse_args()
    began, seen = time.monotonic(), {}
    try:
        for fault in faults(given.kind, given.seed, given.first, given.count, given.jobs):
            seen.setdefault(fault.what, []).append(fault)
            if len(seen[fault.what]) == 1:
                print(fault, flush=True)
    except NoStartError as error:
        print(f"no case runs: {error}")
        return 1
    total = sum(map(len, seen.values()))
    print(f"{given.count} {given.kind}, {total} faults of {len(seen)} kinds, {time.monotonic() - began:.0f} s")
    return 1 if total else 0


if __name__ == "__main__":
    raise SystemExit(main())
