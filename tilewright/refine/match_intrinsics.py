"""Match matrix instructions: distribute tensorized loops, and the loops that read their sums, over warps.

A schedule has the loops of one warp's tile, which belong to no lane. This refinement distributes them over the lanes.
The sums of a tile lie in the registers of the lanes as the instruction requires (a fragment). The loops that compute or
read them run over the sums of one lane. Operands in shared memory get rows that start in different banks.
"""

from __future__ import annotations

from dataclasses import replace

from ..arith.affine import Affine
from ..arith.simplify import simplify
from ..bounds.infer import outer_facts, own_facts
from ..bounds.stage_bounds import Bounds, StageBounds, StageContraction
from ..core.atoms import Atom, Fragment
from ..core.hardware import SWIZZLE_PIECE, LoopKind, MemoryScope, ThreadTag, WarpMemory
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import IntImm, Load
from ..expr.traverse import loads as loads_in
from ..schedule.legality import names
from ..schedule.relations import Split
from ..schedule.schedule import AxisAnnotations, Schedule, Stage
from ..schedule.tensor_intrin import refuse
from ..tensor.axis import AxisKind, IterVar
from ..tensor.tensor import Tensor
from .conflicts import Demands
from .contraction import check_hardware, contraction, extent, local_indices
from .match_dots import match_dot
from .match_warpgroups import match_warpgroup
from .new_axes import NewAxes


def match_intrinsics(schedule: Schedule, bounds: Bounds, target: Target, options: Options) -> Bounds:
    """The bounds with every tensorized stage matched with its instruction, and distributed over warps with its readers.

    Every target checks the match; one that launches no grids keeps the loops. A language without the instruction runs
    the loops that a lane has of it. Raises UserError if loops do not match, and if a GPU lacks the instruction.
    """
    asked = [found for found in bounds.values() if found.stage.tensorized is not None]
    if not asked:
        return bounds
    made = dict(bounds)
    demands = Demands(target.hardware.warp_memory)
    for found in asked:
        matched = contraction(schedule, bounds, found)
        if matched.atom.by_thread:
            made[found.stage.id] = match_dot(schedule, bounds, found, matched, target)
            continue
        _check_accumulator(found, matched.atom)
        if not target.hardware.launches_grids:
            continue
        check_hardware(target, found, matched.atom)
        dims = {axis: place for axes in (matched.rows, matched.columns) for axis, place in _dimensions(found, axes)}
        rows, columns = (tuple(dims[axis] for axis in axes) for axes in (matched.rows, matched.columns))
        fragment = Fragment(rows, columns, matched.atom.halves)
        dealt = _dealt(found, matched.rows, matched.columns, matched.atom, matched.depth)
        made[found.stage.id] = replace(dealt, contraction=matched, fragment=fragment)
        for reader in (bounds[i] for i in found.readers):
            made[reader.stage.id] = _dealt_reader(schedule, reader, found, fragment, matched.atom, demands)
        if matched.atom.by_warpgroup:
            match_warpgroup(schedule, made, found, matched)
            continue
        for operand, lines in ((matched.a, matched.rows), (matched.b, matched.columns)):
            _spread_over_banks(schedule, made, found, matched, operand, lines, demands)
    return made


def _check_accumulator(found: StageBounds, atom: Atom) -> None:
    """Check that the sums lie in registers: one tile per warp, computed completely by the tensorized loops."""
    stage = found.stage
    if found.scope is not MemoryScope.LOCAL:
        refuse(
            f"stage {stage.name!r} is kept in {found.scope.value} memory, but {atom.name} keeps its sums in registers",
            f"s[{stage.name}].set_scope('local'), and compute it at the loop over warps of the stage that reads it",
        )
    for loop in (*found.outer, *stage.loops):
        if loop.tag is ThreadTag.THREAD_X:
            refuse(
                f"stage {stage.name!r} is computed inside axis {loop.axis.name!r}, which is bound to threadIdx.x, but "
                f"all lanes of a warp execute {atom.name}",
                "bind the warps to threadIdx.y and threadIdx.z; the kernel then has 32 lanes along threadIdx.x",
            )


def _dimensions(found: StageBounds, axes: tuple[IterVar, ...]) -> list[tuple[IterVar, int]]:
    """The dimension of the stored tile that each tensorized axis runs over, alone and completely."""
    stage, places = found.stage, []
    for axis in axes:
        root, wanted = axis, extent(found, axis)
        for relation in reversed(stage.relations):
            if root in relation.below and isinstance(relation, Split):
                root = relation.parent
        place = next((i for i, own in enumerate(stage.op.axis) if own is root), None)
        size = None if place is None else found.region[place].extent
        if place is None or not isinstance(size, IntImm) or size.value != wanted:
            refuse(
                f"axis {axis.name!r} of stage {stage.name!r} covers {wanted} of the {size} elements of that dimension "
                "which its reader needs",
                "leave the axes of the tile whole: split the reader, and tensorize the whole tile that it needs",
            )
        assert place is not None
        places.append((axis, place))
    return places


# Dealing out


def _dealt(
    found: StageBounds, rows: tuple[IterVar, ...], columns: tuple[IterVar, ...], atom: Atom, depth: tuple[IterVar, ...]
) -> StageBounds:
    """The stage with the loops over a tile replaced by the loops of one lane, within a loop over the lanes."""
    stage = found.stage
    axes = NewAxes(stage, stage.relations)
    row, group = axes.split(axes.fused(rows, "rows"), 8, "row", "group")
    inside = [row]
    if atom.halves > 1:
        inside = list(axes.split(row, atom.halves, "row", "half"))
    pair, neighbour = axes.split(axes.fused(columns, "columns"), 2, "pair", "neighbour")
    column, member = axes.split(pair, 4, "column", "member")
    lane = axes.fused((group, member), "lane")
    inside = [inside[0], column, *inside[1:], neighbour]
    run = _run(found, columns) if not depth else 0
    if run:  # a lane's results in neighbouring pieces are neighbours
        column, piece = axes.split(column, run, "column", "piece")
        neighbour = axes.fused((piece, neighbour), "neighbour")
        inside = [inside[0], column, *inside[2:-1], neighbour]
    gone = {*rows, *columns, *depth}
    kept = tuple(x for x in stage.leaves if x not in gone)
    first = min(stage.leaves.index(x) for x in gone)
    outside = tuple(x for x in stage.leaves[:first])
    leaves = (*outside, lane, *(x for x in kept if x not in outside), *inside, *depth)
    annotations = {x: annotation for x, annotation in stage.annotations.items() if x not in gone}
    annotations[lane] = AxisAnnotations(thread=IterVar("threadIdx.x", None, AxisKind.THREAD, ThreadTag.THREAD_X))
    if not depth and stage.op.axis and columns[-1] is _leaf_of(stage, stage.op.axis[-1]):
        annotations[neighbour] = AxisAnnotations(kind=LoopKind.VECTORIZED)
    made = replace(stage, leaves=leaves, relations=tuple(axes.relations), annotations=annotations)
    ranges = dict(found.ranges)  # the loops of a tile that is only partly inside still run over the whole tile
    for relation in made.relations:
        below = relation.ranges_down(ranges, lambda x: made.annotation(x).thread is not None, simplify)
        ranges.update({x: span for x, span in below.items() if x not in found.ranges})
    facts = own_facts(made, ranges, outer_facts(found.outer, found.facts))
    return replace(found, stage=made, ranges=ranges, facts=facts)


def _run(found: StageBounds, columns: tuple[IterVar, ...]) -> int:
    """The pieces in which a lane holds neighbours of a reader: its loops are (..., lane, piece, neighbour).

    The dimensions of the sums are (..., piece, lane, neighbour), as `columns` are.
    """
    if len(columns) < 3 or [extent(found, x) for x in columns[-2:]] != [4, 2]:
        return 0
    piece, lane, neighbour = columns[-3:]
    leaves = found.stage.leaves
    nested = leaves.index(lane) < leaves.index(piece) == leaves.index(neighbour) - 1
    return extent(found, piece) if nested else 0


def _leaf_of(stage: Stage, root: IterVar) -> IterVar:
    """The innermost loop that an axis was split into."""
    for relation in stage.relations:
        if isinstance(relation, Split) and relation.parent is root:
            root = relation.inner
    return root


def _dealt_reader(
    schedule: Schedule, reader: StageBounds, found: StageBounds, fragment: Fragment, atom: Atom, demands: Demands
) -> StageBounds:
    """A stage that reads the sums, element by element, with its loops over the tile distributed like the sums."""
    stage, name = reader.stage, found.stage.name
    inside = [x for x in stage.leaves if not _is_around(x, stage, found) and extent(reader, x) != 1]
    loads = _loads_of(schedule, reader, found)
    axes: dict[int, IterVar] = {}
    for place in (*fragment.rows, *fragment.columns):
        size = found.region[place].extent
        for load in loads:
            form = local_indices(load, reader, found)[place]
            along = [x for x in inside if x.var in form.terms]
            whole = len(along) == 1 and form.same(Affine({along[0].var: 1}, 0, form.dtype))
            if not whole or not isinstance(size, IntImm) or extent(reader, along[0]) != size.value:
                refuse(
                    f"stage {stage.name!r} reads the {size} elements of dimension {place} of {name!r} at "
                    f"`{form.to_expr()}`, over the loops {names(along)}. The sums of {atom.name} are distributed over "
                    "lanes, and each lane reads only its own sums",
                    f"leave the loops of {stage.name!r} over the tile of {name!r} unsplit and unbound: one loop for "
                    "each dimension, which the compiler distributes over the lanes",
                )
            axes[place] = along[0]
    bound = [x for x in inside if stage.annotation(x).thread is not None]
    if bound or len(set(axes.values())) != len(axes):
        refuse(
            f"the loops {names(bound or inside)} of stage {stage.name!r}, inside of the loop at which {name!r} is "
            "computed, cannot be distributed over lanes",
            f"bind loops outside of the loop at which {name!r} is computed",
        )
    rows, columns = (tuple(axes[place] for place in places) for places in (fragment.rows, fragment.columns))
    demands.deal(reader, found, atom, rows, columns)
    dealt = _dealt(reader, rows, columns, atom, ())
    return dealt if reader.scope is not MemoryScope.SHARED else _with_padded_rows(dealt, stage, rows[-1], columns[-1])


def _with_padded_rows(dealt: StageBounds, before: Stage, row: IterVar, column: IterVar) -> StageBounds:
    """A reader that stores to shared memory, with rows in which the pairs that lanes store lie in different banks."""
    ends = {_leaf_of(before, root): root for root in before.op.axis}
    stage, root = dealt.stage, ends.get(row)
    if root is None or stage.swizzled or root in stage.aligns or ends.get(column) is not before.op.axis[-1]:
        return dealt
    size = before.op.outputs[0].dtype.bytes
    factor = max(16, 32 // size)  # rows stay aligned for vectors of 16 bytes
    return replace(dealt, stage=replace(stage, aligns={**stage.aligns, root: (factor, factor // 2)}))


def _is_around(axis: IterVar, stage: Stage, found: StageBounds) -> bool:
    """Whether a loop of a reader stands around the tensorized stage."""
    return any(loop.stage == stage.id and loop.axis is axis for loop in found.outer)


def _loads_of(schedule: Schedule, reader: StageBounds, found: StageBounds) -> list[Load]:
    """The loads of a reader from a stage."""
    of_tensors = ((load, load.source) for load in loads_in(*reader.body))
    return [load for load, t in of_tensors if isinstance(t, Tensor) and schedule.stage_of.get(t.op) == found.stage.id]


# Shared memory


def _spread_over_banks(
    schedule: Schedule,
    made: Bounds,
    found: StageBounds,
    matched: StageContraction,
    operand: Load,
    lines: tuple[IterVar, ...],
    demands: Demands,
) -> None:
    """Pad the lines of an operand in shared memory so that the lanes of a warp read different banks."""
    assert isinstance(operand.source, Tensor)
    held = made[schedule.stage_of[operand.source.op]]
    before = replace(found, stage=matched.stage, ranges=matched.ranges)
    indices = local_indices(operand, before, held)
    fast = [axis for axis in (*matched.depth, *lines) if indices[-1].terms.get(axis.var) == 1]
    if not fast:
        refuse(
            f"neighbours of {operand.source.name!r} in shared memory are neighbours along no axis of the tile of stage "
            f"{found.stage.name!r} ({names((*lines, *matched.depth))})",
            "declare the operand with the rows, the columns or the terms of the product as its last dimension",
        )
    along_depth = fast[0] in matched.depth
    if not along_depth and matched.atom.per_word == 4:
        refuse(
            f"the last dimension of {operand.source.name!r} runs along axis {fast[0].name!r} of stage "
            f"{found.stage.name!r}, but {matched.atom.name} reads words of 4 neighbours along its reduction axes "
            f"({names(matched.depth)})",
            "declare the operand with the terms of the product as its last dimension, or compute a transposed copy",
        )
    across = lines[-1] if along_depth else matched.depth[-1]
    place = max((i for i, form in enumerate(indices) if form.terms.get(across.var)), default=-1)
    stage = held.stage
    if place < 0 or place == len(indices) - 1 or stage.swizzled:
        return
    axis, wanted = stage.op.axis[place], _padding(matched.atom, along_depth, demands.memory)
    if axis not in stage.aligns:
        held = replace(held, stage=replace(stage, aligns={**stage.aligns, axis: wanted}))
        made[stage.id] = held
    if axis not in schedule.stages[stage.id].aligns:
        demands.lay_out(before, matched, operand, lines, held, axis, wanted)


def _padding(atom: Atom, along_depth: bool, memory: WarpMemory) -> tuple[int, int]:
    """The (factor, offset) in elements of the distance of lines; see `storage_align`.

    `ldmatrix` reads 8 lines of 16 bytes at a time. They lie in different banks if their distance is an odd multiple of
    16 bytes. For words that are read one by one, the distance is a quarter of all banks.
    """
    size = atom.word // atom.per_word
    if atom.word == 8:
        return memory.line // 2 // size, memory.line // 4 // size
    if along_depth or size == 2:
        return 2 * SWIZZLE_PIECE // size, SWIZZLE_PIECE // size
    return memory.line // size, memory.line // 4 // size
