"""te.tag_scope: a tag for every operation that is declared within a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..core.errors import UserError, UserValueError, warn_caller


class _Scope:
    __slots__ = ("tag", "used")

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.used = False


_CURRENT: ContextVar[_Scope | None] = ContextVar("tag_scope", default=None)


@contextmanager
def tag_scope(tag: str) -> Iterator[None]:
    """Give the tag to every operation that is declared in the block; around a function, to the operations that it
    declares.

    Parameters
    ----------
    tag
        The `op.tag` of operations that `te.compute`, `te.extern` and `te.scan` make there.

    Raises
    ------
    UserError
        For a tag that is not text, within another tag scope, and for an operation in the block with a tag of its own.
    """
    if not isinstance(tag, str) or not tag:
        raise UserError(f"tag={tag!r} is not text", primitive="tag_scope", fix='give a name: te.tag_scope("conv")')
    outside = _CURRENT.get()
    if outside is not None:
        raise UserValueError(
            f"the tag scope {tag!r} is opened within the tag scope {outside.tag!r}",
            primitive="tag_scope",
            fix="close the outer one first: an operation has one tag",
        )
    scope = _Scope(tag)
    token = _CURRENT.set(scope)
    try:
        yield
    finally:
        _CURRENT.reset(token)
    if not scope.used:
        warn_caller(f"no operation was declared within the tag scope {tag!r}", UserWarning)


def tagged(tag: str, name: str) -> str:
    """The tag of an operation that is declared with `tag`; the tag of the surrounding scope, if any."""
    scope = _CURRENT.get()
    if scope is None:
        return tag
    if tag:
        raise UserError(
            f"{name!r} is declared with the tag {tag!r} within the tag scope {scope.tag!r}",
            primitive="tag_scope",
            fix="leave one of the two out: an operation has one tag",
        )
    scope.used = True
    return scope.tag
