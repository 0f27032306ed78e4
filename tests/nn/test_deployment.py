"""Models with our modules in other programs: TorchScript, ONNX, exported and compiled packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.core.errors import UserError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F = torch.nn.functional


class Model(torch.nn.Module):  # type: ignore[misc]  # PyTorch is not followed
    """Each of our modules, and calls of functions."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = tw.nn.Conv2d(4, 8, 3, padding="same", groups=2, activation="hardswish")
        self.border = tw.nn.Conv2d(8, 8, 3, padding=1, padding_mode="reflect", groups=8, activation=own)
        self.most, self.mean = tw.nn.MaxPool2d(2), tw.nn.AvgPool2d(3, 2, 1, count_include_pad=False)
        self.larger = tw.nn.ConvTranspose2d(8, 6, 2, 2, activation="leaky_relu")
        self.line = tw.nn.Conv1d(6, 6, 3, groups=6)

    def forward(self, x: Any) -> Any:
        """All of them."""
        y = self.mean(self.most(self.border(self.wide(x))))
        y = self.larger(y)
        last = tw.conv2d(
            y.permute(0, 2, 3, 1), self.line.weight[..., None], padding=((1, 0), (0, 2)), groups=6, layout="NHWC"
        )
        last = tw.max_pool2d(last, (1, 2), 1, layout="NHWC")
        return self.line(last.permute(0, 3, 1, 2).flatten(2))


def own(v: Any) -> Any:
    """An activation of the user's own."""
    return te.max(v, 0) * te.tanh(v)


def sample() -> tuple[Any, Any]:
    """The model, and its input."""
    torch.manual_seed(0)
    return Model().eval(), torch.randn(2, 4, 12, 10)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamo", [pytest.param(False, marks=pytest.mark.slow), True], ids=["torchscript", "dynamo"])
def test_onnx_programs_have_standard_nodes(dynamo: bool, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    reference = pytest.importorskip("onnx.reference")
    model, x = sample()
    path = tmp_path / "model.onnx"
    with torch.no_grad():
        wanted = model(x)
        options = {"verbose": False} if dynamo else {}
        torch.onnx.export(model, (x,), str(path), dynamo=dynamo, **options)
    nodes = onnx.load(str(path)).graph.node
    kinds = [node.op_type for node in nodes]
    assert kinds.count("Conv") == 4
    assert {"MaxPool", "ConvTranspose"} <= {*kinds}
    assert {node.domain for node in nodes} <= {"", "ai.onnx"}
    session = reference.ReferenceEvaluator(str(path))
    (found,) = session.run(None, {session.input_names[0]: x.numpy()})
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["Conv2d", "ConvTranspose1d", "MaxPool2d"])
def test_torchscript_is_refused_with_a_way_out(name: str) -> None:
    layer = getattr(tw.nn, name)(*((2,) if "Pool" in name else (4, 4, 3)))
    with pytest.raises(UserError, match=rf"tilewright.nn.{name} does not compile to TorchScript\n.*torch.jit.trace"):
        torch.jit.script(torch.nn.Sequential(layer))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["conv2d", "avg_pool2d", "causal_conv1d_fn"])
def test_torchscript_names_a_function_that_it_does_not_compile(name: str) -> None:
    with pytest.raises(RuntimeError, match=rf"tilewright.{name} does not compile to TorchScript; .*torch.jit.trace"):
        torch.jit.script(getattr(tw, name))


LOAD = """
import sys, torch
folder, *kinds = sys.argv[1:]
loads = {
    "exported.pt2": lambda path: torch.export.load(path).module(),
    "traced.pt": torch.jit.load,
    "packaged.pt2": torch._inductor.aoti_load_package,
}
for kind in kinds:
    try:
        loads[kind](f"{folder}/{kind}")
    except RuntimeError as error:
        print(error, "end of", kind, file=sys.stderr)
import tilewright.nn
torch.save([loads[kind](f"{folder}/{kind}")(torch.ones(1, 6, 8, 8)) for kind in kinds], f"{folder}/results")
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "kinds", [["exported.pt2", "traced.pt"], pytest.param(["packaged.pt2"], marks=pytest.mark.slow)], ids=len
)
def test_programs_load_in_a_new_process(kinds: list[str], tmp_path: Path) -> None:
    """After one import; without it, PyTorch's message names our operator."""
    model = torch.nn.Sequential(tw.nn.Conv2d(6, 6, 3, groups=6, activation="mish"), tw.nn.MaxPool2d(2)).eval()
    x = torch.ones(1, 6, 8, 8)
    with torch.no_grad():
        program, wanted = torch.export.export(model, (x,)), model(x)
        if "packaged.pt2" in kinds:
            torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "packaged.pt2"))
        else:
            torch.export.save(program, tmp_path / "exported.pt2")
            torch.jit.save(torch.jit.trace(model, x), tmp_path / "traced.pt")
    command = [sys.executable, "-c", LOAD, str(tmp_path), *kinds]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    rest = done.stderr
    for kind in kinds:
        said, ended, rest = rest.partition(f"end of {kind}")
        assert ended
        assert "tilewright" in said
        assert "convolution" in said
    for found in torch.load(tmp_path / "results"):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
