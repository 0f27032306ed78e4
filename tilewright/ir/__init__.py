"""Programs as values, under the legacy API's names: equality up to names, JSON, ranges, modules."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ..core.refusals import old_name as _old_name
from ..core.type_annotations import PointerType, PrimType
from ..expr.nodes import Expr as PrimExpr
from ..expr.op_registry import register_intrin_lowering as register_intrin_lowering
from ..expr.op_registry import register_op_attr as register_op_attr
from ..loops.constructors import STATEMENTS as _STATEMENTS
from ..loops.json_form import load_json, save_json
from ..loops.structural import assert_structural_equal, structural_equal, structural_hash
from ..runtime import array_json as _array_json
from ..tensor.axis import Range
from . import container as container
from .container import Array, Map

IRModule = _STATEMENTS["IRModule"]

__all__ = [
    "Array", "IRModule", "Map", "PointerType", "PrimExpr", "PrimType", "Range", "assert_structural_equal",
    "container", "load_json", "register_intrin_lowering", "register_op_attr", "save_json", "structural_equal",
    "structural_hash",
]  # fmt: skip

if not _TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
