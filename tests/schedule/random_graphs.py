"""Random graphs of tensors: what a `RandomProgram` declares, and the default schedule of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tests.schedule import random_operators
from tests.schedule.random_programs import (
    RandomProgram,
    at,
    compute,
    dimension,
    draw_type,
    is_exact,
    keep,
    placeholder,
    with_extent,
)

SIZES = (1, 2, 3, 4, 5, 7, 8, 13)
LARGEST = 200  # elements of a tensor


def draw_graph(
    program: RandomProgram,
    stages: int = 4,
    ranks: Sequence[int] = (1, 2, 3),
    sizes: Sequence[int] = SIZES,
    first: str = "",
    largest: int = LARGEST,
) -> None:
    """Inputs and up to `stages` computations, each of which reads the one before; then the schedule `s`.

    One of them is of the kind `first`, where that is given and fits. Inputs have at most `largest` elements.
    """
    draw_type(program)
    shape: tuple[int, ...] = ()
    for _ in range(program.pick(ranks)):
        shape = (*shape, program.pick([n for n in sizes if math.prod(shape) * n <= largest]))
    last = placeholder(program, shape)
    count = program.between(1, stages)
    place = program.pick([0, count - 1])
    for number in range(count):
        fitting = [k for k, (fits, _) in KINDS.items() if fits(program.extents[last])]
        kind = first if number == place and first in fitting else program.pick(fitting)
        there, made = len(program.tensors), KINDS[kind][1](program, last)
        if is_exact(program, made):
            last = made
        else:
            del program.tensors[there:]
    if not last.startswith("T"):
        last = elementwise(program, last)
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


def elementwise(program: RandomProgram, source: str) -> str:
    shape = program.extents[source]
    others = [t for t in program.tensors if program.extents[t] == shape and program.names[t].dtype == program.dtype]
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
    return compute(program, (*shape, extent), f"{source}[{at(shape)}] * (i{len(shape)} + 1).astype({program.dtype!r})")


def reduction(program: RandomProgram, source: str) -> str:
    """One dimension reduced."""
    shape = program.extents[source]
    d = dimension(program, shape, 1)
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
    d = dimension(program, shape, 1)
    width = program.pick([n for n in (2, 3, 1, 5) if n <= shape[d]])
    stride, dilation = program.pick([1, 1, 2, 3]), program.pick([n for n in (1, 1, 2) if (width - 1) * n < shape[d]])
    weight = placeholder(program, (width,))
    k = program.fresh("k")
    program.do(f"{k} = te.reduce_axis((0, {width}), name={k!r})")
    if program.chance(50):
        there = at(shape, **{f"i{d}": f"i{d} * {stride} + {k} * {dilation}"})
        body = f"te.sum({source}[{there}] * {weight}[{k}], axis={k})"
        return compute(program, with_extent(shape, d, (shape[d] - (width - 1) * dilation - 1) // stride + 1), body)
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
    d = dimension(program, shape, 1)
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


def largest_place(program: RandomProgram, source: str) -> str:
    """The largest of one dimension, and the first place where it is, by its index or as an input says: two values."""
    shape = program.extents[source]
    d = dimension(program, shape, 1)
    places = placeholder(program, shape) if program.chance(50) else ""
    k, first = program.fresh("k"), program.fresh("first")
    program.do(f"{k} = te.reduce_axis((0, {shape[d]}), name={k!r})")
    program.do(
        f"{first} = te.comm_reducer(lambda x, y: (tir.Select(tir.any(x[1] > y[1], tir.all(x[1].equal(y[1]), "
        "x[0] < y[0])), x[0], y[0]), te.max(x[1], y[1])), lambda a, b: (tir.const(99, a), te.min_value(b)))"
    )
    rest = (*shape[:d], *shape[d + 1 :])
    indices = [f"i{i}" for i in range(len(rest))]
    indices.insert(d, k)
    place, value = program.fresh("T"), program.fresh("T")
    params = "".join(f" i{i}," for i in range(len(rest))).rstrip(",")
    where = f"{places}[{', '.join(indices)}]" if places else k
    body = f"{first}(({where}, {source}[{', '.join(indices)}]), axis={k})"
    program.do(f"{place}, {value} = te.compute({rest}, lambda{params}: {body}, name={place!r})")
    keep(program, place, rest)
    return keep(program, value, rest)


Kind = tuple[Callable[[tuple[int, ...]], bool], Callable[[RandomProgram, str], str]]
KINDS: dict[str, Kind] = {
    "elementwise": (lambda shape: True, elementwise),
    "stencil": (lambda shape: max(shape, default=0) >= 2, stencil),
    "padding": (lambda shape: len(shape) > 0, padding),
    "moved": (lambda shape: len(shape) > 0, moved),
    "reshaped": (lambda shape: len(shape) > 1 and shape[1] > 0, reshaped),
    "spread": (lambda shape: len(shape) < 3 and math.prod(shape) * 3 <= LARGEST, spread),
    "reduction": (lambda shape: max(shape, default=0) >= 1, reduction),
    "convolution": (lambda shape: max(shape, default=0) >= 1, convolution),
    "pair": (lambda shape: True, pair),
    "pair_reduction": (lambda shape: max(shape, default=0) >= 1, pair_reduction),
    "largest_place": (lambda shape: max(shape, default=0) >= 1, largest_place),
    "product": (lambda shape: len(shape) > 0 and shape[-1] > 0, product),
    "image": (lambda shape: len(shape) == 3 and min(shape) > 0, random_operators.image),
    "scan": (lambda shape: len(shape) > 0 and min(shape) > 0, random_operators.scan),
    "extern": (lambda shape: len(shape) > 0 and min(shape) > 0, random_operators.extern),
}


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
    (
        {"A": "(3, n, m)", "W": "(2, 3, 2, 1)"},
        "(2, (n + 1) // 2, m)",
        (
            "c, y = te.reduce_axis((0, 3), name='c'), te.reduce_axis((0, 2), name='y')",
            "U = te.compute((3, n + 1, m), lambda i, j, k: tir.if_then_else(j < n, A[i, j, k], 0.0), name='U')",
            "T = te.compute((2, (n + 1) // 2, m), lambda i, j, x: te.sum(U[c, j * 2 + y, x] * W[i, c, y, 0], "
            "axis=[c, y]), name='T')",
        ),
    ),
    (
        {"A": "(n, m)"},
        "(n, m)",
        (
            "S = te.placeholder((n, m), 'float32', 'S')",
            "U = te.compute((1, m), lambda t, i: A[0, i], name='U')",
            "V = te.compute((n, m), lambda t, i: S[t - 1, i] + A[t, i], name='V')",
            "T = te.scan(U, V, S, inputs=[A], name='T')",
        ),
    ),
    (
        {"A": "(n, m)"},
        "(n,)",
        (
            "k = te.reduce_axis((0, m), name='k')",
            "both = te.comm_reducer(lambda x, y: (x[0] + y[0], te.max(x[1], y[1])), "
            "lambda a, b: (tir.const(0, a), tir.const(-99, b)))",
            "U, V = te.compute((n,), lambda i: both((A[i, k], A[i, k] * 2.0), axis=k), name='U')",
            "T = te.compute((n,), lambda i: U[i] + V[i], name='T')",
        ),
    ),
)


def draw_symbolic_graph(program: RandomProgram, templates: Sequence[Template] = TEMPLATES) -> list[str]:
    """One of a few graphs over sizes n and m; returns the shapes of the arguments as text."""
    inputs, output, lines = program.pick(templates)
    program.do("n, m = te.size_var('n'), te.size_var('m')")
    for name, shape in inputs.items():
        program.do(f"{name} = te.placeholder({shape}, {'int32' if name == 'P' else 'float32'!r}, {name!r})")
    for line in lines:
        program.do(line)
    program.tensors = [*inputs, "T"]
    program.do("kept = []")
    program.do("outputs = ['T']")
    program.do("s = te.create_schedule(T.op)")
    return [*inputs.values(), output]
