"""Larger computations for random graphs: convolutions of images, scans, external operations."""

from __future__ import annotations

import math

from tests.schedule import random_externs
from tests.schedule.random_programs import (
    BOUNDS,
    RandomProgram,
    at,
    compute,
    keep,
    largest_of,
    placeholder,
)

WIDER = {"int8": "int32", "float16": "float32", "bfloat16": "float32"}


def image(program: RandomProgram, source: str) -> str:
    """A convolution of an image (channels, height, width): grouped or depthwise, with stride, dilation and padding.

    Sums may be of a wider type than what is multiplied.
    """
    channels, *extents = program.extents[source]
    groups = program.pick([g for g in (1, channels, 2) if channels % g == 0])
    filters = groups * program.pick([1, 2, 3])
    sizes, strides, dilations, pads, out = [], [], [], [], []
    for extent in extents:
        pad = program.pick([0, 1, 2])
        dilation = program.pick([1, 1, 2])
        size = program.pick([k for k in (3, 2, 1) if (k - 1) * dilation < extent + 2 * pad] or [1])
        stride = program.pick([1, 2, 3])
        sizes.append(size), strides.append(stride), dilations.append(dilation), pads.append(pad)
        out.append((extent + 2 * pad - (size - 1) * dilation - 1) // stride + 1)
    if any(pads) and program.chance(60):
        guards = " , ".join(f"i{d + 1} >= {pads[d]}, i{d + 1} < {pads[d] + extents[d]}" for d in range(2))
        wide = (channels, *(extent + 2 * pad for extent, pad in zip(extents, pads, strict=True)))
        read = f"{source}[i0, i1 - {pads[0]}, i2 - {pads[1]}]"
        source, pads = compute(program, wide, f"tir.if_then_else(tir.all({guards}), {read}, 0.0)"), [0, 0]
        extents = list(wide[1:])
    weight = placeholder(program, (filters, channels // groups, *sizes))
    axes = [program.fresh("k") for _ in range(3)]
    for axis, extent in zip(axes, (channels // groups, *sizes), strict=True):
        program.do(f"{axis} = te.reduce_axis((0, {extent}), name={axis!r})")
    c, y, x = axes
    group = f"i0 // {filters // groups}" if groups > 1 else "0"
    rows, columns = (f"i{d + 1} * {strides[d]} + {axes[d + 1]} * {dilations[d]} - {pads[d]}" for d in range(2))
    read = f"{source}[{group} * {channels // groups} + {c}, {rows}, {columns}]"
    if any(pads):
        inside = f"{rows} >= 0, {rows} < {extents[0]}, {columns} >= 0, {columns} < {extents[1]}"
        read = f"tir.if_then_else(tir.all({inside}), {read}, 0.0)"
    factor, sums = f"{weight}[i0, {c}, {y}, {x}]", program.dtype
    if sums in WIDER and program.chance(60):
        sums = WIDER[sums]
        read, factor = f"({read}).astype({sums!r})", f"{factor}.astype({sums!r})"
    order = program.permuted(axes)
    made = compute(program, (filters, *out), f"te.sum({read} * {factor}, axis=[{', '.join(order)}])")
    program.dtype = sums
    return made


def scan(program: RandomProgram, source: str) -> str:
    """A recurrence along the first dimension: sums, maxima, differences two rows apart, or two states at once."""
    shape = program.extents[source]
    rest = "".join(f", i{i}" for i in range(1, len(shape)))
    first_rows = program.pick([1, 2]) if shape[0] > 1 else 1
    forms = {
        "sums": "{p}[i0 - 1{r}] + {x}[i0{r}]",
        "maxima": "te.max({p}[i0 - 1{r}], {x}[i0{r}])",
        "differences": "{x}[i0{r}] - {p}[i0 - {k}{r}]",
    }
    chosen = [program.pick(list(forms)) for _ in range(program.pick([1, 1, 2]))]
    states, starts, steps = [], [], []
    for form in chosen:
        p, start, step = program.fresh("S"), program.fresh("first"), program.fresh("step")
        body = forms[form].format(p=p, x=source, r=rest, k=first_rows)
        params = ", ".join(f"i{i}" for i in range(len(shape)))
        program.do(f"{p} = te.placeholder({shape}, {program.dtype!r}, {p!r})")
        begin = f"te.compute({(first_rows, *shape[1:])}, lambda {params}: {source}[{at(shape)}], name={start!r})"
        program.do(f"{start} = {begin}")
        program.do(f"{step} = te.compute({shape}, lambda {params}: {body}, name={step!r})")
        states.append(p), starts.append(start), steps.append(step)
    names = [program.fresh("T") for _ in chosen]
    parts = (f"[{', '.join(part)}]" for part in (starts, steps, states))
    program.do(f"{', '.join(names)}, = te.scan({', '.join(parts)}, inputs=[{source}], name={names[0]!r})")
    op = program.names[names[0]].op
    BOUNDS[op] = shape[0] * largest_of(program.names[source].op)
    for name in names:
        keep(program, name, shape)
    return names[0]


def extern(program: RandomProgram, source: str) -> str:
    """An operation given by a statement; on a GPU, one of threads."""
    shape = program.extents[source]
    meaning = "threads" if program.on_gpu else program.pick(["branches", "running", "mirrored", "both"])
    names = [program.fresh("T") for _ in range(2 if meaning == "both" else 1)]
    shapes = f"[{', '.join([str(shape)] * len(names))}]"
    types = f"[{', '.join([repr(program.dtype)] * len(names))}]"
    program.do(
        f"{', '.join(names)}, = te.extern({shapes}, [{source}], externs.{meaning}, name={names[0]!r}, dtype={types})"
    )
    program.do(f"meanings[{names[0]!r}] = ({source!r}, {meaning!r})")
    op = program.names[names[0]].op
    BOUNDS[op] = random_externs.BOUNDS[meaning](math.prod(shape)) * largest_of(program.names[source].op)
    for name in names:
        keep(program, name, shape)
    return names[0]
