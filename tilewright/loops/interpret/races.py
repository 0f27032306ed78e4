"""Race detection: the writers and readers of each element since the last barrier.

An actor is one thread in one epoch, as a number: block, epoch (barriers that the block has passed), thread. Two
accesses of one element are ordered if one thread makes both, or if both threads are of one block and the epochs differ.
A write that does not change the value is harmless, and not a race.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import count_nonzero

from ...expr.numerics import Value

THREAD_BITS, EPOCH_BITS = 11, 21
BLOCK = 1 << (THREAD_BITS + EPOCH_BITS)
EVERY = (1 << THREAD_BITS) - 1  # the thread of an actor that is several threads of the block
CELL_SHIFT = THREAD_BITS + 20
NONE = -1
ANYONE = (1 << 63) - 1  # threads of several blocks


class Race(NamedTuple):
    """The event, its cell, and the first actor affected."""

    text: str
    cell: int
    actor: int


def describe(actor: int) -> str:
    """An actor as text: the other party of a race."""
    if actor == ANYONE:
        return "threads of several blocks"
    thread = actor & EVERY
    who = "several threads" if thread == EVERY else f"thread {thread}"
    return f"{who} of block {actor // BLOCK}"


def unordered(other: Value, me: Value) -> Value:
    """The cells in which `other` is another thread that no barrier has ordered with `me`."""
    apart = other ^ me
    return (apart > 0) & ((apart <= EVERY) | (apart >= BLOCK))


def together(other: Value, me: Value) -> Value:
    """The actor that stands for both."""
    return np.where((other ^ me) >= BLOCK, ANYONE, me | EVERY)


class Shadow:
    """The last writer and reader of each cell of one storage.

    `silent` marks cells that the writes of the epoch left as they were. If several threads wrote the same value,
    `members` lists them, since each of them may read it without a barrier.
    """

    def __init__(self, cells: int) -> None:
        self.writer: Value = np.full(cells, NONE, np.int64)
        self.reader: Value = np.full(cells, NONE, np.int64)
        self.silent: Value = np.zeros(cells, np.bool_)
        self.members: list[Value] = []
        self.noted = 0

    def read(self, where: Value, who: Value) -> Race | None:
        """Note that actors `who` read cells `where`; the race, if another thread wrote them meanwhile."""
        writer = self.writer.take(where)
        bad: Value = writer != who
        if count_nonzero(bad):
            bad = unordered(writer, who)
        if count_nonzero(bad):
            bad &= ~self.silent.take(where)
            several = bad & ((writer & EVERY) == EVERY)
            if count_nonzero(several):
                bad[several] = ~self._is_member(where[several], who[several])
            if count_nonzero(bad):
                return race_at(bad, "reads an element that {} wrote, with no barrier in between", where, who, writer)
        self._note_readers(where, who)
        return None

    def _note_readers(self, where: Value, who: Value) -> None:
        reader = self.reader.take(where)
        if not count_nonzero((reader != who) & (reader != (who | EVERY))):
            return
        new = np.where(unordered(reader, who), together(reader, who), who)
        self.reader[where] = new
        _settle(self.reader, where, new)

    def is_own(self, where: Value, who: Value) -> bool:
        """Whether each cell was last written, with a change, by its own actor, and read by no other actor."""
        if count_nonzero(self.writer.take(where) != who) or count_nonzero(self.silent.take(where)):
            return False
        reader = self.reader.take(where)
        return not count_nonzero((reader != who) & (reader != NONE))

    def write(self, where: Value, changes: Value, who: Value) -> Race | None:
        """The race, if writing to `where` (changing the value if `changes`) is one."""
        writer, reader = self.writer.take(where), self.reader.take(where)
        contested = unordered(writer, who)
        bad = contested & changes
        if count_nonzero(bad):
            text = "writes another value than {} wrote, with no barrier in between"
            return race_at(bad, text, where, who, writer)
        bad = unordered(reader, who) & changes
        if count_nonzero(bad):
            return race_at(bad, "overwrites an element that {} read, with no barrier in between", where, who, reader)
        goes_on = contested | (writer == who)
        self.silent[where] = ~changes & (~goes_on | self.silent.take(where))
        return None

    def wrote(self, where: Value, who: Value) -> None:
        """Note that actors `who` wrote cells `where`."""
        writer = self.writer.take(where)
        contested = unordered(writer, who)
        new = np.where(contested, together(writer, who), who)
        alone = contested & ((writer & EVERY) != EVERY)
        if count_nonzero(alone):
            self._note_members(where[alone], writer[alone])
        self.writer[where] = new
        _settle(self.writer, where, new)
        shared = (self.writer.take(where) & EVERY) == EVERY
        if count_nonzero(shared):
            self._note_members(where[shared], who[shared])

    def _note_members(self, where: Value, who: Value) -> None:
        self.members.append(_member_keys(where, who))
        self.noted += len(where)
        if self.noted > 1 << 20:
            self.members = [np.unique(np.concatenate(self.members))]
            self.noted = 0

    def _is_member(self, where: Value, who: Value) -> Value:
        known = np.concatenate(self.members) if self.members else np.empty(0, np.int64)
        return np.isin(_member_keys(where, who), known)

    def forget_members(self, passed: Value) -> None:
        """After a barrier, on memory with one copy a block: `passed` says which blocks went through."""
        if self.members:
            known = np.concatenate(self.members)
            self.members = [known[~passed[(known >> CELL_SHIFT) % len(passed)]]]


def _member_keys(where: Value, who: Value) -> Value:
    """One number for cell and thread, for any epoch (20 bits for the block are enough for a test)."""
    block = (who // BLOCK) & 0xFFFFF
    return (where << CELL_SHIFT) | (block << THREAD_BITS) | (who & EVERY)


def _settle(table: Value, where: Value, new: Value) -> None:
    """After `table[where] = new`: cells that several lanes of the statement met in get the joint actor."""
    last = table.take(where)
    lost = last != new
    if count_nonzero(lost):
        # Three threads of two blocks may meet: join until no lane disagrees.
        table[where[lost]] = together(last[lost], new[lost])
        again = table.take(where)
        across = (again ^ new) >= BLOCK
        table[where[across]] = ANYONE


def race_at(bad: Value, text: str, where: Value, who: Value, other: Value = None) -> Race:
    """The race in the first lane that is `bad`; `{}` in the text becomes the other party."""
    at = int(np.argmax(bad))
    party = "" if other is None else describe(int(other[at]))
    return Race(text.format(party), int(where[at]), int(who[at]))
