"""Types of variables as the legacy API writes them."""

from __future__ import annotations

from tests.errors.refused import refused
from tilewright import ir, tir


def test_variables_know_their_types() -> None:
    pointer = ir.PointerType(ir.PrimType("float32"), "shared")
    x = tir.Var("x", pointer)
    assert x.dtype == "handle"
    assert x.type_annotation == pointer
    assert x.type_annotation.element_type == ir.PrimType("float32")
    assert x.type_annotation.storage_scope == "shared"
    assert ir.PointerType(ir.PrimType("int8"), "global.texture").storage_scope == "global.texture"
    n = tir.Var("n", ir.PrimType("int64"))
    assert n.dtype == "int64"
    assert n.type_annotation == tir.Var("n", "int64").type_annotation == ir.PrimType("int64")
    assert ir.structural_equal(ir.PrimType("int32"), ir.PrimType("int32"))
    assert not ir.structural_equal(pointer, ir.PointerType(ir.PrimType("float32")))


def test_types_that_are_none() -> None:
    with refused("", "unknown data type 'float33'", fix="use float16"):
        ir.PrimType("float33")
    with refused("PointerType", "'float32' is not a type", fix="PrimType"):
        ir.PointerType("float32")  # type: ignore[arg-type]
    with refused("PointerType", "no memory scope 'fast'", fix="shared"):
        ir.PointerType(ir.PrimType("int8"), "fast")
    with refused("PointerType", "no memory scope 'fast.shared'", fix="shared"):
        ir.PointerType(ir.PrimType("int8"), "fast.shared")
