"""What `explain_call` prints of a configuration: each knob with its choice, for people."""

from __future__ import annotations

import re

import numpy as np

import tilewright as tw
from tilewright.functional.planning.compiler import in_words
from tilewright.tune.space.choices import AnnotateChoice, OrderChoice, SplitChoice, ValueChoice
from tilewright.tune.space.config import Config


def test_a_configuration_is_knobs_with_choices() -> None:
    x, w = np.ones((1, 8, 16, 16), np.float32), np.ones((8, 1, 3, 3), np.float32)
    lines = tw.explain_call("conv2d", x, w, padding=1, groups=8).splitlines()
    (line,) = [line for line in lines if line.startswith("config:")]
    tiles = r"tile_c \d+, tile_y \d+, tile_x \d+"
    assert re.fullmatch(rf"config:  {tiles}, (\w+ \w+, )+store_padding on \(index \d+\)", line)


def test_choices_of_every_kind() -> None:
    choices = {
        "tile_f": SplitChoice([-1, 2, 16, 1]),
        "tile_n": SplitChoice([-1]),
        "order": OrderChoice([0, 2, 1]),
        "inner": AnnotateChoice(["unroll", "vec"]),
        "step": ValueChoice(512),
        "window": ValueChoice("none"),
        "shared": ValueChoice(False),
    }
    assert in_words(Config(choices, 7)) == (
        "tile_f 2×16×1, tile_n whole, order 0/2/1, inner unroll/vec, step 512, window none, shared off (index 7)"
    )
    assert in_words(Config({"step": ValueChoice(0)})) == "step 0"
