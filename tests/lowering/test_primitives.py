"""One program per corner of the schedule language lowers to what the legacy compiler prints, and runs right."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.lowering.legacy_text import as_ours
from tests.lowering.primitives import PROGRAMS, M, N
from tests.lowering.same_program import differences
from tests.passes.running import finish
from tilewright.loops.interpret import interpret
from tilewright.tensor.reference import reference
from tilewright.tensor.tensor import PlaceholderOp

LEGACY = Path(__file__).parent / "legacy" / "primitives"
LOWEST = "T.float32(-3.4028234663852886e+38)"
OTHERWISE: dict[str, list[tuple[str, str]]] = {
    # The outer axis of the final sum keeps its name.
    "rfactor": [("ax0", "i")],
    # Threads beyond the end bring zeros, which are stored nowhere; names say what a value is.
    "rfactor_cross_thread": [
        ("reduce_temp0", "B_total"),
        (
            "T.tvm_thread_allreduce(B_rf_1[0], ",
            f"T.tvm_thread_allreduce(T.if_then_else(blockIdx_x * 32 + threadIdx_y < {N}, B_rf_1[0], T.float32(0)), ",
        ),
        (
            "    if threadIdx_x == 0:\n",
            f"    if T.likely(blockIdx_x * 32 + threadIdx_y < {N}):\n     if threadIdx_x == 0:\n",
        ),
        ("scope='local')", "scope='local', align=4)"),
    ],
    # A maximum starts from -inf: an array of infinities has that one.
    "cross_thread_reduce": [
        ("normal_reduce_temp0", "B_partial"),
        ("reduce_temp0", "B_total"),
        ("scope='local')", "scope='local', align=4)"),
        (LOWEST, "T.float32('-inf')"),
    ],
    # Both values are computed before the first is stored, which any combination of them may need.
    "argmax": [
        ("T_1", "T_v0"),
        ("T_2", "T_v1"),
        ("T.if_then_else(A_1[cse_var_1] <= T_v1[i]", "T.Select(T_v1[i] >= A_1[cse_var_1]"),
    ],
    # The loop over pairs of stages keeps its name.
    "double_buffer": [("k_outer_outer", "k_outer")],
    # A pointer into an array is one into its flat view.
    "tensorize": [
        (
            "        T.call_extern",
            "        C_1 = T.Buffer((2048,), data=C.data)\n        A_1 = T.Buffer((1024,), data=A.data)\n"
            "        B_1 = T.Buffer((512,), data=B.data)\n        T.call_extern",
        ),
        *((f"{name}.data, ", f"{name}_1.data, ") for name in "CAB"),
    ],
    # The legacy region depends on the iteration, beyond the loop that defines it; the largest one does.
    "fuse_uneven_attach": [
        ("T.allocate([(i_j_fused_outer * 10 % 13 + 9) // 13 * 13 + 13], ", "T.allocate([26], "),
        ("T.Buffer((((i_j_fused_outer * 10 % 13 + 9) // 13 + 1) * 13,), ", "T.Buffer((26,), "),
        ("for i in range((i_j_fused_outer * 10 % 13 + 9) // 13 + 1):\n", "for i, j in T.grid(2, 13):\n"),
        ("                for j in range(13):\n", ""),
    ],
    # The size of the view is that of the array, not of what lies between it and the next one.
    "vthread_nested": [("(2048,), data=A_local", "(64,), data=A_local")],
    # Arrays share memory in a later pass, in which more of them can.
    "create_group": [
        ("    for i in range(32):\n", "    C = T.allocate([32], 'float32', 'global')\n    for i in range(32):\n"),
        ("B_2 = T.Buffer((32,), data=B)", "C_1 = T.Buffer((32,), data=C)"),
        ("B_2", "C_1"),
    ],
}
"""Where ours differ, and why: a text of theirs, and what stands there in ours."""
every_program = pytest.mark.parametrize("name", PROGRAMS)


@functools.cache
def lowered(name: str) -> tw.driver.LoweredModule:
    schedule, args = PROGRAMS[name]()
    found = tw.lower(schedule, args, simple_mode=True)
    assert isinstance(found, tw.driver.LoweredModule)
    return found


def legacy(name: str) -> str:
    """The text that the legacy compiler prints, with each intended difference rewritten to our form."""
    text = as_ours((LEGACY / f"{name}.txt").read_text(encoding="utf-8"), {"n": N, "m": M})
    for theirs, ours in OTHERWISE.get(name, []):
        assert theirs in text, (theirs, text)
        text = text.replace(theirs, ours)
    return text


@every_program
def test_the_program_is_the_legacy_one(name: str, golden: Callable[[str, str], None]) -> None:
    text = str(lowered(name))
    golden(f"primitives/{name}.txt", text)
    assert differences(text, legacy(name)) == []


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in ("extern", "tensorize", "ir_builder")])
def test_the_program_computes_what_it_declares(name: str) -> None:
    _, args = PROGRAMS[name]()
    rng = np.random.default_rng(0)
    given = {t: rng.integers(-9, 10, [int(e) for e in t.shape]).astype(t.dtype.numpy) for t in args}
    inputs = {t: array for t, array in given.items() if isinstance(t.op, PlaceholderOp)}
    outputs = [t for t in args if t not in inputs]
    arrays = [given[t].copy() for t in given]
    (part,) = lowered(name).parts
    interpret(finish(part.function, check=True), arrays, races=True)
    for found, expected in zip(arrays[len(inputs) :], reference(outputs, inputs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
