"""Names that are asked for and not there: parts of the legacy API that are missing, and slips of the pen."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.errors.refused import refused
from tilewright import te
from tilewright.arith import Analyzer
from tilewright.compat.messages.names import INSTEAD, OTHERWISE

A = te.placeholder((16, 24), name="A")
B = te.compute((16, 24), lambda i, j: A[i, j] + 1.0, name="B")
s = te.create_schedule(B.op)
array = tilewright.nd.array(np.zeros(3, "float32"))


def holder(name: str) -> Any:
    """The object that a list of missing names is about."""
    things: dict[str, Any] = {"the schedule": s, "the stage": s[B], "the array": array, "tilewright": tilewright,
                              "the target": tilewright.target.Target("llvm"), "the analyzer": Analyzer()}  # fmt: skip
    home = "tilewright.legacy" if name in ("make", "ir_pass", "build_module") else "tilewright"
    return things.get(name) or import_module(f"{home}.{name}")


ABSENT = [(about, name) for about, names in INSTEAD.items() for name in names]


@pytest.mark.parametrize(("about", "name"), ABSENT)
def test_a_missing_part_says_what_to_use(about: str, name: str) -> None:
    assert not hasattr(holder(about), name), f"{name} is there now: take it off the list"
    assert INSTEAD[about][name]


NAMED: list[tuple[str, str, str, str]] = [
    ("te", "extern_primfunc", "te.extern_primfunc is not part of Tilewright", "te.compute"),
    ("te", "ceildiv", "te has no 'ceildiv'", "tir.ceildiv(a, b)"),
    ("topi", "relu", "topi has no 'relu'", "use topi.nn.relu"),
    ("topi.nn", "max_pool2d", "topi.nn.max_pool2d is not part of Tilewright", 'topi.nn.pool2d(data, kernel'),
    ("topi", "softmax", "topi has no 'softmax'", "topi.nn.softmax"),
    ("topi.nn", "bitserial_dense", "topi.nn.bitserial_dense is not part of Tilewright", "te.compute"),
    ("nd", "micro_dev", "nd.micro_dev is not part of Tilewright", "nd.cuda()"),
    ("transform", "FuseOps", "transform.FuseOps is not part of Tilewright", "tir.add_lower_pass"),
    ("tir.transform", "MakePackedAPI", "tir.transform.MakePackedAPI is not part of Tilewright", "tw.build does it"),
    ("ir", "TupleType", "ir.TupleType is not part of Tilewright", "Python's own objects"),
    ("tir.analysis", "get_block_access_region", "is not part of Tilewright", "te.create_schedule"),
    ("tilewright", "script", "tilewright.script is not part of Tilewright", "programs are not parsed from TVMScript"),
    ("te.schedule", "VerifyCompactBuffer", "te.schedule.VerifyCompactBuffer is not part of", "tw.lower(s, args)"),
    ("tir", "BlockRealize", "tir.BlockRealize is not part of Tilewright", "te.create_schedule"),
    ("topi", "argwhere", "topi.argwhere is not part of Tilewright", "depends on values"),
    ("topi", "dense", "topi has no 'dense'", "topi.nn.dense"),
    ("arith", "domain_touched", "arith.domain_touched is not part of Tilewright", "te.schedule.InferBound"),
    ("schedule", "VerifyCompact", "schedule.VerifyCompact is not part of Tilewright", "te.schedule.InferBound"),
    ("tensor", "TensorIntrinCall", "tensor.TensorIntrinCall is not part of Tilewright", "te.ComputeOp"),
    ("expr", "UnknownImm", "expr.UnknownImm is not part of Tilewright", "tir.IntImm"),
    ("topi.cuda", "get_const_tuple", "topi.cuda has no 'get_const_tuple'", "use topi.utils.get_const_tuple"),
    ("runtime", "ObjectGeneric", "runtime.ObjectGeneric is not part of Tilewright", "functions"),
    ("autotvm.task", "extract_from_program", "autotvm.task.extract_from_program is not part", "task.create"),
    ("tilewright", "relay", "tilewright.relay is not part of Tilewright", "te.compute or topi"),
    ("target", "build_config", "target.build_config is not part of Tilewright", "transform.PassContext"),
    ("the schedule", "split", "the schedule has no 'split': it belongs to a stage", "s[B].split(...)"),
    ("the target", "target_name", "the target has no 'target_name'", "target.kind"),
    ("the analyzer", "enter_constraint_context", "the analyzer has no 'enter_constraint_context'", "constraint_scope"),
    ("the stage", "cache_read", "the stage has no 'cache_read'", "s.cache_read(...)"),
    ("the stage", "axis", "the stage has no 'axis'", "s[B].op.axis"),
    ("the array", "astype", "the array has no 'astype'", "a.numpy().astype(dtype)"),
]  # fmt: skip
SLIPS: list[tuple[str, str, str, str]] = [
    ("te", "placehoder", "te has no 'placehoder'", "did you mean placeholder"),
    ("topi.nn", "conv2d_ncwh", "topi.nn has no 'conv2d_ncwh'", "did you mean conv2d_nchw"),
    ("tilewright", "lowr", "tilewright has no 'lowr'", "did you mean lower"),
    ("the schedule", "cach_read", "the schedule has no 'cach_read'", "did you mean cache_read"),
    ("the stage", "vectorise", "the stage has no 'vectorise'", "did you mean vectorize?"),
    ("the array", "nunpy", "the array has no 'nunpy'", "did you mean numpy"),
]


@pytest.mark.parametrize(("about", "name", "says", "fix"), [*NAMED, *SLIPS])
def test_a_name_that_is_not_there(about: str, name: str, says: str, fix: str) -> None:
    with refused("", says, fix=fix):
        getattr(holder(about), name)


@pytest.mark.parametrize("about", OTHERWISE)
def test_one_answer_for_all_other_names(about: str) -> None:
    with refused("", f"{about}.xyzzy is not part of Tilewright", fix=""):
        holder(about).xyzzy
    with pytest.raises(AttributeError, match="has no attribute '__xyzzy__'"):
        holder(about).__xyzzy__


def test_a_slip_on_a_device() -> None:
    with refused("", "the device has no 'compute_versoin'", fix="did you mean compute_version"):
        tilewright.cpu().compute_versoin


@pytest.mark.parametrize("about", ["te", "tilewright", "the schedule", "the stage", "the array"])
def test_other_names_are_pythons(about: str) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'xyzzy'"):
        holder(about).xyzzy
    assert getattr(holder(about), "xyzzy", 3) == 3


def test_a_schedule_is_no_list() -> None:
    with refused("", "a schedule is not a list", fix="s.stages"):
        list(s)
    with refused("", "a schedule has no len()", fix="len(s.stages)"):
        len(s)
    with refused("", "stages are not assigned to", fix="s[B].split"):
        s[B] = 3
    assert B in s
    assert te.placeholder((3,)) not in s
