"""The choice, on a CPU, between the rewritten graph and PyTorch's own: both are timed.

A kernel that is faster alone may make a graph slower: its call has overhead, and PyTorch's compiler fuses less around
it. So both graphs are compiled once and timed in turns. Decisions are kept on disk, beside the kernels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..functional.planning.timed_comparison import Comparison, Verdict
from ..functional.programs import fingerprint
from ..functional.programs.store import StoredKernel, store
from ..functional.pytorch import tensors as torch_tensors
from ..functional.pytorch.timing import compare
from ..runtime.device import cpu
from .fusion import FusedGraph

Compiled = Callable[..., Any]
_MOST_SECONDS = 0.1
"""The most seconds per run of a graph that is timed. For longer runs, timing takes too long, and the overhead of calls
counts little."""


def faster_graph(
    made: FusedGraph, ours: Callable[[], Compiled], theirs: Callable[[], Compiled], inputs: Sequence[Any]
) -> Compiled:
    """Return the faster of two equivalent graphs, and write the times into the note of `made`.

    PyTorch's graph is chosen if the difference is too close to call. Ours is chosen untimed if the inputs are fake
    tensors, or if calls take longer than `_MOST_SECONDS`.
    """
    key = _key(made, inputs)
    kept = store().get(key)
    if kept is not None:
        made.note = str(kept.description["shown"])
        return ours() if kept.description["wins"] else theirs()
    given = _values(inputs)
    mine = ours()
    if given is None or _seconds(mine, given) > _MOST_SECONDS:
        return mine
    other = theirs()
    timed = compare([lambda: mine(*given), lambda: other(*given)], False, longest=1.0)
    wins = timed.verdict() == Verdict.FASTER
    made.note = _summary_of(timed, wins)
    store().put(key, StoredKernel({"device": fingerprint.machine(cpu()), "shown": made.note, "wins": wins}, b""))
    return mine if wins else other


def _key(made: FusedGraph, inputs: Sequence[Any]) -> str:
    seen = [
        (str(a.dtype), str(tuple(a.shape)), str(a.stride())) if isinstance(a, torch.Tensor) else str(a) for a in inputs
    ]
    on = cpu()
    return fingerprint.digest([
        str(made.graph_module.graph), seen, fingerprint.machine(on), fingerprint.compiler(on.kind),
        fingerprint.package(), torch_tensors.RIVAL, torch.get_num_threads(),
    ])  # fmt: skip


def _values(inputs: Sequence[Any]) -> list[Any] | None:
    """Return inputs with the sizes of the sample; None if the inputs are fake tensors."""
    if any(isinstance(a, FakeTensor) for a in inputs):
        return None
    return [int(a.node.hint) if isinstance(a, torch.SymInt) else a for a in inputs]


def _seconds(run: Compiled, given: list[Any]) -> float:
    run(*given)  # the first call prepares kernels
    began = time.perf_counter()
    run(*given)
    return time.perf_counter() - began


def _summary_of(timed: Comparison, wins: bool) -> str:
    mine, theirs = timed.seconds
    times = f"{theirs * 1e3:.3f} ms by PyTorch's graph, {mine * 1e3:.3f} ms by ours"
    low, high = timed.spread
    kept = "ours" if wins else "PyTorch's" if timed.verdict() == Verdict.SLOWER else "too close to call, PyTorch's"
    return f"the whole graph: {times}, {timed.gain:.2f} times as fast ({low:.2f}–{high:.2f}); {kept} runs"
