"""The code of the two documents on GPU convolutions runs as it stands, and gives the right numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.paths import python_path
from tests.warm import tilewright

SCRIPTS = Path(__file__).parent / "scripts"
DEVICES = [pytest.param(kind, marks=getattr(pytest.mark, kind)) for kind in ("opencl", "cuda")]

# What the document leaves to the reader: is the answer right? Checked on a few images of the batch.
CHECK = """
padded = np.pad(a_np[..., :4].astype("float64"), ((pad, pad), (pad, pad), (0, 0), (0, 0)))
answer = sum(
    np.matmul(w_np[i, j].T, padded[i : i + out_size, j : j + out_size]) for i in range(kernel) for j in range(kernel)
)
tvm.testing.assert_allclose(b.numpy()[..., :4], answer, rtol=1e-4, atol=1e-3)
print("right")
"""
# The document's sizes take a large GPU; on a CPU they shrink, and nothing else changes.
SMALLER = {
    "batch = 256": "batch = 64",
    "in_channel = 256": "in_channel = 16",
    "out_channel = 512": "out_channel = 64",
    "in_size = 14": "in_size = 6",
    '"cuda")': '"opencl")',
    "tvm.cuda(0)": "tvm.opencl(0)",
}


def run(script: Path, *arguments: str) -> str:
    """What a script prints under `tilewright run`."""
    done = tilewright("run", script, *arguments, warns=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("target", DEVICES)
def test_the_convolution_document(target: str, tmp_path: Path) -> None:
    code = (SCRIPTS / "opt_conv_cuda.py").read_text()
    for large, small in SMALLER.items() if target == "opencl" else ():
        assert code.count(large) == 1
        code = code.replace(large, small)
    script = tmp_path / "opt_conv_cuda.py"
    script.write_text(code + CHECK)
    out = run(script)
    assert out.startswith("Convolution: ")
    assert out.endswith("right\n")


@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize("case", ["3 1", "5 1", "3 2", "5 2", "3 1 fused", "3 2 fused"])
def test_the_depthwise_document(target: str, case: str) -> None:
    channels = "3" if target == "opencl" else "256"
    assert run(SCRIPTS / "depthwise_blog.py", target, channels, *case.split()) == "right\n"


# A layer, a number of trials and a device that a CPU manages in seconds; nothing else changes.
QUICKER = {
    "strides, padding = 1, 7, 7, 512, 512, 3, 3": "strides, padding = 1, 7, 7, 8, 2, 3, 3",
    '"cuda"': '"opencl"',
    "tvm.gpu()": "tvm.opencl()",
    "n_trial=20": "n_trial=4",
    "autotvm.LocalBuilder()": "autotvm.LocalBuilder(timeout=600)",
    "min_repeat_ms=100, timeout=4": "min_repeat_ms=1, timeout=600",
    "number=400": "number=4",
}


@pytest.mark.parametrize("target", DEVICES)
def test_the_tuning_document(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (SCRIPTS / "tune_conv2d_cuda.py").read_text()
    for large, small in QUICKER.items() if target == "opencl" else ():
        assert large in code
        code = code.replace(large, small)
    script = tmp_path / "tune_conv2d_cuda.py"
    script.write_text(code)
    monkeypatch.chdir(tmp_path)  # it logs into the folder that it runs in
    monkeypatch.setenv("PYTHONPATH", python_path())
    out = run(script)
    assert "ConfigSpace (len=10454400" in out or target == "opencl"
    assert "\nBest config:\n[('tile_f', [-1, " in out
    assert out.rstrip().splitlines()[-1].startswith("Time cost of this operator: 0.")
    assert len((tmp_path / "conv2d.log").read_text().splitlines()) >= 4
