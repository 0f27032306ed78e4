"""Host code: arguments checked, sizes bound, kernels launched."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tests.codegen import programs as p
from tilewright.codegen.abi import ArrayArgument, ScalarArgument
from tilewright.codegen.program import compile_program, generate
from tilewright.core.errors import InternalError, UserError
from tilewright.core.target import Target
from tilewright.expr import operators as op
from tilewright.expr.nodes import Var
from tilewright.expr.variables import size_var, var
from tilewright.loops.nodes import Function, If, Let, Seq, seq

OPENCL = Target("opencl")

SYMBOLIC = """\
def main(A, B):
    if A.kind is not A_kind: wrong(A, 0)
    if B.kind is not B_kind: wrong(B, 1)
    n = A.shape[0]
    if B.shape[0] != n: wrong_extent(B, 1, 0, n)
    if n > 2130706432: too_large('A', n)
    if A.start < B.end and B.start < A.end: overlap(0, 1)
    A_reversed = allocate('A_reversed', n * 4)  # A_reversed
    blocks_x = (n + 31) // 32
    if blocks_x > 0: main_kernel(blocks_x, 1, 1, 32, 1, 1, A.handle, A_reversed, n)
    if n > 0: main_kernel_1(n, 1, 1, 1, 1, 1, A.handle, B.handle, A_reversed)
"""


def host(function: Function) -> str:
    """The host code."""
    return generate((function,), OPENCL)[0].entries[0].source


def test_sizes_come_from_the_arguments() -> None:
    assert host(p.symbolic()) == SYMBOLIC


def test_a_loop_on_the_host() -> None:
    assert "    for t in range(1, 1 + 4):\n        main_step(1, 1, 1, 32, 1, 1, A.handle, B.handle, t)\n" in host(
        p.scan(5, 32)
    )


def trace(function: Function, *args: Any) -> list[tuple[Any, ...]]:
    """The launches that host code makes, by running it with fakes."""
    program, _ = generate((function,), OPENCL)
    made: list[tuple[Any, ...]] = []
    names: dict[str, Any] = {
        kernel.name: lambda *a, name=kernel.name: made.append((name, *a)) for kernel in program.kernels
    }
    names |= {"truncdiv": lambda a, b: int(a / b), "truncmod": lambda a, b: a - int(a / b) * b}
    names |= {limit.name: limit.allowed for limit in program.entries[0].limits}
    exec(program.entries[0].source, names)
    names[program.entries[0].symbol](*args)
    return made


def test_host_statements_and_expressions_mean_what_they_say() -> None:
    n, m = Var("n"), Var("m")
    i = Var("threadIdx.x")

    def kernel(name: str, extent: Any) -> Any:
        b = Var("v")
        return Let(b, op.as_expr(extent), p.launch(seq(), name, threadIdx_x=(i, b)))

    body = seq(
        kernel("a", n // 4 + n % 3),
        If(n > 5, kernel("yes", op.minimum(n, 7)), kernel("no", op.maximum(n, 3))),
        If(op.all_of(n > 5, op.logical_not(op.equal(n, 100))), kernel("b", op.if_then_else(n < 9, n * 2, n - 1)), None),
        kernel("c", op.truncdiv(n, op.const(2)) + op.truncmod(n, op.const(2))),
        kernel("d", op.cast("int32", op.cast("int64", n) * 2)),
        If(n > 1000, Seq(()), None),
    )
    function = Function("main", (n, m), body)
    got = [(call[0], call[4]) for call in trace(function, 10, 0)]
    assert got == [("a", 3), ("yes", 7), ("b", 9), ("c", 5), ("d", 20)]
    got = [(call[0], call[4]) for call in trace(function, 4, 0)]
    assert got == [("a", 2), ("no", 4), ("c", 2), ("d", 8)]


def test_a_grid_of_no_blocks_is_not_launched() -> None:
    b, i, n = p.buf("B", 1), Var("threadIdx.x"), Var("n")
    empty = p.launch(p.put(b, 0, p.c(1.0)), blockIdx_x=(Var("blockIdx.x"), 0), threadIdx_x=(i, 4))
    assert "main_kernel(" not in host(Function("main", (b,), empty))
    function = Function("main", (n,), p.launch(seq(), threadIdx_x=(i, n)))
    assert trace(function, 0) == []
    assert len(trace(function, 3)) == 1


def reads_first(*shapes: Any) -> Function:
    """B[i] = A[i], by four threads, for buffers A, B ... of those shapes."""
    buffers = [p.buf(name, *shape) for name, shape in zip("ABCD", shapes, strict=False)]
    i = Var("threadIdx.x")
    a = buffers[0]
    body = p.put(buffers[-1], i, p.at(a, i)) if len(buffers) > 1 else p.put(a, i, p.c(1.0))
    return Function("main", tuple(buffers), p.launch(body, threadIdx_x=(i, 4)))


def test_a_size_that_no_argument_shows() -> None:
    n, m = Var("n"), Var("m")
    with pytest.raises(UserError, match=r"the size n in extent 0 of argument A \(`n \* m`\) cannot be found"):
        host(reads_first((n * m,)))


def test_an_extent_may_depend_on_one_that_comes_later() -> None:
    n = Var("n")
    text = host(reads_first((n + 1,), (n,)))
    assert "n = B.shape[0]\n    if A.shape[0] != (n + 1): wrong_extent(A, 0, 0, n + 1)" in text


def test_a_size_is_found_from_an_extent_that_is_linear_in_it() -> None:
    n, m = Var("n"), Var("m")
    text = host(reads_first((n * 8,), (m,)))
    assert "n = A.shape[0] // 8\n    if A.shape[0] != (n * 8): wrong_extent(A, 0, 0, n * 8)" in text
    text = host(reads_first((n * 4 + m - 2,), (m,)))
    assert "m = B.shape[0]\n    n = (A.shape[0] - (m - 2)) // 4\n" in text


def test_declared_facts_are_checked_once_the_size_is_known() -> None:
    n, m = var("n", minimum=1, multiple_of=8), size_var("m", maximum=64)
    program, _ = generate((reads_first((n,), (m,)),), OPENCL)
    (entry,) = program.entries
    assert "n = A.shape[0]\n    if n < 8 or n % 8: wrong_size(0, n)\n" in entry.source
    assert "m = B.shape[0]\n    if m > 64: wrong_size(1, m)\n" in entry.source
    assert "if n > 2130706432: too_large('A', n)" in entry.source
    assert "too_large('B'" not in entry.source  # 64 elements at most
    assert [(fact.name, fact.known) for fact in entry.facts] == [
        ("n", "at least 8 and a multiple of 8"),
        ("m", "at least 0 and at most 64"),
    ]


def test_sizes_of_64_bits_have_no_limit() -> None:
    assert "too_large" not in host(reads_first((Var("n", "int64"),)))


def test_only_what_is_written_is_held_against_the_others() -> None:
    text = host(p.elementwise(64, ["float32", "float32"], lambda a, b: a + b, "float32"))
    assert "overlap(0, 2)" in text
    assert "overlap(1, 2)" in text
    assert "overlap(0, 1)" not in text


def test_memory_that_is_nobodys() -> None:
    i, b = Var("threadIdx.x"), p.buf("B", 4)
    with pytest.raises(InternalError, match="neither an argument"):
        host(Function("main", (), p.launch(p.put(b, i, p.c(1.0)), threadIdx_x=(i, 4))))


def test_a_compiled_program_is_plain_data() -> None:
    program = compile_program((p.symbolic(),), Target("cuda"))
    again = pickle.loads(pickle.dumps(program))
    assert again == program
    assert again.binary == program.binary
    assert program.entries[0].arguments == (
        ArrayArgument("A", "float32", ("n",)),
        ArrayArgument("B", "float32", ("n",)),
    )
    assert program.kernels[0].params == ("buffer", "buffer", "int32")


def test_scalar_arguments_are_described() -> None:
    n, i = Var("n", "int64"), Var("threadIdx.x")
    program, _ = generate((Function("main", (n,), p.launch(seq(), threadIdx_x=(i, 1))),), OPENCL)
    assert program.entries[0].arguments == (ScalarArgument("n", "int64"),)
    assert (
        "    if type(n) is not int or not -9223372036854775808 <= n <= 9223372036854775807: n = scalar(n, 0)"
        in program.entries[0].source
    )


def test_several_functions_in_one_program() -> None:
    first, second = p.scan(5, 32), p.reduction(3, 4)
    second = Function("other", second.params, second.body)
    program, _ = generate((first, second), OPENCL)
    assert [entry.name for entry in program.entries] == ["main", "other"]
    assert [kernel.name for kernel in program.kernels] == ["main_init", "main_step", "main_kernel"]
