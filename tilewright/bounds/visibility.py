"""Visibility: which threads see which copy of a buffer, as one table of memory scope against thread index.

Rank of a scope: global 0, shared 1, local 2. Rank of a thread index: blockIdx 0, threadIdx 1 (a vthread counts as one).
If a thread index has a rank not below the scope's, all of its values write and read the same copy. So the stored region
must cover all of them. Below that, each has its own copy.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from ..core.errors import Suspect, UserError
from ..core.hardware import MemoryScope, ThreadTag
from ..expr.nodes import Expr
from ..expr.traverse import post_order
from ..schedule.relations import Split
from ..schedule.schedule import Stage
from ..tensor.axis import AxisKind, IterVar
from ..tensor.extern import ExternOp
from .nest import Loop
from .stage_bounds import StageBounds

_SCOPE_RANK = {MemoryScope.GLOBAL: 0, MemoryScope.SHARED: 1, MemoryScope.LOCAL: 2}


def shares(scope: MemoryScope, tag: ThreadTag) -> bool:
    """Return whether all values of the thread index share one copy of a buffer in `scope`."""
    return _SCOPE_RANK[scope] <= (0 if tag.is_block else 1)


def default_scope(tags: tuple[ThreadTag, ...]) -> MemoryScope:
    """The nearest memory for a stage computed inside loops bound to `tags`, if the user gave none."""
    if any(not tag.is_block for tag in tags):
        return MemoryScope.LOCAL
    return MemoryScope.SHARED if tags else MemoryScope.GLOBAL


def private_steps(stage: Stage, scope: MemoryScope) -> dict[IterVar, tuple[int, Expr | None]]:
    """Return the loops over threads that may keep private results: each thread stores only its own elements.

    Each loop comes with its dimension of the result, and the distance between a thread's elements there. The distance
    is the factor of a split, or None for a single element. `demand` checks that a thread reads no other elements.
    """
    found: dict[IterVar, tuple[int, Expr | None]] = {}
    place = {axis: d for d, axis in enumerate(stage.op.axis)} if scope is not MemoryScope.GLOBAL else {}
    inner = {r.inner: r for r in stage.relations if isinstance(r, Split) and r.factor is not None and r.parent in place}
    for loop in stage.loops if place else ():
        if loop.tag is None or not loop.tag.is_hardware or shares(scope, loop.tag):
            continue
        if loop.axis in place:
            found[loop.axis] = place[loop.axis], None
        elif loop.axis in inner:
            found[loop.axis] = place[inner[loop.axis].parent], inner[loop.axis].factor
    return found


def check_owners(stage: Stage, scope: MemoryScope, private: Container[IterVar] = ()) -> None:
    """Raise UserError if each block or thread computes a part of `stage` that the others do not see.

    `private` are loops over parts that only their own threads need.
    """
    if scope is MemoryScope.GLOBAL:
        return
    for tag in _statement_tags(stage):
        if not shares(scope, tag):
            who = "block" if tag.is_block else "thread"
            raise UserError(
                f"the statement of stage {stage.name!r} runs on {tag.value}, but its result is in {scope.value} "
                f"memory: each {who} sees only its own copy",
                primitive="compute_at",
                fix=f"leave {stage.name!r} at the root, in global memory, or leave {tag.value} out of its statement",
                suspects=(_placed(stage),),
            )
    for loop in _on_hardware(stage.loops):
        combines = loop.axis.kind is AxisKind.REDUCE  # every thread gets the result of a combination
        if loop.tag is not None and not combines and loop.axis not in private and not shares(scope, loop.tag):
            who = "block" if loop.tag.is_block else "thread"
            raise UserError(
                f"axis {loop.axis.name!r} of stage {stage.name!r} is bound to {_tag(loop)}, but the stage is in "
                f"{scope.value} memory: each {who} sees only its own copy",
                primitive="bind",
                fix=f"leave {loop.axis.name!r} unbound, or keep {stage.name!r} in memory that every {_tag(loop)} sees",
                suspects=(Suspect(("bind",), (stage.name,), loop.axis.name), _placed(stage)),
            )


def _statement_tags(stage: Stage) -> list[ThreadTag]:
    """The blocks and threads that the statement of a te.extern itself runs on."""
    nodes = post_order(stage.op.statement) if isinstance(stage.op, ExternOp) else ()
    tags = {tag for tag in (getattr(node, "thread", None) for node in nodes) if isinstance(tag, ThreadTag)}
    return sorted(tags - {ThreadTag.VTHREAD}, key=lambda tag: tag.value)


def check_memory(
    stage: Stage,
    scope: MemoryScope,
    outer: tuple[Loop, ...],
    consumers: tuple[StageBounds, ...],
    private: Container[IterVar] = (),
) -> None:
    """Raise UserError if stores of `stage` in `scope` memory do not reach all readers."""
    around = _on_hardware(outer)
    if scope is MemoryScope.GLOBAL:
        if around:
            raise UserError(
                f"stage {stage.name!r} is computed inside the loop {around[0].axis.name!r}, bound to "
                f"{_tag(around[0])}, but kept in global memory: blocks cannot wait for each other's stores",
                primitive="compute_at",
                fix=f's[{stage.name}].set_scope("shared") or "local", or compute {stage.name!r} outside of the kernel',
                suspects=(_placed(stage),),
            )
        return
    check_owners(stage, scope, private)
    readers = [c for c in consumers if _on_hardware((*c.outer, *c.stage.loops))]
    if not around and (readers or _on_hardware(stage.loops)):
        reader = (readers or list(consumers))[0].stage.name
        raise UserError(
            f"stage {stage.name!r} is kept in {scope.value} memory, which exists within one kernel, but is computed "
            f"outside of the kernel of {reader!r}, which reads it",
            primitive="compute_at",
            fix=f"s[{stage.name}].compute_at(s[{reader}], axis) with an axis inside the kernel, or keep "
            f"{stage.name!r} in global memory",
            suspects=(_placed(stage),),
        )


def _placed(stage: Stage) -> Suspect:
    """The steps that decide a stage's place and memory."""
    return Suspect(("compute_at", "compute_root", "set_scope", "cache_read", "cache_write", "rfactor"), (stage.name,))


def _on_hardware(loops: Iterable[Loop]) -> list[Loop]:
    """The loops bound to blocks or real threads."""
    return [loop for loop in loops if loop.on_hardware]


def _tag(loop: Loop) -> str:
    return loop.tag.value if loop.tag is not None else ""
