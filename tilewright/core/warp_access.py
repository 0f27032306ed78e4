"""The cost of one access of a warp: the sectors of global memory that its lanes touch, the banks that they share.

Each row of an array is one access, each column a lane. A lane that takes no part repeats one that does.
"""

from __future__ import annotations

import numpy as np

from .hardware import WarpMemory


def distinct(units: np.ndarray) -> np.ndarray:
    """The number of different numbers in each row."""
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
    """The cycles that each access of shared memory takes; a lane's `width` bytes begin at byte `first`."""
    words = first // memory.word
    each = max(1, width // memory.word)
    if each == 1:
        return word_wavefronts(words, memory.banks)
    lanes = words.shape[1]
    found = np.zeros(len(words), np.int64)
    together = lanes_together(first, width, memory)
    for group in np.unique(together).tolist():
        rows = together == group
        for start in range(0, lanes, group):
            part = words[rows, start : start + group]
            found[rows] += word_wavefronts((part[:, :, None] + np.arange(each)).reshape(len(part), -1), memory.banks)
    return found


def lanes_together(first: np.ndarray, width: int, memory: WarpMemory) -> np.ndarray:
    """How many lanes of each access of shared memory are served at a time.

    If each lane accesses one word, all lanes are served; with two words, half of them; with four, a quarter. Twice as
    many are served if each lane asks for the same address as its neighbour, or as the lane two places away.
    """
    lanes, each = first.shape[1], max(1, width // memory.word)
    twice = _is_paired(first // memory.word) if each > 1 else np.zeros(len(first), bool)
    made: np.ndarray = np.where(twice, max(1, 2 * lanes // each), max(1, lanes // each))
    return made


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
