"""Settings of scripts for the whole process: `autotvm.GLOBAL_SCOPE.silent = True` keeps fallbacks quiet."""

from __future__ import annotations


class GlobalScope:
    """Switches of the process. `in_tuning` tells whether a tuner is at work."""

    silent = False
    in_tuning = False


GLOBAL_SCOPE = GlobalScope()
