"""Models of timm through `torch.compile(backend="tilewright")`, beside the models themselves.

The graphs are rewritten as if all kernels were Tilewright's, and PyTorch computes the calls in float64: batch norms
with the statistics of few values amplify any rounding. timm is no dependency: `pip install timm` beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.functional.planning.decision import Decision, Side

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
timm = pytest.importorskip("timm", reason="timm is not installed")
from tests.nn.compiling import Backend, nothing_remembered  # noqa: E402  # needs PyTorch

fusion = import_module("tilewright.nn.fusion")  # needs PyTorch

MODELS = """
    convnext_atto convnextv2_atto cspresnet50 densenet121 dla34 dpn68 edgenext_xx_small efficientnet_b0
    efficientnetv2_rw_t fastvit_t8 fbnetc_100 focalnet_tiny_srf gernet_s ghostnet_100 hardcorenas_a hgnet_tiny
    hrnet_w18_small inception_next_atto inception_v3 levit_128s lcnet_050 mixnet_s mnasnet_small mobilenetv2_050
    mobilenetv3_small_050 mobilenetv4_conv_small mobileone_s0 nf_regnet_b0 poolformer_s12 regnetx_002 regnety_002
    repghostnet_050 repvgg_a0 repvit_m1 res2net50_14w_8s resnest14d resnet18 resnext26ts rexnet_100
    tf_efficientnet_lite0 tinynet_e vgg11_bn vovnet39a xception41
""".split()


@pytest.fixture(autouse=True)
def _computed_by_pytorch(rival_kernels: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ours = SimpleNamespace(choice=Decision(Side.OURS, why="as the test says", seconds=1.0, rival_seconds=2.0))
    monkeypatch.setattr(fusion, "plan_for", lambda *given, **named: ours)
    with nothing_remembered():
        yield


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_model(name: str) -> None:
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=10)
    size = max(96, model.default_cfg.get("min_input_size", (3, 96, 96))[1])
    size = model.default_cfg["input_size"][1] if model.default_cfg.get("fixed_input_size") else size
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    model.eval()
    x = torch.randn(2, 3, size, size)
    with torch.no_grad():
        for norm in norms:
            norm.train()
            norm.momentum = 1.0
        model(x)
        model.eval()
        model, x = model.double(), x.double()
        expected, backend = model(x), Backend()
        found: Any = torch.compile(model, backend=backend)(x)
    error = float((found - expected).norm() / expected.norm())
    rows = [row for report in backend.reports for row in report.rows]
    count = f"{sum(row.replaced for row in rows)} of {len(rows)} in {len(backend.reports)} graphs"
    print(f"{name}: {error:.1e}, {count}")
    assert error <= 1e-9
    assert any(row.replaced for row in rows)
