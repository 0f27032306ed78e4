"""The plan for a problem on a device: from memory, from disk, or newly made.

The modules that make plans (templates, schedules, compilers) are imported only when a plan must be made.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.errors import InternalError, UserError
from ...core.forking import new_reentrant_lock
from ...runtime.thread_pool import POOL
from ..programs import fingerprint
from ..programs.executable import Executable
from ..programs.running import Program, Threads, load_program
from ..programs.store import StoredKernel, store
from .decision import Activation, Decision, Tune
from .prepared_calls import drop_all

if TYPE_CHECKING:
    from ...runtime.device import Device
    from ..arguments.problem import Problem


class CallPlan(NamedTuple):
    """A problem, its decision, and the compiled kernel if ours was chosen."""

    problem: Problem
    on: Device
    choice: Decision
    executable: Executable | None
    origin: str
    """The origin of the kernel: "disk" or "compiled"."""
    threads: int = 0
    """The number of threads of the measurement; 0 if the choice was not measured, or on a GPU."""

    def is_settled(self, threads: int) -> bool:
        """Whether a search with this number of threads ran to its end."""
        return self.choice.tuned > 0 and not self.choice.interrupted and self.threads == threads


_plans: dict[tuple[Any, ...], CallPlan] = {}
_locks: dict[tuple[Any, ...], Any] = {}
"""Locks by problem, held while its plan is made. Threads may make plans of different problems concurrently."""
_lock = new_reentrant_lock()
"""Held while a plan that may time kernels is made, so that no two plans are timed at once."""


def plan_for(
    problem: Problem, on: Device, rival: str = "", activation: Activation | None = None, tune: Tune = None
) -> CallPlan:
    """Return the plan for a problem.

    Parameters
    ----------
    problem : Problem
    on : Device
    rival : str
        The other library that could compute the problem, with its version; "" if there is none.
    activation : callable, optional
        The function of a problem's "custom:" activation.
    tune : None, float or str
        None takes a known or default configuration. "quick" measures for 5 seconds, a number for as many seconds, and
        "2m" for two minutes.

    Returns
    -------
    CallPlan
        Later calls return the same plan. The first call with `tune` replaces a plan that was not tuned, and later
        calls return the new plan.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C ended a search. The best kernel found is kept, and the next call with `tune` searches again.
    """
    budget = seconds_of_tune(tune)
    memo = (problem, on, rival)
    found = _plans.get(memo)
    if found is not None and not budget:
        return found
    threads = fingerprint.threads(on, rival)
    if found is not None and found.is_settled(threads):
        return found
    times = budget > 0 or on.kind == "cpu"
    with _locks.setdefault(memo, new_reentrant_lock()), _lock if times else nullcontext():
        found = _plans.get(memo)
        if found is None or (budget and not found.is_settled(threads)):  # another process may have decided meanwhile
            found = _from_disk(problem, on, rival, threads) or found
        makes = found is None or (budget > 0 and not found.is_settled(threads))
        if found is None or makes:
            found = _made(problem, on, rival, activation, budget, threads, found)
        _plans[memo] = found
        if budget:
            drop_all()
    if makes and found.choice.interrupted:
        raise KeyboardInterrupt
    return found


def seconds_of_tune(tune: Tune) -> float:
    """Return the seconds of an argument `tune`; UserError for an invalid one."""
    if tune is None:
        return 0.0
    if tune == "quick":
        return 5.0
    from ...tune.session.durations import in_seconds  # not needed by calls that do not search

    found = in_seconds(tune)
    if found is None or not found > 0:
        raise UserError(f"tune is {tune!r}, which is not a budget", fix='give None, "quick", seconds, or "2m"')
    return found


def forget() -> None:
    """Drop the plans in memory and the calls prepared by them; plans on disk are kept."""
    _plans.clear()
    drop_all()


def decide(plan: CallPlan, choice: Decision, rival: str) -> CallPlan:
    """Replace the decision of a plan with a kernel by a measured decision, in memory and on disk."""
    changed = plan._replace(choice=choice, threads=fingerprint.threads(plan.on, rival))
    with _lock:
        _plans[plan.problem, plan.on, rival] = changed
        _keep(changed, rival)
        drop_all()
    return changed


def _from_disk(problem: Problem, on: Device, rival: str, threads: int) -> CallPlan | None:
    """Return a plan measured with this number of threads, else an unmeasured plan; None if there is neither."""
    for number in dict.fromkeys((threads, 0)):
        entry = store().get(fingerprint.cache_key(problem, on, rival, number))
        if entry is not None:
            executable = entry.description["executable"]
            program = None if executable is None else Executable.read(executable, entry.binary)
            return CallPlan(problem, on, Decision.read(entry.description["choice"]), program, "disk", number)
    return None


def _made(
    problem: Problem,
    on: Device,
    rival: str,
    activation: Activation | None,
    budget: float,
    threads: int,
    before: CallPlan | None,
) -> CallPlan:
    """Make a plan; `before` is an earlier plan that a search may improve."""
    from . import kernel_choice  # loads the compiler, which a kernel on disk does not need

    earlier = before.choice if before is not None and before.choice.tuned and before.threads == threads else None
    choice, executable = kernel_choice.choose(problem, on, rival, activation, budget, earlier)
    if before is not None and earlier is not None and choice.interrupted and earlier.seconds <= choice.seconds:
        return before
    plan = CallPlan(problem, on, choice, executable, "compiled", threads if choice.tuned else 0)
    _keep(plan, rival)
    return plan


def _keep(plan: CallPlan, rival: str) -> None:
    executable = plan.executable
    description = {
        "problem": plan.problem.description(),
        "device": fingerprint.machine(plan.on),
        "compiler": fingerprint.compiler(plan.on.kind),
        "rival": rival,
        "threads": plan.threads,
        "choice": plan.choice._asdict(),
        "executable": None if executable is None else executable.description(),
    }
    entry = StoredKernel(description, b"" if executable is None else executable.binary)
    store().put(fingerprint.cache_key(plan.problem, plan.on, rival, plan.threads), entry)


def program_of(plan: CallPlan, threads: Threads = POOL) -> Program:
    """Return the loaded program of a plan with our kernel. On a CPU, its loops run on `threads`."""
    if plan.executable is None:
        raise InternalError(f"the plan for {plan.problem} has no kernel")
    return load_program(plan.executable, plan.on, threads)


def runner_of(problem: Problem, on: Device, activation: Activation | None = None, tune: Tune = None) -> Program:
    """Return the program of our kernel for a problem, which takes addresses."""
    return program_of(plan_for(problem, on, "", activation, tune))
