"""What the simplifier makes of the expressions that lowering meets, as printed."""

from __future__ import annotations

import pytest

from tests.arith.generate import const
from tilewright.arith.facts import EMPTY, Facts
from tilewright.arith.simplify import prove, prove_equal, simplify
from tilewright.core.dtype import BOOL, FLOAT32, INT32, INT64, DType
from tilewright.expr import nodes as n
from tilewright.expr import operators as op

NAMES = "b bc bx bz by c f h i j k r ri ro rx ry tx ty tz w x y z".split()
V = {name: n.Var(name) for name in NAMES}
b, bc, bx, bz, by, c, f, h, i, j, k, r, ri, ro, rx, ry, tx, ty, tz, w, x, y, z = V.values()
size = n.SizeVar("n")


def facts(**extents: int) -> Facts:
    return EMPTY.bind_all({V[name]: (const(0), const(extent)) for name, extent in extents.items()})


def shows(e: n.Expr, text: str, known: Facts = EMPTY) -> None:
    assert str(simplify(e, known)) == text


@pytest.mark.parametrize(
    ("e", "known", "text"),
    [
        ((bx * 32 + tx) - (ro * 4 + ri), {}, "bx * 32 + tx - ri - ro * 4"),
        (
            ((b * 4 + c) * 16 + (h + ry - 3)) * 32 + (w + rx - 3),
            {},
            "b * 2048 + c * 512 + h * 32 + ry * 32 + w + rx - 99",
        ),
        (((bc // 4 * 4 + bc % 4) * 16 + by) * 32, {"bc": 12}, "bc * 512 + by * 32"),
        (
            ((bz // 14 + ry - 1) * 14 + (bz % 14 + rx - 1)) * 65536,
            {"bz": 196},
            "ry * 917504 + bz * 65536 + rx * 65536 - 983040",
        ),
        (  # the quotient of x % 32 is written of x, its remainder of parts of x
            ((x * 4 + y) % 32) // 9 * 9 + (x % 8 * 4 + y) % 9 // 3 * 3 + ((x * 4 + y) % 32) % 9 % 3,
            {"x": 32, "y": 4},
            "x % 8 * 4 + y",
        ),
        (x + 3, {}, "x + 3"),
        (3 - r, {}, "3 - r"),
        (n.Sub(const(0), x), {}, "x * (-1)"),
        (x - x, {}, "0"),
        ((x + y) * 4 - y * 4, {}, "x * 4"),
        (n.Add(const(3), x), {}, "x + 3"),
    ],
)
def test_sums(e: n.Expr, known: dict[str, int], text: str) -> None:
    shows(e, text, facts(**known))


@pytest.mark.parametrize(
    ("e", "known", "text"),
    [
        ((x * 8 + y) // 4, {}, "x * 2 + y // 4"),
        ((x * 8 + y) // 4, {"y": 4}, "x * 2"),
        ((x * 16 + y * 4) // 8, {}, "x * 2 + y // 2"),
        ((x * 16 + y * 4 + z) // 8, {"z": 4}, "x * 2 + y // 2"),
        (x // 3 // 4, {}, "x // 12"),
        (x // 3 % 4, {}, "x % 12 // 3"),
        (x % 12 // 4, {}, "x % 12 // 4"),
        (x % 12 % 4, {}, "x % 4"),
        (x % 8, {"x": 8}, "x"),
        (x // 8, {"x": 8}, "0"),
        ((x * 8 + y) % 4, {}, "y % 4"),
        ((x * 4 + y) % 8, {"y": 4}, "x % 2 * 4 + y"),
        ((x - 1) // 4, {}, "(x - 1) // 4"),
        ((x + 9) // 4, {}, "(x + 1) // 4 + 2"),
        ((x + 4) // 4, {}, "x // 4 + 1"),
        ((x + 5) // 4 - (x + 1) // 4, {}, "1"),
        ((tx * 4 + i) // 4 % 2, {"i": 4}, "tx % 2"),
        (x - x // 4 * 4, {}, "x % 4"),
        (x - x % 4, {}, "x // 4 * 4"),
        (x // 14 * 42 + x % 14 * 3, {}, "x * 3"),
        (x // 12 * 12 + x % 12 // 4 * 4 + x % 4, {}, "x"),
        (x % 12 // 4 * 4 + x % 4, {}, "x % 12"),
        (op.truncdiv(x, 4), {"x": 9}, "x // 4"),
        (op.truncmod(x, 4), {"x": 9}, "x % 4"),
        (op.truncdiv(x, 4), {}, "T.truncdiv(x, 4)"),
        (((z * 7 + x) * 11 + i) // 72, {}, "(z * 77 + x * 11 + i) // 72"),
        (((z * 7 + x) * 11 + i) // 72 * 72 + ((z * 7 + x) * 11 + i) % 72, {}, "z * 77 + x * 11 + i"),
        ((ro * 64 + ty * 8 + tx // 2) // 17, {"tx": 16, "ty": 8, "ro": 9}, "(ro * 128 + ty * 16 + tx) // 34"),
        ((tz * 2 + tx // 3) % 27, {"tx": 7, "tz": 99}, "(tz * 6 + tx) % 81 // 3"),
    ],
)
def test_quotients_and_remainders(e: n.Expr, known: dict[str, int], text: str) -> None:
    shows(e, text, facts(**known))


WINDOW = {"bx": 513, "ty": 8, "tx": 4, "ro": 64}


@pytest.mark.parametrize(
    ("e", "known", "text"),
    [
        (i - 3 >= 0, {}, "3 <= i"),
        (i - 3 < 16, {}, "i < 19"),
        (k >= 16384, {}, "16384 <= k"),
        (i - r >= 0, {}, "r <= i"),
        (i - r >= 0, {"i": 8, "r": 3}, "0 <= i - r"),
        (i + 62 <= k, {"i": 100}, "i + 62 <= k"),
        (h < const(16) + 3, {}, "h < 19"),
        (n.LT(const(0), n.Sub(const(5), x)), {}, "x < 5"),
        (bx - k < 0, {}, "bx < k"),
        (bx - k < 0, {"bx": 8, "k": 8}, "bx - k < 0"),
        (x * 8 + y * 4 < 16387, {}, "x * 8 + y * 4 < 16387"),
        (x * 8 + y * 4 < 16387, {"x": 9999, "y": 9999}, "x * 2 + y < 4097"),
        (bx * 32 + ty * 4 + tx - ro * 8 < 16384, WINDOW, "bx * 8 + ty - ro * 2 < 4096"),
        (n.LE(const(4), bx * 32 + ty * 4 + tx - ro * 8), WINDOW, "1 <= bx * 8 + ty - ro * 2"),
        (ro * 128 + ty * 16 + tx < 1156, {"tx": 16}, "ro * 128 + ty * 16 + tx < 1156"),
        ((ro * 128 + ty * 16 + tx) // 16 < 73, {"tx": 16}, "ro * 8 + ty < 73"),
        (ro * 32 + ty * 4 + tx // 4 < 289, {"tx": 16, "ty": 8, "ro": 20}, "ro * 128 + ty * 16 + tx < 1156"),
        (x // 4 >= 3, {}, "12 <= x"),
        (x // 4 < 3, {}, "x < 12"),
        (x % 12 // 4 < 2, {}, "x % 12 < 8"),
        (x < 8, {"x": 8}, "T.bool(True)"),
        (x * 2 + y < 15, {"x": 8, "y": 2}, "x * 2 + y < 15"),
        (n.EQ(x * 2, const(3)), {}, "T.bool(False)"),
        (n.EQ(x * 4 + y, const(3)), {}, "x * 4 + y == 3"),
        (n.EQ(x * 4 + y, const(3)), {"y": 3}, "T.bool(False)"),
        (n.EQ(x, x), {}, "T.bool(True)"),
        (n.NE(x + 1, x), {}, "T.bool(True)"),
        (n.EQ(x * 4, const(8)), {}, "x == 2"),
        (n.EQ(x, y), {}, "x == y"),
        (ro * 32 + i + 2 < size, {}, "ro * 32 + i + 2 < n"),
        (n.GE(x, size), {}, "n <= x"),
    ],
)
def test_comparisons(e: n.Expr, known: dict[str, int], text: str) -> None:
    shows(e, text, facts(**known))


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (op.all_of(x >= 3, x >= 0, x < 8), "3 <= x and x < 8"),
        (op.all_of(x >= 3, y < 2, x >= 3), "3 <= x and y < 2"),
        (op.all_of(x >= 3, x < 2), "T.bool(False)"),
        (op.any_of(x >= 3, x < 3), "T.bool(True)"),
        (op.any_of(x >= 3, x >= 5), "3 <= x"),
        (op.any_of(k >= 16384, bx - k < 0, bx - k >= 32), "16384 <= k or bx < k or 32 <= bx - k"),
        (n.Not(op.all_of(x >= 3, y < 2)), "x < 3 or 2 <= y"),
        (op.any_of(x <= -256, y - x >= op.minimum(y, x)), "x < -255 or T.min(y, x) <= y - x"),  # y - x may overflow
        (n.Not(n.Not(x < y)), "x < y"),
        (op.likely(x < 4), "T.likely(x < 4)"),
        (n.Call("likely", (n.LT(x, x),), BOOL), "T.bool(False)"),
        (op.all_of(x < 4, x // 4 < 5, x >= 0), "x < 4 and 0 <= x"),
    ],
)
def test_logic(e: n.Expr, text: str) -> None:
    shows(e, text)


@pytest.mark.parametrize(
    ("e", "known", "text"),
    [
        (op.minimum(x, x + 3), {}, "x"),
        (op.maximum(op.minimum(x, 9), op.minimum(x, 5)), {}, "T.min(x, 9)"),
        (op.minimum(op.minimum(x, 9), 5), {}, "T.min(x, 5)"),
        (op.minimum(x, 7), {"x": 8}, "x"),
        (op.select(x < 8, x, y), {"x": 8}, "x"),
        (op.select(x < 8, y, y), {}, "y"),
        (op.if_then_else(x < 8, op.minimum(x, 7), 0), {}, "T.if_then_else(x < 8, x, 0)"),
        (op.if_then_else(x < 8, op.select(x < 9, y, z), 0), {}, "T.if_then_else(x < 8, y, 0)"),
        (op.if_then_else(x < 8, op.if_then_else(y < 2, z, 0), 0), {}, "T.if_then_else(x < 8 and y < 2, z, 0)"),
        (op.select(n.Not(op.likely(x < 8)), y, z), {}, "T.Select(T.likely(x < 8), z, y)"),
        (n.Cast(INT32, n.Cast(INT64, x)), {}, "x"),
        (n.Cast(INT64, const(3)), {}, "T.int64(3)"),
    ],
)
def test_choices(e: n.Expr, known: dict[str, int], text: str) -> None:
    shows(e, text, facts(**known))


def test_floats_keep_every_bit() -> None:
    a, zero = n.Var("a", FLOAT32), n.FloatImm(0.0, FLOAT32)
    assert simplify(n.Mul(a, n.FloatImm(1.0, FLOAT32))) is a
    for kept in (n.Mul(a, zero), n.Add(a, zero), n.Sub(a, a), n.Add(n.Add(a, zero), zero), n.EQ(a, a)):
        assert simplify(kept) is kept
    inner = n.Mul(a, n.Cast(FLOAT32, x + 2 - x))
    assert str(simplify(inner)) == "a * T.float32(2)"


def test_narrow_integers_wrap() -> None:
    u = n.Var("u", DType("uint8"))
    for kept in (
        n.Sub(n.Add(u, n.IntImm(200, u.dtype)), n.IntImm(100, u.dtype)),
        n.GE(n.Sub(u, n.IntImm(1, u.dtype)), u),
    ):
        assert simplify(kept) is kept
    assert simplify(n.GE(u, n.IntImm(0, u.dtype))) is n.TRUE


def test_constants_that_do_not_fit_are_left_alone() -> None:
    big = n.Mul(n.Mul(x, const(65536)), const(65536))
    assert simplify(big) is big
    wide = n.Var("wide", INT64)
    assert str(simplify(wide * 65536 * 65536)) == "wide * T.int64(4294967296)"


def test_symbolic_sizes() -> None:
    m = n.SizeVar("m")
    known = EMPTY.bind(i, const(0), m).bind(j, const(0), size)
    e = i * size + j
    assert simplify(e // size, known) is i
    assert simplify(e % size, known) is j
    assert simplify(f // size * size + f % size) is f
    assert prove(e < m * size, known)
    assert prove(e >= 0, known)
    assert not prove(e < m * size - 1, known)
    shows((ro * 32 + i + 1) * size, "(ro * 32 + i + 1) * n")
    shows((size - 4 + 31) // 32, "(n + 27) // 32")


def test_conditions_are_used() -> None:
    known = EMPTY.assume(op.all_of(x >= 0, op.likely(x < 8), y - x >= 2))
    assert simplify(x % 8, known) is x
    assert prove(y > x, known)
    assert prove(y >= 2, known)
    assert not prove(y >= 3, known)
    divisible = EMPTY.assume(n.EQ(size % 8, const(0)))
    shows((size + 7) // 8, "n // 8", divisible)
    shows(size % 4, "0", divisible)
    shows((size * 3 + 2) % 8, "2", divisible)
    assert simplify(op.select(x < y, 1, 2), EMPTY.assume(x < y)) is const(1)
    assert simplify(x, EMPTY.assume(n.EQ(x, const(3)))) is const(3)


class Source:
    """Something to load from."""

    name = "A"
    dtype = INT32


def test_a_select_does_not_come_to_fault() -> None:
    index = op.minimum(x, 7)
    eager = n.Select(x < 8, n.Load(Source(), (index,)), const(0))
    assert simplify(eager) is eager
    lazy = n.IfThenElse(x < 8, n.Load(Source(), (index,)), const(0))
    assert str(simplify(lazy)) == "T.if_then_else(x < 8, A[x], 0)"


def test_conditions_on_memory_do_not_outlive_a_store() -> None:
    element = n.Load(Source(), (x,))
    assert EMPTY.assume(element < 3) is EMPTY
    assert prove(element < 4, EMPTY.assume(element < 3, memory=True))
    shows(n.IfThenElse(element < 3, op.minimum(element, 5), const(0)), "T.if_then_else(A[x] < 3, A[x], 0)")


def test_vectors() -> None:
    known = facts(x=8)
    lanes = n.Ramp(x * 4, const(1), 4)
    shows(n.Add(lanes, n.Broadcast(y, 4)), "T.Ramp(x * 4 + y, 1, 4)")
    shows(n.Mul(lanes, n.Broadcast(const(3), 4)), "T.Ramp(x * 12, 3, 4)")
    shows(n.FloorDiv(lanes, n.Broadcast(const(4), 4)), "T.Broadcast(x, 4)")
    shows(n.FloorMod(lanes, n.Broadcast(const(8), 4)), "T.Ramp(x % 2 * 4, 1, 4)")
    shows(n.LT(lanes, n.Broadcast(const(32), 4)), "T.Broadcast(T.bool(True), 4)", known)
    undecided = n.LT(lanes, n.Broadcast(y, 4))
    assert simplify(undecided) is undecided


def test_equal_forms_are_proved_equal_whatever_their_order() -> None:
    assert prove_equal((x + y) // 3 + (y + x) % 5, (y + x) // 3 + (x + y) % 5)
    assert prove_equal(x * y * 2, y * (x + x))
    assert prove_equal((x * 6 + y) % 81 // 9, (x * 6 + y) // 9 % 9)
    assert not prove_equal(x // 3, x // 4)


def test_the_same_facts_are_the_same_object() -> None:
    known = EMPTY.bind(x, const(0), const(8)).bind(y, const(0), size)
    assert known is EMPTY.bind_all({y: (const(0), size), x: (const(0), const(8))})
    assert known.bind(x, const(0), const(8)) is known
    assert known.assume(x < y) is known.assume(x < y)
    assert known.assume(n.And(x < y, n.Call("likely", (y < 3,), BOOL))) is known.assume(x < y).assume(y < 3)
    assert known.assume(n.TRUE) is known
    assert known.range_of(x) == (const(0), const(8))
    assert known.range_of(z) is None
    assert x in known
