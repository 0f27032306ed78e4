"""Structural equality and hashes of whole programs, and JSON that brings them back."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.programs.zoo import PROGRAMS
from tilewright import ir, te, tir
from tilewright.loops.nodes import Function, Program

x, y, z = te.var("x"), te.var("y"), te.var("z")


def lowered(program: Any, n: int | None) -> Program:
    """A program of the zoo as it is lowered for a GPU, of constant or symbolic sizes; each call declares it anew."""
    sizes = {name: te.size_var(name) if n is None else max(3, n - 8 * i) for i, name in enumerate(program.names)}
    tensors = program.declare(sizes, "float32")
    s = te.create_schedule(tensors[-1].op)
    program.schedule(s, tensors, "opencl")
    return tw.lower(s, tensors)


every_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


@every_program
def test_programs_made_apart_are_equal(program: Any) -> None:
    for n in (19, None):
        one, other = lowered(program, n), lowered(program, n)
        assert one["main"].body is not other["main"].body
        ir.assert_structural_equal(one, other)
        assert ir.structural_hash(one) == ir.structural_hash(other)
        assert not ir.structural_equal(one["main"].body, other["main"].body), "free buffers are others"
        assert ir.structural_equal(one["main"].body, other["main"].body, map_free_vars=True)


@every_program
def test_programs_of_other_sizes_differ(program: Any) -> None:
    one, other = lowered(program, 19), lowered(program, 21)
    assert not ir.structural_equal(one, other)
    assert ir.structural_hash(one) != ir.structural_hash(other)


@every_program
def test_json_brings_a_program_back(program: Any) -> None:
    for n in (19, None):
        one = lowered(program, n)
        back = ir.load_json(ir.save_json(one))
        ir.assert_structural_equal(one, back)
        assert str(back) == str(one)
        assert back["main"].reads == () or len(back["main"].reads) == len(one["main"].reads)


def test_free_variables_are_what_they_are_or_stand_for_each_other() -> None:
    assert ir.structural_equal(x + y, x + y)
    assert not ir.structural_equal(x + y, y + x)
    assert ir.structural_equal(x + y, y + x, map_free_vars=True)
    assert not ir.structural_equal(x + x, y + x, map_free_vars=True)
    assert not ir.structural_equal(x + y, z + z, map_free_vars=True)
    assert ir.structural_hash(x + y, True) == ir.structural_hash(y + x, True) != ir.structural_hash(x + x, True)
    assert ir.structural_hash(x + y) == ir.structural_hash(x + y) != ir.structural_hash(y + x)


def test_one_loop_variable_may_stand_for_another_only_within_its_loop() -> None:
    a = tir.decl_buffer((8,), "int32", "a")

    def loop(var: Any, value: Any) -> Any:
        return tir.For(var, 0, 8, tir.ForKind.SERIAL, tir.BufferStore(a, value, [var]))

    i, j, k = (tir.Var(name, "int32") for name in "ijk")
    assert ir.structural_equal(loop(i, i + 1), loop(j, j + 1))
    assert not ir.structural_equal(loop(i, i + 1), loop(j, i + 1))
    assert not ir.structural_equal(loop(i, k), loop(k, k)), "k is free on the left, and bound on the right"
    assert not ir.structural_equal(tir.stmt_seq(loop(i, i), i + 0), tir.stmt_seq(loop(j, j), j + 0))
    assert not ir.structural_equal(loop(i, i), loop(tir.Var("i", "int64"), 3))


def test_other_things_compare_too() -> None:
    assert ir.structural_equal([x, 1, {"a": te.Range(0, 8)}], [x, 1, {"a": te.Range(8)}])
    assert not ir.structural_equal([x, 1], [x, 1, 1])
    assert not ir.structural_equal({"a": 1}, {"b": 1})
    assert not ir.structural_equal(1, True)
    assert ir.structural_equal(te.const(float("nan")), te.const(float("nan")))
    axes = [te.reduce_axis((0, 8), name=name) for name in "kr"]
    assert ir.structural_equal(te.sum(axes[0] * 2, axis=axes[0]), te.sum(axes[1] * 2, axis=axes[1]))
    assert not ir.structural_equal(te.sum(axes[0] * 2, axis=axes[0]), te.max(axes[1] * 2, axis=axes[1]))
    assert ir.structural_equal(axes[0], axes[0])
    assert not ir.structural_equal(axes[0], te.reduce_axis((0, 9)))


def test_the_first_difference_is_named() -> None:
    with refused("assert_structural_equal", "the two differ at .b.value: 1 against 2", fix="map_free_vars"):
        ir.assert_structural_equal(x + 1, x + 2)
    with pytest.raises(ValueError, match=r"the two differ at \[1\]"):
        ir.assert_structural_equal([x, y], [x, z])


def test_json_of_expressions_and_tensors() -> None:
    values = [x + 1.5, te.const(float("inf")), te.const(-0.0), te.exp(x.astype("float32")), {"k": (x, y, True, None)}]
    back = ir.load_json(ir.save_json(values))
    assert ir.structural_equal(values, back, map_free_vars=True)
    A = te.placeholder((8, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="B", tag="rows")
    found = ir.load_json(ir.save_json(B))
    assert found.op.tag == "rows"
    assert [t.name for t in found.op.input_tensors] == ["A"]
    s = te.create_schedule(found.op)
    ir.assert_structural_equal(
        tw.lower(s, [found.op.input_tensors[0], found]), tw.lower(te.create_schedule(B.op), [A, B])
    )


def test_json_of_functions_with_attributes() -> None:
    a = tir.decl_buffer((8,), "int32", "a")
    i = tir.Var("i", "int32")
    function = tir.PrimFunc([a], tir.For(i, 0, 8, "serial", tir.BufferStore(a, i, [i])))
    named = function.with_attr({"target": tw.target.Target("opencl"), "k": [1, 2.5]})
    back = ir.load_json(ir.save_json(named))
    assert back.attrs == named.attrs
    ir.assert_structural_equal(back, named)
    assert not ir.structural_equal(named, function)
    assert ir.structural_equal(function, function.with_attr("global_symbol", "other")), "whatever they are called"
    imported = Function("main", (a,), function.body, imports=(("import_c", "int one(void) { return 1; }"),))
    assert ir.load_json(ir.save_json(imported)).imports == imported.imports
    assert not ir.structural_equal(imported, Function("main", (a,), function.body))


def test_json_of_something_else_is_refused() -> None:
    with refused("save_json", "object", fix="give expressions, statements"):
        ir.save_json([object()])
    with refused("load_json", "this is not a program as JSON", fix="give the result of save_json"):
        ir.load_json("{}")
    with refused("load_json", "this is not a program as JSON", fix="give the result of save_json"):
        ir.load_json("nothing")
    later = json.loads(ir.save_json(x + 1)) | {"format": 99}
    with refused("load_json", "in format 99", fix="write it again"):
        ir.load_json(json.dumps(later))


def test_a_deep_program() -> None:
    deep = x
    for step in range(3000):
        deep = deep * y + step
    assert ir.structural_equal(deep, ir.load_json(ir.save_json([deep, x, y]))[0], map_free_vars=True)
    assert isinstance(ir.structural_hash(deep), int)
    assert isinstance(Function("f", (), tir.stmt_seq(deep)), Function)


def test_a_part_that_stands_in_many_places_is_looked_at_once() -> None:
    def chain(var: Any) -> Any:
        made = var
        for _ in range(64):
            made = made * made + 1
        return made

    i, j = te.var("i"), te.var("j")
    loops = [tir.For(v, 0, 8, "serial", tir.Evaluate(chain(v))) for v in (i, j)]
    assert ir.structural_equal(*loops)
    assert ir.structural_hash(loops[0]) == ir.structural_hash(loops[1])
    assert ir.structural_hash(chain(x), True) == ir.structural_hash(chain(y), True)
    assert ir.structural_hash(chain(x)) != ir.structural_hash(chain(y))
    assert tir.analysis.undefined_vars(chain(x)) == [x]
    assert tir.analysis.undefined_vars(loops[0]) == []


def test_arrays_by_their_values_and_buffers_by_their_memory() -> None:
    """Equal things have equal hashes, and things that differ in one field have others."""
    values = np.arange(10)
    arrays = [tw.nd.array(values), tw.nd.array(values), tw.nd.array(values.reshape(2, 5)), tw.nd.array(values + 1)]
    handle = te.var("x", "handle")
    buffers = [tir.decl_buffer((4, 4), "float32", scope=scope) for scope in ("local", "local", "global", "shared")]
    functions = [tir.PrimFunc([handle], tir.Evaluate(0), buffer_map={handle: buffer}) for buffer in buffers]
    for one, same, *others in (arrays, functions):
        assert tw.ir.structural_equal(one, same)
        assert tw.ir.structural_hash(one) == tw.ir.structural_hash(same)
        assert not any(tw.ir.structural_equal(one, other) for other in others)
        assert tw.ir.structural_hash(one) not in [tw.ir.structural_hash(other) for other in others]


def test_numbers_are_compared_as_constants() -> None:
    """As the FFI of the legacy API converts them."""
    four, yes = tw.tir.const(4, "int32"), tw.tir.const(True, "bool")
    assert tw.ir.structural_equal(four, 4)
    assert tw.ir.structural_hash(four) == tw.ir.structural_hash(4)
    assert tw.ir.structural_equal(True, yes)
    assert not tw.ir.structural_equal(four, 5)
    assert not tw.ir.structural_equal(four, 4.0)
    assert not tw.ir.structural_equal(yes, 1)
