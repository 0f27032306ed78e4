"""Lines that are written as `encode` writes them are read piece by piece, with the same result as any others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.errors import UserError
from tilewright.tune.records import format as records
from tilewright.tune.records.format import decode

TRAPS = ['], ["', ', "config": {"index": ', ']]}, "result": [', '"', "\\", "\ud800", "é", "[[", "]]"]
TEXT = st.one_of(st.text(max_size=4), st.sampled_from(TRAPS))
DATA = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 1 << 65), st.floats(), TEXT),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=6,
)
SIZES = st.lists(st.integers(-1, 9), min_size=1, max_size=3)
ENTRY = st.one_of(
    st.tuples(TEXT, st.just("sp"), SIZES),
    st.tuples(TEXT, st.just("an"), st.lists(st.sampled_from(["vec", "none", 1]), max_size=2)),
    st.tuples(TEXT, st.just("ot"), DATA),
    st.tuples(TEXT, TEXT, DATA),
)
NOTES = st.dictionaries(
    st.sampled_from(["device", "reason", "checked", "flop", "config", "i", "input", "version"]), DATA, max_size=3
)
LINE = st.builds(
    lambda args, index, entity, result, notes: {
        "input": ["cuda", "t", args, {}],
        "config": {"index": index, "code_hash": None, "entity": entity},
        "result": result,
        **{key: value for key, value in notes.items() if key not in ("input", "config")},
    },
    st.lists(DATA, max_size=3),
    st.one_of(st.none(), st.integers(-1, 5), st.integers(0, 10**101)),
    st.lists(ENTRY, max_size=3),
    st.one_of(st.just([[1e-3], 0, 1.5, 2.5]), st.just([[1e9], 4, 1, 2]), st.lists(DATA, max_size=4)),
    NOTES,
)


def outcome(row: str) -> Any:
    """What decoding a line gives, as values that compare; of an error, that there is one."""
    try:
        inp, result = decode(row)
    except UserError:
        return None
    shown = [repr(part) for part in (inp.task.workload, inp.config, inp.notes, result)]
    return str(inp.target), *shown


def both_ways(row: str, patch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The outcome piece by piece, and that of the line as a whole."""
    quick = outcome(row)
    with patch.context() as only:
        only.setattr(records, "_quickly", lambda row: None)
        return quick, outcome(row)


@given(LINE)
def test_pieces_and_lines_say_the_same(line: dict[str, Any]) -> None:
    quick, whole = both_ways(json.dumps(line), pytest.MonkeyPatch())
    assert quick == whole


ROW = (
    '{"input": ["cuda", "t", [1], {}], "config": {"index": 7, "code_hash": null, "entity": '
    '[["a", "sp", [-1, 2]], ["b", "ot", 1]]}, "result": [[0.001], 0, 1.5, 2.5], "version": 0.2, "device": "d"}'
)


@given(st.integers(0, len(ROW)), st.integers(0, 6), st.sampled_from(["", "]", "[", '"', ", ", "0", "}", *TRAPS]))
def test_edited_lines_say_the_same(at: int, cut: int, text: str) -> None:
    quick, whole = both_ways(ROW[:at] + text + ROW[at + cut :], pytest.MonkeyPatch())
    assert quick == whole


def test_a_key_that_stands_twice_counts_where_it_stands_last(monkeypatch: pytest.MonkeyPatch) -> None:
    for more in ('"input": ["llvm", "u", [2], {}]', '"config": 3', '"result": [[1], 0, 1, 1]'):
        quick, whole = both_ways(f"{ROW[:-1]}, {more}}}", monkeypatch)
        assert quick == whole


def test_equal_choices_of_a_log_are_one_object() -> None:
    assert records._quickly(ROW) is not None
    first, second = decode(ROW)[0].config, decode(ROW)[0].config
    assert all(first[name] is second[name] for name in first)
    listed = ROW.replace('"ot", 1', '"ot", [1]')
    assert decode(listed)[0].config["b"] is not decode(listed)[0].config["b"]
