"""Each primitive of the schedule language: its loops before and after, its results everywhere, its errors, its page."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.programs.harness import TARGETS, build, result
from tests.schedule.each_primitive import ENTRIES, Entry
from tilewright.core.errors import TVMError, UserError
from tilewright.schedule.handle import PRIMITIVES, ScheduleHandle, StageHandle

ROOT = Path(__file__).parents[2]
NO_PRIMITIVES = set("apply as_python copy draw explain load_steps replay save_steps stage_id".split())
"""Methods that tell of a schedule, or keep one; none of them changes loops."""
each = pytest.mark.parametrize("name", ENTRIES)


def loops(entry: Entry, used: bool, on_grid: bool) -> str:
    """What `lower` prints, without the head of the function."""
    s, args, _ = entry.program(used, on_grid)
    text = str(tw.lower(s, args)).partition("tir.noalias")[2].partition("\n")[2]
    return textwrap.dedent("\n".join(line for line in text.rstrip().splitlines() if "= T.Buffer(" not in line))


def kinds(entry: Entry) -> list[bool]:
    """Whether the programs of an entry are for a grid of threads: one or both."""
    return [on_grid for on_grid in (False, True) if entry.only != ("processor" if on_grid else "grid")]


def test_every_primitive_has_an_entry() -> None:
    """And each public method of a schedule or a stage is a primitive, or known not to be one."""
    methods = {
        name
        for handle in (ScheduleHandle, StageHandle)
        for name, member in inspect.getmembers(handle, inspect.isfunction)
        if not name.startswith("_")
    }
    assert methods - NO_PRIMITIVES == set(ENTRIES)
    assert set(PRIMITIVES) <= set(ENTRIES)


@each
def test_the_loops_before_and_after(name: str, golden: Callable[[str, str], None]) -> None:
    entry, parts = ENTRIES[name], []
    for on_grid in kinds(entry):
        before, after = (loops(entry, used, on_grid) for used in (False, True))
        assert (before != after) is entry.differs
        parts.append(f"# on a {'grid' if on_grid else 'processor'}, without {name}\n{before}\n# with {name}\n{after}\n")
    golden(f"each_primitive/{name}.txt", "\n".join(parts))


@pytest.mark.parametrize("target", TARGETS)
@each
def test_the_results(name: str, target: str) -> None:
    """The same with and without the primitive."""
    entry = ENTRIES[name]
    if (target != "llvm") not in kinds(entry):
        pytest.skip(f"{name} is not for {target}")
    for used in (False, True):
        s, args, expected = entry.program(used, target != "llvm")
        shape = [[int(extent) for extent in t.shape] for t in args]
        given = np.random.default_rng(0).integers(-4, 5, shape[0]).astype("float32")
        found = result(build(s, args, target), [given], shape[-1], "float32")
        np.testing.assert_array_equal(found, expected(given))


@each
def test_a_mistake_is_refused(name: str) -> None:
    entry = ENTRIES[name]
    if entry.mistake is None:
        pytest.skip(f"{name} takes no arguments that could be wrong")
    with pytest.raises(TVMError) as caught:
        entry.mistake()
    error = caught.value
    assert isinstance(error, UserError)
    assert error.fix
    assert entry.says in str(error)


@each
def test_its_page_shows_loops_before_and_after(name: str) -> None:
    page = (ROOT / "docs" / "schedule.md").read_text(encoding="utf-8")
    part = re.search(rf"^### `{name}`\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    assert part is not None, f"docs/schedule.md has no section on {name}"
    programs = "\n".join(re.findall(r"^```python\n(.*?)^```", part[1], re.MULTILINE | re.DOTALL))
    assert f".{name}(" in programs
    assert programs.count("show(") >= 2 or not ENTRIES[name].differs or name == "tensorize"  # shows code
    assert "refused(" in programs or ENTRIES[name].mistake is None
