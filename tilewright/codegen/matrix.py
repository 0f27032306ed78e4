"""Matrix instructions as source: fragments loaded from shared memory, a step ahead, and multiplied.

A `Tensorized` becomes loops over steps along the depth, and over the pieces of the tile that one instruction computes.
All extents are constant, and the compiler unrolls the loops, so that fragments and sums stay in registers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from ..arith.facts import EMPTY
from ..arith.simplify import simplify
from ..expr.nodes import Expr, Known, Load, Var
from ..expr.operators import multiply
from ..expr.traverse import substitute, variables
from ..loops.nodes import Await, Buffer, Stmt, Tensorized
from ..passes.lower_divisions import lower_expression
from .copies import CopyWriter, gathered, shares_copies, take_held_back, tests_borders, write_held_back, write_pieces
from .matrix_fragments import FragmentOperand, extent_range
from .matrix_helpers import SINGLE


class MatrixKernelWriter(CopyWriter, Protocol):
    """The interface of the kernel writer used here."""

    aligned: set[Buffer]
    has_matrices: bool
    low_sums: Any

    def _block(self, head: str) -> AbstractContextManager[None]: ...


def write_product(writer: MatrixKernelWriter, stmt: Tensorized) -> None:
    """Write a `Tensorized` of a warp in a separate block."""
    writer.has_matrices = True
    MatrixWriter(writer, stmt).write()


_NAMES = frozenset("i j r step first high low again back finite a_high a_middle a_low b_high b_middle b_low".split())
"""The loops and arrays of a statement."""


class MatrixWriter:
    """Writes one `Tensorized`."""

    def __init__(self, writer: MatrixKernelWriter, stmt: Tensorized) -> None:
        self.writer = writer
        self.stmt = stmt
        self.atom = stmt.atom
        rows, columns, depth = stmt.extents
        self.pieces = rows // self.atom.m, columns // self.atom.n
        self.steps = depth // self.atom.k
        self.piece, self.other, self.step = (Var(name, "int32", Known(0, None)) for name in ("piece", "other", "step"))
        self.lane = writer.names.fresh("lane")
        self.copies: list[list[str]] = []
        self.low = writer.low_sums.names.get(stmt, "")

    def write(self) -> None:
        """Write the whole statement in a separate block."""
        with self.writer._block(""), self.kept_apart():
            self.declare()
            self.load_first({})
            if shares_copies(self.stmt) and any(map(tests_borders, self.writer.held_back)):
                self.copies = gathered(self.writer, take_held_back(self.writer))
            write_held_back(self.writer)
            self._multiply_all()

    @contextmanager
    def kept_apart(self, inside: Collection[Var] = ()) -> Iterator[None]:
        """Rename the statement's variables and arrays if the names clash with its own loops and arrays.

        Variables `inside` are still to be declared; others get a second name here.
        """
        names, parts = self.writer.names, (self.stmt.a, self.stmt.b, self.stmt.sums, self.stmt.lane)
        own = (self.stmt.row, self.stmt.column, self.stmt.depth)
        buffers = [load.source.memory for load in parts[:3]]  # type: ignore[attr-defined]
        before: dict[Any, str] = {}
        for thing in dict.fromkeys((*variables(*parts), *inside, *buffers)):
            if thing in own or names(thing) not in _NAMES:
                continue
            before[thing] = names(thing)
            fresh = names.fresh(f"{before[thing]}_outside")
            names.bind(thing, fresh)
            if thing not in inside:
                self._line(f"auto const {fresh} = {before[thing]};")
        self.writer.expr.forget(renamed=bool(before))
        yield
        for thing, name in before.items():
            names.bind(thing, name)
        self.writer.expr.forget(renamed=bool(before))

    @property
    def loads_ahead(self) -> bool:
        """Whether registers have room for the first fragments of the next product beside the last ones of this product.

        Atoms of several products need these registers for their sums.
        """
        return self.steps > 1 and self.atom.products == 1 and (self.steps % 2 == 0 or self.atom.converts)

    def declare(self) -> None:
        """The lane, and the arrays of fragments."""
        shape = " x ".join(map(str, self.stmt.extents))
        self._line(f"// {shape} (rows, columns, depth) by {self.atom.instruction}")
        self._line(f"const int {self.lane} = {self.writer.expr(self.stmt.lane)};")
        self.a = FragmentOperand(self, self.stmt.a, self.stmt.row, self.pieces[0], self.atom.halves, "a")
        self.b = FragmentOperand(self, self.stmt.b, self.stmt.column, self.pieces[1], 1, "b")
        for operand in (self.a, self.b):
            operand.declare()

    def load_first(self, values: Mapping[Var, Expr]) -> None:
        """Load the fragments of the first step, for `values` of variables around the product."""
        for operand in (self.a, self.b):
            operand.start(values)
        for operand in (self.a, self.b):
            operand.load("0", "0")

    def _multiply_all(self) -> None:
        if self.atom.products > 1:
            self._start_parts()
        if self.atom.partial_sums == 1:
            self._multiply_by_groups()
            return
        if self.steps == 1:
            self._step("0")
        else:
            with self._loop("step", self.steps):
                self._step("step", self.steps)
                if self.atom.partial_sums == 2 and self.steps * self.atom.k > self.atom.partial_terms:
                    self._promote()
        if self.atom.partial_sums == 2:
            self._add_parts()

    def _promote(self) -> None:
        """Add the sums of the products of high parts after every few steps: their error grows with their terms."""
        together = self.atom.partial_terms // self.atom.k
        with self.writer._block(f"if (step % {together} == {together - 1} && step + 1 < {self.steps})"), self._pieces():
            self._line(f"{self.writer.expr.helper('promote')}({self._sums()}, high[i][j]);")

    def _multiply_by_groups(self) -> None:
        """Write the steps in groups; after each group, its partial sums are added to the totals.

        The loop over groups is not unrolled, which would need a quarter more registers.
        """
        together = min(self.atom.partial_terms // self.atom.k, self.steps)
        whole = self.steps // together
        if whole > 1:
            self._line("#pragma unroll 1")
            with self.writer._block(f"for (int first = 0; first < {whole * together}; first += {together})"):
                self._group("first", together)
        else:
            self._group("0", together)
        if self.steps % together:
            self._group(str(whole * together), self.steps % together)

    def _group(self, first: str, count: int) -> None:
        """Write a group of steps; the fragments of the first step are loaded already, or now."""
        if first != "0":
            with self.writer._block("if (first > 0)" if first == "first" else ""):
                for operand in (self.a, self.b):
                    operand.load(first, "0")
        with self._loop("step", count):
            self._convert()
            if count > 1:
                with self.writer._block(f"if (step + 1 < {count})"):
                    for operand in (self.a, self.b):
                        operand.load(f"({first} + step + 1)", "0")
            self._multiply("step")
        self._add_group(first, count)

    def steps_ahead(self, waits: Sequence[Stmt], following: Mapping[Var, Expr]) -> None:
        """All steps, the last one behind `waits` and the first loads for the `following` values of variables."""
        # Copies that the iteration itself waits for are issued early in it.
        soon = any(isinstance(part, Await) and not part.pending for part in waits)
        for operand in (self.a, self.b):
            operand.start({})
        with self._loop("step", self.steps - 1):
            self._step("step", self.steps // 2 if soon else self.steps - 1)
        self._convert()
        for part in waits:
            self.writer._stmt(part)
        self.load_first(following)
        self._multiply(str(self.steps - 1))

    def _start_parts(self) -> None:
        """Sums of a few terms by themselves: of the products of the high parts, and of the products with a low part."""
        shape = f"[{self.pieces[0]}][{self.pieces[1]}][4]"
        parts = _SUMS[: 1 if self.low else self.atom.partial_sums]
        self._line(f"float {', '.join(part + shape for part in parts)};")
        with self._loop("i", self.pieces[0]), self._loop("j", self.pieces[1]), self._loop("r", 4):
            self._line(f"{' = '.join(f'{part}[i][j][r]' for part in parts)} = 0.0f;")

    def _add_parts(self) -> None:
        """Add the sums of a few terms to the others; sums with a low part later, if they last."""
        with self._pieces():
            self._line(f"{self.writer.expr.helper('promote')}({self._sums()}, high[i][j]);")
        if not self.low:
            self.add_low("low")

    def _loss(self) -> str:
        """The average relative loss of sums of the products of high parts."""
        together = min(self.atom.partial_terms // self.atom.k, self.steps)
        groups = [together] * (self.steps // together) + [self.steps % together]
        lost: float = _TRUNCATED * sum(n * (n + 1) / 2 for n in groups) / self.steps
        return f"{lost:.4g}f"

    def start_low(self) -> str:
        """Declare sums of the products with a low part that outlast the statement; returns their name."""
        name: str = self.writer.names.fresh("low_sums")
        self._line(f"float {name}[{self.pieces[0]}][{self.pieces[1]}][4];")
        with self._pieces(), self._loop("r", 4):
            self._line(f"{name}[i][j][r] = 0.0f;")
        return name

    def add_low(self, name: str) -> None:
        """Add the sums of the products with a low part, and the loss of the others, after all of their products."""
        loss = self._loss() if self.writer.low_sums.is_last(self.stmt) else "0.0f"
        function = self.writer.expr.helper("add_low")
        with self._pieces():
            self._line(f"{function}({self._sums()}, {name}[i][j], {loss});")

    def _add_group(self, first: str, count: int) -> None:
        """Add the one set of partial sums after a group of steps.

        An infinite operand times a low part may be NaN, or infinite with the wrong sign. A sum that is not finite is
        computed again from the products of the high parts alone. Finite operands do not take this path.
        """
        with self.writer._block(""):
            self._line("bool finite = true;")
            with self._pieces(), self._loop("r", 4):
                self._line("finite = finite && isfinite(high[i][j][r]);")
            with self.writer._block("if (!__all_sync(0xffffffffu, finite))"):
                self._compute_again(first, count)
            function = self.writer.expr.helper("promote")
            with self._pieces():
                self._line(f"{function}({self._sums()}, high[i][j]);")

    def _compute_again(self, first: str, count: int) -> None:
        """Replace non-finite sums by the sums of the products of high parts."""
        function = self.writer.expr.helper(f"mma_{SINGLE[self.atom.name]}")
        with self._loop("i", self.pieces[0]):
            self._line(f"float again[{self.pieces[1]}][4];")
            with self._loop("j", self.pieces[1]), self._loop("r", 4):
                self._line("again[j][r] = 0.0f;")
            self._line("#pragma unroll 1")
            with self.writer._block(f"for (int back = {first}; back < {first} + {count}; ++back)"):
                for operand in (self.a, self.b):
                    operand.load("back", "0")
                self._convert()
                with self._loop("j", self.pieces[1]):
                    self._line(f"{function}(again[j], a_high[i], b_high[j]);")
            with self._loop("j", self.pieces[1]), self._loop("r", 4):
                self._line("if (!isfinite(high[i][j][r])) high[i][j][r] = again[j][r];")

    @contextmanager
    def _pieces(self) -> Iterator[None]:
        with self._loop("i", self.pieces[0]), self._loop("j", self.pieces[1]):
            yield

    def _partial_sums(self) -> str:
        parts = ("high", self.low) if self.low else _SUMS[: self.atom.partial_sums]
        return ", ".join(f"{part}[i][j]" for part in parts)

    def _step(self, step: str, count: int = 0) -> None:
        """Convert the fragments of a step, load those of the next one, issue its part of the copies, multiply.

        Copies that `count` steps share do not hold up the loads of fragments, which wait in the same queue.
        """
        self._convert()
        if self.steps > 1:
            with self.writer._block(f"if ({step} + 1 < {self.steps})"):
                for operand in (self.a, self.b):
                    operand.load(f"({step} + 1)", f"({step} + 1) % 2")
        for at in range(count if self.copies else 0):
            first, last = (len(self.copies) * edge // count for edge in (at, at + 1))
            if first < last:
                with self.writer._block(f"if ({step} == {at})"):
                    write_pieces(self.writer, self.copies[first:last], 2)
        self._multiply(step)

    def _convert(self) -> None:
        for operand in (self.a, self.b) if self.atom.converts else ():
            operand.convert()

    def _multiply(self, step: str) -> None:
        if self.atom.products > 1:
            self.writer.expr.helper(f"mma_{SINGLE[self.atom.name]}")
        with self._loop("i", self.pieces[0]), self._loop("j", self.pieces[1]):
            function = self.writer.expr.helper(f"mma_{self.atom.name}")
            operands = ", ".join([*self.a.fragments(step, "i"), *self.b.fragments(step, "j")])
            sums = self._partial_sums() if self.atom.products > 1 else self._sums()
            self._line(f"{function}({sums}, {operands});")

    def _sums(self) -> str:
        """The sums of piece (i, j)."""
        sums, atom = self.stmt.sums, self.atom
        assert isinstance(sums, Load)
        i, j = self._named("i"), self._named("j")
        place = {self.stmt.row: multiply(i, atom.m), self.stmt.column: multiply(j, atom.n)}
        facts = EMPTY.bind_all({i: extent_range(self.pieces[0]), j: extent_range(self.pieces[1])})
        index = lower_expression(simplify(substitute(sums.indices[0], place), facts), facts)
        if self.stmt.sums.dtype.bytes < 4:  # two sums share a register
            self.writer.aligned.add(sums.source.memory)  # type: ignore[attr-defined]
        return f"{self.writer._pointer_name(sums.source)} + {self.writer.expr(index, 10)}"

    def _named(self, text: str) -> Var:
        var = Var(text, "int32", Known(0, None))
        self.writer.names.bind(var, text)
        return var

    def _loop(self, var: str, count: int) -> AbstractContextManager[None]:
        self._line("#pragma unroll")
        return self.writer._block(f"for (int {var} = 0; {var} < {count}; ++{var})")

    def _line(self, text: str) -> None:
        self.writer._line(text)


_TRUNCATED = 4.3e-8
"""The relative loss of a sum when tensor cores add to it. They truncate by half a unit of the last place on average.
For numbers between 1 and 2, that is 6.0e-8 to 3.0e-8 of them. A sum of n steps has grown to k / n of itself when step k
truncates it. On an H200, sums of random operands lose that much: somewhat more with one sign, somewhat less with
both."""
_SUMS = ("high", "low")
"""The sums of a few products: of the high parts, and of the products with a low part."""
