"""Matrix atoms: the instructions that `tensorize` can put in the place of a loop nest, as tables.

An atom multiplies a tile A (m×k) by a tile B (k×n) and adds the result to a tile of sums D (m×n).

`ATOMS` are executed by a warp together. The operands lie in shared memory; the sums are *distributed*: every lane keeps
some of them in its registers. `DOTS` are executed by one thread: sums of four products each, with operands and sums in
the places that the schedule chooses.

The shapes and fragment layouts are from the PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions". With `group
= lane // 4` and `member = lane % 4`, they read as follows for every type, in words of `word` bytes (8 for float64, else
4). Each word holds one or more neighbours along k:

- Of A, a lane holds the words at row `group + 8 * (r % halves)` and word `member + 4 * (r // halves)` of that row.
- Of B, it holds the words at column `group` and word `member + 4 * r` of that column.
- Of the sums, it holds row `group + 8 * h` and columns `2 * member` and `2 * member + 1`, for `h < halves`.

`WARPGROUP_ATOMS` are executed by four warps together ("Asynchronous Warpgroup Level Matrix Instructions"). Of 64 rows,
warp w computes rows 16 * w and on, whose sums are distributed over its lanes as above, for every 8 columns. It loads no
fragments, since the hardware reads both operands from shared memory by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from .dtype import DType
from .errors import UserError
from .hardware import Hardware, MatrixShape

LANES = 32
"""The lanes that share a fragment."""

WARPGROUP = 4
"""The warps of a warpgroup."""

_LETTERS = {"float16": "f16", "bfloat16": "bf16", "tfloat32": "tf32", "float64": "f64", "float32": "f32"}
_LETTERS |= {"int8": "s8", "uint8": "u8", "int32": "s32"}
"""How PTX spells a type."""

_PARTIAL_TERMS = {1: 32, 2: 64}
"""Terms per partial sum, by the number of partial sums. Tensor cores truncate sums, so low parts need a second sum."""

_SHORTENED = {"tfloat32": 2.0**-10}
"""The distance from 1 to the next number of a type that operands are shortened to."""


@dataclass(frozen=True)
class Atom:
    """One way to multiply small matrices.

    `operands` and `accumulator` are the types in memory; `shape` is the instruction that the hardware must have.
    `instruction` is its spelling in PTX, or in assembly. `products` is the number of products per step: 3 if operands
    are split into two parts, 6 if they are split into three. `second` is the type of the other operand if the two
    differ; either may come first.
    """

    name: str
    operands: str
    accumulator: str
    shape: MatrixShape
    instruction: str
    products: int = 1
    second: str = ""

    @property
    def types(self) -> tuple[str, str]:
        """The types of the two operands."""
        return self.operands, self.second or self.operands

    @property
    def by_thread(self) -> bool:
        """Whether a single thread executes the instruction, instead of all lanes of a warp."""
        return self.shape.level == "thread"

    @property
    def by_warpgroup(self) -> bool:
        """Whether the four warps of a warpgroup execute the instruction together, each for its own rows."""
        return self.shape.level == "warpgroup"

    @property
    def converts(self) -> bool:
        """Whether the hardware multiplies numbers of another type than the operands in memory."""
        return not self.by_thread and self.shape.operands != self.operands

    @property
    def rounding(self) -> float:
        """The relative rounding error of an operand if the hardware multiplies a shorter number; else 0."""
        return _SHORTENED.get(self.shape.operands, 0.0) if self.converts and self.products == 1 else 0.0

    @property
    def partial_sums(self) -> int:
        """Partial sums of a few terms that receive several products, beside each sum of the tile."""
        return 0 if self.products == 1 else 1 if self.name == "3xtf32_one" else 2

    @property
    def partial_terms(self) -> int:
        """Terms per partial sum of products of high parts, before it is added to the total; 0 without such sums."""
        return _PARTIAL_TERMS.get(self.partial_sums, 0)

    @property
    def per_part(self) -> int:
        """Loaded words of a fragment per word of the multiplied operand."""
        return 2 if self.converts and self.shape.operands == "bfloat16" else 1

    @property
    def target(self) -> str:
        """The kind of target that may have the instruction; others run the loops."""
        return "llvm" if self.shape.family == "vpdpbusd" else "cuda"

    @property
    def m(self) -> int:
        """Rows of A and D: one warp's part of the rows that a warpgroup computes."""
        return self.shape.m // WARPGROUP if self.by_warpgroup else self.shape.m

    @property
    def n(self) -> int:
        """Columns of B and D."""
        return self.shape.n[0]

    @property
    def k(self) -> int:
        """Terms of each sum."""
        return self.shape.k

    @property
    def halves(self) -> int:
        """Groups of 8 rows in D: each lane holds sums of this many rows."""
        return self.m // 8

    @property
    def word(self) -> int:
        """Bytes of one register of an operand's fragment."""
        return max(4, DType(self.operands).bytes)

    @property
    def per_word(self) -> int:
        """Neighbours along k that one register holds."""
        return self.word // DType(self.operands).bytes

    @property
    def words(self) -> int:
        """Registers of B's fragment; A's has `halves` times as many."""
        return self.k // self.per_word // 4

    def draw(self) -> str:
        """Return a drawing of how the sums of one piece are distributed: for each of them, lane and register.

        Of an instruction of one thread, it shows the positions of each column's terms among the bytes of that operand.
        """
        if self.by_thread:
            return self._draw_bytes()
        head = f"{self.instruction}: {self.m} x {self.n} sums, as lane.register"
        cells = [
            [f"{row % 8 * 4 + column // 2}.{row // 8 * 2 + column % 2}".rjust(5) for column in range(self.n)]
            for row in range(self.m)
        ]
        return "\n".join([head, *("".join(row) for row in cells)])

    def _draw_bytes(self) -> str:
        head = f"{self.instruction}: {self.m} x {self.n} sums of {self.k} terms; byte of each term and column"
        rows = ["".join(str(column * self.k + term).rjust(4) for column in range(self.n)) for term in range(self.k)]
        return "\n".join([head, *(f"term {term}:{row}" for term, row in enumerate(rows))])

    def width(self, columns: int) -> int:
        """The most columns of a tile that one instruction computes; 0 if no width divides the tile."""
        if isinstance(columns, bool) or not isinstance(columns, int):
            raise UserError(
                f"columns={columns!r} is not a number of columns", primitive="width", fix="give an int: 256"
            )
        return max((n for n in self.shape.n if columns % n == 0), default=0)

    def runs_on(self, hardware: Hardware) -> bool:
        """Whether the hardware has the instruction."""
        return self.shape in hardware.matrix_shapes


def _dp4a(name: str, kind: str) -> Atom:
    letters = {"int8": "s32", "uint8": "u32"}[kind]
    return Atom(
        name, kind, "int32", MatrixShape("dp4a", 1, (1,), 4, kind, "int32", "thread"), f"dp4a.{letters}.{letters}"
    )


def _wgmma(operands: str, sums: str, k: int, kind: str = "") -> Atom:
    """A row of a warpgroup's instructions; `nN` stands for the number of columns, which has many values."""
    kind = kind or operands
    widths = tuple(n for n in range(8, 257, 8) if sums != "int32" or n <= 24 or n % 16 == 0)
    types = ".".join((_LETTERS[sums], _LETTERS[kind], _LETTERS[kind]))
    name = {"float32": "tf32"}.get(operands, operands) + ("_float16" if sums == "float16" else "")
    needed = MatrixShape("wgmma", 16 * WARPGROUP, widths, k, kind, sums, "warpgroup", "shared", "shared")
    return Atom(f"wgmma_{name}", operands, sums, needed, f"wgmma.mma_async.sync.aligned.m64nNk{k}.{types}")


def _atom(name: str, operands: str, sums: str, shape: tuple[int, int, int], kind: str, products: int = 1) -> Atom:
    """A row of the table; `kind` is the type of the operands to the hardware."""
    m, n, k = shape
    types = ".".join((_LETTERS[sums], _LETTERS[kind], _LETTERS[kind], _LETTERS[sums]))
    needed = MatrixShape("mma.sync", m, (n,), k, kind, sums)
    return Atom(name, operands, sums, needed, f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{types}", products)


@dataclass(frozen=True)
class Fragment:
    """The distribution of a tile of sums over the lanes of a warp, by dimensions of its buffer.

    `rows` and `columns` are the dimensions that count rows and columns of the tile, the slowest first; `halves` is the
    atom's. Dimensions of extent 1 belong to neither.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    halves: int


ATOMS: dict[str, Atom] = {
    atom.name: atom
    for atom in (
        _atom("float16", "float16", "float32", (16, 8, 16), "float16"),
        _atom("float16_float16", "float16", "float16", (16, 8, 16), "float16"),
        _atom("bfloat16", "bfloat16", "float32", (16, 8, 16), "bfloat16"),
        _atom("bf16x6", "float32", "float32", (16, 8, 16), "bfloat16", products=6),
        _atom("3xtf32_one", "float32", "float32", (16, 8, 8), "tfloat32", products=3),
        _atom("tf32", "float32", "float32", (16, 8, 8), "tfloat32"),
        _atom("3xtf32", "float32", "float32", (16, 8, 8), "tfloat32", products=3),
        _atom("int8", "int8", "int32", (16, 8, 32), "int8"),
        _atom("uint8", "uint8", "int32", (16, 8, 32), "uint8"),
        _atom("float64", "float64", "float64", (8, 8, 4), "float64"),
    )
}
"""The atoms by name: the type of the operands (for sums in float16: both types), or a precision of float32.
"""

DOTS: dict[str, Atom] = {
    "dp4a_int8": _dp4a("dp4a_int8", "int8"),
    "dp4a_uint8": _dp4a("dp4a_uint8", "uint8"),
    "vnni": Atom(
        "vnni",
        "uint8",
        "int32",
        MatrixShape("vpdpbusd", 1, (16,), 4, "uint8 × int8", "int32", "thread"),
        "vpdpbusd",
        second="int8",
    ),
}
"""The instructions of one thread by name: four products a sum. Of VNNI, 16 neighbouring columns share a row's terms."""


WARPGROUP_ATOMS: dict[str, Atom] = {
    atom.name: atom
    for atom in (
        _wgmma("float16", "float32", 16),
        _wgmma("float16", "float16", 16),
        _wgmma("bfloat16", "float32", 16),
        _wgmma("float32", "float32", 8, "tfloat32"),
        _wgmma("int8", "int32", 32),
        _wgmma("uint8", "int32", 32),
    )
}
"""Instructions of a warpgroup by "wgmma_" and the name of a warp's atom. Both operands are in shared memory."""


def atom_named(name: str) -> Atom | None:
    """The atom of that name, or None."""
    return ATOMS.get(name) or DOTS.get(name) or WARPGROUP_ATOMS.get(name)
