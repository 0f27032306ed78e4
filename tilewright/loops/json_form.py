"""Programs as JSON: expressions, statements, functions, tensors with the operations below them, schedules, and lists.

A file holds one table. Each row is an object, by its class and its fields; a field that holds another object holds that
one's row. Rows come after the rows that they need, so that reading is one pass. Nodes are interned as they are read;
variables, buffers, axes and operations, which are their own identity, are made anew, once per row.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from ..bounds.call_checks import ReadCheck
from ..core import atoms
from ..core.atoms import Fragment
from ..core.dtype import DType
from ..core.errors import UserError
from ..core.hardware import LoopKind, MemoryScope, ThreadTag
from ..core.node import Node
from ..core.recursion import deep
from ..core.target import Target
from ..core.version import __version__
from ..expr import nodes as expressions
from ..expr.nodes import Known, SizeVar, Var
from ..schedule.handle import ScheduleHandle, create_schedule
from ..tensor.axis import AxisKind, IterVar, Range
from ..tensor.reduction import CommReducer, Reduce
from ..tensor.scan import ScanOp
from ..tensor.tensor import ComputeOp, PlaceholderOp, Tensor
from . import nodes as statements
from .broadcast_buffers import BroadcastBuffer
from .checked_index import Assertion, CheckedIndex
from .function_attributes import PrimFunction
from .layout import StorageLayout
from .nodes import BoundChecks, Buffer, Function, Program

FORMAT = 1
"""Incremented when files change so that older versions could not read them correctly."""

_ENUMS = {kind.__name__: kind for kind in (LoopKind, ThreadTag, MemoryScope, AxisKind)}
_NODES: dict[str, type] = {
    name: kind
    for module in (expressions, statements)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Node) and kind.FIELDS and not issubclass(kind, Var)
} | {"Reduce": Reduce}
_BUFFER = ("name", "dtype", "shape", "scope", "align", "alias_of", "note", "layout", "stages", "byte_offset")
_FIELDS: dict[type, tuple[str, ...]] = {
    Var: ("name", "dtype", "known"),
    SizeVar: ("name", "dtype", "known"),
    Known: Known._fields,
    StorageLayout: ("aligns", "given", "start", "fragment", "swizzle"),
    Buffer: _BUFFER,
    BroadcastBuffer: _BUFFER,
    Range: ("min", "extent"),
    IterVar: ("name", "dom", "kind", "thread", "var"),
    CommReducer: ("name", "lhs", "rhs", "result", "identity"),
    PlaceholderOp: ("name", "shape", "dtypes", "tag", "attrs"),
    ComputeOp: ("name", "axis", "body", "tag", "attrs"),
    ScanOp: ("name", "scan_axis", "init", "update", "state", "tag", "attrs"),
    Tensor: ("op", "value_index"),
    Fragment: ("rows", "columns", "halves"),
    CheckedIndex: CheckedIndex._fields,
    Assertion: Assertion._fields,
    BoundChecks: BoundChecks._fields,
    ReadCheck: tuple(field.name for field in fields(ReadCheck)),
    Function: ("name", "params", "body", "reads", "checks", "imports"),
    PrimFunction: ("name", "params", "body", "reads", "checks", "attrs", "imports"),
    Program: ("functions",),
    ScheduleHandle: ("computed", "recorded"),
}
"""The parts of each object, except nodes, which list them themselves."""


def _axis(name: str, dom: Any, kind: AxisKind, thread: Any, var: Var) -> IterVar:
    made = IterVar(name, dom, kind, thread)
    made.var = var
    return made


def _schedule(computed: tuple[Tensor, ...], recorded: list[Any]) -> ScheduleHandle:
    made = create_schedule([tensor.op for tensor in computed])
    made.replay(recorded)
    return made


VALUES: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {}
"""Extensions by floors above: the class of a kind of value, its form as JSON data, and its parser."""

_MAKERS: dict[str, Callable[..., Any]] = {
    **{kind.__name__: kind for kind in _FIELDS},
    "Layout": StorageLayout,  # the name up to 0.3
    **_NODES,
    "Range": Range.from_min_extent,
    "IterVar": _axis,
    "Tensor": lambda op, value_index: op.outputs[value_index],
    "ScheduleHandle": _schedule,
}


@deep
def save_json(value: Any) -> str:
    """Write an expression, statement, function, program, tensor or schedule, or a list or dict of them, as JSON text.

    A schedule is written as its outputs and its steps.

    Returns
    -------
    str
        The text that `load_json` reads.

    Raises
    ------
    UserError
        If something is not part of a program.
    """
    table = _Table()
    root = table.encoded(value)
    return json.dumps({"format": FORMAT, "tilewright": __version__, "root": root, "rows": table.rows}, indent=1)


class _Table:
    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self._at: dict[Any, int] = {}
        self._kept: list[Any] = []  # objects with a recorded identity must stay alive

    def encoded(self, value: Any) -> Any:
        """Encode a value as JSON: numbers and text unchanged, other values as a list that begins with the kind."""
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, DType):
            return ["type", str(value)]
        if isinstance(value, str):
            return str(value)
        if isinstance(value, float):
            return ["float", value.hex()]
        if isinstance(value, enum.Enum):
            return ["enum", type(value).__name__, value.name]
        if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            kind = "list" if isinstance(value, list) else "tuple"
            return [kind, *[self.encoded(part) for part in value]]
        if isinstance(value, Mapping):
            return ["dict", *[[self.encoded(key), self.encoded(part)] for key, part in value.items()]]
        if isinstance(value, Target):
            return ["target", str(value)]
        if isinstance(value, atoms.Atom):
            return ["atom", value.name]
        for name, (kind_of_value, written, _) in VALUES.items():
            if isinstance(value, kind_of_value):
                return ["value", name, written(value)]
        return ["row", self._row(value)]

    def _row(self, value: Any) -> int:
        found = self._at.get(id(value))
        if found is None:
            kind = type(value)
            names = value.FIELDS if _NODES.get(kind.__name__) is kind else _FIELDS.get(_listed(kind))
            if names is None:
                raise UserError(
                    f"{kind.__name__} {value!r} is not part of a program that can be written as JSON",
                    primitive="save_json",
                    fix="give expressions, statements, functions, tensors of te.placeholder, te.compute and te.scan, "
                    "schedules, arrays, or lists of them",
                )
            parts = [self.encoded(getattr(value, name)) for name in names]
            found = self._at[id(value)] = len(self.rows)
            self._kept.append(value)
            self.rows.append([_listed(kind).__name__, *parts])
        return found


def _listed(kind: type) -> type:
    """The class in the table that a class equals or derives from."""
    return kind if kind in _FIELDS else next((base for base in kind.__mro__ if base in _FIELDS), kind)


@deep
def load_json(text: str) -> Any:
    """Load the text that `save_json` wrote. Variables and buffers are new ones: compare by `structural_equal`.

    Raises
    ------
    UserError
        For text that `save_json` did not write.
    """
    try:
        read = json.loads(text)
        if read["format"] != FORMAT:
            raise UserError(
                f"the text was written by Tilewright {read['tilewright']} in format {read['format']}; this is "
                f"Tilewright {__version__}, which reads format {FORMAT}",
                primitive="load_json",
                fix="write it again with this version",
            )
        made: list[Any] = []
        for kind, *parts in read["rows"]:
            made.append(_MAKERS[kind](*[_decoded(part, made) for part in parts]))
        return _decoded(read["root"], made)
    except UserError:
        raise
    except Exception as error:  # text may hold anything, and fail in any way
        raise UserError(
            f"this is not a program as JSON ({type(error).__name__}: {error})",
            primitive="load_json",
            fix="give the result of save_json",
        ) from error


def _decoded(value: Any, made: list[Any]) -> Any:
    if not isinstance(value, list):
        return value
    kind, *parts = value
    if kind == "row":
        return made[parts[0]]
    if kind == "type":
        return DType(parts[0])
    if kind == "float":
        return float.fromhex(parts[0])
    if kind == "enum":
        return _ENUMS[parts[0]][parts[1]]
    if kind == "target":
        return Target(parts[0])
    if kind == "atom":
        return atoms.atom_named(parts[0])
    if kind == "value":
        return VALUES[parts[0]][2](parts[1])
    if kind == "dict":
        return {_decoded(key, made): _decoded(part, made) for key, part in parts}
    found = [_decoded(part, made) for part in parts]
    return found if kind == "list" else tuple(found)
