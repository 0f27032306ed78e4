"""Random graphs as users declare them: stages that read any earlier ones, of several types, with several results.

`random_graphs` draws chains, in which a stage reads the one before; here diamonds, stages that two reductions read,
softmax and attention, gathers, masks and casts come about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tests.schedule.random_graphs import moved, reshaped
from tests.schedule.random_operators import scan
from tests.schedule.random_programs import (
    BOUNDS,
    EXACT,
    RandomProgram,
    at,
    compute,
    dimension,
    keep,
    largest_of,
    placeholder,
)

Shape = tuple[int, ...]
FLOATS = ("float32", "float16", "bfloat16", "float64")
TYPES = (*FLOATS, "float32", "float32", "int32", "int8", "uint8", "int64")
WORK = 1 << 14
"""Iterations of a stage."""


def draw_dag(program: RandomProgram, stages: int, sizes: Sequence[int], ranks: Sequence[int], largest: int) -> None:
    """Up to `stages` stages over an input of at most `largest` elements; the results are what no stage reads."""
    program.dtype = program.pick(TYPES)
    shape: Shape = ()
    for _ in range(program.pick(ranks)):
        shape = (*shape, program.pick([n for n in sizes if math.prod(shape) * n <= largest]))
    pool = [placeholder(program, shape)]
    for _ in range(stages):
        source = program.pick(pool[-3:])
        program.dtype = str(program.names[source].dtype)
        fitting = [kind for kind, (fits, _) in KINDS.items() if fits(program.extents[source])]
        there = len(program.tensors)
        made = KINDS[program.pick(fitting)][1](program, source, pool)
        op = program.names[made].op
        if largest_of(op) <= EXACT[str(op.dtypes[0])] and math.prod(program.extents[made]) <= 4 * largest:
            pool.append(made)
        else:
            del program.tensors[there:]
            pool = [name for name in pool if name in program.tensors]
    if len(pool) == 1 or not pool[-1].startswith("T"):
        program.dtype = str(program.names[pool[-1]].dtype)
        pool.append(compute(program, program.extents[pool[-1]], f"{pool[-1]}[{at(program.extents[pool[-1]])}]"))
    ops = {name: program.names[name].op for name in program.tensors if name.startswith("T")}
    read = {t.op for op in ops.values() for t in op.input_tensors}
    last = ops[pool[-1]]
    others = list(dict.fromkeys(op for op in ops.values() if op not in read and op is not last))
    if program.chance(15):
        others = list(dict.fromkeys([*others, program.pick(list(ops.values()))]))
    taken = [*(op for op in others[: program.pick([0, 1, 2])] if op is not last), last]
    program.do("kept = []")
    program.do(f"outputs = {[name for op in taken for name, each in ops.items() if each is op]}")


def clipped(program: RandomProgram, shape: Shape, body: str) -> str:
    """A computation whose results are at most 2, so that later sums stay exact; `body` is exact itself."""
    low = "0.0" if program.dtype == "uint8" else "-2.0"
    low, high = (f"tir.const({end.removesuffix('.0')}, {program.dtype!r})" for end in (low, "2.0"))
    there = compute(program, shape, f"te.max(te.min({body}, {high}), {low})")
    op = program.names[there].op
    if largest_of(op) <= EXACT[program.dtype]:
        BOUNDS[op] = 2
    return there


def partner(program: RandomProgram, shape: Shape, pool: list[str]) -> str:
    """An element of another tensor for each index of a shape: of the same shape, or spread over some dimensions."""
    fitting = []
    for name in pool:
        dims = _within(program.extents[name], shape)
        if dims is not None and str(program.names[name].dtype) == program.dtype:
            fitting.append(f"{name}[{', '.join(f'i{d}' for d in dims) or '()'}]")
    if fitting and program.chance(75):
        return program.pick(fitting)
    dims = [d for d in range(len(shape)) if program.chance(50)]
    other = placeholder(program, tuple(shape[d] for d in dims))
    pool.insert(0, other)
    return f"{other}[{', '.join(f'i{d}' for d in dims) or '()'}]"


def _within(shape: Shape, whole: Shape) -> list[int] | None:
    """The dimensions of `whole` that a shape has, in order; None if it has others."""
    dims: list[int] = []
    for extent in shape:
        found = next((d for d in range(dims[-1] + 1 if dims else 0, len(whole)) if whole[d] == extent), None)
        if found is None:
            return None
        dims.append(found)
    return dims


def mixed(program: RandomProgram, source: str, pool: list[str]) -> str:
    """Elements of two tensors, or of three."""
    shape = program.extents[source]
    a, b, c = f"{source}[{at(shape)}]", partner(program, shape, pool), partner(program, shape, pool)
    forms = ["{a} + {b}", "{a} * {b}", "te.max({a}, {b})", "tir.Select({a} > {b}, {a}, {c})", "{a} * {b} + {c}"]
    if program.dtype != "uint8":
        forms += ["{a} - {b}", "{a} - {b}", "te.max({a}, -{a}) - {b}", "({a} - {b}) * ({a} - {c})"]
    return clipped(program, shape, program.pick(forms).format(a=a, b=b, c=c))


def _axes(program: RandomProgram, shape: Shape) -> dict[int, str]:
    """Axes of a reduction, by the dimension of the operand: the last one, or any of them in any order."""
    dims = [len(shape) - 1] if program.chance(60) else program.permuted(range(len(shape)))[: program.pick([1, 2, 3])]
    made = {}
    for d in dims:
        made[d] = program.fresh("k")
        program.do(f"{made[d]} = te.reduce_axis((0, {shape[d]}), name={made[d]!r})")
    return made


def reduced(program: RandomProgram, source: str, pool: list[str]) -> str:
    """A reduction over one axis or several, of a tensor, of a product of two or of several values at once."""
    shape = program.extents[source]
    axes = _axes(program, shape)
    rest = tuple(n for d, n in enumerate(shape) if d not in axes)
    places = iter(range(len(rest)))
    changed = {f"i{d}": axes.get(d) or f"i{next(places)}" for d in range(len(shape))}
    read = f"{source}[{at(shape, **changed)}]"
    listed = f"[{', '.join(axes.values())}]"
    if program.dtype in EXACT and program.chance(20):
        both, first, second = program.fresh("both"), program.fresh("T"), program.fresh("T")
        least = 0 if program.dtype == "uint8" else -99
        program.do(
            f"{both} = te.comm_reducer(lambda x, y: (x[0] + y[0], te.max(x[1], y[1])), "
            f"lambda a, b: (tir.const(0, a), tir.const({least}, b)))"
        )
        params = "".join(f" i{i}," for i in range(len(rest))).rstrip(",")
        body = f"{both}(({read}, {read} + {read}), axis={listed})"
        program.do(f"{first}, {second} = te.compute({rest}, lambda{params}: {body}, name={first!r})")
        keep(program, first, rest)
        return keep(program, second, rest)
    twins = [t for t in pool if program.extents[t] == shape and str(program.names[t].dtype) == program.dtype]
    twin = f"{program.pick(twins)}[{at(shape, **changed)}]"
    terms = (
        [read, read, f"{read} * {twin}"] if program.dtype == "uint8" else [read, f"{read} * {twin}", f"{read} - {twin}"]
    )
    condition = f", where={next(iter(axes.values()))} * 2 < {max(rest, default=3)}" if program.chance(10) else ""
    operator = program.pick(["sum", "sum", "max", "min"])
    return compute(program, rest, f"te.{operator}({program.pick(terms)}, axis={listed}{condition})")


def contracted(program: RandomProgram, source: str, pool: list[str]) -> str:
    """A product over the last dimension, with a weight of some order or another tensor, as in scores of attention."""
    shape = program.extents[source]
    k = program.fresh("k")
    program.do(f"{k} = te.reduce_axis((0, {shape[-1]}), name={k!r})")
    batch = shape[:-2] if len(shape) > 2 and program.chance(50) else ()
    others = [
        t for t in pool
        if program.extents[t][:-2] == batch and len(program.extents[t]) == len(batch) + 2
        and shape[-1] in program.extents[t][-2:] and str(program.names[t].dtype) == program.dtype
    ]  # fmt: skip
    if not others or program.chance(40):
        columns = program.pick([n for n in (4, 1, 7, 16, 32) if math.prod(shape) * n <= WORK] or [1])
        over = (columns, shape[-1]) if program.chance(50) else (shape[-1], columns)
        other = placeholder(program, (*batch, *over))
        pool.insert(0, other)
    else:
        other = program.pick(others)
    *_, p, q = program.extents[other]
    last = q == shape[-1]
    out = (*shape[:-1], p if last else q)
    if math.prod(out) * shape[-1] > WORK:
        return clipped(program, shape, f"{source}[{at(shape)}]")
    column = f"i{len(out) - 1}"
    left = ", ".join([*(f"i{d}" for d in range(len(out) - 1)), k])
    right = ", ".join([*(f"i{d}" for d in range(len(batch))), *((column, k) if last else (k, column))])
    parts, sums = [f"{source}[{left}]", f"{other}[{right}]"], program.dtype
    if sums in ("float16", "bfloat16", "int8") and program.chance(60):
        sums = "int32" if sums == "int8" else "float32"
        parts = [f"{part}.astype({sums!r})" for part in parts]
    made = compute(program, out, f"te.sum({parts[0]} * {parts[1]}, axis={k})")
    program.dtype = sums
    return made


def transposed(program: RandomProgram, source: str, pool: list[str]) -> str:
    shape = program.extents[source]
    order = program.permuted(range(len(shape)))
    read = ", ".join(f"i{order.index(d)}" for d in range(len(shape)))
    return compute(program, tuple(shape[d] for d in order), f"{source}[{read}]")


def gathered(program: RandomProgram, source: str, pool: list[str]) -> str:
    """Rows by the places that an input lists, whose values lie within the tensor."""
    shape, kind = program.extents[source], program.dtype
    d = dimension(program, shape, 1)
    program.dtype = program.pick(["int32", "int64", "uint8", "int8"])
    rank = program.pick([1, 1, 2])
    places = placeholder(program, tuple(program.pick([1, 3, 8, 5]) for _ in range(rank)))
    program.dtype = kind
    program.do(f"limits[{places!r}] = {source}.shape[{d}]")
    index = f"{places}[{', '.join(f'i{d + i}' for i in range(rank))}]"
    read = [*(f"i{i}" for i in range(d)), index, *(f"i{i + rank}" for i in range(d, len(shape) - 1))]
    out = (*shape[:d], *program.extents[places], *shape[d + 1 :])
    return compute(program, out, f"{source}[{', '.join(read)}]")


def masked(program: RandomProgram, source: str, pool: list[str]) -> str:
    """A stage of truth values, and a stage that chooses by it."""
    shape = program.extents[source]
    bound = partner(program, shape, pool)
    mask = compute(program, shape, f"{source}[{at(shape)}] > {bound}")
    return compute(program, shape, f"tir.Select({mask}[{at(shape)}], {source}[{at(shape)}], {bound})")


def cast(program: RandomProgram, source: str, pool: list[str]) -> str:
    shape = program.extents[source]
    signed = program.dtype == "uint8"
    kind = program.pick([t for t in TYPES if t != program.dtype and (signed or t != "uint8")])
    body = f"{source}[{at(shape)}].astype({kind!r})"
    if largest_of(program.names[source].op) <= 2:
        program.dtype = kind
    return compute(program, shape, body if program.dtype == kind else f"{source}[{at(shape)}]")


def windowed(program: RandomProgram, source: str, pool: list[str]) -> str:
    """A sum or a maximum of neighbours along the last dimensions, with zeros around the tensor."""
    shape = program.extents[source]
    dims = range(max(0, len(shape) - program.pick([1, 2])), len(shape))
    width, pad = program.pick([(3, 1), (2, 0), (5, 2), (3, 0)])
    if any(shape[d] + 2 * pad < width for d in dims):
        width, pad = 1, 0
    axes = {d: program.fresh("k") for d in dims}
    for k in axes.values():
        program.do(f"{k} = te.reduce_axis((0, {width}), name={k!r})")
    there = {f"i{d}": f"i{d} + {k} - {pad}" for d, k in axes.items()}
    read = f"{source}[{at(shape, **there)}]"
    if pad:
        inside = ", ".join(f"i{d} + {k} >= {pad}, i{d} + {k} < {shape[d] + pad}" for d, k in axes.items())
        read = f"tir.if_then_else(tir.all({inside}), {read}, tir.const(0, {program.dtype!r}))"
    out = tuple(n + 2 * pad - width + 1 if d in axes else n for d, n in enumerate(shape))
    return compute(program, out, f"te.{program.pick(['sum', 'max'])}({read}, axis=[{', '.join(axes.values())}])")


def triangular(program: RandomProgram, source: str, pool: list[str]) -> str:
    """Sums up to each place of the last dimension."""
    shape = program.extents[source]
    if math.prod(shape) * shape[-1] > WORK:
        return clipped(program, shape, f"{source}[{at(shape)}]")
    k, last = program.fresh("k"), len(shape) - 1
    program.do(f"{k} = te.reduce_axis((0, {shape[-1]}), name={k!r})")
    read = f"{source}[{at(shape, **{f'i{last}': k})}]"
    if program.chance(50):
        return compute(program, shape, f"te.sum({read}, axis={k}, where={k} <= i{last})")
    return compute(
        program, shape, f"te.sum(tir.Select({k} <= i{last}, {read}, tir.const(0, {program.dtype!r})), axis={k})"
    )


def joined(program: RandomProgram, source: str, pool: list[str]) -> str:
    """Two tensors after one another along a dimension."""
    shape = program.extents[source]
    d = dimension(program, shape)
    twins = [t for t in pool if program.extents[t] == shape and str(program.names[t].dtype) == program.dtype]
    there = at(shape, **{f"i{d}": f"i{d} - {shape[d]}"})
    body = f"tir.if_then_else(i{d} < {shape[d]}, {source}[{at(shape)}], {program.pick(twins)}[{there}])"
    return compute(program, (*shape[:d], 2 * shape[d], *shape[d + 1 :]), body)


Kind = tuple[Callable[[Shape], bool], Callable[[RandomProgram, str, list[str]], str]]
KINDS: dict[str, Kind] = {
    "mixed": (lambda shape: True, mixed),
    "mixed again": (lambda shape: True, mixed),
    "reduced": (lambda shape: len(shape) > 0, reduced),
    "reduced again": (lambda shape: len(shape) > 1, reduced),
    "contracted": (lambda shape: len(shape) > 1, contracted),
    "transposed": (lambda shape: len(shape) > 1, transposed),
    "gathered": (lambda shape: max(shape, default=0) > 0, gathered),
    "masked": (lambda shape: True, masked),
    "cast": (lambda shape: True, cast),
    "windowed": (lambda shape: len(shape) > 0, windowed),
    "triangular": (lambda shape: len(shape) > 0, triangular),
    "joined": (lambda shape: len(shape) > 0, joined),
    "moved": (lambda shape: min(shape, default=0) > 0, lambda program, source, pool: moved(program, source)),
    "reshaped": (
        lambda shape: len(shape) > 1 and shape[1] > 0,
        lambda program, source, pool: reshaped(program, source),
    ),
    "scan": (lambda shape: min(shape, default=0) > 0, lambda program, source, pool: scan(program, source)),
}
