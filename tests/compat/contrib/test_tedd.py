"""Graphs of schedules in the DOT language."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.errors.refused import refused
from tests.explain.schedules import product
from tilewright import te
from tilewright.contrib import tedd


def edges(dot: str | None) -> list[tuple[str, str]]:
    assert dot is not None
    return re.findall(r'^  "(.*?)" -> "(.*?)"', dot, re.M)


def test_the_data_flow() -> None:
    s = product()
    names = {f"Stage:{stage.id}": stage.op.name for stage in s.stages}
    found = edges(tedd.viz_dataflow_graph(s, output_dot_string=True))
    assert sorted((names[a], names[b]) for a, b in found) == [
        ("A", "A.shared"),
        ("A.shared", "C.local"),
        ("B", "B.shared"),
        ("B.shared", "C.local"),
        ("C.local", "C"),
    ]


def test_the_tree_has_loops_and_where_stages_are_computed(tmp_path: Path) -> None:
    path = tmp_path / "tree.dot"
    assert tedd.viz_schedule_tree(product(), dot_file_path=str(path)) is None
    dot = path.read_text(encoding="utf-8")
    assert dot.startswith('digraph "Schedule Tree" {')
    assert dot.count('label="compute_at"') == 3
    for label in ("k.outer (serial)", "i.inner.inner.outer (threadIdx.y)", "i.inner.outer (vthread)"):
        assert f'label="{label}"' in dot


def test_how_loops_came_from_axes() -> None:
    A = te.placeholder((64, 8), name="A")
    B = te.compute((64, 8), lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B.op)
    fused = s[B].fuse(*B.op.axis)
    s[B].split(fused, factor=32)
    dot = tedd.viz_itervar_relationship_graph(s, output_dot_string=True)
    assert dot is not None
    assert re.findall(r'label="(\w+)", shape=ellipse', dot) == ["fuse", "split"]
    assert len(re.findall(r"->", dot)) == 6


def test_names_are_quoted() -> None:
    A = te.placeholder((8,), name='a"b\\')
    B = te.compute((8,), lambda i: A[i] + 1, name="B")
    dot = tedd.viz_dataflow_graph(te.create_schedule(B.op), output_dot_string=True)
    assert dot is not None
    assert r'label="input a\"b\\\na\"b\\: float32[8]"' in dot


def test_what_is_not_a_schedule() -> None:
    with refused("tedd", "3 is not a schedule", fix="te.create_schedule"):
        tedd.viz_schedule_tree(3)  # type: ignore[arg-type]


def test_pictures_in_notebooks_need_ipython(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with refused("tedd", "IPython is not installed", fix='s.draw("schedule.svg", view="schedule")'):
        tedd.viz_schedule_tree(product(), show_svg=True)
