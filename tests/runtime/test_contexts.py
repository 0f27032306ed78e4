"""The GPU that a thread uses stays as it was, whatever is done on another one: by a driver of two GPUs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

SOURCE = Path(__file__).with_name("fake_driver.cpp")


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """The folder of a `libcuda.so.1` that computes nothing."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no C++ compiler (g++)")
    made = tmp_path / "libcuda.so.1"
    command = [compiler, "-std=c++17", "-fPIC", "-shared", str(SOURCE), "-o", str(made), "-ldl"]
    subprocess.run(command, check=True)
    return made.parent


def test_the_current_gpu_stays(driver: Path) -> None:
    pytest.importorskip("cuda.bindings", reason="the extra cuda is not installed")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), "TILEWRIGHT_CACHE": str(driver / "kernels")}
    command = [sys.executable, "-m", "tests.runtime.on_fake_driver"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_driver_older_than_the_compiler_is_named(driver: Path) -> None:
    """Its GPUs would refuse the machine code of a newer compiler."""
    bindings = pytest.importorskip("cuda.bindings", reason="the extra cuda is not installed")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), "FAKE_CUDA_VERSION": "11080"}
    program = "import tilewright as tw; print(tw.cuda().exist, tw.cuda().driver.why_not())"
    done = subprocess.run([sys.executable, "-c", program], env=environment, cwd=ROOT, capture_output=True, text=True)
    own = bindings.__version__.partition(".")[0]
    assert f"False the NVIDIA driver is of CUDA 11.8, and cuda-bindings of CUDA {own}: pip" in done.stdout, done.stderr
