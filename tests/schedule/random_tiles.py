"""Random tiled kernels as text: products and convolutions whose operands go through shared memory, in many ways.

Unlike `random_programs`, which draws any steps at all, this draws schedules as people write them for a GPU, so that
most are accepted and nearly all have loops that fill shared memory: blocks, virtual threads and threads of an output
tile; reductions cut in parts; copies in shared and in local memory; fills shared among the threads by fuse and split.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.schedule.random_programs import RandomProgram, draw_type, keep, placeholder
from tests.schedule.random_steps import leaves, loop

TAGS = ("x", "y", "z")
SIZES = (8, 4, 12, 7, 13, 5, 16, 3, 9, 1)
PRAGMAS = (("auto_unroll_max_step", 16), ("unroll_explicit", 0), ("unroll_explicit", 1), ("auto_unroll_max_step", 200))


def output(program: RandomProgram, shape: tuple[int, ...], reduced: dict[str, int], body: str) -> None:
    """The tensor T, the sum of `body` over the axes `reduced`; without any, `body` itself. `body` uses i0, i1 ..."""
    for name, extent in reduced.items():
        program.do(f"{name} = te.reduce_axis((0, {extent}), name={name!r})")
    axes = f"[{', '.join(reduced)}]"
    program.do(
        f"T = te.compute({shape}, lambda {', '.join(f'i{d}' for d in range(len(shape)))}: "
        + (f"te.sum({body}, axis={axes})" if reduced else body)
        + ", name='T')"
    )
    keep(program, "T", shape)


def padded(program: RandomProgram, source: str, around: int) -> str:
    """`source` with zeros around its last two dimensions."""
    shape = program.extents[source]
    if not around:
        return source
    guards, there, extents = [], [], []
    for d, extent in enumerate(shape):
        wide = around if d >= len(shape) - 2 and extent > 1 else 0
        extents.append(extent + 2 * wide)
        there.append(f"i{d} - {wide}" if wide else f"i{d}")
        guards += [f"i{d} >= {wide}", f"i{d} < {wide + extent}"] if wide else []
    if not guards:
        return source
    read = f"tir.if_then_else(tir.all({', '.join(guards)}), {source}[{', '.join(there)}], 0.0)"
    program.do(f"P = te.compute({tuple(extents)}, lambda {', '.join(f'i{d}' for d in range(len(shape)))}: {read}, 'P')")
    return keep(program, "P", tuple(extents))


def product(program: RandomProgram) -> None:
    n, m, k = program.pick(SIZES), program.pick(SIZES), program.pick(SIZES)
    first = program.pick([((k, n), "k, i0"), ((n, k), "i0, k")])
    second = program.pick([((k, m), "k, i1"), ((m, k), "i1, k"), ((k, m), f"{k - 1} - k, i1")])
    a, b = padded(program, placeholder(program, first[0]), program.pick([0, 0, 1])), placeholder(program, second[0])
    output(program, (n, m), {"k": k}, f"{a}[{first[1]}] * {b}[{second[1]}]")


def convolution(program: RandomProgram) -> None:
    n, c, f, w = program.pick(SIZES), program.pick([2, 4, 3, 8]), program.pick(SIZES), program.pick([3, 1, 5])
    stride = program.pick([1, 2])
    x = padded(program, placeholder(program, (c, (n - 1) * stride + w)), program.pick([0, 1]))
    weights = placeholder(program, (f, c, w))
    order = program.permuted(["c", "w"])
    extents = {"c": c, "w": w}
    output(program, (f, n), {k: extents[k] for k in order}, f"{x}[c, i1 * {stride} + w] * {weights}[i0, c, w]")


def image(program: RandomProgram) -> None:
    h, w, c, f = program.pick([4, 5, 6, 8]), program.pick([4, 7, 3]), program.pick([2, 4, 3]), program.pick([4, 2, 5])
    x = padded(program, placeholder(program, (c, h + 2, w + 2)), program.pick([0, 1]))
    weights = placeholder(program, (c, 3, 3, f))
    output(program, (f, h, w), {"c": c, "y": 3, "x": 3}, f"{x}[c, i1 + y, i2 + x] * {weights}[c, y, x, i0]")


def turned(program: RandomProgram) -> None:
    """No reduction: a transposed sum of neighbours."""
    n, m = program.pick(SIZES), program.pick(SIZES)
    a = padded(program, placeholder(program, (m + 1, n)), program.pick([0, 1]))
    output(program, (n, m), {}, f"{a}[i1, i0] - {a}[i1 + 1, i0] * 2.0")


GRAPHS: tuple[Callable[[RandomProgram], None], ...] = (product, convolution, image, turned)


def draw_tiles(program: RandomProgram) -> None:
    """A graph and its schedule `s`."""
    draw_type(program)
    program.pick(GRAPHS)(program)
    program.do("kept = []")
    program.do("outputs = ['T']")
    program.do("s = te.create_schedule(T.op)")
    local = program.chance(70) and program.do("L = s.cache_write(T, 'local')")
    if "P" in program.names and program.chance(60):
        program.do("s[P].compute_inline()")
    threads, places = draw_output(program)
    consumer = "L" if local else "T"
    if local:
        program.do(f"s[L].compute_at(s[T], {places[-1] if program.chance(95) else program.pick(places)})")
    places = [place for place in places if not local or program.chance(50)]
    places += draw_reduction(program, consumer)
    draw_copies(program, consumer, places, threads)


def stage(program: RandomProgram, name: str) -> int:
    """The position of the stage of a tensor."""
    ids = [each.id for each in program.schedule.stages]
    return ids.index(program.schedule[program.names[name]].id)


def draw_output(program: RandomProgram) -> tuple[dict[str, int], list[str]]:
    """Tile the loops of T; returns the threads of a block, and the loops of T where others can be computed."""
    rank = len(program.extents["T"])
    tags = program.permuted(TAGS[:rank])
    tags = [tag if program.chance(85) else "" for tag in tags]
    threads: dict[str, int] = {}
    groups: dict[str, list[str]] = {"o": [], "v": [], "t": [], "i": []}
    for d, tag in enumerate(tags):
        size, copies = program.pick([4, 2, 8, 3, 1]), program.pick([1, 1, 2, 3])
        inner = program.pick([1, 2, 3, 4])
        axis = f"T.op.axis[{d}]"
        if not tag:
            groups["i"].append(axis)
            continue
        if not program.do(f"o{d}, r{d} = s[T].split({axis}, factor={size * copies * inner})"):
            continue
        program.do(f"v{d}, r{d} = s[T].split(r{d}, nparts={copies})")
        program.do(f"t{d}, n{d} = s[T].split(r{d}, nparts={size})")
        if program.chance(85) or not threads:
            program.do(f"s[T].bind(o{d}, te.thread_axis('blockIdx.{tag}'))")
        if copies > 1:
            program.do(f"s[T].bind(v{d}, te.thread_axis('vthread'))")
        if program.do(f"s[T].bind(t{d}, te.thread_axis('threadIdx.{tag}'))"):
            threads[tag] = size
        for kind in "ovt":
            groups[kind].append(f"{kind}{d}")
        groups["i"].append(f"n{d}")
    order = [name for kind in "ovti" for name in groups[kind]]
    program.do(f"s[T].reorder({', '.join(order)})")
    if program.chance(20):
        program.do(f"s[T].vectorize({order[-1]})")
    if program.chance(20):
        key, value = program.pick(PRAGMAS)
        program.do(f"s[T].pragma({order[0]}, {key!r}, {value})")
    return threads, [*groups["o"][-1:], *groups["v"][-1:], *groups["t"][-1:]] or order[:1]


def draw_reduction(program: RandomProgram, consumer: str) -> list[str]:
    """Cut and order the reduction; returns its loops."""
    i = stage(program, consumer)
    reduced = sum(axis.iter_type == 2 for axis in leaves(program, i))
    names: list[str] = []
    for r in range(reduced):
        axis = f"s[{consumer}].op.reduce_axis[{r}]"
        if program.chance(60):
            how = program.pick(["factor", "nparts"])
            program.do(f"k{r}o, k{r} = s[{consumer}].split({axis}, {how}={program.pick([2, 4, 3, 5])})")
            names += [f"k{r}o", f"k{r}"]
        else:
            program.do(f"k{r} = {axis}")
            names.append(f"k{r}")
    outer = [name for name in names if name.endswith("o")]
    names = [*outer, *(name for name in names if name not in outer)]
    if names and program.chance(75):
        data = [loop(i, k) for k, axis in enumerate(leaves(program, i)) if axis.iter_type == 0]
        program.do(f"rest = [{', '.join(data) if consumer == 'L' else ''}]")
        program.do(f"s[{consumer}].reorder({', '.join(names)}, *rest)")
    if names and program.chance(30):
        key, value = program.pick(PRAGMAS)
        program.do(f"s[{consumer}].pragma({program.pick(names)}, {key!r}, {value})")
    if names and program.chance(20):
        program.do(f"s[{consumer}].unroll({names[-1]})")
    return [f"s[{consumer}], {name}" for name in names]


def draw_copies(program: RandomProgram, consumer: str, places: list[str], threads: dict[str, int]) -> None:
    """Copies of the operands in shared memory, and of those in local memory, at some of the places."""
    places = [place if place.startswith("s[") else f"s[T], {place}" for place in places] or ["s[T], T.op.axis[0]"]
    names = dict.fromkeys(t.op.name for t in program.schedule[program.names[consumer]].op.input_tensors)
    for name in names:
        if name == "P" and program.chance(60):
            program.do("s[P].set_scope('shared')")
            copy = "P"
        elif program.chance(90):
            copy = f"{name}S"
            if not program.do(f"{copy} = s.cache_read({name}, 'shared', [{consumer}])"):
                continue
            if name == "P" and program.chance(50):
                program.do("s[P].compute_inline()")
        else:
            continue
        where = program.pick(range(len(places)))
        if not program.do(f"s[{copy}].compute_at({places[where]})"):
            continue
        share(program, copy, threads)
        if program.chance(30) and program.do(f"{copy}L = s.cache_read({copy}, 'local', [{consumer}])"):
            own = [place for place in places[where:] if place[:7] not in ("s[T], o", "s[T], v")]
            program.do(f"s[{copy}L].compute_at({program.pick(own or places)})")
            if program.chance(30):
                program.do(f"s[{copy}L].vectorize({loop(stage(program, copy + 'L'), -1)})")


def share(program: RandomProgram, name: str, threads: dict[str, int]) -> None:
    """The fill `name`, shared among some of the threads."""
    i = stage(program, name)
    if program.chance(25):
        how = program.pick(["double_buffer()", "pipeline(3)", "pipeline(4)"])
        program.do(f"s.stages[{i}].{how}")
    if program.chance(25):
        axis = program.pick(range(len(program.schedule.stages[i].op.axis)))
        factor, offset = program.pick([(8, 1), (32, 4), (4, 0)])
        program.do(f"s.stages[{i}].storage_align(s.stages[{i}].op.axis[{axis}], {factor}, {offset})")
    lanes = program.pick([0, 0, 2, 4])
    count = len(leaves(program, i))
    if count > 1 and program.chance(70):
        last = count - 1 if program.chance(80) else 1
        program.do(f"s.stages[{i}].fuse({', '.join(loop(i, k) for k in range(last + 1))})")
    if lanes and program.do(f"s.stages[{i}].split({loop(i, -1)}, factor={lanes})"):
        program.do(f"s.stages[{i}].vectorize({loop(i, -1)})")
    k = 0
    for tag in [tag for tag in program.permuted([*threads]) if program.chance(75)]:
        available = len(leaves(program, i)) - (1 if lanes else 0)
        if k >= available:
            break
        how = program.pick(["nparts", "factor"])
        if program.chance(6):  # the extent must happen to be right
            program.do(f"s.stages[{i}].bind({loop(i, k)}, te.thread_axis('threadIdx.{tag}'))")
            k += 1
            continue
        if program.do(f"s.stages[{i}].split({loop(i, k)}, {how}={threads[tag]})"):
            at = k if how == "nparts" else k + 1
            program.do(f"s.stages[{i}].bind({loop(i, at)}, te.thread_axis('threadIdx.{tag}'))")
            k += 1 if how == "nparts" else program.pick([0, 2])
    if program.chance(15):
        serial = [
            k
            for k, axis in enumerate(leaves(program, i))
            if not program.schedule.stages[i].value.annotation(axis).thread
        ]
        if serial:
            program.do(f"s.stages[{i}].unroll({loop(i, serial[0])})")
    if program.chance(8):
        key, value = program.pick(PRAGMAS)
        program.do(f"s.stages[{i}].pragma({loop(i, 0)}, {key!r}, {value})")
