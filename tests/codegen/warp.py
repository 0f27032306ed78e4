"""A warp in Python: runs the text of a matrix instruction's statement, with the tables of the PTX manual.

What a lane holds of a fragment is written down from the PTX ISA, section "Matrix Fragments for mma" of each shape, and
what `ldmatrix` delivers from its own section. The loops, addresses and calls are those of the generated source.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Check = Callable[[np.ndarray, int], None]
"""What looks at the addresses of an access of so many bytes."""
LANES = np.arange(32)
GROUP, MEMBER = LANES // 4, LANES % 4


def fragment_a(rows: int, terms: int, per_word: int) -> np.ndarray:
    """(row, term) of each element of A that a lane holds: [lane, register, element, 2]."""
    words = []
    if (rows, terms) == (8, 4):  # m8n8k4, float64: row = groupID, column = threadID_in_group
        words = [[(GROUP, MEMBER)]]
    else:  # m16n8k8 .tf32, m16n8k16 .f16 and .bf16, m16n8k32 .s8 and .u8
        for register in range(4):
            row = GROUP if register in (0, 2) else GROUP + 8
            first = MEMBER * per_word + (terms // 2 if register >= 2 else 0)
            words.append([(row, first + i) for i in range(per_word)])
    return np.moveaxis(np.array(words), -1, 0)


def fragment_b(terms: int, per_word: int) -> np.ndarray:
    """(term, column) of each element of B that a lane holds: [lane, register, element, 2]."""
    if terms == 4:  # m8n8k4, float64: row = threadID_in_group, column = groupID
        words = [[(MEMBER, GROUP)]]
    else:
        words = [
            [(MEMBER * per_word + i + (terms // 2 if register else 0), GROUP) for i in range(per_word)]
            for register in range(2)
        ]
    return np.moveaxis(np.array(words), -1, 0)


def fragment_d(rows: int) -> np.ndarray:
    """(row, column) of each sum that a lane holds: [lane, register, 2]."""
    sums = [(GROUP if i < 2 else GROUP + 8, MEMBER * 2 + (i & 1)) for i in range(2 if rows == 8 else 4)]
    return np.moveaxis(np.array(sums), -1, 0)


class Warp:
    """Runs one statement; `shared` holds the arrays in shared memory, `sums` the registers of D: [lane, register].

    Bank conflicts are errors, unless `conflicts` says that the layout of the operands has some.
    """

    def __init__(
        self, shared: Mapping[str, np.ndarray], sums: np.ndarray, shape: tuple[int, int, int], conflicts: bool = False
    ) -> None:
        self.check = _accept if conflicts else assert_spread
        self.shared = dict(shared)
        self.sums = sums
        self.rows, self.columns, self.terms = shape
        self.per_word = max(1, 4 // next(iter(shared.values())).itemsize)
        self.names: dict[str, Any] = {"threadIdx_x": LANES, "threadIdx_y": 0, "threadIdx_z": 0, "D": _Place("D", 0)}
        self.names |= {name: _Place(name, 0) for name in shared}

    def run(self, lines: list[str]) -> None:
        """Run lines of source: declarations, loops of constant extent, conditions, calls and assignments."""
        at = 0
        while at < len(lines):
            line = lines[at].strip()
            if line.endswith("{"):
                end = _end(lines, at)
                self._block(line, lines[at + 1 : end])
                at = end
            elif line and line != "}" and not line.startswith(("//", "#")):
                self._statement(line.rstrip(";"))
            at += 1

    def _block(self, head: str, body: list[str]) -> None:
        loop = re.fullmatch(r"for \(int (\w+) = 0; \1 < (\d+); (?:\+\+\1|\1 \+= (\d+))\) \{", head)
        if loop:
            for value in range(0, int(loop[2]), int(loop[3] or 1)):
                self.names[loop[1]] = value
                self.run(body)
        elif head.startswith("if (!__all_sync"):
            return
        elif head == "{" or self._value(head.removeprefix("if ").removesuffix(" {")):
            self.run(body)

    def _statement(self, line: str) -> None:
        if line.startswith(("bool finite", "finite =")):  # whether all sums are finite: here they are
            return
        array = re.fullmatch(r"(?:unsigned int|double|float) (\w+)((?:\[\d+\])+)(?:, (\w+)(?:\[\d+\])+)?", line)
        if array:
            shape = [int(n) for n in re.findall(r"\d+", array[2])]
            for name in filter(None, (array[1], array[3])):
                self.names[name] = np.empty(shape, object)
            return
        named = re.fullmatch(r"const [\w ]+?\*?(?: const)? ?(\w+) = (.*)", line)
        if named:
            value = re.sub(r"^\(const [\w ]+\*\)", "", named[2])
            self.names[named[1]] = self._value(value)
            return
        call = re.fullmatch(r"(ldmatrix|mma|add|promote|tf32|bf16)_?(\w*)\((.*)\)", line)
        if call:
            self._call(call[1], call[2], call[3])
            return
        target, _, value = line.partition(" = ")
        name, indices = _indexed(target)
        for more in value.split(" = ")[:-1]:  # a = b = 0.0f
            self._assign(*_indexed(more), 0.0)
        found = value.rpartition(" = ")[2]
        rounded = re.fullmatch(r"tf32_round\((.*)\)", found)
        self._assign(name, indices, self._value(rounded[1] if rounded else found))

    def _assign(self, name: str, indices: list[str], value: Any) -> None:
        self.names[name][tuple(self._value(index) for index in indices)] = value

    def _value(self, text: str) -> Any:
        python = re.sub(r"(?<![\w.])/(?!/)", "//", text).replace("||", "or").replace("&&", "and")
        python = re.sub(r"\b(\d+\.\d+(?:e-\d+)?)f\b", r"\1", python)
        python = re.sub(r"swizzled_(\d+)\(", r"swizzled(\1, ", python)
        known = {"shared_address": self._address, "word_of_2": _word, "word_of_4": _word, "swizzled": _swizzled}
        known |= {"floordiv_int32": lambda a, b: a // b, "floormod_int32": lambda a, b: a % b}
        return eval(python, known, _Names(self))

    def _address(self, place: _Place) -> _Place:
        """The address of an element, in bytes."""
        return _Place(place.name, place.at * self.shared[place.name].itemsize)

    # Instructions

    def _call(self, kind: str, what: str, given: str) -> None:
        if kind == "ldmatrix":
            into, at = _arguments(given)
            into, _, further = into.partition("] + ")
            name, indices = _indexed(into if not further else f"{into}]")
            array = self.names[name]
            first = np.ravel_multi_index([*map(self._value, indices), int(further or 0)], array.shape)
            self._ldmatrix(array.reshape(-1)[first:], self._value(at), int(what[1]), "trans" in what)
            return
        values = [self._value(part) for part in _arguments(given)]
        if kind in ("tf32", "bf16"):
            parts = _tf32_parts(values[0]) if kind == "tf32" else _bf16_parts(values[0], values[1])
            for out, part in zip(_arguments(given)[-len(parts) :], parts, strict=True):
                name, indices = _indexed(out)
                self._assign(name, indices, part)
        elif kind == "mma" and what in PRODUCTS:
            first = 2 - len(values) % 2  # one set of sums, or two
            count = (len(values) - first) // 2
            for into, i, j in PRODUCTS[what]:
                self._product(values[into], values[first + i], values[first + count + j], count - 1)
        elif kind == "mma":
            self._product(values[0], *values[1:])
        elif kind == "promote":  # partial sums begin anew
            self._add(values[0], values[1], rounds=True)
            values[1][:] = [np.zeros(32)] * len(values[1])
        else:
            sums, low, loss = values
            held = [self.sums[:, sums.at + i] for i in range(len(low))]
            self._add(sums, [_made_up(x, part, loss) for x, part in zip(held, low, strict=True)], rounds=True)

    def _ldmatrix(self, into: np.ndarray, at: _Place, count: int, transposed: bool) -> None:
        """Row r of matrix q is the 16 bytes that lane 8q + r points to; a lane gets row lane / 4, word lane % 4."""
        memory = self.shared[at.name]
        size = memory.itemsize
        assert (at.at % 16 == 0).all(), "a row of ldmatrix is not aligned"
        starts = np.broadcast_to(at.at // size, 32)
        for matrix in range(count):
            self.check(at.at[8 * matrix : 8 * matrix + 8] if at.at.ndim else at.at, 16)
            rows = [memory[start : start + 16 // size] for start in starts[8 * matrix : 8 * matrix + 8]]
            tile = np.array(rows).T if transposed else np.array(rows)
            into[matrix] = tile.reshape(8, 4, -1)[GROUP, MEMBER]

    def _product(self, sums: Any, a: np.ndarray, b: np.ndarray, per_word: int = 0) -> None:
        per_word = per_word or self.per_word
        left, right = np.zeros((self.rows, self.terms)), np.zeros((self.terms, self.columns))
        where = fragment_a(self.rows, self.terms, per_word)
        held = np.array([np.asarray(x).reshape(32, -1) for x in a]).swapaxes(0, 1).astype("float64")
        left[where[..., 0], where[..., 1]] = held
        where = fragment_b(self.terms, per_word)
        held = np.array([np.asarray(x).reshape(32, -1) for x in b]).swapaxes(0, 1).astype("float64")
        right[where[..., 0], where[..., 1]] = held
        where = fragment_d(self.rows)
        self._add(sums, [(left @ right)[where[:, i, 0], where[:, i, 1]] for i in range(where.shape[1])])

    def _add(self, sums: Any, parts: Any, rounds: bool = False) -> None:
        """Add to sums in float32: tensor cores truncate, other instructions round."""
        for i, part in enumerate(parts):
            if isinstance(sums, _Place):
                total = self.sums[:, sums.at + i] + part
                self.sums[:, sums.at + i] = _float32(total) if rounds else _truncated(total)
            else:
                sums[i] = _truncated(sums[i] + part)


PRODUCTS = {
    "3xtf32": ((1, 1, 0), (1, 0, 1), (0, 0, 0)),
    "3xtf32_one": ((0, 1, 0), (0, 0, 1), (0, 0, 0)),
    "bf16x6": ((1, 2, 0), (1, 0, 2), (1, 1, 1), (1, 1, 0), (1, 0, 1), (0, 0, 0)),
}
"""Products of several parts: to which sums each is added (0: high, 1: low), of which parts of the operands it is."""


def _made_up(sums: Any, low: Any, loss: float) -> np.ndarray:
    """The low part, and what truncated sums lost; nothing where there is no low part."""
    return np.where(np.asarray(low) != 0, _float32(np.asarray(sums) * loss + low), 0.0)


def _float32(x: Any) -> np.ndarray:
    return np.asarray(x, "float64").astype("float32").astype("float64")


def _truncated(x: Any) -> np.ndarray:
    """Numbers rounded to float32 towards zero."""
    exact = np.asarray(x, "float64")
    near = exact.astype("float32")
    beyond = np.abs(near.astype("float64")) > np.abs(exact)
    return np.where(beyond, np.nextafter(near, np.float32(0)), near).astype("float64")


def _bits(x: Any, mask: int) -> np.ndarray:
    """The bits of float32 that a mask keeps."""
    word = np.asarray(x, "float32").view("uint32") & np.uint32(mask)
    made: np.ndarray = word.view("float32").astype("float64")
    return made


def _tf32_parts(x: Any) -> tuple[np.ndarray, np.ndarray]:
    """`tf32_split`, and that tensor cores ignore the last 13 bits of the low part."""
    x = np.asarray(x, "float64")
    high = _bits(_float32(x * float(np.float32(1.00032552))), 0xFFFFE000)
    return high, _bits(x - high, 0xFFFFE000)


def _bf16(x: np.ndarray) -> np.ndarray:
    """Numbers rounded to the nearest bfloat16."""
    word = np.asarray(x, "float32").view("uint32")
    return _bits((word + np.uint32(0x7FFF) + (word >> 16 & 1)).view("float32"), 0xFFFF0000)


def _bf16_parts(*pair: Any) -> list[np.ndarray]:
    """`bf16_split`: a word of each part, for two numbers."""
    made = []
    for x in (np.asarray(each, "float64").reshape(32) for each in pair):
        high = _bits(x, 0xFFFF0000)
        middle = _bf16(x - high)
        low = _bf16(x - high - middle)
        assert (high + middle + low == x).all()
        made.append((high, middle, low))
    return [np.stack(words, axis=1) for words in zip(*made, strict=True)]


def _swizzled(line: int, at: np.ndarray) -> np.ndarray:
    """Byte distances with the pieces of 16 bytes exchanged: by the number of the line."""
    return at ^ (at // line % 8 * 16)


def _word(*elements: np.ndarray) -> np.ndarray:
    """The elements of a register, of every lane."""
    return np.stack(elements, axis=1)


def assert_spread(addresses: np.ndarray, size: int) -> None:
    """Check that accesses of so many bytes, made at one time, lie in different banks, of which there are 128 bytes."""
    distinct = set(map(int, addresses))
    assert len({address % 128 // size for address in distinct}) == len(distinct), f"bank conflict: {sorted(distinct)}"


def _accept(addresses: np.ndarray, size: int) -> None:
    """Check nothing."""


class _Place:
    """A place in an array: of shared memory, or of the sums. Indexing loads a word, whose addresses `check` sees."""

    def __init__(self, name: str, at: Any, memory: np.ndarray | None = None, check: Check = assert_spread) -> None:
        self.name, self.at, self.memory, self.check = name, at, memory, check

    def __add__(self, distance: Any) -> _Place:
        return _Place(self.name, self.at + distance, self.memory, self.check)

    def __getitem__(self, distance: Any) -> Any:
        assert self.memory is not None
        size = self.memory.itemsize
        for first in range(0, 32, 128 // size) if size >= 4 else ():  # smaller elements are the exception
            self.check((self.at + distance)[first : first + 128 // size] * size, size)
        return self.memory[self.at + distance]


class _Names(dict[str, Any]):
    """The variables of a warp."""

    def __init__(self, warp: Warp) -> None:
        super().__init__(warp.names)
        for name, value in self.items():
            if isinstance(value, _Place) and value.name in warp.shared:
                self[name] = _Place(value.name, value.at, warp.shared[value.name], warp.check)


def _end(lines: list[str], at: int) -> int:
    """The line of the brace that closes the one at the end of a line."""
    depth = 0
    for i in range(at, len(lines)):
        depth += lines[i].count("{") - lines[i].count("}")
        if depth == 0:
            return i
    raise AssertionError("a brace is not closed")


def _arguments(text: str) -> list[str]:
    """The arguments of a call."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _indexed(text: str) -> tuple[str, list[str]]:
    """The name and the indices of an element."""
    name, _, rest = text.partition("[")
    indices, depth = [""], 1
    for letter in rest:
        depth += (letter == "[") - (letter == "]")
        if letter == "]" and depth == 0:
            indices.append("")
        elif not (letter == "[" and depth == 1):
            indices[-1] += letter
    return name, [index for index in indices if index]
