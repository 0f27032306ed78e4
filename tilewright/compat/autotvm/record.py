"""Measurements as lines of a log: write, read, distil."""

from ...measure.outcome import MeasureResult
from ...tune.records.files import merge, pick_best, split_workload
from ...tune.records.format import VERSION as AUTOTVM_LOG_VERSION
from ...tune.records.format import MeasureInput, decode, encode, measure_str_key
from ...tune.records.log import load_from_buffer, load_from_file
from .task import ApplyHistoryBest

__all__ = [name for name in dir() if not name.startswith("_")]
