"""Wrong uses of the instructions of one thread: one test a message."""

from __future__ import annotations

from typing import Any

import tilewright as tw
from tests.errors.refused import refused
from tilewright import intrin, te


class Dot:
    """D = A B of uint8 by int8, B packed for VNNI unless another layout is asked for."""

    def __init__(
        self, layout: str = "packed", kinds: tuple[str, str] = ("uint8", "int8"), a_turned: bool = False
    ) -> None:
        n, k = 64, 32
        shape = {"packed": (k // 4, n, 4), "columns": (n, k), "rows": (k, n)}[layout]
        self.A = te.placeholder((k, n) if a_turned else (n, k), kinds[0], name="A")
        self.B = te.placeholder(shape, kinds[1], name="B")
        self.k = te.reduce_axis((0, k), "k")

        def term(i: Any, j: Any) -> Any:
            x = self.k
            right = {"packed": (x // 4, j, x % 4), "columns": (j, x), "rows": (x, j)}[layout]
            left = (x, i) if a_turned else (i, x)
            return te.sum(self.A[left].astype("int32") * self.B[right].astype("int32"), axis=x)

        self.D = te.compute((n, n), term, name="D")
        self.s = te.create_schedule(self.D.op)

    def build(self, factor: int = 4, target: str = "llvm", atom: Any = None, outside: int = 1) -> Any:
        outer, inner = self.s[self.D].split(self.k, factor)
        axes = self.D.op.axis
        self.s[self.D].reorder(*axes[:outside], outer, *axes[outside:], inner)
        self.s[self.D].tensorize((*axes, inner)[outside], atom or intrin.vnni())
        return tw.build(self.s, [self.A, self.B, self.D], target)


def test_the_product_itself_is_built() -> None:
    Dot().build()


def test_an_unknown_type_of_dp4a() -> None:
    with refused("dp4a", "no dp4a of operands 'int4'", fix='"int8" or "uint8"'):
        intrin.dp4a("int4")


def test_types_that_vnni_does_not_take() -> None:
    with refused("tensorize", "multiplies int8 by int8", "vnni takes uint8 and int8", fix="of uint8 and int8"):
        Dot(kinds=("int8", "int8")).build()


def test_an_operand_that_is_not_packed() -> None:
    for layout in ("columns", "rows"):
        with refused(
            "tensorize",
            "vnni loads 16 columns of 4 terms each as 64 neighbouring bytes",
            "reads 'B' at",
            fix="pack it: `te.compute((k // 4, n, 4)",
        ):
            Dot(layout).build()


def test_terms_of_a_row_that_are_not_neighbours() -> None:
    with refused("tensorize", "4 terms of a row as neighbours", "'A' does not run along axis 'k.inner'", fix="last"):
        Dot(a_turned=True).build()


def test_sums_that_are_not_neighbours() -> None:
    A, B = te.placeholder((16, 8), "uint8", name="A"), te.placeholder((2, 32, 4), "int8", name="B")
    k = te.reduce_axis((0, 8), "k")
    term = lambda j, i: A[i, k].astype("int32") * B[k // 4, j, k % 4].astype("int32")
    D = te.compute((32, 16), lambda j, i: te.sum(term(j, i), axis=k), name="D")
    s = te.create_schedule(D.op)
    j, i = D.op.axis
    outer, inner = s[D].split(k, 4)
    s[D].reorder(i, outer, j, inner)
    s[D].tensorize(j, intrin.vnni())
    with refused("tensorize", "vnni stores 16 neighbouring sums", "stage 'D' does not run", fix="last dimension"):
        tw.build(s, [A, B, D], "llvm")


def test_terms_that_are_not_a_multiple_of_four() -> None:
    with refused("tensorize", "have 2 terms (k.inner), but dp4a_int8 computes multiples of 4", fix="multiple of 4"):
        Dot("columns", ("int8", "int8")).build(2, "cuda -arch=sm_90", intrin.dp4a("int8"), outside=2)


def test_columns_that_are_not_neighbours() -> None:
    dot = Dot()
    outer, inner = dot.s[dot.D].split(dot.D.op.axis[1], 8)
    terms, four = dot.s[dot.D].split(dot.k, 4)
    dot.s[dot.D].reorder(terms, outer, inner, four)
    dot.s[dot.D].tensorize(outer, intrin.vnni())
    with refused(
        "tensorize", "axis 'j.inner' of stage 'D' has 8 iterations", "takes 16 neighbours", fix="multiple of 16"
    ):
        tw.build(dot.s, [dot.A, dot.B, dot.D], "llvm")


def test_a_bound_axis_inside_of_a_dot_product() -> None:
    dot = Dot("columns", ("int8", "int8"))
    dot.s[dot.D].bind(dot.D.op.axis[1], te.thread_axis("threadIdx.x"))
    with refused("tensorize", "is bound to threadIdx.x, but one thread executes dp4a_int8", fix="leave 'j' unbound"):
        dot.build(4, "cuda -arch=sm_90", intrin.dp4a("int8"), outside=0)


def test_a_gpu_without_dp4a() -> None:
    dot = Dot("columns", ("int8", "int8"))
    dot.s[dot.D].bind(dot.D.op.axis[0], te.thread_axis("blockIdx.x"))
    with refused("tensorize", "sm_60 lacks the matrix instruction dp4a.s32.s32", fix="a newer GPU"):
        dot.build(4, "cuda -arch=sm_60", intrin.dp4a("int8"), outside=2)
