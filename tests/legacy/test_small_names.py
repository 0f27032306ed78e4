"""Small names that scripts of the legacy API use: of buffers, programs, modules, folders, and softmax."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te, tir, topi
from tilewright.contrib import utils


def test_a_buffer_says_its_scope_by_call() -> None:
    assert tir.decl_buffer((4,), scope="shared").scope() == "shared"
    assert tir.decl_buffer((4,)).scope() == "global"


def test_the_driver_is_an_attribute_of_the_package() -> None:
    script = "import tilewright; print(tilewright.driver.build is tilewright.build)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_variables_of_a_program_have_names() -> None:
    x = te.var("x")
    module = tw.IRModule({"main": tir.PrimFunc([x], tir.Evaluate(x))})
    (found,) = module.get_global_vars()
    assert (found, found.name_hint) == ("main", "main")
    assert module[found] is not None


def test_a_module_says_what_it_implements() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    module = tw.build(te.create_schedule(b.op), [a, b], "llvm", name="add1")
    assert module.implements_function("add1")
    assert not module.implements_function("other")
    assert not module.implements_function(3)  # type: ignore[arg-type]


def test_paths_of_sources_and_of_commands() -> None:
    assert utils.is_source_path("a.cc")
    assert not utils.is_source_path("a.o")
    assert utils.which("sh")
    assert utils.which("no such command") is None
    with refused("is_source_path", "3 is not a path", fix="lib.cc"):
        utils.is_source_path(3)  # type: ignore[arg-type]
    with refused("which", "3 is not a name", fix="cc"):
        utils.which(3)  # type: ignore[arg-type]
    with utils.tempdir() as folder:
        assert os.path.isdir(folder.relpath(""))


@pytest.mark.parametrize("fast", [False, True])
def test_softmax_of_old_scripts(fast: bool) -> None:
    x = te.placeholder((2, 3), name="X")
    made = topi.nn.softmax_common(x, 1, fast)
    assert tuple(map(int, made.shape)) == (2, 3)
    assert np.dtype(str(made.dtype)) == np.float32


def test_the_words_of_hybrid_scripts_are_listed() -> None:
    from tilewright.te.hybrid.runtime import HYBRID_GLOBALS  # type: ignore[import-not-found]

    assert {"output_tensor", "allocate", "const_range", "bind", "sigmoid", "float32"} <= HYBRID_GLOBALS.keys()


def test_fields_of_accesses_and_choices_that_old_passes_read() -> None:
    i, x = te.var("i"), te.var("x", "uint32")
    held = tir.decl_buffer((4, 5), "float32", elem_offset=100)
    assert tw.ir.structural_equal(tir.BufferLoad(held, [2, i]).index, i + 110)
    assert int(tir.BufferStore(held, 0.0, [0, 3]).index) == 103
    choice = tir.if_then_else(i < 1, x, te.var("y"))
    assert [part.dtype for part in choice.args] == ["bool", "uint32", "uint32"]
    body = tir.Evaluate(tir.BufferLoad(held, [0, i]))
    loop = tir.For(loop_var=i, min_val=0, extent=5, kind=0, body=body)
    assert tir.PrimFunc({}, loop).body.min.value == 0


def test_registered_functions_by_their_old_names() -> None:
    from tilewright._ffi import get_global_func
    from tilewright._ffi.base import TVMError

    tw._ffi.register_func("test.small_names.one", lambda: 1, override=True)
    found = tw.ir.EnvFunc.get("test.small_names.one")
    assert found is get_global_func("test.small_names.one")
    assert isinstance(found, tw.ir.EnvFunc)
    assert found() == 1
    with pytest.raises(TVMError, match="no function is registered"):
        tw.ir.EnvFunc.get("test.small_names.none")
    with refused("EnvFunc", "is not made of", fix="EnvFunc.get"):
        tw.ir.EnvFunc("test.small_names.one")


def test_targets_by_the_names_of_their_devices() -> None:
    assert tw.target.mali().keys == ("mali", "opencl", "gpu")
    assert tw.target.intel_graphics("gen9").keys == ("intel_graphics", "opencl", "gpu")
    assert tw.target.arm_cpu("rasp3b", "-mattr=+neon").keys == ("arm_cpu", "cpu")
    assert str(tw.target.arm_cpu("rasp3b", ["-mattr=+neon"])).endswith("-model=rasp3b -mattr=+neon")
    with refused("mali", "options=[3]", fix="give texts"):
        tw.target.mali(options=[3])


def test_numbers_of_intrinsics() -> None:
    from tilewright.target import codegen  # type: ignore[attr-defined]

    number = codegen.llvm_lookup_intrinsic_id("llvm.fma")
    assert number > 0
    assert number == codegen.llvm_lookup_intrinsic_id("llvm.fma")
    assert codegen.llvm_get_intrinsic_name(number) == "llvm.fma"
    assert codegen.llvm_lookup_intrinsic_id("fma") == 0
    with refused("llvm_get_intrinsic_name", "0 is the number of no intrinsic", fix="llvm_lookup_intrinsic_id"):
        codegen.llvm_get_intrinsic_name(0)


def test_comparisons_by_the_names_of_their_operators() -> None:
    x, y = te.var("x"), te.var("y")
    assert isinstance(x == y, tir.EqualOp)
    assert (x == y).asobject() is x.equal(y)
    assert isinstance(x != y, tir.NotEqualOp)
    assert tw.testing.skip_if_wheel_test(len) is len
    assert tw.testing.skip_if_32bit(reason="too large")(len) is len


def test_unknown_sizes_differ() -> None:
    a, b = tir.Any(), tir.Any()
    assert isinstance(a, tir.Any)
    assert not isinstance(te.size_var("n"), tir.Any)
    assert tw.arith.Analyzer().simplify(a - a).value == 0
    assert not tw.ir.structural_equal(a, b)


def test_vectors_of_truth_values_by_the_name_of_a_bit() -> None:
    assert te.var("c", "uint1x2").dtype == "boolx2"
    with refused("", "unknown data type 'uintx2'", fix="uint8..uint64"):
        te.var("c", "uintx2")


def test_numbers_of_lanes_may_be_constants() -> None:
    x = te.var("x")
    assert tir.Ramp(x, 1, tir.IntImm("int64", 11)).lanes == 11
    assert tir.Broadcast(x, tir.IntImm("int64", 11)).lanes == 11


def test_a_split_keeps_the_guard_that_it_needs() -> None:
    a = te.placeholder((43,), name="a")
    b = te.compute((43,), lambda i: a[i] + 2, name="b")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], factor=4, disable_predication=True)
    assert "< 43" in str(tw.lower(s, [a, b]))
