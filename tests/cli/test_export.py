"""`tilewright export`: a layer's kernel as a library for C."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from tilewright.core.errors import UserError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tilewright.cli.app import app  # noqa: E402
from tilewright.cli.export import ExportOptions, export  # noqa: E402  # needs PyTorch

MODEL = """
import torch
from torch import nn
import tilewright as tw
from weights import SEED

def model():
    torch.manual_seed(SEED)
    return nn.Sequential(
        nn.Conv2d(8, 8, 3, padding=1, groups=8),
        nn.Sequential(tw.nn.Conv2d(8, 16, 1, activation="relu"), nn.MaxPool2d(2)),
    )

line = nn.Conv1d(8, 8, 5, groups=8, bias=False)

class Doubled(nn.Conv2d):
    def forward(self, x):
        return 2 * super().forward(x)

odd = nn.ModuleList([
    Doubled(8, 8, 3), tw.nn.Conv2d(8, 8, 3, padding=1, padding_mode="reflect"), nn.LazyConv2d(8, 3), nn.Conv2d(8, 8, 3),
    nn.MaxPool2d(2, return_indices=True),
])
odd[3].register_forward_hook(lambda module, given, result: 2 * result)
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A file with a model, which imports a module beside it."""
    (tmp_path / "weights.py").write_text("SEED = 3")
    (tmp_path / "model.py").write_text(MODEL)
    return str(tmp_path / "model.py")


def layer(path: str, name: str) -> Any:
    """The same layer as the command finds."""
    torch.manual_seed(3)
    namespace: dict[str, Any] = {}
    exec(MODEL.replace("SEED)", "3)").replace("from weights import SEED", ""), namespace)
    return namespace["model"]().get_submodule(name)


def test_a_library_of_a_layer_computes_it(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "layer.so"
    with pytest.raises(SystemExit) as ended:
        app(["export", f"{model}:model.1.0", "--shape", "2x8x5x6", "-o", str(out), "-t", "llvm"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "problem: conv  2x8x5x6  weights 16x8x1x1  bias  relu  float32  NCHW" in printed
    assert f"written: {out}, {tmp_path / 'layer.h'}" in printed
    header = (tmp_path / "layer.h").read_text()
    assert "int32_t model_1_0(const float *data, const float *weights, const float *bias, float *" in header
    of = layer(model, "1.0")
    x, result = torch.randn(2, 8, 5, 6), torch.full((2, 16, 5, 6), torch.nan)
    given = [a.data_ptr() for a in (x, of.weight, of.bias, result)]
    assert ctypes.CDLL(str(out)).model_1_0(*map(ctypes.c_void_p, given)) == 0
    wanted = torch.relu(torch.nn.functional.conv2d(x, of.weight, of.bias))
    torch.testing.assert_close(result, wanted.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        (
            "model.0",
            {"channels_last": True, "target": "c"},
            "conv  1x8x6x5  weights 8x1x3x3  padding 1x1x1x1  groups 8",
        ),
        ("model.1.1", {"target": "cuda -arch=sm_90", "dtype": "float16"}, "max_pool  1x8x6x5  kernel 2x2  stride 2x2"),
        ("line", {"shape": "1,8,30", "target": "llvm"}, "conv  1x8x30  weights 8x1x5  groups 8  float32  NCW"),
    ],
    ids="last pooling line".split(),
)
def test_sources_of_layers(
    name: str, options: dict[str, Any], problem: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "layer.h"
    assert export(ExportOptions(f"{model}:{name}", **{"shape": "1x8x6x5", "output": out, **options})) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"problem: {problem}")
    assert f"written: {out}\n" in printed
    assert name.replace(".", "_") in out.read_text()


def test_a_tuned_record_of_the_layer_is_used(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision that this machine keeps for the layer."""
    from tilewright.functional import export as kernels

    plan_for = kernels.plan_for

    def tuned(*given: Any) -> Any:
        plan = plan_for(*given[:2], "")
        return plan._replace(choice=plan.choice._replace(config_index=0, why="the best of 40 measured"))

    monkeypatch.setattr(kernels, "plan_for", tuned)
    monkeypatch.setattr("tilewright.cli.export.cuda", lambda: type("None", (), {"exist": False})())
    export(ExportOptions(f"{model}:model.0", "1x8x6x5", tmp_path / "layer.h"))
    assert "the best of 40 measured" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "shape", "message", "fix"),
    [
        ("{}", "1x8x6x5", "names no layer of a file", "give FILE:NAME"),
        ("{}:other", "1x8x6x5", "there is no other", "give one of torch, nn, tw, SEED, model, line"),
        ("{}:odd.0", "1x8x6x5", "its class Doubled has its own forward()", "export the convolution"),
        ("{}:odd.1", "1x8x6x5", "its padding_mode is 'reflect'", "pad the input"),
        ("{}:odd.2", "1x8x6x5", "it is lazy", "call the model once"),
        ("{}:odd.3", "1x8x6x5", "it has hooks", "remove them"),
        ("{}:odd.4", "1x8x6x5", "it returns indices", "return_indices=False"),
        ("{}:model.7", "1x8x6x5", "there is no 7", "give one of 0, 1"),
        ("{}:model", "1x8x6x5", "model is a Sequential, not a layer of ours", "model.0, model.1.0, model.1.1"),
        ("{}:nn.ReLU", "1x8x6x5", "nn.ReLU is a ReLU, not a layer of ours", "name a convolution or a pooling"),
        ("{}:SEED", "1x8x6x5", "SEED is an int", "name a layer"),
        ("{}:model.0", "8", "--shape 8 is no shape", "1x96x56x56"),
    ],
)
def test_errors(given: str, shape: str, message: str, fix: str, model: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        export(ExportOptions(given.format(model), shape, tmp_path / "layer.so", target="llvm"))
    assert message in caught.value.message
    assert fix in str(caught.value)
