"""Tags of arithmetic on tensors, by what they are combined with."""

from __future__ import annotations

from tilewright import te, topi


def test_numbers_make_it_elementwise() -> None:
    n, A, B = te.var("n"), te.placeholder((), name="A"), te.placeholder((10, 5), name="B")
    for made in (1 + B, B + 1, n + B, B - n, 2.0 * B):
        assert made.op.tag == topi.tag.ELEMWISE
    for made in (A + B, B + B, B / A):
        assert made.op.tag == topi.tag.BROADCAST
    assert topi.broadcast_to(A, (3, 4)).op.tag == topi.tag.BROADCAST


def test_a_variable_and_a_tensor_in_either_order() -> None:
    n, A = te.var("n"), te.placeholder((), name="A")
    for made in (n + A, A + n, n * A, n - A, n / A, A() + A):
        assert isinstance(made, te.Tensor)
