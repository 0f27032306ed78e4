"""The passes of each target, in order: up to the program that users read, then to the compiled one."""

from __future__ import annotations

from collections.abc import Callable

from ..core.options import Options
from ..core.target import Target
from ..loops.nodes import Function
from ..loops.verify import Form
from .asynchronous_copies import asynchronous_copies
from .count_ring_slots import count_ring_slots
from .drop_prefetches import drop_prefetches
from .drop_unread_stores import drop_unread_stores
from .expand_virtual_threads import expand_virtual_threads
from .flatten_storage import flatten_storage
from .guard_selects import guard_selects
from .hoist_allocations import hoist_allocations
from .hoist_divisions import hoist_divisions
from .instrument_bound_checkers import instrument_bound_checkers
from .launch_on_host import launch_on_host
from .lower_bound_reports import lower_bound_reports
from .lower_divisions import lower_divisions
from .lower_intrinsics import lower_intrinsics
from .lower_thread_reduce import lower_thread_reduce
from .mask_guarded_loops import mask_guarded_loops
from .name_packed_calls import name_packed_calls
from .narrow_indices import narrow_indices
from .partition_loops import partition_loops
from .pipeline_loops import pipeline_loops
from .place_awaits import place_awaits
from .place_barriers import place_barriers
from .register_prefetch import register_prefetch
from .separate_full_tiles import separate_full_tiles
from .share_storage import share_storage
from .simplify_program import simplify_program
from .split_host_device import split_host_device
from .swizzle_storage import swizzle_storage
from .unroll_local_accesses import unroll_local_accesses
from .unroll_loops import unroll_loops
from .vectorize_loops import vectorize_loops
from .widen_indices import widen_indices

Pass = Callable[[Function, Target, Options], Function]

READABLE: tuple[Pass, ...] = (
    # First of all, while each index can be compared with the extent that the user gave.
    instrument_bound_checkers,
    # Before flattening, which multiplies extents.
    widen_indices,
    # Before all others, so that later passes see one index per access.
    flatten_storage,
    # Before vectorisation, since vectors cannot evaluate expressions that only some lanes may evaluate.
    guard_selects,
    # Before unrolling, which would otherwise copy the loop for each lane.
    vectorize_loops,
    # Before unrolling: virtual threads share the loops that the schedule unrolls.
    expand_virtual_threads,
    # After virtual threads, so that every copy of a ring has room for each of them; before unrolling, while the loop is
    # still a loop.
    pipeline_loops,
    # Before unrolling, so that each index is simplified once, and copies only get their constants.
    simplify_program,
    unroll_loops,
    # After simplification, which may have dropped the only use of a buffer.
    hoist_allocations,
)
"""The first part on every target: its result is the program that `lower` shows."""

ON_GRIDS: tuple[Pass, ...] = (
    *READABLE,
    # Before dependence analysis, in which prefetches have no part.
    drop_prefetches,
    # Makes the launches that the later passes look for.
    split_host_device,
    # Before passes that look at the effects of calls, since lowering rules may add calls.
    lower_intrinsics,
    # Needs launches, since groups are counted within a block; before barriers, which its trees need.
    lower_thread_reduce,
    # Before barriers, which are then placed in each of the two parts as needed.
    partition_loops,
    # After loops are cut, which leaves fills without readers; before registers and barriers are added for fills.
    drop_unread_stores,
    # Before barriers, which must part the users of one piece of memory.
    share_storage,
    # After memory is shared, since sharing looks at stores only; before register prefetch, which takes the fills that
    # remain.
    asynchronous_copies,
    # Before barriers, which separate the stores of prefetched values from their readers. After memory is shared, since
    # a prefetch for one buffer must not wait for another's last reader.
    register_prefetch,
    # Before barriers, which make awaited copies visible to the block.
    place_awaits,
    # Needs launches, because only launches show the thread indices of a block.
    place_barriers,
    # After all dependence analysis, which learns less from a counter than from a remainder.
    count_ring_slots,
    # Only the code of kernels has local storage to keep in registers.
    unroll_local_accesses,
    # Before divisions get names, which then have 32 bits too.
    narrow_indices,
    # Late, since truncating division has fewer rewrite rules than floor division.
    lower_divisions,
    # Follows the lowering of divisions, so that the computed divisions get names.
    hoist_divisions,
    # After all proofs about indices, which are no longer affine then.
    swizzle_storage,
    # Last: stores of global memory by several threads would confuse dependence analysis.
    lower_bound_reports,
)
"""CUDA and OpenCL: kernels over a grid of blocks."""

ON_PROCESSORS: tuple[Pass, ...] = (
    *READABLE,
    # Before host code is separated, which makes these calls.
    name_packed_calls,
    # Here too, the back end compiles launches, and the runtime does the rest.
    launch_on_host,
    # Before passes that look at calls: only some of them may run on vectors.
    lower_intrinsics,
    # Before guards are tested together, because masks are then included.
    mask_guarded_loops,
    # Replaces partition_loops: this pass also handles sizes that are not constant.
    separate_full_tiles,
    # Late, since truncating division has fewer rewrite rules than floor division.
    lower_divisions,
    # Last, as on grids.
    lower_bound_reports,
)
"""LLVM: functions of a CPU."""

IN_C: tuple[Pass, ...] = tuple(step for step in ON_PROCESSORS if step is not mask_guarded_loops)
"""The passes for C: the same passes without masks, which C compilers make themselves."""

OPTIONAL: frozenset[Pass] = frozenset(
    (
        asynchronous_copies,
        count_ring_slots,
        drop_unread_stores,
        hoist_divisions,
        narrow_indices,
        partition_loops,
        register_prefetch,
        separate_full_tiles,
        share_storage,
        unroll_local_accesses,
    )
)
"""Optional passes: disabling one never changes results."""

ON_REQUEST: frozenset[Pass] = frozenset((instrument_bound_checkers,))
"""Passes that run only if the options ask for them."""

ESTABLISHES: dict[Pass, Form] = {
    flatten_storage: Form.FLAT,
    vectorize_loops: Form.SCALAR,
    expand_virtual_threads: Form.EXPANDED,
    hoist_allocations: Form.HOISTED,
    split_host_device: Form.FINISHED,
    lower_thread_reduce: Form.REDUCED,
    launch_on_host: Form.FINISHED,
    mask_guarded_loops: Form.MASKED,
}
"""The form of every program from a pass on; `verify` checks it after each."""


def pipeline_for(target: Target) -> tuple[Pass, ...]:
    """Return all passes of a target, in order; the first `len(READABLE)` make the program that users read."""
    if target.kind == "c":
        return IN_C
    return ON_GRIDS if target.hardware.launches_grids else ON_PROCESSORS
