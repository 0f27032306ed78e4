"""`tvm.make` of 2017 to 2019: nodes with the arguments of that time; all other names come from `tir`."""

from __future__ import annotations

from typing import Any

from ... import tir
from ...core.other_paths import PACKAGE
from ...core.refusals import old_name
from ...expr.nodes import Expr
from ...loops.nodes import Stmt
from ...tensor.axis import Range

range_by_min_extent = Range.from_min_extent


def For(loop_var: Any, min: Any, extent: Any, for_type: Any, device_api: Any, body: Any) -> Stmt:
    """Make a loop; `device_api` is accepted, and has no meaning."""
    made: Stmt = tir.For(loop_var, min, extent, for_type, body)
    return made


def Block(first: Any, rest: Any) -> Stmt:
    """Make two statements one."""
    made: Stmt = tir.SeqStmt([first, rest])
    return made


def static_cast(dtype: str, expr: Any) -> Expr:
    """Convert an expression to a type."""
    made: Expr = tir.Cast(dtype, expr)
    return made


def __getattr__(name: str) -> Any:
    return getattr(tir, name) if name in tir.__all__ else old_name(f"{PACKAGE}.make", name, globals())
