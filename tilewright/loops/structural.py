"""Structural equality up to the names of a program's definitions, and a hash that agrees with it.

Nodes are interned, so two expressions of the same variables are equal if they are one object. Two programs built apart
have variables and buffers of their own. Here they are equal if one renaming of their definitions (loop variables, `let`
variables, allocated buffers, parameters, reduction axes) makes them one.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.errors import UserError
from ..core.node import Node
from ..core.recursion import deep
from ..expr.nodes import Expr, Var
from ..expr.operators import const
from ..tensor.axis import IterVar, Range
from ..tensor.reduction import CommReducer, Reduce
from .json_form import VALUES
from .nodes import Allocate, Buffer, For, Function, Launch, Let, Program, Tensorized

_LONGEST = 200
Mismatch = tuple[str, Any, Any]
"""The first difference of two things, as a path of fields, and the two values there."""

_DEFINES: dict[type, tuple[str, ...]] = {
    For: ("var",),
    Let: ("var",),
    Allocate: ("buffer",),
    Tensorized: ("row", "column", "depth"),
}
"""The fields of a statement with definitions that its later fields may use."""
_OUTSIDE: dict[type, tuple[str, ...]] = {For: ("min", "extent"), Let: ("value",)}
"""The fields of a statement outside of the scope of its definitions."""


@deep
def structural_mismatch(a: Any, b: Any, map_free_vars: bool = False) -> Mismatch | None:
    """Find the first difference of two expressions, statements, functions, programs, or lists of them.

    A variable that neither side defines is equal to itself only. With `map_free_vars`, it may correspond to another
    variable of the other side, the same one throughout.
    """
    walk = _Comparison(map_free_vars)
    return None if walk.same(_constant(a), _constant(b)) else walk.mismatch


def _constant(value: Any) -> Any:
    """Convert a number to a constant; other values stay as they are."""
    return const(value) if isinstance(value, (bool, int, float)) else value


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Return whether two programs, or parts of them, are equal up to the names of their definitions.

    Parameters
    ----------
    lhs, rhs
        Expressions, statements, functions, programs, ranges, axes, or lists and dicts of them.
    map_free_vars
        Whether variables that neither side defines may correspond to each other, in the same way throughout.
    """
    return structural_mismatch(lhs, rhs, map_free_vars) is None


class StructuralMismatchError(UserError, ValueError):
    """Two things that were to be structurally equal are not."""


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise where two programs, or parts of them, are not structurally equal, naming the first difference.

    Raises
    ------
    UserError
        A `ValueError` too, as in the legacy API.
    """
    found = structural_mismatch(lhs, rhs, map_free_vars)
    if found is not None:
        where, a, b = found
        raise StructuralMismatchError(
            f"the two differ at {where}: {_shown(a)} against {_shown(b)}",
            primitive="assert_structural_equal",
            fix="variables of two programs are equal if both define them; map_free_vars=True lets others match too",
        )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


class _Comparison:
    def __init__(self, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
        self.mismatch: Mismatch | None = None
        self._there: dict[Any, Any] = {}
        self._back: dict[Any, Any] = {}
        self._renamed = 0
        self._path: list[str] = []
        self._proven: set[tuple[Any, Any]] = set()

    def same(self, a: Any, b: Any) -> bool:
        """Whether the two are equal under the renaming so far."""
        if a is b and not self._renamed and not self.map_free_vars:
            return True
        if isinstance(a, (Var, Buffer)):
            return self._name(a, b)
        if isinstance(a, Node):
            return self._node(a, b)
        if isinstance(a, (tuple, list)):
            return self._sequence(a, b)
        if isinstance(a, Mapping):
            return self._mapping(a, b)
        if isinstance(a, (IterVar, Range, CommReducer, Function, Program)):
            kind = _kind(a)
            return (isinstance(b, kind) and _PARTS[kind](self, a, b)) or self._differ(a, b)
        return a is b or _plain_equal(_data(a), _data(b)) or self._differ(a, b)

    def part(self, name: str, a: Any, b: Any) -> bool:
        """Compare a field, noting its place."""
        self._path.append(name)
        equal = self.same(a, b)
        self._path.pop()
        return equal

    def _differ(self, a: Any, b: Any) -> bool:
        if self.mismatch is None:
            self.mismatch = "".join(self._path) or "the whole", a, b
        return False

    def _name(self, a: Any, b: Any) -> bool:
        """Whether variables or buffers correspond to each other on both sides."""
        if type(a) is not type(b) or a.dtype != b.dtype:
            return self._differ(a, b)
        if a in self._there or b in self._back:
            return self._there.get(a) is b or self._differ(a, b)
        if isinstance(a, Buffer) and a.alias_of is not None:  # views are equal if their windows and buffers are
            return self._storage(a, b) or self._differ(a, b)
        if not self.map_free_vars:
            return a is b or self._differ(a, b)
        self._there[a], self._back[b] = b, a  # new on both sides: the names correspond from now on
        self._renamed += a is not b
        return isinstance(a, Var) or self._storage(a, b)

    def _node(self, a: Any, b: Any) -> bool:
        if type(a) is not type(b):
            return self._differ(a, b)
        if (a, b) in self._proven:
            return True
        outside = _OUTSIDE.get(type(a), ())
        for name in outside:
            if not self.part(f".{name}", getattr(a, name), getattr(b, name)):
                return False
        with self._defined(_defined_by(a), _defined_by(b)) as fits:
            if not fits:
                return self._differ(a, b)
            for name in a.FIELDS:
                if name not in outside and not self.part(f".{name}", getattr(a, name), getattr(b, name)):
                    return False
        self._proven.add((a, b))
        return True

    def _sequence(self, a: Any, b: Any) -> bool:
        if not isinstance(b, (tuple, list)) or len(a) != len(b):
            return self._differ(a, b)
        return all([self.part(f"[{i}]", left, right) for i, (left, right) in enumerate(zip(a, b, strict=True))])

    def _mapping(self, a: Mapping[Any, Any], b: Any) -> bool:
        if not isinstance(b, Mapping) or a.keys() != b.keys():
            return self._differ(a, b)
        return all([self.part(f"[{key!r}]", value, b[key]) for key, value in a.items()])

    @contextmanager
    def _defined(self, ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> Iterator[bool]:
        """Let the names that both sides define correspond within the block."""
        if not ours and not theirs:
            yield True
            return
        before = dict(self._there), dict(self._back), self._renamed
        self._proven, proven = set(), self._proven
        fits = len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=False):
            fits = fits and a.dtype == b.dtype and type(a) is type(b)
            self._there[a], self._back[b] = b, a
            self._renamed += a is not b
            fits = fits and (isinstance(a, Var) or self._storage(a, b))
        yield fits
        free = {a: b for a, b in self._there.items() if a not in before[0] and a not in ours}
        self._there, self._back, self._renamed = before
        for a, b in free.items():
            self._there[a], self._back[b] = b, a
            self._renamed += a is not b
        self._proven = proven

    def _storage(self, a: Buffer, b: Buffer) -> bool:
        """Whether two corresponding buffers have the same shape, place and layout."""
        return (
            a.scope is b.scope
            and a.align == b.align
            and a.stages == b.stages
            and a.byte_offset == b.byte_offset
            and self.part(".shape", a.shape, b.shape)
            and self.part(".strides", a.layout.given, b.layout.given)
            and self.part(".elem_offset", a.layout.start, b.layout.start)
            and (a.layout.aligns, a.layout.fragment, a.layout.swizzle)
            == (b.layout.aligns, b.layout.fragment, b.layout.swizzle)
            and self.part(".alias_of", a.alias_of, b.alias_of)
        )

    def range(self, a: Range, b: Range) -> bool:
        """Two ranges."""
        return self.part(".min", a.min, b.min) and self.part(".extent", a.extent, b.extent)

    def axis(self, a: IterVar, b: IterVar) -> bool:
        """Two axes."""
        return a.kind is b.kind and a.thread is b.thread and self.part(".dom", a.dom, b.dom) and self.same(a.var, b.var)

    def reducer(self, a: CommReducer, b: CommReducer) -> bool:
        """Two ways to combine values."""
        with self._defined((*a.lhs, *a.rhs), (*b.lhs, *b.rhs)) as fits:
            return fits and self.part(".result", a.result, b.result) and self.part(".identity", a.identity, b.identity)

    def function(self, a: Function, b: Function) -> bool:
        """Two functions of any names."""
        sizes = _sizes(a), _sizes(b)
        with self._defined((*sizes[0], *a.params), (*sizes[1], *b.params)) as fits:
            fits = fits and self.part(".attrs", _attributes(a), _attributes(b))
            return fits and self.part(".imports", a.imports, b.imports) and self.part(".body", a.body, b.body)

    def program(self, a: Program, b: Program) -> bool:
        """Two programs, by the names of their functions."""
        return self._mapping({f.name: f for f in a.functions}, {f.name: f for f in b.functions})


_PARTS: dict[type, Any] = {
    IterVar: _Comparison.axis,
    Range: _Comparison.range,
    CommReducer: _Comparison.reducer,
    Function: _Comparison.function,
    Program: _Comparison.program,
}


def _kind(value: Any) -> type:
    return next(kind for kind in _PARTS if isinstance(value, kind))


def _defined_by(node: Any) -> tuple[Any, ...]:
    """The variables and buffers that a node defines for its children."""
    if isinstance(node, Launch):
        return tuple(var for _, var, _ in node.threads)
    if isinstance(node, Reduce):
        return tuple(axis.var for axis in node.axes)
    return tuple(getattr(node, name) for name in _DEFINES.get(type(node), ()))


def _sizes(function: Function) -> tuple[Var, ...]:
    """The sizes and strides that a function takes from its arguments' shapes, in order of appearance."""
    found: dict[Var, None] = {}
    for buffer in function.buffers:
        for e in (*buffer.shape, *(buffer.layout.given or ()), buffer.layout.start):
            if isinstance(e, Var):
                found[e] = None
    return tuple(size for size in found if size not in function.params)


def _attributes(function: Function) -> dict[str, Any]:
    """The attributes of a function except its name."""
    held: Mapping[str, Any] = getattr(function, "attrs", {})
    return {key: value for key, value in held.items() if key != "global_symbol"}


def _data(value: Any) -> Any:
    """The data of the JSON form of a higher floor's value, such as an array; other values stay as they are."""
    for kind, written, _ in VALUES.values():
        if isinstance(value, kind):
            return written(value)
    return value


def _plain_equal(a: Any, b: Any) -> bool:
    """Equality of data: floats by their bits, numbers by type."""
    if isinstance(a, float) and isinstance(b, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and np.array_equal(a, b)
    return isinstance(a, bool) is isinstance(b, bool) and bool(a == b)


@deep
def structural_hash(value: Any, map_free_vars: bool = False) -> int:
    """A hash that is the same for things that are structurally equal; of free variables, by their identity or
    position."""
    return _Hash(map_free_vars).of(_constant(value))


class _Hash:
    def __init__(self, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
        self._numbers: dict[Any, int] = {}
        self._next = 0
        self._known: dict[Node, int] = {}
        """The hashes of expressions under the numbers that names have: a node may stand in many places."""

    def of(self, value: Any) -> int:
        """The hash under the numbers that names have so far."""
        if isinstance(value, (Var, Buffer)):
            return self._name(value)
        if isinstance(value, Node):
            return self._node(value)
        if isinstance(value, (tuple, list)):
            return _mixed("sequence", [self.of(part) for part in value])
        if isinstance(value, Mapping):
            return _mixed("mapping", [self.of(part) for key in sorted(value, key=str) for part in (key, value[key])])
        if isinstance(value, Range):
            return _mixed("range", [self.of(value.min), self.of(value.extent)])
        if isinstance(value, IterVar):
            return _mixed("axis", [self.of(value.dom), self.of(value.kind), self.of(value.thread), self.of(value.var)])
        if isinstance(value, CommReducer):
            with self._defining((*value.lhs, *value.rhs)):
                return _mixed("reducer", [self.of(value.result), self.of(value.identity)])
        if isinstance(value, Function):
            with self._defining((*_sizes(value), *value.params)):
                memory = [self.of((buffer.scope, buffer.shape)) for buffer in value.buffers]
                return _mixed("function", [*memory, self.of(value.params), self.of(value.body)])
        if isinstance(value, Program):
            return _mixed("program", [self.of({f.name: f for f in value.functions})])
        return _plain_hash(_data(value))

    def _node(self, node: Any) -> int:
        found = self._known.get(node)
        if found is None:
            count = self._next
            found = self._make(node)
            if isinstance(node, Expr) and count == self._next:  # no variable was numbered in it
                self._known[node] = found
        return found

    def _make(self, node: Any) -> int:
        outside = _OUTSIDE.get(type(node), ())
        parts = [self.of(getattr(node, name)) for name in outside]
        with self._defining(_defined_by(node)):
            parts += [self.of(getattr(node, name)) for name in node.FIELDS if name not in outside]
        return _mixed(type(node).__name__, parts)

    def _name(self, thing: Any) -> int:
        number = self._numbers.get(thing)
        if number is None and isinstance(thing, Buffer) and thing.alias_of is not None:
            return _mixed("view", [self.of(thing.alias_of), self.of(thing.shape)])
        if number is None:
            if not self.map_free_vars:
                return _mixed("free", [id(thing)])
            number = self._numbers[thing] = self._count()
        return _mixed(str(thing.dtype), [number])

    def _count(self) -> int:
        self._next += 1
        return self._next

    @contextmanager
    def _defining(self, names: tuple[Any, ...]) -> Iterator[None]:
        if not names:
            yield
            return
        before, known = {name: self._numbers.get(name) for name in names}, self._known
        self._known = {}
        for name in names:
            self._numbers[name] = self._count()
        yield
        self._known = known
        for name, number in before.items():
            if number is None:
                del self._numbers[name]
            else:
                self._numbers[name] = number


def _mixed(head: str, parts: list[int]) -> int:
    return zlib.crc32(repr(parts).encode(), zlib.crc32(head.encode())) | len(parts) << 32


def _plain_hash(value: Any) -> int:
    if isinstance(value, enum.Enum):
        value = value.value
    elif isinstance(value, float):
        value = struct.pack("d", value)
    return zlib.crc32(f"{type(value).__name__} {value!s}".encode(errors="surrogatepass"))
