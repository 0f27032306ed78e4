"""Records of the legacy API's protocol "pickle": written, read, and read without running code."""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
from collections import OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.errors.refused import refused
from tilewright.autotvm.record import decode, encode  # type: ignore[import-not-found]

LINES = [
    line
    for log in sorted((Path(__file__).parent.parent / "tune" / "legacy").glob("*.json"))
    for line in log.read_text(encoding="utf-8").splitlines()[:3]
]
KINDS = {
    "sp": ("SplitEntity", "size"),
    "re": ("ReorderEntity", "perm"),
    "an": ("AnnotateEntity", "anns"),
    "ot": ("OtherOptionEntity", "val"),
}
HOME = "tvm.autotvm.task.space"


def _joined(target: str, *values: Any) -> str:
    parts = [base64.b64encode(pickle.dumps(value)).decode() for value in values]
    return "\t".join([target, *parts, "0.2", "0.8.0"])


@pytest.fixture
def space(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module with the legacy API's classes of configurations, for pickles of them."""
    made = ModuleType(HOME)
    for name in ("ConfigEntity", *(name for name, _ in KINDS.values())):
        setattr(made, name, type(name, (), {"__module__": HOME}))
    parents = HOME.split(".")[:-1]
    for at in range(len(parents)):
        monkeypatch.setitem(sys.modules, ".".join(parents[: at + 1]), ModuleType(parents[at]))
    monkeypatch.setitem(sys.modules, HOME, made)
    return made


def _object(space: ModuleType, name: str, **attributes: Any) -> Any:
    made = getattr(space, name)()
    vars(made).update(attributes)
    return made


@pytest.mark.parametrize("line", LINES)
def test_a_pickled_record_is_the_one_of_its_json(line: str, space: ModuleType) -> None:
    expected = encode(*decode(line))
    assert encode(*decode(encode(*decode(line), protocol="pickle"), protocol="pickle")) == expected
    record = json.loads(line)
    target, name, args, kwargs = record["input"]
    entities = OrderedDict(
        (knob, _object(space, KINDS[kind][0], **{KINDS[kind][1]: value}))
        for knob, kind, value in record["config"]["entity"]
    )
    index, code_hash = record["config"]["index"], record["config"]["code_hash"]
    config = _object(space, "ConfigEntity", index=index, code_hash=code_hash, _entity_map=entities, _constraints=[])
    row = _joined(target, [name, args, kwargs], config, tuple(record["result"]))
    assert encode(*decode(row, protocol="pickle")) == expected


class _MakesFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


def test_reading_a_pickled_record_runs_no_code(tmp_path: Path) -> None:
    row = _joined("cuda", ["t", [], {}], _MakesFolder(tmp_path / "made"), ((1.0,), 0, 1.0, 1.0))
    with refused("record.decode", "pickles posix.mkdir, and loading that may run any code", fix="protocol='json'"):
        decode(row, protocol="pickle")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("row", ["", "cuda\ta\tb\tc\td\te", _joined("cuda", [], 3, ((1.0,), 0, 1.0, 1.0))])
def test_what_is_no_pickled_record(row: str) -> None:
    with refused("record.decode", "this is not a pickled record", fix="protocol='pickle'"):
        decode(row, protocol="pickle")
