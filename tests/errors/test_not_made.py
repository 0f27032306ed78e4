"""Classes that are public to be asked for by `isinstance`: called with rubbish, they say what makes them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.hostile.world import World, tuner
from tilewright import te, tir
from tilewright.runtime.module import Module


@pytest.mark.parametrize(
    ("cls", "args", "fix"),
    [
        (te.ComputeOp, ("B", (), 3), "te.compute"),
        (te.PlaceholderOp, ("A", 3, ()), "te.placeholder"),
        (te.ScanOp, ("S", None, (), (), ()), "te.scan"),
        (te.ExternOp, ("E", (), (), (), None, (), ()), "te.extern"),
        (te.Tensor, ("A", 0), "te.placeholder"),
        (te.TensorSlice, ("A", ()), "A[i]"),
        (te.IterVar, ("i", 4, 0), "te.reduce_axis"),
        (te.Schedule, (5,), "te.create_schedule"),
        (te.Stage, (5, 0), "s[B]"),
        (te.Stage, (te.create_schedule(te.placeholder((4,)).op), 10**40), "s[B]"),
        (tir.Buffer, ("A", "float32", 4), "tir.decl_buffer"),
        (tw.nd.Device, ("gpu3", 0), "tw.cpu()"),
        (tw.nd.NDArray, ("cpu", "float32", (4,), None), "nd.array"),
        (Module, ("program",), "tw.build"),
        (tir.CommReducer, ("sum", 1, 2, 3, 4), "te.comm_reducer"),
        (tw.transform.Pass, ("a name", None), "transform.module_pass"),
        (tw.arith.IntConstraints, (1, 2, 3), "a dict of their ranges"),
        (tw.arith.IntConstraintsTransform, (1, 2, 3, 4), "arith.solve_linear_equations"),
    ],
)
def test_what_makes_it(cls: Any, args: tuple[Any, ...], fix: str) -> None:
    name = {"PlaceholderOp": "Operation", "ScheduleHandle": "Schedule", "StageHandle": "Stage", "NamedPass": "Pass"}
    with refused(name.get(cls.__name__, cls.__name__), "is not made of these arguments", fix=fix):
        cls(*args)


WORDS = np.array([1, 2])
SUMS = te.placeholder((4,), name="A")


def annotated(key: Any) -> None:
    B = te.compute((4,), lambda i: SUMS[i], name="B")
    te.create_schedule(B.op)[B].pragma(B.op.axis[0], key)


LINES = te.placeholder((1, 4, 9)), te.placeholder((4, 4, 3))


@pytest.mark.parametrize(
    ("primitive", "call", "message", "fix"),
    [
        ("verify_gpu_code", lambda: tir.analysis.verify_gpu_code(SUMS, [1]), "constraints are [1]", "give a dict"),
        ("VerifyGPUCode", lambda: tir.transform.VerifyGPUCode(len), "constraints are <built-in", "give a dict"),
        ("Sequential", lambda: tw.transform.Sequential(3), "3 is not a list of passes", "a list of passes"),
        ("transform", lambda: tir.transform.prim_func_pass(len, required=len), "required=<built-in", "tir.Simplify"),
        ("ir_transform", lambda: tir.stmt_functor.ir_transform(SUMS[0], "f", None), "not a function", "or None"),
        ("ir_transform", lambda: tir.stmt_functor.ir_transform(SUMS[0], None, None, 3), "only_enable is 3", "tir.For"),
        ("scope_attr", lambda: tir.ir_builder.create().scope_attr(1, WORDS, 2), "the attribute array", "thread_extent"),
        ("cuda", lambda: tw.target.cuda(arch=WORDS), "argument 'arch' is array", "sm_90"),
        ("LocalBuilder", lambda: tw.autotvm.LocalBuilder(build_func=WORDS), "build_func=array", "a function"),
        ("explain", lambda: te.create_schedule(SUMS.op).explain("llvm", args=3), "args are 3", "a list of tensors"),
        ("conv1d", lambda: tw.topi.nn.conv1d(*LINES, 1, 1, 1, "NCW", kernel_layout=WORDS), "'kernel_layout' is array",
         "OIW"),
        ("pragma", lambda: annotated(WORDS), "unknown pragma array", "unroll"),
        ("decl_buffer", lambda: tir.decl_buffer((4,), strides=3), "strides=3 of buffer", "one per dimension"),
        ("var", lambda: te.var("n", multiple_of=None), "multiple_of=None of 'n' is not a whole number", "give an int"),
        ("as_strided", lambda: tw.nd.empty((4,)).as_strided(np.array(2), (1,)), "array(2) is not a tuple", "(16, 32)"),
        ("undefined_vars", lambda: tir.analysis.undefined_vars(SUMS[0], te), "defs are <module",
         "a list of variables"),
        ("cblas", lambda: tw.contrib.cblas.matmul(SUMS, SUMS, WORDS), "transposing is array", "True or False"),
        ("find_clang", lambda: tw.contrib.clang.find_clang(WORDS), "required=array", "True or False"),
        ("apply_history_best", lambda: tw.autotvm.apply_history_best(np.array(1)), "array(1) is not a log", "log file"),
        ("mma", lambda: tw.intrin.mma(WORDS, WORDS), "no matrix instruction for operands array", "use one of"),
        ("record", lambda: tw.autotvm.callback.log_to_file("a.log", WORDS), "protocol array", "json"),
        ("schedule_injective_from_existing", lambda: tw.topi.generic.schedule_injective_from_existing(3, SUMS),
         "given 3 and Tensor", "a schedule and the tensor"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(primitive: str, call: Callable[[], Any], message: str, fix: str) -> None:
    with refused(primitive, message, fix=fix):
        call()


@pytest.mark.parametrize(
    ("primitive", "call", "message"),
    [
        ("next_batch", lambda own: own.next_batch(" "), "a batch of ' '"),
        ("update", lambda own: own.update(True, 1.0), "not lists of inputs and their results"),
    ],
)
def test_tuners_that_scripts_drive(primitive: str, call: Callable[[Any], Any], message: str) -> None:
    task = tuner(World(random.Random(0))).task
    with refused(primitive, message):
        call(tw.autotvm.tuner.RandomTuner(task))


def test_what_a_visitor_raises_stays_its_own() -> None:
    for visit in (tir.stmt_functor.post_order_visit, tir.stmt_functor.pre_order_visit):
        with pytest.raises(ZeroDivisionError) as caught:
            visit(SUMS[0] + 1, lambda node: 1 // 0)
        assert "raised by the function given to" in caught.value.__notes__[0]
