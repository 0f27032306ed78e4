"""Distributed training: two processes compute the gradients that one process computes from all images."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

PROGRAM = """
import os, sys, torch
from tests.functional.test_training import Net, nn
from tests.decided import decided
from tilewright.functional.planning import decision, plans
from torch.nn.parallel import DistributedDataParallel

decided("ours").__enter__()
TOLERANCES = {torch.float32: 2e-5, torch.bfloat16: 3e-2}

def flat_gradient(net):
    return torch.cat([p.grad.flatten() for p in net.parameters()]).double()

def expected(images):
    net = Net(torch.nn).double()
    torch.stack([net(x.double()).exp().mean() for x in images]).mean().backward()
    return flat_gradient(net)

def work(rank, file, backend):
    torch.set_num_threads(1)
    device = "cpu" if backend == "gloo" else "cuda"
    if backend == "nccl":
        torch.cuda.set_device(rank)
        torch.backends.cudnn.allow_tf32 = False
    torch.distributed.init_process_group(backend, init_method=f"file://{file}", rank=rank, world_size=2)
    torch.manual_seed(1)
    images = [torch.randn(2, 8, 5, 6) + shift for shift in range(2)]
    wanted = expected(images).to(device)
    for kind, tolerance in TOLERANCES.items():
        net = DistributedDataParallel(Net(nn).to(device), device_ids=[rank] if backend == "nccl" else None)
        for _ in range(3):  # the operators, then the recorded passes
            net.zero_grad()
            with torch.autocast(device, kind, enabled=kind is not torch.float32):
                y = net(images[rank].to(device))
            y.float().exp().mean().backward()
            found = flat_gradient(net)
            error = float((found - wanted).norm() / wanted.norm())
            assert error < tolerance, (kind, error)
        every = [torch.empty_like(found) for _ in range(2)]
        torch.distributed.all_gather(every, found)
        assert torch.equal(*every)
    ways = {problem.op: plan.choice.side for (problem, *_), plan in plans._plans.items()}
    assert {"conv", "weight_gradient"} <= {*ways} and {*ways.values()} == {decision.Side.OURS}, ways
    torch.distributed.destroy_process_group()
    os._exit(0)  # in a fork, destructors of PyTorch have waited without end

if __name__ == "__main__":
    how = "fork" if sys.argv[2] == "gloo" else "spawn"
    torch.multiprocessing.start_processes(work, tuple(sys.argv[1:]), 2, start_method=how)
"""


two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="it takes two GPUs, and there are fewer")


@pytest.mark.parametrize("backend", ["gloo", pytest.param("nccl", marks=[pytest.mark.cuda, two_gpus])])
def test_two_processes_train_together(backend: str, tmp_path: Path) -> None:
    program = tmp_path / "together.py"  # which spawned processes import
    program.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TILEWRIGHT_CACHE": "0"}
    command = [sys.executable, str(program), str(tmp_path / "meeting"), backend]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert ran.returncode == 0, ran.stderr
