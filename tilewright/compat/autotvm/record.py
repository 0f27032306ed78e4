"""Measurements as lines of a log: write, read, distil."""

from typing import Any as _Any

from ...measure.outcome import MeasureResult
from ...tune.records import format as _format
from ...tune.records import pickled as _pickled
from ...tune.records.files import merge, pick_best, split_workload
from ...tune.records.format import VERSION as AUTOTVM_LOG_VERSION
from ...tune.records.format import MeasureInput, measure_str_key
from ...tune.records.log import load_from_buffer, load_from_file
from .task import ApplyHistoryBest


def encode(inp: MeasureInput, result: MeasureResult, protocol: str = "json") -> str:
    """The line for a measurement, without the line end; raises UserError if an argument has no form in JSON."""
    return _pickled.encode(inp, result) if _is_pickle(protocol) else _format.encode(inp, result, protocol)


def decode(row: str, protocol: str = "json") -> _format.Pair:
    """The measurement of a line; raises UserError if it is none.

    Of a pickled record, only data is loaded: reading it runs no code.
    """
    return _pickled.decode(row) if _is_pickle(protocol) else _format.decode(row, protocol)


def _is_pickle(protocol: _Any) -> bool:
    return isinstance(protocol, str) and protocol == "pickle"


__all__ = [
    "AUTOTVM_LOG_VERSION", "ApplyHistoryBest", "MeasureInput", "MeasureResult", "decode", "encode",
    "load_from_buffer", "load_from_file", "measure_str_key", "merge", "pick_best", "split_workload",
]  # fmt: skip
