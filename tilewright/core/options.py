"""The options of compilation, as a value that every refinement and pass receives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

UserPass = Callable[[Any], Any]
"""A caller's pass, from a loop function to a loop function."""


@dataclass(frozen=True)
class Options:
    """The differences from the defaults.

    `unroll_step` and `explicit_unroll` apply if no pragma says otherwise. `disabled` names optional passes to leave
    out. `added` holds (phase, pass) pairs of the caller's, phases counted as the legacy API does. `check_bounds`: every
    access is checked when it is made.
    """

    unroll_step: int = 0
    explicit_unroll: bool = True
    vectorize: bool = True
    disabled: frozenset[str] = frozenset()
    added: tuple[tuple[int, UserPass], ...] = ()
    explain: bool = False
    check_bounds: bool = False


DEFAULT_OPTIONS = Options()
