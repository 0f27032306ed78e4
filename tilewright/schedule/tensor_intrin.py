"""Intrinsics that legacy programs declare by `te.decl_tensor_intrin`, as far as they have a counterpart here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorIntrin:
    """What a declared intrinsic does: `name` is that of an atom, or "load" or "store" for copies of fragments."""

    name: str
