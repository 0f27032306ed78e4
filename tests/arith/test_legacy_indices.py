"""Index and guard expressions of the documents' programs: never larger than what the legacy compiler printed."""

from __future__ import annotations

import ast
from pathlib import Path
from random import Random

import pytest

from tests.arith.exact import evaluate, size
from tests.arith.generate import const
from tilewright.arith.facts import EMPTY, Facts
from tilewright.arith.simplify import prove_equal, simplify
from tilewright.expr import nodes as n

ROWS = [
    tuple(part.strip() for part in line.split("|"))
    for line in Path(__file__).with_name("legacy_indices.txt").read_text().splitlines()
    if not line.startswith("#")
]
OPERATORS = {ast.Add: n.Add, ast.Sub: n.Sub, ast.Mult: n.Mul, ast.FloorDiv: n.FloorDiv, ast.Mod: n.FloorMod}
COMPARES = {ast.Lt: n.LT, ast.LtE: n.LE, ast.Gt: n.GT, ast.GtE: n.GE}


def parse(text: str, names: dict[str, n.Var]) -> n.Expr:
    """The expression as it is written, nothing folded."""

    def build(at: ast.expr) -> n.Expr:
        match at:
            case ast.Name(id=name):
                return names[name]
            case ast.Constant(value=int(value)):
                return const(value)
            case ast.BinOp(left=left, op=op, right=right):
                return OPERATORS[type(op)](build(left), build(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return COMPARES[type(op)](build(left), build(right))
            case ast.BoolOp(op=op, values=[first, *rest]):
                result = build(first)
                for value in rest:
                    result = (n.And if isinstance(op, ast.And) else n.Or)(result, build(value))
                return result
        raise NotImplementedError(ast.dump(at))

    return build(ast.parse(text, mode="eval").body)


def scene(ranges: str) -> tuple[dict[str, n.Var], Facts, dict[n.Var, int]]:
    extents = {name: int(extent) for name, extent in (part.split(":") for part in ranges.split())}
    names = {name: n.Var(name) for name in extents}
    facts = EMPTY.bind_all({var: (const(0), const(extents[name])) for name, var in names.items()})
    return names, facts, {var: extents[name] for name, var in names.items()}


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_no_larger_than_the_legacy_compiler_printed(row: int) -> None:
    ranges, text = ROWS[row]
    names, facts, extents = scene(ranges)
    e = parse(text, names)
    simple = simplify(e, facts)
    assert size(simple) <= size(e)
    r = Random(row)
    for _ in range(200):
        env = {var: r.randrange(extent) for var, extent in extents.items()}
        assert evaluate(simple, env) == evaluate(e, env), f"{e} -> {simple}"


@pytest.mark.parametrize(
    ("ranges", "raw", "reached"),
    [
        (  # a padded input, loaded together: 16 channels of 9 rows of 7 columns, over 4 threads of 252 elements
            "rc:32 rx:3 tz:4 f:252",
            "((rc * 16 + (tz * 252 + f) // 63) * 7 + ((tz * 252 + f) // 7 % 9 - 1)) * 7"
            " + (rx + (tz * 252 + f) % 7 - 1)",
            "rc * 784 + tz * 196 + f // 63 * 49 + rx + f % 63 - 8",
        ),
        (
            "tz:4 f:252",
            "(tz * 252 + f) // 7 % 9 - 1 >= 0 and (tz * 252 + f) // 7 % 9 - 1 < 7",
            "7 <= f % 63 and f % 63 < 56",
        ),
        (
            "rx:3 tz:4 f:252",
            "rx + (tz * 252 + f) % 7 - 1 >= 0 and rx + (tz * 252 + f) % 7 - 1 < 7",
            "1 <= rx + f % 7 and rx + f % 7 < 8",
        ),
        (  # a filter, loaded together: 36 of each 72 elements belong to one output channel
            "bz:4 tz:64 tx:7 f:11 rc:128",
            "((bz * 128 + (tz * 72 + tx * 11 + f) // 36) * 512 + (rc * 4 + (tz * 72 + tx * 11 + f) % 36 // 9)) * 9"
            " + (tz * 72 + tx * 11 + f) % 9 // 3 * 3 + (tz * 72 + tx * 11 + f) % 3",
            "bz * 589824 + tz * 9216 + (tx * 11 + f) // 36 * 4608 + rc * 36 + (tx * 11 + f) % 36",
        ),
        ("tx:7 f:11 tz:64", "(tz * 72 + tx * 11 + f) // 72 < 64", "(tx * 11 + f) // 72 + tz < 64"),
        ("tz:64 tx:7", "(tz * 6 + tx) // 6 < 54", "tx // 6 + tz < 54"),
        (
            "rc:128 tz:64 tx:7",
            "(rc * 4 + (tz * 6 + tx) // 81) * 49 + ((tz * 6 + tx) // 9 % 9 - 1) * 7 + ((tz * 6 + tx) % 9 - 1)",
            "rc * 196 + (tz * 2 + tx // 3) // 27 * 49 + (tz * 2 + tx // 3) % 27 // 3 * 7 + (tz * 6 + tx) % 9 - 8",
        ),
        (
            "bx:9 by:512 o:10 ty:8 tx:16",
            "(by * 96 + (bx // 3 * 32 + (o * 128 + ty * 16 + tx) // 34 - 1)) * 96"
            " + (bx % 3 * 32 + (o * 128 + ty * 16 + tx) % 34 - 1)",
            "by * 9216 + bx // 3 * 3072 + (o * 64 + ty * 8 + tx // 2) // 17 * 96 + bx % 3 * 32"
            " + (o * 128 + ty * 16 + tx) % 34 - 97",
        ),
        ("o:10 i:10", "(o * 10 + i) - (o * 10) // 13 * 13", "o * 10 + i - o * 10 // 13 * 13"),
    ],
)
def test_from_the_schedule_to_what_the_legacy_compiler_printed(ranges: str, raw: str, reached: str) -> None:
    names, facts, extents = scene(ranges)
    simple, legacy = simplify(parse(raw, names), facts), parse(reached, names)
    assert size(simple) <= size(legacy), str(simple)
    if not legacy.dtype.is_bool:
        assert prove_equal(simple, legacy, facts)
    r = Random(0)
    for _ in range(300):
        env = {var: r.randrange(extent) for var, extent in extents.items()}
        assert evaluate(simple, env) == evaluate(legacy, env), str(simple)
