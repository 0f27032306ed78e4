"""Containers under the legacy API's names, for `isinstance`: they are Python's own."""

from typing import TYPE_CHECKING

from ..core.refusals import old_name as _old_name

Array = (list, tuple)
Map = dict

__all__ = ["Array", "Map"]

if not TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
