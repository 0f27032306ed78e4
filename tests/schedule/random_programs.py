"""Random programs as text: a graph of tensors and a schedule of it, drawn one line at a time.

Every line is executed as it is drawn, in the names `te`, `tir` and those that earlier lines have made, so a failing
program prints as a script that reproduces it. Values are small whole numbers, exact in float32 in any order.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st

from tilewright import te, tir
from tilewright.core.errors import UserError
from tilewright.schedule.value import AtRoot
from tilewright.tensor.tensor import PlaceholderOp, Tensor

T = TypeVar("T")
Draw = Callable[[st.SearchStrategy[Any]], Any]
SIZES = (1, 2, 3, 4, 5, 7, 8, 13)
LARGEST = 200  # elements of a tensor


class RandomProgram:
    """Lines of a program, and what they have made."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.names: dict[str, Any] = {"te": te, "tir": tir}
        self.lines: list[str] = []
        self.refused: list[str] = []
        self.tensors: list[str] = []
        self.extents: dict[str, tuple[int, ...]] = {}
        self.count = 0

    # Drawing.

    def pick(self, options: Sequence[T]) -> T:
        """One of the options; the first is the simplest."""
        chosen: T = self.draw(st.sampled_from(options))
        return chosen

    def chance(self, percent: int) -> bool:
        """True in about so many of a hundred programs."""
        return bool(self.draw(st.integers(0, 99)) >= 100 - percent)

    def fresh(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def do(self, line: str) -> bool:
        """Execute a line and keep it; a line that is refused is dropped."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(line, self.names)
        except UserError as error:
            self.refused.append(f"{line}  # {error}")
            return False
        self.lines.append(line)
        return True

    # What there is.

    @property
    def schedule(self) -> Any:
        return self.names["s"]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def outputs(self) -> list[Tensor]:
        return [self.names[name] for name in self.names["outputs"]]

    @property
    def arguments(self) -> list[Tensor]:
        """Inputs, results on the way that are to be kept, outputs."""
        found = [self.names[name] for name in self.tensors if isinstance(self.names[name].op, PlaceholderOp)]
        return found + [self.names[name] for name in self.names["kept"]] + self.outputs

    def inputs(self) -> dict[Tensor, np.ndarray]:
        """Whole numbers from -2 to 2 for each input."""
        rng = np.random.default_rng(len(self.text))
        given = [t for t in self.arguments if isinstance(t.op, PlaceholderOp)]
        return {t: rng.integers(-2, 3, [int(e) for e in t.shape]).astype(t.dtype.numpy) for t in given}


# Graphs.


def draw_graph(program: RandomProgram, stages: int = 4) -> None:
    """Inputs and up to `stages` computations, each of which reads the one before; then the schedule `s`."""
    rank = program.pick([1, 2, 3])
    shape: tuple[int, ...] = ()
    for _ in range(rank):
        shape = (*shape, program.pick([n for n in SIZES if math.prod(shape) * n <= LARGEST]))
    last = placeholder(program, shape)
    for _ in range(program.draw(st.integers(1, stages))):
        kind = program.pick([k for k, (fits, _) in KINDS.items() if fits(program.extents[last])])
        last = KINDS[kind][1](program, last)
    outputs = [t for t in program.tensors if program.names[t].op is program.names[last].op]
    kept: list[str] = []
    if program.chance(10):
        middle = [t for t in program.tensors if t not in outputs and t.startswith("T")]
        other = program.names[program.pick(middle)].op if middle else None
        outputs += [t for t in program.tensors if program.names[t].op is other]
    if program.chance(8):
        middle = [t for t in program.tensors if t not in outputs and t.startswith("T")]
        kept = [program.pick(middle)] if middle else []
    program.do(f"kept = {kept}")
    program.do(f"outputs = {outputs}")
    program.do(f"s = te.create_schedule([{', '.join(f'{name}.op' for name in outputs)}])")


def placeholder(program: RandomProgram, shape: tuple[int, ...]) -> str:
    name = program.fresh("A")
    program.do(f"{name} = te.placeholder({shape}, name={name!r})")
    return keep(program, name, shape)


def keep(program: RandomProgram, name: str, shape: tuple[int, ...]) -> str:
    program.tensors.append(name)
    program.extents[name] = shape
    return name


def compute(program: RandomProgram, shape: tuple[int, ...], body: str) -> str:
    """A computation; `body` is in terms of i0, i1 ..."""
    name = program.fresh("T")
    params = "".join(f" i{i}," for i in range(len(shape))).rstrip(",")
    program.do(f"{name} = te.compute({shape}, lambda{params}: {body}, name={name!r})")
    return keep(program, name, shape)


def at(shape: Sequence[Any], **changed: str) -> str:
    """`i0, i1, ...`, with some of them changed: at(shape, i1="i1 + 1")."""
    return ", ".join(changed.get(f"i{i}", f"i{i}") for i in range(len(shape))) or "()"


def dimension(program: RandomProgram, shape: tuple[int, ...], at_least: int = 1) -> int:
    return program.pick([i for i, n in enumerate(shape) if n >= at_least])


def with_extent(shape: tuple[int, ...], d: int, extent: int) -> tuple[int, ...]:
    return (*shape[:d], extent, *shape[d + 1 :])


def elementwise(program: RandomProgram, source: str) -> str:
    shape = program.extents[source]
    others = [t for t in program.tensors if program.extents[t] == shape]
    other = program.pick(others)
    form = program.pick(
        [
            "{0}[{i}] + 1.0",
            "{0}[{i}] * 2.0 - {1}[{i}]",
            "te.max({0}[{i}], {1}[{i}])",
            "tir.Select({0}[{i}] > 0.0, {0}[{i}], {1}[{i}])",
        ]
    )
    return compute(program, shape, form.format(source, other, i=at(shape)))


def stencil(program: RandomProgram, source: str) -> str:
    """Neighbours along one dimension, from inside the tensor or with zeros around it."""
    shape = program.extents[source]
    d = dimension(program, shape, 2)
    reach = program.pick([1, 2]) if shape[d] > 2 else 1
    here, there = at(shape), at(shape, **{f"i{d}": f"i{d} + {reach}"})
    if program.chance(50):
        return compute(program, with_extent(shape, d, shape[d] - reach), f"{source}[{here}] - {source}[{there}]")
    guard = f"i{d} + {reach} < {shape[d]}"
    return compute(program, shape, f"{source}[{here}] + tir.if_then_else({guard}, {source}[{there}], 0.0)")


def padding(program: RandomProgram, source: str) -> str:
    shape = program.extents[source]
    d = dimension(program, shape)
    before, after = program.pick([1, 2, 0]), program.pick([1, 0, 3])
    guard = f"tir.all(i{d} >= {before}, i{d} < {before + shape[d]})"
    there = at(shape, **{f"i{d}": f"i{d} - {before}"})
    body = f"tir.if_then_else({guard}, {source}[{there}], 0.0)"
    return compute(program, with_extent(shape, d, before + shape[d] + after), body)


def moved(program: RandomProgram, source: str) -> str:
    """Reversed, strided, or with dimensions exchanged."""
    shape = program.extents[source]
    d = dimension(program, shape)
    how = program.pick(["reversed", "strided", "exchanged"])
    if how == "reversed":
        return compute(program, shape, f"{source}[{at(shape, **{f'i{d}': f'{shape[d] - 1} - i{d}'})}]")
    if how == "strided":
        return compute(
            program, with_extent(shape, d, -(-shape[d] // 2)), f"{source}[{at(shape, **{f'i{d}': f'i{d} * 2'})}]"
        )
    turned = (*shape[1:], shape[0])
    return compute(program, turned, f"{source}[{', '.join(f'i{(i - 1) % len(shape)}' for i in range(len(shape)))}]")


def reshaped(program: RandomProgram, source: str) -> str:
    """The first two dimensions as one."""
    shape = program.extents[source]
    indices = ", ".join([f"i0 // {shape[1]}", f"i0 % {shape[1]}", *(f"i{i - 1}" for i in range(2, len(shape)))])
    return compute(program, (shape[0] * shape[1], *shape[2:]), f"{source}[{indices}]")


def spread(program: RandomProgram, source: str) -> str:
    """A dimension more, along which all is the same."""
    shape = program.extents[source]
    extent = program.pick([1, 2, 3])
    return compute(program, (*shape, extent), f"{source}[{at(shape)}] * (i{len(shape)} + 1)")


def reduction(program: RandomProgram, source: str) -> str:
    """One dimension reduced."""
    shape = program.extents[source]
    d = dimension(program, shape)
    k = program.fresh("k")
    program.do(f"{k} = te.reduce_axis((0, {shape[d]}), name={k!r})")
    rest = (*shape[:d], *shape[d + 1 :])
    indices = [f"i{i}" for i in range(len(rest))]
    indices.insert(d, k)
    operator = program.pick(["sum", "max", "min"])
    return compute(program, rest, f"te.{operator}({source}[{', '.join(indices)}], axis={k})")


def convolution(program: RandomProgram, source: str) -> str:
    """A window sliding along one dimension, weighted, with zeros around the tensor or without."""
    shape = program.extents[source]
    d = dimension(program, shape)
    width = program.pick([n for n in (2, 3, 1, 5) if n <= shape[d]])
    weight = placeholder(program, (width,))
    k = program.fresh("k")
    program.do(f"{k} = te.reduce_axis((0, {width}), name={k!r})")
    if program.chance(50):
        there = at(shape, **{f"i{d}": f"i{d} + {k}"})
        body = f"te.sum({source}[{there}] * {weight}[{k}], axis={k})"
        return compute(program, with_extent(shape, d, shape[d] - width + 1), body)
    there = at(shape, **{f"i{d}": f"i{d} - {k}"})
    guard = f"tir.all(i{d} - {k} >= 0, i{d} - {k} < {shape[d]})"
    body = f"te.sum(tir.if_then_else({guard}, {source}[{there}], 0.0) * {weight}[{k}], axis={k})"
    return compute(program, with_extent(shape, d, shape[d] + width - 1), body)


def product(program: RandomProgram, source: str) -> str:
    """A matrix product over the last dimension."""
    shape = program.extents[source]
    columns = program.pick([3, 2, 1, 5])
    weight = placeholder(program, (shape[-1], columns))
    k = program.fresh("k")
    program.do(f"{k} = te.reduce_axis((0, {shape[-1]}), name={k!r})")
    rows = (*shape[:-1], columns)
    read = ", ".join([*(f"i{i}" for i in range(len(shape) - 1)), k])
    return compute(program, rows, f"te.sum({source}[{read}] * {weight}[{k}, i{len(rows) - 1}], axis={k})")


def pair(program: RandomProgram, source: str) -> str:
    """Two values for each element; the second one is there for later stages to read."""
    shape = program.extents[source]
    first, second = program.fresh("T"), program.fresh("T")
    params = "".join(f" i{i}," for i in range(len(shape))).rstrip(",")
    body = f"({source}[{at(shape)}] + 1.0, 0.0 - {source}[{at(shape)}])"
    program.do(f"{first}, {second} = te.compute({shape}, lambda{params}: {body}, name={first!r})")
    keep(program, second, shape)
    return keep(program, first, shape)


def pair_reduction(program: RandomProgram, source: str) -> str:
    """The sum and the largest of one dimension, where some condition holds, in one reduction."""
    shape = program.extents[source]
    d = dimension(program, shape)
    k = program.fresh("k")
    both = program.fresh("both")
    program.do(f"{k} = te.reduce_axis((0, {shape[d]}), name={k!r})")
    program.do(
        f"{both} = te.comm_reducer(lambda x, y: (x[0] + y[0], te.max(x[1], y[1])), "
        "lambda a, b: (tir.const(0, a), tir.const(-99, b)))"
    )
    rest = (*shape[:d], *shape[d + 1 :])
    indices = [f"i{i}" for i in range(len(rest))]
    indices.insert(d, k)
    read = f"{source}[{', '.join(indices)}]"
    where = program.pick(["", f", where={k} * 2 < {shape[d]}", f", where={read} > 0.0"])
    first, second = program.fresh("T"), program.fresh("T")
    params = "".join(f" i{i}," for i in range(len(rest))).rstrip(",")
    body = f"{both}(({read}, {read} * 2.0), axis={k}{where})"
    program.do(f"{first}, {second} = te.compute({rest}, lambda{params}: {body}, name={first!r})")
    keep(program, first, rest)
    return keep(program, second, rest)


Kind = tuple[Callable[[tuple[int, ...]], bool], Callable[[RandomProgram, str], str]]
KINDS: dict[str, Kind] = {
    "elementwise": (lambda shape: True, elementwise),
    "stencil": (lambda shape: max(shape, default=0) >= 2, stencil),
    "padding": (lambda shape: len(shape) > 0, padding),
    "moved": (lambda shape: len(shape) > 0, moved),
    "reshaped": (lambda shape: len(shape) > 1, reshaped),
    "spread": (lambda shape: len(shape) < 3 and math.prod(shape) * 3 <= LARGEST, spread),
    "reduction": (lambda shape: len(shape) > 0, reduction),
    "convolution": (lambda shape: len(shape) > 0, convolution),
    "pair": (lambda shape: True, pair),
    "pair_reduction": (lambda shape: len(shape) > 0, pair_reduction),
    "product": (lambda shape: len(shape) > 0 and math.prod(shape) <= LARGEST, product),
}


# Schedules. Stages are named by their position: s.stages[2].


def draw_schedule(program: RandomProgram, steps: int = 8, gpu: bool | None = None) -> None:
    """Up to `steps` transformations; with `gpu`, every stage that is computed by itself is a kernel."""
    s = program.schedule
    for _ in range(program.draw(st.integers(0, 2))):
        program.pick([cache_read, cache_write])(program)
    on_gpu = program.chance(50) if gpu is None else gpu
    threads = {"threadIdx.x": program.pick([2, 4, 3, 1]), "threadIdx.y": program.pick([2, 1, 3])}
    actions = [split, fuse, reorder, attach, attach, attach, inline, annotate, scope, pragma, unfused, tiled, virtual]
    if on_gpu:
        for i, stage in enumerate(s.stages):
            if stage.is_output:
                bind_nest(program, i, threads)
    actions += [fetch] * 2 if on_gpu else []
    actions += [padded, doubled]
    for _ in range(program.draw(st.integers(0, steps))):
        action = program.pick(actions)
        if action is fetch:
            fetch(program, threads)
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


def split(program: RandomProgram, stage: int | None = None, k: int | None = None) -> None:
    i = some_stage(program) if stage is None else stage
    if not leaves(program, i):
        return
    at_loop = program.pick(range(len(leaves(program, i)))) if k is None else k
    how, number = program.pick(["factor", "nparts"]), program.pick([2, 3, 4, 1, 5, 8])
    program.do(f"s.stages[{i}].split({loop(i, at_loop)}, {how}={number})")


def tiled(program: RandomProgram) -> None:
    i = some_stage(program)
    if len(leaves(program, i)) >= 2:
        x, y = program.draw(st.permutations(range(len(leaves(program, i)))))[:2]
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
    order = program.draw(st.permutations(range(count)))[: program.pick([count, 2])]
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


def settle(program: RandomProgram, name: str) -> None:
    """compute_at one of the readers of a cache."""
    ids = [stage.id for stage in program.schedule.stages]
    i = ids.index(program.schedule[program.names[name]].id)
    readers = [ids.index(r.id) for r in program.schedule.value.readers(ids[i])]
    if readers and program.chance(80):
        j = program.pick(readers)
        if leaves(program, j):
            k = program.pick(range(len(leaves(program, j))))
            program.do(f"s[{name}].compute_at(s.stages[{j}], {loop(j, k)})")


def padded(program: RandomProgram) -> None:
    """Storage whose rows do not start at the same place of a bank."""
    i = some_stage(program)
    count = len(program.schedule.stages[i].op.axis)
    if count:
        k, factor = program.pick(range(count)), program.pick([4, 8, 3])
        axis = f"s.stages[{i}].op.axis[{k}]"
        program.do(f"s.stages[{i}].storage_align({axis}, {factor}, {program.pick([1, 0, 2])})")


def doubled(program: RandomProgram) -> None:
    program.do(f"s.stages[{some_stage(program)}].double_buffer()")


def virtual(program: RandomProgram) -> None:
    """Two or three virtual threads over the outer part of a loop."""
    i = some_stage(program)
    if leaves(program, i):
        k = program.pick(range(len(leaves(program, i))))
        if program.do(f"s.stages[{i}].split({loop(i, k)}, nparts={program.pick([2, 3])})"):
            program.do(f"s.stages[{i}].bind({loop(i, k)}, te.thread_axis('vthread'))")


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
    """A block for each iteration of some loop of every stage that is no kernel yet."""
    for i in computed(program):
        stage = program.schedule.stages[i]
        if not isinstance(stage.placement, AtRoot) or any(stage.value.note(a).thread for a in stage.leaf_iter_vars):
            continue
        data = [k for k, axis in enumerate(stage.leaf_iter_vars) if axis.iter_type == 0]
        if not data:
            program.do(f"s.stages[{i}].fuse()")
        program.do(f"s.stages[{i}].bind({loop(i, data[0] if data else 0)}, te.thread_axis('blockIdx.x'))")


def fetch(program: RandomProgram, threads: dict[str, int]) -> None:
    """Share the loops of a stage inside a kernel, or of one that shall be a kernel, among the threads."""
    i = some_stage(program)
    stage = program.schedule.stages[i]
    count = len(stage.op.axis)
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


# Graphs of sizes that are known at the call.

Template = tuple[dict[str, str], str, tuple[str, ...]]  # shapes of inputs, that of the output T, lines but for those
TEMPLATES: tuple[Template, ...] = (
    (
        {"A": "(n, m)"},
        "(n, m)",
        (
            "U = te.compute((n, m), lambda i, j: A[i, j] + 1.0, name='U')",
            "T = te.compute((n, m), lambda i, j: U[i, j] * 2.0, name='T')",
        ),
    ),
    (
        {"A": "(n,)"},
        "(n - 2,)",
        (
            "U = te.compute((n,), lambda i: A[i] + 1.0, name='U')",
            "T = te.compute((n - 2,), lambda i: U[i] - U[i + 2], name='T')",
        ),
    ),
    (
        {"A": "(n, m)"},
        "(n,)",
        (
            "k = te.reduce_axis((0, m), name='k')",
            "U = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name='U')",
            "T = te.compute((n,), lambda i: U[i] * 2.0, name='T')",
        ),
    ),
    (
        {"A": "(n, m)", "W": "(m, 5)"},
        "(n, 5)",
        (
            "k = te.reduce_axis((0, m), name='k')",
            "U = te.compute((n, 5), lambda i, j: te.sum(A[i, k] * W[k, j], axis=k), name='U')",
            "T = te.compute((n, 5), lambda i, j: te.max(U[i, j], 0.0), name='T')",
        ),
    ),
    (
        {"A": "(n,)", "W": "(m,)"},
        "(n + 3 - m,)",
        (
            "k = te.reduce_axis((0, m), name='k')",
            "U = te.compute((n + 2,), lambda i: tir.if_then_else(tir.all(i >= 1, i < n + 1), A[i - 1], 0.0), name='U')",
            "T = te.compute((n + 3 - m,), lambda i: te.sum(U[i + k] * W[k], axis=k), name='T')",
        ),
    ),
)


def draw_symbolic_graph(program: RandomProgram) -> list[str]:
    """One of a few graphs over sizes n and m; gives the shapes of the arguments as text."""
    inputs, output, lines = program.pick(TEMPLATES)
    program.do("n, m = te.size_var('n'), te.size_var('m')")
    for name, shape in inputs.items():
        program.do(f"{name} = te.placeholder({shape}, name={name!r})")
    for line in lines:
        program.do(line)
    program.tensors = [*inputs, "T"]
    program.do("kept = []")
    program.do("outputs = ['T']")
    program.do("s = te.create_schedule(T.op)")
    return [*inputs.values(), output]
