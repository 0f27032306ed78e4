"""Launches of several kernels on tensors, by kernels that compute nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.functional.programs.launcher import MISALIGNED

pytest.importorskip("torch", reason="PyTorch is not installed")
import torch

from tilewright.core.launches import FixedLaunch
from tilewright.functional.programs.cuda_kernels import in_order
from tilewright.functional.programs.running import GpuProgram
from tilewright.functional.pytorch import launches as torch_launches
from tilewright.runtime.device import cuda


class Kernel:
    """A launch that notes its addresses."""

    def __init__(
        self, arguments: tuple[int, ...], notes: list[tuple[int, ...]], status: int = 0, numbers: tuple[int, ...] = ()
    ) -> None:
        self.launch = FixedLaunch("", (1, 1, 1), (1, 1, 1), 0, arguments, numbers)
        self.notes, self.status = notes, status

    def start(self, *addresses: int) -> int:
        self.notes.append(addresses)
        return self.status

    def failed(self, status: int, addresses: tuple[int, ...]) -> None:
        raise RuntimeError(f"status {status}")


def program(*kernels: Kernel, scratch: tuple[int, ...] = (256, 64)) -> Any:
    """A program of kernels with two pieces of memory of their own."""
    made = GpuProgram.__new__(GpuProgram)
    made.index, made.starts = 0, None
    made.launch_all = in_order(kernels)  # type: ignore[arg-type]  # stand-ins
    made.program = type("", (), {"scratch": scratch})()
    return made


def test_kernels_share_memory_between_them() -> None:
    notes: list[tuple[int, ...]] = []
    start = torch_launches.starts(program(Kernel((0, 1, -1, -2), notes), Kernel((-2, -1, 2), notes)), torch.empty(1))
    for _ in range(2):
        assert start([8, 16, 24]) == 0
    (x, w, first, second, stream), again = notes[:2]
    assert (x, w, stream) == (8, 16, 0)
    assert again == (second, first, 24, 0)
    assert 0 not in (first, second)
    assert first != second
    assert len(notes) == 4


def test_numbers_follow_the_addresses_of_their_kernel() -> None:
    notes: list[tuple[int, ...]] = []
    kernels: Any = [Kernel((1, -1), notes, numbers=(5, 6)), Kernel((0,), notes, numbers=(7,))]
    launch_all = in_order(kernels)
    assert launch_all([8, 16], [32], 99) == 0
    assert notes == [(16, 32, 5, 6, 99), (8, 7, 99)]


def test_a_status_ends_the_launches() -> None:
    notes: list[tuple[int, ...]] = []
    misaligned = program(Kernel((0,), notes, MISALIGNED), Kernel((1,), notes), scratch=())
    assert torch_launches.starts(misaligned, torch.empty(1))([8, 16]) == MISALIGNED
    with pytest.raises(RuntimeError, match="status 700"):
        torch_launches.starts(program(Kernel((0,), notes, 700)), torch.empty(1))([8])
    assert notes == [(8, 0), (8, 0)]


def test_a_call_whose_memory_does_not_fit_goes_the_general_way() -> None:
    notes: list[tuple[int, ...]] = []
    x, w, made = (torch.empty(4) for _ in range(3))
    call: Any = type("", (), {"x": x, "weight": w, "bias": None, "residual": None})()
    for status, wanted in ((0, made), (MISALIGNED, x)):
        run = torch_launches._direct_in_parts(
            program(Kernel((0, 1, 2), notes, status)), lambda: made, call, lambda x, *rest: x
        )
        assert run(x, w, None, None, None) is wanted
    assert notes[0] == (x.data_ptr(), w.data_ptr(), made.data_ptr(), 0)


@pytest.mark.parametrize("others", [(None, None), (torch.empty(4), None), (None, torch.empty(4))])
def test_a_launch_of_one_kernel_reports_its_status(others: tuple[Any, Any]) -> None:
    notes: list[tuple[int, ...]] = []
    x, w, made = (torch.empty(4) for _ in range(3))
    call: Any = type("", (), {"weight": w, "bias": others[0], "residual": others[1]})()
    for status, wanted in ((0, made), (MISALIGNED, x)):
        alone: Any = type("", (), {"direct": Kernel((), notes, status)})()
        run: Any = torch_launches.direct(alone, cuda(0), lambda: made, call, lambda x, *rest: x)
        assert run(x, w, *others, None) is wanted
    alone.direct.status = 700
    with pytest.raises(RuntimeError, match="status 700"):
        run(x, w, *others, None)
    assert set(notes) == {(*[a.data_ptr() for a in (x, w, *others, made) if a is not None], 0)}
