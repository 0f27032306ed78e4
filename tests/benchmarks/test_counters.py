"""The comparison of `s.explain` with the counters of `ncu`: reading them, and judging the numbers."""

from __future__ import annotations

import pytest

from benchmarks.counters import NUMBERS, Row, compare, markdown, programs, read
from tilewright.explain.explanation_data import KernelExplanation

METRICS = list(dict.fromkeys(metric for number in NUMBERS for metric in number.metrics))


def printed(**given: float) -> str:
    """What ncu prints of one kernel, between lines of its own."""
    known = dict.fromkeys(METRICS, 0.0)
    for key, value in given.items():
        known[next(metric for metric in METRICS if key in metric)] = value
    heads = ["ID", "Kernel Name", *METRICS]
    units = ["", "", *("" for _ in METRICS)]
    values = ["0", "main_kernel", *(f"{known[metric]:,.0f}" for metric in METRICS)]
    rows = [",".join(f'"{cell}"' for cell in row) for row in (heads, units, values)]
    return "\n".join(["==PROF== Connected to process 1", *rows, "==PROF== Disconnected"])


def explained(name: str) -> KernelExplanation:
    (kernel,) = programs()[name]()[0].explain("cuda").kernels
    return kernel


def test_counters_are_read_from_what_ncu_prints() -> None:
    found = read(printed(t_sectors_pipe_lsu_mem_global_op_ld=2097152, shared_mem_per_block_static=4224))
    assert found["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 2097152
    assert found["launch__shared_mem_per_block_static"] == 4224


def test_numbers_are_compared_where_both_have_them() -> None:
    # A transpose of 4096 x 4096 through a tile: 524,288 requests of each kind.
    text = printed(
        t_sectors_pipe_lsu_mem_global_op_ld=2097152,
        t_requests_pipe_lsu_mem_global_op_ld=524288,
        t_sectors_pipe_lsu_mem_global_op_st=2097152,
        t_requests_pipe_lsu_mem_global_op_st=524288,
        wavefronts_mem_shared_op_ld=16777216,
        conflicts_pipe_lsu_mem_shared_op_ld=16252928,
        wavefronts_mem_shared_op_st=524288,
        shared_mem_per_block_static=4096,
        maximum_warps_per_active_cycle_pct=100,
    )
    rows = list(compare("transpose tile", explained("transpose tile"), read(text)))
    assert [(row.number, round(row.explained, 3), row.counted) for row in rows] == [
        ("sectors per load", 4, 4),
        ("sectors per store", 4, 4),
        ("bank conflicts of loads", 32, 32),
        ("bank conflicts of stores", 1, 1),
        ("bytes of shared memory", 4096, 4096),
        ("occupancy, %", 100, 100),
    ]
    assert all(row.agrees for row in rows)


def test_a_tenth_is_allowed() -> None:
    assert Row("k", "n", 1.09, 1.0).agrees
    assert not Row("k", "n", 1.2, 1.0).agrees
    assert not Row("k", "n", 32.0, 0.0).agrees
    assert Row("k", "n", 0.0, 0.0).agrees
    assert Row("k", "n", 3.0, None).agrees


def test_without_counters_the_numbers_stand_alone() -> None:
    rows = list(compare("transpose direct", explained("transpose direct"), None))
    assert {row.number: row.explained for row in rows}["sectors per load"] == pytest.approx(32)
    assert not any(row.number.startswith("bank conflicts") for row in rows)


def test_the_kernels_are_those_of_the_documents() -> None:
    kinds = [name.split()[0] for name in programs()]
    assert {kind: kinds.count(kind) for kind in kinds} == {"conv1d": 6, "depthwise": 5, "conv2d": 5, "transpose": 3}


def test_the_table_has_a_line_per_kernel() -> None:
    rows = [Row("a", "sectors per load", 4, 4.1), Row("a", "occupancy, %", 50, None), Row("b", "occupancy, %", 25, 25)]
    heads, rule, *lines = markdown(rows)
    assert heads.startswith("| kernel | sectors per load | sectors per store |")
    assert [len(line) for line in (rule, *lines)] == [len(heads)] * 3
    assert [line.split("|")[2].strip() for line in lines] == ["4 / 4.1", "–"]
    assert [line.split("|")[-2].strip() for line in lines] == ["50 / –", "25 / 25"]
