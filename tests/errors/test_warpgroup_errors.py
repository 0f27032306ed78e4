"""Wrong uses of instructions of a warpgroup: one test a message."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.programs.warpgroups import Groups, product
from tilewright import intrin, te
from tilewright.codegen.warpgroups import check_overlap

GPU = "cuda -arch=sm_90"


class Product:
    """C = A B' in tiles of 64 x 32 for a warpgroup, not tensorized yet."""

    def __init__(
        self,
        terms: int = 64,
        rows: int = 16,
        columns: int = 32,
        warps: str = "threadIdx.y",
        turned: bool = True,
        n: int = 32,
    ) -> None:
        k = te.reduce_axis((0, 128), "k")
        self.A = te.placeholder((64, 128), "float16", name="A")
        self.B = te.placeholder((n, 128) if turned else (128, n), "float16", name="B")

        def element(i: Any, j: Any) -> Any:
            right = self.B[j, k] if turned else self.B[k, j]
            return te.sum(self.A[i, k].astype("float32") * right.astype("float32"), axis=k)

        self.D = te.compute((64, n), element, name="D")
        self.C = te.compute((64, n), lambda i, j: self.D[i, j] + 1.0, name="C")
        self.s = s = te.create_schedule(self.C.op)
        s[self.D].set_scope("local")
        self.tiles = [s.cache_read(T, "shared", [self.D]) for T in (self.A, self.B)]
        i, j = self.C.op.axis
        self.block, j = s[self.C].split(j, columns)
        warp, i = s[self.C].split(i, rows)
        s[self.C].reorder(self.block, warp, i, j)
        s[self.C].bind(self.block, te.thread_axis("blockIdx.x"))
        s[self.C].bind(warp, te.thread_axis(warps))
        s[self.D].compute_at(s[self.C], warp)
        outer, inner = s[self.D].split(k, terms)
        s[self.D].reorder(outer, *self.D.op.axis, inner)
        for tile in self.tiles:
            s[tile].compute_at(s[self.D], outer)

    def build(self, target: str = GPU) -> Any:
        self.s[self.D].tensorize(self.D.op.axis[0], intrin.wgmma("float16"))
        return tw.build(self.s, [self.A, self.B, self.C], target)


def test_the_product_itself_is_built() -> None:
    Product().build()


def test_an_unknown_atom() -> None:
    with refused("wgmma", "there is no wgmma for operands 'float64'", fix='"tf32"'):
        intrin.wgmma("float64")
    with refused("wgmma", "operands 'int8' with sums in 'float16'", fix='only of "float16"'):
        intrin.wgmma("int8", "float16")
    odd: Any = np.zeros(3)
    with refused("wgmma", "operands 'int8' with sums in array([0., 0., 0.])"):
        intrin.wgmma("int8", odd)


def test_hardware_without_the_instruction() -> None:
    for arch in ("sm_80", "sm_100"):
        with refused("tensorize", f"{arch} lacks the matrix instruction wgmma.mma_async", fix="leave tensorize out"):
            Product().build(f"cuda -arch={arch}")


def test_more_rows_than_a_warp_has() -> None:
    with refused("tensorize", "stage 'D' have 32 rows (i)", "computes 16", fix="extent 4 over them to threadIdx.y"):
        Product(rows=32).build()


def test_warps_that_are_no_warpgroup() -> None:
    with refused("tensorize", "an instruction of four warps", "threadIdx.y has no loop", fix="to threadIdx.y"):
        Product(warps="threadIdx.z").build()


def test_two_warps() -> None:
    p = Product()
    with refused("tensorize", "threadIdx.y has the extent 2", fix="bind an axis of extent 4"):
        _of_rows(32).build()
    assert p.tiles


def _of_rows(rows: int, columns: int = 32) -> Product:
    """The product of other rows; where warps have fewer columns, they share the rows."""
    p = Product.__new__(Product)
    p.A, p.B = (te.placeholder((n, 64), "float16", name=name) for n, name in ((rows, "A"), (32, "B")))
    k = te.reduce_axis((0, 64), "k")
    p.D = te.compute(
        (rows, 32),
        lambda i, j: te.sum(p.A[i, k].astype("float32") * p.B[j, k].astype("float32"), axis=k),
        name="D",
    )
    p.C = te.compute((rows, 32), lambda i, j: p.D[i, j] + 1.0, name="C")
    p.s = s = te.create_schedule(p.C.op)
    s[p.D].set_scope("local")
    tiles = [s.cache_read(T, "shared", [p.D]) for T in (p.A, p.B)]
    one = s[p.C].fuse()
    i, j = p.C.op.axis
    warp, i = s[p.C].split(i, 16)
    if columns < 32:
        one = s[p.C].fuse(one, warp)
        warp, j = s[p.C].split(j, columns)
    s[p.C].reorder(one, warp, i, j)
    s[p.C].bind(one, te.thread_axis("blockIdx.x"))
    s[p.C].bind(warp, te.thread_axis("threadIdx.y"))
    s[p.D].compute_at(s[p.C], warp)
    for tile in tiles:
        s[tile].compute_at(s[p.C], one)
    return p


def test_a_layout_of_the_schedule() -> None:
    p = Product()
    p.s[p.tiles[0]].storage_align(p.tiles[0].op.axis[0], 72, 0)
    with refused("tensorize", "'A.shared', an operand of wgmma_float16, has a layout by storage_align", fix="leave"):
        p.build()


def test_rows_of_other_bytes() -> None:
    with refused("tensorize", "rows of stage 'A.shared' in shared memory have 32 elements of 2 bytes", fix="by 64"):
        Product(terms=32).build()


def test_terms_that_are_no_neighbours() -> None:
    module = Product(turned=False, n=64, columns=64).build()  # lines of columns
    assert "wgmma_turned(" in module.imported_modules[0].get_source()
    with refused("tensorize", "rows of stage 'B.shared' in shared memory have 32 elements", fix="last dimension"):
        Product(turned=False).build()


def test_warps_that_share_their_rows() -> None:
    p = _of_rows(16, columns=8)
    with refused("tensorize", "the lines of 'A.shared' that", "16 for each warp", fix="64 neighbouring"):
        p.build()


@pytest.mark.parametrize(("rows", "groups"), [(49, 1), (100, 2)])
def test_rows_that_are_not_there(rows: int, groups: int) -> None:
    s, args = product(rows, 32, 128, by=Groups(groups, 32, 2))
    says = f"has the extent {rows}, but the warpgroups of stage 'D' read up to index {64 * groups - 1}"
    with refused("tensorize", "stage 'A.shared'", says, fix="pad the operand"):
        tw.build(s, args, GPU)


def test_all_terms_in_one_tile() -> None:
    p = Product()
    for tile in p.tiles:
        p.s[tile].compute_at(p.s[p.C], p.s[p.C].leaf_iter_vars[1])
    with refused("tensorize", "rows of stage 'A.shared' in shared memory have 128 elements", fix="at the outer loop"):
        p.build()


def test_products_that_wait_for_each_other() -> None:
    check_overlap("ptxas info    : Used 90 registers")
    with refused("tensorize", "do not run asynchronously: (C7510) Potential Performance Loss", fix="fewer columns"):
        check_overlap("ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized")


@pytest.mark.parametrize("width", [8, 264])
def test_the_widths_of_an_instruction(width: int) -> None:
    assert intrin.wgmma("float16").width(width) == {8: 8, 264: 88}[width]
