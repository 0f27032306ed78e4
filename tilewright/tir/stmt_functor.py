"""Visiting and rewriting programs, under the legacy API's names."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ..core.refusals import old_name as _old_name
from ..loops.functor import ir_transform, post_order_visit, pre_order_visit, substitute

__all__ = ["ir_transform", "post_order_visit", "pre_order_visit", "substitute"]

if not _TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
