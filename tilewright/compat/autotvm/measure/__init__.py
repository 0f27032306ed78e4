"""The measurement of candidates, and its results."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ....core.refusals import old_name as _old_name
from ....fleet.option import RPCRunner
from ....measure.option import LocalBuilder, LocalRunner, measure_option
from ....measure.outcome import MeasureErrorNo, MeasureResult
from ....tune.records.format import MeasureInput
from . import measure, measure_methods
from .measure import BuildResult, Runner, create_measure_batch

__all__ = [
    "BuildResult", "LocalBuilder", "LocalRunner", "MeasureErrorNo", "MeasureInput", "MeasureResult", "RPCRunner",
    "Runner", "create_measure_batch", "measure", "measure_methods", "measure_option",
]  # fmt: skip

if not _TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
