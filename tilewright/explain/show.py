"""An explanation as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..core.hardware import MemoryScope
from ..core.text import quantity
from ..report.table import Column, table
from ..report.units import duration
from .counting import AccessCount, Guard, Origin
from .explanation_data import ExplanationData, KernelExplanation, arithmetic_seconds
from .show_processor import caches, threads, vectors

_PLACES = {MemoryScope.GLOBAL: "global", MemoryScope.SHARED: "shared", MemoryScope.LOCAL: "registers"}
_MOST_ALIKE = 3
"""Most conditions of one origin that are listed."""
_OWNERS = {MemoryScope.GLOBAL: "", MemoryScope.SHARED: " per block", MemoryScope.LOCAL: " per thread"}


def show(it: ExplanationData) -> str:
    """Return the whole explanation."""
    chosen = [f"  {reason} ({quantity(count, 'step')})" for reason, count in it.choices]
    heads = [f"for {it.target}", *(["\n".join(["chosen by auto_schedule", *chosen])] if chosen else [])]
    parts = [*heads, _tree(it), *(_kernel(it, kernel) for kernel in it.kernels)]
    return "\n\n".join(parts)


def _tree(it: ExplanationData) -> str:
    rows: list[list[str]] = []
    for node in it.tree:
        indent = "  " * node.depth
        region = f"{node.stage}[{node.extents()}]"
        region = f"{node.scattered:,} in {region}" if node.scattered else region
        over = f" over {node.over()}" if node.over() else ""
        start = f" from {node.starts()}" if node.starts() else ""
        if not node.loop:
            rows.append([f"{indent}{node.stage} in {_PLACES[node.scope]}", "", "", region + start])
        else:
            rows.append([f"{indent}{node.loop}", str(node.extent), node.kind, region + over + start])
    heads = [Column("loops", False), Column("extent"), Column("run as", False), Column("one iteration computes", False)]
    return "\n".join(table(heads, rows))


def _kernel(it: ExplanationData, kernel: KernelExplanation) -> str:
    head = f"kernel {kernel.name}"
    if kernel.block or kernel.grid:
        shape = " × ".join(f"{tag.value} {extent}" for tag, extent in kernel.block.items()) or "one thread"
        head += f": {kernel.blocks:,} blocks of {kernel.threads:,} threads ({shape})"
    if kernel.launches > 1:
        head += f", launched {kernel.launches:,} times; of one launch:"
    sections: dict[str, Iterable[str]] = {"work": _work(kernel), "buffers": _buffers(kernel)}
    if kernel.processor is None:
        sections["accesses"] = _accesses(it, kernel)
    else:
        use = kernel.processor
        sections |= {"threads": threads(use), "vectors": vectors(use), "caches": caches(use)}
    sections["guards"] = _guards(it, kernel)
    if kernel.processor is None:
        sections["occupancy"] = _occupancy(it, kernel)
    sections["roofline"] = _roofline(it, kernel)
    lines = [head]
    for name, own in sections.items():
        lines += ["", name, *(f"  {line}" if line else "" for line in own)]
    return "\n".join(lines)


def _all_threads(kernel: KernelExplanation) -> int:
    return max(1, kernel.threads * kernel.blocks)


def _all_warps(kernel: KernelExplanation) -> int:
    return max(1, kernel.all_warps)


def _work(kernel: KernelExplanation) -> Iterator[str]:
    threads, counts = _all_threads(kernel), kernel.counts
    each = "per thread " if kernel.block else ""
    for stage, done in counts.operations.items():
        yield f"{each}{_number(done / threads)} operations for {stage}"
    if counts.matrix_instructions:
        yield (
            f"{_number(counts.matrix_operations / threads)} operations per thread by matrix instructions, "
            f"{_number(counts.matrix_instructions / _all_warps(kernel))} of them per warp"
        )
    for scope in (MemoryScope.GLOBAL, MemoryScope.SHARED):
        loads, stores = (
            sum(a.lanes for a in counts.accesses.values() if a.scope is scope and a.stores is stored) / threads
            for stored in (False, True)
        )
        if loads or stores:
            yield f"{each}{_counted(loads, 'load')} and {_counted(stores, 'store')} of {scope.value} memory"
    if counts.barriers:
        yield _counted(counts.barriers / _all_warps(kernel), "barrier")


def _counted(number: float, what: str) -> str:
    return f"{_number(number)} {what}{'' if number == 1 else 's'}"


def _buffers(kernel: KernelExplanation) -> list[str]:
    rows = [
        [buffer.name, _PLACES[buffer.scope], f"{buffer.dtype}[{', '.join(map(str, buffer.shape))}]",
         f"{buffer.bytes:,}{_OWNERS[buffer.scope]}"]
        for buffer in kernel.buffers
    ]  # fmt: skip
    return table([Column("buffer", False), Column("in", False), Column("type", False), Column("bytes", False)], rows)


def _accesses(it: ExplanationData, kernel: KernelExplanation) -> list[str]:
    if not it.target.has_warps:
        return ["the target has no warps: neighbouring threads do not access memory together"]
    lines: list[str] = []
    for scope, units in ((MemoryScope.GLOBAL, "sectors"), (MemoryScope.SHARED, "cycles")):
        found = [access for access in kernel.counts.accesses.values() if access.scope is scope]
        rows = [_access(kernel, access) for access in found]
        heads = [
            Column(f"{scope.value} memory", False),
            *(Column(head) for head in ("bytes per lane", "requests per warp", f"{units} per request", "least")),
            *([Column("bank conflicts", False)] if scope is MemoryScope.SHARED else []),
        ]
        if rows:
            lines += ([""] if lines else []) + table(heads, rows)
    return lines or ["none"]


def _access(kernel: KernelExplanation, access: AccessCount) -> list[str]:
    name = f"{'store' if access.stores else 'load'} {access.buffer}"
    shown = [name, str(access.width), _number(access.requests / _all_warps(kernel))]
    known = access.requests > access.unknown
    shown += [_number(access.per_request), _number(access.best)] if known else ["by data", "?"]
    if access.scope is MemoryScope.SHARED:
        degree = access.conflict_degree
        shown.append("?" if not known else f"{_number(degree)}-way" if degree > 1.005 else "none")
    return shown


def _guards(it: ExplanationData, kernel: KernelExplanation) -> list[str]:
    threads = _all_threads(kernel)
    alike: dict[tuple[str, ...], list[str]] = {}
    for guard in kernel.counts.guards.values():
        if guard.tested:
            often = _number(guard.tested / threads) + (" times per thread" if kernel.block else " times")
            line = f"{guard.condition}: {often}, holds in {guard.passed / guard.tested:.1%}"
            alike.setdefault(tuple(_why(it, guard)), []).append(line)
    lines: list[str] = []
    for why, tests in alike.items():
        lines += tests[:_MOST_ALIKE]
        lines += [f"... {len(tests) - _MOST_ALIKE} more"] if len(tests) > _MOST_ALIKE else []
        lines += [f"  {reason}" for reason in why]
    return lines or ["none"]


def _why(it: ExplanationData, guard: Guard) -> list[str]:
    if guard.origin is Origin.DECLARED:
        return [f"a condition of {', '.join(guard.stages)}, as declared"]
    if guard.origin is Origin.AHEAD:
        return [f"{', '.join(guard.stages)}: the next tile is loaded ahead, if there is one"]
    return [f"{stage}: {why}" for stage in guard.stages for why in it.reasons.get(stage, ())]


def _occupancy(it: ExplanationData, kernel: KernelExplanation) -> list[str]:
    found = kernel.occupancy
    if found is None:
        return ["the target has no multiprocessors that hold warps"]
    lines = []
    used = kernel.resources
    if used is None:
        lines.append(f"registers: not known without NVIDIA's compiler; at most {kernel.registers_by_bound} per thread")
    else:
        spills = f", {used.spill_store_bytes + used.spill_load_bytes} bytes spilled" if used.spill_store_bytes else ""
        stack = f", {used.stack_bytes} bytes of stack" if used.stack_bytes else ""
        bound = f"{kernel.registers_by_bound} that blocks of {kernel.threads:,} threads allow"
        lines.append(f"registers: {used.registers} per thread, of the {bound}{spills}{stack}")
    lines.append(f"shared memory: {kernel.shared_bytes:,} bytes per block")
    each = ", ".join(f"{limiter.value} {blocks}" for limiter, blocks in found.blocks_by.items())
    lines.append(f"blocks on one multiprocessor: {found.blocks} ({each})")
    why = " and ".join(limiter.value for limiter in found.limiters)
    lines.append(f"{found.warps} of {found.most_warps} warps, {found.share:.0%}; limited by {why}")
    if it.board is not None:
        waves = kernel.blocks / (found.blocks * it.board.multiprocessors) if found.blocks else 0
        lines.append(f"the grid fills the {it.board.multiprocessors} multiprocessors {_number(waves)} times")
    return lines


def _roofline(it: ExplanationData, kernel: KernelExplanation) -> list[str]:
    flop, moved = kernel.counts.all_operations, kernel.least_bytes
    lines = [f"{_number(flop)} operations on {_number(moved)} bytes: {_number(flop / max(moved, 1))} per byte"]
    if not it.target.has_warps:
        return [*lines, "the peaks of this target are not known"]
    board = it.board
    if board is None:
        return [*lines, *_peaks_of_architecture(it, kernel)]
    seconds, memory = arithmetic_seconds(kernel.counts, board), moved / (1e9 * board.gigabytes)
    compute = sum(seconds.values())
    if kernel.counts.matrix_instructions:
        lines.append("matrix instructions have peaks of their own: the time of the arithmetic is that of float32 lanes")
    if not flop:
        lines.append(f"{it.board_name}: {duration(memory)} for the memory at {board.gigabytes:,} GB/s")
    else:
        rates = ", ".join(f"{board.peak(kind) / 1e12:.1f} {_unit(kind)} of {kind}" for kind in seconds)
        bound = "arithmetic" if compute > memory else "memory bandwidth"
        even = flop / compute / (1e9 * board.gigabytes)
        lines += [
            f"{it.board_name}: {duration(compute)} for the arithmetic at {rates}, "
            f"{duration(memory)} for the memory at {board.gigabytes:,} GB/s",
            f"bound by {bound}; the two limits are equal at {even:.1f} operations per byte",
        ]
    sectors = sum(a.units for a in kernel.counts.accesses.values() if a.scope is MemoryScope.GLOBAL)
    passed = sectors * it.target.hardware.warp_memory.sector
    lines.append(f"sectors that pass the L1 cache: {_number(passed)} bytes, {_number(passed / max(moved, 1))}×")
    return lines


def _peaks_of_architecture(it: ExplanationData, kernel: KernelExplanation) -> list[str]:
    """The peaks of a target for which no board is listed."""
    one = it.target.hardware.multiprocessor
    kinds = [kind for kind in kernel.counts.operations_of_type if one.peak(kind)]
    if not kinds:
        return ["the peaks of this target are not known"]
    rates = ", ".join(f"{_number(one.peak(kind))} operations of {kind}" for kind in kinds)
    return [f"no board of this target is known; a multiprocessor completes at most {rates} per cycle"]


def _unit(kind: str) -> str:
    return "TFLOP/s" if "float" in kind else "TOP/s"


def _number(value: float) -> str:
    """Return a count as text: exact if it is whole, else in three digits."""
    if value == round(value):
        return f"{value:,.0f}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
