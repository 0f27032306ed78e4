"""Operations on whole logs: pick the best lines, split by workload, merge."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np

from ...core.errors import UserError
from ...core.files import replacing
from .format import Pair, encode, measure_str_key
from .history import History
from .log import load_from_file, path_of

PathLike = str | os.PathLike[str]


def pick_best(in_file: PathLike, out_file: PathLike | IO[str]) -> int:
    """Write the best line of each workload of a log into another one; returns how many there are."""
    # Records of all devices count, because a log may be distilled on another machine than it is used on.
    best = History(load_from_file(in_file), name_of=lambda _: "").pairs()
    _write(out_file, best)
    return len(best)


def split_workload(in_file: PathLike, clean: bool = True) -> list[Path]:
    """Write one log per workload of a log, `in_file.000.wkl` and so on; with `clean`, without repeated lines."""
    groups: dict[str, list[Pair]] = {}
    for pair in load_from_file(in_file):
        groups.setdefault(measure_str_key(pair[0], include_config=False), []).append(pair)
    made = []
    for i, pairs in enumerate(groups.values()):
        path = path_of(in_file, "record")
        path = path.with_name(f"{path.name}.{i:03d}.wkl")
        _write(path, without_repeats(pairs) if clean else pairs)
        made.append(path)
    return made


def merge(in_files: Iterable[PathLike], out_file: PathLike) -> int:
    """Merge the lines of several logs into one, sorted by time, without repeated lines; return the number of lines."""
    if isinstance(in_files, (str, bytes, np.ndarray)) or not isinstance(in_files, Iterable):
        raise UserError(f"{in_files!r} is not a list of logs", primitive="record.merge", fix='give ["a.log", "b.log"]')
    return merge_pairs((pair for path in in_files for pair in load_from_file(path)), out_file)


def merge_pairs(pairs: Iterable[Pair], out_file: PathLike) -> int:
    """Write measurements to one log, as `merge` does."""
    kept = without_repeats(sorted(pairs, key=lambda pair: pair[1].timestamp))
    _write(out_file, kept)
    return len(kept)


def without_repeats(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the measurements without repeats."""
    return list({encode(*pair): pair for pair in pairs}.values())


def _write(out_file: Any, pairs: Iterable[Pair]) -> None:
    text = "".join(f"{encode(*pair)}\n" for pair in pairs)
    if hasattr(out_file, "write"):
        out_file.write(text)
        return
    path = path_of(out_file, "record")
    try:
        if path.exists() and not path.is_file():  # a pipe, a terminal, /dev/null: it stays as it is
            path.write_text(text, encoding="utf-8")
        else:
            _replace(path.resolve(), text)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}", primitive="record", fix="name a file") from error


def _replace(path: Path, text: str) -> None:
    # Written beside the target first: the target may be one of the source logs, and writing may fail.
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
