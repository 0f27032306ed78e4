"""The launches of a call of known sizes, as plain data."""

from __future__ import annotations

from typing import NamedTuple

Extents = tuple[int, int, int]


class FixedLaunch(NamedTuple):
    """One launch: the kernel, its grid and block, its dynamic shared bytes, the arguments that it takes, and numbers.

    An argument of the call is a number from 0 on; scratch memory is counted from -1 on downwards. The numbers, such as
    sizes and strides, are words that the kernel takes behind the arguments.
    """

    kernel: str
    grid: Extents
    block: Extents
    shared: int
    arguments: tuple[int, ...]
    numbers: tuple[int, ...] = ()


class FixedLaunches(NamedTuple):
    """All launches of a call, in order, and the bytes of each piece of scratch memory between them."""

    launches: tuple[FixedLaunch, ...]
    scratch: tuple[int, ...]
