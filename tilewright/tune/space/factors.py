"""The ways to split an extent into factors."""

from __future__ import annotations

from ...core.divisors import divisors

POLICIES = ("factors", "power2", "verbose")


def powers_of_two(n: int) -> list[int]:
    """Return the powers of two up to n."""
    return [1 << i for i in range(n.bit_length())]


def candidates(n: int, policy: str) -> list[int]:
    """Return the factors of a policy, ascending: divisors, powers of two, or ("verbose") both."""
    if policy == "factors":
        return divisors(n)
    if policy == "power2":
        return powers_of_two(n)
    return sorted({*divisors(n), *powers_of_two(n)})
