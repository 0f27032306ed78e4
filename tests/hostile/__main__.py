"""`python -m tests.hostile calls --count 20000 --seed 3`: hostile cases, and what goes wrong with them."""

from __future__ import annotations

import argparse
import time

from tests.hostile.children import NoStartError, run


def main() -> int:
    """Run the command; 1 where a case ended as none may."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("kind", choices=["calls", "commands", "modules", "logs"])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", dest="first", type=int, default=0)
    given = parser.parse_args()
    began, seen = time.monotonic(), {}
    try:
        for fault in run(given.kind, given.seed, given.first, given.count):
            if fault is not None:
                seen.setdefault(fault.what, []).append(fault)
                if len(seen[fault.what]) == 1:
                    print(fault, flush=True)
    except NoStartError as error:
        print(f"no case runs: {error}")
        return 1
    faults = sum(map(len, seen.values()))
    print(f"{given.count} {given.kind}, {faults} faults of {len(seen)} kinds, {time.monotonic() - began:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
