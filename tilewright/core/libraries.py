"""The library that an array is of."""

from __future__ import annotations

_NAMES = {"torch": "torch", "numpy": "numpy", "cupy": "cupy", "jax": "jax", "jaxlib": "jax", "tilewright": "tilewright"}
"""The names of known libraries, by the packages that their types are in. JAX's tracers are in "jax"."""


def library_name(kind: type) -> str:
    """Return the library of arrays of a type, such as "torch", also of a derived type; the type's package for others.

    `torch.compile` follows this function, but no function with a cache.
    """
    for base in kind.__mro__:
        name = _NAMES.get(base.__module__.partition(".")[0])
        if name is not None:
            return name
    return kind.__module__.partition(".")[0]
