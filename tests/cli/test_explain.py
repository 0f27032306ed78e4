"""`--explain`: what each pass changes, on stderr, beside what a command prints anyway."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.warm import tilewright

SCRIPT = """
import sys, tvm
from tvm import te
A = te.placeholder((8,), name="A")
B = te.compute((8,), lambda i: A[i] + 1, name="B")
s = te.create_schedule(B.op)
s[B].unroll(B.op.axis[0])
tvm.build(s, [A, B], "llvm", name=sys.argv[1])
print(sys.argv[1:])
"""


def test_a_script_is_explained_as_it_runs(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = tilewright("run", "--explain", str(script), "plus", "--explain")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['plus', '--explain']\n"
    assert "══ lowering plus\n\n── unroll_loops" in done.stderr
    assert "══ finishing plus for llvm" in done.stderr
    assert "lowering" not in tilewright("run", str(script), "plus").stderr


@pytest.mark.opencl
def test_a_ladder_is_explained() -> None:
    done = tilewright(
        "ladder", "conv1d", "--M", "64", "--N", "3", "-v", "naive", "--repeat", "1", "-t", "opencl", "--explain"
    )
    assert done.returncode == 0, done.stderr
    assert "══ finishing main for opencl\n\n── split_host_device" in done.stderr
