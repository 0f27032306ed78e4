"""What a kernel asks of the hardware, checked against the target before any compiler sees it."""

from __future__ import annotations

from dataclasses import replace

from ..core.errors import UserError
from ..core.target import Target
from ..expr import nodes as n
from .c_family import array_size, shared_bytes
from .kernel import Kernel, constant, product


def check(kernel: Kernel, target: Target) -> Kernel:
    """The kernel, with dynamic shared memory where it needs more than the target gives unasked.

    Raises UserError where a block has too many threads, a grid too many blocks, or the shared buffers do not
    fit.
    """
    _check_extents(kernel, target)
    total = sum(shared_bytes(buffer) for buffer in kernel.shared)
    if total <= target.shared_bytes:
        return kernel
    if total > target.max_shared_bytes:
        raise UserError(
            f"kernel {kernel.name} needs {total:,} bytes of shared memory, but {target} has "
            f"{target.max_shared_bytes:,} a block: {_sizes(kernel)}",
            primitive="build",
            fix="cache a smaller region: compute the cached stages further inside, or use smaller tiles",
        )
    return replace(kernel, dynamic_shared_bytes=total)


def _sizes(kernel: Kernel) -> str:
    return ", ".join(
        f"{b.name} {array_size(b):,} × {b.dtype} = {array_size(b) * b.dtype.bytes:,} bytes" for b in kernel.shared
    )


def _check_extents(kernel: Kernel, target: Target) -> None:
    threads = product(kernel.block)
    if threads is not None and threads > target.max_threads_per_block:
        raise UserError(
            f"kernel {kernel.name} has {threads:,} threads a block ({_extents('threadIdx', kernel.block)}), "
            f"but {target} allows {target.max_threads_per_block:,}",
            primitive="build",
            fix="split the axes bound to threads by smaller factors",
        )
    for axis, extents, limits in (
        ("threadIdx", kernel.block, target.max_block_dims),
        ("blockIdx", kernel.grid, target.max_grid_dims),
    ):
        for letter, extent, limit in zip("xyz", extents, limits, strict=True):
            value = constant(extent)
            if value is not None and value > limit:
                raise UserError(
                    f"kernel {kernel.name} has {axis}.{letter} of extent {value:,}, but {target} allows {limit:,}",
                    primitive="build",
                    fix=f"bind a smaller axis to {axis}.{letter}, or move part of it to another dimension",
                )


def _extents(name: str, extents: tuple[n.Expr, ...]) -> str:
    shown = [
        f"{name}.{letter} {extent}" for letter, extent in zip("xyz", extents, strict=True) if constant(extent) != 1
    ]
    return " × ".join(shown) or f"{name}.x 1"
