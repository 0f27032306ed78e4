"""The cost of one access of a warp: the sectors of global memory that its lanes touch, the banks that they share.

Each row of an array is one access, each column a lane. A lane that takes no part repeats one that does.
"""

from __future__ import annotations

import numpy as np

from ..core.hardware import WarpMemory


def distinct(units: np.ndarray) -> np.ndarray:
    """How many different numbers there are in each row."""
    order = np.sort(units, axis=1)
    made: np.ndarray = 1 + (order[:, 1:] != order[:, :-1]).sum(axis=1)
    return made


def sectors(first: np.ndarray, width: int, memory: WarpMemory) -> np.ndarray:
    """The sectors that each access touches; a lane's `width` bytes begin at byte `first`."""
    beyond = first + (width - 1)
    size = memory.sector
    ends = [first // size] if width == 1 or not (first % width).any() else [first // size, beyond // size]
    return distinct(np.concatenate(ends, axis=1))


def word_wavefronts(words: np.ndarray, banks: int) -> np.ndarray:
    """The cycles that each access of single words takes: the different words in its busiest bank."""
    order = np.sort(words, axis=1)
    new = np.ones(order.shape, bool)
    new[:, 1:] = order[:, 1:] != order[:, :-1]
    rows = np.arange(len(order))[:, None] * banks + order % banks
    busy = np.bincount(rows[new], minlength=len(order) * banks).reshape(len(order), banks)
    made: np.ndarray = busy.max(axis=1)
    return made


def wavefronts(first: np.ndarray, width: int, memory: WarpMemory) -> np.ndarray:
    """The cycles that each access of shared memory takes; a lane's `width` bytes begin at byte `first`.

    For accesses wider than a word, a part of the lanes is served at a time: half for two words, a quarter for four. If
    every pair of neighbours, or every second lane, asks for the same address, twice as many are.
    """
    words = first // memory.word
    each = max(1, width // memory.word)
    if each == 1:
        return word_wavefronts(words, memory.banks)
    lanes = words.shape[1]
    found = np.zeros(len(words), np.int64)
    paired = _is_paired(words)
    for rows, group in ((~paired, max(1, lanes // each)), (paired, max(1, 2 * lanes // each))):
        for start in range(0, lanes if rows.any() else 0, group):
            part = words[rows, start : start + group]
            found[rows] += word_wavefronts((part[:, :, None] + np.arange(each)).reshape(len(part), -1), memory.banks)
    return found


def conflict_free(first: np.ndarray, width: int, memory: WarpMemory) -> np.ndarray:
    """The cycles that each access of shared memory would take if no bank were asked for two words at a time."""
    each = max(1, width // memory.word)
    words = first // memory.word
    made: np.ndarray = np.where(_is_paired(words), max(1, each // 2), each)
    return made


def _is_paired(words: np.ndarray) -> np.ndarray:
    """Whether in each row lanes 0 and 1, 2 and 3, ... or lanes 0 and 2, 1 and 3, ... have the same address."""
    lanes = np.arange(words.shape[1])
    if len(lanes) < 4:  # a block of one thread
        return np.zeros(len(words), bool)
    same = [(words == words[:, lanes ^ step]).all(axis=1) for step in (1, 2)]
    made: np.ndarray = same[0] | same[1]
    return made
