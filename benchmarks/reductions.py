"""Reductions by `topi.cuda`'s schedules beside PyTorch and a copy: python -m benchmarks.reductions [NAME ...]

Each operator is checked against float64 on fresh random input before it is timed. Times are medians of CUDA graphs of
several runs, ours and PyTorch's in turns. Data are larger than the L2 cache. Bandwidth counts each input read once and
each output written once; `of a copy` compares it with that of a device-to-device copy of as many bytes. Without a GPU,
small sizes are checked on OpenCL, and nothing is timed.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import te, topi
from tilewright.report.table import Column, table

RUNS, ROUNDS = 20, 15
Work = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """One operator at one size: how it is declared, scheduled and checked, and PyTorch's counterpart."""

    name: str
    shapes: Sequence[tuple[int, ...]]
    declare: Callable[..., te.Tensor]
    schedule: str
    expected: Callable[..., Any]
    rival: Callable[..., Any]
    dtype: str = "float32"


def _softmax(x: Any) -> Any:
    part = np.exp(x - x.max(-1, keepdims=True))
    return part / part.sum(-1, keepdims=True)


def _layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift


def _reduction(name: str, of: str, shapes: list[tuple[int, ...]], axis: int | None) -> Row:
    """A reduction, by the name that NumPy and PyTorch have for it."""
    ours, along = getattr(topi, of.removeprefix("a") if of == "amax" else of), () if axis is None else (axis,)
    return Row(
        name, shapes, lambda x: ours(x, axis), "schedule_reduce",
        lambda x: getattr(np, of)(x, axis), lambda t, x: getattr(t, of)(x, *along),
    )  # fmt: skip


def rows(small: bool) -> list[Row]:
    """The table; `small` ones are for checking without a GPU."""
    n, long = (256, 1 << 16) if small else (4096, 1 << 26)
    square = [(n, n)]

    def layer(x: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
        return topi.nn.layer_norm(x, gamma, beta, [1])

    return [
        Row("softmax", square, topi.nn.softmax, "schedule_softmax", _softmax, lambda t, x: t.softmax(x, 1)),
        Row(
            "log_softmax", square, topi.nn.log_softmax, "schedule_softmax",
            lambda x: np.log(_softmax(x)), lambda t, x: t.log_softmax(x, 1),
        ),
        Row(
            "layer_norm", [*square, (n,), (n,)], layer, "schedule_norm", _layer_norm,
            lambda t, x, g, b: t.nn.functional.layer_norm(x, (n,), g, b),
        ),
        *(_reduction(*each) for each in (
            ("sum", "sum", [(long,)], None), ("max", "amax", [(long,)], None), ("sum of all", "sum", square, None),
            ("sum of rows", "sum", square, 1), ("sum of columns", "sum", square, 0),
            ("argmax of rows", "argmax", square, 1),
        )),
        Row("exp", [(long,)], topi.exp, "schedule_injective", np.exp, lambda t, x: t.exp(x)),
    ]  # fmt: skip


def built(row: Row, target: str) -> tuple[Any, list[te.Tensor]]:
    """The module of an operator, and its arguments."""
    inputs = [te.placeholder(shape, row.dtype, f"x{i}") for i, shape in enumerate(row.shapes)]
    out = row.declare(*inputs)
    with tw.target.Target(target):
        s = getattr(topi.generic, row.schedule)([out])
    return tw.build(s, [*inputs, out], target), [*inputs, out]


def checked(row: Row, target: str, dev: Any) -> tuple[Any, list[Any], float]:
    """The module, the arrays of its arguments, and its error against float64."""
    module, tensors = built(row, target)
    random = np.random.default_rng(0)
    given = [random.standard_normal(shape, np.float32).astype(row.dtype) for shape in row.shapes]
    *_, out = tensors
    shape = topi.utils.get_const_tuple(out.shape)
    poison = np.full(shape, np.nan if out.dtype.is_float else -7, str(out.dtype))
    arrays = [tw.nd.array(a, dev) for a in (*given, poison)]
    module(*arrays)
    expected = np.asarray(row.expected(*(a.astype(np.float64) for a in given)), np.float64)
    found = arrays[-1].numpy().astype(np.float64)
    error = float(np.linalg.norm(found - expected) / max(float(np.linalg.norm(expected)), 1e-30))
    return module, arrays, error


def graph_of(call: Work) -> Work:
    """`RUNS` calls of PyTorch as one CUDA graph; returns a function that replays it and returns the seconds of one
    call."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(RUNS):
            call()
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def seconds() -> float:
        began.record()
        graph.replay()
        ended.record()
        ended.synchronize()
        return float(began.elapsed_time(ended)) / 1e3 / RUNS

    return seconds


def measured(row: Row, dev: Any, bandwidth: float) -> list[str]:
    """A line of the table."""
    import torch

    module, arrays, error = checked(row, "cuda", dev)
    ours = module.time_evaluator(module.entry_name, dev, number=RUNS, repeat=1)
    held = [torch.from_dlpack(a) for a in arrays[:-1]]
    theirs = graph_of(lambda: row.rival(torch, *held))
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(ROUNDS):
        times["ours"].append(ours(*arrays).median)
        times["theirs"].append(theirs())
    mine, other = (statistics.median(times[key]) for key in times)
    moved = sum(a.numpy().nbytes for a in arrays)
    used = next(iter(module.resources.values()))
    return [
        row.name, "×".join(map(str, row.shapes[0])), f"{mine * 1e6:.1f}", f"{other * 1e6:.1f}", f"{mine / other:.2f}",
        f"{moved / mine / 1e12:.2f}", f"{moved / mine / bandwidth:.0%}", f"{error:.1e}", str(used.registers),
    ]  # fmt: skip


def copy_bandwidth() -> float:
    """Bytes read and written per second by PyTorch's copy of 2 ** 26 floats."""
    import torch

    source = torch.randn(1 << 26, device="cuda")
    target = torch.empty_like(source)
    seconds = graph_of(lambda: target.copy_(source))
    return 2 * source.nbytes / statistics.median(seconds() for _ in range(ROUNDS))


def main() -> None:
    """Check all operators, time them if there is a GPU, and print the table."""
    wanted = sys.argv[1:]
    dev = tw.cuda()
    chosen = [row for row in rows(not dev.exist) if not wanted or row.name in wanted]
    if not dev.exist:
        for row in chosen:
            built(row, "cuda")
            print(f"{row.name:16} error on OpenCL {checked(row, 'opencl', tw.opencl())[2]:.1e}")
        return
    bandwidth = copy_bandwidth()
    print(f"{dev.name}; a copy of 2^26 floats moves {bandwidth / 1e12:.2f} TB/s")
    heads = ["size", "ours µs", "PyTorch µs", "ratio", "TB/s", "of a copy", "error", "registers"]
    lines = [measured(row, dev, bandwidth) for row in chosen]
    print("\n".join(table([Column("operator", right=False), *map(Column, heads)], lines)))


if __name__ == "__main__":
    main()
