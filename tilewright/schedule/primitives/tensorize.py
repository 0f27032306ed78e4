"""tensorize: a matrix instruction, or a user's intrinsic, in place of the innermost loops of a stage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.atoms import Atom, atom_named
from ...core.errors import UserError
from ...core.text import quantity
from ...expr.nodes import Load
from ...tensor.axis import IterVar
from ...tensor.reduction import Reduce
from ..legality import has_loops, leaf, no_output, not_mixed, of_stage
from ..schedule import Schedule, Stage
from ..tensor_intrin import TensorIntrin

COPIES = {"load": "operands from shared memory", "store": "sums to memory"}
"""Intrinsics of legacy programs that copy fragments; here the compiler makes the copies."""


def _check_copy(stage: Stage, intrin: str) -> None:
    if not isinstance(stage.op.values[0], Load) or (intrin == "load" and not stage.is_operand):
        raise UserError(
            f"stage {stage.name!r} is not a copy of {COPIES[intrin]}, as the intrinsic is",
            primitive="tensorize",
            fix='load into a stage made by cache_read(T, "wmma.matrix_a", ...) or "wmma.matrix_b", and store from one '
            'made by cache_write(T, "wmma.accumulator")',
        )


def _declared(schedule: Schedule, stage: Stage, loop: IterVar, intrin: TensorIntrin) -> tuple[Schedule, None]:
    bound = stage.annotation(loop).thread
    if bound is not None:
        raise UserError(
            f"{of_stage(loop, stage)} is bound to {bound.thread_tag}, and the intrinsic {intrin.name!r} runs in one "
            "thread",
            primitive="tensorize",
            fix="tensorize an axis inside of the bound ones",
        )
    if not stage.op.values or stage.op.num_outputs != intrin.op.num_outputs:
        raise UserError(
            f"stage {stage.name!r} computes {quantity(stage.op.num_outputs, 'value')} per element, and the intrinsic "
            f"{intrin.name!r} {intrin.op.num_outputs}",
            primitive="tensorize",
            fix="declare the intrinsic by an operation with the stage's computation, on a smaller tensor",
        )
    return schedule.with_stage(replace(stage, declared=(loop, intrin))), None


def tensorize(schedule: Schedule, stage: Stage, axis: IterVar, intrin: Any) -> tuple[Schedule, None]:
    """Compute the loop `axis` and all loops inside it by a matrix instruction, of a warp or of one thread.

        for i in range(64): for j in range(32): for k in range(32):          D[64, 32] += A[64, 32] · B[32, 32]
            D[i, j] += A[i, k] * B[k, j]                             ->      # by mma.sync, 64 x 32 sums in registers

    The stage keeps its result in "local" memory. The sums of a tile are distributed over the lanes of a warp, and so
    are the loops of the stages that read them. An instruction of one thread (`dp4a`, `vnni`) leaves loops and memory as
    they are. The loops keep their meaning: targets without the instruction run them. An intrinsic of
    `te.decl_tensor_intrin` puts its statements in the place of the loops, on every target. Raises UserError if the
    stage is not a reduction or is an output, or if `intrin` is not an instruction. Lowering raises it if the loops do
    not match the computation of the intrinsic.
    """
    has_loops(stage, "tensorize", inlined=True)
    loop = leaf(stage, axis, "tensorize")
    not_mixed(stage, "tensorize")
    if isinstance(intrin, TensorIntrin):
        return _declared(schedule, stage, loop, intrin)
    if isinstance(intrin, str) and intrin in COPIES:
        _check_copy(stage, intrin)
        return schedule, None
    atom = atom_named(intrin) if isinstance(intrin, str) else intrin
    if not isinstance(atom, Atom):
        raise UserError(
            f"{intrin!r} for {of_stage(loop, stage)} is not a matrix instruction",
            primitive="tensorize",
            fix='give one of tilewright.intrin: intrin.mma("float16")',
        )
    if not isinstance(stage.op.values[0] if stage.op.values else None, Reduce):
        raise UserError(
            f"stage {stage.name!r} is not a reduction, and {atom.name} computes sums of products",
            primitive="tensorize",
            fix="tensorize the stage with the body te.sum(A[i, k] * B[k, j], axis=k); after cache_write, that is the "
            "cache stage",
        )
    bound = stage.annotation(loop).thread
    if bound is not None:
        raise UserError(
            f"{of_stage(loop, stage)} is bound to {bound.thread_tag}",
            primitive="tensorize",
            fix="tensorize an axis inside of the bound ones: the lanes of the warp belong to the instruction",
        )
    if not atom.by_thread:
        no_output(
            schedule,
            stage,
            "tensorize",
            "is global memory, and the instruction keeps its sums in registers",
            f's.cache_write({stage.name}, "local"), computed at the loop over warps, and tensorize that stage',
        )
    return schedule.with_stage(replace(stage, tensorized=(loop, atom))), None
