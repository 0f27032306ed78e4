"""The uses of each name of a script, found before the script is parsed: the stores and the places of uses."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

Path = tuple[int, ...]
"""The ids of the lists of statements around a place in the text, outermost first."""


@dataclass
class NameUse:
    """The places at which a name is stored, and the innermost block that holds all of its uses.

    `is_loop`: whether it is the variable of a loop.
    """

    stores: list[Path] = field(default_factory=list)
    block: Path = ()
    is_loop: bool = False

    @property
    def is_constant(self) -> bool:
        """Whether the name has one value from its store to the end of the block."""
        return len(self.stores) == 1 and self.block == self.stores[0]


class _Names(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: dict[str, NameUse] = {}
        self.path: Path = ()

    def block(self, statements: Iterable[ast.stmt]) -> None:
        before = self.path
        self.path = (*before, id(statements))
        for statement in statements:
            self.visit(statement)
        self.path = before

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self.block(node.body)
        if isinstance(node.target, ast.Name):
            self.found.setdefault(node.target.id, NameUse()).is_loop = True

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self.block(node.body)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self.block(node.body)
        self.block(node.orelse)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._use(node.target.id, stored=True)
            self._use(node.target.id, stored=True)
        else:
            self.visit(node.target)
        self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        self._use(node.id, stored=isinstance(node.ctx, ast.Store))

    def _use(self, name: str, stored: bool) -> None:
        if name not in self.found:
            self.found[name] = NameUse(block=self.path)
        use = self.found[name]
        common = zip(use.block, self.path, strict=False)
        shared = next((i for i, (a, b) in enumerate(common) if a != b), min(len(use.block), len(self.path)))
        use.block = self.path[:shared]
        if stored:
            use.stores.append(self.path)


def uses(function: ast.FunctionDef) -> dict[str, NameUse]:
    """The use of every name in the body of a function."""
    names = _Names()
    names.block(function.body)
    return names.found
