"""Operators given by statements: loops of a processor, or kernels of a grid of threads, for the current target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.target import Target
from ..expr import operators as o
from ..loops import ir_builder
from ..loops.declare import decl_buffer
from ..tensor.axis import thread_axis
from ..tensor.extern import ExternOp
from ..tensor.tensor import ComputeOp, Tensor, compute
from .tag import INJECTIVE

_THREADS = 256
_PARALLEL_FROM = 1 << 12
"""The least number of iterations that several processors share."""

Body = Callable[[Any], None]


class StatementBuilder:
    """A builder of a statement: `each` runs a function for each of a number of indices, in parallel."""

    def __init__(self) -> None:
        current = Target.current()
        self.on_grid = current is not None and current.is_gpu
        self.ib = ir_builder.create()

    def each(self, count: Any, body: Body, threads: int = _THREADS) -> None:
        """Run `body(i)` for i = 0 ... count - 1, by threads or processors; later statements wait for all of them.

        `threads`: threads per block, on a GPU.
        """
        number = count if isinstance(count, int) else None
        if not self.on_grid:
            several = number is None or number >= _PARALLEL_FROM
            with self.ib.for_range(0, count, "i", kind="parallel" if several else "serial") as i:
                body(i)
            return
        threads = threads if number is None else max(1, min(threads, number))
        with self.ib.new_scope():
            block, thread = thread_axis("blockIdx.x"), thread_axis("threadIdx.x")
            self.ib.scope_attr(block, "thread_extent", o.floordiv(o.as_expr(count) + threads - 1, threads))
            self.ib.scope_attr(thread, "thread_extent", threads)
            at = block.var * threads + thread.var
            if number is not None and number % threads == 0:
                body(at)
                return
            with self.ib.if_scope(o.less(at, count)):
                body(at)


def elements(tensor: Tensor) -> Any:
    """The number of elements of a tensor: an int if it is constant."""
    return product(tensor.shape)


def product(extents: Sequence[Any]) -> Any:
    """The product of extents: an int if all are constant."""
    total: Any = 1
    for extent in extents:
        total = total * getattr(extent, "value", extent)
    return total


def computed_by(
    name: str, inputs: Sequence[Tensor], outputs: Sequence[tuple[Sequence[Any], Any]], write: Callable[..., None]
) -> tuple[Tensor, ...]:
    """Return the tensors that a statement computes; `write(statement, inputs, outputs)` writes it.

    `outputs` are shapes and types. An input that is not stored anywhere yet, such as the result of another operator,
    is stored first.
    """
    read = [stored(t) if isinstance(t.op, ComputeOp) and not t.op.reduce_axis else t for t in inputs]
    ins = [decl_buffer(t.shape, str(t.dtype), t.name) for t in read]
    shapes = tuple(tuple(o.as_expr(n) for n in shape) for shape, _ in outputs)
    outs = [
        decl_buffer(shape, str(kind), f"{name}.v{k}")
        for k, (shape, (_, kind)) in enumerate(zip(shapes, outputs, strict=True))
    ]
    statement = StatementBuilder()
    pointers = [statement.ib.buffer_ptr(b) for b in (*ins, *outs)]
    write(statement, pointers[: len(ins)], pointers[len(ins) :])
    kinds = tuple(b.dtype for b in outs)
    op = ExternOp(f"T_{name}", tuple(read), shapes, kinds, statement.ib.get(), tuple(ins), tuple(outs), name)
    return op.outputs


def stored(source: Tensor) -> Tensor:
    """A tensor that general schedules store, for a statement to read."""
    if source.op.attrs.get("store"):
        return source
    made: Tensor = compute(source.shape, lambda *i: source(*i), f"{source.name}_stored", INJECTIVE, {"store": True})
    return made
