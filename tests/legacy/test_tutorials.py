"""Programs of the shape of the legacy tutorials, under `tilewright run`, on the targets that the tutorials name.

Each checks its own results and ends with "right".
"""

from __future__ import annotations

import re

import pytest

from tests.legacy.test_documents import DEVICES, run

TARGETS = ["llvm", *DEVICES]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "script",
    ["schedule_primitives", "reduction", "scan", "tuple_inputs", "tensor_expr_get_started", "intro_topi"],
)
def test_a_tutorial(script: str, target: str) -> None:
    assert run(f"{script}.py", target).endswith("\nright\n")


def test_matrix_products_on_the_cpu() -> None:
    out = run("opt_gemm.py", "llvm", "128")
    assert [line.partition(":")[0] for line in out.splitlines() if line.startswith(("Block", "Array", "Vector"))] == [
        "Blocking",
        "Vectorization",
        "Array packing",
        "Block caching",
    ]
    assert out.endswith("\nright\n")


def test_tuning_a_matrix_product_on_the_cpu() -> None:
    out = run("tune_matmul_x86.py", "llvm", "64", "6")
    assert "tile_y: Split(policy=factors, product=64, num_outputs=2) len=7" in out
    assert out.endswith("\nright\n")


@pytest.mark.parametrize("target", TARGETS)
def test_automatic_schedules(target: str) -> None:
    out = run("auto_scheduler_programs.py", target)
    assert "D(i, j) += A[i, r] * B[r, j]\n" in out
    assert "No: 1\tGFLOPS: " in out
    assert "def schedule(out):" in out
    (more,) = re.findall(r"measured again: (\d+)\n", out)
    assert 1 <= int(more) <= 5, "one new trial, and the confirmation of the best three beside the default"
    assert out.endswith("\nright\n")


def test_schedules_as_graphs() -> None:
    assert run("schedule_drawing.py") == "right\n"
