"""The features of a schedule's loops in the legacy form, for users' cost models.

A row per loop holds `["_itervar_", loop]`, `["_attr_", extent, depth, iterations around, inside, ...]` with a 1
in the place of its kind, `["_arith_", additions, products, divisions]`, and for each access inside
`[name, stride, -1, elements, reuse, elements per thread, reuse per thread]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2 as _log2
from typing import TYPE_CHECKING, Any

import numpy as np

from ...bounds.infer import infer_bounds as _infer_bounds
from ...core.errors import UserError
from ...core.refusals import old_name as _old_name
from ...loops.build import build_function as _build_function
from ...schedule.handle import ScheduleHandle
from ...tune.analysis.accesses import statements as _statements
from ...tune.analysis.loop_rows import loop_rows as _loop_rows

_KINDS = [f"ann_{i}" for i in range(20)]
_NAMES = {"_attr_": ["length", "nest_level", "topdown", "bottomup", *_KINDS], "_arith_": ["add", "mul", "div"]}
_TOUCHED = ["stride", "mod", "count", "reuse", "T_count", "T_reuse"]


def get_itervar_feature(sch: ScheduleHandle, args: Sequence[Any], take_log: bool = False) -> list[list[list[Any]]]:
    """Return the features of each loop of a schedule, in the order in which the loops begin.

    Parameters
    ----------
    sch : Schedule
        The result of `te.create_schedule`.
    args : list of Tensor
        The arguments of the program.
    take_log : bool
        Whether numbers other than depth and kind are replaced by the binary logarithm of one more.

    Returns
    -------
    list
        A row per loop: lists that begin with their kind, as the module says.
    """
    if not isinstance(sch, ScheduleHandle):
        raise UserError(f"{sch!r} is not a schedule", primitive="feature", fix="give te.create_schedule(C.op)")
    if not isinstance(take_log, (bool, int)):
        raise UserError(f"take_log={take_log!r} is not True or False", primitive="feature", fix="take_log=True")
    if not isinstance(args, (list, tuple)):
        raise UserError(f"args={args!r} is not a list", primitive="feature", fix="give the tensors: [A, B, C]")
    nest = _statements(_build_function(sch.value, _infer_bounds(sch.value), args))
    scaled = _log if take_log else lambda number: number
    found = []
    for row in _loop_rows(nest):
        extent, depth, around, inside, *kind = row.attributes
        made: list[list[Any]] = [["_itervar_", row.var]]
        made.append(["_attr_", scaled(extent), depth, scaled(around), scaled(inside), *kind])
        made.append(["_arith_", *map(scaled, row.arithmetic)])
        made += [[name, *map(scaled, row.touched[name])] for name in sorted(row.touched)]
        found.append(made)
    return found


def _log(number: float) -> float:
    return -_log2(1 - number) if number < 0 else _log2(1 + number)


def flatten_itervar_feature(fea: Sequence[Any]) -> np.ndarray:
    """Return all numbers of `get_itervar_feature`'s rows, one after the other."""
    _check_rows(fea, "flatten_itervar_feature")
    return np.concatenate([np.array(pair[1:], dtype=np.float32) for row in fea for pair in row[1:]])


def _check_rows(fea: Any, primitive: str) -> None:
    def is_part(pair: Any) -> bool:
        numbers = isinstance(pair, (list, tuple)) and len(pair) > 1 and isinstance(pair[0], str)
        return numbers and len(pair) - 1 <= len(_NAMES.get(pair[0], _TOUCHED)) and all(_is_number(n) for n in pair[1:])

    def is_row(row: Any) -> bool:
        listed = isinstance(row, (list, tuple)) and len(row) > 1
        return listed and isinstance(row[0], (list, tuple)) and len(row[0]) == 2 and all(map(is_part, row[1:]))

    if not isinstance(fea, (list, tuple)) or not fea or not all(map(is_row, fea)):
        raise UserError(f"{fea!r} are not features", primitive=primitive, fix="give the result of get_itervar_feature")


def _is_number(given: Any) -> bool:
    return isinstance(given, (int, float, np.number))


def get_itervar_feature_flatten(sch: ScheduleHandle, args: Sequence[Any], take_log: bool = True) -> tuple[float, ...]:
    """Return the result of `flatten_itervar_feature` for `get_itervar_feature`, as a tuple."""
    return tuple(flatten_itervar_feature(get_itervar_feature(sch, args, take_log)).tolist())


def get_flatten_name(fea: Sequence[Any]) -> list[str]:
    """Return a name for each number of `flatten_itervar_feature`, such as "f0.y.outer._attr_.length"."""
    _check_rows(fea, "get_flatten_name")
    names: list[str] = []
    for row in fea:
        for pair in row[1:]:
            parts = _NAMES.get(pair[0], _TOUCHED)
            names += [f"f{len(names) + i}.{row[0][1]}.{pair[0]}.{parts[i]}" for i in range(len(pair) - 1)]
    return names


def get_buffer_curve_sample_flatten(sch: ScheduleHandle, args: Sequence[Any], sample_n: int = 30) -> tuple[float, ...]:
    """Return samples of four curves per buffer of the innermost loops, as binary logarithms.

    The curves relate the elements that a loop touches to their reuse, and to the iterations around the loop; both ways.
    Each of `sample_n` places on a curve has two numbers: the value of the last loop before it, and the distance to it.

    Parameters
    ----------
    sch, args
        As for `get_itervar_feature`.
    sample_n : int
        The number of places: 1, 2, 4, 8 ...
    """
    if isinstance(sample_n, bool) or not isinstance(sample_n, int) or sample_n < 1:
        raise UserError(f"sample_n={sample_n!r} is not a positive integer", primitive="feature", fix="sample_n=30")
    rows = [{part[0]: part[1:] for part in row[1:]} for row in get_itervar_feature(sch, args)]
    deepest = max((row["_attr_"][1] for row in rows), default=0)
    innermost: dict[str, str] = {}
    for row in reversed(rows):
        for name in row if row["_attr_"][1] == deepest else ():
            if name not in _NAMES:
                innermost.setdefault(name.rpartition("_")[0].partition(".")[0], name)
    found: list[float] = []
    for name in sorted(innermost.values()):
        held = [(row[name][2], row[name][3], row["_attr_"][2]) for row in rows if name in row]
        count, reuse, around = (
            np.sort([0.0, *(_log2(max(value, 1)) for value in curve)]) for curve in zip(*held, strict=True)
        )
        for x, y in ((count, reuse), (reuse, count), (count, around), (around, count)):
            places = np.arange(sample_n)
            last = np.searchsorted(x, places + 1e-6, side="right") - 1
            found += np.stack([y[last], places - x[last]], axis=1).ravel().tolist()
    return tuple(found)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
