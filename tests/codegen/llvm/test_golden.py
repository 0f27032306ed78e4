"""The IR of small programs, as it reads; for a processor of no particular kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tilewright as tvm
from tests.passes.running import finish
from tilewright import te
from tilewright.codegen.kernel import kernels_of
from tilewright.codegen.llvm.compile import Processor, compile_ir
from tilewright.codegen.llvm.module import write_module
from tilewright.codegen.llvm.statements import CodeOptions
from tilewright.codegen.names import Names

ANY = Processor("x86-64", "", 0, False)


def matmul() -> tuple[te.Schedule, list[te.Tensor]]:
    """Parallel rows of tiles, sums in a scratch array, vectors."""
    A, B = te.placeholder((64, 32), name="A"), te.placeholder((32, 48), name="B")
    k = te.reduce_axis((0, 32), "k")
    C = te.compute((64, 48), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    sums = s.cache_write(C, "local")
    io, jo, ii, ji = s[C].tile(C.op.axis[0], C.op.axis[1], 2, 8)
    s[C].parallel(io)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    s[sums].compute_at(s[C], jo)
    row, column = sums.op.axis
    s[sums].reorder(sums.op.reduce_axis[0], row, column)
    s[sums].unroll(row)
    s[sums].vectorize(column)
    return s, [A, B, C]


def any_size() -> tuple[te.Schedule, list[te.Tensor]]:
    """Vectors of any number of elements: whole ones, and the last one under a mask."""
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: te.exp(A[i]), name="B")
    s = te.create_schedule(B.op)
    _, inner = s[B].split(B.op.axis[0], 8)
    s[B].vectorize(inner)
    return s, [A, B]


@pytest.mark.parametrize("make", [matmul, any_size])
def test_the_ir_reads_so(
    make: Callable[[], tuple[te.Schedule, list[te.Tensor]]], golden: Callable[[str, str], None]
) -> None:
    s, args = make()
    function = finish(tvm.lower(s, args).functions[0], "llvm", check=True)
    text = write_module(kernels_of(function, Names()), ANY, CodeOptions())
    golden(f"llvm/{make.__name__}.ll", text)
    assert compile_ir(text, ANY).binary
