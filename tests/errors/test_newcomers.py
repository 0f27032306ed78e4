"""What newcomers meet first: names of NumPy and of other frameworks, two sums at once, no GPU, closed streams."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.warm import tilewright
from tilewright import autotvm, te

ROOT = Path(__file__).parents[2]


def run(script: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A script in a process of its own."""
    command = [sys.executable, "-c", script]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("mean", "te.sum(A[i, k], axis=k)"),
        ("std", "the sums of A[i, k] and of its square"),
        ("norm", "te.sqrt(B[i])"),
        ("argmax", "te.comm_reducer of (index, value) pairs"),
        ("cumsum", "te.scan"),
        ("relu", "topi.nn.relu(A)"),
        ("leaky_relu", "topi.nn.leaky_relu(A, slope)"),
        ("gelu", "te.erf"),
        ("silu", "te.sigmoid(x)"),
        ("softmax", "topi.nn.softmax(A)"),
        ("matmul", "te.sum(A[i, k] * B[k, j], axis=k)"),
        ("conv2d", "topi.nn"),
        ("maximum", "te.max(a, b)"),
        ("minimum", "te.min(a, b)"),
        ("where", "te.if_then_else(condition, a, b)"),
        ("square", "x * x"),
        ("reciprocal", "1 / x"),
        ("zeros", "te.compute(shape, lambda *i: value)"),
        ("transpose", "A[j, i]"),
        ("reshape", "A[i // m, i % m]"),
        ("concatenate", "te.if_then_else(i < n, A[i], B[i - n])"),
        ("gather", "A[index[i]]"),
    ],
)
def test_names_of_numpy_and_of_frameworks(name: str, instead: str) -> None:
    elsewhere = name == "softmax"  # topi.nn has it
    with refused("", f"te has no {name!r}" if elsewhere else f"te.{name} is not part of Tilewright", fix=instead):
        getattr(te, name)


def test_a_tuple_of_two_sums() -> None:
    A = te.placeholder((8, 8), name="A")
    k, j = te.reduce_axis((0, 8), name="k"), te.reduce_axis((0, 8), name="j")
    for other in (k, j):
        with refused(
            "compute", "the 2 outputs of 'B' are reductions of their own", fix="pair((first, second), axis=k)"
        ):
            te.compute((8,), lambda i, o=other: (te.sum(A[i, k], axis=k), te.sum(A[i, o] * 2, axis=o)), name="B")


def test_what_the_hint_for_two_sums_says_works() -> None:
    A, k = te.placeholder((8, 8), name="A"), te.reduce_axis((0, 8), name="k")
    pair = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda a, b: (te.const(0, a), te.const(0, b)), name="pair"
    )
    first, second = te.compute((8,), lambda i: pair((A[i, k], A[i, k] * 2), axis=k), name="B")
    assert "pair" not in str(tw.lower(te.create_schedule(first.op), [A, first, second]))


def test_a_packaged_template_without_a_log_warns_of_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with tw.target.Target("llvm"):
        autotvm.templates.conv1d(shape=64, kernel=3)
    assert not caplog.records


@pytest.mark.opencl
def test_the_compiler_of_opencl_says_nothing_to_the_user(tmp_path: Path) -> None:
    script = """
import numpy as np
import tilewright as tw
from tilewright import te
A = te.placeholder((8,), name="A")
B = te.compute((8,), lambda i: te.if_then_else(A[i] > 0, A[i], A[i] / 3) + te.floor(A[i]), name="B")
s = te.create_schedule(B.op)
s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
on = tw.opencl()
tw.build(s, [A, B], "opencl")(tw.nd.array(np.ones(8, "float32"), on), tw.nd.empty((8,), "float32", on))
"""
    done = run(script, env={**os.environ, "POCL_CACHE_DIR": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


BARE = """
import importlib.util, sys
EXTRAS = "distributed dask pyopencl matplotlib cuda torch scipy".split()
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name.partition(".")[0] in EXTRAS else find(name, *rest)
"""


def test_readmes_first_program_runs_without_any_extra() -> None:
    program = (ROOT / "README.md").read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    assert "tw.conv2d" in program
    done = run(f"{BARE}\n{program}\nprint(y.shape)")
    assert (done.returncode, done.stdout) == (0, "(1, 32, 28, 28)\n"), done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-"])
def test_closed_streams(closed: str) -> None:
    command = f"{sys.executable} -m tilewright --version {closed}"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_progress_without_a_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    bar = autotvm.callback.progress_bar(3)
    bar(None, [], [])
    bar.close()
    assert bar.count == 0


def test_sizes_that_no_device_holds() -> None:
    done = tilewright("tune", "conv2d", "--shape", "1x1x999999999x999999999", "--target", "llvm", cwd=ROOT)
    assert done.returncode == 2
    assert "--shape 1x1x999999999x999999999 makes more than 1,099,511,627,776 elements" in done.stderr


def test_hints_name_what_this_machine_has() -> None:
    if tw.cuda().exist:
        pytest.skip("there is a CUDA device")
    with refused("", "", fix='run elsewhere: target "llvm" with tw.cpu()'):
        tw.cuda().require()
    with pytest.raises(tw.error.UserError) as caught:
        tw.cuda().require()
    assert ("opencl" in caught.value.fix) == tw.opencl().exist
