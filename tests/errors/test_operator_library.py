"""Wrong uses of element-wise, broadcasting and reducing operators: one row per message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.errors.refused import refused
from tilewright import te, topi

A, B = te.placeholder((3, 4), name="A"), te.placeholder((5,), name="B")
WHOLE, TRUTH = te.placeholder((3, 4), "int32", "I"), te.placeholder((3, 4), "bool", "T")
SCALAR = te.placeholder((), name="S")

MISTAKES: list[tuple[str, Callable[[], Any], str, str]] = [
    ("exp", lambda: topi.exp(3), "argument 'x' is 3, which is no tensor", "te.placeholder"),
    ("cast", lambda: topi.cast(A, "float31"), "argument 'dtype' is 'float31'", 'dtype="float32"'),
    ("cast", lambda: topi.cast(A, None), "argument 'dtype' is None", "name a type"),
    ("clip", lambda: topi.clip("A", 0, 1), "argument 'x' is 'A'", "te.placeholder"),
    ("ceil_log2", lambda: topi.ceil_log2(3), "argument 'x' is 3", "te.placeholder"),
    ("fixed_point_multiply", lambda: topi.fixed_point_multiply(A, 1, 0), "x 'A' has type float32", "int32"),
    ("fixed_point_multiply", lambda: topi.fixed_point_multiply(WHOLE, 1.5, 0), "'multiplier' is 1.5", "int >= 0"),
    ("fixed_point_multiply", lambda: topi.fixed_point_multiply(WHOLE, 1, 31), "shift=31 are out of", "from -31 to 30"),
    ("Not", lambda: topi.logical_not(A), "has type float32, but a condition has type bool", "compare it"),
    ("bitwise_not", lambda: topi.bitwise_not(A), "needs an integer", "convert it"),
    ("add", lambda: topi.add(A, B), "the extents 4 and 5 differ", "equal or 1"),
    ("add", lambda: topi.add(A, [1, 2]), "argument 'rhs' is [1, 2], which is no tensor", "te.placeholder"),
    ("divide", lambda: topi.divide(None, A), "argument 'lhs' is None", "te.placeholder"),
    ("all", lambda: topi.logical_and(A, A), "but a condition has type bool", "compare it"),
    ("logical_xor", lambda: topi.logical_xor(A, TRUTH), "but a condition has type bool", "compare it"),
    ("bitwise_and", lambda: topi.bitwise_and(A, WHOLE), "needs integers", "convert it"),
    ("broadcast_to", lambda: topi.broadcast_to(A, (3, 5)), "the extents 4 and 5 differ", "equal or 1"),
    ("broadcast_to", lambda: topi.broadcast_to(A, (4,)), "does not broadcast to [4]", "whose last extents"),
    ("elemwise_sum", lambda: topi.elemwise_sum(A), "which is not a list of tensors", "[A, B]"),
    ("elemwise_sum", lambda: topi.elemwise_sum([A, 3]), "argument 'xs[1]' is 3", "te.placeholder"),
    ("elemwise_sum", lambda: topi.elemwise_sum([A, B]), "'A' has the shape [3, 4] and 'B' [5]", "topi.add"),
    ("full_like", lambda: topi.full_like((3,), 1), "argument 'x' is (3,)", "te.placeholder"),
    ("sum", lambda: topi.sum(3), "argument 'data' is 3", "te.placeholder"),
    ("sum", lambda: topi.sum(A, 2), "argument 'axis' is 2, which is not one of 2 dimension(s)", "from -2 to 1"),
    ("max", lambda: topi.max(A, (0, -2)), "'axis' is (0, -2), which names a dimension twice", "once"),
    ("min", lambda: topi.min(A, ()), "no dimension is to be reduced", "axis=-1"),
    ("prod", lambda: topi.prod(SCALAR), "'S' has no dimensions", "give a tensor that has some"),
    ("sum", lambda: topi.sum(TRUTH), "'T' has type bool", "topi.cast"),
    ("all", lambda: topi.all(A), "'A' has type float32", "topi.not_equal"),
    ("any", lambda: topi.any(A, 0, "yes"), "argument 'keepdims' is 'yes'", "True or False"),
    ("argmax", lambda: topi.argmax(TRUTH), "'T' has type bool", "topi.cast"),
    ("argmin", lambda: topi.argmin(A, "x"), "argument 'axis' is 'x'", "from -2 to 1"),
    ("softmax", lambda: topi.nn.softmax(WHOLE), "'I' has type int32", "topi.cast"),
    ("log_softmax", lambda: topi.nn.log_softmax(A, 3), "argument 'axis' is 3", "from -2 to 1"),
    ("layer_norm", lambda: topi.nn.layer_norm(A, B, B, [1]), "extents of gamma and of dimension 1", "agree"),
    ("layer_norm", lambda: topi.nn.layer_norm(A, A, None, [1]), "gamma 'A' has the shape [3, 4]", "1 dimension"),
    ("rms_norm", lambda: topi.nn.rms_norm(WHOLE, B, 1), "'I' has type int32", "topi.cast"),
    ("l2_normalize", lambda: topi.nn.l2_normalize(A, 1e-5, 7), "argument 'axis' is 7", "from -2 to 1"),
    ("instance_norm", lambda: topi.nn.instance_norm(A, B, B, [1]), "has images or channels", "layer_norm takes any"),
    ("group_norm", lambda: topi.nn.group_norm(A, B, B, 3, 1, [0]), "num_groups=3 and axes=[0] do not fit", "divisor"),
    ("group_norm", lambda: topi.nn.group_norm(A, B, B, 2, 1, [0]), "elements of gamma and channels", "agree"),
    ("batch_norm", lambda: topi.nn.batch_norm(A, B, B, B, B), "elements of gamma and channels", "agree"),
    ("batch_norm", lambda: topi.nn.batch_norm(A, B, B, B, B, training=True), "training=True is not", "topi.sum"),
    ("batch_norm", lambda: topi.nn.batch_norm(A, A, B, B, B), "gamma 'A' has the shape [3, 4]", "(channels,)"),
    ("lrn", lambda: topi.nn.lrn(A, 4), "argument 'size' is 4", "odd number"),
    ("lrn", lambda: topi.nn.lrn(A, 0), "argument 'size' is 0", "int >= 1"),
    ("schedule_injective", lambda: topi.cuda.schedule_injective([3]), "holds 3, which is not a tensor", "[B]"),
    ("schedule_reduce", lambda: topi.x86.schedule_reduce([]), "argument 'outs' is empty", "give the tensors"),
]


@pytest.mark.parametrize(("name", "call", "message", "fix"), MISTAKES, ids=[f"{m[0]}-{m[2]}"[:60] for m in MISTAKES])
def test_mistakes(name: str, call: Callable[[], Any], message: str, fix: str) -> None:
    with refused(name, message, fix=fix):
        call()
