"""The statements of the host part of a function, visited in order: each form of host code is one visitor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from ..loops.nodes import Allocate, For, If, Launch, Let, LoopKind, Seq, Stmt
from .kernel import Kernel


class HostVisitor(ABC):
    """Visits host statements: launches of kernels, allocations of the memory between them, and little else.

    Forms that cannot hold loops, branches or names leave these to `other`.
    """

    def __init__(self, kernels: Iterable[Kernel]) -> None:
        self.kernels = {kernel.launch: kernel for kernel in kernels}

    def visit(self, s: Stmt) -> None:
        """Visit a statement."""
        if isinstance(s, Seq):
            for part in s.stmts:
                self.visit(part)
        elif isinstance(s, Launch):
            self.launch(self.kernels[s])
        elif isinstance(s, Allocate):
            self.allocate(s)
        elif isinstance(s, For) and s.kind is not LoopKind.THREAD:
            self.loop(s)
        elif isinstance(s, If):
            self.branch(s)
        elif isinstance(s, Let):
            self.name(s)
        else:
            self.other(s)

    @abstractmethod
    def launch(self, kernel: Kernel) -> None:
        """Launch a kernel."""

    @abstractmethod
    def allocate(self, s: Allocate) -> None:
        """Allocate memory for the statements within."""

    def loop(self, s: For) -> None:
        """Repeat the statements within."""
        self.other(s)

    def branch(self, s: If) -> None:
        """Choose statements by a condition."""
        self.other(s)

    def name(self, s: Let) -> None:
        """Give a value a name for the statements within."""
        self.other(s)

    @abstractmethod
    def other(self, s: Stmt) -> None:
        """Handle a statement of any other kind, or refuse it."""
