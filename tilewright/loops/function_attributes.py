"""Functions with attributes, as users of the legacy API give them: `function.with_attr("target", target)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..expr.nodes import Var
from .nodes import BoundChecks, Buffer, Function, Stmt


class PrimFunction(Function):
    """A function with attributes. Passes keep the attributes; the compiler reads none of them."""

    __slots__ = ("attrs",)

    def __init__(
        self,
        name: str,
        params: tuple[Buffer | Var, ...],
        body: Stmt,
        reads: tuple[Any, ...] = (),
        checks: BoundChecks | None = None,
        attrs: Mapping[str, Any] | None = None,
        imports: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(name, params, body, reads, checks, imports)
        self.attrs: dict[str, Any] = {**(attrs or {}), "global_symbol": name}

    @classmethod
    def of(cls, function: Function, name: str = "", attrs: Mapping[str, Any] | None = None) -> PrimFunction:
        """A function with another name or other attributes."""
        held = getattr(function, "attrs", {}) if attrs is None else attrs
        own = (function.params, function.body, function.reads, function.checks)
        return cls(name or function.name, *own, held, function.imports)

    def with_body(self, body: Stmt) -> Function:
        if body is self.body:
            return self
        return PrimFunction(self.name, self.params, body, self.reads, self.checks, self.attrs, self.imports)


def with_attr(function: Function, key_or_attrs: Any, value: Any = None) -> Function:
    """The function with an attribute, or with all of a mapping; "global_symbol" is its name."""
    added = dict(key_or_attrs) if isinstance(key_or_attrs, Mapping) else {str(key_or_attrs): value}
    attrs = {**getattr(function, "attrs", {}), **added}
    return PrimFunction.of(function, str(attrs.get("global_symbol", function.name)), attrs)


def without_attr(function: Function, key: str) -> Function:
    """The function without an attribute."""
    return PrimFunction.of(function, attrs={k: v for k, v in getattr(function, "attrs", {}).items() if k != key})
