"""Logs: the legacy system's lines read, ours written, nothing lost to a crash, nothing unreadable in the way."""

from __future__ import annotations

import io
import json
import math
import os
import random
import signal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tune import fakes
from tilewright import autotvm, te
from tilewright.autotvm.record import decode, encode, load_from_file, measure_str_key, merge, pick_best, split_workload
from tilewright.error import UserError
from tilewright.target import Target
from tilewright.tune.records.format import COMPILER, Notes
from tilewright.tune.records.history import History
from tilewright.tune.records.log import RecordLog, SkippedLine

LEGACY = Path(__file__).parent / "legacy"
LOGS = sorted(LEGACY.glob("*.json"))


@autotvm.template("tutorial/matmul")
def matmul(N, L, M, dtype):
    """The legacy tutorial's matrix product, whose log is among the legacy ones."""
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = C.op.axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    cfg.define_annotate("ann", [y], policy="try_unroll")
    cfg.define_knob("vec", [0, 1])
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, k, yi, xi)
    cfg["ann"].apply(s, C, [yi])
    if cfg["vec"].val:
        s[C].vectorize(xi)
    return s, [A, B, C]


def pair(index=0, seconds=1e-3, error_no=0, task=None, target=None, **notes):
    """One measurement of the stand-in template."""
    task = task or fakes.add_task()
    inp = autotvm.MeasureInput(Target(target or "opencl"), task, task.config_space.get(index)).noted(Notes(**notes))
    costs = (seconds,) if not error_no else (RuntimeError("broken"),)
    return inp, autotvm.MeasureResult(costs, error_no, 0.5, 1700000000.0 + index)


# Legacy logs


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_legacy_lines_are_read_and_written_as_they_were(log):
    for row, (inp, result) in zip(log.read_text(encoding="utf-8").splitlines(), load_from_file(log), strict=True):
        old, new = json.loads(row), json.loads(encode(inp, result))
        assert Target(old["input"].pop(0)) == Target(new["input"].pop(0))  # a target has more than one spelling
        assert old.pop("tvm_version") == "0.19.0"
        assert new == old
        assert decode(encode(inp, result))[0].config == inp.config


def test_a_legacy_configuration_is_the_one_of_its_index():
    task = autotvm.task.create("tutorial/matmul", (128, 128, 128, "float32"), "llvm")
    for inp, _ in load_from_file(LEGACY / "matmul_llvm_v0.19.json"):
        assert inp.task.workload == task.workload
        assert task.config_space.get(inp.config.index) == inp.config
        assert str(task.config_space.get(inp.config.index)) == str(inp.config)


def test_a_legacy_log_applies_on_its_target():
    log = LEGACY / "matmul_llvm_v0.19.json"
    fastest = min(load_from_file(log), key=lambda p: sum(p[1].costs) / len(p[1].costs))[0].config
    with autotvm.apply_history_best(str(log)) as history, Target("llvm"):
        s, _ = matmul(128, 128, 128, "float32")
        assert history.query(Target("llvm"), ("tutorial/matmul", 128, 128, 128, "float32")) == fastest
    task = autotvm.task.create("tutorial/matmul", (128, 128, 128, "float32"), "llvm")
    assert [x.to_json() for x in s.steps] == [x.to_json() for x in task.instantiate(fastest)[0].steps]


def test_lines_of_version_01_are_read():
    row = {
        "i": ["opencl", "tests/add", [4096], {}, ["tests/add", 4096], {"i": 3, "t": "", "c": None, "e": [
            ["x", "sp", [-1, 8, 2]], ["unroll", "ot", 1],
        ]}],
        "r": [[0.001], 0, 0.2, 1500000000.0],
        "v": 0.1,
    }  # fmt: skip
    inp, result = decode(json.dumps(row))
    assert inp.task.workload == ("tests/add", 4096)
    assert str(inp.config) == "[('x', [-1, 8, 2]), ('unroll', 1)],None,3"
    assert result == autotvm.MeasureResult((0.001,), 0, 0.2, 1500000000.0)


# Our lines

SAID = {"device": "H", "compiler": "c 1", "reason": "it faults", "step": "bind at a.py:3"}


def test_a_line_says_all_that_is_known_and_the_format_stays_legacy():
    row = json.loads(encode(*pair(5, error_no=4, **SAID)))
    assert list(row)[:4] == ["input", "config", "result", "version"]
    assert row["input"] == ["opencl", "tests/add", [4096], {}]
    assert row["result"] == [[1e9], 4, 0.5, 1700000005.0]
    assert row["version"] == 0.2
    assert {name: row[name] for name in SAID} == SAID
    inp, result = decode(json.dumps(row))
    assert (inp.notes.device, inp.notes.reason, inp.notes.refused) == ("H", "it faults", False)
    assert result.costs == (1e9,)


@given(
    st.integers(0, 25),
    st.floats(1e-9, 1e3),
    st.sampled_from([0, 1, 4, 7]),
    st.text(max_size=30),
    st.booleans(),
)
def test_what_is_written_is_what_is_read(index, seconds, error_no, reason, refused):
    inp, result = pair(index, seconds, error_no, reason=reason, refused=refused)
    line = encode(inp, result)
    assert "\n" not in line
    again, read = decode(line)
    assert (again.target, again.task.workload, again.config, again.notes) == (
        inp.target, inp.task.workload, inp.config, inp.notes,
    )  # fmt: skip
    assert read.error_no == error_no
    assert read.costs == ((seconds,) if not error_no else (1e9,))
    assert encode(again, read) == line


def test_a_workload_that_has_no_form_in_json_is_refused():
    inp, result = pair()
    odd = autotvm.MeasureInput(inp.target, autotvm.task.Task("t", (te.var("n"),)), inp.config)
    with pytest.raises(UserError, match="cannot be written to a log"):
        encode(odd, result)


def test_what_was_not_checked_is_written_where_old_readers_pass_over_it():
    row = json.loads(encode(*pair(5, checked=False)))
    assert row["checked"] is False
    assert list(row)[:4] == ["input", "config", "result", "version"]
    assert "checked" not in json.loads(encode(*pair(5)))
    assert not decode(json.dumps(row))[0].notes.checked
    assert decode(encode(*pair(5)))[0].notes.checked


def test_what_was_not_checked_applies_only_where_nothing_else_does_and_not_silently(caplog):
    target, workload = Target("opencl"), fakes.add_task().workload
    doubtful, sure = pair(1, 1e-6, checked=False), pair(2, 1e-3)
    assert autotvm.apply_history_best([doubtful, sure]).query(target, workload) == sure[0].config
    assert autotvm.apply_history_best([sure, doubtful]).query(target, workload) == sure[0].config
    assert not caplog.messages
    history = autotvm.apply_history_best([doubtful])
    for _ in range(2):
        assert history.query(target, workload) == doubtful[0].config
    (message,) = caplog.messages
    assert "was measured without comparing its output with a reference" in message


# Crashes and foreign lines


def test_what_is_no_record_is_reported_and_skipped(tmp_path, caplog):
    log = tmp_path / "a.log"
    good = [encode(*pair(i)) for i in range(3)]
    rows = [
        "# a comment", good[0], "", good[1][:50], "{}", "[1, 2]", '{"input": 3}', "\x00\x00", "nonsense",
        '{"input": ["vax", "t", [], {}], "config": {"index": 0, "code_hash": null, "entity": []}, '
        '"result": [[1.0], 0, 1.0, 1.0]}',
        good[2].replace('"sp"', '"xy"'), good[2],
    ]  # fmt: skip
    log.write_bytes("\n".join(rows).encode() + b"\n\xff\xfe\n" + good[1][:20].encode())
    with caplog.at_level("WARNING", "autotvm"):
        found = [inp.config.index for inp, _ in load_from_file(log)]
    assert found == [0, 2]
    assert len(caplog.records) == 10
    assert f"{log}:4: skipped: this is not a record" in caplog.text
    problems: list[SkippedLine] = []
    assert len(list(load_from_file(log, problems))) == 2
    assert [p.line for p in problems] == [4, 5, 6, 7, 8, 9, 10, 11, 13, 14]


def test_a_torn_line_stays_alone(tmp_path):
    path = tmp_path / "a.log"
    path.write_text(encode(*pair(0)) + "\n" + encode(*pair(1))[:77], encoding="utf-8")
    log = RecordLog(path)
    log.append(encode(*pair(2)), encode(*pair(3)))
    log.close()
    problems: list[SkippedLine] = []
    assert [inp.config.index for inp, _ in load_from_file(path, problems)] == [0, 2, 3]
    assert [p.line for p in problems] == [2]


def test_killing_the_writer_loses_at_most_the_line_being_written(tmp_path):
    path = tmp_path / "a.log"
    line = encode(*pair(1, reason="x" * 500))
    acknowledged = torn = whole = 0
    rng = random.Random(0)
    for attempt in range(50):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:  # the writer: it says so after every line
            log = RecordLog(path)
            while True:
                log.append(line)
                os.write(writer, b".")
        os.close(writer)
        for _ in range(rng.randrange(40)):
            acknowledged += len(os.read(reader, 1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while data := os.read(reader, 1 << 16):
            acknowledged += len(data)
        os.close(reader)
        written = path.read_bytes().splitlines() if path.exists() else []
        whole = written.count(line.encode())
        assert acknowledged <= whole
        torn = len(written) - whole
        assert torn <= attempt + 1
    problems: list[SkippedLine] = []
    assert sum(1 for _ in load_from_file(path, problems)) == whole
    assert len(problems) == torn
    assert acknowledged > 500


def test_several_writers_do_not_mix_their_lines(tmp_path):
    path = tmp_path / "a.log"
    children = []
    for i in range(4):
        child = os.fork()
        if child == 0:
            log = RecordLog(path)
            line = encode(*pair(i, reason="y" * 5000))
            for _ in range(50):
                log.append(line, line)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    problems: list[SkippedLine] = []
    found = [inp.config.index for inp, _ in load_from_file(path, problems)]
    assert sorted(found) == sorted([0, 1, 2, 3] * 100)
    assert not problems


def test_a_log_that_is_deleted_or_replaced_is_gone_on_with(tmp_path):
    path = tmp_path / "a.log"
    log = RecordLog(path)
    log.append("first")
    path.unlink()
    log.append("second")
    assert path.read_text(encoding="utf-8") == "second\n"
    (tmp_path / "b.log").write_text("third\n", encoding="utf-8")
    os.replace(tmp_path / "b.log", path)
    log.append("fourth")
    assert path.read_text(encoding="utf-8") == "third\nfourth\n"


def test_a_log_whose_folder_is_gone_closes_its_file_once(tmp_path):
    folder = tmp_path / "logs"
    log = RecordLog(folder / "a.log")
    (folder / "a.log").unlink()
    folder.rmdir()
    folder.touch()
    with pytest.raises(UserError, match=r"cannot write to .*a\.log"):
        log.append("{}")
    os.fstat(log._file)  # it is open still, and no other file has its number
    log.close()


def test_a_log_that_cannot_be_written_is_a_mistake_at_once(tmp_path):
    with pytest.raises(UserError, match="cannot write"):
        autotvm.callback.log_to_file(str(tmp_path))
    with pytest.raises(UserError, match="cannot read"):
        autotvm.apply_history_best(str(tmp_path / "missing.log"))


def test_costs_may_be_numpys():
    inp, result = pair(1)
    assert decode(encode(inp, result._replace(costs=np.array([1e-3, 2e-3], "float32"))))[1].costs == (
        pytest.approx((1e-3, 2e-3))
    )


def test_what_cannot_be_compared_is_no_record(tmp_path, caplog):
    good = json.loads(encode(*pair(1)))
    odd = [
        {"input": ["opencl", "t", None, {}]},
        {"input": ["opencl", "t", "abc", {}]},
        {"config": {"index": 1, "code_hash": None, "entity": [["x", "an", [["a"]]]]}},
        *({"result": [costs, 0, 1.0, 1.0]} for costs in ([], [0.0], [-1.0], [math.nan], [math.inf], [10**400])),
    ]
    rows = [json.dumps({**good, **change}) for change in odd]
    (tmp_path / "a.log").write_text("\n".join([*rows, "[" * 100_000, json.dumps(good)]) + "\n", encoding="utf-8")
    assert [inp.config.index for inp, _ in load_from_file(tmp_path / "a.log")] == [1]
    assert len(caplog.messages) == len(rows) + 1
    assert "the arguments are None, no list" in caplog.text
    assert "the costs are [nan]" in caplog.text


def test_a_log_of_something_else_is_no_flood_of_warnings(tmp_path, caplog):
    (tmp_path / "a.log").write_text("odd\n" * 5000 + encode(*pair(1)) + "\n", encoding="utf-8")
    assert len(list(load_from_file(tmp_path / "a.log"))) == 1
    assert len(caplog.messages) == 11
    assert caplog.messages[-1] == f"{tmp_path / 'a.log'}: 4990 more lines skipped"


@pytest.mark.parametrize(
    ("target", "keys"),
    [
        ("llvm -keys=cpu -link-params=0 -mcpu=core-avx2", ("cpu",)),
        ("cuda -keys=cuda,gpu -arch=sm_75 -max_num_threads=1024 -model=unknown -thread_warp_size=32", ("cuda", "gpu")),
        (
            "opencl -keys=adreno,opencl,gpu -device=adreno -max_num_threads=256 -texture_spatial_limit=16384 "
            "-thread_warp_size=1",
            ("adreno", "opencl", "gpu"),
        ),
    ],
)
def test_targets_as_legacy_logs_have_them(target, keys):
    line = json.loads(encode(*pair(1)))
    inp, result = decode(json.dumps({**line, "input": [target, *line["input"][1:]]}))
    assert inp.target.keys == keys
    assert decode(encode(inp, result))[0].target == inp.target


def test_a_pipe_or_a_device_takes_lines_and_tells_nothing(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    callback = autotvm.callback.log_to_file(fifo)
    assert list(callback.known()) == []  # reading would wait forever
    reader = os.open(fifo, os.O_RDONLY)
    inp, result = pair(1)
    callback(None, [inp], [result])
    assert os.read(reader, 1 << 16).decode() == encode(inp, result) + "\n"
    os.close(reader)
    log = RecordLog("/dev/null")
    log.append("a line")
    log.close()


# Files and lines that are something else


@pytest.mark.parametrize("depth", [65, 500, 700, 950, 5000])
@pytest.mark.parametrize("bracket", ["[]", "{}"])
def test_nested_brackets_are_no_record(depth, bracket):
    good = encode(*pair(1))
    deep = '{"a": ' * depth + "1" + "}" * depth if bracket == "{}" else "[" * depth + "]" * depth
    for line in (good.replace("[4096]", f"[{deep}]"), deep, good[:-1] + f', "more": {deep}}}'):
        with pytest.raises(UserError, match="nested more than 64 deep"):
            decode(line)
    assert decode(good[:-1] + ', "more": "' + "[" * 5000 + '"}')


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path, what in ((tmp_path / "fifo", "a pipe"), ("/dev/zero", "a device"), (tmp_path, "a folder")):
        for use in (load_from_file, autotvm.apply_history_best, lambda p: pick_best(p, tmp_path / "out")):
            with pytest.raises(UserError, match=f"it is {what}"):
                list(use(path))


def test_a_file_that_opens_and_cannot_be_read():
    with pytest.raises(UserError, match="cannot read /proc/self/mem: Input/output error"):
        list(load_from_file("/proc/self/mem"))


def test_a_line_that_never_ends_costs_neither_memory_nor_time(tmp_path, monkeypatch):
    monkeypatch.setattr("tilewright.tune.records.log._LONGEST_LINE", 1 << 14)
    monkeypatch.setattr("tilewright.tune.records.log._LONGEST_SKIP", 1 << 16)
    path, good = tmp_path / "a.log", encode(*pair(1)).encode() + b"\n"
    path.write_bytes(good + b"x" * 40_000 + b"\n" + good)
    problems = []
    assert len(list(load_from_file(path, problems))) == 2
    assert problems == [SkippedLine(2, "it is longer than 16,384 characters")]
    with path.open("ab") as file:
        file.truncate(1 << 40)  # sparse
    assert len(list(load_from_file(path, problems := []))) == 2
    assert [p.line for p in problems] == [2, 4]


def test_a_byte_order_mark_hides_no_record(tmp_path):
    path = tmp_path / "a.log"
    path.write_text(encode(*pair(1)) + "\n", encoding="utf-8-sig")
    assert [inp.config.index for inp, _ in load_from_file(path)] == [1]
    with path.open(encoding="utf-8") as file:
        assert len(list(autotvm.record.load_from_buffer(file))) == 1
    path.write_text(encode(*pair(1)) + "\n", encoding="utf-16")
    with pytest.raises(UserError, match="it is UTF-16"):
        list(load_from_file(path))
    with path.open(encoding="utf-8") as file, pytest.raises(UserError, match="cannot read"):
        list(autotvm.record.load_from_buffer(file))


def test_numbers_and_text_that_nothing_here_can_hold_are_no_record():
    good = json.loads(encode(*pair(1)))
    huge = 10**300
    odd = [
        {"input": ["opencl", "t", [huge], {}]},
        {"input": ["opencl", "t", [2**70], {}]},
        {"input": ["opencl", "t\ud800", [], {}]},
        {"input": [["opencl"], "t", [], {}]},
        {"result": [[1.0], huge, 1.0, 1.0]},
        {"result": [[1.0], 0.5, 1.0, 1.0]},
        {"result": [[1.0], 0, huge, 1.0]},
        *({"config": {"index": i, "code_hash": None, "entity": []}} for i in (huge, -1, 1.5, True, "1")),
        *({"config": {"index": 1, "code_hash": None, "entity": [["x", tag, data]]}} for tag, data in (
            ("sp", [0, 2]), ("sp", "12"), ("sp", [2**70]), ("sp", [1.5]), ("re", [-1]), ("re", 3), ("an", [[1]]),
            ("ot", "\udcff"),
        )),
    ]  # fmt: skip
    for change in odd:
        with pytest.raises(UserError):
            decode(json.dumps({**good, **change}))


def test_notes_are_made_fit_to_be_shown():
    good = json.loads(encode(*pair(1)))
    notes = decode(json.dumps({**good, "reason": "\udcff" * 10**6, "flop": 1e400, "device": "\ud800"}))[0].notes
    assert len(notes.reason) < 20_000
    assert notes.reason.encode()
    assert notes.device.encode()
    assert notes.flop == 0


def test_text_that_utf8_has_no_form_for_is_written_all_the_same(tmp_path):
    line = encode(*pair(1, reason="\udce9 \ud800"))
    log = RecordLog(tmp_path / "a.log")
    log.append(line)
    log.close()
    assert len(list(load_from_file(tmp_path / "a.log"))) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [(["x", "sp", [-1, 2]], "needs 3 extents"), (["x", "ot", 3], "has 3 for the knob .x., which needs 3 extents")],
)
def test_a_choice_that_does_not_fit_its_knob_is_named(change, said):
    row = json.loads(encode(*pair(1)))
    row["config"]["entity"][0] = change
    with autotvm.apply_history_best([decode(json.dumps(row))]), Target("opencl"), pytest.raises(UserError, match=said):
        fakes.add(4096)


def test_arguments_of_templates_are_not_nested_without_end():
    nested = []
    for _ in range(5000):
        nested = [nested]
    with pytest.raises(UserError, match="nested more than 32 deep"):
        autotvm.task.create("tests/add", (nested,), "opencl")


# The best


def test_the_best_of_several_logs_and_forms(tmp_path):
    task = fakes.add_task()
    first, second = tmp_path / "1.log", tmp_path / "2.log"
    first.write_text("".join(encode(*pair(i, 1e-3 * (9 - i))) + "\n" for i in range(4)), encoding="utf-8")
    second.write_text(encode(*pair(7, 1e-4)) + "\n", encoding="utf-8")

    def best(records):
        return autotvm.apply_history_best(records).query(Target("opencl"), task.workload).index

    with first.open(encoding="utf-8") as opened:
        assert best(str(first)) == best(first) == best(opened) == 3
    assert best([str(first), str(second)]) == 7
    assert best([pair(1, 1e-3), pair(2, 1e-4)]) == 2
    assert best([str(first), [pair(11, 1e-5)]]) == 11
    assert best(io.StringIO(second.read_text(encoding="utf-8"))) == 7
    # As a script that has read them off a log may spell them.
    assert autotvm.apply_history_best(first).query("opencl", list(task.workload)).index == 3


def test_failures_and_other_workloads_and_targets_are_not_applied():
    history = History(
        [pair(1, 1e-3), pair(2, error_no=4), pair(3, 1e-6, task=fakes.add_task(64)), pair(4, 1e-9, target="cuda")]
    )
    workload = fakes.add_task().workload
    assert history.best(Target("opencl"), workload)[0].config.index == 1
    assert history.best(Target("llvm"), workload) is None
    assert history.best(Target("cuda"), workload)[0].config.index == 4


def test_what_names_its_device_is_for_no_target_of_another_kind():
    workload = fakes.add_task().workload
    assert History([pair(1, 1e-3)]).best(Target("cuda"), workload)[0].config.index == 1, "both are of the key gpu"
    assert History([pair(1, 1e-3, device="Here")], lambda _: "Here").best(Target("cuda"), workload) is None


def test_the_model_of_a_target_goes_before_its_keys():
    records = [pair(1, 1e-6), pair(2, 1e-3, target="opencl -model=small")]
    history = History(records)
    assert history.best(Target("opencl -model=small"), fakes.add_task().workload)[0].config.index == 2
    assert history.best(Target("opencl"), fakes.add_task().workload)[0].config.index == 1


def test_what_another_device_or_compiler_measured_is_advice_only(caplog):
    records = [
        pair(1, 1e-3),
        pair(2, 1e-5, device="Here", compiler=COMPILER),
        pair(3, 1e-7, device="Elsewhere"),
        pair(4, 1e-8, compiler="tilewright 0.0.1"),
    ]
    workload = fakes.add_task().workload
    assert History(records, lambda _: "Here").best(Target("opencl"), workload)[0].config.index == 2
    # Where no device is at hand, a log is not judged by its device.
    assert History(records, lambda _: "").best(Target("opencl"), workload)[0].config.index == 3
    with caplog.at_level("WARNING", "autotvm"):
        autotvm.apply_history_best(records)
    assert "are not applied" in caplog.text


def test_a_confirmed_measurement_replaces_the_lucky_one():
    records = [pair(1, 1e-6), pair(2, 2e-6), pair(1, 3e-6, confirmed=True), pair(2, 2.1e-6, confirmed=True)]
    best = History(records).best(Target("opencl"), fakes.add_task().workload)
    assert best[0].config.index == 2
    assert best[1].costs == (2.1e-6,)


def test_contexts_nest_and_update():
    task = fakes.add_task()
    other = fakes.add_task(64)
    with autotvm.apply_history_best([pair(5, 1e-3)]), autotvm.apply_history_best([pair(2, 1e-3, task=other)]) as inner:
        with Target("opencl"):
            assert len(fakes.add(4096)[0].steps) > 0
        assert inner.query(Target("opencl"), task.workload).index == 5
        assert inner.query(Target("opencl"), other.workload).index == 2
        assert autotvm.DispatchContext.current is inner
        inner.update(Target("opencl"), task.workload, task.config_space.get(9))
        assert inner.query(Target("opencl"), task.workload).index == 9
        with pytest.raises(UserError, match="no current target"):
            fakes.add(4096)
    assert isinstance(autotvm.DispatchContext.current, autotvm.FallbackContext)


# Whole files


def test_a_context_that_is_entered_twice_asks_each_once(tmp_path):
    one, other = autotvm.apply_history_best([pair(3)]), autotvm.apply_history_best([])
    known, unknown = fakes.add_task().workload, fakes.add_task(64).workload
    with other, one, other, one, other, Target("opencl") as target:
        assert autotvm.DispatchContext.current is other
        assert other.query(target, known).index == 3
        assert other.query(target, unknown).is_fallback
        assert next(place for place, _ in other.answers(target, [unknown, known])) == 1
    assert autotvm.DispatchContext.current not in (one, other)
    assert other.query(target, known).is_fallback, "it stands directly within the outermost one now"


def test_picking_splitting_and_merging(tmp_path):
    small = fakes.add_task(64)
    rows = [pair(1, 2e-3), pair(2, 1e-3), pair(2, 1e-3), pair(3, error_no=4), pair(0, 5e-3, task=small)]
    log = tmp_path / "a.log"
    log.write_text("".join(encode(*row) + "\n" for row in rows), encoding="utf-8")

    assert pick_best(str(log), str(tmp_path / "best.log")) == 2
    assert sorted(inp.config.index for inp, _ in load_from_file(tmp_path / "best.log")) == [0, 2]
    buffer = io.StringIO()
    pick_best(log, buffer)
    assert buffer.getvalue() == (tmp_path / "best.log").read_text(encoding="utf-8")

    parts = split_workload(str(log))
    assert [[inp.config.index for inp, _ in load_from_file(part)] for part in parts] == [[1, 2, 3], [0]]
    assert merge([log, tmp_path / "best.log"], tmp_path / "all.log") == 4
    assert measure_str_key(rows[1][0]) == measure_str_key(rows[2][0]) != measure_str_key(rows[0][0])


def test_what_is_written_goes_where_a_link_points_and_replaces_no_pipe(tmp_path):
    log, link, fifo = tmp_path / "a.log", tmp_path / "link.log", tmp_path / "fifo"
    log.write_text("".join(encode(*pair(i, 1e-3 / (i + 1))) + "\n" for i in range(3)), encoding="utf-8")
    link.symlink_to(log)
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    assert pick_best(log, fifo) == 1
    assert decode(os.read(reader, 1 << 16).decode())[0].config.index == 2
    os.close(reader)
    assert fifo.is_fifo()
    assert pick_best(log, link) == 1
    assert link.is_symlink()
    assert len(log.read_text(encoding="utf-8").splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.log", "fifo", "link.log"]
