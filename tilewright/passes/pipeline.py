"""The passes in order: `lower` up to the program that users read, `finish` from there to what is compiled."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..loops.nodes import Function
from ..loops.verify import verify
from .double_buffer import double_buffer
from .drop_unread_stores import drop_unread_stores
from .expand_virtual_threads import expand_virtual_threads
from .flatten_storage import flatten_storage
from .guard_selects import guard_selects
from .hoist_allocations import hoist_allocations
from .hoist_divisions import hoist_divisions
from .launch_on_host import launch_on_host
from .lower_divisions import lower_divisions
from .mask_guarded_loops import mask_guarded_loops
from .narrow_indices import narrow_indices
from .partition_loops import partition_loops
from .place_barriers import place_barriers
from .register_prefetch import register_prefetch
from .separate_full_tiles import separate_full_tiles
from .share_storage import share_storage
from .simplify_program import simplify_program
from .split_host_device import split_host_device
from .unroll_local_accesses import unroll_local_accesses
from .unroll_loops import unroll_loops
from .vectorize_loops import vectorize_loops
from .widen_indices import widen_indices

Pass = Callable[[Function], Function]

LOWER: tuple[Pass, ...] = (
    # First of all, since flattening already multiplies extents.
    widen_indices,
    # Then this, so that every later pass sees one index per access.
    flatten_storage,
    # Before vectorisation, which cannot run on vectors what only some lanes may evaluate.
    guard_selects,
    # Before unrolling, which would otherwise write out loops around the vector statement needlessly often.
    vectorize_loops,
    # Before unrolling: the copies share the loops that the schedule unrolls.
    expand_virtual_threads,
    # After the copies, which must not be halves of each other; before unrolling, while the loop is still one.
    double_buffer,
    # Before unrolling, so that each index is simplified once and its copies only get their constants.
    simplify_program,
    unroll_loops,
    # After simplification, which may have dropped the only use of a buffer.
    hoist_allocations,
)

FINISH: tuple[Pass, ...] = (
    # Makes the launches that the later passes look for.
    split_host_device,
    # Before barriers, which the two parts of a loop then each get where they need them.
    partition_loops,
    # After loops are cut, which leaves fills without readers; before what is made for fills: registers and barriers.
    drop_unread_stores,
    # Before barriers, which must part the users of one piece of memory.
    share_storage,
    # Before barriers, which part the stores of what was prefetched from the readers; after memory is shared, since what
    # is prefetched for one buffer must not wait for another's last reader.
    register_prefetch,
    # Needs launches: only there is it known which thread indices a block has.
    place_barriers,
    # Only the code of kernels has local storage to keep in registers.
    unroll_local_accesses,
    # Before divisions get names, which then have 32 bits too.
    narrow_indices,
    # Late, since truncating division has fewer rewrite rules than floor division.
    lower_divisions,
    # After that, so that the divisions that are named are those that are computed.
    hoist_divisions,
)

MAX_STEPS_WITHOUT_WARPS = 256


def _unroll_few(function: Function) -> Function:
    return unroll_local_accesses(function, MAX_STEPS_WITHOUT_WARPS)


_unroll_few.__name__ = unroll_local_accesses.__name__

# Where the threads of a block may be loops on a CPU. There, what is held over a barrier goes to memory and back, and a
# thread's arrays are in memory anyway: unrolling by thousands takes the compiler a minute, and gains nothing.
FINISH_WITHOUT_WARPS = tuple(
    _unroll_few if step is unroll_local_accesses else step for step in FINISH if step is not register_prefetch
)

FINISH_FOR_CPU: tuple[Pass, ...] = (
    # Here too the back end compiles launches, and the runtime does what is around them.
    launch_on_host,
    # Before the guards are tested together, which then covers masks too.
    mask_guarded_loops,
    # Instead of partition_loops: this one also knows what to do about sizes that are not constant.
    separate_full_tiles,
    lower_divisions,
)


@dataclass(frozen=True)
class PassRecord:
    """One pass that ran: its name, the seconds it took, and the function after it if it changed."""

    name: str
    seconds: float
    result: Function | None


def run(
    passes: tuple[Pass, ...], function: Function, records: list[PassRecord] | None = None, check: bool = False
) -> Function:
    """Apply passes in order; note each in `records`; verify the program after each where `check`."""
    for step in passes:
        start = time.perf_counter()
        changed = step(function)
        seconds = time.perf_counter() - start
        if records is not None:
            records.append(PassRecord(step.__name__, seconds, changed if changed is not function else None))
        if check:
            verify(changed, flat=True, finished=passes is FINISH, masks=passes is FINISH_FOR_CPU)
        function = changed
    return function
