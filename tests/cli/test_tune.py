"""`tilewright tune`: what it says, what it keeps, how it ends."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from tests.interrupts import heed_ctrl_c
from tilewright import autotvm
from tilewright.autotvm.record import load_from_file
from tilewright.cli.app import app
from tilewright.cli.app_tune import app as app_tune
from tilewright.cli.tune import strategy_names
from tilewright.core.errors import UserError
from tilewright.measure.batch import Batch

COMMAND = [sys.executable, "-m", "tilewright", "tune"]
QUICK = ["--timeout", "600", "--number", "1", "--repeat", "1", "--min-repeat-ms", "0", "--seed", "0"]
CONV1D = ["conv1d", "--shape", "300", "--kernel", "5", *QUICK]
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def tune(*arguments):
    """The exit status and the output of a command, run in this process."""
    done = CliRunner().invoke(app, ["tune", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def trials(log):
    """The configurations that a log holds measurements of, repetitions left out; every line must be a record."""
    problems = []
    pairs = list(load_from_file(log, problems))
    assert problems == []
    return [inp.config.index for inp, _ in pairs if not inp.notes.refused and not inp.notes.confirmed]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A run on the CPU, far from any terminal: (log, output)."""
    log = tmp_path_factory.mktemp("tuned") / "here.log"
    status, text = tune(*CONV1D, "--target", "llvm", "--trials", 5, "--log", log)
    assert status == 0, text
    return log, text


def test_without_a_terminal_every_trial_has_a_line(tuned):
    log, text = tuned
    assert "\x1b" not in text
    assert text.startswith("conv1d  shape 300  kernel 5  stride 1  padding 4  dtype float32\ntarget llvm: ")
    assert f"80 configurations; 5 trials by auto\nlog: {log}\n" in text
    lines = re.findall(r"^trial (\d)  [\d.,]+ GFLOPS  [\d.,]+ µs(?:  best)?$", text, re.M)
    assert lines == ["1", "2", "3", "4", "5"]
    assert len(trials(log)) == 5


def test_the_summary_has_the_best_in_words_and_beside_its_rivals(tuned):
    _, text = tuned
    assert re.search(
        r"^5 trials in [\d.]+ s, [\d.]+ s of it measuring; 0 configurations refused without measuring$", text, re.M
    )
    assert re.search(
        r"^best: [\d.]+ GFLOPS, [\d.]+ [µm]s, index \d+(?:, the default configuration)?\n"
        r"  tile +304 = \d+ × \d+ × \d+\n",
        text,
        re.M,
    )
    tuned_row, numpy_row = (re.search(rf"^{who}  +.*$", text, re.M) for who in ("tuned", "NumPy, on the CPU"))
    for row in (tuned_row, numpy_row):
        assert float(row[0].split()[-1]) < 1e-5
        assert float(row[0].split()[-2].rstrip("×")) > 0


def test_the_program_that_it_prints_applies_the_best(tuned, caplog):
    log, text = tuned
    program = text.partition("To use the best:\n")[2].partition("\n\n")[0]
    names = {}
    exec("\n".join(line.removeprefix("  ") for line in program.splitlines()), names)
    assert "fallback" not in caplog.text  # the log knew the workload
    a, w = np.arange(300, dtype="float32"), np.ones(5, "float32")
    out = names["tw"].nd.empty((304,), "float32")
    names["func"](names["tw"].nd.array(a), names["tw"].nd.array(w), out)
    np.testing.assert_allclose(out.numpy(), np.convolve(a, w), rtol=1e-6)
    assert f'apply_history_best("{log}")' in text


def test_a_log_is_gone_on_with(tuned, tmp_path):
    log = tmp_path / "copy.log"
    log.write_bytes(tuned[0].read_bytes())
    before = trials(log)
    again = (*CONV1D, "--target", "llvm", "--log", log)
    status, text = tune(*again, "--trials", 5)
    assert status == 0
    assert f"log: {log}, which holds 5 trials of this workload: they count, and are not measured again" in text
    assert "nothing is left to measure: for more, give --trials above 5, or --no-resume" in text
    assert "\ntrial " not in text
    assert trials(log) == before

    status, text = tune(*again, "--trials", 7, "--tuner", "random")
    assert "7 trials in " in text
    assert "5 trials read from the log" in text
    after = trials(log)
    assert after[:5] == before
    assert len(set(after)) == 7

    status, text = tune(*again, "--trials", 2, "--no-resume", "--no-check", "--tuner", "gridsearch")
    assert "which holds 7 trials of this workload; they may be measured again" in text
    assert trials(log)[:7] == after
    default = autotvm.templates.conv1d.task("llvm", shape=300, kernel=5).default
    assert sorted(trials(log)[7:]) == [0, default], "the default first, then the grid"


def test_another_workload_in_the_same_log_is_another_matter(tuned, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    log = Path("depthwise.log")  # the name that is used where none is given
    log.write_bytes(tuned[0].read_bytes())
    status, text = tune(
        "depthwise", "--shape", "1x2x5x9", "--target", "llvm", "--trials", 2, "--tuner", "ga", *QUICK,
        "--plot", "curve.svg",
    )  # fmt: skip
    assert status == 0, text
    assert "\nlog: depthwise.log\n" in text
    assert "1 curve in curve.svg" in text
    assert Path("curve.svg").read_text(encoding="utf-8").count("<svg") == 1
    assert "autotvm.templates.depthwise(shape=(1, 2, 5, 9))" in text
    assert len(trials(log)) == 7


def test_nothing_that_can_be_measured_is_a_failure(monkeypatch, tmp_path):
    # Even a millisecond can be enough for a build where the tuner itself has to wait for a processor.
    monkeypatch.setattr(Batch, "_build", lambda self, given: time.sleep(600))
    log = tmp_path / "a.log"
    status, text = tune(*CONV1D, "--target", "llvm", "--trials", 2, "--timeout", "0.2", "--log", log)
    assert status == 1
    assert "no configuration could be measured" in text
    assert "build timeout: 2 (" in text
    assert "trial 1  failed: build timeout\ntrial 2  failed: build timeout\n" in text
    assert f"failures: tilewright log show {log}" in text


def test_a_budget_of_time_ends_the_search(tmp_path):
    log = tmp_path / "a.log"
    began = time.monotonic()
    status, text = tune(*CONV1D, "--target", "llvm", "--budget", "1s", "--log", log)
    assert status == 0, text
    assert "80 configurations; 1 s by auto\n" in text
    assert 1 <= len(trials(log)) < 80 or time.monotonic() - began < 30


# On a terminal


def on_a_terminal(command, cwd, interrupt_at=None):
    """Run on a pseudo-terminal; Ctrl-C once the pattern has shown. Returns the status, and all that was written."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(cwd)
        heed_ctrl_c()
        os.environ.update(TERM="xterm", COLUMNS="120", LINES="40")
        os.execvp(command[0], command)
    written, sent, deadline = b"", False, time.monotonic() + 600  # for machines under load: ends much earlier
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # the other end is closed
            break
        written += part
        if interrupt_at and not sent and re.search(interrupt_at, ESCAPES.sub("", written.decode(errors="replace"))):
            os.write(terminal, b"\x03")
            sent = True
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), ESCAPES.sub("", written.decode(errors="replace"))


@pytest.mark.opencl
def test_a_line_moves_and_ctrl_c_keeps_what_was_found(tmp_path):
    command = [*COMMAND, *CONV1D, "--target", "opencl", "--tuner", "random", "--trials", "5000"]
    status, text = on_a_terminal(command, tmp_path, interrupt_at=r" (?:[3-9]|\d{2,})/5000 best [\d.]+ now")
    assert status == 130, text
    assert "waiting for the first result" in text
    assert re.search(r"topi/conv1d \S+ +\d+/5000 best [\d.]+ now [\d.]+ GFLOPS  [\d.]+/s", text)
    assert re.search(r"trial \d+  [\d.,]+ GFLOPS  [\d.,]+ µs  best", text)
    assert re.search(r"Interrupted after \d+ trials; the best so far is kept", text)
    assert re.search(r"best: [\d.]+ GFLOPS", text)
    assert "interrupted; the same command goes on from here" in text
    assert "Traceback" not in text
    kept = trials(tmp_path / "conv1d.log")
    assert len(kept) >= 3
    more = [*command[:-1], str(len(kept) + 2)]
    status, text = on_a_terminal(more, tmp_path)
    assert status == 0, text
    assert f"which holds {len(kept)} trials of this workload: they count" in text
    after = trials(tmp_path / "conv1d.log")
    assert after[: len(kept)] == kept
    assert len(set(after)) == len(kept) + 2


# Mistakes


@pytest.mark.parametrize(
    ("options", "message", "fix"),
    [
        ("conv2d", "--shape is missing", "--shape 1x64x56x56"),
        ("conv1d", "--shape is missing", "--shape 16384"),
        ("conv2d --shape 1,2,3,4", "--shape '1,2,3,4' is not a list of numbers joined by x", "write --shape 1x2x3x4"),
        ("conv2d --shape 1x2x3", "--shape 1x2x3 is not NxCxHxW", "say 1x64x56x56"),
        ("conv1d --shape 12x3", "--shape 12x3 is not a length", "say 16384"),
        ("conv2d --shape 1x4x7x7 --kernel 3x", "--kernel '3x' is not a list of numbers joined by x", "--kernel 3"),
        (
            "conv2d --shape 1x4x7x7 --kernel 9 --padding 0",
            "--kernel 9x9 is larger than the padded input, 7x7",
            "kernel",
        ),
        ("conv2d --shape 1x4x7x7 --stride 0", "--stride 0 is not a whole number, or 2 of them,", "say 3"),
        (
            "conv2d --shape 1x4x7x7 --padding some",
            "--padding 'some' is not a list of numbers",
            "one of same, valid, full",
        ),
        ("conv2d --shape 1x4x7x7 --groups 3", "--groups 3 does not divide 4 channels and 4 filters", "divisor"),
        ("conv2d --shape 1x4x7x7 --filters 0", "--filters 0 is not a whole number of at least 1", "say 3"),
        ("depthwise --shape 1x4x7x7 --multiplier 0", "--multiplier 0 is not a whole number of at least 1", "say 3"),
        (
            "depthwise --shape 1x4x7x7 --dtype int8",
            "--dtype int8 is not covered",
            "give float32, float64, float16, bfloat16",
        ),
        ("depthwise --shape 1x4x7x7 --trials 0", "--trials 0 is less than 1", "give 1 or more"),
        ("conv1d --shape 64 --least-gain 1.5", "--least-gain 1.5 is not a fraction", "such as 0.01"),
        ("conv1d --shape 64 --least-gain nan", "--least-gain nan is not a fraction", "such as 0.01"),
        ("conv1d --shape 64 --least-gain 0.1 --tuner ga", "--least-gain: the tuner ga", "--early-stopping N"),
        ("depthwise --shape 1x4x7x7 --early-stopping 0", "--early-stopping 0 is less than 1", "give 1 or more"),
        ("depthwise --shape 1x4x7x7 --repeat 0", "--repeat 0 is less than 1", "give 1 or more"),
        ("depthwise --shape 1x4x7x7 --seed -1", "--seed -1 is less than 0", "give 0 or more"),
        ("depthwise --shape 1x4x7x7 --timeout 0", "--timeout 0 is not a positive time", "give seconds, such as 10"),
        ("depthwise --shape 1x4x7x7 --budget soon", "--budget 'soon' is not a duration", "15s, 2m, 1h"),
        ("depthwise --shape 1x4x7x7 --tuner best", "--tuner best is unknown", "use auto, xgb, ga, random, gridsearch"),
        ("depthwise --shape 1x4x7x7 --target metal", "there is no target 'metal' here", "use cuda, opencl or llvm"),
        (
            "depthwise --shape 1x4x7x7 --log /dev/null/x",
            "--log /dev/null/x: cannot write to /dev/null/x",
            "name a file",
        ),
        ("depthwise --shape 1x4x7x7 --plot x.gif", "x.gif: unknown kind of file", "end the name in .svg"),
        ("depthwise --shape 1x4x7x7 --plot no/x.svg", "cannot write no/x.svg: there is no folder no", "that exists"),
    ],
)
def test_a_wrong_option_is_named_with_its_value(options, message, fix, tmp_path, monkeypatch):
    if "--plot" in options:
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    target = [] if "--target" in options else ["--target", "llvm"]
    with pytest.raises(UserError) as caught:
        tune(*options.split(), *target)
    assert caught.value.message.startswith(message)
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--dtype", "int8"], "topi/conv2d"),
        (["--dtype", "bfloat16", "--layout", "NHWC"], "topi/conv2d.direct"),  # the usual template has no such layout
    ],
)
def test_every_type_is_checked_by_its_own_bound(options, name, tmp_path):
    log = tmp_path / "x.log"
    status, text = tune("conv2d", "--shape", "1x4x3x3", *options, *QUICK, "--target", "llvm", "-n", 1, "--log", log)
    assert status == 0, text
    assert re.search(r"^tuned .*×", text, re.M)
    assert "wrong" not in text
    assert next(iter(load_from_file(log, [])))[0].task.name == name


@pytest.mark.parametrize("operator", ["conv2d", "depthwise", "dense", "batch_matmul"])
def test_every_strategy_of_an_operator_is_in_its_help_and_completed(operator):
    names = strategy_names(operator)
    command = get_command(app_tune).commands[operator]
    (option,) = (p for p in command.params if p.name == "strategy")
    with command.make_context(operator, [], resilient_parsing=True) as of:
        command.format_help(of, of.make_formatter())
    assert re.findall(r"\((\w+)\)", option.help) == names
    context = SimpleNamespace(info_name=operator)

    def completed(beginning):
        return [getattr(found, "value", found) for found in option.shell_complete(context, beginning)]

    assert sorted(completed("")) == sorted(names)
    assert "general,mma" in completed("general,m")
    assert completed("general,g") == [f"general,{name}" for name in names if name.startswith("g") and name != "general"]


def test_all_strategies_that_cover_a_layer_are_searched_in_one_log(tmp_path):
    log = tmp_path / "layer.log"
    command = ("conv2d", "--shape", "1x16x2x2", "--target", "llvm", "--log", log, *QUICK)
    status, text = tune(*command, "-n", 6)
    assert status == 0, text
    assert " configurations of 2 strategies (direct, general); 6 trials by auto\n" in text
    assert re.findall(r"^trial \d .* by (\w+)$", text, re.M).count("general") >= 1
    rows = re.findall(r"^(general|direct) +(\d+) +[\d.]+ [µm]s +[\d.]+ [µm]s +[\d.]+$", text, re.M)
    assert {name for name, _ in rows} == {"general", "direct"}
    assert sum(int(count) for _, count in rows) == 6 == len(trials(log))
    tuned_by = re.search(r"^tuned, (\w+) ", text, re.M)[1]
    assert re.search(r"^untuned, direct ", text, re.M) or "no trial was faster than the default configuration" in text
    assert tuned_by in {"general", "direct"}
    inputs = [inp for inp, _ in load_from_file(log, [])]
    assert {inp.task.name for inp in inputs} == {"topi/conv2d", "topi/conv2d.direct"}
    assert {inp.task.name for inp in inputs[:2]} == {inp.task.name for inp in inputs}, "the defaults come first"
    assert all(inp.notes.default for inp in inputs[:2])
    assert "autotvm.templates.conv2d(shape=(1, 16, 2, 2))" in text, "the program takes the fastest strategy of the log"

    status, text = tune(*command, "-n", 7)
    assert "which holds 6 trials of this workload: they count" in text
    assert len(trials(log)) == 7
    status, text = tune(*command, "-n", 1, "--strategy", "general")
    assert status == 0, text
    assert "strategies (" not in text
    assert "direct" not in text.partition("To use the best")[0]


def test_an_unknown_strategy_is_named_with_those_that_exist(tmp_path):
    with pytest.raises(UserError, match=r"^--strategy: 'gem' is not a strategy of conv2d") as caught:
        tune("conv2d", "--shape", "1x4x5x5", "--strategy", "general,gem", "--target", "llvm")
    assert all(repr(name) in caught.value.fix for name in strategy_names("conv2d"))


def test_help_breaks_no_placeholder_of_an_option(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for name, command in get_command(app_tune).commands.items():
        status, text = tune(name, "--help")
        assert status == 0
        assert [p.name for p in command.params if p.metavar and not re.search(rf" {re.escape(p.metavar)} ", text)] == []


def test_a_matrix_product_takes_a_strategy():
    with pytest.raises(UserError, match=r"^--strategy mma does not cover dense .* on llvm"):
        tune("dense", "--shape", "4x8", "--units", "4", "--strategy", "mma", "--target", "llvm")


def test_a_strategy_that_does_not_cover_the_workload_is_refused():
    with pytest.raises(UserError, match=r"^--strategy mma does not cover conv2d .* on llvm") as caught:
        tune("conv2d", "--shape", "1x4x5x5", "--strategy", "mma", "--target", "llvm")
    assert str(caught.value.message).endswith(
        " on llvm: it is for large groups, float16, bfloat16, float32, int8 or uint8 on GPUs with matrix instructions"
    )
    assert caught.value.fix == "leave it out"


def test_help_shows_an_example_of_each_command():
    done = {name: tune(name, "--help") for name in ("conv1d", "conv2d", "depthwise")}
    for name, (status, text) in done.items():
        assert status == 0
        assert f"Example: tilewright tune {name} --shape" in " ".join(text.split())
        assert f"{name}.log" in text


def test_a_mistake_is_two_lines_and_status_2():
    done = subprocess.run([*COMMAND, "conv1d", "--shape", "0"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: --shape 0 is not a length\n  fix: give one length: say 16384 (each at least 1)\n"
