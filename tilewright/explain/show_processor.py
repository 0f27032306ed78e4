"""The part of an explanation on a processor as text: threads, vectors, and the caches that hold the data of each
loop."""

from __future__ import annotations

from collections.abc import Iterator

from ..report.table import Column, table
from .processor import AccessPattern, ProcessorAccess, ProcessorUse


def threads(use: ProcessorUse) -> Iterator[str]:
    """The loops with iterations in several threads."""
    for loop in use.parallel:
        yield f"the {loop.extent:,} iterations of {loop.loop} are distributed over threads"
    if not use.parallel:
        yield "one: no loop is parallel"


def vectors(use: ProcessorUse) -> list[str]:
    """A row for each access: the vector, and the order in memory."""
    register = use.hardware.vector_bytes
    rows = []
    for each in use.accesses:
        access = f"{'store' if each.stores else 'load'} {each.buffer}"
        rows.append([each.stage or "–", access, _vector(each, register), _order(each)])
    heads = [Column("stage", False), Column("access", False), Column("vector", False), Column("in memory", False)]
    return [f"a vector register has {register} bytes", *table(heads, rows)]


def _vector(access: ProcessorAccess, register: int) -> str:
    if access.lanes == 1:
        return f"one {access.dtype} for {access.shared} lanes" if access.shared > 1 else f"{access.dtype}, no vector"
    size = access.lanes * access.element
    if access.pattern is AccessPattern.SAME:
        return f"{access.dtype} for {access.lanes} lanes"
    registers = -(-size // register)
    many = f", {registers} registers" if registers > 1 else ""
    return f"{access.lanes} × {access.dtype}, {size:,} bytes{many}"


def _order(access: ProcessorAccess) -> str:
    loop = f" over {access.loop}" if access.loop else ""
    if access.pattern is AccessPattern.STRIDED:
        gather = (", a scatter" if access.stores else ", a gather") if access.lanes > 1 else ""
        return f"{access.stride:,} bytes apart{loop}{gather}"
    if access.pattern is AccessPattern.DATA:
        gather = (", a scatter" if access.stores else ", a gather") if access.lanes > 1 else ""
        return f"by data, or uneven{loop}{gather}"
    return f"{access.pattern.value}{loop}"


def caches(use: ProcessorUse) -> list[str]:
    """A row for each loop: the bytes that all of its iterations touch, and the cache that holds them."""
    sizes = ", ".join(f"{cache.name} {cache.bytes:,} bytes" for cache in use.hardware.caches)
    rows = []
    for loop in use.loops:
        each = ", ".join(f"{name} {size:,}" for name, size in loop.bytes.items())
        intensity = f"{loop.operations / loop.all_bytes:.3g}" if loop.all_bytes else "–"
        fits = loop.cache.name if loop.cache is not None else "no cache"
        name = "  " * loop.depth + loop.loop
        rows.append([name, f"{loop.extent:,}", loop.kind, f"{loop.all_bytes:,}", fits, intensity, each])
    heads = [Column("loop", False), Column("extent"), Column("run as", False), Column("touches bytes"),
             Column("fits in", False), Column("operations per byte"), Column("of these", False)]  # fmt: skip
    return [f"one core has {sizes}", *(table(heads, rows) if rows else ["no loops"])]
