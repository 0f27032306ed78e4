"""How candidates are built and run: the legacy API's options."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypedDict

import numpy as np

from ..codegen.abi import CompiledProgram
from ..core.errors import UserError
from ..core.system import processors
from ..core.target import Target
from .own_runner_api import Runner, is_own_runner

BuildFunc = Callable[[Any, list[Any], Target], CompiledProgram]
"""Compiles a job's schedule and tensors for the target."""


@dataclass(frozen=True)
class LocalBuilder:
    """Build on this machine, `n_parallel` candidates at a time (default: one a core), `timeout` seconds each.

    `build_func` replaces the compiler. The other arguments exist for old scripts, and have no effect.
    """

    timeout: float = 10
    n_parallel: int | None = None
    build_kwargs: dict[str, Any] | None = None
    build_func: str | BuildFunc = "default"
    do_fork: bool = True
    runtime: Any = None

    def __post_init__(self) -> None:
        _check_positive("LocalBuilder", self.timeout, self.n_parallel)
        if self.build_kwargs is not None and not (isinstance(self.build_kwargs, dict) and not self.build_kwargs):
            raise UserError("build_kwargs are not supported", primitive="LocalBuilder", fix="set options on the target")
        named = isinstance(self.build_func, str) and self.build_func == "default"
        if not named and not callable(self.build_func):
            raise UserError(
                f"build_func={self.build_func!r} is unknown",
                primitive="LocalBuilder",
                fix='give "default", or a function of (schedule, tensors, target) that returns a CompiledProgram',
            )

    @property
    def processes(self) -> int:
        """How many candidates are built at a time."""
        return self.n_parallel or processors()


@dataclass(frozen=True)
class _RunOptions:
    timeout: float = 10
    number: int = 4
    repeat: int = 3
    min_repeat_ms: float = 0
    cooldown_interval: float = 0.1
    enable_cpu_cache_flush: bool = False
    module_loader: Any = None
    n_parallel: int | None = None
    check_correctness: bool = True

    def __post_init__(self) -> None:
        _check_positive("LocalRunner", self.timeout, self.n_parallel)
        for name in ("number", "repeat"):
            check_count("LocalRunner", name, getattr(self, name))
        for name in ("min_repeat_ms", "cooldown_interval"):
            _check_seconds("LocalRunner", name, getattr(self, name))
        if self.module_loader is not None:
            raise UserError("module_loader= is not supported", primitive="LocalRunner", fix="leave it out")


class LocalRunner(_RunOptions):
    """Run on this machine: `repeat` measurements of `number` runs each, more if they take less than `min_repeat_ms`.

    One candidate may take `timeout` seconds, its measurements all together. `cooldown_interval` is the pause between
    two candidates, in seconds. `enable_cpu_cache_flush` measures every run with cold caches. `n_parallel` is the number
    of devices used, each by a process of its own (default: one).

    `ref_input` may be set: all arguments of the kernels in order, or their inputs, instead of random values.
    """

    _ref_input: tuple[np.ndarray, ...] | None = None

    @property
    def ref_input(self) -> tuple[np.ndarray, ...] | None:
        """The arrays that candidates run on; None for random values."""
        return self._ref_input

    @ref_input.setter
    def ref_input(self, arrays: Any) -> None:
        if arrays is not None and not self.check_correctness:
            raise UserError(
                "ref_input is given to the check of results, which check_correctness=False leaves out",
                primitive="LocalRunner",
                fix="autotvm.LocalRunner() without check_correctness=False",
            )
        given = None if arrays is None else tuple(np.asarray(getattr(a, "numpy", lambda a=a: a)()) for a in arrays)
        object.__setattr__(self, "_ref_input", given)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_ref_input"}


_LONGEST_SECONDS = 10**300
"""Seconds; values far above it are not representable as a float."""


def _check_positive(who: str, timeout: float, n_parallel: int | None) -> None:
    _check_seconds(who, "timeout", timeout)
    if not timeout:
        raise UserError(f"timeout={timeout}: a positive number of seconds is needed", primitive=who, fix="timeout=10")
    if n_parallel is not None:
        check_count(who, "n_parallel", n_parallel)


def check_count(who: str, name: str, value: Any) -> None:
    """Raise UserError unless `value` is a positive integer."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise UserError(f"{name}={value!r}: a whole number of at least 1 is needed", primitive=who, fix=f"{name}=4")


def _check_seconds(who: str, name: str, value: Any) -> None:
    if isinstance(value, int) and value > _LONGEST_SECONDS:
        raise UserError(
            f"{name}= is a number of more than 300 digits: seconds are needed", primitive=who, fix=f"{name}=10"
        )
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float, np.number))
        or not value >= 0
        or (value == math.inf and name != "timeout")
    ):
        raise UserError(
            f"{name}={value!r}: a positive number is needed", primitive=who, fix=f"{name}=10, or leave it out"
        )


class MeasureOption(TypedDict):
    """The result of `measure_option`."""

    builder: LocalBuilder
    runner: LocalRunner | Runner


def measure_option(builder: str | LocalBuilder = "local", runner: Any = "local", **others: Any) -> MeasureOption:
    """How to measure, for a tuner: `measure_option(builder=LocalBuilder(), runner=LocalRunner(repeat=3))`.

    A runner may be the script's own, a subclass of `autotvm.measure.Runner`.

    `others` only catches old arguments, with an error that names their new place.
    """
    if others:
        known = {field.name for field in fields(LocalRunner)}
        given = ", ".join(f"{name}={value!r}" for name, value in others.items() if name in known)
        raise UserError(
            f"measure_option takes a builder and a runner, and no {', '.join(others)}",
            primitive="measure_option",
            fix=f"give measure_option(builder=autotvm.LocalBuilder(), runner=autotvm.LocalRunner({given}))",
        )
    made_builder = LocalBuilder() if isinstance(builder, str) and builder == "local" else builder
    made_runner = LocalRunner() if isinstance(runner, str) and runner == "local" else runner
    if not isinstance(made_builder, LocalBuilder):
        raise UserError(
            f"builder={builder!r} is not a builder", primitive="measure_option", fix="give autotvm.LocalBuilder(...)"
        )
    if not isinstance(made_runner, LocalRunner) and not is_own_runner(made_runner):
        fix = "give autotvm.LocalRunner(...) or autotvm.RPCRunner(...)"
        raise UserError(f"runner={runner!r} is not a runner", primitive="measure_option", fix=fix)
    return {"builder": made_builder, "runner": made_runner}


def builder_and_runner(option: Any) -> tuple[LocalBuilder, LocalRunner | Runner]:
    """Return the builder and the runner of a `measure_option`; UserError if it has none."""
    try:
        builder, runner = option["builder"], option["runner"]
    except (IndexError, KeyError, TypeError):
        builder = runner = None
    if not isinstance(builder, LocalBuilder) or not (isinstance(runner, LocalRunner) or is_own_runner(runner)):
        raise UserError(
            f"measure_option is {option!r}, which is not a result of autotvm.measure_option",
            primitive="tune",
            fix="give autotvm.measure_option(builder=autotvm.LocalBuilder(), runner=autotvm.LocalRunner())",
        )
    return builder, runner
