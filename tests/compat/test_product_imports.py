"""Calls, builds and searches need nothing of `compat`: it is for scripts that import it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
import numpy as np
import tilewright as tw

x, w = np.ones((1, 4, 9, 9), "float32"), np.ones((4, 1, 3, 3), "float32")
assert tw.conv2d(x, w, padding=1, groups=4)[0, 0, 4, 4] == 9
A = tw.te.placeholder((8,), name="A")
B = tw.te.compute((8,), lambda i: A[i] + 1, name="B")
tw.build(tw.te.create_schedule(B.op), [A, B], "llvm")
tw.conv2d(x, w, groups=4, tune=0.1)
from tilewright.cli.app import main
sys.argv = "tilewright tune conv1d --shape 64 --kernel 3 --target llvm --trials 1 --repeat 1 --number 1".split()
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*(name for name in sys.modules if name.startswith("tilewright.")))
"""


def test_a_call_a_build_and_a_search_import_nothing_of_compat(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(ROOT), "TILEWRIGHT_CACHE": str(tmp_path / "cache"), "PATH": "", "HOME": "/tmp"}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.splitlines()[-1].split())
    assert {"tilewright.functional.planning.tuning", "tilewright.cli.search", "tilewright.driver"} <= loaded
    assert not [name for name in loaded if name.startswith(("tilewright.compat", "tilewright.autotvm"))]
