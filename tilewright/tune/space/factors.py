"""The ways to split an extent into factors."""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt

POLICIES = ("factors", "power2", "verbose")


def factors(n: int) -> list[int]:
    """All divisors of n, ascending."""
    small = [i for i in range(1, isqrt(n) + 1) if n % i == 0]
    return small + [n // i for i in reversed(small) if i * i != n]


def powers_of_two(n: int) -> list[int]:
    """The powers of two up to n."""
    return [1 << i for i in range(n.bit_length())]


def candidates(n: int, policy: str) -> list[int]:
    """The factors that a policy tries, ascending: divisors, powers of two, or ("verbose") both."""
    if policy == "factors":
        return factors(n)
    if policy == "power2":
        return powers_of_two(n)
    return sorted({*factors(n), *powers_of_two(n)})


def splits(n: int, parts: int, tried: list[int], no_tail: bool) -> Iterator[tuple[int, ...]]:
    """The sizes (-1, s1, ..., s_{parts-1}) with every s in `tried`; -1 stands for what is left.

    With `no_tail` the product of the sizes divides n, else it is at most n. The first size after -1 varies
    fastest: the order is part of the log format, which names configurations by their index.
    """

    def inner(count: int, product: int) -> Iterator[tuple[int, ...]]:
        if count == 0:
            yield ()
            return
        for size in tried:
            total = product * size
            if total > n:
                break
            if not no_tail or n % total == 0:
                for rest in inner(count - 1, total):
                    yield (*rest, size)

    for sizes in inner(parts - 1, 1):
        yield (-1, *sizes)
