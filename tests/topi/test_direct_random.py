"""The direct strategy by rows, with finished tiles and with whole words: random layers, and what their spaces admit."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.emulator.device import emulated
from tests.emulator.marks import emulates
from tests.topi.random_direct import CUDA, KINDS, by_the_emulator, by_the_interpreter, drawn, narrowed, template_of
from tilewright.core.errors import UserError
from tilewright.driver import build, lower_for
from tilewright.topi.templates import Conv2dLayer, Depthwise
from tilewright.topi.templates.thread_tiles import STEPS, Tile, Window


@pytest.mark.parametrize("kind", KINDS)
def test_results_by_the_interpreter(kind: str) -> None:
    for seed in range(4):
        case = drawn(kind, seed)
        try:
            by_the_interpreter(case)
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}: {case}") from fault


@emulates
@pytest.mark.parametrize("kind", KINDS)
def test_results_by_the_source(kind: str) -> None:
    """Loads of words are written in the source alone, so the interpreter does not see them."""
    settled, loaded = [], []
    for seed in range(100, 103 if "words" in kind or "loads" in kind else 102):
        case = drawn(kind, seed)
        try:
            source = by_the_emulator(case)
        except AssertionError as fault:
            raise AssertionError(f"seed {seed}: {case}") from fault
        settled.append("settled_" in source)
        loaded.append("loaded_" in source)
        assert "finished" in source or "finished" not in kind
    assert any(settled) == ("words" in kind)
    assert any(loaded) == ("loads" in kind)


@pytest.mark.parametrize("kind", ["words", "rows+words"])
def test_words_are_settled_exactly_where_a_condition_changes(kind: str) -> None:
    """Outside stand conditions of nothing but loops that the compiler unrolls, inside none of those."""
    wrapped = 0
    for seed in range(300, 310):
        source = str(emulated(*drawn(kind, seed).program).program.source)
        unrolled = set(re.findall(r"#pragma unroll\n *for \(int (\w+) = ", source))
        for load in re.findall(r"_vector\w* = (.* \? .*);", source):
            found = re.match(r"(?:(.*?) \? )?settled_\d\((.*?) \? ", load)
            outside, inside = (found[1] or "", found[2]) if found else (load.partition(" ? ")[0], "")
            for text, constant in ((outside, True), (inside, False)):
                for condition in filter(None, text.split(" && ")):
                    assert (set(re.findall(r"[A-Za-z_]\w*", condition)) <= unrolled) == constant, load
            wrapped += found is not None
    assert wrapped > 0


@emulates
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_more_results(kind: str) -> None:
    for seed in range(300, 330):
        by_the_interpreter(drawn(kind, seed))
        by_the_emulator(drawn(kind, seed))


@pytest.mark.parametrize("kind", KINDS)
def test_sources_compile(kind: str) -> None:
    for seed in range(200, 202):
        (used,) = build(*drawn(kind, seed).program, CUDA).resources.values()
        assert used.registers > 0


def test_a_seed_determines_its_case() -> None:
    assert [str(drawn(kind, 5)) for kind in KINDS] == [str(drawn(kind, 5)) for kind in KINDS]
    assert str(drawn("rows", 5)) != str(drawn("rows", 6))


SPACES = {
    "rows, NHWC": ("rows", Depthwise.of((2, 6, 7, 9), (3, 2), (2, 1), (0, 1, 2, 0), layout="NHWC", multiplier=2)),
    "rows, NCHW": ("rows", Depthwise.of((1, 3, 7, 12), (2, 5), 1, (1, 0, 0, 3), dilation=2, dtype="float16")),
    "rows, a line": ("rows", Depthwise.of((1, 4, 21), 7, padding=(6, 0), layout="NWC", dtype="float64")),
    "finished tiles": ("finished", Depthwise.of((1, 3, 5, 10), 3, (1, 2), multiplier=2)),
    "finished tiles of groups": ("finished", Conv2dLayer.of((1, 8, 6, 9), 12, groups=4)),
    "words, NHWC": ("words", Depthwise.of((1, 16, 6, 5), 3, 2, dtype="bfloat16", layout="NHWC")),
    "words, groups": ("words", Conv2dLayer.of((1, 16, 6, 5), 8, groups=2, dtype="float16", layout="NHWC")),
    "rows and words": ("rows+words", Depthwise.of((1, 4, 9, 16), 3, dtype="float16")),
    "rows and loads": ("rows+loads", Depthwise.of((1, 4, 9, 16), 3, dtype="bfloat16")),
}


@pytest.mark.parametrize(("kind", "of"), SPACES.values(), ids=SPACES)
def test_what_the_space_admits_can_be_built(kind: str, of: Any) -> None:
    space = narrowed(kind, of)
    for index in space.indices(space.draw(np.random.default_rng(3), 60))[:6]:
        assert template_of(of).gpu.space(of).is_index_valid(index)
        config = space.get(index)
        assert np.isfinite(template_of(of).gpu.expected(of, config).cycles)
        lower_for(CUDA, *template_of(of).program(config, of, CUDA))


LAST = Depthwise.of((1, 16, 12, 12), 3, dtype="float16", layout="NHWC")
FIRST = Depthwise.of((1, 16, 12, 16), 3, dtype="float16")
GROUPS = {
    layout: Conv2dLayer.of((1, 16, 12, 16), 16, groups=4, dtype="float16", layout=layout) for layout in ("NCHW", "NHWC")
}
ROWS, WORDS = "rows of results written out one by one", "words of several elements"


def place_of(of: Any, **wanted: Any) -> int:
    """The index of exactly these choices, whatever the predicates say of it; one row and small tiles otherwise."""
    usual = {"tile_c": [4, 4], "tile_f": [1], "tile_y": [2, 2], "tile_x": [2, 4], "chunk": 4, "window": "row"}
    space, places = template_of(of).gpu.space(of), []
    for knob in space.knobs:
        value = {**usual, **wanted}.get(knob.name)
        data = [list(c.sizes[1:]) if hasattr(c, "sizes") else c.data for c in knob.choices]
        places.append(data.index(value) if value is not None else 0)
    return int(space.index(places))


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        (LAST, {"order": "stores", "window": "row"}),
        (LAST, {"order": "stores", "window": "sliding"}),
        (LAST, {"order": "stores", "window": "sliding", "whole_words": 1}),
        (FIRST, {"order": "stores", "window": "row", "tile_c": [4, 1]}),
        (FIRST, {"order": "rows", "window": "all", "tile_c": [4, 1], "whole_words": 1}),
        (FIRST, {"order": "stores", "window": "all", "tile_c": [4, 1], "whole_words": 1}),
        (LAST, {"window": "rolled", "whole_words": 1}),
        (LAST, {"window": "sliding", "whole_words": 2}),
        (GROUPS["NHWC"], {"window": "row", "whole_words": 1}),
    ],
)
def test_what_a_space_admits(of: Any, wanted: dict[str, Any]) -> None:
    space = template_of(of).gpu.space(of)
    config = space.get(place_of(of, **wanted))
    assert {name: config[name].val for name in wanted if name != "tile_c"} == {
        name: value for name, value in wanted.items() if name != "tile_c"
    }


@pytest.mark.parametrize(
    ("of", "wanted", "reason"),
    [
        (LAST, {"order": "rows", "window": "all"}, ROWS),
        (LAST, {"order": "stores", "window": "rolled"}, ROWS),
        (LAST, {"chunk": 1, "whole_words": 1}, WORDS),
        (LAST, {"chunk": 1, "whole_words": 1, "order": "stores"}, WORDS),
        (FIRST, {"chunk": 1, "whole_words": 1, "tile_c": [4, 1]}, WORDS),
        (GROUPS["NHWC"], {"chunk": 1, "whole_words": 1}, WORDS),
        (FIRST, {"chunk": 1, "whole_words": 2, "tile_c": [4, 1]}, WORDS),
    ],
)
def test_what_a_space_refuses(of: Any, wanted: dict[str, Any], reason: str) -> None:
    space, index = template_of(of).gpu.space(of), place_of(of, **wanted)
    assert not space.is_index_valid(index)
    with pytest.raises(UserError, match=f"is ruled out by {reason}"):
        space.get(index)


def test_rows_that_write_out_more_products_than_code_should() -> None:
    """One row of a window is few products, but all rows of all steps are written out."""
    of = Depthwise.of((1, 16, 40, 40), 15, dtype="float16", layout="NHWC")
    wanted = {"tile_c": [2, 4], "tile_y": [1, 2], "tile_x": [1, 4], "window": "row"}
    assert Tile(4, 1, 2, 4, 4, Window.ROW).steps(of) <= STEPS < Tile(4, 1, 2, 4, 4, Window.SLIDING).steps(of)
    space = template_of(of).gpu.space(of)
    assert space.is_index_valid(place_of(of, **wanted))
    assert not space.is_index_valid(place_of(of, **wanted, order="stores"))


@pytest.mark.parametrize("layout", GROUPS)
def test_knobs_that_have_one_choice(layout: str) -> None:
    knobs = template_of(GROUPS[layout]).gpu.space(GROUPS[layout]).space_map
    assert [choice.data for choice in knobs["order"].choices] == ["terms"]
    for dtype in ("float32", "float64"):
        of = Depthwise.of((1, 16, 8, 8), dtype=dtype, layout=layout)
        knobs = template_of(of).gpu.space(of).space_map
        assert [choice.data for choice in knobs["whole_words"].choices] == [0]
        assert [choice.data for choice in knobs["order"].choices] == ["terms", "rows", "stores"]
