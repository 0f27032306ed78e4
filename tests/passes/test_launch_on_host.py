"""On the CPU, the body of a function becomes one launch."""

from __future__ import annotations

import pytest

from tests.loops.programs import alloc, buf, function, loop, thread
from tests.passes.kernels import A, B, copy, i
from tests.passes.running import run_pass
from tilewright.core.errors import UserError
from tilewright.loops.nodes import Allocate, Launch
from tilewright.passes.launch_on_host import launch_on_host


def test_on_the_cpu_a_function_is_one_launch() -> None:
    made = run_pass(launch_on_host, function((A, B), loop(i, 64, copy(i))), "llvm")
    assert isinstance(made.body, Launch)
    assert made.body.threads == ()
    small, large = buf("small", 4), buf("large", 1 << 20)
    made = run_pass(launch_on_host, function((A, B), alloc(small, alloc(large, loop(i, 64, copy(i))))), "llvm")
    assert isinstance(made.body, Allocate)
    assert made.body.buffer is large
    assert isinstance(made.body.body, Launch)


def test_the_cpu_has_no_hardware_threads() -> None:
    with pytest.raises(UserError, match=r"threadIdx\.x"):
        run_pass(launch_on_host, function((A, B), thread("tx", 64, copy)), "llvm")
