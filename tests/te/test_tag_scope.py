"""te.tag_scope: the tag of every operation that is declared in a block or a function."""

from __future__ import annotations

import warnings

import pytest

from tests.errors.refused import refused
from tilewright import te

A = te.placeholder((4,), name="A")


def test_blocks_and_functions() -> None:
    with te.tag_scope(tag="conv"):
        B = te.compute((4,), lambda i: A[i] + 1, name="B")
        C = te.compute((4,), lambda i: B[i] + 1, name="C")
    D = te.compute((4,), lambda i: C[i] + 1, name="D")
    assert [t.op.tag for t in (B, C, D)] == ["conv", "conv", ""]

    @te.tag_scope(tag="pool")
    def pooled(x: te.Tensor) -> te.Tensor:
        made: te.Tensor = te.compute((4,), lambda i: x[i] + 1, name="E")
        return made

    assert pooled(A).op.tag == pooled(A).op.tag == "pool"


def test_every_kind_of_operation() -> None:
    state = te.placeholder((4, 2), name="state")
    with te.tag_scope("all"):
        first = te.compute((1, 2), lambda t, i: 0.0, name="first")
        step = te.compute((4, 2), lambda t, i: state[t - 1, i] + 1, name="step")
        S = te.scan(first, step, state)
        E = te.extern((4,), [A], lambda ins, outs: outs[0].vstore([0], ins[0].vload([0])), name="E")
    assert {t.op.tag for t in (first, step, S, E)} == {"all"}


def test_a_scope_ends_with_its_block() -> None:
    with pytest.raises(ZeroDivisionError), te.tag_scope("conv"):
        raise ZeroDivisionError
    assert te.compute((4,), lambda i: A[i], name="B").op.tag == ""


def test_mistakes() -> None:
    with te.tag_scope("outer"):
        B = te.compute((4,), lambda i: A[i], name="B")
        with (
            refused("tag_scope", "'inner' is opened within the tag scope 'outer'", fix="one tag"),
            te.tag_scope("inner"),
        ):
            pass
        with refused("tag_scope", "'C' is declared with the tag 'own'", fix="leave one"):
            te.compute((4,), lambda i: B[i], name="C", tag="own")
    for wrong in (3, ""):
        with refused("tag_scope", f"tag={wrong!r} is not text"), te.tag_scope(wrong):  # type: ignore[arg-type]
            pass
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with te.tag_scope("unused"):
            pass
    assert "no operation was declared within the tag scope 'unused'" in str(caught[0].message)
