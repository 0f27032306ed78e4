"""Sorting along a dimension, by a bitonic network over (value, place) pairs: a block or a processor sorts a row.

The network (Batcher, "Sorting networks and their applications", 1968) compares fixed pairs of positions. So all threads
of a block work at every step. Places break ties, which makes the order stable. For a grid of threads if the current
target is one, else for processors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..core.target import Target
from ..expr import operators as o
from ..expr.nodes import Expr
from ..loops import ir_builder
from ..loops.declare import decl_buffer
from ..loops.nodes import Buffer, Stmt
from ..tensor.axis import thread_axis
from ..tensor.extern import ExternOp
from ..tensor.tensor import Tensor, compute
from .argument_checks import dimension, element_type, flag, index_tensor, integer, known, one_of, sizes, tensor
from .shapes import reshape
from .statements import product, stored
from .tag import INJECTIVE

_THREADS = 256


def sort(data: Tensor, axis: int = -1, is_ascend: Any = 1) -> Tensor:
    """Sort along a dimension; NaN counts as the largest value.

    Parameters
    ----------
    data
        A tensor of numbers, with a constant extent along `axis`.
    axis
        The dimension.
    is_ascend
        Whether the smallest comes first.

    Returns
    -------
    A tensor of the shape and type of `data`.

    Raises
    ------
    UserError
        For bool, and for an extent that is not constant.
    """
    source, at, length = _row(data, axis, "sort")
    values, _ = _sorted(source, at, length, flag(is_ascend, "is_ascend", "sort"))
    return _back(source, at, values, length, source.dtype, "sort")


def argsort(
    data: Tensor, valid_count: Any = None, axis: int = -1, is_ascend: Any = 1, dtype: Any = "float32"
) -> Tensor:
    """Find the places of the elements in sorted order; equal ones keep theirs.

    Parameters
    ----------
    data
        A tensor of numbers, with a constant extent along `axis`.
    valid_count
        For each row, how many elements are sorted: a tensor of integers of the shape of `data` without `axis`. The
        elements behind them keep their places. By default all elements are sorted.
    axis
        The dimension.
    is_ascend
        Whether the smallest comes first.
    dtype
        The type of the result.

    Returns
    -------
    A tensor of the shape of `data`.

    Raises
    ------
    UserError
        For bool, for an extent that is not constant, and for a `valid_count` of another shape.
    """
    source, at, length = _row(data, axis, "argsort")
    valid = None if valid_count is None else _counts(valid_count, source, at)
    _, places = _sorted(source, at, length, flag(is_ascend, "is_ascend", "argsort"), valid)
    return _back(source, at, places, length, element_type(dtype, "argsort"), "argsort")


def topk(
    data: Tensor, k: int = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False, dtype: Any = "int64"
) -> Any:
    """Find the largest elements along a dimension, and their places.

    Parameters
    ----------
    data
        A tensor of numbers, with a constant extent along `axis`.
    k
        How many are wanted; all of them if it is less than 1.
    axis
        The dimension.
    ret_type
        "both", "values" or "indices".
    is_ascend
        Whether the smallest are found instead.
    dtype
        The type of the places.

    Returns
    -------
    [values, indices], or the one that is asked for; the best come first.

    Raises
    ------
    UserError
        If there are fewer elements, for bool, or if the extent is not constant.
    """
    wanted = one_of(ret_type, ("both", "values", "indices"), "ret_type", "topk")
    source, at, length = _row(data, axis, "topk")
    count = integer(k, "k", "topk")
    if count > length:
        raise UserError(
            f"k={k} is more than the {length} elements", primitive="topk", fix=f"give a number up to {length}"
        )
    count = length if count < 1 else count
    values, places = _sorted(source, at, length, flag(is_ascend, "is_ascend", "topk"))
    made = [
        _back(source, at, values, count, source.dtype, "topk_values"),
        _back(source, at, places, count, element_type(dtype, "topk"), "topk_indices"),
    ]
    return made if wanted == "both" else made[wanted == "indices"]


def _row(data: Any, axis: Any, primitive: str) -> tuple[Tensor, int, int]:
    source = tensor(data, "data", primitive)
    at = dimension(axis, source.ndim, primitive)
    if source.dtype == "bool":
        raise UserError(
            f"data {source.name!r} has type bool, but only numbers are ordered",
            primitive=primitive,
            fix='convert it: topi.cast(data, "int8")',
        )
    (length,) = sizes(source, [at], primitive)
    sizes(source, range(source.ndim), primitive)
    return source, at, length


def _counts(valid_count: Any, source: Tensor, at: int) -> Tensor:
    """The number of elements that are sorted, one for each row."""
    counts = index_tensor(valid_count, "valid_count", "argsort")
    shape = [n for d, n in enumerate(source.shape) if d != at]
    if [known(n) for n in counts.shape] != [known(n) for n in shape]:
        raise UserError(
            f"valid_count {counts.name!r} has the shape {list(counts.shape)}, which is not a count per row",
            primitive="argsort",
            fix=f"give a tensor of shape {shape}",
        )
    return reshape(counts, [product(shape)])


def _sorted(
    source: Tensor, at: int, length: int, ascending: bool, valid: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return sorted values and their positions for each row, padded to a power of two; only the first `valid` elements
    count, if given."""
    shape = [n for d, n in enumerate(source.shape) if d != at]
    count = 1
    for n in sizes(source, [d for d in range(source.ndim) if d != at], "sort"):
        count *= n
    padded = max(2, 1 << (length - 1).bit_length())

    def element(row: Any, i: Any) -> Expr:
        if not count:  # the tensor has no rows
            return o.const(0, source.dtype)
        rest: list[Any] = []
        for n in reversed(shape):
            rest.append(o.floormod(row, n))
            row = o.floordiv(row, n)
        rest.reverse()
        return source(*rest[:at], i, *rest[at:])

    rows: Tensor = compute((count, length), element, "T_sort_rows", INJECTIVE, {"store": True})
    current = Target.current()
    ins = [decl_buffer((count, length), str(source.dtype), "rows")]
    read = [rows]
    if valid is not None:
        read.append(stored(valid))
        ins.append(decl_buffer((count,), str(valid.dtype), "counts"))
    outs = [
        decl_buffer((count, padded), kind, name) for kind, name in ((str(source.dtype), "values"), ("int32", "places"))
    ]
    given = ins, outs[0], outs[1], (count, length, padded), ascending
    if current is not None and current.is_gpu:
        statement = _on_grid(*given, current)
    else:
        statement = _on_processors(*given)
    shapes = ((o.const(count), o.const(padded)),) * 2
    op = ExternOp(
        "T_sort", tuple(read), shapes, (source.dtype, outs[1].dtype), statement, tuple(ins), tuple(outs), "sort"
    )
    return op.output(0), op.output(1)


def _back(source: Tensor, at: int, rows: Tensor, count: int, kind: Any, name: str) -> Tensor:
    """The first `count` of each row, in the layout of the data."""
    shape = [*source.shape[:at], o.const(count), *source.shape[at + 1 :]]

    def element(*i: Any) -> Expr:
        row: Any = o.const(0)
        for d, n in enumerate(source.shape):
            row = row if d == at else row * n + i[d]
        return o.cast(kind, rows(row, i[at]))

    made: Tensor = compute(shape, element, f"T_{name}", INJECTIVE)
    return made


def _before(length: Any, ascending: bool, a: tuple[Expr, Expr], b: tuple[Expr, Expr]) -> Expr:
    """Return whether the pair `a` of value and position comes before `b`: padding is last, equal values keep their
    order."""
    (x, i), (y, j) = a, b
    ahead = o.less(x, y) if ascending else o.greater(x, y)
    equal = o.equal(x, y)
    if x.dtype.is_float:
        no_x, no_y = o.not_equal(x, x), o.not_equal(y, y)
        last, first = (no_y, no_x) if ascending else (no_x, no_y)
        ahead = o.logical_or(ahead, o.logical_and(last, o.logical_not(first)))
        equal = o.logical_or(equal, o.logical_and(no_x, no_y))
    ordered = o.logical_or(ahead, o.logical_and(equal, o.less(i, j)))
    pad_i, pad_j = o.greater_equal(i, length), o.greater_equal(j, length)
    both = o.logical_and(o.logical_not(pad_i), o.logical_not(pad_j))
    one = o.logical_and(pad_j, o.logical_or(o.logical_not(pad_i), o.less(i, j)))
    return o.logical_or(o.logical_and(both, ordered), one)


Each = Callable[[int, Callable[[Any], None]], None]
"""Runs a function for each of a number of indices, by all threads together."""


def _network(
    ib: ir_builder.IRBuilder,
    arrays: tuple[Any, Any],
    lengths: tuple[Any, int],
    up: bool,
    each: Each,
    wait: Callable[[], None],
) -> None:
    """Compare and exchange pairs of elements, `padded / 2` of them at each step."""
    (values, places), (length, padded) = arrays, lengths
    levels = padded.bit_length() - 1
    with ib.for_range(0, levels, "level") as level, ib.for_range(0, level + 1, "step") as step:
        distance = ib.let("distance", o.shift_left(o.const(1), level - step))

        def exchange(pair: Any) -> None:
            first = ib.let("first", o.floordiv(pair, distance) * distance * 2 + o.floormod(pair, distance))
            second = ib.let("second", first + distance)
            a = ib.let("a", values[first]), ib.let("i", places[first])
            b = ib.let("b", values[second]), ib.let("j", places[second])
            rising = o.equal(o.bitwise_and(o.shift_right(first, level + 1), 1), 0)
            swap = ib.let("swap", o.select(rising, _before(length, up, b, a), _before(length, up, a, b)))
            # Without a branch: threads synchronise between the stores, because the compiler cannot distinguish their
            # addresses.
            for array, x, y in ((values, a[0], b[0]), (places, a[1], b[1])):
                array[first] = o.select(swap, y, x)
                array[second] = o.select(swap, x, y)

        each(padded // 2, exchange)
        wait()


class _Part:
    """A row of a two-dimensional buffer, or a buffer of one dimension."""

    def __init__(self, buffer: Any, row: Any = None) -> None:
        self.buffer, self.row = buffer, row

    def __getitem__(self, i: Any) -> Expr:
        found: Expr = self.buffer[i] if self.row is None else self.buffer[self.row, i]
        return found

    def __setitem__(self, i: Any, value: Any) -> None:
        self.buffer[i if self.row is None else (self.row, i)] = value


def _valid(ib: ir_builder.IRBuilder, given: list[Buffer], row: Any, length: int) -> Any:
    """How many elements of a row are sorted."""
    if len(given) == 1:
        return length
    return ib.let("valid", o.minimum(o.cast("int32", ib.buffer_ptr(given[1])[row]), length))


def _on_grid(
    given: list[Buffer], values: Buffer, places: Buffer, sizes: tuple[int, int, int], ascending: bool, target: Target
) -> Stmt:
    """A block sorts a row, in shared memory if it fits."""
    count, length, padded = sizes
    ib = ir_builder.create()
    source, out, where = (ib.buffer_ptr(b) for b in (given[0], values, places))
    row, thread = thread_axis("blockIdx.x"), thread_axis("threadIdx.x")
    threads = min(_THREADS, padded // 2)
    ib.scope_attr(row, "thread_extent", count)
    small = padded * (values.dtype.bits // 8 + 4) <= target.shared_bytes
    if small:
        shared = (ib.allocate(str(b.dtype), padded, f"{b.name}_shared", scope="shared") for b in (values, places))
        arrays = next(shared), next(shared)
    ib.scope_attr(thread, "thread_extent", threads)
    held = (_Part(arrays[0]), _Part(arrays[1])) if small else (_Part(out, row.var), _Part(where, row.var))

    def each(total: int, work: Callable[[Any], None]) -> None:
        with ib.for_range(0, -(-total // threads), "part") as part:
            work(part * threads + thread.var)

    def wait() -> None:
        ib.barrier("shared" if small else "global")

    def load(i: Any) -> None:
        held[0][i] = source[row.var, o.minimum(i, length - 1)]
        held[1][i] = i

    valid = _valid(ib, given, row.var, length)
    each(padded, load)
    wait()
    _network(ib, held, (valid, padded), ascending, each, wait)
    if small:

        def store(i: Any) -> None:
            out[row.var, i] = held[0][i]
            where[row.var, i] = held[1][i]

        each(padded, store)
    return ib.get()


def _on_processors(
    given: list[Buffer], values: Buffer, places: Buffer, sizes: tuple[int, int, int], ascending: bool
) -> Stmt:
    """Processors sort rows."""
    count, length, padded = sizes
    ib = ir_builder.create()
    source, out, where = (ib.buffer_ptr(b) for b in (given[0], values, places))

    def each(total: int, work: Callable[[Any], None]) -> None:
        with ib.for_range(0, total, "i") as i:
            work(i)

    with ib.for_range(0, count, "row", kind="parallel") as row:
        held = _Part(out, row), _Part(where, row)

        def load(i: Any) -> None:
            held[0][i] = source[row, o.minimum(i, length - 1)]
            held[1][i] = i

        valid = _valid(ib, given, row, length)
        each(padded, load)
        _network(ib, held, (valid, padded), ascending, each, lambda: None)
    return ib.get()


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
