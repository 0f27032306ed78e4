"""Interned, immutable nodes: structural equality is identity.

`@node` turns an annotated class into a class with hash-consed instances. Building the same node twice gives the same
object, so equality is `is`, hashing is free and memo tables work across candidates. The tables hold nodes weakly. Nodes
are immutable by convention (no `__setattr__` guard: it would cost more than the rest of the construction together).

The design avoids two traps. For `1 == True == 1.0`, fields that hold numbers name their own key. For identity across
pickling, `__reduce__` rebuilds through the constructors, so nodes re-intern.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, dataclass_transform

T = TypeVar("T")


class Node:
    """Base of all interned nodes; `FIELDS` names the constructor's arguments in order."""

    __slots__ = ("__weakref__", "acts_below", "choices_below", "read_below")
    acts_below: bool
    """Set by `expr/effects.py` at its first question about the node; leaves inherit the value from their class."""
    choices_below: int
    """Set by `arith/assume.py` at its first question about the node; leaves inherit the value from their class."""
    read_below: Any
    """Set by `loops/uses.py` at its first question about the node. A field lives only as long as the node."""
    FIELDS: ClassVar[tuple[str, ...]] = ()
    BELOW: ClassVar[dict[str, str]] = {}
    """The fields with nodes, and whether a field has "one", "maybe" one, or "many" nodes."""

    def children(self) -> tuple[Any, ...]:
        """The nodes directly below, in the order of the fields."""
        return ()

    def map_children(self, f: Callable[[Any], Any]) -> Any:
        """Return the node with `f` applied to each child; the same object if no child changed."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if any(child.children() for child in self.children()):
            return _from_table, (_table(self),)
        return type(self), tuple(getattr(self, name) for name in self.FIELDS)


Row = tuple[Any, ...]
"""(class, values of its fields), with the numbers of earlier rows in place of nodes; or a node without children."""


def _table(root: Node) -> list[Row | Node]:
    """A node and all below it, children first. `pickle` recurses in C, and would overflow the stack on deep nodes."""
    rows: list[Row | Node] = []
    at: dict[Node, int] = {}
    stack: list[Node | None] = [root]  # None: the children of its subclasses have their rows
    while stack:
        node = stack.pop()
        if node is None:
            node = stack.pop()
            assert node is not None
            if node not in at:
                at[node] = len(rows)
                rows.append((type(node), *[_numbered(node, name, at) for name in node.FIELDS]))
        elif node not in at:
            children = node.children()
            if children:
                stack += (node, None, *children)
            else:
                at[node] = len(rows)
                rows.append(node)
    return rows


def _numbered(node: Node, name: str, at: dict[Node, int]) -> Any:
    value = getattr(node, name)
    kind = node.BELOW.get(name)
    if kind is None or value is None:
        return value
    return at[value] if kind == "one" or kind == "maybe" else tuple([at[child] for child in value])


def _from_table(rows: list[Row | Node]) -> Node:
    made: list[Any] = []
    for row in rows:
        if isinstance(row, Node):
            made.append(row)
            continue
        cls, *values = row
        for i, name in enumerate(cls.FIELDS):
            kind = cls.BELOW.get(name)
            if kind is not None and values[i] is not None:
                number = values[i]
                values[i] = tuple([made[j] for j in number]) if kind == "many" else made[number]
        made.append(cls(*values))
    found: Node = made[-1]
    return found


class _Entry(weakref.ref[Any]):
    """A weak table entry that knows its key, so that a dying node can leave the table."""

    __slots__ = ("key",)
    key: tuple[Any, ...]


_BELOW = {"Expr": "one", "Stmt": "one", "Expr | None": "maybe", "Stmt | None": "maybe"}
_BELOW |= {"tuple[Expr, ...]": "many", "tuple[Stmt, ...]": "many"}
# The nodes that a field holds, and those nodes mapped by f (in code; {x} is the field).
_CODE = {
    "one": ("{x},", "f({x})"),
    "maybe": ("*(() if {x} is None else ({x},)),", "None if {x} is None else f({x})"),
    "many": ("*{x},", "same({x}, tuple([f(y) for y in {x}]))"),
    "extents": ("*[y[2] for y in {x}],", "same_extents({x}, [f(y[2]) for y in {x}])"),
}
# The ways in which fields hold nodes, by annotation. A launch has a tag, a variable and an extent for each hardware
# index; only the extent is a child.
_HOLDS_NODES = {**_BELOW, "tuple[tuple[ThreadTag, Var, Expr], ...]": "extents"}
# Annotations of fields in which no node is found: data, names that the node defines, and names defined elsewhere. A
# buffer's extents belong to the statement that allocates it, a reducer's to the reducer.
_HOLDS_NONE = frozenset(
    (
        *("str", "int", "float", "bool", "Any", "DType", "LoopKind", "ThreadTag | None", "MemoryScope"),
        *("Atom", "tuple[int, int, int]"),
        *("Var", "Buffer", "LoadSource", "tuple[IterVar, ...]", "CommReducer", "tuple[tuple[str, Any], ...]"),
        "tuple[Buffer, ...]",
    )
)


def _visitors(owner: str, fields: dict[str, str], scope: dict[str, Any]) -> tuple[Any, Any]:
    """Compile `children()` and `map_children(f)` for the fields that hold nodes.

    Raises TypeError for a field with an unknown annotation, so that no child is missed.
    """
    known = _HOLDS_NONE.union(_HOLDS_NODES)
    strange = [f"{name}: {kind}" for name, kind in fields.items() if kind not in known]
    if strange:
        raise TypeError(f"{owner} has fields with unknown kinds of nodes: {', '.join(strange)}")
    codes = {name: _CODE[_HOLDS_NODES[kind]] for name, kind in fields.items() if kind in _HOLDS_NODES}
    parts = [children.format(x=f"self.{name}") for name, (children, _) in codes.items()]
    lines = ["def children(self):", f"    return ({' '.join(parts)})", "def map_children(self, f):"]
    lines += [f"    {name} = {mapped.format(x=f'self.{name}')}" for name, (_, mapped) in codes.items()]
    if codes:
        lines.append(f"    if {' and '.join(f'{n} is self.{n}' for n in codes)}: return self")
        lines.append(f"    return type(self)({', '.join(n if n in codes else f'self.{n}' for n in fields)})")
    else:
        lines.append("    return self")
    names = {**scope, "same": _same, "same_extents": _same_extents}
    exec("\n".join(lines), names)
    return names["children"], names["map_children"]


def _same(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
    for a, b in zip(old, new, strict=True):
        if a is not b:
            return new
    return old


def _same_extents(old: tuple[Any, ...], extents: list[Any]) -> tuple[Any, ...]:
    if all(row[2] is extent for row, extent in zip(old, extents, strict=True)):
        return old
    return tuple((tag, var, extent) for (tag, var, _), extent in zip(old, extents, strict=True))


_CONSTRUCTOR = """
def __new__(cls{params}):
    key = ({key},)
    entry = table.get(key)
    if entry is not None:
        found = entry()
        if found is not None:
            return found
    self = allocate(cls)
    {assign}
    entry = Entry(self, forget)
    entry.key = key
    prior = table.setdefault(key, entry)
    if prior is not entry:
        found = prior()
        if found is not None:
            return found
        table[key] = entry
    return self
"""


_CONSTRUCTOR_OF_ONE = """
def __new__(cls{params}):
    self = allocate(cls)
    {assign}
    return self
"""


def _constructor(
    fields: dict[str, Any], keys: dict[str, str], derived: dict[str, str], scope: dict[str, Any], interned: bool
) -> Any:
    table: dict[tuple[Any, ...], _Entry] = {}

    def forget(entry: _Entry) -> None:
        if table.get(entry.key) is entry:
            del table[entry.key]

    source = (_CONSTRUCTOR if interned else _CONSTRUCTOR_OF_ONE).format(
        params="".join(f", {name}" for name in fields),
        key=", ".join(keys.get(name, name) for name in fields),
        assign="\n    ".join(
            [f"self.{name} = {name}" for name in fields] + [f"self.{name} = {code}" for name, code in derived.items()]
        )
        or "pass",
    )
    names = {**scope, "table": table, "allocate": object.__new__, "Entry": _Entry, "forget": forget}
    exec(source, names)
    return names["__new__"]


@dataclass_transform(frozen_default=True)
def node(
    *,
    keys: dict[str, str] | None = None,
    derived: dict[str, str] | None = None,
    interned: bool = True,
    **scope: Any,
) -> Callable[[type[T]], type[T]]:
    """Make an annotated class an interned node.

    `keys` maps a field to the expression that identifies it in the intern table. It is for values that are no safe
    keys: floats are identified by their bits. `derived` maps a further slot to the expression that computes it from the
    fields (a result type). `scope` holds the names that those expressions use. Without `interned` each construction
    makes another node, as statements with an effect need: two equal effects are two. A class may define `children` and
    `map_children` itself if it has more children than its fields show.
    """

    def decorate(cls: type[T]) -> type[T]:
        fields = {name: kind for name, kind in inspect.get_annotations(cls).items() if "ClassVar" not in str(kind)}
        derived_slots = [name for name in (derived or {}) if not hasattr(cls, name)]
        members = {k: v for k, v in cls.__dict__.items() if k not in {"__dict__", "__weakref__"}}
        members["__slots__"] = (*fields, *derived_slots)
        members["FIELDS"] = tuple(fields)
        members["BELOW"] = {name: _BELOW[kind] for name, kind in fields.items() if kind in _BELOW}
        children, map_children = _visitors(cls.__name__, fields, scope)
        members.setdefault("children", children)
        members.setdefault("map_children", map_children)
        members["__new__"] = _constructor(fields, keys or {}, derived or {}, scope, interned)
        made: type[T] = type(cls)(cls.__name__, cls.__bases__, members)  # type: ignore[misc]  # a metaclass call
        made.__qualname__ = cls.__qualname__
        return made

    return decorate
