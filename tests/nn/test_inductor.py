"""`torch.compile(model, backend="tilewright")` with Inductor, without an import of the package, in two processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
import torch
from torch import nn
from torch._dynamo.utils import counters

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(8, 8, 7, padding=3, groups=8, bias=False), nn.BatchNorm2d(8), nn.SiLU(inplace=True), nn.Conv2d(8, 4, 1),
).eval()
x = torch.randn(2, 8, 30, 30)
reports = []
with torch.no_grad():
    assert "tilewright" not in sys.modules
    compiled = torch.compile(model, backend="tilewright", options={"report": reports.append, "epilogue_fusion": True})
    torch.testing.assert_close(compiled(x), model(x))
    model[1].running_var.fill_(3)
    torch.testing.assert_close(compiled(x), model(x))
assert len(reports) == 1 and len(reports[0].rows) == 2, reports
print(counters["aot_autograd"]["autograd_cache_hit"], counters["inductor"]["fxgraph_cache_hit"])
"""


OTHER_VERSION = """
from tilewright.functional.programs import fingerprint
fingerprint.package = lambda: "another"
"""


@pytest.mark.slow
def test_the_entry_point_and_the_caches(tmp_path: Path) -> None:
    """The second process starts from both caches; one with other sources of ours does not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    entries = project["entry-points"]["torch_dynamo_backends"]
    folder = tmp_path / "site" / "backend-1.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: backend\nVersion: 1\n")
    lines = [f"{name} = {place}\n" for name, place in entries.items()]
    (folder / "entry_points.txt").write_text("".join(["[torch_dynamo_backends]\n", *lines]))
    places = {"TORCHINDUCTOR_CACHE_DIR": tmp_path / "inductor", "TILEWRIGHT_CACHE": tmp_path / "kernels"}
    path = os.pathsep.join([str(tmp_path / "site"), str(ROOT)])
    env = {**os.environ, **{name: str(place) for name, place in places.items()}, "PYTHONPATH": path}
    hits = []
    other = OTHER_VERSION + PROGRAM.replace('assert "tilewright" not in sys.modules', "")
    for program in (PROGRAM, PROGRAM, other, other):
        run = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, cwd=tmp_path)
        assert not run.returncode, run.stderr[-3000:]
        hits.append(run.stdout.split()[-2:])
    assert hits == [["0", "0"], ["1", "1"], ["0", "0"], ["1", "1"]]
