"""Nodes by their names and fields, as `tvm.ir.make_node` makes them."""

from __future__ import annotations

from typing import Any

from ... import tir
from ...core.errors import UserError
from ...tensor.attributes import Attributes

_ATTRIBUTES = "attrs."


def make_node(type_key: str, **kwargs: Any) -> Any:
    """Make a node: `make_node("IntImm", dtype="int32", value=10)`.

    Parameters
    ----------
    type_key
        The name of a class of `tir`, which "tir." may precede; or "attrs." and any name, for attributes.
    kwargs
        The fields.

    Returns
    -------
    Any
        The node; for attributes, a dictionary.

    Raises
    ------
    UserError
        For an unknown name, and for fields that the class does not have.
    """
    if isinstance(type_key, str) and type_key.startswith(_ATTRIBUTES):
        return Attributes(kwargs)
    name = type_key.removeprefix("tir.") if isinstance(type_key, str) else ""
    made = getattr(tir, name) if name in tir.__all__ and name[:1].isupper() else None
    if made is None:
        raise UserError(
            f"there is no node {type_key!r}", primitive="make_node", fix='give the name of a class of tir: "IntImm"'
        )
    try:
        return made(**kwargs)
    except TypeError as error:
        raise UserError(f"{type_key}: {error}", primitive="make_node", fix="give the arguments of its class") from None
