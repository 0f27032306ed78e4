"""The CUDA compiler: what its log says, and how it fails."""

from __future__ import annotations

import pytest

from tilewright.codegen.abi import Resources
from tilewright.codegen.nvrtc import architectures, compile_cuda, parse_log
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
    with pytest.raises(UserError, match=r"NVRTC .* compiles for sm_.*, not sm_50"):
        compile_cuda(SPILLS, "sm_50")


def test_source_that_does_not_compile_shows_the_message_and_the_line() -> None:
    with pytest.raises(InternalError, match=r"(?s)identifier \"nothing\" is undefined.* 1 extern"):
        compile_cuda('extern "C" __global__ void k() { nothing(); }', "sm_90")
