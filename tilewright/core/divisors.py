"""Divisors of an extent, and powers of two."""

from __future__ import annotations


def divisors(number: int) -> list[int]:
    """Return all divisors of a positive number, ascending.

    Trial division, by odd numbers up to the square root of the remaining factor: extents are products of small primes,
    however large they are.
    """
    found, rest, prime = [1], number, 2
    while prime * prime <= rest:
        if rest % prime == 0:
            powers = [1]
            while rest % prime == 0:
                rest //= prime
                powers.append(powers[-1] * prime)
            found = [divisor * power for divisor in found for power in powers]
        prime += 1 if prime == 2 else 2
    return sorted(divisor * power for divisor in found for power in {1, rest})


def power_of_two(number: float) -> int:
    """Return the largest power of two that is at most `number`, and at least 1."""
    return 1 << max(0, int(number).bit_length() - 1)
