"""One measurement as one line of JSON, in the format of the legacy API's logs (version 0.2).

{"input": [target, template, args, kwargs], "config": {"index": i, "code_hash": null, "entity": [[knob, kind,
value], ...]}, "result": [costs, error_no, all_cost, timestamp], "version": 0.2}

Further keys at the top level say what the format has no room for; readers of old pass over them.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...core.errors import UserError
from ...core.target import Target
from ...core.version import __version__
from ...measure.outcome import MeasureErrorNo, MeasureResult, shorten
from ..space.config import Config
from ..task import Task, freeze

VERSION = 0.2
FAILED = (1e9,)
"""What stands for the costs of a failure, in seconds."""
COMPILER = f"tilewright {__version__}"


@dataclass(frozen=True)
class Notes:
    """What a record says beyond the legacy format; empty where it does not say.

    `device` is the name of the device that measured, `compiler` what compiled for it. A failure has its
    `reason` and the schedule `step` at fault; a `refused` one was never compiled, and was no trial. A
    `confirmed` measurement was made again at the end, and replaces earlier ones of the same configuration.
    `flop` is the number of operations of one run, `predicted` the seconds that a model expected.
    `checked` is False where nobody compared the output with a
    reference; logs of the legacy system do not say.
    """

    device: str = ""
    compiler: str = ""
    reason: str = ""
    step: str = ""
    refused: bool = False
    confirmed: bool = False
    flop: float = 0.0
    checked: bool = True
    predicted: float = 0.0

    def written(self) -> dict[str, Any]:
        """The notes that say something."""
        return {name: value for name, value in vars(self).items() if value != vars(SILENT)[name]}


SILENT = Notes()


_KINDS = {key: (int, float) if type(value) is float else type(value) for key, value in vars(SILENT).items()}


class _Fields(NamedTuple):
    target: Target
    task: Task
    config: Config


class MeasureInput(_Fields):
    """What was measured: a configuration of a task on a target; `notes` has what else is known of it."""

    notes: Notes = SILENT

    def noted(self, notes: Notes) -> MeasureInput:
        """The same with notes."""
        made = MeasureInput(*self)
        made.notes = notes
        return made


Pair = tuple[MeasureInput, MeasureResult]


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """The line for a measurement, without the line end; UserError where an argument has no form in JSON."""
    only_json(protocol)
    if not isinstance(inp, MeasureInput) or not isinstance(result, MeasureResult):
        raise UserError(
            f"{inp!r} and {result!r} are no measurement",
            primitive="record.encode",
            fix="give a MeasureInput, MeasureResult",
        )
    line = {
        "input": [str(inp.target), inp.task.name, inp.task.args, inp.task.kwargs],
        "config": inp.config.to_json_dict(),
        "result": _numbers(result),
        "version": VERSION,
        **inp.notes.written(),
    }
    try:
        text = json.dumps(line, ensure_ascii=False)
        # What UTF-8 has no form for, such as half of a pair of surrogates, JSON has one for.
        return text if text.isascii() or _is_text(text) else json.dumps(line)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(
            f"the workload {inp.task.workload} cannot be written to a log: {error}",
            primitive="record.encode",
            fix="give templates numbers, strings, None, tensors, and tuples of these",
        ) from error


def _numbers(result: MeasureResult) -> list[Any]:
    """A result as a line has it."""
    try:
        error_no = int(result.error_no)
        costs = result.costs if error_no == MeasureErrorNo.NO_ERROR else FAILED
        return [_seconds(costs, error_no), error_no, float(result.all_cost), float(result.timestamp)]
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f"{result!r} is no result: {error}",
            primitive="record.encode",
            fix="give MeasureResult((seconds, ...), MeasureErrorNo.NO_ERROR, all_cost, timestamp)",
        ) from error


def _seconds(costs: Any, error_no: int) -> tuple[float, ...]:
    """Costs, where they are some: numbers and, but for a failure, times."""
    seconds = tuple(float(c) for c in costs)
    if not seconds or (error_no == MeasureErrorNo.NO_ERROR and not 0 < sum(seconds) < math.inf):
        raise ValueError(f"the costs are {costs!r}")
    return seconds


def decode(row: str, protocol: str = "json") -> Pair:
    """The measurement of a line; UserError where it is none."""
    only_json(protocol)
    if not isinstance(row, str):
        raise _foreign(f"it is {row!r}, no text")
    try:
        if _is_nested(row):
            raise _foreign(f"brackets nested more than {_DEEPEST} deep")
        odd = _ODD.search(row) is not None
        line = json.loads(row, parse_int=_integer if odd else None)
    except (ValueError, RecursionError) as error:
        raise _foreign(f"no JSON: {error}") from error
    if not isinstance(line, dict):
        raise _foreign("no object")
    try:
        return _decoded(_current(line), odd)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError, RecursionError) as error:
        raise _foreign(f"{type(error).__name__}: {error}") from error


_LONGEST_REASON = 300
_DEEPEST = 64
"""Brackets within brackets: a record has five, and a template's arguments seldom more."""
_LONGEST_NUMBER = 100
"""Digits of an integer; only the index of a configuration has more than twenty."""
_ODD = re.compile(r"\\u|\d{19}")
"""Only lines with this can hold half of a pair of surrogates, or an integer of more than 64 bits."""
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def _is_nested(row: str) -> bool:
    """Whether the brackets of a line are nested so deep that nobody can walk over what they hold."""
    if row.count("[") + row.count("{") <= _DEEPEST:
        return False
    depth = 0
    for found in _BRACKETS.finditer(row):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth > _DEEPEST:
            return True
    return False


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_plain(value: Any) -> None:
    """ValueError for data that templates cannot have been given: they run on numbers of 64 bits, and on text."""
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise ValueError(f"{value} has more than 64 bits")
    elif isinstance(value, dict):
        _check_plain([*value, *value.values()])
    elif isinstance(value, list):
        for one in value:
            _check_plain(one)


def only_json(protocol: str) -> None:
    """UserError for a way of writing records other than JSON."""
    if protocol != "json":
        raise UserError(f"protocol {protocol!r} is not supported", primitive="record", fix='use "json"')


def _foreign(why: str) -> UserError:
    return UserError(
        f"this is no record ({shorten(why, _LONGEST_REASON)})",
        primitive="record.decode",
        fix="give a line that record.encode made",
        where="",
    )


def _current(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """A line of today's format from one of version 0.1, whose keys are single letters."""
    if "i" not in line:
        return line
    target, name, args, kwargs, _, config = line["i"]
    entity = {"index": config.get("i"), "code_hash": config.get("c"), "entity": config["e"]}
    return {"input": [target, name, args, kwargs], "config": entity, "result": line["r"]}


def _decoded(line: Mapping[str, Any], odd: bool) -> Pair:
    target, name, args, _ = line["input"]
    costs, error_no, all_cost, timestamp = line["result"]
    if not isinstance(args, list):
        raise ValueError(f"the arguments are {args!r}, no list")
    if not isinstance(name, str) or not isinstance(target, str):
        raise ValueError(f"the target and the template are {target!r} and {name!r}, no text")
    if type(error_no) is not int or not all(isinstance(n, (int, float)) for n in (all_cost, timestamp)):
        raise ValueError(f"the result is {line['result']!r}")
    if odd:
        _check_plain(line["config"]["entity"])
    where, frozen = _task_of(target, name, repr(args), _Unhashed(args))
    inp = MeasureInput(where, Task.of_frozen(name, frozen, where), Config.from_json_dict(line["config"]))
    hash((inp.task.workload, inp.config))  # all who compare records rely on it
    known = {key: _note(line[key]) for key, kind in _KINDS.items() if isinstance(line.get(key), kind)}
    result = MeasureResult(_seconds(costs, error_no), error_no, float(all_cost), float(timestamp))
    return inp.noted(Notes(**known)), result


class _Unhashed(NamedTuple):
    """Arguments beside a key that tells them apart: all of them are equal, so that a cache compares the key alone."""

    args: list[Any]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unhashed)

    def __hash__(self) -> int:
        return 0


@functools.lru_cache(maxsize=64)  # the lines of a log have few workloads
def _task_of(target: str, name: str, key: str, given: _Unhashed) -> tuple[Target, tuple[Any, ...]]:
    """Return the target and the frozen arguments of a line; `key` is the text of the arguments."""
    _check_plain([name, target, given.args])
    return Target.parse(target), freeze(given.args)


def _note(value: Any) -> Any:
    """A note as it may be shown and calculated with."""
    if isinstance(value, str):
        return shorten(value)
    if isinstance(value, bool):
        return value
    return float(value) if 0 <= value < math.inf else 0.0


def pairs_of(given: Any, primitive: str) -> Iterator[Pair]:
    """The measurements that a caller gives; UserError where they are something else."""
    for one in [given] if isinstance(given, str) or not isinstance(given, Iterable) else given:
        if not (isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], MeasureInput)):
            raise UserError(
                f"{one!r} is no measurement",
                primitive=primitive,
                fix='give (MeasureInput, MeasureResult) pairs: autotvm.record.load_from_file("conv.log")',
            )
        yield one


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """What tells one measured thing from another, as text."""
    if not isinstance(inp, MeasureInput):
        raise UserError(
            f"{inp!r} is no input of a measurement", primitive="record.measure_str_key", fix="give a MeasureInput"
        )
    config = str(inp.config) if include_config else ""
    return f"{inp.target}{inp.task.name}{inp.task.args}{inp.task.kwargs}{config}"


def mean_cost(result: MeasureResult) -> float:
    """Mean seconds of one run; those of `FAILED` after a failure."""
    costs = result.costs if result.error_no == MeasureErrorNo.NO_ERROR else FAILED
    return float(sum(costs) / len(costs))
