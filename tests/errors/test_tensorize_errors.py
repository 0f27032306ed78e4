"""Wrong uses of tensorize: one test a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import intrin, te
from tilewright.contrib import nvcc

GPU = "cuda -arch=sm_90"


class Product:
    """C = max(A B, 0) in tiles of 32 x 32 for a warp, not tensorized yet."""

    def __init__(
        self, dtype: str = "float32", terms: int = 64, body: Callable[..., Any] | None = None, b_turned: bool = False
    ) -> None:
        sums = {"int8": "int32"}.get(dtype, "float32")
        self.A = te.placeholder((64, terms), dtype, name="A")
        self.B = te.placeholder((64, terms) if b_turned else (terms, 64), dtype, name="B")
        self.k = te.reduce_axis((0, terms), "k")

        def product(i: Any, j: Any) -> Any:
            right = self.B[j, self.k] if b_turned else self.B[self.k, j]
            return te.sum(self.A[i, self.k].astype(sums) * right.astype(sums), axis=self.k)

        given = body
        self.D = te.compute((64, 64), product if given is None else lambda i, j: given(self, i, j), name="D")
        self.C = te.compute((64, 64), lambda i, j: te.max(self.D[i, j], te.const(0, self.D.dtype)), name="C")
        self.s = s = te.create_schedule(self.C.op)
        s[self.D].set_scope("local")
        self.tiles = [s.cache_read(T, "shared", [self.D]) for T in (self.A, self.B)]
        self.block, self.i = s[self.C].split(self.C.op.axis[0], 32)
        self.warp, self.j = s[self.C].split(self.C.op.axis[1], 32)
        s[self.C].reorder(self.block, self.warp, self.i, self.j)
        s[self.C].bind(self.block, te.thread_axis("blockIdx.x"))
        s[self.C].bind(self.warp, te.thread_axis("threadIdx.y"))
        s[self.D].compute_at(s[self.C], self.warp)
        self.outer, self.inner = s[self.D].split(self.k, 32)
        s[self.D].reorder(self.outer, *self.D.op.axis, self.inner)
        for tile in self.tiles:
            s[tile].compute_at(s[self.D], self.outer)

    def build(self, atom: str = "tf32", target: str = GPU, axis: Any = None) -> Any:
        self.s[self.D].tensorize(self.D.op.axis[0] if axis is None else axis, intrin.mma(atom))
        return tw.build(self.s, [self.A, self.B, self.C], target)


def test_the_product_itself_is_built() -> None:
    Product().build()


def test_an_unknown_atom() -> None:
    with refused("mma", "no matrix instruction for operands 'float8'", fix="'float16'"):
        intrin.mma("float8")


def test_sums_of_a_type_without_an_instruction() -> None:
    assert intrin.mma("float16", accumulator="float16").accumulator == "float16"
    assert intrin.mma("int8", "int32") is intrin.mma("int8")
    with refused("mma", "operands 'bfloat16' with sums in 'bfloat16'", fix="the sums of 'bfloat16' are float32"):
        intrin.mma("bfloat16", accumulator="bfloat16")


def test_an_atom_that_is_none() -> None:
    p = Product()
    with refused("tensorize", "7 for axis 'i' of stage 'D' is not a matrix instruction", fix="intrin.mma"):
        p.s[p.D].tensorize(p.D.op.axis[0], 7)


def test_a_stage_that_is_no_reduction() -> None:
    p = Product()
    with refused("tensorize", "stage 'C' is not a reduction", fix="te.sum"):
        p.s[p.C].tensorize(p.i, intrin.mma("tf32"))


def test_a_bound_axis() -> None:
    p = Product()
    p.s[p.D].bind(p.D.op.axis[0], te.thread_axis("threadIdx.x"))
    with refused("tensorize", "axis 'i' of stage 'D' is bound to threadIdx.x", fix="inside of the bound ones"):
        p.s[p.D].tensorize(p.D.op.axis[0], intrin.mma("tf32"))


def test_an_output() -> None:
    A, B = te.placeholder((16, 16), name="A"), te.placeholder((16, 16), name="B")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute((16, 16), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    with refused("tensorize", "stage 'C' is an output", "sums in registers", fix='s.cache_write(C, "local")'):
        s[C].tensorize(C.op.axis[0], intrin.mma("tf32"))


def test_an_axis_that_was_split_afterwards() -> None:
    p = Product()
    p.s[p.D].tensorize(p.D.op.axis[0], intrin.mma("tf32"))
    p.s[p.D].split(p.D.op.axis[0], 16)
    with refused("tensorize", "axis 'i' of stage 'D', which was tensorized, is no longer a loop", fix="last"):
        tw.build(p.s, [p.A, p.B, p.C], GPU)


def test_an_inner_axis_that_is_bound() -> None:
    p = Product()
    p.s[p.D].bind(p.D.op.axis[1], te.thread_axis("threadIdx.z"))
    p.s[p.D].set_scope("shared")
    with refused(
        "tensorize", "axis 'j' of stage 'D', inside the tensorized 'i', is bound to threadIdx.z", fix="unbound"
    ):
        p.build()


def test_a_stage_computed_inside() -> None:
    p = Product()
    p.s[p.tiles[0]].compute_at(p.s[p.D], p.D.op.axis[0])
    with refused("tensorize", "stage 'A.shared' is computed at 'i', inside the tensorized 'i'", fix="outside of 'i'"):
        p.build()


def test_a_reduction_that_is_no_sum() -> None:
    p = Product(body=lambda p, i, j: te.max(p.A[i, p.k] * p.B[p.k, j], axis=p.k))
    with refused("tensorize", "stage 'D' reduces by max", fix="te.sum of a product of two loads"):
        p.build()


def test_terms_that_are_no_product_of_loads() -> None:
    p = Product(body=lambda p, i, j: te.sum(p.A[i, p.k] + p.B[p.k, j], axis=p.k))
    with refused("tensorize", "the terms of stage 'D' are", "sums products of two loads", fix="cache_read"):
        p.build()


def test_operands_of_another_type() -> None:
    with refused("tensorize", "multiplies float32 by float32", "float16 takes float16", fix="the atom of these types"):
        Product().build("float16")


def test_an_operand_in_global_memory() -> None:
    A, B = te.placeholder((32, 32), name="A"), te.placeholder((32, 32), name="B")
    k = te.reduce_axis((0, 32), "k")
    D = te.compute((32, 32), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="D")
    C = te.compute((32, 32), lambda i, j: D[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    one = s[C].fuse()
    s[C].reorder(one, *C.op.axis)
    s[C].bind(one, te.thread_axis("blockIdx.x"))
    s[D].compute_at(s[C], one)
    s[D].set_scope("local")
    s[D].tensorize(D.op.axis[0], intrin.mma("tf32"))
    with refused("tensorize", "the operand 'A' of stage 'D' is in global memory", fix="s.cache_read(A, 'shared', [D])"):
        tw.build(s, [A, B, C], GPU)


def test_an_axis_of_both_operands() -> None:
    p = Product(body=lambda p, i, j: te.sum(p.A[i, p.k] * p.B[i, j], axis=p.k))
    with refused("tensorize", "axis 'i' of stage 'D' indexes both", fix="outside of the tensorized loops"):
        p.build()


def test_an_axis_of_neither_operand() -> None:
    p = Product(body=lambda p, i, j: te.sum(p.A[0, p.k] * p.B[p.k, j], axis=p.k))
    with refused("tensorize", "axis 'i' of stage 'D' indexes neither", fix="outside of the tensorized loops"):
        p.build()


def test_a_summed_axis_of_one_operand() -> None:
    p = Product(body=lambda p, i, j: te.sum(p.A[i, p.k] * p.B[0, j], axis=p.k))
    with refused("tensorize", "axis 'k.inner' of stage 'D' is summed over, but does not index both", fix="outside"):
        p.build()


def test_sizes_that_the_atom_does_not_divide() -> None:
    p = Product()
    p.s[p.C].reorder(p.i, p.block, p.warp, p.j)
    with refused("tensorize", "have 1 rows", "multiples of 16", fix="a multiple of 16 iterations"):
        p.build()


def test_terms_that_are_guarded() -> None:
    with refused("tensorize", "axis 'k.inner' of stage 'D'", "exceeds its range", fix="pad the operands with zeros"):
        Product(terms=50).build()


def test_sums_in_shared_memory() -> None:
    p = Product()
    p.s[p.D].set_scope("shared")
    with refused("tensorize", "stage 'D' is kept in shared memory", "sums in registers", fix="set_scope('local')"):
        p.build()


def test_lanes_that_are_bound() -> None:
    p = Product()
    p.s[p.C].bind(p.block, te.thread_axis("threadIdx.x"))
    with refused(
        "tensorize", "inside axis 'i.outer', which is bound to threadIdx.x", fix="threadIdx.y and threadIdx.z"
    ):
        p.build()


def test_hardware_without_the_instruction() -> None:
    with refused("tensorize", "sm_75 lacks the matrix instruction mma.sync", fix="a newer GPU"):
        Product().build(target="cuda -arch=sm_75")


def test_a_tile_that_is_not_whole() -> None:
    p = Product()
    outer, _ = p.s[p.D].split(p.D.op.axis[0], 16)
    p.s[p.D].reorder(p.outer, outer, p.s[p.D].leaf_iter_vars[-3])
    with refused("tensorize", "axis 'i.inner' of stage 'D' covers 16 of the 32 elements", fix="leave the axes"):
        p.build(axis=p.s[p.D].leaf_iter_vars[-3])


def test_a_reader_whose_loops_are_split() -> None:
    p = Product()
    p.s[p.C].split(p.j, 8)
    with refused("tensorize", "stage 'C' reads the 32 elements of dimension 1 of 'D'", fix="unsplit and unbound"):
        p.build()


def test_a_reader_with_a_bound_loop_inside() -> None:
    A, B = te.placeholder((32, 32), name="A"), te.placeholder((32, 32), name="B")
    k = te.reduce_axis((0, 32), "k")
    D = te.compute((32, 32), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="D")
    C = te.compute((3, 32, 32), lambda x, i, j: D[i, j] + x.astype("float32"), name="C")
    s = te.create_schedule(C.op)
    one = s[C].fuse()
    s[C].reorder(one, *C.op.axis)
    s[C].bind(one, te.thread_axis("blockIdx.x"))
    s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.y"))
    s[D].set_scope("local")
    for T in (D, *(s.cache_read(T, "shared", [D]) for T in (A, B))):
        s[T].compute_at(s[C], one)
    s[D].tensorize(D.op.axis[0], intrin.mma("tf32"))
    with refused(
        "tensorize",
        "the loops x of stage 'C'",
        "cannot be distributed over lanes",
        fix="bind loops outside of the loop",
    ):
        tw.build(s, [A, B, C], GPU)


def test_bytes_that_are_not_neighbours_along_the_terms() -> None:
    Product("int8", b_turned=True).build("int8")
    with refused(
        "tensorize", "the last dimension of 'B.shared' runs along axis 'j'", "words of 4", fix="transposed copy"
    ):
        Product("int8").build("int8")


@pytest.mark.parametrize("terms", [32, 64])
def test_operands_without_neighbours(terms: int) -> None:
    p = Product(body=lambda p, i, j: te.sum(p.A[i, p.k] * p.B[p.k, j - j % 2], axis=p.k), terms=terms)
    with refused("tensorize", fix="as its last dimension"):
        p.build()


# Intrinsics that legacy programs declare.


def declared(calls: str = "tir.tvm_mma_sync", dtype: str = "float16", sums: str = "float32") -> Any:
    """A product of 16 x 16 x 16 by a declared intrinsic."""
    A, B = (te.placeholder((16, 16), dtype, name=name) for name in "AB")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute((16, 16), lambda i, j: te.sum(A[i, k].astype(sums) * B[k, j].astype(sums), axis=k), name="C")

    def done(ins: Any, outs: Any) -> Any:
        ib = tw.tir.ir_builder.create()
        ib.emit(tw.tir.call_intrin("handle", calls, outs[0].data, outs[0].elem_offset // 256, ins[0].access_ptr("r")))
        return ib.get()

    return te.decl_tensor_intrin(C.op, done, name="product")


def test_a_declared_product_is_an_atom() -> None:
    p = Product()
    p.s[p.D].tensorize(p.D.op.axis[0], declared(dtype="float32"))
    assert "mma_3xtf32" in tw.build(p.s, [p.A, p.B, p.C], GPU).program.source
    assert declared() != declared(dtype="bfloat16")


def test_an_intrinsic_that_is_not_known() -> None:
    with refused("call_intrin", "no intrinsic 'tir.ptx_mma'", fix="tvm_mma_sync"):
        declared("tir.ptx_mma")


def test_a_declaration_without_a_matrix_instruction() -> None:
    with refused("decl_tensor_intrin", "'product' calls tvm_fill_fragment", fix="tvm_mma_sync are known"):
        declared("tir.tvm_fill_fragment")


def test_a_declaration_by_no_operation() -> None:
    with refused("decl_tensor_intrin", "is declared by 7", fix="give an operation"):
        te.decl_tensor_intrin(7, lambda ins, outs: None)


def test_a_declared_product_of_types_without_an_instruction() -> None:
    with refused("decl_tensor_intrin", "computes 'C', a sum in int32 of operands int16, int16", fix="intrin.mma"):
        declared(dtype="int16", sums="int32")


@pytest.mark.parametrize("intrin", ["load", "store"])
def test_a_copy_of_fragments_by_a_stage_that_is_none(intrin: str) -> None:
    p = Product()
    with refused("tensorize", "stage 'C' is not a copy of", fix="wmma.matrix_a"):
        p.s[p.C].tensorize(p.i, intrin)


def test_a_compute_version_that_is_none() -> None:
    assert nvcc.have_tensorcore("9.0")
    assert not nvcc.have_tensorcore("7.5")
    with refused("have_tensorcore", "compute_version is None", fix="compute_version"):
        nvcc.have_tensorcore(None)


# Conflicts of layouts.


class Two:
    """C reads the sums of two products: of A and B, and of E and F; G may be read transposed."""

    def __init__(self, turned: bool = False, shared: bool = False, atoms: tuple[str, str] = ("tf32", "tf32")) -> None:
        n, atom = 32, intrin.mma(atoms[0])
        self.inputs = [te.placeholder((n, n), name=name) for name in ("ABE" if shared else "ABEF")]
        A, B, E, *others = self.inputs
        F = others[0] if others else B
        k, m = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "m")
        self.D = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="D")
        self.G = te.compute((n, n), lambda i, j: te.sum(E[i, m] * (B[j, m] if shared else F[m, j]), axis=m), name="G")
        read = (lambda i, j: self.G[j, i]) if turned else (lambda i, j: self.G[i, j])
        self.C = te.compute((n, n), lambda i, j: self.D[i, j] + read(i, j), name="C")
        self.s = s = te.create_schedule(self.C.op)
        self.one = one = s[self.C].fuse()
        s[self.C].reorder(one, *self.C.op.axis)
        s[self.C].bind(one, te.thread_axis("blockIdx.x"))
        for T in (self.D, self.G):
            s[T].set_scope("local")
            s[T].compute_at(s[self.C], one)
        self.tiles = []
        readers: list[tuple[Any, list[Any]]] = [(A, [self.D]), (E, [self.G])]
        readers += [(B, [self.D, self.G])] if shared else [(B, [self.D]), (F, [self.G])]
        for T, by in readers:
            self.tiles.append(s.cache_read(T, "shared", by))
            s[self.tiles[-1]].compute_at(s[self.C], one)
        for T, name in zip((self.D, self.G), atoms, strict=True):
            s[T].tensorize(T.op.axis[0], intrin.mma(name) if name != atoms[0] else atom)

    def build(self) -> Any:
        return tw.build(self.s, [*self.inputs, self.C], GPU)


def test_sums_that_are_dealt_out_in_two_ways() -> None:
    Two().build()
    two = Two(turned=True)
    with refused(
        "tensorize",
        "stage 'C' reads the sums of 'G'",
        "16 rows (j) by 8 columns (i)",
        "'G' and of 'D'",
        "16 rows (i) by 8 columns (j)",
        "no lane holds both",
        fix="s.cache_read(D, 'shared', [C])",
    ):
        two.build()
    handed_on = two.s.cache_read(two.D, "shared", [two.C])
    two.s[handed_on].compute_at(two.s[two.C], two.one)
    two.build()


def test_two_distances_of_lines_for_one_operand() -> None:
    Two(shared=True, atoms=("tf32", "3xtf32"), turned=False)
    two = Two(shared=True)
    with refused(
        "tensorize",
        "stage 'B.shared' in shared memory is an operand of",
        "8 modulo 32",
        "4 modulo 8",
        "lanes of the second want one bank at a time",
        fix="its own copy, by a cache_read for each, or choose one distance: s[B.shared].storage_align(",
    ):
        two.build()
    tile = two.tiles[-1]
    two.s[tile].storage_align(tile.op.axis[0], 8, 4)
    with pytest.warns(UserWarning, match=r"2 lanes of tf32 want one bank of shared memory at a time when stage 'D'"):
        two.build()


def test_a_layout_of_the_schedule_in_which_lanes_wait() -> None:
    p = Product()
    p.s[p.tiles[0]].storage_align(p.tiles[0].op.axis[0], 32, 0)
    with pytest.warns(
        UserWarning, match=r"8 lanes of tf32 want one bank .* 'A.shared', because of storage_align\(ax0, 32, 0\)"
    ):
        p.build()


# Swizzled storage.


def test_two_layouts_of_one_stage() -> None:
    p = Product()
    stage = p.s[p.tiles[0]]
    stage.storage_swizzle()
    with refused("storage_align", "'A.shared' has a layout by storage_swizzle already", fix="choose one of the two"):
        stage.storage_align(p.tiles[0].op.axis[0], 32, 1)
    other = p.s[p.tiles[1]]
    other.storage_align(p.tiles[1].op.axis[0], 8, 4)
    with refused("storage_swizzle", "'B.shared' has a layout by storage_align already", fix="choose one of the two"):
        other.storage_swizzle()


def test_a_swizzled_output() -> None:
    p = Product()
    with refused("storage_swizzle", "stage 'C' is an output", "with the caller's layout"):
        p.s[p.C].storage_swizzle()


def test_a_swizzled_statement() -> None:
    A = te.placeholder((32,), name="A")
    B = te.extern((32,), [A], lambda ins, outs: tw.tir.Evaluate(0), name="B", dtype="float32")
    C = te.compute((32,), lambda i: B[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    with refused("storage_swizzle", "stage 'B' is computed by a statement", fix="in the statement"):
        s[B].storage_swizzle()


def test_swizzled_registers() -> None:
    p = Product()
    p.s[p.D].storage_swizzle()
    with refused("storage_swizzle", "stage 'D' is kept in local memory, which has no banks", fix="leave"):
        p.build()


def test_swizzled_rows_of_another_size() -> None:
    A = te.placeholder((32, 48), name="A")
    B = te.compute((32, 48), lambda i, j: A[i, 47 - j], name="B")
    s = te.create_schedule(B.op)
    tile = s.cache_read(A, "shared", [B])
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    s[tile].compute_at(s[B], B.op.axis[0])
    s[tile].storage_swizzle()
    with refused("storage_swizzle", "rows of stage 'A.shared' in shared memory have 192 bytes", fix="power of two"):
        tw.build(s, [A, B], GPU)


def test_a_vector_across_swizzled_pieces() -> None:
    A = te.placeholder((32, 64), name="A")
    B = te.compute((32, 64), lambda i, j: A[i, 63 - j], name="B")
    s = te.create_schedule(B.op)
    tile = s.cache_read(A, "shared", [B])
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    s[tile].compute_at(s[B], B.op.axis[0])
    s[tile].vectorize(s[tile].split(tile.op.axis[1], 8)[1])
    s[tile].storage_swizzle()
    with refused("storage_swizzle", "a vector of 8 elements of 'A.shared'", "16 bytes", fix="at most 4 elements"):
        tw.build(s, [A, B], GPU)


def test_the_address_of_swizzled_storage() -> None:
    row = te.placeholder((64,), name="row")
    twice = te.compute((64,), lambda j: row[j] * 2.0, name="twice")
    buffers = {x: tw.tir.decl_buffer(x.shape, x.dtype, name=x.name, offset_factor=1) for x in (row, twice)}

    def by_call(ins: Any, outs: Any) -> Any:
        return tw.tir.Evaluate(tw.tir.call_extern("int32", "f", outs[0].access_ptr("w"), ins[0].access_ptr("r")))

    intrinsic = te.decl_tensor_intrin(twice.op, by_call, binds=buffers)
    A = te.placeholder((32, 64), name="A")
    B = te.compute((32, 64), lambda i, j: A[i, j] * 2.0, name="B")
    s = te.create_schedule(B.op)
    tile = s.cache_read(A, "shared", [B])
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    s[tile].compute_at(s[B], B.op.axis[0])
    s[tile].storage_swizzle()
    s[B].tensorize(B.op.axis[1], intrinsic)
    with refused("storage_swizzle", "a function is given the address of 'A.shared'", fix="leave storage_swizzle of"):
        tw.build(s, [A, B], GPU)


def test_a_drawing_of_rows_that_cannot_be_swizzled() -> None:
    with refused("draw_swizzle", "rows of 48 bytes are not swizzled", fix="a power of two of at least 16"):
        intrin.draw_swizzle(48)
    with refused("draw_swizzle", "rows of 2147483648 bytes are not swizzled", fix="at most 262,144"):
        intrin.draw_swizzle(1 << 31)
