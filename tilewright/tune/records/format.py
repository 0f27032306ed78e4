"""One measurement as one line of JSON, in the format of the legacy API's logs (version 0.2).

{"input": [target, template, args, kwargs], "config": {"index": i, "code_hash": null, "entity": [[knob, kind,
value], ...]}, "result": [costs, error_no, all_cost, timestamp], "version": 0.2}

Further keys at the top level extend the legacy format; legacy readers ignore them.
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
from ..space.choices import Choice, ValueChoice, named_choice
from ..space.config import Config
from ..task import Task, freeze

VERSION = 0.2
FAILED = (1e9,)
"""The cost that represents a failure, in seconds."""
COMPILER = f"tilewright {__version__}"


@dataclass(frozen=True)
class Notes:
    """The fields of a record beyond the legacy format; empty if absent.

    `device` is the name of the measuring device, `compiler` its compiler. A failure has its `reason` and the schedule
    `step` at fault. A `refused` candidate was never compiled, and was not a trial. A `confirmed` measurement was
    repeated at the end, and replaces earlier ones of the same configuration. `default` marks the configuration of calls
    without measurements. If a search confirmed its initial configuration, `margin` is the fraction by which a rival
    must be faster to replace it. `flop` is the number of operations of one run, `predicted` the seconds predicted by a
    model. `checked` is False if the output was not compared with a reference; logs of the legacy system omit it.
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
    default: bool = False
    margin: float = 0.0

    def written(self) -> dict[str, Any]:
        """Return the notes that are not empty."""
        return {name: value for name, value in vars(self).items() if value != vars(SILENT)[name]}


SILENT = Notes()


_KINDS = {key: (int, float) if type(value) is float else type(value) for key, value in vars(SILENT).items()}


class _Fields(NamedTuple):
    target: Target
    task: Task
    config: Config


class MeasureInput(_Fields):
    """The measured configuration: a task, a target and a configuration; `notes` has additional data."""

    notes: Notes = SILENT

    def noted(self, notes: Notes) -> MeasureInput:
        """Return a copy with notes."""
        made = MeasureInput(*self)
        made.notes = notes
        return made


Pair = tuple[MeasureInput, MeasureResult]


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """Return the line of a measurement, without the line end; raise UserError if an argument has no form in JSON."""
    only_json(protocol)
    if not isinstance(inp, MeasureInput) or not isinstance(result, MeasureResult):
        raise UserError(
            f"{inp!r} and {result!r} are not a measurement",
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
        # JSON can represent text that UTF-8 cannot, such as half of a pair of surrogates.
        return text if text.isascii() or _is_text(text) else json.dumps(line)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(
            f"the workload {inp.task.workload} cannot be written to a log: {error}",
            primitive="record.encode",
            fix="give templates numbers, strings, None, tensors, and tuples of these",
        ) from error


def _numbers(result: MeasureResult) -> list[Any]:
    """Return a result in the form of a line."""
    try:
        error_no = int(result.error_no)
        costs = result.costs if error_no == MeasureErrorNo.NO_ERROR else FAILED
        return [_seconds(costs, error_no), error_no, float(result.all_cost), float(result.timestamp)]
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(
            f"{result!r} is not a result: {error}",
            primitive="record.encode",
            fix="give MeasureResult((seconds, ...), MeasureErrorNo.NO_ERROR, all_cost, timestamp)",
        ) from error


def _seconds(costs: Any, error_no: int) -> tuple[float, ...]:
    """Return costs if they are valid: numbers and, unless the measurement failed, times."""
    seconds = tuple(float(c) for c in costs)
    if not seconds or (error_no == MeasureErrorNo.NO_ERROR and not 0 < sum(seconds) < math.inf):
        raise ValueError(f"the costs are {costs!r}")
    return seconds


def decode(row: str, protocol: str = "json") -> Pair:
    """Return the measurement of a line; raise UserError if it has none."""
    only_json(protocol)
    if not isinstance(row, str):
        raise _foreign(f"it is {row!r}, no text")
    if _is_nested(row):
        raise _foreign(f"brackets nested more than {_DEEPEST_BRACKETS} deep")
    if (pair := _quickly(row)) is not None:
        return pair
    try:
        line = json.loads(row)
    except (ValueError, RecursionError) as error:
        raise _foreign(f"no JSON: {error}") from error
    if not isinstance(line, dict):
        raise _foreign("no object")
    try:
        return _decoded(_current(line))
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError, RecursionError) as error:
        raise _foreign(f"{type(error).__name__}: {error}") from error


_LONGEST_REASON = 300
_DEEPEST_BRACKETS = 64
"""The deepest nesting of brackets: a record has five levels, and a template's arguments seldom more."""
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def _is_nested(row: str) -> bool:
    """Return whether the brackets of a line are nested too deep for a recursive walk."""
    if row.count("[") + row.count("{") <= _DEEPEST_BRACKETS:
        return False
    depth = 0
    for found in _BRACKETS.finditer(row):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth > _DEEPEST_BRACKETS:
            return True
    return False


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_plain(value: Any) -> None:
    """Raise ValueError for data that no template accepts: arguments are text and 64-bit numbers."""
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
    """Raise UserError for a protocol of records other than JSON."""
    if not isinstance(protocol, str) or protocol != "json":
        why = ": a pickled record runs any code when it is read" if str(protocol) == "pickle" else ""
        raise UserError(f"protocol {protocol!r} is not supported{why}", primitive="record", fix='use "json"')


def _foreign(why: str) -> UserError:
    return UserError(
        f"this is not a record ({shorten(why, _LONGEST_REASON)})",
        primitive="record.decode",
        fix="give a line that record.encode made",
        where="",
    )


def _current(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a line of version 0.1, with its one-letter keys, in the current format."""
    if "i" not in line:
        return line
    target, name, args, kwargs, _, config = line["i"]
    entity = {"index": config.get("i"), "code_hash": config.get("c"), "entity": config["e"]}
    return {"input": [target, name, args, kwargs], "config": entity, "result": line["r"]}


def _decoded(line: Mapping[str, Any]) -> Pair:
    config = Config.from_json_dict(line["config"], _choice)
    return _pair(_input(*line["input"]), config, _result(line), line)


def _input(target: Any, name: Any, args: Any, _: Any) -> tuple[Target, str, tuple[Any, ...]]:
    """Return the target, the template and the frozen arguments of a line."""
    if not isinstance(args, list):
        raise ValueError(f"the arguments are {args!r}, no list")
    if not isinstance(name, str) or not isinstance(target, str):
        raise ValueError(f"the target and the template are {target!r} and {name!r}, no text")
    _check_plain([name, target, args])
    frozen = freeze(args)
    hash(frozen)  # comparisons of records rely on hashes
    return Target.parse(target), name, frozen


def _choice(row: Any) -> tuple[str, Choice]:
    """Return the name and the choice of an entry of a configuration."""
    _check_plain(row)
    found = named_choice(row)
    hash(found)
    return found


def _result(line: Mapping[str, Any]) -> MeasureResult:
    costs, error_no, all_cost, timestamp = line["result"]
    _check_plain([error_no, all_cost, timestamp])
    if type(error_no) is not int or not isinstance(all_cost, (int, float)) or not isinstance(timestamp, (int, float)):
        raise ValueError(f"the result is {line['result']!r}")
    return MeasureResult(_seconds(costs, error_no), error_no, float(all_cost), float(timestamp))


def _pair(
    head: tuple[Target, str, tuple[Any, ...]], config: Config, result: MeasureResult, line: Mapping[str, Any]
) -> Pair:
    target, name, args = head
    inp = MeasureInput(target, Task.of_frozen(name, args, target), config)
    inp.notes = _notes(
        tuple([(key, line[key]) for key in line if key in _KINDS and isinstance(line[key], _KINDS[key])])
    )
    return inp, result


def _quickly(row: str) -> Pair | None:
    """Return the measurement of a line in the exact form of `encode`; None for any other line.

    Its pieces are looked up by their text, because most of them occur in earlier lines. That is sound: each piece is a
    complete JSON value, and no key occurs twice.
    """
    head, _, rest = row.partition(', "config": {"index": ')
    index, _, rest = rest.partition(', "code_hash": null, "entity": [[')
    entity, end, rest = rest.partition(']]}, "result": [')
    if not end or not _INDEX.fullmatch(index):
        return None
    try:
        line = json.loads('{"result": [' + rest)
        if not line.keys().isdisjoint(("input", "config", "i")):
            return None
        choices = dict([_known_choice(text) for text in entity.split("], [")])
        config = Config(choices, None if index == "null" else int(index))
        return _pair(_known_input(head), config, _result(line), line)
    except (ArithmeticError, AttributeError, KeyError, IndexError, TypeError, ValueError, RecursionError, UserError):
        return None  # the slow path finds the error


_INDEX = re.compile(r"0|[1-9][0-9]{0,99}|null")


@functools.lru_cache(maxsize=64)
def _known_input(text: str) -> tuple[Target, str, tuple[Any, ...]]:
    """Return the parsed beginning of a line with this text."""
    (given,) = json.loads(text + "}").values()
    if not text.startswith('{"input": '):
        raise ValueError(text)
    return _input(*given)


@functools.lru_cache(maxsize=1 << 14)
def _known_choice(text: str) -> tuple[str, Choice]:
    """Return the name and the choice of an entry, written without its brackets."""
    name, choice = _choice(json.loads(f"[{text}]"))
    if isinstance(choice, ValueChoice) and isinstance(choice.val, (list, dict)):
        raise ValueError(text)  # a shared mutable value could be changed for all lines
    return name, choice


@functools.lru_cache(maxsize=1024)  # equal values of equal keys make equal notes, as all of a key have one type
def _notes(said: tuple[tuple[str, Any], ...]) -> Notes:
    return Notes(**{key: _note(value) for key, value in said})


def _note(value: Any) -> Any:
    """Return a note in a form that is safe to show and to calculate with."""
    if isinstance(value, str):
        return shorten(value)
    if isinstance(value, bool):
        return value
    return float(value) if 0 <= value < math.inf else 0.0


def pairs_of(given: Any, primitive: str) -> Iterator[Pair]:
    """Yield the measurements of a caller's argument; raise UserError for other objects."""
    single = isinstance(given, str) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0
    for one in [given] if single else given:
        if not (isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], MeasureInput)):
            raise UserError(
                f"{one!r} is not a measurement",
                primitive=primitive,
                fix='give (MeasureInput, MeasureResult) pairs: autotvm.record.load_from_file("conv.log")',
            )
        yield one


def measure_str_key(inp: MeasureInput, include_config: bool = True) -> str:
    """Return the identity of a measured configuration, as text."""
    if not isinstance(inp, MeasureInput):
        raise UserError(
            f"{inp!r} is not an input of a measurement", primitive="record.measure_str_key", fix="give a MeasureInput"
        )
    config = str(inp.config) if include_config else ""
    return f"{inp.target}{inp.task.name}{inp.task.args}{inp.task.kwargs}{config}"


def mean_cost(result: MeasureResult) -> float:
    """Return the mean seconds of one run; `FAILED` after a failure."""
    costs = result.costs if result.error_no == MeasureErrorNo.NO_ERROR else FAILED
    return float(sum(costs) / len(costs))
