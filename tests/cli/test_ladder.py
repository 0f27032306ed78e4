"""`tilewright ladder`: the table, the saved files, the errors."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tilewright
from tests.interrupts import heed_ctrl_c
from tests.warm import tilewright as tilewright_command
from tilewright.cli import main
from tilewright.cli.app import app
from tilewright.cli.devices import choose_device
from tilewright.core.errors import UserError
from tilewright.runtime.device import Device, opencl

SMALL = {
    "conv1d": ["--M", "61", "--N", "7"],
    "depthwise": ["--batch", "1", "--channels", "2", "--height", "5", "--width", "9", "--kernel", "3"],
}
VARIANTS = {"conv1d": ["naive", "v1", "v2", "v3", "v4", "v5"], "depthwise": ["naive", "v1", "v2", "v3", "v4"]}
Done = subprocess.CompletedProcess[str]
Climb = Callable[..., Done]
COMMAND = [sys.executable, "-m", "tilewright", "ladder"]


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """`hidden("torch")`: a folder for PYTHONPATH with which those packages look as if they were not installed."""

    def make(*names: str) -> str:
        folder = tmp_path_factory.mktemp("hidden")
        (folder / "sitecustomize.py").write_text(
            "import importlib.util as u\nfind = u.find_spec\n"
            f"u.find_spec = lambda name, *rest: None if name in {names} else find(name, *rest)\n"
        )
        return str(folder)

    return make


@pytest.fixture(scope="module")
def climb(hidden: Callable[..., str]) -> Climb:
    """Runs the command at a small size, without PyTorch, which takes seconds to load."""
    without = hidden("torch") if importlib.util.find_spec("torch") else ""

    def run(name: str, *options: str, path: str = without) -> Done:
        options = (name, *SMALL[name], "--repeat", "3", *options)
        if not path:
            return tilewright_command("ladder", *options)
        command = [*COMMAND, *options]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")]))}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=900)

    return run


def table(stdout: str) -> list[str]:
    """The lines of the table, from its heads on."""
    lines = stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("variant "))
    end = next((i for i in range(start, len(lines)) if not lines[i]), len(lines))
    return lines[start:end]


@pytest.mark.opencl
@pytest.mark.parametrize("name", SMALL)
def test_every_variant_has_a_row_and_columns_align(climb: Climb, name: str) -> None:
    done = climb(name, "--target", "opencl")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no progress line where nobody watches
    assert "\x1b" not in done.stdout
    heads, rule, *rows = table(done.stdout)
    first_words = [row.split()[0] for row in rows if not row.startswith("─")]
    assert first_words[: len(VARIANTS[name]) + 1] == [*VARIANTS[name], "NumPy"]
    ends = [i for i, cell in enumerate(rule) if cell == "─" and (i + 1 == len(rule) or rule[i + 1] == " ")]
    assert len(rule) >= 100
    for row in rows:
        assert len(row) == len(rule)
        # The columns of numbers end where their rules end, and nothing stands in the gaps.
        assert all(row[end] != " " for end in ends[2:])
        assert all(row[end + 1 : end + 3] == "  " for end in ends[:-1])
    assert heads.split("  ")[0] == "variant"
    assert "1.00×" in next(row for row in rows if row.startswith("naive"))


@pytest.mark.opencl
def test_chosen_variants_with_their_programs_and_sources(climb: Climb) -> None:
    done = climb("conv1d", "--target", "opencl", "-v", "v5", "--variant", "v2", "--show-ir", "--show-source")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("@T.prim_func") == done.stdout.count("__kernel void") == 2
    rows = table(done.stdout)[2:]
    assert [row.split()[0] for row in rows][:2] == ["v2", "v5"]
    # Neither naive nor the variant before was measured.
    assert all(row.split()[-3:-1] == ["–", "–"] for row in rows[:2])


@pytest.mark.opencl
def test_what_is_saved(climb: Climb, tmp_path: Path) -> None:
    where = tmp_path / "deep" / "results"
    done = climb("depthwise", "--target", "opencl", "--variant", "naive", "--variant", "v4", "--save", str(where))
    assert done.returncode == 0, done.stderr
    assert f"saved in {where}" in done.stdout
    names = {path.name for path in where.iterdir()}
    charts = {"speedup.png", "speedup.svg"} if "tilewright[plot]" not in done.stdout else set()
    assert names == {"naive.txt", "naive.cl", "v4.txt", "v4.cl", "table.json"} | charts
    assert (where / "v4.txt").read_text().count("T.launch_thread") == 4
    assert "__kernel" in (where / "v4.cl").read_text()
    saved = json.loads((where / "table.json").read_text())
    assert saved["sizes"]["height"] == 5
    assert saved["environment"]["device"]["kind"] == "opencl"
    assert saved["environment"]["command"].startswith("tilewright ladder depthwise ")
    naive, v4, *_ = saved["rows"]
    assert v4["seconds"] == pytest.approx(naive["seconds"] / v4["times_over_first"])
    assert len(v4["measurements"]) == 3
    assert v4["max_error"] < 1e-6


@pytest.mark.opencl
def test_charts_are_optional(climb: Climb, hidden: Callable[..., str], tmp_path: Path) -> None:
    where = tmp_path / "out"
    done = climb("conv1d", "-t", "opencl", "-v", "v1", "--save", str(where), path=hidden("torch", "matplotlib"))
    assert done.returncode == 0, done.stderr
    assert "pip install 'tilewright[plot]'" in done.stdout
    assert "pip install 'tilewright[torch]'" in done.stdout
    assert {path.name for path in where.iterdir()} == {"v1.txt", "v1.cl", "table.json"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--variant", "v9"],
            "error: there is no variant 'v9' of conv1d\n  fix: choose from naive, v1, v2, v3, v4, v5\n",
        ),
        (
            ["--target", "llvm"],
            "error: target 'llvm' has no blocks and threads, which these schedules bind loops to\n  fix: use opencl, "
            "which runs them on the CPU too; for schedules made for llvm: tilewright tune\n",
        ),
        (["--target", "metal"], "error: there is no target 'metal' here\n  fix: use cuda or opencl\n"),
        (["--dtype", "int8"], "error: dtype 'int8' is not covered\n  fix: use float32 or float64\n"),
        pytest.param(
            ["--save", "/dev/null/x"],
            "error: cannot write to /dev/null/x: Not a directory\n"
            "  fix: give a place that can be written, such as a folder below your own\n",
            marks=pytest.mark.opencl,
        ),
    ],
)
def test_a_wrong_option_is_two_lines_and_status_2(
    options: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(["conv1d", *SMALL["conv1d"], *options], monkeypatch, capsys) == message


@pytest.mark.parametrize(
    ("present", "known", "fix"),
    [
        (["cuda", "cpu"], ("cuda", "opencl"), "--target cuda"),
        (["cuda", "cpu"], ("cuda", "opencl", "llvm"), "--target cuda or --target llvm"),
        (["cpu"], ("cuda", "opencl"), "pip install 'tilewright[opencl]', which makes the CPU a device"),
    ],
)
def test_without_the_device_the_command_says_what_it_can_be_told(
    present: list[str], known: tuple[str, ...], fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Device, "exist", property(lambda on: on.kind in present))
    monkeypatch.setattr(type(opencl().driver), "why_not", lambda driver: "no OpenCL: none is installed")
    with pytest.raises(UserError, match="no OpenCL: none is installed") as caught:
        choose_device("opencl", known)
    assert caught.value.fix == fix


def test_an_even_kernel(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert "use an odd one, such as 5" in refused(["depthwise", "--kernel", "4"], monkeypatch, capsys)


def refused(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """Run the command in this process, which must refuse its arguments: what it writes to stderr."""
    monkeypatch.setattr(sys, "argv", ["tilewright", "ladder", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def test_a_mistake_ends_the_process_with_status_2(climb: Climb) -> None:
    done = climb("conv1d", "--variant", "v9")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: there is no variant 'v9' of conv1d\n")


@pytest.mark.opencl
def test_ctrl_c_ends_with_a_short_line_and_whole_files(tmp_path: Path) -> None:
    for size in (4_000, 16_000, 64_000):  # it may be over before we come to interrupt it
        folder = tmp_path / str(size)
        command = [*COMMAND, "conv1d", "--M", str(size), "-t", "opencl", "--save", str(folder)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, **pipes, text=True, preexec_fn=heed_ctrl_c)
        while process.poll() is None and not (folder / "naive.cl").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
        if process.returncode:
            break
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert re.fullmatch(r"interrupted after (1 row|\d+ rows)", out.splitlines()[-1])
    assert all(not path.name.startswith(".") for path in folder.iterdir())


@pytest.mark.parametrize("command", [[], ["ladder"], ["ladder", "conv1d"], ["ladder", "depthwise"], ["run"], ["tune"]])
def test_help_reads_well(command: list[str]) -> None:
    done = CliRunner().invoke(app, [*command, "--help"], prog_name="tilewright")
    assert done.exit_code == 0
    assert " ".join(["Usage: tilewright", *command]) in done.output
    assert "<bool>" not in done.output


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        (["log", "show"], "log show [OPTIONS] LOG"),
        (["log", "merge"], "log merge [OPTIONS] LOG..."),
        (["cache", "export"], "cache export [OPTIONS] FILE"),
    ],
)
def test_usage_names_arguments_plainly(command: list[str], usage: str) -> None:
    done = CliRunner().invoke(app, [*command, "--help"], prog_name="tilewright")
    assert re.search(rf"^ *Usage: tilewright {re.escape(usage)} *$", done.output, re.M), done.output


def test_the_version() -> None:
    done = subprocess.run([sys.executable, "-m", "tilewright", "--version"], capture_output=True, text=True)
    assert done.stdout == f"tilewright {tilewright.__version__}\n"
