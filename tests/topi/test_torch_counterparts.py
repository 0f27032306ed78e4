"""Every operator of `topi` that has a counterpart in PyTorch, against PyTorch: torch_counterparts.toml lists them."""

from __future__ import annotations

import itertools
import random
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.programs.harness import poison
from tests.topi import torch_inputs
from tilewright import te, topi
from tilewright.core.dtype import DType

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
helpers: Any = pytest.importorskip("tests.topi.torch_helpers")

TABLE = tomllib.loads(Path(__file__).with_name("torch_counterparts.toml").read_text(encoding="utf-8"))
HOMES: dict[str, Any] = {"topi": topi, "nn": topi.nn, "image": topi.image}
ENTRIES = {f"{home}.{name}": entry for home, entries in TABLE.items() for name, entry in entries.items()}
COMPARED = {name: entry for name, entry in ENTRIES.items() if "torch" in entry}
HERE = {**vars(helpers), **HOMES, "te": te, "np": np}
THERE = {**vars(helpers), "torch": torch, "F": torch.nn.functional, "np": np}
DRAWN = {**vars(torch_inputs), "itertools": itertools}
EXACT = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-10}
LEAST_SHAPES = 20
TARGET = "llvm -opt-level=1"  # LLVM's optimisation takes most of the time


def test_every_operator_is_listed() -> None:
    there = {
        f"{home}.{name}"
        for home, namespace in HOMES.items()
        for name in vars(namespace)
        if callable(getattr(namespace, name)) and not name.startswith("_")
    }
    assert set(ENTRIES) == there
    assert all(("torch" in entry) != ("none" in entry) for entry in ENTRIES.values())


def called(expression: str, names: dict[str, Any], tensors: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
    variables = {**dict(zip("xyzuv", tensors, strict=False)), **options, "tensors": tensors, "options": options}
    made = eval(expression, {**names, **variables})
    return list(made) if isinstance(made, (list, tuple)) else [made]


@pytest.mark.parametrize("part", [0.5, pytest.param(1.0, marks=pytest.mark.slow, id="all")])
@pytest.mark.parametrize("name", COMPARED)
def test_operator(name: str, part: float) -> None:
    entry = COMPARED[name]
    cases = list(eval(entry.get("inputs", "each('f')"), DRAWN))
    assert len(cases) >= LEAST_SHAPES
    cases = random.Random(name).sample(cases, round(part * len(cases)))
    programs: dict[str, Any] = {}
    made = []
    with tw.target.Target(TARGET):
        for number, (arrays, options) in enumerate(cases):
            inputs = tuple(te.placeholder(a.shape, str(DType(a.dtype)), f"A{i}") for i, a in enumerate(arrays))
            outputs = called(entry.get("here", f"{name}(*tensors)"), HERE, inputs, options)
            s = te.create_schedule([t.op for t in outputs])
            read = [i for i, t in enumerate(inputs) if t.op in s.value.stage_of]
            programs[f"case{number}"] = s, [*(inputs[i] for i in read), *outputs]
            made.append((read, outputs))
        module = tw.build(programs, target=TARGET)
    wrong = []
    for number, ((arrays, options), (read, outputs)) in enumerate(zip(cases, made, strict=True)):
        given = tuple(torch.from_numpy(np.array(a)) for a in arrays)
        wanted = called(entry.get("there", f"{entry['torch']}(*tensors)"), THERE, given, options)
        found = [tw.nd.array(poison(helpers.shape(t), str(t.dtype))) for t in outputs]
        module[f"case{number}"](*(tw.nd.array(arrays[i]) for i in read), *found)
        problems = [difference(f.numpy(), w, entry) for f, w in zip(found, wanted, strict=True)]
        wrong += [f"{[a.shape for a in arrays]} {options}: {problem}" for problem in problems if problem]
    assert not wrong, f"{len(wrong)} of {len(cases)} differ:\n" + "\n".join(wrong[:8])


def difference(found: np.ndarray, wanted: Any, entry: dict[str, Any]) -> str:
    """What differs, if anything does."""
    expected = wanted.detach().resolve_conj().numpy()
    if found.shape != expected.shape:
        return f"the shape is {found.shape}, and PyTorch's {expected.shape}"
    if found.dtype != expected.dtype:
        if "type" not in entry:
            return f"the type is {found.dtype}, and PyTorch's {expected.dtype}"
        expected = expected.astype(found.dtype)
    rtol = EXACT.get(str(found.dtype), 0)
    if "rtol" in entry and rtol:
        rtol = max(rtol, entry["rtol"] * (1e-6 if found.dtype == "float64" else 1))
    try:
        np.testing.assert_allclose(
            found, expected, rtol=rtol, atol=rtol / (1 if "rtol" in entry else 10), equal_nan=True
        )
    except AssertionError as error:
        return str(error).replace("\n", " ")
    return ""
