"""Rewrite rules as data, and their compilation to Python `if` chains.

`match(FloorDiv, x, c)` is the pattern of a node type and its fields. A field is another pattern, a node that matches
only itself, None if it does not matter, or a *wildcard*. `wild("x y")` matches any expression, `constants("c d")` an
integer constant, `numbers("m l")` a field that holds a number or a type. A wildcard that occurs twice must match the
same node twice. `compile_rules` turns all rules of one root type into one function. It tests each type and field once
per rule, and is many times faster than interpreting the patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ...expr import nodes as n
from ...expr.nodes import Expr


class Wild(NamedTuple):
    """A wildcard; `kind` is the kind of its matches: "any", "constant" or "number"."""

    name: str
    kind: str


class Pattern(NamedTuple):
    """A node of type `root` with fields that match the `parts`, in the order of `root.FIELDS`.

    A part is a pattern, a wildcard, None for a field that does not matter, or a node that matches only itself.
    """

    root: type[Expr]
    parts: tuple[Any, ...]


class Rule(NamedTuple):
    """`pattern` becomes `then(...)` if `when(...)` holds; both receive the wildcards that they name."""

    pattern: Pattern
    then: Callable[..., Any]
    when: Callable[..., bool] | None
    domain: str


def wild(names: str) -> list[Wild]:
    """Wildcards for any expression."""
    return [Wild(name, "any") for name in names.split()]


def constants(names: str) -> list[Wild]:
    """Wildcards for integer constants."""
    return [Wild(name, "constant") for name in names.split()]


def numbers(names: str) -> list[Wild]:
    """Wildcards for fields that hold a number or a type."""
    return [Wild(name, "number") for name in names.split()]


def match(root: type[Expr], *parts: Any) -> Pattern:
    """The pattern of a node type and its fields."""
    return Pattern(root, parts)


def rule(
    root: Pattern, then: Callable[..., Any], *, when: Callable[..., bool] | None = None, domain: str = "int"
) -> Rule:
    """A rewrite rule. `domain` is the type of the wildcards, for the harness that tests each rule separately."""
    return Rule(root, then, when, domain)


Rewrite = Callable[[Any], Expr | None]


def compile_rules(rules: Iterable[Rule]) -> dict[type[Expr], Rewrite]:
    """One function a root type: the result of the first rule that applies, or None."""
    grouped: dict[type[Expr], list[Rule]] = {}
    for one in rules:
        grouped.setdefault(one.pattern.root, []).append(one)
    return {root: _compile(root, group) for root, group in grouped.items()}


def _compile(root: type[Expr], group: list[Rule]) -> Rewrite:
    scope: dict[str, Any] = {"IntImm": n.IntImm}
    lines = ["def rewrite(e):"]
    for number, one in enumerate(group):
        tests, bound = _tests(one.pattern, "e", scope)
        scope[f"then{number}"] = one.then
        if one.when is not None:
            scope[f"when{number}"] = one.when
            tests.append(f"when{number}({_arguments(one.when, bound)})")
        body = f"return then{number}({_arguments(one.then, bound)})"
        lines += [f"    if {' and '.join(tests) or 'True'}:", f"        {body}"]
    lines.append("    return None")
    exec("\n".join(lines), scope)
    compiled: Rewrite = scope["rewrite"]
    return compiled


def _arguments(f: Callable[..., Any], bound: dict[str, str]) -> str:
    code: Any = f.__code__
    return ", ".join(bound[name] for name in code.co_varnames[: code.co_argcount])


def _tests(pattern: Pattern, at: str, scope: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """The conditions for the node at `at` to match, and the place of each wildcard's match."""
    tests: list[str] = []
    bound: dict[str, str] = {}
    pending = [(pattern, at)]
    while pending:
        now, place = pending.pop(0)
        for field, part in zip(now.root.FIELDS, now.parts, strict=True):
            path = f"{place}.{field}"
            if isinstance(part, Pattern):
                scope[part.root.__name__] = part.root
                tests.append(f"type({path}) is {part.root.__name__}")
                pending.append((part, path))
            elif isinstance(part, Wild):
                if part.name in bound:
                    tests.append(f"{path} {'==' if part.kind == 'number' else 'is'} {bound[part.name]}")
                    continue
                bound[part.name] = path
                if part.kind == "constant":
                    tests.append(f"type({path}) is IntImm")
            elif part is not None:
                name = f"node{len(scope)}"
                scope[name] = part
                tests.append(f"{path} is {name}")
    return tests, bound
