"""The counter of habits: which texts it reads, what it counts in them, and when the record refuses."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location("english", ROOT / "tools" / "english.py")
assert _spec is not None
assert _spec.loader is not None
english = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(english)

CODE = '''"""Where it begins."""

LIMIT = 3
"""What it limits,
and where."""


def f(x):  # those that stay
    # Comments on two lines are one text,
    # whatever they say.
    kernel = """where is code"""
    raise UserError(f"{x} is not "
                    "what it should be")


NAMES = ("what where "
         "those").split()
'''


def test_texts_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE, encoding="utf-8")
    found = [(kind, line, text) for kind, line, text in english.texts_of(tmp_path / "a.py")]
    assert found == [
        ("docstrings", 1, "Where it begins."),
        ("docstrings", 4, "What it limits,\nand where."),
        ("comments", 8, "those that stay"),
        ("comments", 9, "Comments on two lines are one text,\nwhatever they say."),
        ("messages", 0, "{} is not what it should be"),
    ]


def test_code_and_tables_of_a_document_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("If so.\n\n```py\nwhere = 1\n```\n\n| where |\n\nWhat else?\n", encoding="utf-8")
    ((_, _, text),) = english.texts_of(tmp_path / "a.md")
    assert english.count(text) == Counter({"if+when": 1, "what": 1})
    assert text.split("\n").index("What else?") == 8


def test_long_sentences() -> None:
    words = " ".join(["Word"] * 25)
    assert english.count(f"{words}. {words}.")["long"] == 0
    assert english.count(f"{words} too. {words}.")["long"] == 1
    assert english.count(f"{words}:\n\n        {words} code\n\n    End.")["long"] == 0
    assert english.count(f"Calls `{words}` only.")["long"] == 0
    assert english.count(f"- {words}\n- {words}")["long"] == 0
    assert english.count(f"{words}. {{}} {words}.")["long"] == 1


def test_texts_that_begin_within_a_sentence() -> None:
    def fragments(kind: str, *texts: str) -> list[int]:
        return [english.count(text, kind)["fragment"] for text in texts]

    assert fragments("comments", "which is empty", "of the last batch", "Such as a limit.", "so it ends") == [1] * 4
    assert fragments("docstrings", "Of a CPU: its cache.", "By name: the slopes.", "It may\nwait.") == [1] * 3
    assert fragments("comments", "often", "Iterators", "the batch of which it is one", "`of` begins a part") == [0] * 4
    assert fragments("messages", "of the last batch") == [0]


def test_a_record_may_only_fall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(english, "RECORD", tmp_path / "english.txt")
    assert english.update({"a.py": Counter(where=2, what=1), "b.py": Counter()}) == []
    assert english.recorded() == {"a.py": Counter(where=2, what=1)}
    assert english.worse({"a.py": Counter(where=2)}, english.recorded()) == []
    assert english.worse({"b.py": Counter(where=1)}, english.recorded()) == ["b.py: 'where' 1, recorded 0"]
    assert english.update({"a.py": Counter(where=2), "b.py": Counter(where=1)}) != []
    assert english.update({"c.py": Counter(where=2)}) == []  # a file moved
    assert english.recorded() == {"c.py": Counter(where=2)}
