"""Both documents' code runs unchanged, as a script for which `import tvm` means Tilewright."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.warm import tilewright
from tilewright.codegen.c_compiler import c_compiler

SCRIPTS = Path(__file__).parent / "scripts"
DEVICES = [pytest.param(kind, marks=getattr(pytest.mark, kind)) for kind in ("opencl", "cuda")]


def run(script: str, *arguments: str) -> str:
    """What a script prints under `tilewright run`."""
    done = tilewright("run", SCRIPTS / script, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.optimised  # its kernels run longer than PoCL optimises
@pytest.mark.parametrize("target", DEVICES)
def test_the_conv1d_document(target: str) -> None:
    out = run("conv1d_document.py", target)
    assert out.count(": right, ") == 6
    # A line of v4, as the document shows it.
    assert "W_shared_1[ax0] = W[r_outer * 4 + ax0]" in out
    assert out.count("@T.prim_func") == 6


@pytest.mark.parametrize("target", DEVICES)
def test_the_depthwise_document(target: str) -> None:
    out = run("depthwise_document.py", target)
    assert out.count(": right, ") == 5
    # A line of v3, as the document shows it.
    assert 'threadIdx_y = T.launch_thread("threadIdx.y", 16)\n        for w_outer in range(2):' in out


@pytest.mark.parametrize("target", DEVICES)
def test_the_oldest_spelling(target: str) -> None:
    assert run("old_spellings.py", target) == "right\n"


@pytest.mark.parametrize("target", DEVICES)
def test_a_program_of_the_shape_of_the_tensor_core_tutorial(target: str) -> None:
    out = run("opt_conv_tensorcore.py", target)
    assert '"wmma' not in out, "fragments are the compiler's"
    assert "\n2\nconv2d with tensor core: " in out  # the definition of the instruction, and its call


@pytest.mark.parametrize("target", ["llvm", *DEVICES])
def test_a_program_of_the_shape_of_the_tutorial_on_intrinsics(target: str) -> None:
    assert run("intrin_math.py", target) == "right\n"


def test_that_program_compiles_for_cuda() -> None:
    assert run("intrin_math.py", "cuda") == "right\n"


def test_a_program_of_the_shape_of_the_tutorial_on_external_functions() -> None:
    assert run("extern_op.py") == "my_tvm_addone signatures: NDArray, NDArray\nright\n"


@pytest.mark.skipif(c_compiler() is None, reason="no C compiler (cc, gcc, clang) is on the PATH")
@pytest.mark.parametrize("pragma", ["import_c", "import_llvm"])
def test_a_program_of_the_shape_of_the_tutorial_on_tensorize(pragma: str) -> None:
    out = run("tensorize.py", pragma)
    assert 'T.call_extern("int32", "gemv_update", T.tvm_access_ptr(' in out
    assert out.endswith("\nright\n")


def test_templates_of_2018() -> None:
    out = run("old_autotvm.py", "llvm")
    assert out.endswith("\n2 best\n")
    assert "[Task 2/2] " in out


@pytest.mark.parametrize("target", ["llvm", *DEVICES])
def test_hybrid_script(target: str) -> None:
    assert run("hybrid_script.py", target).endswith("\nright\n")
