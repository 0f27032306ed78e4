"""How candidates are measured, and what comes of it."""

from ..measure.option import LocalBuilder, LocalRunner, measure_option
from ..measure.outcome import MeasureErrorNo, MeasureResult
from ..tune.records.format import MeasureInput

__all__ = [name for name in dir() if not name.startswith("_")]
