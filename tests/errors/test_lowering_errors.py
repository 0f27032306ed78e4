"""Wrong uses that show when a schedule is lowered or built: one test a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.errors.refused import refused
from tilewright import te, tir
from tilewright.target import Target
from tilewright.transform import PassContext


class Example:
    """B = A + 1 and a stencil C of it, on blocks of 16 threads."""

    def __init__(self, n: int = 64) -> None:
        self.A = te.placeholder((n,), name="A")
        self.B = te.compute((n,), lambda b: self.A[b] + 1.0, "B")
        self.C = te.compute((n - 2,), lambda c: self.B[c] * self.B[c + 2], "C")
        self.s = te.create_schedule(self.C.op)
        self.outer, self.inner = self.s[self.C].split(self.C.op.axis[0], factor=16)
        self.s[self.C].bind(self.outer, te.thread_axis("blockIdx.x"))

    def lower(self) -> Any:
        return tilewright.lower(self.s, [self.A, self.C])


@pytest.fixture
def e() -> Example:
    return Example()


# Arguments.


def test_a_missing_output(e: Example) -> None:
    with refused("lower", "tensor 'C' is an output, but is not among the arguments (A)", fix="add 'C'"):
        tilewright.build(e.s, [e.A], "llvm")
    assert "C = T.allocate(" in tilewright.lower(e.s, [e.A]).script()
    with refused("lower", "tensor 'C' is an output, but is not among the arguments (A)", fix="add 'C'"):
        tilewright.build(tilewright.lower(e.s, [e.A]), target="llvm")


def test_a_missing_input(e: Example) -> None:
    with refused("lower", "tensor 'A' is read, but is not among the arguments (C)", fix="add 'A'"):
        tilewright.lower(e.s, [e.C])


def test_an_argument_twice(e: Example) -> None:
    with refused("lower", "tensor 'A' is given twice", fix="name each argument once"):
        tilewright.lower(e.s, [e.A, e.C, e.A])


def test_a_size_twice(e: Example) -> None:
    n = te.var("n")
    with refused("lower", "argument 'n' is given twice", fix="once"):
        tilewright.lower(e.s, [e.A, e.C, n, n])


def test_an_argument_of_another_schedule(e: Example) -> None:
    other = te.compute((4,), lambda i: i, name="other")
    with refused("lower", "argument 1, tensor 'other', is not part of the schedule", fix="created from"):
        tilewright.lower(e.s, [e.A, other, e.C])


def test_an_argument_that_is_no_tensor(e: Example) -> None:
    with refused("lower", "argument 1 is 'C', which is not a tensor", fix="lower(s, [A, W, B])"):
        tilewright.lower(e.s, [e.A, "C"])
    with refused("lower", "argument 1 is a NumPy array of shape (100, 100) and type float32, which is not a tensor"):
        tilewright.lower(e.s, [e.A, np.zeros((100, 100), "float32")])
    with refused("lower", f"argument 1 is '{'C' * 116}..., which is not a tensor"):
        tilewright.lower(e.s, [e.A, "C" * 1000])


def test_a_target_in_the_place_of_the_arguments() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1, name="B")
    for inputs in (te.create_schedule(B.op), [A, B]):
        with refused("lower", "the arguments are 'llvm', which is not a list", fix="target='llvm'"):
            tilewright.build(inputs, "llvm")  # type: ignore[arg-type]  # a mistake that is easy to make


def test_arguments_that_are_no_list(e: Example) -> None:
    with refused("lower", "the arguments are tensor 'A', which is not a list", fix="lower(s, [A, W, B])"):
        tilewright.lower(e.s, e.A)


def test_lowering_what_is_no_schedule(e: Example) -> None:
    with refused("lower", "cannot lower Tensor", fix="te.create_schedule"):
        tilewright.lower(e.C, [e.A, e.C])


def test_binds_to_what_is_no_buffer(e: Example) -> None:
    with refused("lower", "binds maps Tensor(shape=[64], dtype=float32, name=A) to 1", fix="tir.decl_buffer"):
        tilewright.lower(e.s, [e.A, e.C], binds={e.A: 1})


def test_building_without_arguments(e: Example) -> None:
    with refused("build", "no arguments are given", fix="build(s, [A, W, B], target)"):
        tilewright.build(e.s, target="opencl")


def test_keeping_what_a_kernel_keeps_to_itself(e: Example) -> None:
    e.s[e.B].compute_at(e.s[e.C], e.outer)
    with refused("lower", "tensor 'B' is an argument", "kept in shared memory", "'c.outer'", fix="leave 'B' out"):
        tilewright.lower(e.s, [e.A, e.B, e.C])


# Threads.


def test_a_thread_axis_of_another_extent(e: Example) -> None:
    e.s[e.C].bind(e.inner, te.thread_axis((0, 32), "threadIdx.x"))
    with refused(
        "bind",
        "axis 'c.inner' of stage 'C' has extent 16, but threadIdx.x has the extent 32",
        fix="split",
        step="s[C].bind(c.inner, threadIdx.x) at ",
    ):
        e.lower()


def test_one_thread_tag_of_two_extents_in_a_kernel(e: Example) -> None:
    e.s[e.C].bind(e.inner, te.thread_axis("threadIdx.x"))
    e.s[e.B].compute_at(e.s[e.C], e.outer)
    e.s[e.B].bind(e.B.op.axis[0], te.thread_axis("threadIdx.x"))
    with refused(
        "bind",
        "threadIdx.x has extent 18 for stage 'B' and 16 for stage 'C'",
        fix="split",
        step="s[B].bind(b, threadIdx.x)",
    ):
        e.lower()


def test_more_threads_than_a_block_can_have() -> None:
    e = Example(5000)
    e.outer, e.inner = e.s[e.C].split(e.outer, nparts=1)
    e.s[e.C].bind(e.s[e.C].fuse(e.inner, e.s[e.C].leaf_iter_vars[2]), te.thread_axis("threadIdx.x"))
    with refused(
        "build", "5,008 threads per block (threadIdx.x 5008)", "allows 1,024", fix="smaller factors", step="s[C].bind("
    ):
        tilewright.build(e.s, [e.A, e.C], "cuda")


@pytest.mark.parametrize("target", ["cuda", "opencl"])
def test_more_shared_memory_than_a_block_can_have(target: str) -> None:
    A = te.placeholder((80000,), name="A")
    B = te.compute((80000,), lambda i: A[79999 - i], "B")
    s = te.create_schedule(B.op)
    AS = s.cache_read(A, "shared", [B])
    outer, _ = s[B].split(B.op.axis[0], nparts=1)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[AS].compute_at(s[B], outer)
    with refused(
        "build",
        "320,000 bytes of shared memory",
        "A.shared 80,000 × float32",
        fix="smaller region",
        step="s[A.shared].compute_at(B, i.outer)",
    ):
        tilewright.build(s, [A, B], target)


def test_more_blocks_than_a_grid_can_have() -> None:
    A = te.placeholder((100000,), name="A")
    B = te.compute((100000,), lambda i: A[i], "B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.y"))
    with refused(
        "build",
        "blockIdx.y of extent 100,000",
        "allows 65,535",
        fix="bind a smaller axis to blockIdx.y",
        step="s[B].bind(i, blockIdx.y)",
    ):
        tilewright.build(s, [A, B], "cuda")


def test_a_stage_outside_of_every_kernel(e: Example) -> None:
    with refused(
        "build", "stage 'B' is computed outside of any kernel", fix='s[B].bind(axis, te.thread_axis("blockIdx.x"))'
    ):
        tilewright.build(e.s, [e.A, e.C], "opencl")


def test_cpu_threads_in_a_kernel(e: Example) -> None:
    e.s[e.B].compute_inline()
    e.s[e.C].parallel(e.inner)
    with refused(
        "parallel",
        "loop 'c.inner' of stage 'C' is distributed over CPU threads",
        fix="bind it to a thread axis",
        step="s[C].parallel(c.inner)",
    ):
        tilewright.build(e.s, [e.A, e.C], "opencl")


# Where stages are computed, and their memory.


def test_a_reader_outside_of_the_loop(e: Example) -> None:
    D = te.compute((60,), lambda d: e.B[d] + e.C[d], "D")
    s = te.create_schedule(D.op)
    s[e.B].compute_at(s[e.C], e.C.op.axis[0])
    with refused(
        "compute_at",
        "stage 'B' is computed inside the loop 'c'",
        "'D', which reads it, is outside",
        fix="around all",
        step="s[B].compute_at(C, c)",
    ):
        tilewright.lower(s, [e.A, D])


def test_a_region_that_depends_on_a_loop_inside(e: Example) -> None:
    e.s[e.C].bind(e.inner, te.thread_axis("threadIdx.x"))
    e.s[e.B].compute_at(e.s[e.C], e.outer)
    e.s[e.B].set_scope("local")
    with refused(
        "compute_at",
        "the part of 'B' that 'C' needs depends on 'c.inner' (threadIdx.x)",
        fix="at 'c.inner'",
        step="s[B].compute_at(C, c.outer)",
    ):
        e.lower()


def test_global_memory_inside_a_kernel(e: Example) -> None:
    e.s[e.B].compute_at(e.s[e.C], e.inner)
    e.s[e.B].set_scope("global")
    with refused(
        "compute_at",
        "stage 'B'",
        "'c.outer', bound to blockIdx.x",
        "global",
        fix='set_scope("shared")',
        step='s[B].set_scope("global")',
    ):
        e.lower()


def test_shared_memory_outside_of_the_kernel_that_reads_it(e: Example) -> None:
    e.s[e.B].set_scope("shared")
    with refused(
        "compute_at",
        "stage 'B' is kept in shared memory",
        "outside of the kernel of 'C'",
        fix="compute_at(s[C]",
        step='s[B].set_scope("shared")',
    ):
        e.lower()


def test_threads_that_do_not_share_the_memory(e: Example) -> None:
    e.s[e.C].bind(e.inner, te.thread_axis("threadIdx.x"))
    e.s[e.B].compute_at(e.s[e.C], e.inner)
    _, part = e.s[e.B].split(e.B.op.axis[0], factor=16)
    e.s[e.B].bind(part, te.thread_axis("threadIdx.x"))
    says = "axis 'b.inner' of stage 'B' is bound to threadIdx.x", "local memory: each thread sees only its own copy"
    with refused("bind", *says, fix="leave 'b.inner' unbound", step="s[B].bind(b.inner, threadIdx.x)"):
        e.lower()


# Extents that are not constant.


class Symbolic:
    """B = A + 1 over n elements."""

    def __init__(self) -> None:
        n = te.size_var("n")
        self.A = te.placeholder((n,), name="A")
        self.B = te.compute((n,), lambda i: self.A[i] + 1.0, "B")
        self.s = te.create_schedule(self.B.op)


@pytest.mark.parametrize("how", ["unroll", "vectorize"])
def test_an_extent_that_is_not_constant(how: str) -> None:
    e = Symbolic()
    getattr(e.s[e.B], how)(e.B.op.axis[0])
    with refused(
        how,
        "axis 'i' of stage 'B'",
        "has the extent `n`, which is not constant",
        fix="by a constant factor",
        step="s[B].",
    ):
        tilewright.lower(e.s, [e.A, e.B])


def test_a_statement_on_blocks_that_do_not_share_its_result(e: Example) -> None:
    B = te.extern((12,), [e.A], on_blocks, name="B", dtype="float32")
    C = te.compute((12,), lambda i: B[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], C.op.axis[0])
    says = "the statement of stage 'B' runs on blockIdx.x, but its result is in local memory"
    with refused("compute_at", says, fix="leave 'B' at the root", step="s[B].compute_at(C, i)"):
        tilewright.lower(s, [e.A, C])


def on_blocks(ins: Any, outs: Any) -> Any:
    ib = tir.ir_builder.create()
    bx = te.thread_axis("blockIdx.x")
    ib.scope_attr(bx, "thread_extent", 12)
    ib.buffer_ptr(outs[0])[bx.var] = ib.buffer_ptr(ins[0])[bx.var]
    return ib.get()


def test_a_vthread_of_an_extent_that_is_not_constant() -> None:
    e = Symbolic()
    e.s[e.B].bind(e.B.op.axis[0], te.thread_axis("vthread"))
    with refused(
        "bind",
        "axis 'i' of stage 'B', bound to a vthread, has the extent `n`",
        fix="nparts=",
        step="s[B].bind(i, vthread)",
    ):
        tilewright.lower(e.s, [e.A, e.B])


def test_a_size_that_no_argument_has() -> None:
    e = Symbolic()
    m = te.var("m")
    C = te.compute((8,), lambda i: e.A[i] * m, "C")
    with refused(
        "lower", "stage 'C' uses 'm', which is neither one of its axes nor an argument", fix="to the arguments"
    ):
        tilewright.lower(te.create_schedule(C.op), [e.A, C])


def test_a_factor_that_no_argument_has() -> None:
    e = Symbolic()
    e.s[e.B].split(e.B.op.axis[0], factor=te.var("q"))
    with refused(
        "lower", "stage 'B' uses 'q', which is neither one of its axes nor an argument", fix="to the arguments"
    ):
        tilewright.lower(e.s, [e.A, e.B])


def test_a_range_that_no_argument_has() -> None:
    e, k = Symbolic(), te.reduce_axis((0, te.var("m")), "k")
    C = te.compute((8,), lambda i: te.sum(e.A[i + k], axis=k), "C")
    with refused(
        "lower", "stage 'C' uses 'm', which is neither one of its axes nor an argument", fix="to the arguments"
    ):
        tilewright.lower(te.create_schedule(C.op), [e.A, C])


def test_an_axis_that_nothing_reduces_over() -> None:
    e, k = Symbolic(), te.reduce_axis((0, 4), "k")
    C = te.compute((8,), lambda i: e.A[i + k], "C")
    with refused(
        "lower", "stage 'C' uses 'k', which is neither one of its axes nor an argument", fix="te.sum(..., axis=k)"
    ):
        tilewright.lower(te.create_schedule(C.op), [e.A, C])


def test_an_axis_of_another_stage_in_a_value() -> None:
    e = Symbolic()
    C = te.compute((8,), lambda j: e.B[e.B.op.axis[0]] + e.A[j], "C")
    with refused("lower", "stage 'C' uses 'i', which is neither one of its axes nor"):
        tilewright.lower(te.create_schedule(C.op), [e.A, C])


# Targets.


def test_a_kernel_for_a_target_that_has_none(e: Example) -> None:
    """llvm is the target where none is given."""
    with refused(
        "build",
        "blockIdx.x",
        "'C'",
        "the llvm target has no hardware threads",
        fix="parallel",
        step="s[C].bind(c.outer, blockIdx.x)",
    ):
        tilewright.build(e.s, [e.A, e.C])


def test_an_unknown_target(e: Example) -> None:
    with refused("Target", "unknown target kind 'vulkan'", fix="cuda, opencl"):
        tilewright.build(e.s, [e.A, e.C], "vulkan")


def test_an_unknown_option_of_a_target() -> None:
    with refused("Target", "target 'cuda' has no option -march", fix="-arch"):
        tilewright.target.Target("cuda -march=sm_86")


def test_an_unknown_architecture() -> None:
    with refused("Target", "unknown CUDA architecture 'sm_12'", fix="sm_90"):
        tilewright.target.Target("cuda -arch=sm_12")


def test_an_unknown_device() -> None:
    with refused("device", "'tpu'", fix="cuda"):
        tilewright.device("tpu", 0)


# Reads beyond the ends of a tensor.

V = te.placeholder((16,), name="V")
R = te.reduce_axis((0, 3), "r")
N = te.var("n")
S = te.placeholder((N,), name="S")
WIDE = te.compute((20,), lambda x: V[x], name="WIDE")


def lowered(tensor: Any) -> Any:
    """The default schedule of a tensor, lowered with all its inputs."""
    s = te.create_schedule(tensor.op)
    inputs = [stage.op.output(0) for stage in s.stages if isinstance(stage.op, te.PlaceholderOp)]
    return tilewright.lower(s, [*inputs, tensor])


BEYOND: list[tuple[Any, str, str]] = [
    (te.compute((16,), lambda x: V[x + 100]), "in V[x + 100], index 0 runs from 100 to 115, but", "x + 100 < 16, V["),
    (te.compute((16,), lambda x: V[x - 1]), "in V[x - 1], index 0 runs from -1 to 14", "te.if_then_else(x - 1 >= 0"),
    (te.compute((16,), lambda x: V[2 * x - 8]), "index 0 runs from -8 to 22", "te.all(2 * x - 8 >= 0, 2 * x - 8 < 16)"),
    (
        te.compute((16,), lambda x: V[-1]),
        "in V[-1], index 0 is -1, but must stay within 0 to 15",
        "index from 0 to 15",
    ),
    (te.compute((17,), lambda x: V[x]), "stage 'compute' reads beyond the ends of 'V', of shape [16]", "shapes"),
    (te.compute((16,), lambda x: te.sum(V[x + R], axis=R)), "index 0 runs from 0 to 17", "x + r < 16"),
    (te.compute((32,), lambda x: V[x % 17]), "index 0 runs from 0 to 16", "x % 17 < 16"),
    (te.compute((16,), lambda x: te.if_then_else(V[x + 1] > 0.0, 1, 0)), "in V[x + 1], index 0", "x + 1 < 16"),
    (te.compute((N,), lambda x: S[x + 1]), "of shape [n]: in S[x + 1], index 0 runs from 1 to n", "x + 1 < n"),
    (te.compute((4,), lambda x: WIDE[x + 14]), "stage 'WIDE'", "x < 16"),
]


@pytest.mark.parametrize("row", BEYOND, ids=lambda row: row[1][:40])
def test_a_read_that_certainly_leaves_its_tensor(row: tuple[Any, str, str]) -> None:
    tensor, says, fix = row
    with refused("lower", says, fix=fix):
        lowered(tensor)


M = te.var("m")
I = te.placeholder((16,), "int32", "I")
INSIDE = [
    te.compute((16,), lambda x: te.if_then_else(x < 3, V[x + 5], V[x - 3])),
    te.compute((16,), lambda x: tir.Select(x < 15, V[x + 1], V[x])),
    te.compute((16,), lambda x: te.all(x < 15, V[x + 1] > 0.0)),
    te.compute((16,), lambda x: te.sum(V[x + R], axis=R, where=x + R < 16)),
    te.compute((32,), lambda x: V[te.min(x, 15)]),
    te.compute((16,), lambda x: V[x // 2 + 8]),
    te.compute((16,), lambda x: V[I[x] + 100]),
    te.compute((0,), lambda x: V[x + 100]),
    te.compute((M,), lambda x: S[x + 100]),
    te.compute((4,), lambda x: WIDE[x]),
]


@pytest.mark.parametrize("tensor", INSIDE, ids=lambda tensor: str(tensor.op.body[0])[:40])
def test_a_read_that_may_stay_inside_is_left_alone(tensor: Any) -> None:
    s = te.create_schedule(tensor.op)
    if WIDE.op in [stage.op for stage in s.stages]:
        s[WIDE].compute_inline()
    inputs = [stage.op.output(0) for stage in s.stages if isinstance(stage.op, te.PlaceholderOp)]
    tilewright.lower(s, [*inputs, tensor])


# Arguments of lower, build, Target and PassContext of the wrong kind.

Row = tuple[Callable[[Example], Any], str, str, str]
KINDS: list[Row] = [
    (lambda e: tilewright.lower(e.s, None), "lower", "the arguments are None, which is not a list", "[A, W, B]"),  # type: ignore[arg-type]
    (lambda e: tilewright.lower(e.s, {e.A, e.C}), "lower", "which is not a list", "in the order"),  # type: ignore[arg-type]
    (lambda e: tilewright.lower(e.s, "AC"), "lower", "the arguments are 'AC', which is not a list", "[A, W, B]"),
    (lambda e: tilewright.lower(e.s, [e.A, e.C], name=3), "lower", "the name of the function is 3", "conv"),  # type: ignore[arg-type]
    (lambda e: tilewright.build(e.s, [e.A, e.C], name=None), "lower", "the name of the function is None", "conv"),  # type: ignore[arg-type]
    (lambda e: tilewright.lower(e.s, [e.A, e.C], binds=3), "lower", "binds is 3", "tir.decl_buffer"),
    (lambda e: e.lower()["other"], "", "the program has no function 'other'", "it has main"),
    (lambda e: e.lower().explain(lines="x"), "explain", "lines='x' is not a number", "lines=40"),
    (lambda e: tilewright.build({3: (e.s, [e.A, e.C])}), "build", "3 maps to tuple", "{name: (schedule"),
    (lambda e: Target(3), "Target", "cannot make a target from 3", 'Target("cuda")'),  # type: ignore[arg-type]
    (lambda e: Target("llvm -foo"), "Target", "'-foo' is not an option", "-name=value"),
    (lambda e: Target("cuda -max_threads_per_block=x"), "Target", "-max_threads_per_block=x is not", "=1024"),
    (lambda e: built("llvm -mcpu=foo"), "Target", "'foo' is not a recognized processor", "-mcpu=skylake"),
    (lambda e: built("llvm -mcpu=a\0b"), "Target", r"'a\x00b' is not a recognized name", "-mcpu=skylake"),
    (lambda e: built("llvm -mcpu=\ud800"), "Target", r"'\ud800' is not a recognized name", "-mcpu=skylake"),
    (lambda e: built("llvm -mattr=+foo"), "Target", "'+foo' is not a recognized feature", "+avx2"),
    (lambda e: built("llvm -mattr=fma"), "Target", "'fma' has no sign", "+avx2"),
    (lambda e: built("llvm -opt-level=9"), "Target", "-opt-level=9", "0 to 3"),
    (lambda e: PassContext(config=3), "PassContext", "config=3 is not a mapping", "disable_vectorize"),  # type: ignore[arg-type]
    (lambda e: PassContext(opt_level="x"), "PassContext", "opt_level='x'", "0 to 3"),  # type: ignore[arg-type]
    (lambda e: PassContext(disabled_pass="x"), "PassContext", "disabled_pass='x' is not a list", "partition_loops"),
    (lambda e: PassContext(disabled_pass=3), "PassContext", "disabled_pass=3 is not a list", "partition_loops"),  # type: ignore[arg-type]
    (lambda e: PassContext(disabled_pass=["x"]), "PassContext", "the pass 'x' cannot be left out", "partition_loops"),
    (lambda e: PassContext(instruments=[1]), "PassContext", "instruments are not supported", "tilewright.explain"),
    (lambda e: PassContext(config={"x": 1}), "PassContext", "unknown configuration key 'x'", "tir.UnrollLoop"),
    (lambda e: PassContext(config={"tir.UnrollLoop": 3}), "PassContext", "tir.UnrollLoop is 3", "auto_max_step"),
    (lambda e: unrolled(foo=3), "PassContext", "tir.UnrollLoop has no field 'foo'", "auto_max_step, explicit_unroll"),
    (lambda e: unrolled(auto_max_step="x"), "PassContext", "auto_max_step='x' of tir.UnrollLoop", "auto_max_step"),
    (lambda e: PassContext(config={"tir.add_lower_pass": 3}), "PassContext", "tir.add_lower_pass holds 3", "phase"),
    (lambda e: PassContext(config={"tir.disable_vectorize": "no"}), "PassContext", "is 'no'", "True or False"),
    (
        lambda e: PassContext(config={"tir.detect_global_barrier": True}),
        "PassContext",
        "tir.detect_global_barrier=True",
        "leave it False",
    ),
]


def built(target: str) -> Any:
    """A program that any CPU runs, built for one."""
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0)
    return tilewright.build(te.create_schedule(B.op), [A, B], target)


def unrolled(**fields: Any) -> PassContext:
    """A context that unrolls so."""
    return PassContext(config={"tir.UnrollLoop": fields})


@pytest.mark.parametrize("row", KINDS, ids=lambda row: row[2][:40])
def test_an_argument_of_the_wrong_kind(e: Example, row: Row) -> None:
    attempt, primitive, says, fix = row
    with refused(primitive, says, fix=fix):
        attempt(e)


def test_a_tensor_to_start_at_inside_of_the_reduction() -> None:
    A, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), "k")
    D = te.compute((4,), lambda i: A[i, 0] + 1, name="D")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, init=D[i]), name="B")
    s = te.create_schedule(B.op)
    s[B].reorder(k, B.op.axis[0])
    s[D].compute_at(s[B], B.op.axis[0])
    with refused("compute_at", "'B' starts at values of 'D'", "inside of it, at 'i'", fix="outside of the reduction"):
        tilewright.lower(s, [A, B])


def test_a_pass_that_gives_no_function(e: Example) -> None:
    with (
        PassContext(config={"tir.add_lower_pass": [(0, lambda function: None)]}),
        refused("PassContext", "the pass <lambda> returns None", fix="a pass takes"),
    ):
        e.lower()


def test_names_that_no_compiler_takes() -> None:
    A = te.placeholder((4,), name="a b")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="é")
    s = te.create_schedule(B.op)
    tilewright.build(s, [A, B], "llvm", name="für")
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    tilewright.build(s, [A, B], "cuda", name="für")


def test_vectors_have_a_largest_size() -> None:
    A = te.placeholder((65_536,), name="A")
    B = te.compute((65_536,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(B.op.axis[0])
    with pytest.raises(
        tilewright.error.TVMError, match="vectors of 65,536 elements; on this target they may have 4,096"
    ):
        tilewright.lower(s, [A, B])


@pytest.mark.parametrize(("target", "most"), [("llvm", "4,096"), ("opencl", "1,024"), ("cuda -arch=sm_90", "256")])
def test_each_target_has_a_largest_vector(target: str, most: str) -> None:
    A = te.placeholder((8, 65_536), name="A")
    B = te.compute((8, 65_536), lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    limit = int(most.replace(",", ""))
    _, lanes = s[B].split(B.op.axis[1], factor=2 * limit)
    s[B].vectorize(lanes)
    if target != "llvm":
        s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    with refused("vectorize", f"vectors of {2 * limit:,} elements; on this target they may have {most}"):
        tilewright.build(s, [A, B], target)


@pytest.mark.parametrize("size", [te.size_var("n"), 2], ids=["n", "2"])
def test_a_program_has_at_most_64_loops_inside_each_other(size: Any) -> None:
    """Those that run once do not count."""

    def nest(extents: tuple[Any, ...]) -> Any:
        A = te.placeholder((size,), name="A")
        B = te.compute(extents, lambda *i: A[i[0]], name="B")
        return tilewright.lower(te.create_schedule(B.op), [A, B])

    assert "i263" in str(nest((size,) * 40 + (1,) * 200 + (size,) * 24))
    with refused("lower", "stage 'B' is computed inside 65 loops that run more than once; at most 64", fix="s[B].fuse"):
        nest((size,) * 65)


def test_threads_that_keep_more_than_their_registers() -> None:
    """It runs, slowly: a warning, with the steps and what would help."""
    A = te.placeholder((1024, 128), name="A")
    B = te.compute((1024, 128), lambda i, j: A[i, j] + 1.0, "B")
    C = te.compute((1024, 128), lambda i, j: B[i, 127 - j], "C")
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], C.op.axis[0])
    with pytest.warns(UserWarning, match="each thread keeps 128 32-bit words") as caught:
        tilewright.build(s, [A, C], "cuda")
    (said,) = [str(warning.message) for warning in caught]
    assert "(B alone 128), but has 64 registers in blocks of 1,024 threads" in said
    assert "step: s[C].bind(i, threadIdx.x) at " in said
    assert "step: s[B].compute_at(C, i) at " in said
    assert "fix: let each thread compute less" in said
