"""The host part of a function of known sizes, as a list of launches."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dtype import INT64
from ..core.launches import FixedLaunch, FixedLaunches
from ..expr import nodes as n
from ..expr.traverse import constant_value
from ..loops.calls import has_effect, is_packed
from ..loops.nodes import Allocate, Buffer, Evaluate, Function, Stmt
from .host_walk import HostVisitor
from .kernel import Kernel, product, root


def fixed_launches(function: Function, kernels: Sequence[Kernel]) -> FixedLaunches | None:
    """Return the launches of a function; None if the host does more than launch, or if sizes are known at the call."""
    found = _Listing(function, kernels)
    found.visit(function.body)
    return FixedLaunches(tuple(found.launches), tuple(found.scratch)) if found.complete else None


class _Listing(HostVisitor):
    def __init__(self, function: Function, kernels: Sequence[Kernel]) -> None:
        super().__init__(kernels)
        self.places: dict[object, int] = {parameter: place for place, parameter in enumerate(function.params)}
        self.launches: list[FixedLaunch] = []
        self.scratch: list[int] = []
        self.complete = True

    def launch(self, kernel: Kernel) -> None:
        sizes = [constant_value(extent) for extent in (*kernel.grid, *kernel.block)]
        places = [self.places.get(root(p)) if isinstance(p, Buffer) else None for p in kernel.params]
        extents = [size for size in sizes if size is not None]
        arguments = tuple(place for place in places if place is not None)
        self.complete &= len(extents) == len(sizes) and len(arguments) == len(places)
        if self.complete and 0 not in extents:  # a launch with a zero extent does nothing
            x, y, z, *block = extents
            shared = kernel.dynamic_shared_bytes
            self.launches.append(FixedLaunch(kernel.name, (x, y, z), (block[0], block[1], block[2]), shared, arguments))

    def allocate(self, s: Allocate) -> None:
        size = product((*s.buffer.shape, n.IntImm(s.buffer.dtype.bytes, INT64)))
        self.complete &= size is not None
        self.scratch.append(size or 0)
        self.places[s.buffer] = -len(self.scratch)
        self.visit(s.body)

    def other(self, s: Stmt) -> None:
        self.complete &= isinstance(s, Evaluate) and not is_packed(s.value) and not has_effect(s.value)
