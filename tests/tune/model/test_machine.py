"""What the model knows of a device: data sheets, and what was measured of it and kept."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.conftest import why_no_cuda
from tilewright.cli.app import app
from tilewright.core.boards import BOARDS
from tilewright.core.target import Target
from tilewright.tune.model.machine import Machine, Rates, calibrated, keep

CUDA = Target.parse("cuda -arch=sm_90")


def test_rates_follow_the_data_sheet() -> None:
    h200, h100 = (Machine.of(CUDA, name) for name in ("NVIDIA H200", "NVIDIA H100 PCIe"))
    assert (h200.multiprocessors, h100.multiprocessors) == (132, 114)
    assert h100.rates.clock_hertz < h200.rates.clock_hertz
    assert h100.rates.memory_bytes_per_cycle < h200.rates.memory_bytes_per_cycle
    assert Machine.of(CUDA).multiprocessors == 132
    assert Machine.of(Target.parse("opencl -device=gpu")).multiprocessors > 0
    assert h200.schedulers == 4


def test_what_was_measured_is_kept_for_its_device_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "kept"))
    measured = replace(Rates(), clock_hertz=1.5e9, l2_bytes_per_cycle=20.0)
    assert calibrated("NVIDIA H200", Rates()) == Rates()
    assert keep("NVIDIA H200", measured, 132) == tmp_path / "kept" / "calibration.json"
    assert Machine.of(CUDA, "NVIDIA H200").rates == measured
    assert Machine.of(CUDA, "NVIDIA L4").rates != measured
    assert Machine.for_models(Machine.present(CUDA, "NVIDIA H200")).rates == measured, "default configurations"
    assert Machine.for_models(CUDA).rates == Rates()
    keep("another", Rates(), 7)
    assert calibrated("NVIDIA H200", Rates()) == measured
    assert Machine.of(CUDA, "another").multiprocessors == 7  # a board without a data sheet
    assert str(Machine.present(CUDA, "another")) == "cuda -arch=sm_90 -model=another"


@pytest.mark.parametrize(
    "text", ["", "[]", '{"NVIDIA H200": {"speed": 3}}', '{"NVIDIA H200": {"clock_hertz": "fast"}}']
)
def test_a_damaged_file_counts_as_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    (tmp_path / "calibration.json").write_text(text)
    assert calibrated("NVIDIA H200", Rates()) == Rates()


def test_nothing_is_kept_where_the_cache_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", "0")
    assert keep("NVIDIA H200", Rates(), 132) is None


@pytest.mark.skipif(not why_no_cuda(), reason="there is a GPU")
def test_without_a_gpu_there_is_nothing_to_calibrate() -> None:
    done = CliRunner().invoke(app, ["doctor", "--calibrate"])
    assert done.exit_code == 1
    assert "there is no NVIDIA GPU here" in done.output


@pytest.mark.cuda
def test_calibration_measures_every_rate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    done = CliRunner().invoke(app, ["doctor", "--calibrate"])
    assert done.exit_code == 0, done.output
    for name in vars(Rates()):
        assert f"\n{name} " in done.output


BOARDS_OF = [
    ("Tesla T4", "sm_75"),
    ("Tesla V100-SXM2-16GB", "sm_70"),
    ("NVIDIA A100-SXM4-40GB", "sm_80"),
    ("NVIDIA L4", "sm_89"),
    ("NVIDIA GeForce RTX 4090", "sm_89"),
    ("NVIDIA H100 80GB HBM3", "sm_90"),
    ("NVIDIA B200", "sm_100"),
]


@pytest.mark.parametrize(("name", "arch"), BOARDS_OF)
def test_a_board_has_the_rates_of_its_data_sheet(name: str, arch: str) -> None:
    board = BOARDS[name]
    machine = Machine.of(Target({"kind": "cuda", "arch": arch, "model": name}))
    rates, reference = machine.rates, Rates()
    assert board.architecture == arch == machine.hardware.name
    assert machine.multiprocessors == board.multiprocessors
    seconds = 1e9 / (machine.multiprocessors * rates.memory_bytes_per_cycle * rates.clock_hertz)
    of_h200 = 1e9 / (132 * reference.memory_bytes_per_cycle * reference.clock_hertz)
    assert seconds / of_h200 == pytest.approx(4800 / board.gigabytes)
    assert rates.l2_capacity_bytes / 47e6 == pytest.approx(board.l2_megabytes / 60)


def test_a_target_for_the_present_board_names_it_only_if_it_differs() -> None:
    h200, l4 = Target("cuda -arch=sm_90"), Target("cuda -arch=sm_89")
    assert Machine.present(h200, "NVIDIA H200") is h200
    assert Machine.present(l4, "NVIDIA GeForce RTX 4090") is l4
    assert Machine.present(l4, "a board without a data sheet") is l4
    assert Machine.present(Target("llvm"), "NVIDIA L4") == Target("llvm")
    named = Machine.present(l4, "NVIDIA L4")
    assert str(named) == 'cuda -arch=sm_89 -model="NVIDIA L4"'
    assert Target(str(named)) == named
    assert pickle.loads(pickle.dumps(named)) == named
