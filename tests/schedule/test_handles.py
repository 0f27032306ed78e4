"""What a schedule tells of itself."""

from __future__ import annotations

from tests.counting import function_calls
from tests.schedule.programs import Chain, Plain, expect, names
from tilewright import te
from tilewright.schedule.relations import Fuse, Singleton, Split


def test_the_stage_of_a_tensor_or_an_operation() -> None:
    e = Chain()
    assert e.s[e.B].id == e.s[e.B.op].id == e.s[e.s[e.B]].id
    assert repr(e.s[e.B]) == "Stage(B: p, q)"
    assert names(s.op for s in e.s.stages) == ["A", "B", "C"]
    assert e.s.outputs == [e.C.op]
    assert [s.is_output for s in e.s.stages] == [False, False, True]


def test_an_operation_that_a_stage_had_still_names_it() -> None:
    e = Chain()
    first = e.C.op
    e.s.cache_read(e.B, "shared", [e.C])
    second = e.s[e.C].op
    e.s.cache_write(e.C, "local")
    third = e.s[e.C].op
    assert len({first, second, third}) == 3
    assert e.s[first].id == e.s[second].id == e.s[third].id
    assert e.s[first].op is third
    assert e.s[first].origin_op is first
    assert e.s.outputs == [third]


def test_axes_and_relations() -> None:
    e = Plain()
    io, ii = e.stage.split(e.i, factor=4)
    f = e.stage.fuse(ii, e.j)
    assert e.stage.leaf_iter_vars == [io, f]
    assert e.stage.all_iter_vars == [e.i, e.j, io, ii, f]
    first, second = e.stage.relations
    assert isinstance(first, Split)
    assert (first.parent, first.outer, first.inner, str(first.factor), first.nparts) == (e.i, io, ii, "4", None)
    assert isinstance(second, Fuse)
    assert (second.outer, second.inner, second.fused) == (ii, e.j, f)
    e.stage.fuse()
    assert isinstance(e.stage.relations[2], Singleton)


def test_handles_follow_the_schedule() -> None:
    """A handle that was taken before a change shows what is after it."""
    e = Plain()
    before = e.s[e.B]
    e.s[e.B].split(e.i, factor=4)
    assert names(before.leaf_iter_vars) == ["i.outer", "i.inner", "j"]


def test_a_schedule_value_never_changes() -> None:
    e = Plain()
    value = e.s.value
    stage = value.stages[e.stage.id]
    e.stage.split(e.i, factor=4)
    assert value.stages[e.stage.id] is stage
    assert e.s.value is not value


def test_methods_chain() -> None:
    e = Plain()
    assert e.stage.reorder(e.j, e.i).unroll(e.i) is e.stage
    assert e.s.normalize().value is e.s.value


def test_several_outputs() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, "B")
    C = te.compute((4,), lambda i: B[i] * 2.0, "C")
    s = te.create_schedule([C.op, B.op])
    assert s.outputs == [C.op, B.op]
    expect(s, [A, B, C], """
        for i in range(4):
            B[i] = A[i] + T.float32(1)
        for i in range(4):
            C[i] = B[i] * T.float32(2)
    """)  # fmt: skip
    assert te.create_schedule([B, C, B]).outputs == [B.op, C.op]


def test_a_step_costs_as_many_calls_after_many_others() -> None:
    """Each step that looked at all axes before it would make 3,000 splits take 20 seconds."""
    e = Plain()
    loops = [e.i]

    def split() -> None:
        for _ in range(100):
            loops.append(e.stage.split(loops[-1], nparts=1)[1])

    first = function_calls(split)
    split()
    assert function_calls(split) < 1.1 * first
