"""The CUDA compiler: what its log says, and how it fails."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tilewright.codegen.abi import Resources
from tilewright.codegen.nvrtc import _read, architectures, compile_cuda, library_for, parse_log
from tilewright.core.errors import InternalError, UserError

LOG = """
ptxas info    : 272 bytes gmem
ptxas info    : Compiling entry function 'second' for 'sm_90'
ptxas info    : Function properties for second
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers
ptxas info    : Compile time = 8.803 ms
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
ptxas         .     304 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 304 bytes cumulative stack size, 1024 bytes smem, 64 bytes cmem[2]
ptxas info    : Compile time = 31.862 ms
ptxas info    : Function properties for __internal_trig_reduction_slowpathd
ptxas         .     40 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads
"""


def test_the_log_gives_each_kernel_its_resources() -> None:
    assert parse_log(LOG) == {
        "second": Resources(12, 0, 0, 0, 0, 0),
        "first": Resources(32, 16, 20, 304, 1024, 64),
    }


SPILLS = """
extern "C" __global__ void __launch_bounds__(1024) spills(float* __restrict__ B, const float* __restrict__ A) {
  float v[128];
  #pragma unroll
  for (int i = 0; i < 128; ++i) v[i] = A[i * 1024 + threadIdx.x];
  for (int t = 0; t < (int)A[0]; ++t) {
    #pragma unroll
    for (int i = 0; i < 128; ++i) v[i] = v[i] * A[t] + v[(i + 1) % 128];
  }
  #pragma unroll
  for (int i = 0; i < 128; ++i) B[i * 1024 + threadIdx.x] = v[i];
}
"""


def test_spills_are_seen_without_a_gpu() -> None:
    found = compile_cuda(SPILLS, "sm_90").resources["spills"]
    assert found.registers == 64
    assert found.spill_store_bytes > 0
    assert found.spill_load_bytes > 0


def test_the_same_source_compiles_once() -> None:
    assert compile_cuda(SPILLS, "sm_90") is compile_cuda(SPILLS, "sm_90")
    assert compile_cuda(SPILLS, "sm_90") is not compile_cuda(SPILLS, "sm_80")


def test_an_architecture_that_the_compiler_has_not() -> None:
    assert "sm_90" in architectures()
    with pytest.raises(UserError, match=r"NVRTC .* compiles for sm_.*, not sm_37[^$]*cuda12"):
        compile_cuda(SPILLS, "sm_37")


def test_source_that_does_not_compile_shows_the_message_and_the_line() -> None:
    with pytest.raises(InternalError, match=r"(?s)identifier \"nothing\" is undefined.* 1 extern"):
        compile_cuda('extern "C" __global__ void k() { nothing(); }', "sm_90")


def test_an_empty_log_spares_the_bytes_that_python_shares() -> None:
    """It is one byte long, and Python has one object for every single byte."""

    def fill(program: object, data: bytes) -> tuple[int]:
        ctypes.memmove(data, b"\0", 1)
        return (0,)

    assert _read(None, lambda program: (0, 1), fill) == b"\0"
    assert bytes([32]) == b"\x20" * 1 != b"\0"


@pytest.mark.cuda
def test_the_log_is_there_every_time() -> None:
    """Where a driver is, NVRTC keeps what it compiles from process to process, but not the log."""
    program = f"from tilewright.codegen.nvrtc import compile_cuda\nprint(compile_cuda({SPILLS!r}, 'sm_90').resources)"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert "registers=64" in done.stdout, done.stderr


def test_a_driver_of_cuda_12_takes_its_own_compiler(tmp_path: Path) -> None:
    """If both compilers are installed; without a driver, or with a newer one, the newest compiler is in use."""
    place = ("bin", "nvrtc64_120_0.dll") if sys.platform == "win32" else ("lib", "libnvrtc.so.12")
    library = tmp_path.joinpath("nvidia", "cuda_nvrtc", *place)
    folders = ["", str(tmp_path / "other"), str(tmp_path)]
    assert library_for(12_080, folders) is None
    library.parent.mkdir(parents=True)
    library.touch()
    assert [library_for(driver, folders) for driver in (0, 12_080, 13_000)] == [None, library, None]


@pytest.mark.parametrize("pinned", ["12.1.105", "12.4.127", "12.6.77", "12.8.93", "12.9.86"])
def test_the_compilers_of_pytorchs_wheels_for_cuda_12_suit_the_extra(pinned: str) -> None:
    requirements = pytest.importorskip("packaging.requirements")
    with (Path(__file__).parents[2] / "pyproject.toml").open("rb") as file:
        extra = [*map(requirements.Requirement, tomllib.load(file)["project"]["optional-dependencies"]["cuda12"])]
    (compiler,) = [each for each in extra if each.name == "nvidia-cuda-nvrtc-cu12"]
    assert compiler.specifier.contains(pinned)
