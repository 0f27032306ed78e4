"""Reordered copies of a product's factors, by kernels before it, so that the terms of a sum are contiguous.

- A transposed copy of a matrix.
- Copies of both factors with one axis of the terms, such as the channels of an image, last.
- An unfolded copy (im2col) of a tensor read through windows: the terms of each window are contiguous, in the order of
  the other factor. The copy is larger by the size of the window, which pays for few windows and a large other factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import gcd
from typing import NamedTuple

from ..core.dtype import DType
from ..expr.nodes import IntImm, Load
from ..expr.traverse import loads, uses_any
from ..schedule.handle import ScheduleHandle
from ..tensor.axis import IterVar, thread_axis
from ..tensor.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from ..topi.templates.contraction import MatrixOperand
from ..tune.model.machine import Machine
from .dataflow import Dataflow, bytes_of, extent_of, is_element_wise, size
from .products import MatrixProduct, ProductAxes

Form = tuple[ProductAxes, MatrixProduct]
Factors = tuple[Tensor, Tensor]
_TRANSPOSED_TILE_SIZE = 64
"""Rows, and columns, of the tile that a block transposes."""
_TRANSPOSED_TILE_THREADS = (8, 32)
"""Threads of a block that transposes a tile, along y and x."""
_STORED_BYTES_PER_THREAD = 4
"""Bytes stored per thread of an unfolding kernel: each further element would be gathered from another address."""
_COPY_THREADS = 256
"""Threads per block of other copies, or elements per block of an unfolding kernel. Eight blocks fill a multiprocessor,
and few threads of the last block are idle."""


@dataclass(frozen=True)
class PreparedFactors:
    """The kernels before a product.

    Attributes
    ----------
    name, words : str
        The end of a way's name, and the beginning of its reason, which describe the copies.
    written : tuple of int
        The bytes that each kernel writes.
    copy : callable
        Schedules kernels that copy tensors of the program.
    unfold : callable
        Schedules the kernel that unfolds a factor, given both factors and the product; returns the new factors.
    placed : tuple of Operation
        Stages that the copies compute, so that they are not inlined.
    transposes : bool
        Whether the right factor of a plain product is transposed, which only warpgroups read faster.
    """

    name: str
    words: str
    written: tuple[int, ...]
    copy: Callable[[ScheduleHandle], None] = lambda s: None
    unfold: Callable[[ScheduleHandle, Factors, Tensor], Factors] = lambda s, factors, product: factors
    placed: tuple[Operation, ...] = ()
    transposes: bool = False

    def cycles(self, machine: Machine) -> float:
        """Return the cycles of kernels that read and write these bytes in memory."""
        rates, at = machine.rates, machine.fitted["copies"]
        copying = at.copy_factor * 2 * sum(self.written) / rates.memory_bytes_per_cycle / machine.multiprocessors
        return copying + len(self.written) * rates.launch_seconds * rates.clock_hertz


def copies_for(flow: Dataflow, form: Form, op: ComputeOp) -> Iterator[tuple[Form, PreparedFactors]]:
    """Yield the products of copied factors, with the copies."""
    if form[1].element and len(form[0].depth) == 1:
        yield from _with_transposed_factor(form, op)
    elif form[1].element:
        yield from _with_terms_last(flow, form, op)
        yield from _unfolded(form)


def _with_transposed_factor(form: Form, op: ComputeOp) -> Iterator[tuple[Form, PreparedFactors]]:
    """Yield the product of a transposed copy of the right factor, if its rows lie along the columns."""
    axes, of = form
    made = of.contraction
    if made.columns.along_depth or len(axes.columns) > 1:
        return
    wanted = (*(axis.var for axis in axes.batch), axes.depth[0].var, axes.columns[0].var)
    source = next((load.source for load in loads(*op.body) if load.indices == wanted), None)
    if isinstance(source, Tensor) and isinstance(source.op, PlaceholderOp):
        together = gcd(made.depth, of.vector // source.dtype.bytes)
        columns = replace(made.columns, along_depth=True, together=together)
        changed = axes, replace(of, contraction=replace(made, columns=columns))
        words = f"a transposed copy of {source.name}"
        copy = partial(_transpose, source=source, reader=op)
        yield changed, PreparedFactors("of a copy", words, (bytes_of(source),), copy, transposes=True)


def _transpose(s: ScheduleHandle, source: Tensor, reader: ComputeOp) -> None:
    """Copy a tensor with its last two dimensions exchanged: each block transposes a tile in shared memory."""
    copy = s.cache_read(source, "global", [reader])
    *batch, j, k = s[copy].transform_layout(lambda *i: [*i[:-2], i[-1], i[-2]])
    tile = s.cache_read(source, "shared", [copy])
    rows, columns = thread_axis("threadIdx.y"), thread_axis("threadIdx.x")
    (jo, ji), (ko, ki) = s[copy].split(j, factor=_TRANSPOSED_TILE_SIZE), s[copy].split(k, factor=_TRANSPOSED_TILE_SIZE)
    s[copy].reorder(*batch, jo, ko, ji, ki)
    block = s[copy].fuse(*batch, jo, ko)
    s[copy].bind(block, thread_axis("blockIdx.x"))
    s[tile].compute_at(s[copy], block)
    for stage, (slow, fast) in ((copy, (ji, ki)), (tile, s[tile].op.axis[-2:])):
        _, y = s[stage].split(slow, factor=_TRANSPOSED_TILE_THREADS[0])
        x, lanes = s[stage].split(fast, factor=_TRANSPOSED_TILE_SIZE // _TRANSPOSED_TILE_THREADS[1])
        s[stage].bind(y, rows)
        s[stage].bind(x, columns)
        s[stage].vectorize(lanes)
    s[tile].storage_align(s[tile].op.axis[-2], _TRANSPOSED_TILE_SIZE, 2)


class _Factor(NamedTuple):
    """A factor in memory, its dimension that becomes the last one, and the stage that pads it, if any."""

    source: Tensor
    dimension: int
    border: ComputeOp | None
    border_dimension: int


def _with_terms_last(flow: Dataflow, form: Form, op: ComputeOp) -> Iterator[tuple[Form, PreparedFactors]]:
    """Yield products of copies with an axis of the terms, such as the channels of a convolution, last."""
    axes, of = form
    made = of.contraction
    for axis in axes.depth:
        factors_read = [load for load in dict.fromkeys(loads(*op.body)) if isinstance(load.source, Tensor)]
        word = factors_read[0].source.dtype.bytes
        found = [_factor(flow, op, load, axis) for load in factors_read]
        if size(axis) * word % (2 * of.vector) or None in found:
            continue
        factors = tuple(each for each in found if each is not None)
        copied = tuple(each for each in factors if each.dimension != len(each.source.shape) - 1)
        if not copied:
            continue
        depth = (*(a for a in axes.depth if a is not axis), axis)
        rows, columns = (MatrixOperand(o.extent, True, of.vector // word) for o in (made.rows, made.columns))
        contraction = replace(made, rows=rows, columns=columns, period=size(axis))
        placed = tuple(each.border for each in factors if each.border is not None)
        words = "copies with neighbouring terms of " + " and ".join(each.source.name for each in copied)
        copy = partial(_copy_all, op=op, factors=factors, vector=of.vector)
        yield (
            (axes._replace(depth=depth), replace(of, contraction=contraction)),
            PreparedFactors("of a copy", words, tuple(bytes_of(e.source) for e in copied), copy, placed=placed),
        )


def _unfolded(form: Form) -> Iterator[tuple[Form, PreparedFactors]]:
    """Yield the product of one factor in place, with whole vectors of terms, and an unfolded copy of the other
    factor."""
    axes, of = form
    made = of.contraction
    factors, vector = (made.rows, made.columns), of.vector // DType(made.dtype).bytes
    whole = [each.along_depth and each.together == vector for each in factors]
    if made.period == 1 or whole.count(True) != 1:
        return
    which = whole.index(False)
    copied = MatrixOperand(factors[which].extent, True, vector)
    rows, columns = (made.rows, copied) if which else (copied, made.columns)
    contraction = replace(made, rows=rows, columns=columns, period=1)
    written = made.batch * copied.extent * made.depth * DType(made.dtype).bytes
    unfold = partial(_unfold, which=which, is_turned=not factors[which].along_depth)
    words = f"an unfolded copy of the {('left', 'right')[which]} factor"
    copies = PreparedFactors("of an unfolded copy", words, (written,), unfold=unfold)
    yield (axes, replace(of, contraction=contraction)), copies


def _unfold(s: ScheduleHandle, factors: Factors, product: Tensor, which: int, is_turned: bool) -> Factors:
    """Store a factor with its terms last, and return the factors that the product reads afterwards."""
    view = factors[which]
    if is_turned:
        s[view].transform_layout(lambda *i: [*i[:-2], i[-1], i[-2]])
    read, width = s.cache_read(view, "global", [product]), max(1, _STORED_BYTES_PER_THREAD // view.dtype.bytes)
    words, lanes = s[view].split(s[view].fuse(*s[view].leaf_iter_vars), factor=width)
    block, thread = s[view].split(words, factor=_COPY_THREADS // width)
    s[view].bind(block, thread_axis("blockIdx.x"))
    s[view].bind(thread, thread_axis("threadIdx.x"))
    s[view].vectorize(lanes)
    return (factors[0], read) if which else (read, factors[1])


def _factor(flow: Dataflow, op: ComputeOp, load: Load, axis: IterVar) -> _Factor | None:
    """Return the factor of a load; None if no dimension in memory is indexed by the axis alone."""
    dimension, source = _dimension(load, axis), load.source
    if dimension is None or not isinstance(source, Tensor):
        return None
    if isinstance(source.op, PlaceholderOp):
        return _Factor(source, dimension, None, dimension) if _is_constant(source) else None
    border = source.op
    if not isinstance(border, ComputeOp) or not is_element_wise(border) or len(border.outputs) > 1:
        return None
    if any(border in (t.op for t in other.input_tensors) for other in flow.bodies if other is not op):
        return None
    found = list(dict.fromkeys(loads(*border.values)))
    within = _dimension(found[0], border.axis[dimension]) if len(found) == 1 else None
    held = found[0].source if within is not None else None
    if within is None or not isinstance(held, Tensor) or not isinstance(held.op, PlaceholderOp):
        return None
    return _Factor(held, within, border, dimension) if _is_constant(held) else None


def _dimension(load: Load, axis: IterVar) -> int | None:
    """Return the only dimension of a load that an axis indexes, with stride 1; None for another use of the axis."""
    using = [d for d, index in enumerate(load.indices) if uses_any(index, {axis.var})]
    return using[0] if len(using) == 1 and load.indices[using[0]] is axis.var else None


def _is_constant(tensor: Tensor) -> bool:
    return all(isinstance(extent, IntImm) for extent in tensor.shape)


def _copy_all(s: ScheduleHandle, op: ComputeOp, factors: tuple[_Factor, ...], vector: int) -> None:
    """Copy each factor with one dimension last, and pad the copies."""
    for source, dimension, border, within in factors:
        if dimension != len(source.shape) - 1:
            _copy(s, source, dimension, op if border is None else border, vector)
        if border is not None:
            s[border].transform_layout(lambda *i, d=within: _last(i, d))


def _last(indices: tuple[object, ...], dimension: int) -> list[object]:
    return [*indices[:dimension], *indices[dimension + 1 :], indices[dimension]]


def _copy(s: ScheduleHandle, source: Tensor, dimension: int, reader: ComputeOp, vector: int) -> None:
    """Copy a tensor with one dimension last: neighbouring threads read neighbouring elements, and each writes a
    vector."""
    copy = s.cache_read(source, "global", [reader])
    *axes, last = s[copy].transform_layout(lambda *i: _last(i, dimension))
    rest, lanes = s[copy].split(last, factor=gcd(extent_of(source.shape[dimension]), vector // source.dtype.bytes))
    axes.insert(dimension, rest)
    s[copy].reorder(*axes, lanes)
    block, thread = s[copy].split(s[copy].fuse(*axes), factor=_COPY_THREADS)
    s[copy].bind(block, thread_axis("blockIdx.x"))
    s[copy].bind(thread, thread_axis("threadIdx.x"))
    s[copy].vectorize(lanes)
