"""Calls with effects: a call that does more than compute a value runs as often as the program says.

Expressions are interned, so `f(x) - f(x)` holds one node twice. Of a pure function it is 0; of any other, two calls.
Code that rewrites expressions or keeps their values asks `contains_effects` first. Few programs have such calls at all,
so the question is `SEEN and contains_effects(e)`.
"""

from __future__ import annotations

from typing import Any

EXTERN, PURE_EXTERN = "call_extern", "call_pure_extern"
LLVM, PURE_LLVM = "call_llvm_intrin", "call_llvm_pure_intrin"
PACKED = "call_packed"
PREFETCH = "prefetch"
"""Brings the cache line of an address into the cache."""
RETURN = "ret"
"""Ends the call of a function; the argument is the function's value."""
ATOMICS = tuple(f"atomic_{what}" for what in "add sub min max and or xor exchange".split())
FAILED = "assertion_failed"
"""Reports a failed assertion: its message, and its place in the source."""
EFFECTS: set[str] = {EXTERN, LLVM, PACKED, RETURN, PREFETCH, FAILED, *ATOMICS}
"""The names of functions with effects; users may declare more of them."""
SEEN: set[str] = set()
"""The calls with effects in any expression of this process."""


def note_effect(name: str) -> bool:
    """Whether calls of that name have effects; a call with effects is noted as seen."""
    if name not in EFFECTS:
        return False
    SEEN.add(name)
    return True


def contains_effects(e: Any) -> bool:
    """Whether evaluating an expression calls a function that has an effect."""
    if hasattr(e, "acts_below"):
        found: bool = e.acts_below
        return found
    stack = [e]
    while stack:
        at = stack[-1]
        unknown = [child for child in at.children() if not hasattr(child, "acts_below")]
        if unknown:
            stack += unknown
            continue
        stack.pop()
        at.acts_below = getattr(at, "has_effect", False) or any([child.acts_below for child in at.children()])
    return bool(e.acts_below)
