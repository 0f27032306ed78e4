"""Random reductions under schedules that share them among threads, or keep partial results: as people write them."""

from __future__ import annotations

from tests.schedule.random_graphs import draw_graph
from tests.schedule.random_programs import RandomProgram
from tests.schedule.random_steps import (
    attach,
    computed,
    crossed,
    draw_schedule,
    factored,
    fuse,
    inline,
    leaves,
    loop,
    reduced,
    reorder,
    scope,
    unfused,
)


def draw_reductions(program: RandomProgram) -> None:
    """A graph around a reduction of one or several values, and its schedule `s`."""
    first = program.pick(["reduction", "pair_reduction", "largest_place", "product", "reduction"])
    draw_graph(program, program.pick([1, 2]), ranks=(2, 1), sizes=(8, 13, 7, 32, 5, 4), first=first)
    program.on_gpu = program.chance(70)
    if not program.on_gpu:
        for _ in range(program.pick([1, 1, 2])):
            factored(program)
        draw_schedule(program, 4, False)
        return
    threads = {"threadIdx.x": program.pick([8, 4, 2, 16, 3, 7, 32, 64, 40]), "threadIdx.y": program.pick([2, 1, 3])}
    for _ in range(program.pick([0, 0, 1])):
        factored(program)
    for i in computed(program)[::-1]:
        _kernel(program, i, threads)
    for _ in range(program.pick([0, 1, 2, 3])):
        program.pick([attach, attach, inline, scope, fuse, reorder, unfused])(program)


def _kernel(program: RandomProgram, stage: int, threads: dict[str, int]) -> None:
    """Blocks, and rows of threads, over the data loops of a stage; its reduction shared by the threads of a row."""
    data = [k for k, axis in enumerate(leaves(program, stage)) if axis.iter_type == 0]
    if len(data) > 1 and program.chance(60):
        program.do(f"s.stages[{stage}].fuse({', '.join(loop(stage, k) for k in data)})")
        data = data[:1]
    if not data:
        program.do(f"s.stages[{stage}].fuse()")
        if leaves(program, stage) and program.chance(50):
            program.do(f"s.stages[{stage}].bind({loop(stage, -1)}, te.thread_axis('blockIdx.x'))")
            program.do(f"s.stages[{stage}].reorder({loop(stage, -1)}, {loop(stage, 0)})")
    elif program.chance(50):
        program.do(f"s.stages[{stage}].split({loop(stage, data[0])}, factor={threads['threadIdx.y']})")
        program.do(f"s.stages[{stage}].bind({loop(stage, data[0] + 1)}, te.thread_axis('threadIdx.y'))")
        program.do(f"s.stages[{stage}].bind({loop(stage, data[0])}, te.thread_axis('blockIdx.x'))")
    else:
        program.do(f"s.stages[{stage}].bind({loop(stage, data[0])}, te.thread_axis('blockIdx.x'))")
    if any(i == stage for i, _ in reduced(program)) and program.chance(80):
        crossed(program, {"threadIdx.x": threads["threadIdx.x"]}, stage)
