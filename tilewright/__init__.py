"""Tilewright: declare a tensor computation, schedule it, lower it, run it, tune it."""

__version__ = "0.1.0"
