"""`tvm.ir_pass` of 2017 to 2019: functions of statements and expressions, mapped to their counterparts here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.errors import UserError
from ...core.other_paths import PACKAGE
from ...core.refusals import old_name
from ...expr.nodes import Expr
from ...expr.operators import as_expr
from ...expr.traverse import post_order
from ...loops.function_attributes import PrimFunction
from ...loops.nodes import Stmt
from ...loops.structural import structural_equal as Equal
from ...loops.structural import structural_hash as AttrsHash
from ...passes.named_passes import COUNTERPARTS
from ...tensor.axis import IterVar
from ..arith.analyzer import Analyzer
from ..stmt_functor import ir_transform
from ..stmt_functor import post_order_visit as PostOrderVisit
from ..stmt_functor import substitute as Substitute

__all__ = ["AttrsHash", "CanonicalSimplify", "Equal", "ExprUseVar", "IRTransform", "PostOrderVisit", "Simplify",
           "Substitute"]  # fmt: skip


def Simplify(node: Any, vrange: Mapping[Any, Any] | None = None) -> Any:
    """Return an expression or a statement simplified; `vrange` has the ranges of variables."""
    return _applied("Simplify", node) if isinstance(node, Stmt) else _analyzer(vrange).simplify(as_expr(node))


def CanonicalSimplify(node: Any, vrange: Mapping[Any, Any] | None = None) -> Any:
    """Return an expression or a statement in its canonical form; `vrange` has the ranges of variables."""
    if isinstance(node, Stmt):
        return _applied("Simplify", node)
    return _analyzer(vrange).canonical_simplify(as_expr(node))


def ExprUseVar(expr: Any, var: Any) -> bool:
    """Return whether an expression reads a variable."""
    wanted = var.var if isinstance(var, IterVar) else var
    return any(node is wanted for node in post_order(as_expr(expr)))


def IRTransform(stmt: Any, preorder: Any, postorder: Any, only_enable: Sequence[str] | None = None) -> Any:
    """Rewrite a program by functions of its nodes, as `tir.stmt_functor.ir_transform`; nodes are named "For"."""
    given = only_enable if isinstance(only_enable, (list, tuple)) else None
    names = [f"tir.{name}" if isinstance(name, str) and "." not in name else name for name in given or ()]
    return ir_transform(stmt, preorder, postorder, only_enable if given is None else names)


def _analyzer(vrange: Mapping[Any, Any] | None) -> Analyzer:
    made = Analyzer()
    for var, values in (vrange or {}).items():
        made.bind(var, values)
    return made


def _applied(name: str, stmt: Any) -> Any:
    """Apply a pass on functions to one statement."""
    if isinstance(stmt, Expr) or not isinstance(stmt, Stmt):
        raise UserError(f"{stmt!r} is not a statement", primitive=name, fix="give a statement: function.body")
    return COUNTERPARTS[name].step(PrimFunction("main", (), stmt)).body


def _on_statements(name: str) -> Callable[..., Any]:
    """Return the pass of that name as a function of a statement; its other arguments have no meaning here."""

    def apply(stmt: Any, *arguments: Any) -> Any:
        return _applied(name, stmt)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"Apply the pass tir.transform.{name} to a statement; its other arguments are ignored."
    return apply


def __getattr__(name: str) -> Any:
    return _on_statements(name) if name in COUNTERPARTS else old_name(f"{PACKAGE}.ir_pass", name, __all__)
