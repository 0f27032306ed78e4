"""Whether two printed programs are the same, up to how their indices and guards are written.

The printed form is Python syntax, so Python's own parser reads it. Variables that only name a common
subexpression are written out first. Statements have to agree one by one, in kind, names, launches, allocations
and nesting; indices and conditions have to have equal values at every point of the loops around them, and may not be
larger than the other program's.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

EVERY_POINT = 1 << 18  # up to so many points, all are tried; beyond, as many of them
Ranges = dict[str, int]  # the extents of the loops around a statement, by variable


def differences(ours: str, theirs: str) -> list[str]:
    """What distinguishes our program from theirs; nothing where it is the same and no index or guard is larger."""
    mine, other = _function(ours), _function(theirs)
    found = [] if ast.unparse(mine.args) == ast.unparse(other.args) else ["the parameters differ"]
    return [*found, *_blocks(mine.body, other.body, {})]


def _function(text: str) -> ast.FunctionDef:
    """The only function of a printed module, its named subexpressions written out."""
    (function,) = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    _WriteOut().visit(function)
    return function


class _WriteOut(ast.NodeTransformer):
    """Replaces `cse_var_n` by what it stands for."""

    def __init__(self) -> None:
        self.values: dict[str, ast.expr] = {}

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if not isinstance(node.target, ast.Name) or node.value is None:
            return node
        self.values[node.target.id] = self.visit(node.value)
        return None

    def visit_Name(self, node: ast.Name) -> Any:
        return self.values.get(node.id, node)


def _blocks(ours: list[ast.stmt], theirs: list[ast.stmt], ranges: Ranges) -> Iterator[str]:
    """Differences between two statement lists."""
    inside = dict(ranges)
    for a, b in itertools.zip_longest(ours, theirs):
        if a is None or b is None:
            yield f"only {'ours' if b is None else 'theirs'} goes on with `{_first_line(a or b)}`"
            return
        yield from _statements(a, b, inside)


def _statements(a: ast.stmt, b: ast.stmt, ranges: Ranges) -> Iterator[str]:
    if type(a) is not type(b):
        yield f"`{_first_line(a)}` stands where theirs has `{_first_line(b)}`"
    elif isinstance(a, ast.Assign) and isinstance(b, ast.Assign):
        yield from _assignments(a, b, ranges)
    elif isinstance(a, ast.If) and isinstance(b, ast.If):
        yield from _integers(a.test, b.test, ranges, "guard")
        yield from _blocks(a.body, b.body, ranges)
        yield from _blocks(a.orelse, b.orelse, ranges)
    elif isinstance(a, ast.For) and isinstance(b, ast.For):
        yield from _texts(a.target, b.target, a)
        yield from _texts(a.iter, b.iter, a)
        yield from _blocks(a.body, b.body, {**ranges, **_loops(a)})
    elif isinstance(a, ast.With) and isinstance(b, ast.With):
        yield from _texts(a.items[0], b.items[0], a)
        yield from _blocks(a.body, b.body, {**ranges, **_launched(a.items[0].context_expr, a.items[0].optional_vars)})
    else:
        yield from _texts(a, b, a)


def _assignments(a: ast.Assign, b: ast.Assign, ranges: Ranges) -> Iterator[str]:
    if isinstance(a.targets[0], ast.Subscript):
        yield from _values(a.targets[0], b.targets[0], ranges)
        yield from _values(a.value, b.value, ranges)
        return
    yield from _texts(a, b, a)
    ranges.update(_launched(a.value, a.targets[0]))


def _launched(value: ast.expr, name: ast.expr | None) -> Ranges:
    """The thread index that `name = T.launch_thread(tag, extent)` defines."""
    text = ast.unparse(value)
    match = re.fullmatch(r"T\.launch_thread\('[\w.]+', (\d+)\)", text)
    return {ast.unparse(name): int(match[1])} if match and name is not None else {}


def _loops(loop: ast.For) -> Ranges:
    """The variables of `for i in range(n)` or `for i, j in T.grid(n, m)`."""
    names = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
    assert isinstance(loop.iter, ast.Call)
    extents = [ast.literal_eval(extent) for extent in loop.iter.args]
    return {ast.unparse(name): extent for name, extent in zip(names, extents, strict=True)}


def _texts(a: ast.AST, b: ast.AST, where: ast.stmt) -> Iterator[str]:
    if ast.unparse(a) != ast.unparse(b):
        yield f"`{_first_line(where)}`: `{ast.unparse(a)}` is `{ast.unparse(b)}` in theirs"


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0]


def _values(a: ast.expr, b: ast.expr, ranges: Ranges) -> Iterator[str]:
    """Differences between what is stored, or where: equal in all but the indices and conditions in it."""
    if isinstance(a, ast.Subscript) and isinstance(b, ast.Subscript):
        yield from _texts(a.value, b.value, ast.Expr(a))
        yield from _integers(a.slice, b.slice, ranges, f"index of {ast.unparse(a.value)}")
    elif isinstance(a, ast.Call) and isinstance(b, ast.Call) and len(a.args) == len(b.args):
        yield from _texts(a.func, b.func, ast.Expr(a))
        guarded = ast.unparse(a.func) in ("T.if_then_else", "T.Select")
        for at, (x, y) in enumerate(zip(a.args, b.args, strict=True)):
            yield from _integers(x, y, ranges, "condition") if guarded and at == 0 else _values(x, y, ranges)
    elif isinstance(a, ast.BinOp) and isinstance(b, ast.BinOp):
        if type(a.op) is not type(b.op):
            yield f"`{ast.unparse(a)}` is `{ast.unparse(b)}` in theirs"
        yield from _values(a.left, b.left, ranges)
        yield from _values(a.right, b.right, ranges)
    elif isinstance(a, ast.Constant) and isinstance(b, ast.Constant):
        if a.value != b.value:  # 0 and 0.0 are the same constant
            yield f"`{ast.unparse(a)}` is `{ast.unparse(b)}` in theirs"
    else:
        yield from _texts(a, b, ast.Expr(a))


def _integers(a: ast.expr, b: ast.expr, ranges: Ranges, what: str) -> Iterator[str]:
    """Differences between two index or condition expressions."""
    if ast.unparse(a) == ast.unparse(b):
        return
    points = _points(ranges)
    wrong = np.broadcast_to(_evaluate(a, points) != _evaluate(b, points), np.shape(next(iter(points.values()), 0)))
    if wrong.any():
        at = ", ".join(f"{name} = {int(values[wrong][0])}" for name, values in points.items())
        yield f"the {what} `{ast.unparse(a)}` is not equal to theirs, `{ast.unparse(b)}`, at {at}"
    if _size(a) > _size(b):
        yield f"the {what} `{ast.unparse(a)}` is larger than theirs, `{ast.unparse(b)}`"


def _size(e: ast.expr) -> int:
    return sum(isinstance(node, ast.expr) for node in ast.walk(e))


def _points(ranges: Ranges) -> dict[str, np.ndarray]:
    """Points of the iteration space: all of them where they are few, else random ones and some along a diagonal.

    Guards change where differences of variables are small, which random points alone would rarely meet.
    """
    if math.prod(ranges.values()) <= EVERY_POINT:
        grid = np.meshgrid(*(np.arange(n) for n in ranges.values()), indexing="ij")
        return {name: values.ravel() for name, values in zip(ranges, grid, strict=True)}
    rng = np.random.default_rng(0)
    near = rng.integers(0, max(ranges.values()), EVERY_POINT // 2)
    return {
        name: np.concatenate(
            [rng.integers(0, n, EVERY_POINT // 2), np.clip(near + rng.integers(-64, 65, EVERY_POINT // 2), 0, n - 1)]
        )
        for name, n in ranges.items()
    }


def _evaluate(e: ast.expr, points: dict[str, np.ndarray]) -> Any:
    if isinstance(e, ast.Name):
        return points[e.id]
    if isinstance(e, ast.Constant):
        return np.int64(e.value)
    if isinstance(e, ast.UnaryOp) and isinstance(e.op, ast.USub):
        return -_evaluate(e.operand, points)
    if isinstance(e, ast.BinOp):
        return _BINARY[type(e.op)](_evaluate(e.left, points), _evaluate(e.right, points))
    if isinstance(e, ast.Compare) and len(e.ops) == 1:
        return _COMPARE[type(e.ops[0])](_evaluate(e.left, points), _evaluate(e.comparators[0], points))
    if isinstance(e, ast.BoolOp):
        join = np.logical_and if isinstance(e.op, ast.And) else np.logical_or
        result = _evaluate(e.values[0], points)
        for value in e.values[1:]:
            result = join(result, _evaluate(value, points))
        return result
    if isinstance(e, ast.Call):
        return _CALLS[ast.unparse(e.func)](*(_evaluate(arg, points) for arg in e.args))
    raise ValueError(f"no value for `{ast.unparse(e)}`")


_BINARY: dict[type, Any] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.FloorDiv: np.floor_divide, ast.Mod: np.mod,
}  # fmt: skip
_COMPARE: dict[type, Any] = {
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal, ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}  # fmt: skip
_CALLS: dict[str, Any] = {"T.likely": lambda x: x, "T.min": np.minimum, "T.max": np.maximum}
