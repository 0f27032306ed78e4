"""unroll, vectorize, parallel, pragma: how a loop runs, without changing its meaning."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import UserError
from ...core.hardware import LoopKind
from ...tensor.axis import IterVar
from ..guarded_reads import GUARDED_READS
from ..legality import data_axis, has_loops, leaf, of_stage, without_effect
from ..schedule import Schedule, Stage


def _annotated(
    schedule: Schedule, stage: Stage, axis: IterVar, kind: LoopKind, primitive: str
) -> tuple[Schedule, None]:
    bound = stage.annotation(axis).thread
    if bound is not None:
        without_effect(
            primitive, f"{of_stage(axis, stage)} is bound to {bound.thread_tag}, so threads run its iterations"
        )
        return schedule, None
    return schedule.with_stage(stage.with_annotation(axis, kind=kind)), None


def unroll(schedule: Schedule, stage: Stage, axis: IterVar) -> tuple[Schedule, None]:
    """Write out the iterations of the loop `axis` one after the other.

        for i in range(2): f(i)     ->     f(0); f(1)

    An axis that is bound to a thread stays so, with a warning. Lowering refuses an extent that is not constant.
    """
    has_loops(stage, "unroll", inlined=True)
    return _annotated(schedule, stage, leaf(stage, axis, "unroll"), LoopKind.UNROLLED, "unroll")


def vectorize(schedule: Schedule, stage: Stage, axis: IterVar) -> tuple[Schedule, None]:
    """Run the iterations of the loop `axis` as one vector operation.

        for i in range(4): B[i] = A[i]     ->     B[0:4] = A[0:4]

    An axis that is bound to a thread stays so, with a warning. Raises UserError for a reduction axis; lowering refuses
    an extent that is not constant.
    """
    has_loops(stage, "vectorize", inlined=True)
    loop = leaf(stage, axis, "vectorize")
    data_axis(
        stage,
        loop,
        "vectorize",
        "its iterations depend on each other, so they cannot be one vector operation",
    )
    return _annotated(schedule, stage, loop, LoopKind.VECTORIZED, "vectorize")


def parallel(schedule: Schedule, stage: Stage, axis: IterVar) -> tuple[Schedule, None]:
    """Share the iterations of the loop `axis` out to CPU threads.

    An axis that is bound to a hardware thread stays so, with a warning. Raises UserError for a reduction axis.
    """
    has_loops(stage, "parallel", inlined=True)
    loop = leaf(stage, axis, "parallel")
    data_axis(stage, loop, "parallel", "its iterations add to one result, so they cannot run at the same time")
    return _annotated(schedule, stage, loop, LoopKind.PARALLEL, "parallel")


RESIDENT_BLOCKS, WHOLE_WORDS, NONTEMPORAL_STORES = "resident_blocks", "whole_words", "nontemporal_stores"
NUMBERS = ("auto_unroll_max_step", "unroll_explicit", RESIDENT_BLOCKS, WHOLE_WORDS, GUARDED_READS, NONTEMPORAL_STORES)
"""Pragmas with an integer value."""
IMPORTS = ("import_llvm", "import_c")  # pragmas with code as value, or the path of a file with code
LAUNCH_POINT, STRIDE_PATTERN, BARRIER_WHEN_FINISH = TASKS = (
    "parallel_launch_point",
    "parallel_stride_pattern",
    "parallel_barrier_when_finish",
)
"""Pragmas of loops that CPU threads run, started once: `codegen/llvm/tasks.py` describes them."""
PRAGMAS = (*NUMBERS, *IMPORTS, *TASKS, "debug_skip_region")


_PRIMITIVES = {"unroll": unroll, "vectorize": vectorize}


def pragma(schedule: Schedule, stage: Stage, axis: IterVar, key: str, value: Any = None) -> tuple[Schedule, None]:
    """Mark the loop `axis` with a hint for a later pass.

    `auto_unroll_max_step=N` unrolls loops below `axis` if body times extent stays within N steps, and
    `unroll_explicit=0` leaves that to the back end's compiler. `resident_blocks=N`, for a loop bound to a hardware
    index, limits the registers of a thread so that N blocks fit a multiprocessor. It is the second operand of CUDA's
    `__launch_bounds__`. There are fewer blocks if a thread would spill 64 bytes. Other targets have no such limit. With
    `whole_words=1`, for such a loop, CUDA's compiler selects between a whole word and a border's zeros, then unpacks
    its 16-bit floats. It predicates fewer instructions, so more loads may be under way at a time. With `whole_words=2`,
    one predicated instruction also loads each word, if the kernel does not write the tensor. `guarded_reads=1`, for any
    loop of a stage, restricts the stages that it reads to the iterations that its guards permit. This matters if loops
    run further than the axis that they split. For example, a tile that reaches beyond its group of rows computes only
    rows of that group. `nontemporal_stores=1` makes CPUs write whole vectors to memory past their caches, in the loop
    and below it. It is for results larger than the caches, which are then not read before they are overwritten.
    `import_c` and `import_llvm` add functions that the program calls. Their source, or the path of a file, is C,
    compiled by the system's compiler, or LLVM IR. "unroll" and "vectorize" are the primitives of these names. A key
    that nothing here reads draws a warning, and stays with the loop as an annotation, for passes of one's own. Raises
    UserError for a key that is not text, and for a value that is not the required integer or text.
    """
    if isinstance(key, str) and key in _PRIMITIVES:
        return _PRIMITIVES[key](schedule, stage, axis)
    has_loops(stage, "pragma", inlined=True)
    loop = leaf(stage, axis, "pragma")
    if not isinstance(key, str):
        raise UserError(
            f"unknown pragma {key!r} for {of_stage(loop, stage)}",
            primitive="pragma",
            fix=f"use one of {', '.join(PRAGMAS)}",
        )
    if key not in PRAGMAS:
        known = ", ".join((*_PRIMITIVES, *PRAGMAS))
        without_effect("pragma", f"nothing reads {key!r}, of {of_stage(loop, stage)}; known are {known}")
    plain = getattr(value, "value", value)
    if not (plain is None or isinstance(plain, (bool, int, float, str, np.number))):
        plain = str(plain)
    if key in NUMBERS and (not isinstance(plain, (int, np.integer)) or plain < 0):
        raise UserError(
            f"the pragma {key!r} has the value {value!r} for {of_stage(loop, stage)}",
            primitive="pragma",
            fix=f"give a whole number: pragma({loop.name}, {key!r}, 16)",
        )
    if key in IMPORTS and not isinstance(plain, str):
        raise UserError(
            f"the pragma {key!r} has the value {value!r} for {of_stage(loop, stage)}",
            primitive="pragma",
            fix="give the code as text, or the path of a file",
        )
    pragmas = (*(p for p in stage.annotation(loop).pragmas if p[0] != key), (key, plain))
    return schedule.with_stage(stage.with_annotation(loop, pragmas=pragmas)), None
