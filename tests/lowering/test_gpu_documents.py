"""The convolution and the depthwise document's programs lower to what the legacy compiler prints for them."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tilewright
from tests.lowering.same_program import differences
from tests.lowering.test_documents import LEGACY

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    """An example's module, by its file."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


blog, hwcn = example("depthwise_fused"), example("conv2d_hwcn")
BEST = blog.Case(threads=(8, 16), vthreads=(1, 2))
CASES = {
    "depthwise_blog_96_x1_k3_t8x8_v1x1": blog.Case(),
    "depthwise_blog_96_x1_k3_t8x8_v1x4": blog.Case(vthreads=(1, 4)),
    "depthwise_blog_96_x1_k3_t4x32_v1x1": blog.Case(threads=(4, 32)),
    "depthwise_blog_96_x1_k3_t8x16_v1x2": BEST,
    "depthwise_blog_96_x1_k3_t8x16_v1x2_fused": replace(BEST, fused=True),
}


def same_program(printed: str, name: str) -> list[str]:
    """What differs; a vector index counts by its first element.

    The legacy compiler declares the view of a buffer that virtual threads share out larger than what it allocates;
    ours has the size of the allocation, which is compared.
    """
    texts = (printed, (LEGACY / f"{name}.txt").read_text(encoding="utf-8"))
    ours, theirs = (re.sub(r"\[([^\[\]:]+):[^\[\]:]+\]", r"[\1]", text) for text in texts)
    return [line for line in differences(ours, theirs) if " = T.Buffer((" not in line]


@pytest.mark.parametrize("name", CASES)
def test_the_depthwise_document(name: str) -> None:
    schedule, args = blog.schedule(CASES[name])
    assert same_program(str(tilewright.lower(schedule, args)), name) == []


def test_the_convolution_document() -> None:
    made: tuple[Any, ...] = hwcn.vector(hwcn.Problem())
    assert same_program(str(tilewright.lower(made[0], list(made[1:]))), "conv2d_hwcn") == []
