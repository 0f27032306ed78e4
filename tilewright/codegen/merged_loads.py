"""Loads that NVVM would merge with others and then send through the read-only cache: a fault of that compiler.

NVVM turns `c ? t[i] : a[i]`, and branches that mean the same, into one load from an address that `c` selects. If the
kernel never stores to `a`, this load is `ld.global.nc`. That is wrong if `c` selects `t` and the kernel stores to `t`,
since the load does not see these stores. Found in NVRTC 13.0; neither temporaries nor leaving out `__restrict__` help.
An empty assembly statement on the value of the load from `t` keeps the two loads apart and costs no instruction.
OpenCL, which NVIDIA's driver gives to the same compiler, has no such statement: there, arrays that are only read lose
their `restrict`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core.hardware import MemoryScope
from ..expr import nodes as n
from ..expr.traverse import post_order
from ..loops.nodes import Buffer, If, Let, Store
from .kernel import Kernel, root

_Arrays = frozenset[Buffer]
_NONE: _Arrays = frozenset()


def loads_at_risk(kernel: Kernel) -> frozenset[Buffer]:
    """The arrays that the kernel writes and reads, with a load that may be merged with a load of a read-only array."""
    arrays = frozenset(p for p in kernel.params if isinstance(p, Buffer))
    changing = arrays & kernel.read & kernel.written
    if not changing or arrays <= kernel.written:
        return frozenset()
    found: set[Buffer] = set()
    for one, other in _Sources(kernel, arrays).alternatives():
        found |= one if not other <= kernel.written else _NONE
        found |= other if not one <= kernel.written else _NONE
    return changing & found


class _Sources:
    """For each value, the arrays with elements that it may contain; values are expressions, variables and private
    memory."""

    def __init__(self, kernel: Kernel, arrays: _Arrays) -> None:
        self.arrays = arrays
        self.nodes = list(post_order(kernel.launch.body))
        self.held: dict[Any, _Arrays] = {}
        """The arrays in all values assigned to a variable or to private memory."""
        self.of: dict[Any, _Arrays] = {}
        """The arrays of an expression, or of all expressions in a statement."""
        while self._changed():
            pass

    def _changed(self) -> bool:
        before = dict(self.held)
        for at in self.nodes:
            if isinstance(at, n.Load):
                memory = root(at.source)
                self.of[at] = frozenset((memory,)) if memory in self.arrays else self.held.get(memory, _NONE)
            else:
                self.of[at] = self.held.get(at, _NONE).union(*[self.of[child] for child in at.children()])
            if isinstance(at, Let):
                self.held[at.var] = self.of[at.value]
            elif isinstance(at, Store) and at.buffer.memory.scope is MemoryScope.LOCAL:
                self.held[at.buffer.memory] = self.held.get(at.buffer.memory, _NONE) | self.of[at.value]
        return self.held != before

    def alternatives(self) -> Iterator[tuple[_Arrays, _Arrays]]:
        """Pairs of values that a phi node may select from, by the arrays that they come from."""
        for at in self.nodes:
            if isinstance(at, (n.Select, n.IfThenElse)):
                yield self.of[at.true_value], self.of[at.false_value]
            elif isinstance(at, If) and at.orelse is not None:
                yield self.of[at.then], self.of[at.orelse]
            elif isinstance(at, Store) and at.buffer.memory.scope is MemoryScope.LOCAL:
                yield self.of[at.value], self.held[at.buffer.memory]
            elif isinstance(at, Store) and isinstance(at.value, (n.Load, n.Var)):
                # The value read back may be the element copied here or the previous one.
                yield self.of[at.value], self.arrays & {at.buffer.memory}
