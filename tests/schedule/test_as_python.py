"""`s.as_python()`: schedules as programs, which make the same loops again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import tilewright as tw
from tests.frozen.cases import ALL, FUSED, TARGET, decode, records
from tests.fuzz.cases import Script, draw
from tests.programs import random_tensorized
from tests.schedule import random_pipelines
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.driver import lower_for

pytestmark = pytest.mark.filterwarnings("ignore")
TILED = """\
from tilewright import te


def schedule(C):
    A, B = C.op.input_tensors
    s = te.create_schedule(C.op)
    C_local = s.cache_write(C, "local")

    y, x = s[C].op.axis
    by, bx, yi, tx = s[C].tile(y, x, 32, 32)
    ty, yii = s[C].split(yi, nparts=8)
    s[C].bind(by, te.thread_axis("blockIdx.y"))
    s[C].bind(bx, te.thread_axis("blockIdx.x"))
    s[C].bind(ty, te.thread_axis((0, 8), "threadIdx.y"))
    s[C].bind(tx, te.thread_axis("threadIdx.x"))

    s[C_local].compute_at(C, tx)
    k = s[C_local].op.reduce_axis[0]
    ko, ki = s[C_local].split(k, factor=8)
    s[C_local].unroll(ki)

    A_shared = s.cache_read(A, "shared", [C_local])
    s[A_shared].compute_at(C_local, ko)
    return s
"""


def product() -> tuple[Any, Any, Any]:
    A, B = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
    k = te.reduce_axis((0, 64), name="k")
    return A, B, te.compute((64, 64), lambda y, x: te.sum(A[y, k] * B[k, x], axis=k), name="C")


def made_by(text: str, outputs: Sequence[Any], **variables: Any) -> Any:
    """The schedule that a printed program makes."""
    exec(text, variables)
    return variables["schedule"](*outputs)


def outputs_of(s: Any) -> list[Any]:
    """A tensor of each output's operation."""
    return list({tensor.op: tensor for tensor in s.computed}.values())


def lowered(s: Any, args: Any) -> str:
    """The loops, or the reason for their refusal."""
    try:
        return str(tw.lower(s, args, simple_mode=True))
    except UserError as refusal:
        return f"refused: {refusal.args[0]}".partition("\n")[0]


def check_script(seed: int) -> None:
    case = draw(seed)
    if not case.lines:
        return
    try:
        script = Script(case)
    except UserError:
        return
    s, names = script.schedule, script.program.names
    wanted = lowered(s, script.arguments)
    text = s.as_python()
    assert lowered(made_by(text, outputs_of(s)), script.arguments) == wanted, f"seed {seed}\n{text}"
    variables = {name: value for name, value in names.items() if name != "s"}
    text = s.as_python(variables)
    exec(text, variables)
    assert lowered(variables["s"], script.arguments) == wanted, f"seed {seed}\n{text}"


def check_target(s: Any, args: Any) -> None:
    text = s.as_python()
    again = made_by(text, outputs_of(s))
    both = [[str(f) for f in lower_for(TARGET, each, args, "main").functions] for each in (s, again)]
    assert both[0] == both[1], text


def check_record(line: str) -> None:
    record = decode(line)[0]
    template = next(t for t in ALL if t.name == record.task.name)
    check_target(*template.program(record.config, template.workload(record.task.args), TARGET, FUSED))


def check_seed(seed: int) -> None:
    pipeline = random_pipelines.draw(seed)
    check_target(pipeline.schedule, pipeline.tensors)
    check_target(*random_tensorized.program(random_tensorized.draw(seed, small=True)))


def test_a_schedule_prints_as_a_person_writes_it() -> None:
    _, _, C = product()
    s = made_by(TILED, [C])
    assert s.as_python() == TILED


def test_variables_of_the_program_keep_their_names() -> None:
    left, right, out = product()
    terms = out.op.reduce_axis[0]
    s = te.create_schedule(out.op)
    s[out].split(terms, factor=4)
    near = s.cache_read(left, "local", [out])
    text = s.as_python({"left": left, "right": right, "out": out, "terms": terms, "near": near})
    assert text == (
        "from tilewright import te\n\ns = te.create_schedule(out.op)\nko, ki = s[out].split(terms, factor=4)\n"
        'near = s.cache_read(left, "local", [out])\n'
    )


def test_expressions_are_python() -> None:
    A, _, C = product()
    D = te.compute((64, 64), lambda i, j: C[i, j] + 1.0, name="D")
    s = te.create_schedule(D.op)
    s[C].transform_layout(lambda i, j: [j // 4, i, j % 4])
    tx = te.thread_axis("threadIdx.x")
    s[D].bind(D.op.axis[0], tx)
    s[D].set_store_predicate(tw.tir.all(tx.var < 60, tx.var >= 0))
    text = s.as_python()
    assert "j0, i, j1" not in text
    assert "transform_layout(lambda y, x: [x // 4, y, x % 4])" in text
    assert "set_store_predicate(tir.all(threadIdx_x < 60, threadIdx_x >= 0))" in text
    assert made_by(text, [D]).recorded == s.recorded
    assert lowered(made_by(text, [D]), [A, C.op.input_tensors[1], D]) == lowered(s, [A, C.op.input_tensors[1], D])


def test_steps_without_effect_are_left_out() -> None:
    _, _, C = product()
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    s[C].fuse(x)
    s[C].reorder(y, x)
    s[C].reorder(x, y)
    assert s.as_python().count("fuse") == 0
    assert s.as_python().count("reorder") == 1


def test_an_intrinsic_of_the_program_is_a_parameter() -> None:
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: a[i] * 2.0, name="b")

    def body(ins: Any, outs: Any) -> Any:
        return tw.tir.call_extern("int32", "twice", ins[0].access_ptr("r"), outs[0].access_ptr("w"))

    twice = te.decl_tensor_intrin(b.op, body, name="twice")
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    _, inner = s[B].split(B.op.axis[0], factor=4)
    s[B].tensorize(inner, twice)
    text = s.as_python()
    assert "def schedule(B, twice):" in text
    assert lowered(made_by(text, [B, twice]), [A, B]) == lowered(s, [A, B])
    assert s.as_python({"B": B, "two": twice}).endswith("s[B].tensorize(ii, two)\n")


def test_names_that_are_missing_are_errors() -> None:
    _, _, C = product()
    s = te.create_schedule(C.op)
    with pytest.raises(UserError, match="no variable for the output 'C'"):
        s.as_python({"c": 1})
    with pytest.raises(UserError, match="declaration is 3, which is not a mapping"):
        s.as_python(3)
    unknown = te.size_var("unknown")
    s[C].split(C.op.axis[0], factor=unknown)
    with pytest.raises(UserError, match="size 'unknown' is no extent"):
        s.as_python()
    assert "factor=width" in s.as_python({"C": C, "width": unknown})


@pytest.mark.parametrize("part", range(2))
def test_random_schedules_replay_from_their_text(part: int) -> None:
    for seed in range(part, 100, 2):
        check_script(seed)


def test_pipelines_and_matrix_instructions_replay_from_their_text() -> None:
    for seed in range(3):
        check_seed(seed)


def test_shipped_schedules_replay_from_their_text() -> None:
    for line in list(records().values())[::80]:
        check_record(line)


@pytest.mark.slow
def test_many_replay_from_their_text() -> None:
    for seed in range(100, 1500):
        check_script(seed)
    for seed in range(3, 60):
        check_seed(seed)
    for line in list(records().values())[::3]:
        check_record(line)
