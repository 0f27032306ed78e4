"""`tilewright doctor`: what works here and what does not, without ever failing itself."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import why_no_cuda
from tests.warm import tilewright
from tilewright.cli import calibration, cpu_calibration, doctor
from tilewright.cli.calibration import calibrate
from tilewright.core.cache_folder import DIRECTORY_VARIABLE
from tilewright.core.errors import UserError
from tilewright.report import progress
from tilewright.runtime.driver import DeviceAttributes
from tilewright.tune.model.machine import Rates, keep


def run() -> subprocess.CompletedProcess[str]:
    """The command."""
    return tilewright("doctor")


@pytest.mark.opencl
def test_targets_devices_and_libraries_stand_in_tables() -> None:
    done = run()
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    rows = {line.split()[0]: line for line in lines if line.strip()}
    assert lines[0].startswith("Tilewright 0.")
    assert rows["llvm"].split()[3:5] == ["yes", "llvm(0)"]
    assert rows["opencl"].split()[3] == "yes"
    compiler = importlib.util.find_spec("cuda") is not None
    assert rows["cuda"].split()[2] == ("ms" if compiler else "no")  # it compiles on any machine
    assert "missing" not in rows["numpy"]
    if not compiler:
        assert any(line.startswith("cuda: the CUDA compiler NVRTC is not usable here") for line in lines)
    elif why_no_cuda():
        assert "cuda: libcuda.so.1 not found: no NVIDIA driver here" in lines


def test_the_driver_the_gpu_and_the_compiler_have_their_versions() -> None:
    pytest.importorskip("cuda.bindings")
    gpu: Any = SimpleNamespace(exist=True, attributes=DeviceAttributes("A GPU", "8.9", driver_version="12.4"))
    line = doctor._cuda(gpu).partition(" is ")[2]
    assert re.fullmatch(r"sm_89; the driver runs CUDA 12\.4; NVRTC 1\d\.\d+ compiles for sm_\d+ to sm_\d+", line)


def test_a_target_that_crashes_or_hangs_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def ending(code: str) -> dict[str, Any]:
        monkeypatch.setattr(doctor, "sys", type("", (), {"executable": "/bin/sh"}))
        monkeypatch.setattr(
            doctor.subprocess, "run", lambda command, **options: real(["/bin/sh", "-c", code], **options)
        )
        return doctor.examine("cuda")

    real = subprocess.run
    assert ending("echo boom >&2; kill -9 $$") == {"reason": "trying it ended with signal 9: boom"}
    assert ending("exit 3") == {"reason": "trying it ended with status 3: without a word"}
    monkeypatch.setattr(doctor, "SECONDS", 0.2)
    assert "within 0.2 s: its driver or compiler hangs" in ending("exec sleep 9")["reason"]


def test_an_error_of_ours_is_the_reason(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_program", lambda kind: doctor.device("abacus"))
    doctor.probe("cuda")
    assert "unknown kind of device 'abacus'" in capsys.readouterr().out


def test_files_beside_the_caller_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('not this one')")
    monkeypatch.chdir(tmp_path)
    found = doctor.examine("llvm")
    assert found["devices"][0]["right"], found


def test_a_gpu_of_an_unknown_architecture_is_not_calibrated() -> None:
    on: Any = SimpleNamespace(attributes=DeviceAttributes("A GPU of tomorrow", "99.9", multi_processor_count=1))
    with pytest.raises(UserError, match=r"A GPU of tomorrow has compute version 99\.9, and no data about it are known"):
        calibrate(on)


def test_calibration_announces_its_work_and_shows_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a made-up GPU, and beside a made-up PyTorch; neither output is a terminal."""
    shown: list[str] = []

    def seconds(bench: calibration._Bench, *of: Any) -> float:
        while len(shown) < 2:  # the first kernel takes long
            time.sleep(0.01)
            out, err = capsys.readouterr()
            shown.extend(text for text in (out, err) if text)
        bench.step()
        return 1e-6 if of[0] is calibration._copy else 1e-5

    attributes = DeviceAttributes("NVIDIA Mock", "9.0", multi_processor_count=4, l2_cache_bytes=1 << 20)
    on = SimpleNamespace(exist=True, name="NVIDIA Mock", kind="cuda", attributes=attributes)
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    monkeypatch.setattr(doctor, "device", lambda kind: on)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(cpu_calibration, "calibrate", lambda step: [step() for _ in range(96)] and {})
    monkeypatch.setattr(calibration._Bench, "seconds", seconds)
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.01)
    assert doctor.calibrated() == 0
    assert shown == ["calibrating NVIDIA Mock: 9 kernels, about 10 seconds\n", "0 of 9: small kernels on the GPU\n"]
    assert re.search(r"^calibrating .*: 96 layers, about \d+ minutes$", capsys.readouterr().out, re.M)


def test_rates_that_cannot_be_kept_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "file" / "kernels"))
    with pytest.raises(UserError, match=r"cannot write .*: Not a directory"):
        keep("A GPU", Rates(), 80)
