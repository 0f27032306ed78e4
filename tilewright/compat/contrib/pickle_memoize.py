"""Results of functions that are kept for the next call, under the legacy API's names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...core.errors import UserError

_kept: dict[str, dict[Any, Any]] = {}


def memoize(key: str, save_at_exit: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Keep the results of a function, by its arguments and the values that it closes over.

    Parameters
    ----------
    key : str
        The key of the results: functions that share it share them.
    save_at_exit : bool
        Accepted for old scripts: results are kept as long as the process lives, and in no file.

    Returns
    -------
    callable
        A decorator. If an argument or a value has no hash, the function is called each time.
    """
    if not isinstance(key, str):
        raise UserError(
            f"the key is {key!r}, which is not text",
            primitive="memoize",
            fix='name the function: @memoize("ref.conv2d")',
        )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            closed = tuple(cell.cell_contents for cell in function.__closure__ or ())
            about = (function.__qualname__, closed, args, tuple(sorted(options.items())))
            try:
                hash(about)
            except TypeError:
                return function(*args, **options)
            kept = _kept.setdefault(key, {})
            if about not in kept:
                kept[about] = function(*args, **options)
            return kept[about]

        return call

    return decorate
