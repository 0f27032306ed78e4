"""Programs of the shape of the legacy tutorial on operators: whole-tensor arithmetic, one schedule per kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tilewright
from tilewright import te, topi

SCRIPT = """
import numpy as np
import tvm
from tvm import te, topi

a, b = te.placeholder((30, 10, 10), name="a"), te.placeholder((10, 10), name="b")
g = topi.sum(topi.elemwise_sum([a + b, a * b]) / 2.0)
with tvm.target.Target("cuda"):
    schedule = topi.cuda.schedule_reduce(g)
    print("threadIdx.x" in str(tvm.lower(schedule, [a, b, g], simple_mode=True)))
    soft = topi.nn.softmax(te.placeholder((64, 512), name="t"))
    rows = topi.cuda.schedule_softmax(soft)
    data, kernel = te.placeholder((1, 3, 32, 32)), te.placeholder((10, 3, 5, 5))
    out = topi.nn.relu(topi.cuda.conv2d_nchw(data, kernel, 1, 2, 1))
    conv = topi.cuda.schedule_conv2d_nchw([out])
    tvm.build(conv, [data, kernel, out], "cuda")
with tvm.target.Target("llvm"):
    f = tvm.build(topi.generic.schedule_reduce(g), [a, b, g], "llvm")
x, y = np.random.rand(30, 10, 10).astype("float32"), np.random.rand(10, 10).astype("float32")
result = tvm.nd.array(np.zeros((), "float32"))
f(tvm.nd.array(x), tvm.nd.array(y), result)
tvm.testing.assert_allclose(result.numpy(), np.sum((x + y + x * y) / 2), rtol=1e-4)
print("checked")
"""


def test_an_introduction_to_operators(tmp_path: Path) -> None:
    script = tmp_path / "intro.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "run", str(script)], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "checked"]


@pytest.mark.parametrize("target", ["generic", "cuda", "x86"])
def test_every_target_has_the_same_schedules(target: str) -> None:
    names = {name for name in dir(topi.generic) if name.startswith("schedule_")}
    assert names == {name for name in dir(getattr(topi, target)) if name.startswith("schedule_")}


def test_what_is_inline_and_what_is_told() -> None:
    A = te.placeholder((4, 4), name="A")
    out = topi.nn.relu(topi.sum(topi.exp(A) + 1, 1))
    s, told = te.create_schedule(out.op), []
    topi.utils.traverse_inline(s, out.op, lambda op: told.append(op.name))
    assert told == ["compute", "T_add_red", "T_add", "T_exp", "A"]
    assert "T_exp" not in str(tilewright.lower(s, [A, out]))
