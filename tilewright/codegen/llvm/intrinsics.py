"""Intrinsics of LLVM that a program names: whether LLVM has them with these types, and compiles them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ...core.errors import UserError
from ...expr.nodes import Call
from .binding import binding
from .probe import fails_on
from .types import LLVMValue

FIX = (
    "look its name and types up in LLVM's language reference: the type of the result comes first, "
    'call_llvm_pure_intrin("float32", "llvm.fma", a, b, c)'
)


def result_of(call: Call, name: str, kind: str, args: Sequence[LLVMValue], cpu: str, features: str) -> str:
    """Return the LLVM type of an intrinsic's result: `kind`, or "void" if it has none.

    Raises
    ------
    UserError
        If LLVM has no such intrinsic with these types, or cannot compile it.
    """
    given = tuple((arg.type, "" if arg.text.startswith("%") else arg.text) for arg in args)
    problem = _complaint(name, kind, given)
    if kind == "i32" and "return type" in problem:  # a call with an unread value has type int32
        kind, problem = "void", _complaint(name, "void", given)
    problem = problem or fails_on(_probe(name, kind, given), cpu, features)
    if problem:
        shown = f"{kind} @{name}({', '.join(type_ for type_, _ in given)})"
        raise UserError(
            f"`{call}` calls an intrinsic declared as `declare {shown}`, {problem}", primitive=call.name, fix=FIX
        )
    return kind


@cache
def _complaint(name: str, kind: str, args: tuple[tuple[str, str], ...]) -> str:
    """Return the reason why LLVM refuses a call, "" if it takes it; an argument is its type and its constant, or ""."""
    try:
        parsed = binding().parse_assembly(_probe(name, kind, args))
        parsed.verify()
        return "which LLVM does not have" if "; Unknown intrinsic" in str(parsed) else ""
    except RuntimeError as error:
        return f"which it is not: {' '.join(str(error).split())}"


def _probe(name: str, kind: str, args: tuple[tuple[str, str], ...]) -> str:
    """Return a module with one call: LLVM checks types at calls, not at declarations."""
    types = ", ".join(type_ for type_, _ in args)
    params = ", ".join(f"{type_} %a{place}" for place, (type_, text) in enumerate(args) if not text)
    values = ", ".join(f"{type_} {text or f'%a{place}'}" for place, (type_, text) in enumerate(args))
    call = f"call {kind} @{name}({values})"
    body = f"{call}\n  ret void" if kind == "void" else f"%r = {call}\n  ret {kind} %r"
    return f"declare {kind} @{name}({types})\ndefine {kind} @probe({params}) {{\n  {body}\n}}\n"
