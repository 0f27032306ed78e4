"""Count the modules that a call enters: python tools/entered_modules.py [build|call|known|tune] [--list]

`call` is the first one-line call of a layer with an empty cache, `known` the same layer in a later process, `build` a
schedule of a vector sum, `tune` five trials of a small convolution. A module is entered if one of its functions runs,
other than during an import. Fewer modules make a path that is easier to follow.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

PACKAGE = "tilewright."


def call() -> None:
    """Run one depthwise layer."""
    import numpy as np

    import tilewright as tw

    tw.conv2d(np.ones((1, 8, 9, 9), "float32"), np.ones((8, 1, 3, 3), "float32"), groups=8, padding=1)


def build() -> None:
    """Schedule and build a sum of vectors."""
    import tilewright as tw
    from tilewright import te

    a = te.placeholder((64,), name="a")
    b = te.compute((64,), lambda i: a[i] + a[i], name="b")
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], factor=8)[1])
    tw.build(s, [a, b], "llvm")


def tune() -> None:
    """Tune a small layer."""
    from tilewright.cli import main

    layer = ["--shape", "1x8x9x9", "--kernel", "3", "--groups", "8", "--target", "llvm"]
    sys.argv[1:] = ["tune", "conv2d", *layer, "--trials", "5", "--log", os.path.join(tempfile.mkdtemp(), "log")]
    with suppress(SystemExit):
        main()


PATHS: dict[str, Callable[[], None]] = {"call": call, "known": call, "build": build, "tune": tune}


def entered(run: Callable[[], None]) -> Counter[str]:
    """The modules of the package that a function enters, with the number of calls in each."""
    found: Counter[str] = Counter()
    importing = threading.local()

    def look(frame: FrameType, event: str, _: Any) -> None:
        if frame.f_code.co_name == "<module>":
            depth = getattr(importing, "depth", 0)
            importing.depth = depth + {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not getattr(importing, "depth", 0):
            name = frame.f_globals.get("__name__", "")
            found[name] += name.startswith(PACKAGE)

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return +found


def measured(path: str) -> dict[str, int]:
    """The modules of a path, in a process of its own with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(2 if path == "known" else 1):
            done = subprocess.run(
                [sys.executable, __file__, path, "--here"], capture_output=True, text=True, check=True,
                env={**os.environ, "TILEWRIGHT_CACHE": cache},
            )  # fmt: skip
    counts: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return counts


def main() -> None:
    """Print the number of modules of each path, and their names if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("path", nargs="?", choices=PATHS, help="count one path (default: all)")
    parser.add_argument("--list", action="store_true", help="print the modules, with the calls in each")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        print(f"\n{json.dumps(entered(PATHS[given.path]))}")
        return
    for path in [given.path] if given.path else PATHS:
        found = measured(path)
        print(f"{path:<6} {len(found):>4} modules {sum(found.values()):>9,} calls")
        for name, count in sorted(found.items(), key=lambda one: -one[1]) if given.list else ():
            print(f"  {count:>9,}  {name}")


if __name__ == "__main__":
    main()
