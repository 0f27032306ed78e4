"""Matrix instructions as source: fragments loaded from shared memory, a step ahead, and multiplied.

A `Tensorized` becomes loops over steps along the depth, and over the pieces of the tile that one instruction computes:
all of constant extents, unrolled by the compiler, so that fragments and sums stay in registers. Fragments come by
`ldmatrix` where 16 bytes of shared memory are neighbours along the depth, or, for 16-bit types, along the other
dimension (`.trans`); else word by word.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from ..arith.affine import Affine
from ..arith.facts import EMPTY
from ..arith.simplify import simplify
from ..core.errors import InternalError
from ..expr.nodes import Expr, IntImm, Known, Load, Var
from ..expr.operators import add, const, multiply
from ..expr.traverse import substitute, uses_any, variables
from ..loops.nodes import Buffer, Stmt, Tensorized
from ..passes.lower_divisions import lower_expression
from .copies import Writer as CopyWriter
from .copies import write_held_back
from .matrix_helpers import SINGLE


class Writer(CopyWriter, Protocol):
    """What is needed of the writer of a kernel."""

    aligned: set[Buffer]
    has_matrices: bool

    def _block(self, head: str) -> AbstractContextManager[None]: ...


def write_product(writer: Writer, stmt: Tensorized) -> None:
    """Write a `Tensorized` of a warp, in a block of its own."""
    writer.has_matrices = True
    MatrixWriter(writer, stmt).write()


_NAMES = frozenset("i j r step high low a_high a_middle a_low b_high b_middle b_low".split())
"""The loops and arrays of a statement."""


class MatrixWriter:
    """Writes one `Tensorized`."""

    def __init__(self, writer: Writer, stmt: Tensorized) -> None:
        self.writer = writer
        self.stmt = stmt
        self.atom = stmt.atom
        rows, columns, depth = stmt.extents
        self.pieces = rows // self.atom.m, columns // self.atom.n
        self.steps = depth // self.atom.k
        self.piece, self.other, self.step = (Var(name, "int32", Known(0, None)) for name in ("piece", "other", "step"))
        self.lane = writer.names.fresh("lane")

    def write(self) -> None:
        """The whole statement, in a block of its own."""
        with self.writer._block(""), self.kept_apart():
            self.declare()
            self.load_first({})
            write_held_back(self.writer)
            self._multiply_all()

    @contextmanager
    def kept_apart(self, inside: Collection[Var] = ()) -> Iterator[None]:
        """Rename what the statement uses where the names clash with its own loops and arrays.

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
        """Whether there is room for the first fragments of the next product while the last ones of this are used.

        Atoms of several products need these registers for their sums.
        """
        return self.steps > 1 and self.atom.products == 1 and (self.steps % 2 == 0 or self.atom.converts)

    def declare(self) -> None:
        """The lane, and the arrays of fragments."""
        shape = " x ".join(map(str, self.stmt.extents))
        self._line(f"// {shape} (rows, columns, depth) by {self.atom.instruction}")
        self._line(f"const int {self.lane} = {self.writer.expr(self.stmt.lane)};")
        self.a = _Operand(self, self.stmt.a, self.stmt.row, self.pieces[0], self.atom.halves, "a")
        self.b = _Operand(self, self.stmt.b, self.stmt.column, self.pieces[1], 1, "b")
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
        if self.steps == 1:
            self._step("0")
        else:
            with self._loop("step", self.steps):
                self._step("step")
        if self.atom.products > 1:
            self._add_parts()

    def steps_ahead(self, waits: Sequence[Stmt], following: Mapping[Var, Expr]) -> None:
        """All steps, the last one behind `waits` and the first loads for the `following` values of variables."""
        for operand in (self.a, self.b):
            operand.start({})
        with self._loop("step", self.steps - 1):
            self._step("step")
        self._convert()
        for part in waits:
            self.writer._stmt(part)
        self.load_first(following)
        self._multiply(str(self.steps - 1))

    def _start_parts(self) -> None:
        """Sums of a few terms by themselves: of the products of the high parts, and of those with a low part."""
        shape = f"[{self.pieces[0]}][{self.pieces[1]}][4]"
        parts = _SUMS[: self.atom.partial_sums]
        self._line(f"float {', '.join(part + shape for part in parts)};")
        with self._loop("i", self.pieces[0]), self._loop("j", self.pieces[1]), self._loop("r", 4):
            self._line(f"{' = '.join(f'{part}[i][j][r]' for part in parts)} = 0.0f;")

    def _add_parts(self) -> None:
        function = self.writer.expr.helper(f"add_{self.atom.name}")
        with self._loop("i", self.pieces[0]), self._loop("j", self.pieces[1]):
            self._line(f"{function}({self._sums()}, {self._partial_sums()});")

    def _partial_sums(self) -> str:
        return ", ".join(f"{part}[i][j]" for part in _SUMS[: self.atom.partial_sums])

    def _step(self, step: str) -> None:
        """Convert the fragments of a step, load those of the next one, multiply."""
        self._convert()
        if self.steps > 1:
            with self.writer._block(f"if ({step} + 1 < {self.steps})"):
                for operand in (self.a, self.b):
                    operand.load(f"({step} + 1)", f"({step} + 1) % 2")
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
        facts = EMPTY.bind_all({i: _range(self.pieces[0]), j: _range(self.pieces[1])})
        index = lower_expression(simplify(substitute(sums.indices[0], place), facts), facts)
        if self.stmt.sums.dtype.bytes < 4:  # two of them are a register
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


def _range(count: int) -> tuple[Expr, Expr]:
    return IntImm(0, "int32"), IntImm(count, "int32")  # type: ignore[arg-type]


class _Operand:
    """One operand: its fragments, and how they are loaded.

    `lines` is the variable that counts its rows (of A) or columns (of B), `groups` of 8 of them in each of `pieces`.
    """

    def __init__(self, writer: MatrixWriter, load: Expr, lines: Var, pieces: int, groups: int, letter: str) -> None:
        assert isinstance(load, Load)
        self.by = writer
        self.atom = writer.atom
        self.source: Any = load.source
        self.whole_index = self.index = load.indices[0]
        self.lines = lines
        self.pieces, self.groups = pieces, groups
        self.words = self.atom.words * groups
        self.letter = letter
        self.name = writer.writer.names.fresh(f"{letter}_fragment")
        self.bytes = self.source.dtype.bytes
        self.slots = 1 if writer.steps == 1 or self.atom.converts else 2

    def declare(self) -> None:
        """The arrays of fragments."""
        kind = "double" if self.atom.word == 8 else "unsigned int"
        shape = f"[{self.pieces}][{self.words}]"
        self.by._line(f"{kind} {self.name}[{self.slots}]{shape};")
        packed = f"[{self.pieces}][{self.words // self.atom.per_part}]"
        for part in self._parts():
            self.by._line(f"{kind} {self.letter}_{part}{packed};")

    def start(self, values: Mapping[Var, Expr]) -> None:
        """The address that loads go out from, for `values` of variables around the product."""
        self.index = substitute(self.whole_index, values)
        self.fetch = self._fetch()

    def _parts(self) -> tuple[str, ...]:
        return _PARTS[self.atom.products] if self.atom.converts else ()

    def fragments(self, step: str, piece: str) -> list[str]:
        """The fragments of a piece, as arguments."""
        if self.atom.converts:
            return [f"{self.letter}_{part}[{piece}]" for part in self._parts()]
        slot = "0" if self.slots == 1 else f"{step} % 2"
        return [f"{self.name}[{slot}][{piece}]"]

    def convert(self) -> None:
        """Round the operands, or split them into parts."""
        name = {1: "tf32_round", 3: "tf32_split", 6: "bf16_split"}[self.atom.products]
        function, per = self.by.writer.expr.helper(name), self.atom.per_part
        with self.by._loop("i", self.pieces), self.by._loop("r", self.words // per):
            held = f"{self.name}[0][i][r]"
            parts = ", ".join(f"{self.letter}_{part}[i][r]" for part in self._parts())
            if (
                per > 1
            ):  # words of neighbouring groups of four terms make a pair: of both operands, so sums are the same
                word = f"r / {self.groups} * {2 * self.groups} + r % {self.groups}" if self.groups > 1 else "r * 2"
                pair = [f"{self.name}[0][i][{word}{f' + {i * self.groups}' if i else ''}]" for i in range(per)]
                self.by._line(f"{function}({', '.join(pair)}, {parts});")
            elif self.atom.products > 1:
                self.by._line(f"{function}({held}, {parts});")
            else:
                self.by._line(f"{self.letter}_high[i][r] = {function}({held});")

    def load(self, step: str, slot: str) -> None:
        """Load the fragments of a step."""
        self.fetch(step, "0" if self.slots == 1 else slot)

    # How

    def _fetch(self) -> Callable[[str, str], None]:
        stride_along, stride_across = self._stride(self.by.stmt.depth), self._stride(self.lines)
        by_matrix = self.atom.word == 4 and self.by.steps * self.atom.k * self.bytes % 16 == 0
        if stride_along == 1 and by_matrix and self._aligned(self.by.stmt.depth):
            return self._by_matrix(transposed=False)
        if stride_across == 1 and self.bytes == 2 and self._aligned(self.lines):
            return self._by_matrix(transposed=True)
        if stride_along and stride_across:
            return self._by_word()
        raise InternalError(f"no way to load a fragment of {self.source} at `{self.index}`")

    def _aligned(self, along: Var) -> bool:
        """Whether neighbours along a variable lie in pieces of 16 bytes, aligned as `ldmatrix` needs them."""
        form = Affine.of(self.index)
        apart = (k for atom, k in form.terms.items() if not uses_any(atom, (along,)))
        return all(k * self.bytes % 16 == 0 for k in (form.const, *apart))

    def _stride(self, var: Var) -> int:
        """The distance of neighbours along the innermost digit of a variable; 0 where it is not known."""
        facts = EMPTY.bind_all({var: (IntImm(0, "int32"), IntImm(8, "int32"))})  # type: ignore[arg-type]
        return Affine.of(simplify(self.index, facts)).terms.get(var, 0)

    def _by_matrix(self, transposed: bool) -> Callable[[str, str], None]:
        """Four matrices of 8 lines of 16 bytes at a time: the words of one piece of A, or of two pieces of B.

        Where a piece has four words, they are two loads of A, and one of B.
        """
        wide = 16 // self.bytes
        self.by.writer.aligned.add(self.source.memory)
        low, high = self._bits("& 7"), self._bits(">> 3 & 1")
        top = self._bits(">> 4")
        paired = self.groups == 1 and self.atom.words == 2
        # Matrix q, which lanes 8q to 8q + 7 point to, becomes word q: of A, lines first; of B, words first.
        group, word = (top, high) if paired else (high, top)
        if self.groups == 1 and not paired:
            group, word = const(0, "int32"), self._bits(">> 3")
        line = add(low, multiply(group, 8)) if not transposed else multiply(group, 8)
        deep = multiply(word, wide) if not transposed else add(low, multiply(word, 8))
        per = 2 if paired else 1
        whole = self.pieces // per
        lines, loads = 8 * per * self.groups, self.atom.words * self.groups * per // 4
        further = [add(deep, 2 * wide * i) for i in range(loads)]
        at = [self._address(line, x, lines, f"{self.letter}_at") for x in further] if whole else []
        odd = self._address(line, deep, 8, f"{self.letter}_last") if paired and self.pieces % 2 else None
        suffix = "_trans" if transposed else ""

        def fetch(step: str, slot: str) -> None:
            if at:
                function = self.by.writer.expr.helper(f"ldmatrix_x4{suffix}")
                with self.by._loop("i", whole):
                    first = "i" if per == 1 else "2 * i"
                    for i, place in enumerate(at):
                        behind = f" + {4 * i}" if i else ""
                        self.by._line(f"{function}({self.name}[{slot}][{first}]{behind}, {place('i', step)});")
            if odd is not None:
                function = self.by.writer.expr.helper(f"ldmatrix_x2{suffix}")
                last = self.pieces - 1
                self.by._line(f"{function}({self.name}[{slot}][{last}], {odd(str(last), step)});")

        return fetch

    def _bits(self, how: str) -> Expr:
        """Some bits of the lane's number."""
        most = {"& 7": 7, "& 3": 3, ">> 2": 7, ">> 3": 3, ">> 3 & 1": 1, ">> 4": 1}[how]
        var = Var("bits", "int32", Known(0, most))
        self.by.writer.names.bind(var, f"({self.by.lane} {how})")
        return var

    def _address(self, line: Expr, deep: Expr, lines: int, name: str) -> Callable[[str, str], str]:
        """The address in shared memory of a piece of so many `lines` and a step, for the lane's line and depth."""
        index, moves = self._index(line, deep, lines)
        held = self.by.writer.names.fresh(name)
        function = self.by.writer.expr.helper("shared_address")
        base = self.by.writer.expr(index, 10)
        pointer = self.by.writer._pointer_name(self.source)
        line = self.source.layout.swizzle
        if line:
            start = self.by.writer.names.fresh(f"{self.letter}_start")
            place = self.by.writer.expr.helper(f"swizzled_{line}")
            self.by._line(f"const unsigned int {start} = {function}({pointer});")
            self.by._line(f"const unsigned int {held} = ({base}) * {self.bytes};")
            return lambda piece, step: f"{start} + {place}({held} + {moves(piece, step, self.bytes)})"
        self.by._line(f"const unsigned int {held} = {function}({pointer} + {base});")
        return lambda piece, step: f"{held} + {moves(piece, step, self.bytes)}"

    def _index(self, line: Expr, deep: Expr, lines: int) -> tuple[Expr, Callable[[str, str, int], str]]:
        """The index of piece 0 in step 0, and what is added to it for others."""
        by, atom = self.by, self.atom
        piece, step = Var("piece", "int32"), Var("step", "int32")
        facts = EMPTY.bind_all({piece: _range(self.pieces * 8 * self.groups // lines or 1), step: _range(by.steps)})
        place = {self.lines: add(multiply(piece, lines), line), by.stmt.depth: add(multiply(step, atom.k), deep)}
        form = Affine.of(lower_expression(simplify(substitute(self.index, place), facts), facts))
        moving = {e: k for e, k in form.terms.items() if uses_any(e, (piece, step))}
        rest = Affine({e: k for e, k in form.terms.items() if e not in moving}, form.const, form.dtype)
        if set(moving) <= {piece, step}:
            return rest.to_expr(), _Steps(moving.get(piece, 0), moving.get(step, 0))

        def moved(at_piece: str, at_step: str, scale: int) -> str:
            """Several dimensions are rows or columns together: the compiler finds the constants of each piece."""
            values = {piece: Var("piece", "int32", Known(0, None)), step: Var("step", "int32", Known(0, None))}
            for var, text in ((piece, at_piece), (step, at_step)):
                by.writer.names.bind(values[var], f"({text})")
            distance = substitute(Affine(moving, 0, form.dtype).to_expr(), values)
            return f"({by.writer.expr(distance)}) * {scale}"

        return rest.to_expr(), moved

    def _by_word(self) -> Callable[[str, str], None]:
        """Every lane loads its own words, one by one; words of several elements, element by element."""
        by, per_word = self.by, self.atom.per_word
        index, moves = self._index(self._bits(">> 2"), multiply(self._bits("& 3"), per_word), 8)
        held = by.writer.names.fresh(f"{self.letter}_at")
        kind = {8: "double", 4: "unsigned int", 2: "unsigned short", 1: "unsigned char"}[self.bytes]
        pointer = by.writer._pointer_name(self.source)
        line = self.source.layout.swizzle
        place = by.writer.expr.helper(f"swizzled_{line}") if line else ""
        if line:
            start = by.writer.names.fresh(f"{self.letter}_start")
            by._line(f"const {kind}* const {start} = (const {kind}*){pointer};")
            by._line(f"const int {held} = {by.writer.expr(index)};")
        else:
            by._line(f"const {kind}* const {held} = (const {kind}*)({pointer} + {by.writer.expr(index, 10)});")

        def element(at: str) -> str:
            """The element so far from the first one."""
            return f"{start}[{place}(({held} + {at}) * {self.bytes}) / {self.bytes}]" if line else f"{held}[{at}]"

        along = self._stride(by.stmt.depth)
        function = by.writer.expr.helper(f"word_of_{per_word}") if per_word > 1 else ""

        def fetch(step: str, slot: str) -> None:
            with by._loop("i", self.pieces), by._loop("r", self.words):
                group = f"(i * {self.groups} + r % {self.groups})" if self.groups > 1 else "i"
                word = f"r / {self.groups}" if self.groups > 1 else "r"
                at = f"{moves(group, step, 1)} + {word} * {4 * per_word * along}"
                each = [element(f"{at}{f' + {k * along}' if k else ''}") for k in range(per_word)]
                value = f"{function}({', '.join(each)})" if per_word > 1 else each[0]
                by._line(f"{self.name}[{slot}][i][r] = {value};")

        return fetch


_SUMS = ("high", "low")
"""The sums of a few products: of the high parts, and of those with a low part."""
_PARTS = {1: ("high",), 3: ("high", "low"), 6: ("high", "middle", "low")}
"""The parts of an operand, by the number of products."""


@dataclass(frozen=True)
class _Steps:
    """How many elements a piece and a step lie behind the one before."""

    piece: int
    step: int

    def __call__(self, at_piece: str, at_step: str, scale: int) -> str:
        """The distance of a piece in a step from the first ones, in elements of which `scale` units make one."""
        by = ((at_piece, self.piece), (at_step, self.step))
        return "(" + (" + ".join(f"{at} * {k * scale}" for at, k in by if k) or "0") + ")"
