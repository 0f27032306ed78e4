"""Containers under the legacy API's names, for `isinstance`: they are Python's own."""

Array = (list, tuple)
Map = dict

__all__ = ["Array", "Map"]
