"""Math functions (thin, for now)."""

from __future__ import annotations

from ...core.dtype import DType
from ...core.errors import InternalError
from .convert import mangled
from .types import Value
from .writer import FunctionWriter

_INTRINSICS = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "fabs": "fabs", "exp": "exp"}


class MathLibrary:
    def call(self, out: FunctionWriter, name: str, dtype: DType, args: list[Value]) -> Value:
        if name in _INTRINSICS:
            return out.call(f"llvm.{_INTRINSICS[name]}.{mangled(args[0].type)}", args[0].type, args)
        raise InternalError(name)
