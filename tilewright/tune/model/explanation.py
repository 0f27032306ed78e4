"""An explanation of a configuration's predicted time: tables of its terms, and of the counts behind them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np

from ...codegen.abi import Resources
from ...core.errors import UserError
from ...driver import build
from ..space.config import Config
from ..task import Task
from .machine import Machine
from .prediction import Prediction
from .scoring import Scorer
from .work import NAMES, Counts

_MEANINGS = {
    "issue": "instructions that the schedulers issue",
    "shared memory": "wavefronts of shared memory, bank conflicts included",
    "L1": "sectors of global memory through the L1 cache",
    "L2": "bytes that blocks read and write through the L2 cache",
    "memory": "bytes of all tensors, each once",
    "latency": "latencies of a single block: loads, barriers, sums that depend on each other",
    "start": "blocks that begin",
}


def explain(task: Task, config: Config, machine: Machine | None = None, compiled: bool = False) -> str:
    """Explain the predicted time of a configuration.

    Parameters
    ----------
    task : Task
        A task with the target of the configuration.
    config : Config
        A configuration of the task's space.
    machine : Machine, optional
        The machine to predict for; by default the machine of the task's target.
    compiled : bool
        Whether to compile the configuration, which needs no GPU. Its registers, spills and shared memory then replace
        the predicted ones.

    Returns
    -------
    str
        For each kernel: the predicted time, the time of each part of a multiprocessor alone, and the counts behind
        these times.

    Raises
    ------
    UserError
        If the model does not cover the template or the target, and for a configuration of another space.
    """
    index = task.config_space.find(config)
    if index is None:
        raise UserError("the configuration is not of the task's space", primitive="explain",
                        fix="give one that task.config_space.get(index) returned")  # fmt: skip
    if task.target is None or not (task.target.is_gpu and task.target.has_warps):
        raise UserError(f"the model does not cover the target {task.target}", primitive="explain",
                        fix='create the task for a GPU: target="cuda"')  # fmt: skip
    scorer = Scorer(task, machine)
    resources = _compiled(task, config) if compiled else {}
    taken = "".join(f"\n{_resources(name, each)}" for name, each in resources.items())
    if task.declared.expected is not None:
        return _own(scorer, index) + taken
    found = scorer.predictions(index, list(resources.values()))
    if not found:
        raise UserError(f"the model does not cover the schedule of {config!r}", primitive="explain",
                        fix="measure it: the model knows te.compute stages of constant sizes")  # fmt: skip
    parts = [_kernel(prediction, counts) for prediction, counts in found]
    if len(parts) == 1:
        return parts[0] + taken
    return "\n\n".join(f"kernel {number}: {part}" for number, part in enumerate(parts, 1)) + taken


def _compiled(task: Task, config: Config) -> Mapping[str, Resources]:
    """Return the resources of a configuration's kernels, reported by the compiler."""
    if task.target is None or task.target.kind != "cuda":
        raise UserError(f"compiled=True: the resources of kernels for {task.target} are not known", primitive="explain",
                        fix='leave it out, or create the task for target="cuda"')  # fmt: skip
    with warnings.catch_warnings():  # remarks on the schedule were not requested
        warnings.simplefilter("ignore", UserWarning)
        return dict(build(*task.instantiate(config), target=task.target).program.resources)


def _resources(name: str, found: Resources) -> str:
    text = f"{found.registers} registers, {found.spill_load_bytes:,} bytes spilled"
    return f"{'compiled':12}  {text}, {found.shared_bytes:,} bytes of shared memory ({name})"


def _own(scorer: Scorer, index: int) -> str:
    """Return the prediction of a template with its own model."""
    scores = scorer.score(np.array([scorer.task.config_space.point(index)], dtype=np.int64))
    threads, blocks = scores.counts[0, [NAMES.index("threads"), NAMES.index("blocks")]]
    return (
        f"{_time(scores.seconds)} expected by the template's own model of tiles: {blocks:,.0f} blocks of "
        f"{threads:,.0f} threads"
    )


def _kernel(prediction: Prediction, counts: Counts) -> str:
    c = {name: float(values[0]) for name, values in counts.items()}
    lines = [
        f"{_time(prediction.seconds)} expected: {c['blocks']:,.0f} blocks of {c['threads']:,.0f} threads, "
        f"{prediction.resident[0]:.0f} at a time on a multiprocessor",
        "",
    ]
    for name, seconds in sorted(prediction.terms.items(), key=lambda item: -float(item[1][0])):
        lines.append(f"{_time(seconds):>12}  {name:14} {_MEANINGS[name]}")
    facts = {
        "a thread": f"{c['fma']:,.0f} multiply-adds, {c['loop_steps']:,.0f} turns of loops, "
        f"about {prediction.registers[0]:.0f} registers",
        "global loads": f"{c['ldg']:,.0f} of a thread, {_each(c, 'ldg_sectors', 'ldg')} sectors per warp each",
        "shared loads": f"{c['lds']:,.0f} of a thread, {_each(c, 'lds_waves', 'lds')} wavefronts per warp each",
        "a block": f"{c['shared_bytes']:,.0f} bytes of shared memory, {c['barriers']:,.0f} barriers, "
        f"{c['block_bytes']:,.0f} bytes read",
    }
    return "\n".join([*lines, "", *(f"{name:12}  {text}" for name, text in facts.items())])


def _each(c: dict[str, float], what: str, of: str) -> str:
    return f"{c[what] / c[of] if c[of] else 0:.1f}"


def _time(seconds: np.ndarray) -> str:
    return f"{float(seconds[0]) * 1e6:,.2f} µs"
