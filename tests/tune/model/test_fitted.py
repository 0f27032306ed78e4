"""Fitted quantities: every one has a unit, a meaning and a reader, and follows the rates of the machine."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

import tilewright
from tilewright.core.target import Target
from tilewright.tune.model import fitted, kernel_time
from tilewright.tune.model.fitted import Quantities
from tilewright.tune.model.machine import REFERENCE, Machine, Rates

PACKAGE = Path(tilewright.__file__).parent
SCALES = {"l2", "memory", "capacity", "launch", "latency", "barrier", "shared"}


def test_each_quantity_has_a_value_a_unit_and_a_meaning() -> None:
    for row in fitted.rows().values():
        assert {*row} == {"board", "measured", "refit", "quantities"}
        for name, each in row["quantities"].items():
            assert each["value"] > 0, name
            assert each["unit"], name
            assert not each["quantity"][0].islower(), name
            assert each.get("scales_with", "l2") in SCALES, name


def test_the_models_read_each_quantity() -> None:
    sources = [path.read_text(encoding="utf-8") for path in PACKAGE.glob("[at]*/**/*.py")]
    read = set(re.findall(r"\bat\.(\w+)", "\n".join(sources)))
    read |= set(re.findall(r'\.fitted\["\w+"\]\.(\w+)', "\n".join(sources))) | {"tail_waves"}
    rows = fitted.rows()
    assert not {f"{row}.{name}" for row in rows for name in rows[row]["quantities"] if name not in read}
    named = set(re.findall(r'fitted\["(\w+)"\]', "\n".join(sources)))
    assert set(rows) - named <= {"tiled_loops", "direct_loops", "direct_nchw", "direct_nhwc"}  # named by a condition


def test_functions_that_compute_cycles_have_no_fractions_of_their_own() -> None:
    found = set()
    for path in (*PACKAGE.glob("auto/*.py"), *PACKAGE.glob("topi/templates/*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        own = {ast.unparse(line.targets[0]) for line in module.body if isinstance(line, ast.Assign) and _fraction(line)}
        for function in ast.walk(module):
            if isinstance(function, ast.FunctionDef) and re.fullmatch("_?(cycles|seconds|predict)", function.name):
                parts = [*ast.walk(function)]
                found |= {f"{path.name}: {part.id}" for part in parts if isinstance(part, ast.Name) and part.id in own}
    assert not found


def _fraction(line: ast.Assign) -> bool:
    return isinstance(line.value, ast.Constant) and isinstance(line.value.value, float)


def test_an_unknown_quantity_lists_the_known_ones() -> None:
    with pytest.raises(AttributeError, match="no quantity 'speed', only product_cycles, fetch_cycles"):
        _ = REFERENCE.fitted["grouped"].speed


def test_on_the_board_of_the_fit_values_are_those_of_the_file() -> None:
    for name, row in fitted.rows().items():
        values = {quantity: each["value"] for quantity, each in row["quantities"].items()}
        assert vars(REFERENCE.fitted[name]) == values


def test_quantities_scale_with_the_rates_of_a_machine() -> None:
    mma = Machine.of(Target("cuda -arch=sm_80")).fitted["mma"]  # 108 of 132 multiprocessors
    assert mma.l2_bytes_per_cycle == pytest.approx(2130 * 108 / 132)
    assert mma.instruction_cycles == 6.68
    slow = replace(REFERENCE, rates=replace(Rates(), launch_seconds=2 * Rates().launch_seconds))
    assert slow.fitted["mma"].launch_cycles == pytest.approx(2 * 1120)


def test_a_machine_takes_other_quantities_for_a_fit() -> None:
    window = REFERENCE.fitted["window"]
    changed = REFERENCE.with_row("window", window.changed({"tile_cycles": 2}))
    assert changed.fitted["window"].tile_cycles == 2 * window.tile_cycles
    assert changed.fitted["mma"] is not window
    assert REFERENCE.fitted["window"].tile_cycles == window.tile_cycles
    assert changed != REFERENCE


def test_blocks_run_in_waves() -> None:
    at = Quantities({"launch_cycles": 10.0, "tail_waves": 0.25})
    full = Quantities({"launch_cycles": 10.0})
    assert kernel_time.in_waves(100.0, 133, 1, REFERENCE, at) == 210.0  # one block more than multiprocessors
    assert kernel_time.in_waves(100.0, 528, 1, REFERENCE, at) == 435.0
    assert kernel_time.in_waves(100.0, 529, 1, REFERENCE, full) == 510.0
    assert kernel_time.in_waves(100.0, 132, 1, REFERENCE, full, 300.0) == 310.0


def test_the_longest_of_overlapping_costs_counts_most() -> None:
    assert kernel_time.overlapped((3.0, 4.0), 2) == 5.0
    assert kernel_time.overlapped((1.0, 100.0), 6) == pytest.approx(100.0)


def test_memory_is_slower_than_its_cache() -> None:
    at = Quantities({"l2_capacity_bytes": 1000.0, "l2_bytes_per_cycle": 10.0, "memory_bytes_per_cycle": 2.0})
    assert (kernel_time.memory_cycles(500, at), kernel_time.memory_cycles(2000, at)) == (50, 1000)
