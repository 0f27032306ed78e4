"""Every operator of `topi` is compared with NumPy on every target, and every legacy name of a schedule makes one."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tilewright import te, topi
from tilewright.compat.topi.schedule_names import FAMILIES, Family, scheduled
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.topi import testing

NAMESPACES = {"topi": topi, "nn": topi.nn, "image": topi.image}
TABLES = {"UNARY": testing.UNARY, "BINARY": testing.BINARY}
"""What tests loop over to compare operators of those names."""
NOT_OPERATORS = {"winograd_transform_matrices"}
"""Functions that return no tensors."""


def operators() -> dict[str, Any]:
    """The public functions of the library's namespaces, by name."""
    return {
        name: getattr(namespace, name)
        for namespace in NAMESPACES.values()
        for name in dir(namespace)
        if not name.startswith("_") and inspect.isfunction(getattr(namespace, name)) and name not in NOT_OPERATORS
    }


@cache
def judged() -> frozenset[str]:
    """The operators that tests give to `check`, which builds them for llvm, OpenCL and CUDA and runs them there."""
    found: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        defined = {name: node for node in ast.parse(path.read_text()).body for name in _names_of(node)}
        for name, node in defined.items():
            if isinstance(node, ast.FunctionDef) and "every_target" in map(ast.unparse, node.decorator_list):
                found |= set(_operators_in(_reached(name, defined, {})))
    return frozenset(found)


def _names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _reached(name: str, defined: dict[str, ast.stmt], found: dict[str, list[ast.AST]]) -> list[ast.AST]:
    """The parts of a function, and of what it names in its file."""
    if name in defined and name not in found:
        found[name] = list(ast.walk(defined[name]))
        for node in found[name]:
            if isinstance(node, ast.Name):
                _reached(node.id, defined, found)
    return [node for nodes in found.values() for node in nodes]


def _operators_in(nodes: list[ast.AST]) -> Iterator[str]:
    """What stands behind `topi.` and its like; and, where `getattr` chooses, the names that it may choose among."""
    chooses = any(
        isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr" and _is_namespace(node.args[0])
        for node in nodes
    )
    for node in nodes:
        if isinstance(node, ast.Attribute) and _is_namespace(node.value):
            yield node.attr
        elif isinstance(node, ast.Attribute) and node.attr in TABLES:
            yield from TABLES[node.attr]
        elif chooses and isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from node.value.split()


def _is_namespace(node: ast.expr) -> bool:
    return ast.unparse(node) in (*NAMESPACES, "topi.nn", "topi.image")


def test_every_operator_is_compared_with_numpy_on_every_target() -> None:
    """An operator of two names is compared by one of them."""
    compared = {function for name, function in operators().items() if name in judged()}
    assert [name for name, function in operators().items() if function not in compared] == []


def outputs(family: Family) -> te.Tensor:
    """What schedules of a family are for."""
    a, b = te.placeholder((4, 64), name="A"), te.placeholder((8, 64), name="B")
    if "reductions" in family.summary or "pooling" in family.summary:
        made: te.Tensor = topi.sum(a, 1)
        return made
    if "softmax" in family.summary:
        return topi.nn.softmax(a)
    return topi.nn.dense(a, b) if "products" in family.summary else topi.exp(a)


@pytest.mark.parametrize("face", [topi.generic, topi.x86, topi.cuda], ids=lambda face: face.__name__.split(".")[-1])
def test_every_legacy_name_of_a_schedule_makes_one(face: Any) -> None:
    """Which is that of its family, for the target that the face is for; other names are refused with what there is."""
    target = Target("cuda" if face is topi.cuda else "llvm")
    for family in FAMILIES:
        out = outputs(family)
        wanted = [(step.primitive, step.args) for step in scheduled([out], target, "test").steps]
        assert wanted
        for name in family.names.split():
            made = getattr(face, name)([out])
            assert [(step.primitive, step.args) for step in made.steps] == wanted, name
    with pytest.raises(UserError, match="schedule_conv2d_nchw"):
        face.schedule_conv2d_nchv
