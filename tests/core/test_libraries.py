"""The library of an array by its type: every reader of `library_name` treats derived classes as that library's own."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.core.libraries import library_name

PACKAGE = Path(tw.__file__).parent


def derived(module: str) -> type:
    """A class of a script, derived from one of a module."""
    return type("Mine", (type("Array", (), {"__module__": module}),), {"__module__": "script"})


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (np.memmap, "numpy"),
        (type(tw.nd.array([1.0])), "tilewright"),
        (derived("torch._tensor"), "torch"),
        (derived("cupy._core.core"), "cupy"),
        (derived("jaxlib._jax"), "jax"),
        (derived("jax._src.interpreters.partial_eval"), "jax"),
        (derived("numpy"), "numpy"),
        (derived("jaxtyping"), "script"),
        (type("Array", (), {"__module__": "dpnp.array"}), "dpnp"),
    ],
)
def test_the_library_of_a_type(kind: type, name: str) -> None:
    assert library_name(kind) == name


def test_no_other_function_asks_for_the_module_of_a_type() -> None:
    """Each such question forgot derived classes of another library."""
    found = []
    for floor in ("functional", "runtime"):
        for path in sorted((PACKAGE / floor).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if "__module__" in text else ():
                if isinstance(node, ast.Attribute) and node.attr == "__module__":
                    found.append(f"{path.relative_to(PACKAGE).as_posix()}: {ast.unparse(node)}")
    assert found == ["functional/arguments/activations.py: type(activation).__module__",
                     "runtime/argument_errors.py: type(arg).__module__"]  # fmt: skip
