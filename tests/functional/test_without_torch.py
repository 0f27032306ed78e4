"""`accelerate` from end to end, on a stand-in for PyTorch: so a fault of it shows where PyTorch is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
from tests.functional import fake_torch
fake_torch.install()
import numpy as np
import tilewright as tw

class Model(fake_torch.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = fake_torch.Conv2d(4, 3), fake_torch.Conv2d(4, 5)

    def forward(self, x):
        return self.second(self.first(x))

model, x = Model(), fake_torch.Tensor(np.random.default_rng(2).random((1, 4, 9, 9), "float32"))
own = model.first, model.second
wanted = model(x).data
done = tw.accelerate(model, x)
assert sum(row.replaced for row in done.rows) == 2, done
assert isinstance(model.first, tw.nn.Conv2d)
np.testing.assert_allclose(model(x).data, wanted, rtol=1e-4)
print(done)
done.undo()
assert (model.first, model.second) == own
assert type(model.first) is type(model.second) is fake_torch.Conv2d
"""


def test_accelerate_replaces_measures_and_undoes() -> None:
    # Not with the PYTHONPATH of `make test-matrix`, which hides whatever is called torch.
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=900,
        env={**os.environ, "PYTHONPATH": ""},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "2 of 2 layers replaced; the model:" in run.stdout
