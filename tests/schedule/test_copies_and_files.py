"""Copies of a schedule share nothing, and files of steps make the same schedule again."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te


def matmul(n: Any = 32, name: str = "A") -> tuple[te.Schedule, list[te.Tensor]]:
    A, B = te.placeholder((n, n), name=name), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((n, n), lambda i, j: te.max(C[i, j], 0.0), name="D")
    return te.create_schedule(D.op), [A, B, C, D]


def every_primitive(s: te.Schedule, tensors: list[te.Tensor]) -> None:
    """Steps of every kind, with threads, numbers, tensors, stages and expressions among their arguments."""
    A, B, C, D = tensors
    i, j = D.op.axis
    bx, tx = te.thread_axis("blockIdx.x"), te.thread_axis((0, 8), "threadIdx.x")
    io, ii = s[D].split(i, nparts=4)
    jo, ji = s[D].split(j, factor=8)
    s[D].reorder(io, jo, ii, ji)
    s[D].bind(s[D].fuse(io, jo), bx)
    s[D].bind(ji, tx)
    s[C].compute_at(s[D], ji)
    s[C].set_scope("local")
    (k,) = C.op.reduce_axis
    ko, ki = s[C].split(k, factor=4)
    s[C].unroll(ki)
    for tensor in (A, B):
        shared = s.cache_read(tensor, "shared", [C])
        s[shared].compute_at(s[C], ko)
        s[shared].storage_align(shared.op.axis[0], 8, 4)
        s[shared].double_buffer()
        s[shared].bind(s[shared].op.axis[1], tx) if tensor is B else None
    s[C].pragma(ko, "auto_unroll_max_step", 16)
    s[D].set_store_predicate(te.all(tx.var >= 0, ii.var * 2 < 128))


def text(s: te.Schedule, tensors: list[te.Tensor]) -> str:
    A, B, _, D = tensors
    return str(tw.lower(s, [A, B, D]))


def test_a_file_makes_the_same_schedule(tmp_path: Path) -> None:
    s, tensors = matmul()
    every_primitive(s, tensors)
    s.save_steps(tmp_path / "steps.json")
    data = json.loads((tmp_path / "steps.json").read_text())
    assert [step[0] for step in data["steps"]] == [step.primitive for step in s.steps]
    again, others = matmul()
    again.load_steps(tmp_path / "steps.json")
    assert text(again, others) == text(s, tensors)
    assert [step.to_json() for step in again.steps] == [step.to_json() for step in s.steps]
    again.save_steps(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "steps.json").read_text()


def test_factors_that_are_sizes(tmp_path: Path) -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    s, again = te.create_schedule(B.op), te.create_schedule(B.op)
    s[B].split(B.op.axis[0], nparts=n // 4 + 1)
    s.save_steps(tmp_path / "steps.json")
    again.load_steps(tmp_path / "steps.json")
    assert str(tw.lower(again, [A, B])) == str(tw.lower(s, [A, B]))


@pytest.mark.parametrize("copied", [te.Schedule.copy, te.Schedule.normalize, copy.copy, copy.deepcopy])
def test_a_copy_shares_nothing(copied: Any) -> None:
    s, tensors = matmul()
    D = tensors[-1]
    outer, inner = s[D].split(D.op.axis[0], factor=8)
    before, steps = text(s, tensors), len(s.steps)
    other = copied(s)
    assert other is not s
    other[D].reorder(inner, outer)
    other[D].bind(outer, te.thread_axis("threadIdx.x"))
    cached = other.cache_write(D, "local")
    assert text(s, tensors) == before
    assert (len(s.steps), len(other.steps)) == (steps, steps + 3)
    assert cached not in s
    s[D].unroll(inner)
    assert "unroll" not in str(other.value.stages[other[D].id].annotations)
    with refused("s[...]", "is a stage of another schedule", fix="s[T]"):
        s[other[D]]


def test_steps_of_a_copy_replay() -> None:
    """The copy knows the thread axes of the schedule that it was made of."""
    s, tensors = matmul()
    D, tx = tensors[-1], te.thread_axis("threadIdx.x")
    s[D].bind(D.op.axis[1], tx)
    other = s.copy()
    other[tensors[2]].bind(tensors[2].op.axis[1], tx)
    again, _ = matmul()
    again.replay([step.to_json() for step in other.steps])
    assert len({step.args[2]["thread"] for step in again.steps}) == 1


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    s, tensors = matmul()
    every_primitive(s, tensors)
    path = tmp_path / "steps.json"
    s.save_steps(path)
    with refused("load_steps", "has taken", fix="a new schedule"):
        s.load_steps(path)
    for other in (matmul(64)[0], matmul(name="X")[0]):
        with refused("load_steps", "is for another computation", fix="same names, shapes and types"):
            other.load_steps(path)
    with refused("load_steps", "cannot be read: No such file", fix="that is there"):
        matmul()[0].load_steps(tmp_path / "nowhere.json")
    with refused("save_steps", "cannot be written", fix="another path"):
        s.save_steps(tmp_path / "no" / "folder.json")
    for wrong in ("", "{}", "[1]", '{"format": 1, "computation": []}'):
        (tmp_path / "wrong.json").write_text(wrong)
        with refused("load_steps", "is not a file of schedule steps", fix="save_steps"):
            matmul()[0].load_steps(tmp_path / "wrong.json")
    with refused("load_steps", "is not a file path"):
        matmul()[0].load_steps(3)


@pytest.mark.parametrize("damage", [["split", {"stage": 3}, {"axis": [3, 99]}, 4, None], ["nothing"], 3])
def test_a_step_that_does_not_fit_leaves_the_schedule_alone(damage: Any, tmp_path: Path) -> None:
    s, tensors = matmul()
    s[tensors[-1]].split(tensors[-1].op.axis[0], factor=4)
    path = tmp_path / "steps.json"
    s.save_steps(path)
    data = json.loads(path.read_text())
    data["steps"].append(damage)
    path.write_text(json.dumps(data))
    fresh, others = matmul()
    before = text(fresh, others)
    with refused("replay", "step 2"):
        fresh.load_steps(path)
    assert text(fresh, others) == before
    assert fresh.steps == []


def test_the_record_of_a_schedule() -> None:
    """One schedule for each step, as the legacy API's `te.keep_schedule_record` keeps them: a tile is three steps."""
    s, tensors = matmul()
    C = tensors[2]
    assert s.primitive_record == ["vanilla"]
    xo, yo, xi, yi = s[C].tile(*C.op.axis, 8, 8)
    k, _ = s[C].split(C.op.reduce_axis[0], factor=4)
    s[C].reorder(xo, k, yo, xi, yi)
    s[C].parallel(xo)
    assert s.primitive_record == ["vanilla", "split", "split", "reorder", "split", "reorder", "parallel"]
    record = s.schedule_record
    assert [len(each.steps) for each in record] == list(range(7))
    assert [len(each[C].leaf_iter_vars) for each in record] == [3, 4, 5, 5, 6, 6, 6]
    assert str(tw.lower(record[-1], tensors)) == str(tw.lower(s, tensors))


def test_steps_with_numbers_of_numpy_are_kept(tmp_path: Path) -> None:
    s, tensors = matmul()
    A, _, C, _ = tensors
    ko, ki = s[C].split(C.op.reduce_axis[0], np.int64(4))
    local = s.cache_read(A, "local", [C])
    s[local].compute_at(s[C], ko)
    s[local].pipeline(np.int32(2))
    s[local].storage_align(local.op.axis[0], np.int64(8), np.int64(4))
    s[C].prefetch(A, ko, np.int64(1))
    s[C].pragma(ki, "auto_unroll_max_step", np.int64(16))
    s.rfactor(C, ki, np.int64(0))
    s.save_steps(tmp_path / "steps.json")
    again, others = matmul()
    again.load_steps(tmp_path / "steps.json")
    assert text(again, others) == text(s, tensors)
