"""Integers as hardware has them: what the package says of expressions, against fixed-width arithmetic with wraparound.

Bytes are tried on all pairs of values, wider types on values at their ends. The full run, with as many expressions as
are asked for: python -m tests.arith.test_hardware --count 1000000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.arith.hardware import Evaluation
from tests.arith.hardware_cases import Case, byte_case, end_case
from tests.arith.hardware_checks import check
from tests.arith.hardware_kernels import of_bytes, of_ends, of_indices, wrong
from tests.arith.test_rules import RULES, Instance, name
from tilewright import arith, te
from tilewright.arith.rules.pattern import compile_rules
from tilewright.core.dtype import DType
from tilewright.expr import nodes as n

MAKES = {"bytes": byte_case, "ends": end_case}
SEEDS = 6


def run(make: Callable[[Random], Case], seeds: range) -> int:
    """Check a case of each seed; return the number of values on which they were defined."""
    return sum(check(make(Random(seed))) for seed in seeds)


@pytest.mark.parametrize("part", range(SEEDS))
def test_all_pairs_of_bytes(part: int) -> None:
    assert run(byte_case, range(part * 70, part * 70 + 70)) > 1_100_000


@pytest.mark.parametrize("part", range(SEEDS))
def test_the_ends_of_16_32_and_64_bits(part: int) -> None:
    assert run(end_case, range(part * 230, part * 230 + 230)) > 28_000


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKES)
def test_many_more(kind: str) -> None:
    run(MAKES[kind], range(10_000, 20_000))


TARGETS = ["llvm", pytest.param("opencl", marks=pytest.mark.opencl)]


PROGRAMS = pytest.mark.parametrize("make", [of_bytes, of_ends, of_indices], ids=["bytes", "ends", "indices"])


@pytest.mark.parametrize("target", TARGETS)
@PROGRAMS
def test_programs(make: Callable[[Random], tuple[Case, Any]], target: str) -> None:
    r = Random(target)
    assert wrong([make(r) for _ in range(24 if target == "llvm" else 10)], target, r) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@PROGRAMS
def test_many_programs(make: Callable[[Random], tuple[Case, Any]], target: str) -> None:
    for seed in range(20):
        r = Random(seed)
        assert wrong([make(r) for _ in range(20)], target, r) == []


INTEGERS = [number for number, rule in enumerate(RULES) if rule.domain in ("int", "wrapping", "bool", "typed")]


@pytest.mark.parametrize("number", INTEGERS, ids=[name(RULES[number]) for number in INTEGERS])
def test_rules(number: int) -> None:
    rule, r = RULES[number], Random(number)
    rewrite = compile_rules([rule])[rule.pattern.root]
    for _ in range(40):
        before = Instance(r, rule).expr
        after = rewrite(before)
        names = [v for v in _variables(before) if not v.dtype.is_float]
        if after is None or any(part.dtype.is_float for part in _nodes(before)) or not names:
            continue
        evaluation = Evaluation({var: _values(r, var.dtype) for var in names})
        value, defined = evaluation(before)
        made = Evaluation(evaluation.env, wraps=True)(after)
        assert (~defined | (made.defined & (made.value == value))).all(), f"{before} -> {after}"


def _values(r: Random, kind: DType) -> Any:
    if kind.is_bool:
        return np.array([r.random() < 0.5 for _ in range(64)])
    case = end_case(r, 64)
    low, high = kind.min_value, kind.max_value
    drawn = [int(value) for values in case.values.values() for value in values][:64]
    return np.array([(value - low) % (high - low + 1) + low for value in drawn], kind.numpy)


def _nodes(root: n.Expr) -> list[n.Expr]:
    return [root, *(part for child in root.children() for part in _nodes(child))]


def _variables(root: n.Expr) -> list[n.Var]:
    return list(dict.fromkeys(part for part in _nodes(root) if isinstance(part, n.Var)))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32"])
def test_iterator_maps_count_as_hardware_does(kind: str) -> None:
    """Indices that are digits of iterators take the values that they say, each combination once."""
    found = 0
    for seed in range(300):
        r = Random(seed)
        names = [n.Var(text, DType(kind)) for text in "ij"]
        starts = [r.choice((0, 0, 0, 3, 100)) for _ in names]
        extents = [r.choice((1, 2, 4, 8, 12, 16, 24)) for _ in names]
        ranges = {var: te.Range(low, low + extent) for var, low, extent in zip(names, starts, extents, strict=True)}
        grid = np.meshgrid(*(np.arange(low, low + extent) for low, extent in zip(starts, extents, strict=True)))
        evaluation = Evaluation({v: g.reshape(-1).astype(kind) for v, g in zip(names, grid, strict=True)})
        indices = [_index(r, names, DType(kind)) for _ in range(r.choice((1, 1, 2)))]
        level = r.choice((arith.IterMapLevel.Bijective, arith.IterMapLevel.Surjective))
        result = arith.detect_iter_map(indices, ranges, True, level)
        seen = [evaluation(index).value for index in indices]
        for index, total, values in zip(indices, result.indices, seen, strict=False):
            made = evaluation(arith.normalize_iter_map_to_expr(total))
            assert (made.value == values).all(), f"{indices} of {ranges}: {index} is not {total}"
        if result.indices:
            found += 1
            count = len({tuple(map(int, each)) for each in zip(*seen, strict=True)})
            extent = np.prod([arith_extent(total) for total in result.indices])
            assert count == extent, f"{indices} of {ranges}"
            assert level is not arith.IterMapLevel.Bijective or count == evaluation.count, f"{indices} of {ranges}"
    assert found > (50 if kind == "int32" else 5)


def arith_extent(total: arith.IterSumExpr) -> int:
    """How many values a sum of at most one split has."""
    return int(total.args[0].extent) if total.args else 1


def _index(r: Random, names: list[n.Var], kind: DType) -> n.Expr:
    """Sums of multiples of iterators, and their quotients and remainders."""
    i, j = names if r.random() < 0.5 else names[::-1]
    step = r.choice((1, 2, 4, 8, 12, 16, 24))
    e: n.Expr = i
    if r.random() < 0.7:
        e = n.Add(n.Mul(i, n.IntImm(step, kind)), j)
    if r.random() < 0.4:
        e = n.Add(e, n.IntImm(r.choice((1, 8, 100)), kind))
    if r.random() < 0.5:
        e = r.choice((n.FloorDiv, n.FloorMod))(e, n.IntImm(r.choice((2, 4, 8, 12)), kind))
    return e


def main() -> None:
    """Check random expressions, and print how many were wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="expressions of 16, 32 and 64 bits")
    parser.add_argument("--bytes", type=int, default=0, help="expressions of bytes, each on all pairs of values")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    args = parser.parse_args()
    for kind, count in (("ends", args.count), ("bytes", args.bytes)):
        start, faults, values = time.process_time(), 0, 0
        for seed in range(args.seed, args.seed + count):
            try:
                values += run(MAKES[kind], range(seed, seed + 1))
            except Exception as error:  # every fault is one of the result
                faults += 1
                print(f"{kind} {seed}: {type(error).__name__}: {error}", flush=True)
        seconds = time.process_time() - start
        print(f"{kind}: {count:,} expressions, {values:,} values, {faults} wrong, {seconds:.0f} s of CPU time")


if __name__ == "__main__":
    main()
