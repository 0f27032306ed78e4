"""The ways to split an extent into factors."""

from __future__ import annotations

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
