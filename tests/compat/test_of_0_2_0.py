"""Files of version 0.2.0: its pickles load, and its saved modules are refused with a fix.

`pickles_of_0_2_0.json` and `module_of_0_2_0.tw` are what that version wrote. It had no fleet; a fleet keeps workers of
different versions apart (`tests/fleet/test_dispatch.py`).
"""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import autotvm
from tilewright.schedule.schedule import AxisAnnotations, Stage

HERE = Path(__file__).parent
PICKLED = {
    name: base64.b64decode(text)
    for name, text in json.loads((HERE / "pickles_of_0_2_0.json").read_text(encoding="utf-8")).items()
}
SHOWN = {
    "task": "Task(func_name=mm, args=(8,), kwargs={}, workload=('mm', 8))",
    "config": "[('x', [-1, 1])],None,0",
    "target": "llvm",
    "tensor": "Tensor(shape=[8], dtype=float32, name=A)",
    "result": "MeasureResult(costs=(1.0,), error_no=0, all_cost=1.0, timestamp=0.0)",
}


@pytest.mark.parametrize("name", SHOWN)
def test_pickles_load(name: str) -> None:
    assert str(pickle.loads(PICKLED[name])) == SHOWN[name]


def test_pickles_of_the_tuner_load() -> None:
    assert len(pickle.loads(PICKLED["space"])) == 4
    written = pickle.loads(PICKLED["input"])
    assert isinstance(written, autotvm.MeasureInput)
    assert written.config.index == 0
    assert {type(part) for part in pickle.loads(PICKLED["option"]).values()} == {
        autotvm.LocalBuilder, autotvm.LocalRunner
    }  # fmt: skip
    assert isinstance(pickle.loads(PICKLED["history"]), autotvm.ApplyHistoryBest)


def test_a_pickled_schedule_builds() -> None:
    s = pickle.loads(PICKLED["schedule"])
    (B,) = (op.output(0) for op in s.outputs)
    A = B.op.input_tensors[0]
    given, found = tw.nd.array(np.arange(8, dtype="float32")), tw.nd.array(np.zeros(8, "float32"))
    tw.build(s, [A, B], "llvm")(given, found)
    assert found.numpy().tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_classes_with_new_names_load_by_the_earlier_ones() -> None:
    found = [pickle.loads(f"ctilewright.schedule.{name}\n.".encode()) for name in ("value\nAxisNotes", "value\nStage")]
    assert found == [AxisAnnotations, Stage]


def test_a_saved_module_is_refused() -> None:
    with refused("load_module", "written by Tilewright 0.2.0 in format 1", fix="build and save the module again"):
        tw.runtime.load_module(str(HERE / "module_of_0_2_0.tw"))


def test_templates_keep_their_names() -> None:
    from tilewright.topi import templates

    for name in ("CONV1D", "CONV2D", "DEPTHWISE"):
        assert getattr(templates, name).name == f"topi/{name.lower()}"
    with pytest.raises(AttributeError, match="no attribute 'CONV9D'"):
        _ = templates.CONV9D
