"""Expressions of the interpreter: each node becomes a Python function from the activity mask to a value.

A value is a NumPy scalar if it is the same for all lanes, else an array over the grid (see `memory`). Lanes that are
off may hold anything: only their faults are kept from counting.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy import count_nonzero

from ...expr import nodes as n
from ...expr.bits import REINTERPRET
from ...expr.numerics import EXCHANGES, INTRINSICS, Value, bits_as, convert
from ...expr.traverse import variables
from ..nodes import AllReduce, Buffer, is_exchange
from . import functions
from .arena import byte_places, value_of_bytes
from .memory import Address, InterpretError, Report, View

Get = Callable[[Value], Value]  # activity mask (None: all lanes) -> value
Locate = Callable[[Value], Address]
Slot = list[Any]  # a value; None if it must be computed


class EvaluationContext(Protocol):
    """The interface of the running program that expressions use."""

    env: dict[n.Var, Value]
    axes: int
    check: bool
    functions: Mapping[str, Callable[..., Any]]

    def view(self, buffer: Buffer) -> View: ...
    def report_for(self, buffer: Buffer) -> Report | None: ...
    def check_read(self, place: Address, mask: Value, report: Report | None) -> None: ...
    def fail(self, text: str, lanes: Value) -> None: ...
    def define(self, var: n.Var, value: Value) -> None: ...
    def forget(self, var: n.Var) -> None: ...
    def together(self, mask: Value) -> tuple[int, ...]: ...


def _trunc_mod(a: Value, b: Value) -> Value:
    return np.fmod(a, b)


def _divide(a: Value, b: Value) -> Value:
    return a / b if a.dtype.kind not in "iu" else (a - np.fmod(a, b)) // b


def _floor_div(a: Value, b: Value) -> Value:
    return a // b if a.dtype.kind in "iu" else np.floor(a / b)


def _floor_mod(a: Value, b: Value) -> Value:
    return a % b if a.dtype.kind in "iu" else a - np.floor(a / b) * b


BINARY: dict[type, Callable[[Value, Value], Value]] = {
    n.Add: operator.add,
    n.Sub: operator.sub,
    n.Mul: operator.mul,
    n.Div: _divide,
    n.Mod: _trunc_mod,
    n.FloorDiv: _floor_div,
    n.FloorMod: _floor_mod,
    n.Min: np.minimum,
    n.Max: np.maximum,
    n.EQ: operator.eq,
    n.NE: operator.ne,
    n.LT: operator.lt,
    n.LE: operator.le,
    n.GT: operator.gt,
    n.GE: operator.ge,
}
_DIVISIONS = (n.Div, n.Mod, n.FloorDiv, n.FloorMod)


class Expressions:
    """Makes the functions of expressions.

    A result that depends on variables alone is remembered in a `Slot` until one of them changes. `slots` lists, for
    each variable, the results to forget.
    """

    def __init__(self, machine: EvaluationContext) -> None:
        self.machine = machine
        self.slots: dict[n.Var, list[Slot]] = {}
        self.made: dict[n.Expr, Get] = {}
        self.places: dict[tuple[Any, ...], Locate] = {}
        self.faulty: dict[n.Expr, bool] = {}

    def __call__(self, e: n.Expr) -> Get:
        return self.get(e)

    def get(self, e: n.Expr) -> Get:
        """The function of `e`. Recursion calls it, because method calls use no C stack, and calls of objects do."""
        found = self.made.get(e)
        if found is None:
            made = self._make(e)
            worth_it = e.children() and not self.can_fault(e)
            found = self.made[e] = self._remembered(e, made) if worth_it else made
        return found

    def can_fault(self, e: n.Expr) -> bool:
        """Whether evaluating `e` in lanes that are off could raise an error, or read memory."""
        found = self.faulty.get(e)
        if found is None:
            own = isinstance(e, n.Load) or is_exchange(e) or (isinstance(e, n.Call) and e.name in functions.OUTSIDE)
            found = own or _may_divide_by_zero(e) or any([self.can_fault(c) for c in e.children()])
            self.faulty[e] = found
        return found

    def _slot(self, *parts: n.Expr) -> Slot:
        slot: Slot = [None]
        for var in variables(*parts):
            self.slots.setdefault(var, []).append(slot)
        return slot

    def _remembered(self, e: n.Expr, get: Get) -> Get:
        slot = self._slot(e)

        def run(mask: Value) -> Value:
            found = slot[0]
            if found is None:
                found = slot[0] = get(None)
            return found

        return run

    def place(self, buffer: Buffer, indices: tuple[n.Expr, ...]) -> Locate:
        """The function that finds the place of `buffer[indices]`."""
        found = self.places.get((buffer, *indices))
        if found is None:
            found = self.places[(buffer, *indices)] = self._make_place(buffer, indices)
        return found

    def _make_place(self, buffer: Buffer, indices: tuple[n.Expr, ...]) -> Locate:
        machine, values = self.machine, [self.get(i) for i in indices]
        report = machine.report_for(buffer)
        steady = not any(self.can_fault(i) for i in indices)
        slot = self._slot(*indices) if steady else [None]

        def run(mask: Value) -> Address:
            view = machine.view(buffer)
            known: Address | None = slot[0]
            if known is not None and known.view is view:
                return known
            place, always = view.place([i(mask) for i in values], mask, report)
            if always and steady:
                slot[0] = place
            return place

        return run

    def _make(self, e: n.Expr) -> Get:
        kind = type(e)
        if kind in BINARY:
            return self._binary(e)
        maker = _MAKERS.get(kind)
        if maker is not None:
            return maker(self, e)
        if isinstance(e, n.Var):
            return self._var(e)
        raise InterpretError(f"the interpreter does not know {kind.__name__} in `{e}`")

    def _var(self, e: n.Var) -> Get:
        env = self.machine.env

        def run(mask: Value) -> Value:
            try:
                return env[e]
            except KeyError:
                raise InterpretError(f"variable {e.name} is used outside of its definition") from None

        return run

    def _constant(self, e: Any) -> Get:
        value = e.dtype.numpy.type(e.value)
        return lambda mask: value

    def _cast(self, e: n.Cast) -> Get:
        value, source, to = self.get(e.value), e.value.dtype, e.dtype.scalar
        if to.is_float or (to.is_int and source.is_int):
            kind = to.numpy
            return lambda mask: value(mask).astype(kind)
        return lambda mask: convert(value(mask), to)

    def _binary(self, e: Any) -> Get:
        a, b, compute = self.get(e.a), self.get(e.b), BINARY[type(e)]
        if not (_may_divide_by_zero(e) and self.machine.check):
            if isinstance(e.b, (n.IntImm, n.FloatImm)):
                constant = e.b.dtype.numpy.type(e.b.value)
                return lambda mask: compute(a(mask), constant)
            return lambda mask: compute(a(mask), b(mask))
        machine = self.machine

        def run(mask: Value) -> Value:
            divisor = b(mask)
            zero = divisor == 0
            if np.any(zero) and np.any(zero if mask is None else zero & mask):
                machine.fail(f"division by zero in `{e}`", zero if mask is None else zero & mask)
            return compute(a(mask), divisor)

        return run

    def _and(self, e: n.And) -> Get:
        return self._lazy(e.a, e.b, stop=False)

    def _or(self, e: n.Or) -> Get:
        return self._lazy(e.a, e.b, stop=True)

    def _lazy(self, left: n.Expr, right: n.Expr, stop: bool) -> Get:
        """The function of an And or Or: the right side counts only if the left one has not decided."""
        a, b, risky = self.get(left), self.get(right), self.can_fault(right)

        def run(mask: Value) -> Value:
            x = a(mask)
            if not isinstance(x, np.ndarray):
                return x if bool(x) is stop else b(mask)
            if risky:
                mask = _both(mask, ~x if stop else x)
                if not count_nonzero(mask):
                    return x
            return x | b(mask) if stop else x & b(mask)

        return run

    def _not(self, e: n.Not) -> Get:
        a = self.get(e.a)
        return lambda mask: ~a(mask)

    def _select(self, e: n.Select) -> Get:
        c, x, y = self.get(e.condition), self.get(e.true_value), self.get(e.false_value)

        def run(mask: Value) -> Value:
            chosen: Value = np.where(c(mask), x(mask), y(mask))
            return chosen[()]

        return run

    def _if_then_else(self, e: n.IfThenElse) -> Get:
        c, x, y = self.get(e.condition), self.get(e.true_value), self.get(e.false_value)
        risky_x, risky_y = self.can_fault(e.true_value), self.can_fault(e.false_value)

        def run(mask: Value) -> Value:
            on = c(mask)
            if not isinstance(on, np.ndarray):
                return x(mask) if on else y(mask)
            yes_lanes = count_nonzero(on)
            if yes_lanes == on.size:
                return x(mask)
            if not yes_lanes:
                return y(mask)
            yes = x(_both(mask, on) if risky_x else mask)
            no = y(_both(mask, ~on) if risky_y else mask)
            return np.where(on, yes, no)

        return run

    def _load(self, e: n.Load) -> Get:
        machine = self.machine
        buffer = e.source
        if not isinstance(buffer, Buffer):
            raise InterpretError(f"`{e}` reads {buffer.name}, which is not a buffer")
        locate, report = self.place(buffer, e.indices), machine.report_for(buffer)

        def run(mask: Value) -> Value:
            place = locate(mask)
            parts = [place] if buffer.byte_offset is None else byte_places(place)
            if place.storage.shadow is not None:
                for part in parts:
                    machine.check_read(part, mask, report)
            loaded = [part.storage.load(part, mask, report) for part in parts]
            return loaded[0] if buffer.byte_offset is None else value_of_bytes(loaded, buffer.dtype)

        return run

    def _call(self, e: n.Call) -> Get:
        if e.name in functions.OUTSIDE:
            return functions.call(self, e)
        args = [self.get(a) for a in e.args]
        if e.name in EXCHANGES:
            return self._exchange(e)
        if e.name == REINTERPRET:
            to, (bits,) = e.dtype.scalar, args
            return lambda mask: bits_as(bits(mask), to)
        compute = INTRINSICS.get(e.name)
        if compute is None:
            raise InterpretError(f"the interpreter does not know the intrinsic {e.name} in `{e}`")
        if e.name == "likely":
            return args[0]
        return lambda mask: compute(*[a(mask) for a in args])

    def _exchange(self, e: n.Call) -> Get:
        """A shuffle: the value of another lane of the same group of neighbouring threads."""
        value, operand, width = self.get(e.args[0]), *(int(getattr(a, "value", 0)) for a in e.args[1:])
        machine = self.machine

        def run(mask: Value) -> Value:
            shape = machine.together(mask)
            own = np.broadcast_to(value(mask), shape).reshape(-1, shape[-1])
            lane = np.arange(own.shape[0])
            first = lane - lane % width
            source = first + operand if e.name == "shuffle" else lane + operand
            source = np.where((source < first + width) & (source < own.shape[0]), source, lane)
            return own[source].reshape(shape)

        return run

    def _all_reduce(self, e: AllReduce) -> Get:
        """The combination over thread indices, in any order; the same for all threads of a group."""
        machine, sources, threads = self.machine, [self.get(s) for s in e.source], [self.get(t) for t in e.threads]
        combine = [self.get(r) for r in e.combiner.result]

        def run(mask: Value) -> Value:
            shape = machine.together(mask)
            values = [np.broadcast_to(s(mask), shape) for s in sources]
            varying = [np.shape(index(mask)) for index in threads]
            for axis in (at.index(max(at)) for at in varying if at):
                parts = [np.moveaxis(v, axis, 0) for v in values]
                total = [p[0] for p in parts]
                for k in range(1, shape[axis]):
                    for names, given in ((e.combiner.lhs, total), (e.combiner.rhs, [p[k] for p in parts])):
                        for name, v in zip(names, given, strict=True):
                            machine.define(name, v)
                    total = [c(None) for c in combine]
                values = [np.broadcast_to(np.expand_dims(t, axis), shape) for t in total]
            for name in (*e.combiner.lhs, *e.combiner.rhs):
                machine.forget(name)
            return values[e.value_index]

        return run

    def _ramp(self, e: n.Ramp) -> Get:
        machine, base, stride = self.machine, self.get(e.base), self.get(e.stride)
        steps: Value = np.arange(e.lanes).astype(e.dtype.numpy)

        def run(mask: Value) -> Value:
            return base(mask) + stride(mask) * steps.reshape((-1, *[1] * machine.axes))

        return run

    def _broadcast(self, e: n.Broadcast) -> Get:
        return self.get(e.value)


_MAKERS: dict[type, Callable[[Expressions, Any], Get]] = {
    n.IntImm: Expressions._constant,
    n.FloatImm: Expressions._constant,
    n.Cast: Expressions._cast,
    n.And: Expressions._and,
    n.Or: Expressions._or,
    n.Not: Expressions._not,
    n.Select: Expressions._select,
    n.IfThenElse: Expressions._if_then_else,
    n.Load: Expressions._load,
    n.Call: Expressions._call,
    AllReduce: Expressions._all_reduce,
    n.Ramp: Expressions._ramp,
    n.Broadcast: Expressions._broadcast,
}


def _may_divide_by_zero(e: n.Expr) -> bool:
    if not (isinstance(e, _DIVISIONS) and e.dtype.is_int):
        return False
    divisor = e.b.value if isinstance(e.b, n.Broadcast) else e.b
    return not (isinstance(divisor, n.IntImm) and divisor.value != 0)


def _both(mask: Value, on: Value) -> Value:
    return on if mask is None else mask & on


def own(value: Value) -> Value:
    """`value`, in memory that no later store changes."""
    return value.copy() if isinstance(value, np.ndarray) and not value.flags.owndata else value
