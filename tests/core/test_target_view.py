"""What targets tell under the legacy API's names, and other spellings of them."""

from __future__ import annotations

import json
import pickle

import pytest

from tests.errors.refused import refused
from tilewright.target import Target, cuda


def test_options_by_name() -> None:
    t = Target("cuda -arch=sm_80 -model=unknown -libs=cublas,cudnn -tag=ours")
    assert (t.model, t.libs, t.tag, t.mcpu, t.mattr, t.device_name) == (
        "unknown",
        ["cublas", "cudnn"],
        "ours",
        "",
        [],
        "",
    )
    assert (t.attrs["arch"], t.attrs["thread_warp_size"], t.attrs["max_num_threads"]) == ("sm_80", 32, 1024)
    assert (t.get_attr("libs"), t.get_attr("nothing"), t.get_attr("nothing", 3)) == (["cublas", "cudnn"], None, 3)
    assert cuda().model == "unknown"
    cpu = Target({"kind": "llvm", "mcpu": "skylake", "mattr": ["+avx2", "-fma"], "device": "ours"})
    assert (cpu.mcpu, cpu.mattr, cpu.device_name, cpu.attrs["mattr"]) == (
        "skylake",
        ["+avx2", "-fma"],
        "ours",
        cpu.mattr,
    )


@pytest.mark.parametrize("spelling", ["cuda -arch=sm_80 -max_num_threads=512", "llvm -mattr=+avx2,-fma", "opencl", "c"])
def test_exported_targets_make_the_same(spelling: str) -> None:
    target = Target(spelling)
    assert Target(target.export()) == Target(json.dumps(target.export())) == target


def test_hosts_are_told_again() -> None:
    assert Target("cuda").host is None
    for t in (
        Target("cuda", host="llvm"),
        Target({"kind": "cuda", "host": {"kind": "llvm"}}),
        Target("cuda").with_host(Target("llvm")),
        Target(Target("cuda", host="llvm")),
    ):
        assert t.host == Target("llvm")
        assert t == Target("cuda")
    assert pickle.loads(pickle.dumps(Target("cuda", host="llvm"))) == Target("cuda")


def test_tags_and_kinds() -> None:
    assert Target("nvidia/geforce-rtx-2080-ti") == Target("cuda -arch=sm_75")
    assert Target("nvidia/nvidia-a100 -libs=cublas") == Target("cuda -arch=sm_80 -libs=cublas")
    assert Target.list_kinds() == ["cuda", "opencl", "llvm", "c"]


def test_spellings_that_are_none() -> None:
    with refused("Target", "an option of a target is {'a': 'b'}", fix="a text, a number or a list"):
        Target({"kind": "llvm", "libs": {"a": "b"}})
    with refused("Target", "is not JSON", fix='{"kind": "cuda", ...}'):
        Target("{kind: cuda}")
    with pytest.raises(ValueError, match="is not JSON"):
        Target("{")
