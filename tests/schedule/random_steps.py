"""Random schedules: steps that a `RandomProgram` takes on its schedule `s`, drawn one line at a time.

Stages are named by their position: s.stages[2].
"""

from __future__ import annotations

from typing import Any

from tests.schedule.random_programs import RandomProgram
from tilewright.schedule.schedule import At, AtRoot
from tilewright.tensor.extern import ExternOp
from tilewright.tensor.scan import ScanOp
from tilewright.tensor.tensor import PlaceholderOp


def draw_schedule(program: RandomProgram, steps: int = 8, gpu: bool | None = None) -> None:
    """Up to `steps` transformations; with `gpu`, every stage that is computed by itself is a kernel."""
    s = program.schedule
    for _ in range(program.between(0, 2)):
        program.pick([cache_read, cache_write])(program)
    on_gpu = program.chance(50) if gpu is None else gpu
    threads = {"threadIdx.x": program.pick([2, 4, 3, 1]), "threadIdx.y": program.pick([2, 1, 3])}
    actions = [split, fuse, reorder, attach, attach, attach, inline, annotate, scope, pragma, unfused, tiled, virtual]
    if on_gpu:
        for i, stage in enumerate(s.stages):
            if stage.is_output or isinstance(stage.op, ScanOp):
                bind_output(program, i, threads)
    actions += [fetch, fetch, crossed] if on_gpu else []
    actions += [padded, staged, root, factored, grouped, rolled, prefetched, transformed, rounded_up]
    for _ in range(program.between(0, steps)):
        action = program.pick(actions)
        if action in (fetch, crossed):
            action(program, threads)
        else:
            action(program)
    if gpu:
        bind_rest(program)


def computed(program: RandomProgram) -> list[int]:
    """The positions of the stages that have loops."""
    stages = program.schedule.stages
    return [i for i, stage in enumerate(stages) if not isinstance(stage.op, PlaceholderOp)]


def some_stage(program: RandomProgram) -> int:
    return program.pick(computed(program)[::-1])


def leaves(program: RandomProgram, stage: int) -> list[Any]:
    return list(program.schedule.stages[stage].leaf_iter_vars)


def loop(stage: int, k: int) -> str:
    return f"s.stages[{stage}].leaf_iter_vars[{k}]"


def advancing(program: RandomProgram) -> set[int]:
    """The stages of updates of scans: parts of the loop over their one row would read rows that are still to come."""
    ids = [stage.id for stage in program.schedule.stages]
    scans = [stage.op for stage in program.schedule.stages if isinstance(stage.op, ScanOp)]
    return {ids.index(program.schedule[update].id) for scan in scans for update in scan.update}


def split(program: RandomProgram, stage: int | None = None, k: int | None = None) -> None:
    i = some_stage(program) if stage is None else stage
    if not leaves(program, i):
        return
    at_loop = program.pick(range(len(leaves(program, i)))) if k is None else k
    how, number = program.pick(["factor", "nparts"]), program.pick([2, 3, 4, 1, 5, 8])
    if at_loop == 0 and i in advancing(program):
        return
    program.do(f"s.stages[{i}].split({loop(i, at_loop)}, {how}={number})")


def tiled(program: RandomProgram) -> None:
    i = some_stage(program)
    if len(leaves(program, i)) >= 2:
        x, y = program.permuted(range(len(leaves(program, i))))[:2]
        a, b = program.pick([2, 3, 4]), program.pick([2, 4, 3])
        program.do(f"s.stages[{i}].tile({loop(i, x)}, {loop(i, y)}, {a}, {b})")


def fuse(program: RandomProgram) -> None:
    i = some_stage(program)
    count = len(leaves(program, i))
    if count >= 2:
        first = program.pick(range(count - 1))
        last = program.pick(range(first + 1, min(count, first + 3)))
        program.do(f"s.stages[{i}].fuse({', '.join(loop(i, k) for k in range(first, last + 1))})")


def unfused(program: RandomProgram) -> None:
    i = some_stage(program)
    if program.chance(30):
        program.do(f"s.stages[{i}].fuse()")


def reorder(program: RandomProgram) -> None:
    i = some_stage(program)
    count = len(leaves(program, i))
    order = program.permuted(range(count))[: program.pick([count, 2])]
    program.do(f"s.stages[{i}].reorder({', '.join(loop(i, k) for k in order)})")


def attach(program: RandomProgram) -> None:
    """compute_at a loop of a stage that comes later."""
    i = some_stage(program)
    later = [j for j in computed(program) if j > i]
    if later:
        j = program.pick(later)
        if leaves(program, j):
            k = program.pick(range(len(leaves(program, j))))
            program.do(f"s.stages[{i}].compute_at(s.stages[{j}], {loop(j, k)})")


def root(program: RandomProgram) -> None:
    program.do(f"s.stages[{some_stage(program)}].compute_root()")


def inline(program: RandomProgram) -> None:
    program.do(f"s.stages[{some_stage(program)}].compute_inline()")


def annotate(program: RandomProgram) -> None:
    i = some_stage(program)
    count = len(leaves(program, i))
    if count:
        how = program.pick(["unroll", "vectorize", "parallel"])
        k = {"unroll": program.pick(range(count)), "vectorize": count - 1, "parallel": 0}[how]
        program.do(f"s.stages[{i}].{how}({loop(i, k)})")


def pragma(program: RandomProgram) -> None:
    i = some_stage(program)
    if leaves(program, i):
        key, value = program.pick([("auto_unroll_max_step", 16), ("unroll_explicit", 0), ("auto_unroll_max_step", 0)])
        program.do(f"s.stages[{i}].pragma({loop(i, 0)}, {key!r}, {value})")


def scope(program: RandomProgram) -> None:
    program.do(f"s.stages[{some_stage(program)}].set_scope({program.pick(['shared', 'local', 'global'])!r})")


def cache_read(program: RandomProgram) -> None:
    """A copy of what one stage reads, for it alone or for all readers; then attached somewhere, as a rule."""
    j = some_stage(program)
    sources = list(program.schedule.stages[j].op.input_tensors)
    if not sources:
        return
    source = program.pick(range(len(sources)))
    where = program.pick(["shared", "local", "global"])
    read = f"s.stages[{j}].op.input_tensors[{source}]"
    name = program.fresh("C")
    everyone = [i for i in computed(program) if sources[source] in program.schedule.stages[i].op.input_tensors]
    readers = everyone if program.chance(30) else [j]
    given = ", ".join(f"s.stages[{i}].op" for i in readers)
    if program.do(f"{name} = s.cache_read({read}, {where!r}, [{given}])"):
        settle(program, name)


def cache_write(program: RandomProgram) -> None:
    where = program.pick(["local", "shared", "global"])
    name = program.fresh("C")
    if program.do(f"{name} = s.cache_write(s.stages[{some_stage(program)}].op.output(0), {where!r})"):
        settle(program, name)


def settle(program: RandomProgram, name: str, percent: int = 80) -> None:
    """compute_at one of the readers of a cache."""
    ids = [stage.id for stage in program.schedule.stages]
    i = ids.index(program.schedule[program.names[name]].id)
    readers = [ids.index(r.id) for r in program.schedule.value.readers(ids[i])]
    if readers and program.chance(percent):
        j = program.pick(readers)
        if leaves(program, j):
            k = program.pick(range(len(leaves(program, j))))
            program.do(f"s[{name}].compute_at(s.stages[{j}], {loop(j, k)})")


def padded(program: RandomProgram) -> None:
    """Storage whose rows do not start at the same place of a bank."""
    i = some_stage(program)
    count = len(getattr(program.schedule.stages[i].op, "axis", ()))
    if count:
        k, factor = program.pick(range(count)), program.pick([4, 8, 3])
        axis = f"s.stages[{i}].op.axis[{k}]"
        program.do(f"s.stages[{i}].storage_align({axis}, {factor}, {program.pick([1, 0, 2])})")


def staged(program: RandomProgram) -> None:
    how = program.pick(["double_buffer()", "pipeline(2)", "pipeline(3)", "pipeline(4)"])
    program.do(f"s.stages[{some_stage(program)}].{how}")


def rolled(program: RandomProgram) -> None:
    """A stage that is computed at a loop keeps what the next iteration needs; some regions do not roll."""
    stages = program.schedule.stages
    inside = [i for i in computed(program) if isinstance(stages[i].placement, At)]
    if inside:
        program.do(f"s.stages[{program.pick(inside)}].rolling_buffer()")


def prefetched(program: RandomProgram) -> None:
    """What a stage reads, or one of the stages that it reads reads."""
    i = some_stage(program)
    sources = list(program.schedule.stages[i].op.input_tensors)
    if sources and leaves(program, i):
        which = program.pick(range(len(sources)))
        read, further = f"s.stages[{i}].op.input_tensors[{which}]", sources[which].op.input_tensors
        if further and program.pick([False, False, True]):
            read += f".op.input_tensors[{program.pick(range(len(further)))}]"
        k = program.pick(range(len(leaves(program, i))))
        program.do(f"s.stages[{i}].prefetch({read}, {loop(i, k)}, {program.pick([1, 2, 5])})")


def transformed(program: RandomProgram) -> None:
    """One dimension in tiles, whose number comes first, or the dimensions the other way around."""
    i = some_stage(program)
    axes = program.schedule.stages[i].op.axis
    if axes and not program.schedule.stages[i].is_output:
        at, tile = program.pick(range(len(axes))), program.pick([1, 2, 4])
        tiled = [f"x[{at}] // {tile}", *(f"x[{d}]" for d in range(len(axes)) if d != at), f"x[{at}] % {tile}"]
        turned = [f"x[{d}]" for d in reversed(range(len(axes)))]
        program.do(f"s.stages[{i}].transform_layout(lambda *x: [{', '.join(program.pick([tiled, turned]))}])")


def rounded_up(program: RandomProgram) -> None:
    """Some axes in whole tiles; many stages read inputs, which cannot grow."""
    i = some_stage(program)
    axes = [f"s.stages[{i}].op.axis[{k}]" for k in range(len(getattr(program.schedule.stages[i].op, "axis", ())))]
    axes += [f"s.stages[{i}].op.reduce_axis[{k}]" for k in range(len(program.schedule.stages[i].op.reduce_axis))]
    if axes and not program.schedule.stages[i].is_output:
        chosen = program.permuted(axes)[: program.pick([1, 2])]
        program.do(f"s.stages[{i}].round_up({', '.join(f'({axis}, {program.pick([4, 3, 8])})' for axis in chosen)})")


def virtual(program: RandomProgram) -> None:
    """Two or three virtual threads over the outer part of a loop."""
    i = some_stage(program)
    if leaves(program, i):
        k = program.pick(range(len(leaves(program, i))))
        if k == 0 and i in advancing(program):
            return
        if program.do(f"s.stages[{i}].split({loop(i, k)}, nparts={program.pick([2, 3])})"):
            program.do(f"s.stages[{i}].bind({loop(i, k)}, te.thread_axis('vthread'))")


def reduced(program: RandomProgram) -> list[tuple[int, int]]:
    """The loops over reduction axes: stage and position."""
    return [(i, k) for i in computed(program) for k, a in enumerate(leaves(program, i)) if a.iter_type == 2]


def factored(program: RandomProgram) -> None:
    """rfactor of a reduction loop or of a part of it; the partial results are then computed at a reader, perhaps."""
    loops = reduced(program)
    if not loops:
        return
    i, k = program.pick(loops)
    if program.chance(70):
        before = len(program.lines)
        program.do(f"s.stages[{i}].split({loop(i, k)}, {program.pick(['factor', 'nparts'])}={program.pick([2, 4, 3])})")
        k += (len(program.lines) - before) * program.pick([0, 1])
    name, place = program.fresh("C"), program.pick([0, 0, 1, -1])
    made = f"s.rfactor(s.stages[{i}].op.output(0), {loop(i, k)}, {place})"
    if len(program.schedule.stages[i].op.outputs) > 1:
        made += "[0]"
    if program.do(f"{name} = {made}"):
        settle(program, name, 60)


def crossed(program: RandomProgram, threads: dict[str, int], stage: int | None = None) -> None:
    """Part of a reduction, that of `stage` if given, shared by the threads of a block."""
    loops = [at for at in reduced(program) if stage in (None, at[0])]
    if not loops:
        return
    i, k = program.pick(loops)
    taken = {
        note.thread_tag for a in leaves(program, i) if (note := program.schedule.stages[i].value.annotation(a).thread)
    }
    tag = program.pick([t for t in threads if t not in taken] or list(threads))
    how = program.pick(["factor", "nparts"])
    if program.do(f"s.stages[{i}].split({loop(i, k)}, {how}={threads[tag]})"):
        k += how == "factor"
        program.do(f"s.stages[{i}].bind({loop(i, k)}, te.thread_axis({tag!r}))")


def store_predicates(program: RandomProgram) -> None:
    """One of the threads that share a reduction stores its result, which all of them know."""
    for i in computed(program):
        stage = program.schedule.stages[i]
        for k, axis in enumerate(stage.leaf_iter_vars):
            bound = stage.value.annotation(axis).thread
            if axis.iter_type == 2 and bound and stage.is_output and program.chance(30):
                shown = f"s.stages[{i}].value.annotation({loop(i, k)}).thread.var"
                where = program.pick([f"{shown}.equal(0)", f"{shown} < 1", f"tir.all({shown} >= 0, {shown} <= 0)"])
                program.do(f"s.stages[{i}].set_store_predicate({where})")
                return


def grouped(program: RandomProgram) -> None:
    """The stages between two, placed together."""
    stages = computed(program)
    first, last = sorted((program.pick(stages), program.pick(stages)))
    name, inputs = program.fresh("G"), program.pick([True, False])
    made = f"s.create_group(s.stages[{last}].op.output(0), s.stages[{first}].op.output(0), {inputs})"
    if not program.do(f"{name} = {made}"):
        return
    later = [j for j in stages if j > last and leaves(program, j)]
    if later and program.chance(70):
        j = program.pick(later)
        program.do(f"{name}.compute_at(s.stages[{j}], {loop(j, program.pick(range(len(leaves(program, j)))))})")
    else:
        program.do(f"{name}.{program.pick(['compute_inline', 'compute_root'])}()")


def bind_output(program: RandomProgram, stage: int, threads: dict[str, int]) -> None:
    """Bind the loops of an output; those of a scan are the loops of what it computes in each step."""
    op = program.schedule.stages[stage].op
    if isinstance(op, ExternOp):
        return
    if not isinstance(op, ScanOp):
        bind_nest(program, stage, threads)
        return
    extent = getattr(op.init[0].shape[1], "value", 0) if len(op.init[0].shape) > 1 else 0
    whole = extent > 0 and program.chance(50)
    if whole:
        tx = program.fresh("tx")
        program.do(f"{tx} = te.thread_axis((0, {extent}), 'threadIdx.x')")
        program.do(f"s.stages[{stage}].env_threads([{tx}])")
    ids = [each.id for each in program.schedule.stages]
    for part in (*op.init, *op.update):
        i = ids.index(program.schedule[part].id)
        axes = leaves(program, i)
        if whole:
            program.do(f"s.stages[{i}].bind({loop(i, 1)}, {tx})")
        elif len(axes) > 1 or part in op.init:
            k = min(1, len(axes) - 1)
            program.do(f"s.stages[{i}].split({loop(i, k)}, factor={threads['threadIdx.x']})")
            program.do(f"s.stages[{i}].bind({loop(i, k)}, te.thread_axis('blockIdx.x'))")
            program.do(f"s.stages[{i}].bind({loop(i, k + 1)}, te.thread_axis('threadIdx.x'))")


def bind_nest(program: RandomProgram, stage: int, threads: dict[str, int]) -> None:
    """Bind the data loops of a stage: the outer part of a split to blocks, the inner one to threads."""
    count = len(program.schedule.stages[stage].op.axis)
    if count > 1 and program.chance(50):
        program.do(f"s.stages[{stage}].fuse({', '.join(loop(stage, k) for k in range(count))})")
        count = 1
    tags = [("blockIdx.x", "threadIdx.x"), ("blockIdx.y", "threadIdx.y")][: max(1, program.pick([1, 2]))]
    for k, (block, thread) in list(enumerate(tags))[:count]:
        if program.chance(25):
            program.do(f"s.stages[{stage}].bind({loop(stage, 2 * k)}, te.thread_axis({block!r}))")
            program.do(f"s.stages[{stage}].fuse()")
            program.do(f"s.stages[{stage}].reorder({loop(stage, 1)}, {loop(stage, 0)})")
            continue
        how, number = program.pick([("factor", threads[thread]), ("nparts", threads[thread])])
        program.do(f"s.stages[{stage}].split({loop(stage, 2 * k)}, {how}={number})")
        if how == "nparts":
            program.do(f"s.stages[{stage}].reorder({loop(stage, 2 * k + 1)}, {loop(stage, 2 * k)})")
        if program.chance(80):
            program.do(f"s.stages[{stage}].bind({loop(stage, 2 * k)}, te.thread_axis({block!r}))")
        if program.chance(85):
            program.do(f"s.stages[{stage}].bind({loop(stage, 2 * k + 1)}, te.thread_axis({thread!r}))")


def bind_rest(program: RandomProgram) -> None:
    """A block for each iteration of some loop of every stage that is not a kernel yet."""
    for i in computed(program):
        stage = program.schedule.stages[i]
        if not isinstance(stage.placement, AtRoot) or any(
            stage.value.annotation(a).thread for a in stage.leaf_iter_vars
        ):
            continue
        if isinstance(stage.op, (ExternOp, ScanOp)):
            continue
        data = [k for k, axis in enumerate(stage.leaf_iter_vars) if axis.iter_type == 0]
        if not data:
            program.do(f"s.stages[{i}].fuse()")
        program.do(f"s.stages[{i}].bind({loop(i, data[0] if data else 0)}, te.thread_axis('blockIdx.x'))")


def fetch(program: RandomProgram, threads: dict[str, int]) -> None:
    """Share the loops of a stage inside a kernel, or of one that shall be a kernel, among the threads."""
    i = some_stage(program)
    stage = program.schedule.stages[i]
    count = len(getattr(stage.op, "axis", ()))
    if not count or stage.is_output:
        return
    if len(stage.relations) == 0 and program.chance(50) and count > 1:
        program.do(f"s.stages[{i}].fuse({', '.join(loop(i, k) for k in range(count))})")
    for tag in ["threadIdx.x", "threadIdx.y"][: program.pick([1, 2])]:
        k = program.pick(range(len(leaves(program, i))))
        before = len(program.lines)
        if program.chance(50):
            program.do(f"s.stages[{i}].split({loop(i, k)}, factor={threads[tag]})")
            k += len(program.lines) - before
        else:
            program.do(f"s.stages[{i}].split({loop(i, k)}, nparts={threads[tag]})")
        program.do(f"s.stages[{i}].bind({loop(i, k)}, te.thread_axis({tag!r}))")
