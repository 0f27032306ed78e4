"""Automatic schedules: structure by rules on the dataflow graph, sizes from the hardware, order by the cost model."""

from .schedule import auto_schedule as auto_schedule
