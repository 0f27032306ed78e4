"""Targets: spelling, limits, errors, and the current one."""

from __future__ import annotations

import pickle

import pytest

from tilewright.core.errors import UserError
from tilewright.core.target import Target


@pytest.mark.parametrize(
    "spelling",
    ["cuda", "cuda -arch=sm_86", "opencl", "llvm -mcpu=icelake-server -mattr=+avx2,+fma", "cuda -model=h200"],
)
def test_a_target_prints_as_it_is_spelt(spelling: str) -> None:
    target = Target(spelling)
    assert str(target) == spelling
    assert Target(str(target)) == target
    assert hash(Target(spelling)) == hash(target)
    assert pickle.loads(pickle.dumps(target)) == target
    assert Target.parse(target) is target


def test_limits_follow_the_architecture() -> None:
    assert Target("cuda").arch == "sm_90"
    assert Target("cuda").max_shared_bytes == 227 * 1024
    assert Target("cuda -arch=sm_86").max_shared_bytes == 99 * 1024
    assert Target("cuda -arch=sm_75").threads_per_multiprocessor == 1024
    assert Target("cuda").with_arch("sm_80").arch == "sm_80"
    assert Target("cuda -model=x").with_arch("sm_80").labels == (("model", "x"),)


def test_options_that_name_a_limit_set_it() -> None:
    target = Target("cuda -keys=cuda,gpu -arch=sm_75 -max_num_threads=512 -thread_warp_size=32")
    assert target.max_threads_per_block == target.max_num_threads == 512
    assert target.keys == ("cuda", "gpu")
    assert str(target) == "cuda -arch=sm_75 -max_threads_per_block=512 -keys=cuda,gpu"


def test_the_legacy_forms() -> None:
    assert Target({"kind": "cuda", "arch": "sm_80", "keys": ["cuda", "gpu"]}).arch == "sm_80"
    assert Target("cuda", host="llvm") == Target(target="cuda", host="llvm") == Target("cuda")
    assert Target("cuda").kind.name == "cuda"
    assert Target("cuda") != Target("cuda -arch=sm_90")  # the second one does not follow the device


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("metal", r"unknown target kind 'metal'\n  fix: write 'opencl'; the kinds are cuda, opencl, llvm"),
        ("cuda -speed=9", r"target 'cuda' has no option -speed\n  fix: its options are -arch, .*-libs"),
        ("cuda -arch=sm_91", r"unknown CUDA architecture 'sm_91'\n  fix: use one of sm_50, .*sm_121"),
        ("cuda fast", r"'fast' is not an option"),
        ("opencl -max_num_threads=many", r"-max_num_threads=many is not a positive whole number"),
        ("", r"unknown target kind ''"),
    ],
)
def test_errors_name_what_is_accepted(spelling: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Target(spelling)


def test_the_current_target_is_the_innermost() -> None:
    assert Target.current() is None
    with Target("cuda"), Target("opencl") as inner:
        assert Target.current() is inner
    assert Target.current() is None
    with pytest.raises(UserError, match="no current target"):
        Target.current(allow_none=False)
