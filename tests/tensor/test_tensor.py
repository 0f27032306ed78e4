"""Declaring tensors: names and extents of axes, indexing, several outputs, reducers, and the graph."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright import te, tir
from tilewright.core.errors import UserError
from tilewright.tensor.reduction import Reduce
from tilewright.tensor.tensor import topological


def names(axes: Any) -> list[str]:
    return [a.name for a in axes]


def test_axes_are_named_after_the_parameters() -> None:
    A = te.placeholder((3, 4), name="A")
    B = te.compute((3, 4), lambda row, col: A[row, col] + 1.0, name="B")
    assert names(B.op.axis) == ["row", "col"]
    assert [str(a.dom.extent) for a in B.op.axis] == ["3", "4"]
    assert [a.iter_type for a in B.op.axis] == [0, 0]
    assert B.op.reduce_axis == ()
    assert (B.name, B.op.name, B.dtype, B.ndim) == ("B", "B", "float32", 2)
    assert [int(e) for e in B.shape] == [3, 4]


def test_axes_without_a_parameter_of_their_own_are_numbered() -> None:
    """From 0, after those that have one."""
    A = te.placeholder((2, 3, 4), name="A")
    assert names(te.compute((2, 3, 4), lambda *i: A(*i), name="B").op.axis) == ["i0", "i1", "i2"]
    assert names(te.compute((2, 3, 4), lambda n, *i: A(n, *i), name="B").op.axis) == ["n", "i0", "i1"]
    named = te.compute((2, 3, 4), lambda n, *i: A(n, *i), name="B", varargs_names=["h", "w"])
    assert names(named.op.axis) == ["n", "h", "w"]

    class Twice:
        def __call__(self, i: Any, j: Any, k: Any) -> Any:
            return A[i, j, k] * 2.0

    assert names(te.compute((2, 3, 4), Twice(), name="B").op.axis) == ["i0", "i1", "i2"]
    assert names(te.compute((2, 3, 4), Twice().__call__, name="B").op.axis) == ["i", "j", "k"]


def test_varargs_names_have_to_cover_the_rest() -> None:
    A = te.placeholder((2, 3, 4), name="A")
    with pytest.raises(UserError, match=r"2 dimensions beyond \['n'\], but varargs_names gives 1: \['h'\]"):
        te.compute((2, 3, 4), lambda n, *i: A(n, *i), name="B", varargs_names=["h"])


def test_a_function_of_the_wrong_number_of_axes_is_refused() -> None:
    A = te.placeholder((3, 4), name="A")
    with pytest.raises(UserError, match=r"shape of 'B' has 2 dimensions, but the function takes 1 axes \['i'\]"):
        te.compute((3, 4), lambda i: A[i, 0], name="B")
    with pytest.raises(UserError, match=r"takes 3 axes \['i', 'j', 'k'\]"):
        te.compute((3, 4), lambda i, j, k: A[i, j], name="B")


def test_parameters_with_a_default_are_no_axes() -> None:
    """So that a function made in a loop can keep what it needs of it."""
    A = te.placeholder((3, 4), name="A")
    B = te.compute((3,), lambda i, A=A, j=2: A[i, j], name="B")
    assert names(B.op.axis) == ["i"]
    assert str(B.op.body[0]) == "A[i, 2]"
    assert names(te.compute((3, 4), lambda i, j=2: A[i, j], name="B").op.axis) == ["i", "j"]


def test_a_shape_may_be_a_single_extent_or_a_list() -> None:
    A = te.placeholder(5, name="A")
    B = te.compute([5], lambda i: A[i] * 2.0, name="B")
    assert [int(e) for e in (*A.shape, *B.shape)] == [5, 5]


def test_extents_may_be_expressions_of_sizes() -> None:
    n = te.size_var("n")
    A = te.placeholder((n, n * 2), name="A")
    B = te.compute((n - 2,), lambda i: A[i, i + 1], name="B")
    assert str(B.shape[0]) == "n - 2"


@pytest.mark.parametrize("bad", [-1, 2.5, "n"])
def test_an_extent_is_a_whole_number(bad: Any) -> None:
    with pytest.raises(UserError, match="is not an extent for a dimension of 'A'"):
        te.placeholder((3, bad), name="A")


def test_tensors_of_no_dimension() -> None:
    A = te.placeholder((), name="A")
    B = te.compute((), lambda: A() + A[()], name="B")
    assert B.ndim == 0
    assert B.op.axis == ()
    assert B.op.input_tensors == (A,)


def test_types() -> None:
    A = te.placeholder((3,), "int8", "A")
    assert te.placeholder((3,)).dtype == "float32"
    B = te.compute((3,), lambda i: A[i] + 1, name="B")
    assert B.dtype == "int8"
    assert te.compute((3,), lambda i: A[i] > 1, name="C").dtype == "bool"
    assert te.compute((3,), lambda i: A[i].astype("float16"), name="D").dtype == "float16"
    assert te.compute((3,), lambda i: 1, name="E").dtype == "int32"
    assert te.compute((3,), lambda i: i, name="F").dtype == "int32"


def test_indexing_one_dimension_at_a_time_is_the_same() -> None:
    A = te.placeholder((3, 4), name="A")
    i, j = te.var("i"), te.var("j")
    assert A[i][j] is A[i, j]
    assert A(i, j) is A[i, j]


def test_an_element_may_be_read_at_an_element() -> None:
    A, at = te.placeholder((9,), name="A"), te.placeholder((3,), "int32", "at")
    B = te.compute((3,), lambda i: A[at[i]], name="B")
    assert set(B.op.input_tensors) == {A, at}


def test_a_tuple_makes_an_operation_of_several_outputs() -> None:
    A = te.placeholder((5,), name="A")
    low, high = te.compute((5,), lambda i: (A[i] - 1.0, A[i].astype("int32") + 1), name="both")
    assert low.op is high.op
    assert low.op.num_outputs == 2
    assert (low.name, high.name) == ("both.v0", "both.v1")
    assert (low.dtype, high.dtype) == ("float32", "int32")
    assert low.op.output(1) is high
    assert low.op.outputs == (low, high)


def test_a_reduction_knows_its_axes() -> None:
    A = te.placeholder((3, 4, 5), name="A")
    y, x = te.reduce_axis((0, 4), name="y"), te.reduce_axis((1, 5), name="x")
    B = te.compute((3,), lambda i: te.sum(A[i, y, x], axis=[y, x]), name="B")
    assert B.op.reduce_axis == (y, x)
    assert [a.iter_type for a in B.op.reduce_axis] == [2, 2]
    assert (str(x.dom.min), str(x.dom.extent)) == ("1", "4")
    body = B.op.body[0]
    assert isinstance(body, Reduce)
    assert body.combiner.name == "sum"
    assert B.dtype == "float32"


def test_identities_fit_the_type() -> None:
    for dtype, low, high in (("int8", -128, 127), ("uint8", 0, 255), ("float32", float("-inf"), float("inf"))):
        A = te.placeholder((4,), dtype, "A")
        k = te.reduce_axis((0, 4), "k")
        for reduce, identity in ((te.min, high), (te.max, low), (te.sum, 0)):
            body = te.compute((), lambda reduce=reduce, A=A, k=k: reduce(A[k], axis=k), name="B").op.body[0]
            assert body.combiner.identity[0].value == identity
            assert body.combiner.identity[0].dtype == dtype


def test_min_and_max_of_two_values_are_no_reductions() -> None:
    i = te.var("i")
    assert str(te.min(i, 3)) == "T.min(i, 3)"
    assert str(te.max(i, i + 1)) == "T.max(i, i + 1)"
    assert str(te.max(i, 3, i + i, 5 - i, 7)) == str(te.max(te.max(te.max(te.max(i, 3), i + i), 5 - i), 7))
    assert str(te.min(i, 3, i + i)) == str(te.min(te.min(i, 3), i + i))


def test_a_reducer_of_ones_own() -> None:
    A, at = te.placeholder((3, 4), name="A"), te.placeholder((3, 4), "int32", "at")
    k = te.reduce_axis((0, 4), "k")

    def combine(x: Any, y: Any) -> Any:
        return tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])

    argmax = te.comm_reducer(combine, lambda i, v: (tir.const(-1, i), te.min_value(v)), name="argmax")
    where, value = te.compute((3,), lambda i: argmax((at[i, k], A[i, k]), axis=k), name="T")
    assert where.op is value.op
    assert (where.dtype, value.dtype) == ("int32", "float32")
    assert where.op.reduce_axis == (k,)
    first, second = where.op.body
    assert (first.value_index, second.value_index) == (0, 1)
    assert first.combiner is second.combiner
    assert [str(e) for e in first.combiner.identity] == ["-1", "T.float32(-3.4028234663852886e+38)"]

    product = te.comm_reducer(lambda x, y: x * y, lambda t: tir.const(1, t), name="product")
    assert te.compute((3,), lambda i: product(A[i, k], axis=k), name="P").op.body[0].combiner.name == "product"


def test_a_reducer_whose_identity_is_of_another_length_is_refused() -> None:
    A = te.placeholder((4,), name="A")
    k = te.reduce_axis((0, 4), "k")
    odd = te.comm_reducer(lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda *t: (0,), name="odd")
    with pytest.raises(UserError, match="odd combines 2 values, but its combiner returns 2 and its identity 1"):
        te.compute((), lambda: odd((A[k], A[k]), axis=k), name="B")


def test_ranges() -> None:
    assert str(te.reduce_axis((2, 7), "k").dom.extent) == "5"
    assert str(te.reduce_axis(te.Range(2, 7), "k").dom.min) == "2"
    assert str(te.reduce_axis(7, "k").dom.extent) == "7"
    with pytest.raises(UserError, match=r"range \(7, 2\) of 'k' ends before it begins"):
        te.reduce_axis((7, 2), "k")
    with pytest.raises(UserError, match=r"\(0, 7, 1\) is not a range for 'k'"):
        te.reduce_axis((0, 7, 1), "k")


def test_thread_axes() -> None:
    bare, fixed = te.thread_axis("threadIdx.x"), te.thread_axis((0, 64), "threadIdx.x", name="tx")
    assert (bare.name, bare.thread_tag, bare.dom, bare.iter_type) == ("threadIdx.x", "threadIdx.x", None, 1)
    assert (fixed.name, str(fixed.dom.extent)) == ("tx", "64")
    assert te.thread_axis("vthread").thread_tag == te.thread_axis("cthread").thread_tag == "vthread"


def test_axes_are_equal_to_themselves_only() -> None:
    i = te.reduce_axis((0, 4), "i")
    j = te.reduce_axis((0, 4), "i")
    assert i == i
    assert i != j
    assert i is not None
    assert len({i, j, i}) == 2
    assert str(i + j) == "i + i"


def test_operations_in_the_order_of_their_dependences() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((4,), lambda i: A[i] * B[i], name="C")
    D = te.compute((4,), lambda i: C[i] + B[3 - i], name="D")
    assert [op.name for op in topological([D.op])] == ["A", "B", "C", "D"]
    assert [op.name for op in topological([B.op, D.op])] == ["A", "B", "C", "D"]
    assert C.op.input_tensors == (A, B)
    assert A.op.input_tensors == ()


def test_a_long_chain_does_not_exhaust_the_stack() -> None:
    T = te.placeholder((4,), name="T")
    for _ in range(3000):
        T = te.compute((4,), lambda i, T=T: T[i] + 1.0, name="T")
    assert len(topological([T.op])) == 3001


def test_tags_and_attributes_are_kept() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i], name="B", tag="injective", attrs={"workload": 3})
    assert (B.op.tag, dict(B.op.attrs)) == ("injective", {"workload": 3})


def test_how_they_show() -> None:
    A = te.placeholder((4, 2), name="A")
    assert repr(A) == "Tensor(shape=[4, 2], dtype=float32, name=A)"
    assert repr(A.op) == "PlaceholderOp(A)"
    assert repr(te.reduce_axis((0, 4), "k")) == "IterVar(k: reduction, Range(min=0, extent=4))"


def test_a_tensor_is_no_sequence() -> None:
    """Python's fallback for objects with indices but no iterator would never end."""
    A = te.placeholder((4, 4), name="A")
    for thing in (A, A[0]):
        with pytest.raises(UserError, match="list of its elements"):
            list(thing)


def test_an_axis_leaves_the_range_that_it_is_given() -> None:
    given = te.Range(0, 2**31 - 1)
    axis = te.reduce_axis(given, "k")
    assert axis.dom is not given
    assert (axis.dom.extent.dtype, given.extent.dtype) == ("int64", "int32")
