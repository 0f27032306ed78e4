"""Visiting and rewriting programs by functions of the user's, as `tir.stmt_functor` of the legacy API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..core.errors import UserError
from ..core.node import Node
from ..core.own_code import calling
from ..core.recursion import deep
from ..core.refusals import old_name
from ..expr.nodes import Expr, Var
from ..expr.operators import as_expr, cast
from ..expr.traverse import post_order
from ..expr.traverse import substitute as _substitute
from ..loops.constructors import LEGACY_NAMES
from ..loops.nodes import Evaluate, Function, Seq, Stmt, seq
from ..tensor.axis import IterVar

__all__ = ["ir_transform", "post_order_visit", "pre_order_visit", "substitute"]
Visit = Callable[[Any], Any]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return old_name(__name__, name, __all__)


def _root(given: Any, primitive: str) -> Any:
    if isinstance(given, Function):
        return given.body
    if isinstance(given, (Node, int, float)) or hasattr(given, "as_expr"):
        return given if isinstance(given, Node) else as_expr(given)
    raise UserError(
        f"{given!r} is not part of a program", primitive=primitive, fix="give a statement, an expression or a function"
    )


def post_order_visit(stmt: Any, fvisit: Visit) -> None:
    """Call `fvisit` with each distinct node of a statement or expression, children first."""
    with calling("the function given to post_order_visit"):
        for node in list(post_order(_root(stmt, "post_order_visit"))):
            fvisit(node)


def pre_order_visit(stmt: Any, fvisit: Visit) -> None:
    """Call `fvisit` with each distinct node, before its children; if the result is False, the children are skipped."""
    seen: set[Any] = set()
    stack = [_root(stmt, "pre_order_visit")]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            with calling("the function given to pre_order_visit"):
                further = fvisit(node) is not False
            if further:
                stack += reversed(node.children())


@deep
def ir_transform(stmt: Any, preorder: Visit | None, postorder: Visit | None, only_enable: Any = None) -> Any:
    """Rewrite a statement or expression by functions of its nodes.

    Parameters
    ----------
    stmt
        The statement or expression; of a function, its body.
    preorder
        Called before the children of a node are rewritten: a returned node replaces it, as it is; None continues.
    postorder
        Called with a node after its parts have been rewritten: a returned node replaces it; None keeps it.
    only_enable
        Names of the nodes that the two are called for, such as ["tir.For", "tir.BufferStore"]; None for all.

    Returns
    -------
    Stmt or Expr
        The rewritten program: the same object if nothing changed.
    """
    if not all(each is None or callable(each) for each in (preorder, postorder)):
        raise UserError(
            "the called object is not a function", primitive="ir_transform", fix="give functions of a node, or None"
        )
    if only_enable is not None and not (
        isinstance(only_enable, (list, tuple)) and all(isinstance(name, str) for name in only_enable)
    ):
        raise UserError(
            f"only_enable is {only_enable!r}, which is not a list of names",
            primitive="ir_transform",
            fix='give a list of names: ["tir.For"]',
        )
    wanted = None if only_enable is None else frozenset(only_enable)
    memo: dict[Any, Any] = {}

    def visit(node: Any) -> Any:
        found = memo.get(node)
        if found is None:
            found = memo[node] = apply(node)
        return found

    def apply(node: Any) -> Any:
        enabled = wanted is None or LEGACY_NAMES.get(type(node), f"tir.{type(node).__name__}") in wanted
        with calling("the functions given to ir_transform"):
            before = preorder(node) if enabled and preorder is not None else None
        if before is not None:
            return _fitting(before, node)
        done = _rebuilt(node, visit)
        with calling("the functions given to ir_transform"):
            after = postorder(done) if enabled and postorder is not None else None
        return done if after is None else _fitting(after, node)

    return visit(_root(stmt, "ir_transform"))


def _rebuilt(node: Any, visit: Visit) -> Any:
    """The node with its parts rewritten; sequences stay flat."""
    if isinstance(node, Seq):
        parts = [visit(part) for part in node.stmts]
        return node if all(a is b for a, b in zip(node.stmts, parts, strict=True)) else seq(*parts)
    return node.map_children(visit)


def _fitting(made: Any, node: Any) -> Any:
    """The replacement of a node that a user's function returned, checked to fit its place."""
    if isinstance(node, Stmt):
        made = Evaluate(made) if isinstance(made, Expr) else made
        fits = isinstance(made, Stmt)
    else:
        made = as_expr(made) if isinstance(made, (int, float)) or hasattr(made, "as_expr") else made
        fits = isinstance(made, Expr) and made.dtype == node.dtype
    if not fits:
        kind = "a statement" if isinstance(node, Stmt) else f"an expression of type {node.dtype}"
        raise UserError(f"{made!r} is returned for {kind}", primitive="ir_transform", fix=f"return {kind}, or None")
    return made


def substitute(node: Any, vmap: Mapping[Any, Any]) -> Any:
    """`node` with each variable that is a key of `vmap` replaced by its value, converted to the variable's type."""
    if not isinstance(vmap, Mapping):
        raise UserError(f"vmap={vmap!r} is not a mapping", primitive="substitute", fix="give {variable: expression}")
    mapping: dict[Var, Expr] = {}
    for key, value in vmap.items():
        var = key.var if isinstance(key, IterVar) else key
        if not isinstance(var, Var):
            raise UserError(f"{key!r} is not a variable", primitive="substitute", fix="give {variable: expression}")
        mapping[var] = cast(var.dtype, as_expr(value))
    return _substitute(_root(node, "substitute"), mapping)
