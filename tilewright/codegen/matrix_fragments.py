"""Fragments of matrix instructions as source: how the lanes of a warp load an operand, and split it into parts.

Fragments are loaded by `ldmatrix` if 16 bytes of shared memory are neighbours along the depth. For 16-bit types,
neighbours along the other dimension also do (`.trans`). Other fragments are loaded word by word.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from ..arith.affine import Affine
from ..arith.facts import EMPTY
from ..arith.simplify import simplify
from ..core.atoms import Atom
from ..expr.nodes import Expr, Known, Load, Var
from ..expr.operators import add, const, multiply
from ..expr.traverse import substitute, uses_any
from ..loops.nodes import Tensorized
from ..passes.lower_divisions import lower_expression


class ProductWriter(Protocol):
    """The interface of the product writer used here: the statement, its steps along the depth, and its loops."""

    writer: Any
    stmt: Tensorized
    atom: Atom
    steps: int
    lane: str

    def _line(self, text: str) -> None: ...
    def _loop(self, var: str, count: int) -> AbstractContextManager[None]: ...


def extent_range(count: int) -> tuple[Expr, Expr]:
    """The bounds of an index, as facts state them."""
    return const(0, "int32"), const(count, "int32")


class FragmentLoads(enum.Enum):
    """How fragments are loaded: by `ldmatrix` along the depth or across it, or word by word."""

    ALONG = "along"
    ACROSS = "across"
    WORDS = "words"


def fragment_loads(stmt: Tensorized, index: Expr, lines: Var, element: int) -> FragmentLoads:
    """The load of an operand at an index. Its `lines` are rows or columns with elements of `element` bytes."""
    wide, atom = 16 // element, stmt.atom
    if atom.word == 4 and stmt.extents[2] * element % 16 == 0 and _lies_in_pieces(index, stmt.depth, wide):
        return FragmentLoads.ALONG
    if element == 2 and _lies_in_pieces(index, lines, wide):
        return FragmentLoads.ACROSS
    return FragmentLoads.WORDS


def _lies_in_pieces(index: Expr, along: Var, wide: int) -> bool:
    """Whether each `wide` neighbours along a variable are 16 bytes, aligned as `ldmatrix` needs them."""
    stride, others = _within(index, along, wide)
    return stride == 1 and all(k % wide == 0 for k in others)


def _within(index: Expr, along: Var, count: int) -> tuple[int | None, list[int]]:
    """The distance of neighbours within each `count` along a variable, and the other terms of the index.

    None if they are not equally far apart: a variable may count several dimensions, of any extents.
    """
    group, inside = Var("group", "int32", Known(0, None)), Var("inside", "int32", Known(0, count - 1))
    facts = EMPTY.bind(inside, *extent_range(count))
    form = Affine.of(simplify(substitute(index, {along: add(multiply(group, count), inside)}), facts))
    others = {e: k for e, k in form.terms.items() if e is not inside}
    stride = None if any(uses_any(e, (inside,)) for e in others) else form.terms.get(inside, 0)
    return stride, [form.const, *others.values()]


class FragmentOperand:
    """One operand: its fragments, and how they are loaded.

    `lines` is the variable that counts its rows (of A) or columns (of B), `groups` of 8 of them in each of `pieces`.
    """

    def __init__(self, writer: ProductWriter, load: Expr, lines: Var, pieces: int, groups: int, letter: str) -> None:
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
        way = fragment_loads(self.by.stmt, self.index, self.lines, self.bytes)
        if way is FragmentLoads.WORDS:
            return self._by_word()
        return self._by_matrix(transposed=way is FragmentLoads.ACROSS)

    def _by_matrix(self, transposed: bool) -> Callable[[str, str], None]:
        """Four matrices of 8 lines of 16 bytes at a time: the words of one piece of A, or of two pieces of B.

        A piece of four words per line takes two loads of A, or one of B.
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
        """The address in shared memory of a piece of `lines` lines and a step, for the lane's line and depth."""
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
        """The index of piece 0 in step 0, and the increments for others."""
        by, atom = self.by, self.atom
        piece, step = Var("piece", "int32"), Var("step", "int32")
        facts = EMPTY.bind_all(
            {piece: extent_range(self.pieces * 8 * self.groups // lines or 1), step: extent_range(by.steps)}
        )
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
        """Every lane loads its own words, one by one; words of several elements, element by element.

        Elements share an address if the terms of a step are equally far apart.
        """
        by, per_word, groups = self.by, self.atom.per_word, self.groups
        first = multiply(self._bits("& 3"), per_word)
        along, _ = _within(self.index, by.stmt.depth, self.atom.k)
        apart = [4 * per_word * word + k for word in range(self.atom.words) for k in range(per_word)]
        places = [self._place(add(first, k)) for k in (apart if along is None else [0])]
        function = by.writer.expr.helper(f"word_of_{per_word}") if per_word > 1 else ""

        def write(slot: str, r: str, each: list[str]) -> None:
            value = f"{function}({', '.join(each)})" if per_word > 1 else each[0]
            by._line(f"{self.name}[{slot}][i][{r}] = {value};")

        def fetch(step: str, slot: str) -> None:
            with by._loop("i", self.pieces), by._loop("r", self.words):
                group = f"(i * {groups} + r % {groups})" if groups > 1 else "i"
                at = f" + {f'r / {groups}' if groups > 1 else 'r'} * {4 * per_word * (along or 0)}"
                further = [f" + {k * along}" if along and k else "" for k in range(per_word)]
                write(slot, "r", [places[0](group, step, at + beyond) for beyond in further])

        def fetch_apart(step: str, slot: str) -> None:
            with by._loop("i", self.pieces):
                for r in range(self.words):
                    group, word = f"(i * {groups} + {r % groups})" if groups > 1 else "i", r // groups * per_word
                    write(slot, str(r), [place(group, step, "") for place in places[word : word + per_word]])

        return fetch_apart if along is None else fetch

    def _place(self, deep: Expr) -> Callable[[str, str, str], str]:
        """The element of a group of lines and a step, or one further away, for the lane's line and a depth."""
        by = self.by
        index, moves = self._index(self._bits(">> 2"), deep, 8)
        held = by.writer.names.fresh(f"{self.letter}_at")
        kind = {8: "double", 4: "unsigned int", 2: "unsigned short", 1: "unsigned char"}[self.bytes]
        pointer = by.writer._pointer_name(self.source)
        line = self.source.layout.swizzle
        if line:
            start, place = by.writer.names.fresh(f"{self.letter}_start"), by.writer.expr.helper(f"swizzled_{line}")
            by._line(f"const {kind}* const {start} = (const {kind}*){pointer};")
            by._line(f"const int {held} = {by.writer.expr(index)};")
        else:
            by._line(f"const {kind}* const {held} = (const {kind}*)({pointer} + {by.writer.expr(index, 10)});")

        def element(group: str, step: str, further: str) -> str:
            at = f"{moves(group, step, 1)}{further}"
            return f"{start}[{place}(({held} + {at}) * {self.bytes}) / {self.bytes}]" if line else f"{held}[{at}]"

        return element


_PARTS = {1: ("high",), 3: ("high", "low"), 6: ("high", "middle", "low")}
"""The parts of an operand, by the number of products."""


@dataclass(frozen=True)
class _Steps:
    """The distances, in elements, between neighbouring pieces and between neighbouring steps."""

    piece: int
    step: int

    def __call__(self, at_piece: str, at_step: str, scale: int) -> str:
        """The distance of a piece in a step from the first piece of the first step; an element has `scale` units."""
        by = ((at_piece, self.piece), (at_step, self.step))
        return "(" + (" + ".join(f"{at} * {k * scale}" for at, k in by if k) or "0") + ")"
