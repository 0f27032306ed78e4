"""What hostile calls are made of: a small program, a second one that is not its, and values that fit nowhere."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import autotvm, te

NAN, INF = float("nan"), float("inf")
TARGET = os.environ.get("TILEWRIGHT_HOSTILE_TARGET", "llvm")
"""What the programs are built for."""


class Mine(Exception):  # noqa: N818  # what the user's own code raises
    """Raised by a function of the user's."""


def mine(*_: Any, **__: Any) -> Any:
    """A function of the user's that fails."""
    raise Mine


class Odd:
    """An object whose protocols fail or lie."""

    def __len__(self) -> int:
        raise Mine

    def __iter__(self) -> Any:
        raise Mine

    def __index__(self) -> int:
        raise Mine

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise Mine

    def __repr__(self) -> str:
        return "\x1b[31modd\n"


class World:
    """One program (C = sum(A + 1)) with its schedule, another one, and what was built of it before."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.A, self.W, self.B, self.C, self.r = program("A", "W", "B", "C")
        self.s = te.create_schedule(self.C.op)
        self.other = program("D", "W", "E", "F")
        self.t = te.create_schedule(self.other[3].op)
        self.n = te.size_var("n")
        self.args = [self.A, self.W, self.C]
        if rng.random() < 0.3:
            self.s[self.C].split(self.C.op.axis[0], factor=2)
        if rng.random() < 0.3:
            self.s.cache_write(self.C, "local")
        if rng.random() < 0.2:
            tw.lower(self.s, self.args)

    @property
    def leaves(self) -> list[Any]:
        """The loops of the result's stage."""
        return list(self.s[self.C].leaf_iter_vars)

    def hostile(self) -> Any:
        """A value that fits nowhere, or not here."""
        return self.rng.choice(_PLAIN + _MADE)(self)

    def fitting(self, name: str) -> Any:
        """A value that a parameter of that name may take; a hostile one where none is known."""
        return self.rng.choice(_FITTING[name])(self) if name in _FITTING else self.hostile()


def program(*names: str) -> tuple[Any, ...]:
    """C[i] = sum(B[i, r] * W[r]), where B = A + 1."""
    a, w, b, c = names
    A, W = te.placeholder((8, 6), name=a), te.placeholder((6,), name=w)
    B = te.compute((8, 6), lambda i, j: A[i, j] + 1, name=b)
    r = te.reduce_axis((0, 6), name="r")
    return A, W, B, te.compute((8,), lambda i: te.sum(B[i, r] * W[r], axis=r), name=c), r


@cache
def module() -> Any:
    """A built module, one for the process."""
    A, W, B, C, _ = program("A", "W", "B", "C")
    s = te.create_schedule(C.op)
    s[B].compute_inline()
    on_threads(s[C])
    return tw.build(s, [A, W, C], TARGET)


def on_threads(stage: Any) -> None:
    """Give the stage's first axis to threads, where the target has them."""
    if TARGET != "llvm":
        stage.bind(stage.op.axis[0], te.thread_axis("threadIdx.x"))


def device() -> Any:
    """Where the programs run."""
    return tw.device("cpu" if TARGET == "llvm" else TARGET)


@cache
def _task() -> Any:
    """A task of two configurations, one for the process."""

    @autotvm.template("tests/hostile")
    def template(n: int) -> Any:
        s = te.create_schedule(te.compute((n,), lambda i: te.const(1.0, "float32") + i, name="T").op)
        config = autotvm.get_config()
        (stage,) = s.stages
        config.define_knob("factor", [2, 4])
        outer, _ = s[stage.op].split(stage.op.axis[0], factor=config["factor"].val)
        if TARGET != "llvm":
            s[stage.op].bind(outer, te.thread_axis("threadIdx.x"))
        return s, [stage.op.output(0)]

    return autotvm.task.create("tests/hostile", args=(8,), target=TARGET)


def tuner(world: World) -> Any:
    """A tuner that has done nothing yet."""
    return world.rng.choice([autotvm.tuner.RandomTuner, autotvm.tuner.GridSearchTuner, autotvm.tuner.GATuner])(_task())


def measuring(world: World) -> Any:
    """How a tuner measures: one configuration in a second."""
    runner = autotvm.LocalRunner(number=1, repeat=1, timeout=5)
    return autotvm.measure_option(builder=autotvm.LocalBuilder(timeout=5, n_parallel=1), runner=runner)


def _plain(*values: Any) -> list[Callable[[World], Any]]:
    return [lambda _, value=value: value for value in values]  # type: ignore[misc]


_PLAIN = _plain(
    *(None, True, False, 0, 1, -1, 3, 7, 2**31, 2**63, -(2**63) - 1, 10**30, 10**300, 0.0, -0.5, 1.5, 1e300),
    *(NAN, INF, -INF, 1 + 2j, "", " ", "x", "float32", "llvm", "local", "threadIdx.x", "vthread", "é", "\0", "\ud800"),
    *("x\n#", "\\", "9" * 400, "a" * 5000, b"x", b"\xff", [], (), {}, [0], (1, 2), [None], [[]], {"a": 1}, {1: 2}),
    *({1, 2}, range(3), slice(None), Ellipsis, int, str, object, mine, len, print, Odd, NotImplemented),
    *(np.float32(2), np.int64(3), np.float64(NAN), np.bool_(True), np.zeros(3), np.zeros((2, 2), "int8"), np.array(1)),
    *(np.array([1 + 2j]), np.array(["x"]), np.array([None]), np.dtype("float32"), np.datetime64("2020-01-01")),
)
_MADE: list[Callable[[World], Any]] = [
    *(lambda w: w.A, lambda w: w.B, lambda w: w.C, lambda w: w.C.op, lambda w: w.A[0, 0], lambda w: w.r, lambda w: w.n),
    *(lambda w: w.other[0], lambda w: w.other[3], lambda w: w.other[3].op.axis[0], lambda w: w.t, lambda w: w.s),
    *(lambda w: w.s[w.C], lambda w: w.t[w.other[3]], lambda w: w.rng.choice(w.leaves), lambda w: w.C.op.axis[0]),
    *(lambda w: w.n + 1, lambda w: w.n / 2, lambda w: te.sum(w.A[0, w.r], axis=w.r), lambda w: te.var("x", "handle")),
    *(lambda w: te.var("x", "float32x4"), lambda w: te.thread_axis("threadIdx.x"), lambda w: te.thread_axis("vthread")),
    *(lambda w: tw.lower(w.t, [*w.other[:2], w.other[3]]), lambda w: module(), lambda w: tw.cpu(), lambda w: te),
    *(
        lambda w: tw.target.Target("cuda"),
        lambda w: tw.nd.empty((3,)),
        lambda w: [w.A, w.other[0]],
        lambda w: [w.hostile()],
    ),
    *(lambda w: Odd(), lambda w: {w.A: w.C}, lambda w: (w.hostile(), w.hostile()), lambda w: w.C.op.reduce_axis[0]),
    *(lambda w: tw.tir.decl_buffer((8, 6)), lambda w: lambda *i: w.hostile(), lambda w: iter([1]), lambda w: w.A[0]),
]
_AXIS: list[Callable[[World], Any]] = [
    lambda w: w.rng.choice(w.leaves),
    lambda w: w.C.op.axis[0],
    lambda w: w.B.op.axis[1],
    lambda w: w.r,
]
_TENSOR: list[Callable[[World], Any]] = [lambda w: w.A, lambda w: w.B, lambda w: w.C, lambda w: w.W]
_NUMBER = _plain(1, 2, 3, 4, 64)
_VALUE: list[Callable[[World], Any]] = [lambda w: w.A[0, 0], lambda w: w.n, lambda w: te.const(2, "int32"), *_NUMBER]
_FITTING: dict[str, list[Callable[[World], Any]]] = {
    **dict.fromkeys(("parent", "var", "target", "outer", "inner", "x_parent", "y_parent", "scope_axis", "ivar"), _AXIS),
    **dict.fromkeys(("factor", "nparts", "x_factor", "y_factor", "offset", "num_outputs", "lanes", "index"), _NUMBER),
    **dict.fromkeys(("tensor", "data", "T", "x", "inputs", "weight", "kernel", "filter", "Input", "Filter"), _TENSOR),
    **dict.fromkeys(("a", "b", "lhs", "rhs", "value", "expr", "true_value", "false_value", "y"), _VALUE),
    "shape": [*_plain((4,), (8, 6), [2, 3], ()), lambda w: (w.n, 4)],
    "dtype": _plain("float32", "int8", "float16", "bool", "int64", "float32x4", None),
    "name": _plain("A", "x y", "é", "__global__"),
    "axis": [*_AXIS, lambda w: [w.r]],
    "fcompute": [lambda w: lambda i: w.A[i, 0], lambda w: lambda *i: i[0], lambda w: mine],
    "fcombine": [lambda w: lambda x, y: x + y, lambda w: mine],
    "fidentity": [lambda w: lambda t: te.const(0, t), lambda w: mine],
    "dom": [*_plain((0, 6), 6, (2, 5)), lambda w: (0, w.n)],
    "scope": [*_plain("local", "shared", "global"), lambda w: w.C.op.axis[0]],
    "readers": [lambda w: [w.C], lambda w: [w.B]],
    "ops": [lambda w: w.C.op, lambda w: [w.C.op]],
    "parent_stage": [lambda w: w.s[w.C], lambda w: w.s[w.B]],
    "thread_ivar": [lambda w: te.thread_axis("threadIdx.x"), lambda w: te.thread_axis("blockIdx.x")],
    "args": [lambda w: w.args],
    "arrays": [lambda w: tw.nd.empty((8, 6), device=device())],
    "source": [lambda w: np.zeros((8, 6), "float32"), lambda w: tw.nd.empty((8, 6), device=device())],
    "pragma_type": _plain("unroll_explicit", "auto_unroll_max_step"),
    "path": _plain("m.tw"),
    "file_name": _plain("m.tw"),
    "tag": _plain("threadIdx.x", "blockIdx.y", "vthread", ""),
    "condition": [lambda w: w.n > 3, lambda w: te.const(1, "bool")],
    "strides": _plain([6, 1], (1,), None),
    **{name: [lambda w: device()] for name in ("dev", "ctx", "device")},
    "func_name": _plain("main"),
    "policy": _plain("factors", "power2", "verbose", "candidate"),
    "sch": [lambda w: w.s],
    "measure_option": [measuring],
    "n_trial": _plain(1, 2),
    "seconds": _plain(0.1, 0, None),
    "callbacks": [lambda w: [], lambda w: [mine]],
}
