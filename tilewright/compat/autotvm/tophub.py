"""The legacy module of configurations that came with the legacy release: here, logs that the script names itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...core.refusals import old_name as _old_name
from ...core.target import Target
from .task import ApplyHistoryBest


def context(target: Any, extra_files: Iterable[Any] | None = None) -> ApplyHistoryBest:
    """Return a context of the best configurations of log files.

    Nothing is downloaded: without `extra_files`, the context knows nothing.

    Parameters
    ----------
    target : Target, str or list of these
        The target of programs within the context.
    extra_files : iterable of str, optional
        Log files.
    """
    for one in target if isinstance(target, (list, tuple)) else [target]:
        Target.parse(one)
    return ApplyHistoryBest(list(extra_files or ()))


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
