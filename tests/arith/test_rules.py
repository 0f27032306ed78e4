"""Every rewrite rule by itself: equal values on random instances, no growth, and an end to rewriting."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.arith import generate
from tests.arith.exact import UndefinedError, evaluate, size
from tilewright.arith.rules import RULES as LOWERING_RULES
from tilewright.arith.rules.pattern import Pattern, Rule, Wild, compile_rules
from tilewright.compat.arith import lattice
from tilewright.core.dtype import BOOL, FLOAT32, DType
from tilewright.expr import nodes as n

RULES = [*LOWERING_RULES, *lattice.RULES]
INSTANCES = 150
NARROW = [DType(name) for name in ("uint8", "int8", "uint16", "int16", "uint32", "uint64")]
NUMERIC = [*NARROW, *(DType(name) for name in ("bool", "int32", "int64", "float16", "float32", "float64"))]
SPECIAL = (0.0, -0.0, 1.0, -1.0, 1.5, 3e38, 1e-45, math.inf, -math.inf, math.nan)


class Instance:
    """Random matches for the wildcards of a pattern, and values for the variables in them."""

    def __init__(self, r: Random, rule: Rule) -> None:
        self.r, self.domain = r, rule.domain
        self.held: dict[str, Any] = {}
        self.dtype = self._dtype()
        self.names = [n.Var(name, self.dtype) for name in "ab"]
        self.expr = self.build(rule.pattern)

    def _dtype(self) -> DType:
        kinds = {"int": [DType("int32")], "vector": [DType("int32")], "bool": [BOOL], "float": [FLOAT32]}
        kinds |= {"lanes": kinds["int"], "lanes of bool": [BOOL]}
        return self.r.choice({**kinds, "wrapping": NARROW, "typed": NUMERIC}[self.domain])

    def build(self, pattern: Pattern) -> Any:
        parts = []
        for field, part in zip(pattern.root.FIELDS, pattern.parts, strict=True):
            if isinstance(part, Pattern):
                parts.append(self.build(part))
            elif isinstance(part, Wild):
                if part.name not in self.held:
                    self.held[part.name] = self.draw(part, "condition" if pattern.root is n.Not else field)
                parts.append(self.held[part.name])
            else:
                parts.append(4 if part is None else part)
        return pattern.root(*parts)

    def draw(self, part: Wild, field: str) -> Any:
        """A match for a wildcard that stands in the given field."""
        if part.name == "lanes":
            return 4
        if part.kind == "number" and self.domain == "lanes":
            return DType("int64x4")
        if part.kind == "number":
            return self.r.choice(NUMERIC)
        if self.domain == "lanes":
            condition = part.name == "c"
            return (generate.condition if condition else generate.number)(self.r, self.names, 1)
        if field == "condition":
            return self.condition()
        if part.kind == "constant":
            return n.IntImm(self.r.choice((0, 1, 2, 5)), self.dtype)
        if "bool" in self.domain:
            return self.condition()
        if self.domain == "vector":
            return n.Ramp(generate.number(self.r, self.names, 1), generate.const(1), 4)
        if self.domain == "float" and self.r.random() < 0.6:
            return n.FloatImm(self.r.choice(SPECIAL[:4]), self.dtype)
        if self.domain == "int":
            return generate.number(self.r, self.names, 2)
        return self.r.choice(self.names)

    def condition(self) -> n.Expr:
        flags = [n.Var("p", BOOL), n.Var("q", BOOL)] if "bool" in self.domain else self.names
        return self.r.choice(flags) if "bool" in self.domain else generate.condition(self.r, flags, 1)


def variables(*roots: n.Expr) -> list[n.Var]:
    """The variables that occur."""
    found: dict[n.Var, None] = {}
    for root in roots:
        if isinstance(root, n.Var):
            found[root] = None
        found.update(dict.fromkeys(variables(*root.children())))
    return list(found)


def value_of(r: Random, dtype: DType) -> Any:
    """A value of the type, most often a special one."""
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return dtype.numpy.type(r.choice(SPECIAL))
    low, high = dtype.min_value, dtype.max_value
    return r.choice((low, high, max(low, -1), 0, 1, r.randint(low, high), r.randint(max(low, -9), min(high, 9))))


def run(e: Any, env: dict[n.Var, Any]) -> Any:
    """The value of e, wrapping and rounding as its types do."""
    if isinstance(e, n.Var):
        return env[e]
    if isinstance(e, n.FloatImm):
        return e.dtype.numpy.type(e.value)
    with np.errstate(all="ignore"):
        if isinstance(e, n.Cast) and e.dtype.lanes == 1:
            inner = run(e.value, env)
            source = np.asarray(inner, dtype=e.value.dtype.numpy)
            return source.astype(e.dtype.numpy).item()
        if isinstance(e, n.Arithmetic) and e.dtype.is_float:
            return NUMPY[type(e)](run(e.a, env), run(e.b, env))
    if isinstance(e, n.Arithmetic) and e.dtype in NARROW:
        plain = type(e)(*(n.IntImm(run(part, env), DType("int64")) for part in (e.a, e.b)))
        low, high = e.dtype.min_value, e.dtype.max_value
        return (evaluate(plain, {}) - low) % (high - low + 1) + low
    return evaluate(e, env)


NUMPY = {n.Add: np.add, n.Sub: np.subtract, n.Mul: np.multiply, n.Div: np.divide}


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same, bit for bit (any NaN is as good as another)."""
    if isinstance(a, (float, np.floating)):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return bool(a == b)


def name(rule: Rule) -> str:
    """The rule's pattern, for the test's name."""

    def text(part: Any) -> str:
        if isinstance(part, Pattern):
            return f"{part.root.__name__}({','.join(map(text, part.parts))})"
        return part.name if isinstance(part, Wild) else "_" if part is None else str(part)

    return text(rule.pattern)


@pytest.mark.parametrize("number", range(len(RULES)), ids=[name(rule) for rule in RULES])
def test_rule(number: int) -> None:
    rule = RULES[number]
    rewrite = compile_rules([rule])[rule.pattern.root]
    r = Random(number)
    applied = 0
    for _ in range(INSTANCES):
        before = Instance(r, rule).expr
        after = rewrite(before)
        if after is None:
            continue
        applied += 1
        assert after.dtype == before.dtype
        assert size(after) <= size(before)
        assert after is not before
        names = variables(before)
        for _ in range(12):
            env = {var: value_of(r, var.dtype) for var in names}
            if rule.domain in ("int", "vector", "lanes"):
                env = {var: r.randint(-40, 40) for var in names}
            try:
                value = run(before, env)
            except UndefinedError:
                continue
            assert same(value, run(after, env)), f"{before} -> {after}"
    assert applied, "no random instance met the rule's condition"
