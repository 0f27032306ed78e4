"""Layouts of tensors as text, such as "NCHW16c": which letter each dimension has, and how blocks lie."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..core.errors import UserError
from ..expr.nodes import Expr
from ..expr.operators import as_expr, const, floordiv, floormod, multiply

_UNDEFINED = ("", "__undef__")


class Layout:
    """The dimensions of a tensor by letter: "NCHW16c" has C in blocks of 16, and the index in a block is its last
    dimension."""

    def __init__(self, text: Any, argument: str = "layout", primitive: str = "layout", dtype: str = "int32") -> None:
        wrong = UserError(
            f"argument {argument!r} is {text!r}, which is not a layout",
            primitive=primitive,
            fix='give letters of dimensions, and blocks of some of them: "NCHW", "NCHW16c"',
        )
        if not isinstance(text, str) or not re.fullmatch(r"(?:[A-Z]|[1-9]\d*[a-z])+", text):
            raise wrong
        parts = re.findall(r"(\d*)([A-Za-z])", text)
        self.dtype = dtype
        self.text = text
        self.dims: list[str] = [letter for _, letter in parts]
        self.blocks = {letter.upper(): int(size) for size, letter in parts if size}
        if len(set(self.dims)) != len(parts) or not all(letter in self.dims for letter in self.blocks):
            raise wrong

    @property
    def letters(self) -> set[str]:
        """The dimensions, without blocks."""
        return {d for d in self.dims if d.isupper()}

    def extents(self, whole: dict[str, Any]) -> list[Any]:
        """Return the shape of a tensor of this layout with the extents `whole` of its dimensions."""
        each = []
        for d in self.dims:
            block = self.blocks.get(d.upper())
            each.append(const(block or 1) if d.islower() else whole[d] if block is None else floordiv(whole[d], block))
        return each

    def places(self, indices: list[Any]) -> dict[str, Any]:
        """The place along each dimension of the element at `indices`."""
        at = dict(zip(self.dims, indices, strict=True))
        return {
            d: at[d] * self.blocks[d] + at[d.lower()] if d in self.blocks else at[d] for d in self.dims if d.isupper()
        }

    def indices(self, places: dict[str, Any]) -> list[Any]:
        """The indices of the element at these places."""
        return [
            floormod(places[d.upper()], self.blocks[d.upper()])
            if d.islower()
            else floordiv(places[d], self.blocks[d])
            if d in self.blocks
            else places[d]
            for d in self.dims
        ]

    @property
    def name(self) -> str:
        """The layout as text."""
        return self.text

    def __len__(self) -> int:
        return len(self.dims)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, axis: object) -> bool:
        return isinstance(axis, str) and re.sub(r"^\d+", "", axis) in self.dims

    def __getitem__(self, index: int) -> str:
        if isinstance(index, bool) or not isinstance(index, int):
            raise UserError(f"{index!r} is not a number of a dimension", primitive="layout", fix="give an int")
        return self.dims[index]  # an IndexError beyond the end ends Python's loops

    def index_of(self, axis: str) -> int:
        """Return the number of the dimension of that letter; -1 if there is none."""
        return self.dims.index(axis) if axis in self.dims else -1

    def factor_of(self, axis: str) -> int:
        """Return the size of the blocks of a dimension, by its capital or small letter; -1 if it has no blocks."""
        return self.blocks.get(axis.upper(), -1) if isinstance(axis, str) else -1

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Layout({self.text})"


class BijectiveLayout:
    """Two layouts of the same dimensions, with the conversions of shapes and indices in both directions."""

    def __init__(self, src_layout: Layout, dst_layout: Layout) -> None:
        self.src_layout = src_layout
        self.dst_layout = dst_layout

    def forward_shape(self, shape: Sequence[Any]) -> list[Expr]:
        """Return the shape in the destination's layout of a tensor that has `shape` in the source's."""
        return _shape(self.src_layout, self.dst_layout, shape, "forward_shape")

    def backward_shape(self, shape: Sequence[Any]) -> list[Expr]:
        """Return the shape in the source's layout of a tensor that has `shape` in the destination's."""
        return _shape(self.dst_layout, self.src_layout, shape, "backward_shape")

    def forward_index(self, index: Sequence[Any]) -> list[Expr]:
        """Return the indices in the destination's layout of the element at `index` in the source's."""
        return _index(self.src_layout, self.dst_layout, index, "forward_index")

    def backward_index(self, index: Sequence[Any]) -> list[Expr]:
        """Return the indices in the source's layout of the element at `index` in the destination's."""
        return _index(self.dst_layout, self.src_layout, index, "backward_index")

    def __repr__(self) -> str:
        return f"BijectiveLayout({self.src_layout} -> {self.dst_layout})"


def layout(layout_str: Any, dtype: str = "int32") -> Layout:
    """Make a layout of its text.

    Parameters
    ----------
    layout_str
        A capital letter per dimension, and for blocks of one their size and the small letter: "NCHW16c".
    dtype
        The type of indices; accepted as in the legacy API.

    Raises
    ------
    UserError
        For any other text.
    """
    return layout_str if isinstance(layout_str, Layout) else Layout(layout_str, "layout_str", "layout", dtype)


def bijective_layout(src_layout: Any, dst_layout: Any) -> BijectiveLayout | None:
    """Make the conversion between two layouts.

    Parameters
    ----------
    src_layout, dst_layout
        Layouts, or their texts.

    Returns
    -------
    BijectiveLayout or None
        None if the layouts have different dimensions, or one of them is undefined: "" or "__undef__".

    Raises
    ------
    UserError
        For any other text that is not a layout.
    """
    if any(given in _UNDEFINED for given in (src_layout, dst_layout) if isinstance(given, str)):
        return None
    source, target = layout(src_layout), layout(dst_layout)
    return BijectiveLayout(source, target) if source.letters == target.letters else None


def _values(given: Any, source: Layout, primitive: str) -> list[Expr]:
    values = [as_expr(e) for e in given] if isinstance(given, (list, tuple)) else []
    if len(values) != len(source.dims):
        raise UserError(
            f"{given!r} does not have one number for each of the {len(source.dims)} dimensions of {source}",
            primitive=primitive,
            fix="give a list of as many numbers or expressions",
        )
    return values


def _index(source: Layout, target: Layout, given: Any, primitive: str) -> list[Expr]:
    at = source.places(_values(given, source, primitive))
    return [as_expr(e) for e in target.indices(at)]


def _shape(source: Layout, target: Layout, given: Any, primitive: str) -> list[Expr]:
    extents = dict(zip(source.dims, _values(given, source, primitive), strict=True))
    whole = {d: multiply(extents[d], source.blocks.get(d, 1)) for d in source.letters}
    return [as_expr(e) for e in target.extents(whole)]
