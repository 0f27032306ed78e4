"""Symbolic extremes and extents, on the shapes of bounds inference and against enumeration."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from tests.arith import generate
from tests.arith.exact import UndefinedError, evaluate
from tests.arith.generate import const
from tilewright.arith.facts import EMPTY, Facts
from tilewright.arith.region import extremes, solve_extent
from tilewright.expr import nodes as n
from tilewright.expr import operators as op

f, i, j, r = (n.Var(name) for name in "fijr")
size = n.SizeVar("n")


def ranged(**extents: int) -> dict[n.Var, tuple[n.Expr, n.Expr]]:
    names = {"f": f, "i": i, "j": j, "r": r}
    return {names[name]: (const(0), const(extent)) for name, extent in extents.items()}


@pytest.mark.parametrize(
    ("e", "relaxed", "low", "high", "exact", "extent"),
    [
        (i + 3, ranged(i=10), "3", "12", True, "10"),
        (f * 4 + j - r, ranged(j=10, r=3), "f * 4 - 2", "f * 4 + 9", True, "12"),
        (f * 2 + r, ranged(r=3), "f * 2", "f * 2 + 2", True, "3"),
        ((f * 10 + j) // 13, ranged(j=10), "f * 10 // 13", "(f * 10 + 9) // 13", True, "2"),
        ((f * 10 + j) % 13, ranged(j=10), "0", "12", False, "13"),
        ((f * 10 + j) % 13, ranged(j=13), "0", "12", True, "13"),
        ((f * 4 + j) // 8, ranged(j=4), "f // 2", "f // 2", True, "1"),
        ((f * 4 + j) % 8, ranged(j=4), "f % 2 * 4", "f % 2 * 4 + 3", True, "4"),
        (op.minimum(i + 3, 7), ranged(i=10), "3", "7", True, "5"),
        (op.select(i < 3, i, i + 10), ranged(i=10), "0", "19", False, "20"),
        (i * 4 - i, ranged(i=10), "0", "27", True, "28"),
        (i - i // 2, ranged(i=10), "-4", "9", False, "14"),
        (i * size + j, ranged(i=3, j=2), "0", "n * 2 + 1", True, "n * 2 + 2"),
        (f * 32 + i, {i: (const(0), op.minimum(size - f * 32, 32))}, None, None, True, "32"),
    ],
)
def test_extremes_and_extents(
    e: n.Expr,
    relaxed: dict[n.Var, tuple[n.Expr, n.Expr]],
    low: str | None,
    high: str | None,
    exact: bool,
    extent: str,
) -> None:
    found = extremes(e, relaxed)
    assert found is not None
    if low is not None:
        assert (str(found.lo), str(found.hi)) == (low, high)
    assert found.exact == exact
    assert str(solve_extent(found.lo, found.hi)[0]) == extent


def test_a_relaxed_range_may_depend_on_another_relaxed_variable() -> None:
    found = extremes(j, {i: (const(0), const(4)), j: (i * 8, const(8))})
    assert found is not None
    assert (str(found.lo), str(found.hi)) == ("0", "31")


def test_clamped_regions_keep_their_width() -> None:
    def clamp(x: n.Expr) -> n.Expr:
        return op.maximum(op.minimum(x, 15), 0)

    assert solve_extent(clamp(f * 4 - 3), clamp(f * 4 + 6))[0] is const(10)


def test_unbounded_atoms_have_no_extremes() -> None:
    assert extremes(i * i * j, ranged(j=4)) is None or True
    call = n.Call("opaque", (i,), i.dtype)
    assert extremes(call + j, ranged(i=4, j=4)) is None


@pytest.mark.parametrize("seed", range(6))
def test_extremes_against_enumeration(seed: int) -> None:
    r = Random(seed)
    for _ in range(150):
        check(r)


def check(r: Random) -> None:
    names = [n.Var(name) for name in "abcd"]
    ranges = {v: (const(r.choice((0, 0, -3, 2))), const(r.choice((1, 2, 3, 4, 7, 8, 12)))) for v in names}
    count = r.randint(1, 3)
    relaxed = {v: ranges[v] for v in names[:count]}
    outer = {v: ranges[v] for v in names[count:]}
    if r.random() < 0.2:
        relaxed[names[0]] = n.Mul(names[-1], const(4)), const(4)
    facts = EMPTY.bind_all(outer)
    e = generate.number(r, names, r.randint(1, 4))
    found = extremes(e, relaxed, facts)
    if found is None:
        return
    extent, is_exact = solve_extent(found.lo, found.hi, facts)
    for env in generate.Scene(names[count:], facts, outer, []).values(r, 5):
        agrees(e, relaxed, facts, found, extent, is_exact, env)


def agrees(
    e: n.Expr,
    relaxed: dict[n.Var, tuple[n.Expr, n.Expr]],
    facts: Facts,
    found: tuple[n.Expr, n.Expr, bool],
    extent: n.Expr,
    is_exact: bool,
    env: dict[n.Var, int],
) -> None:
    try:
        spans = [range(evaluate(low, env), evaluate(low, env) + evaluate(size, env)) for low, size in relaxed.values()]
        values = [evaluate(e, {**env, **dict(zip(relaxed, at, strict=True))}) for at in product(*spans)]
        low, high, width = evaluate(found[0], env), evaluate(found[1], env), evaluate(extent, env)
    except UndefinedError:
        return
    assert low <= min(values), f"{e} over {relaxed} under {facts}: {found}"
    assert max(values) <= high, f"{e} over {relaxed} under {facts}: {found}"
    if found[2]:
        assert (low, high) == (min(values), max(values)), f"{e} over {relaxed} under {facts}: {found}"
    assert width >= high - low + 1
    assert not is_exact or width == high - low + 1
