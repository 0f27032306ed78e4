"""Walking and rewriting expression trees; all memoised on node identity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ..core.node import Node
from ..core.recursion import with_room
from .nodes import And, Expr, IntImm, Load, Var

T = TypeVar("T")


def post_order(*roots: Node) -> Iterator[Any]:
    """Every distinct node below `roots` and the roots themselves, children before parents."""
    seen: set[Node] = set()
    stack: list[Node | None] = list(reversed(roots))  # None: the children of its descendants have been seen
    while stack:
        at = stack.pop()
        if at is None:
            yield stack.pop()
        elif at not in seen:
            seen.add(at)
            children = at.children()
            if children:
                stack += (at, None)
                stack += reversed(children)
            else:
                yield at


def variables(*roots: Node) -> tuple[Var, ...]:
    """The variables that occur, in the order of first appearance."""
    found: list[Var] = []
    seen: set[Node] = set()
    stack: list[Node] = list(reversed(roots))
    while stack:  # a separate walk: only the order of leaves matters, and lowering asks often
        at = stack.pop()
        if at not in seen:
            seen.add(at)
            if isinstance(at, Var):
                found.append(at)
            else:
                stack += reversed(at.children())
    return tuple(found)


def constant_value(e: Any) -> int | None:
    """The value of an integer constant, None for other expressions."""
    return e.value if isinstance(e, IntImm) else None


def reads_memory(*roots: Node) -> bool:
    """Whether any of the roots loads from a tensor or a buffer."""
    return any(isinstance(at, Load) for at in post_order(*roots))


def uses_any(root: Expr, wanted: Iterable[Var]) -> bool:
    """Whether any of the wanted variables occurs in `root`."""
    targets = frozenset(wanted)
    seen: set[Node] = set()
    stack: list[Node] = [root] if targets else []
    while stack:  # in any order, up to the first match
        at = stack.pop()
        if at in targets:
            return True
        if at not in seen:
            seen.add(at)
            stack += at.children()
    return False


def parts(e: Node) -> Sequence[Node]:
    """The children of a node that are expressions."""
    return [child for child in e.children() if isinstance(child, Expr)]


def fold(
    root: Node,
    known: dict[Any, T],
    combine: Callable[[Any, list[T]], T],
    children: Callable[[Any], Sequence[Node]] = parts,
) -> T:
    """Compute a value of each node from the values of its children, leaves first; each node is looked at once.

    Parameters
    ----------
    root : Node
        The expression to evaluate. It may be deeper than Python's stack.
    known : dict
        The values of nodes that earlier calls have found. This call adds its results.
    combine : callable
        Returns the value of a node, given the node and the values of its children in order.
    children : callable
        Returns the nodes on which the value of a node depends, by default all expressions among its children.

    Returns
    -------
    The value of `root`.
    """
    waiting = [root]
    while waiting:
        at = waiting[-1]
        if at in known:
            waiting.pop()
            continue
        below = children(at)
        fresh = [child for child in below if child not in known]
        if fresh:
            waiting += fresh
        else:
            known[waiting.pop()] = combine(at, [known[child] for child in below])
    return known[root]


class Occurrences:
    """Occurrences of one variable: asked about every level of a deep expression, each node is looked at once."""

    def __init__(self, var: Var) -> None:
        self._known: dict[Node, bool] = {var: True}

    def __call__(self, root: Node) -> bool:
        """Whether the variable occurs in `root`."""
        return fold(root, self._known, lambda _, found: any(found), lambda at: at.children())


def loads(*roots: Node) -> tuple[Load, ...]:
    """The distinct loads that occur, inner ones first."""
    return tuple([e for e in post_order(*roots) if isinstance(e, Load)])


def substitute(root: Any, mapping: Mapping[Any, Expr]) -> Any:
    """`root` with each node that is a key of `mapping` replaced by its value (which is not searched again)."""
    memo: dict[Any, Any] = dict(mapping)

    def visit(e: Any) -> Any:
        found = memo.get(e)
        if found is None:
            found = memo[e] = e.map_children(visit)
        return found

    return with_room(visit, root) if memo else root


def rewrite(root: Any, rule: Callable[[Any], Any]) -> Any:
    """Bottom-up: each node with its children already rewritten goes through `rule`, once."""
    memo: dict[Any, Any] = {}

    def visit(e: Any) -> Any:  # not by `rewrite_from`: one more call for each node takes 3 % of the time of a lowering
        found = memo.get(e)
        if found is None:
            found = memo[e] = rule(e.map_children(visit))
        return found

    return with_room(visit, root)


def rewrite_from(root: Any, rule: Callable[[Any, Any], Any], memo: dict[Any, Any] | None = None) -> Any:
    """Like `rewrite`, with a rule that also sees the node before: it gets that node, then the node with new children.

    `memo` keeps the results for a later call with the same rule. A node that it already holds is not searched.
    """
    memo = {} if memo is None else memo

    def visit(e: Any) -> Any:
        found = memo.get(e)
        if found is None:
            found = memo[e] = rule(e, e.map_children(visit))
        return found

    return with_room(visit, root)


def chain(e: Any, kind: Any) -> list[Expr]:
    """The operands of a nest of one operator, such as And or Min, left to right."""
    parts: list[Expr] = []
    stack: list[Any] = [e]
    while stack:
        at = stack.pop()
        if type(at) is kind:
            stack += [at.b, at.a]
        else:
            parts.append(at)
    return parts


def conjuncts(cond: Expr) -> tuple[Expr, ...]:
    """The parts of a conjunction, left to right."""
    if not isinstance(cond, And):
        return (cond,)
    parts: list[Expr] = []
    stack = [cond.b, cond.a]
    while stack:
        at = stack.pop()
        if isinstance(at, And):
            stack += (at.b, at.a)
        else:
            parts.append(at)
    return tuple(parts)
