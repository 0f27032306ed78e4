"""Names in generated source."""

from __future__ import annotations

import re

import pytest

import tilewright
from tilewright import te
from tilewright.codegen.names import Names
from tilewright.expr.nodes import Var


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("ax0.ax1.fused.ax2.fused.ax3.fused.outer.outer.outer.inner", "ax0_ax1_ax2_ax3_oooi"),
        ("rc.outer.inner.ry.outer.inner.rx.outer.inner", "rc_oi_ry_oi_rx_oi"),
        ("ax0.ax1.fused.ax2.fused.ax3.fused", "ax0_ax1_ax2_ax3"),
        ("k.outer.inner", "k_outer_inner"),
        ("a_name.that_is.of_the_users.own_and_very_long_outer", "a_name_that_is_of_the_users_own_and_very_long_outer"),
    ],
)
def test_long_names_of_axes_are_shortened(name: str, shown: str) -> None:
    assert Names()(Var(name)) == shown


def test_what_is_shortened_alike_stays_apart() -> None:
    names = Names({"v"})
    base = "ax0.ax1.fused.ax2.fused.ax3.fused"
    first, second = Var(f"{base}.outer.outer"), Var(f"{base}.outer.outer")
    assert (names(first), names(second), names(first)) == ("ax0_ax1_ax2_ax3_oo", "ax0_ax1_ax2_ax3_oo_1", names(first))
    assert names(Var(f"{base}.oo")) == "ax0_ax1_ax2_ax3_oo_2"


def test_numbered_names_are_not_those_of_helper_functions() -> None:
    names = Names(owned=re.compile(r"copy_\d+"))
    assert [names.fresh("copy") for _ in range(3)] == ["copy", "v_copy_1", "v_copy_2"]
    assert names.fresh("v_copy") == "v_copy"
    assert names.fresh("copy_2") == "v_copy_2_1"


def test_the_lowered_program_has_the_whole_names() -> None:
    A = te.placeholder((4, 4, 4, 64), name="A")
    B = te.compute(A.shape, lambda *i: A(*i) + 1, name="B")
    s = te.create_schedule(B.op)
    fused = s[B].fuse(*B.op.axis)
    outer, inner = s[B].split(fused, factor=128)
    block, outer = s[B].split(outer, nparts=2)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    assert "for i0_i1_fused_i2_fused_i3_fused_outer_inner in range(16)" in str(tilewright.lower(s, [A, B]))
    source = tilewright.build(s, [A, B], "cuda").imported_modules[0].get_source()
    assert re.search(r"for \(int i0_i1_i2_i3_oi = 0; i0_i1_i2_i3_oi < 16; ", source), source
    assert "fused" not in source
