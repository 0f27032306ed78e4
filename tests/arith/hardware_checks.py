"""What the analyzer says of an expression, checked on every value of a case. Run: see `test_hardware.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.arith.hardware import Evaluation
from tests.arith.hardware_cases import Case
from tilewright import arith
from tilewright.arith import Analyzer, ConstIntBound, IntervalSet
from tilewright.expr import nodes as n

NO_END = arith.int_set.neg_inf(), arith.int_set.pos_inf()


def check(case: Case) -> int:
    """Check everything; return the number of values on which the expression was defined."""
    analyzer = Analyzer()
    for var, span in case.spans.items():
        analyzer.update(var, ConstIntBound(*span))
    evaluation = case.evaluation()
    if case.condition is None:
        return _check(case, analyzer, evaluation)
    with analyzer.constraint_scope(case.condition):
        return _check(case, analyzer, evaluation)


def _check(case: Case, analyzer: Analyzer, evaluation: Evaluation) -> int:
    e = case.expr
    value, defined = evaluation(e)
    for simplify in (analyzer.simplify, analyzer.canonical_simplify):
        simple = simplify(e)
        assert simple.dtype == e.dtype
        made = Evaluation(evaluation.env, wraps=True)(simple)
        _same(case, evaluation, defined, made.defined & (made.value == value), f"is simplified to {simple}")
    if e.dtype.is_bool and analyzer.can_prove(e):
        _same(case, evaluation, defined, value, "is proven")
    bound = analyzer.const_int_bound(e)
    numbers = value.astype(object)
    within = (numbers >= bound.min_value) & (numbers <= bound.max_value)
    _same(case, evaluation, defined, within.astype(bool), f"is bounded by {bound}")
    if e.dtype.is_int:
        _sets(case, analyzer, evaluation)
    if isinstance(e, n.Compare):
        _deduced(case)
    return int(defined.sum())


def _sets(case: Case, analyzer: Analyzer, evaluation: Evaluation) -> None:
    e = case.expr
    value, defined = evaluation(e)
    numbers = value.astype(object)
    coeff, base = (modular := analyzer.modular_set(e)).coeff, modular.base
    congruent = (numbers - base) % coeff == 0 if coeff else numbers == base
    _same(case, evaluation, defined, np.asarray(congruent, bool), f"is in {modular}")
    for domains in _domains(case):
        held = analyzer.int_set(e, domains)
        for side, end in enumerate((held.min_value, held.max_value)):
            if end is NO_END[side]:
                continue
            limit = evaluation(end)  # an end that overflows says nothing
            there = limit.value.astype(object)
            holds = np.asarray(numbers <= there if side else numbers >= there, bool)
            _same(case, evaluation, defined & limit.defined, holds, f"is in {held} for {domains}")


def _domains(case: Case) -> list[dict[n.Var, IntervalSet] | None]:
    """The ranges that the analyzer knows, sets for both variables, and for each of them alone."""
    sets = {
        var: IntervalSet(*(n.IntImm(end, var.dtype) for end in case.spans.get(var, (lo, hi))))
        for var, lo, hi in ((v, v.dtype.min_value, v.dtype.max_value) for v in case.names)
    }
    return [None, sets, *({var: held} for var, held in sets.items())]


def _deduced(case: Case) -> None:
    """The values that `deduce_bound` finds for each variable, whatever the other one is, and in terms of it."""
    if case.condition is not None:
        return
    for target, other in (case.names, case.names[::-1]):
        spans = {var: span for var, span in case.spans.items() if var is other}
        run = Case(case.expr, case.names, spans, None, case.values).evaluation()
        value, defined = run(case.expr)
        low, high = spans.get(other, (other.dtype.min_value, other.dtype.max_value))
        known = {other: IntervalSet(n.IntImm(low, other.dtype), n.IntImm(high, other.dtype))}
        for relaxed in (known, {}):
            held = arith.deduce_bound(target, case.expr, known, relaxed)
            keep = np.full(run.count, not held.is_nothing())
            for side, end in enumerate(() if held.is_nothing() else (held.min_value, held.max_value)):
                if end is not NO_END[side]:
                    limit = run(end)  # an end that overflows says nothing
                    values, ends = run.env[target].astype(object), limit.value.astype(object)
                    keep &= limit.defined & np.asarray(values <= ends if side else values >= ends, bool)
            _same(case, run, defined & keep, value, f"holds for {target.name} in {held} of {relaxed}")


def _same(case: Case, evaluation: Evaluation, defined: Any, right: Any, what: str) -> None:
    wrong = defined & ~right
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        values = {var.name: int(held[at]) for var, held in evaluation.env.items()}
        raise AssertionError(
            f"{case} {what}; at {values} it is {evaluation(case.expr).value[at]} ({int(wrong.sum())} of {len(wrong)})"
        )
