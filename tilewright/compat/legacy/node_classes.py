"""Base classes of expressions in the legacy API, for `isinstance`: the classes below each of them."""

from __future__ import annotations

from ... import tir
from ...expr.constructors import constructor
from ...expr.nodes import SizeVar

CmpExpr = (tir.EQ, tir.NE, tir.LT, tir.LE, tir.GT, tir.GE)
LogicalExpr = (tir.And, tir.Or, tir.Not)
_ARITHMETIC = (tir.Add, tir.Sub, tir.Mul, tir.Div, tir.Mod, tir.FloorDiv, tir.FloorMod, tir.Min, tir.Max)
BinaryOpExpr = (*_ARITHMETIC, *CmpExpr, tir.And, tir.Or)
ConstExpr = (tir.IntImm, tir.FloatImm, tir.StringImm)
_ANY = "any_dim"
Any = constructor(SizeVar, lambda span=None: SizeVar(_ANY, "int32"), "Any", lambda e: e.name == _ANY)
"""An unknown size: each call makes a new variable."""
