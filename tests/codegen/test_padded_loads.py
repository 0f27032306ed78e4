"""The pragma `whole_words`: which loads of a border it changes, their text, and that they read what they did."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tests.errors.refused import refused
from tilewright import te
from tilewright.core.target import Target
from tilewright.driver import build

CUDA = Target("cuda -arch=sm_90")
WORDS = (("thread", "whole_words", 1),)
LOADS = (("thread", "whole_words", 2),)
ZEROS = {2: "0", 4: "make_uint2(0, 0)", 8: "make_uint4(0, 0, 0, 0)"}
Condition = Callable[[Any, Any], Any]
Pragmas = Sequence[tuple[str, str, Any]]


def early(i: Any, k: Any) -> Any:
    """A condition that differs between threads."""
    return i < 13


def later(i: Any, k: Any) -> Any:
    """A condition that depends on an unrolled loop alone."""
    return k > 0


def mixed(i: Any, k: Any) -> Any:
    """Two that are constant once loops are unrolled, among two that are not."""
    return te.all(i < 13, k < 3, i + k > 2, k > 0)


def padded(
    condition: Condition,
    dtype: str = "float16",
    lanes: int = 8,
    pragmas: Pragmas = (),
    name: str = "A",
    on_gpu: bool = True,
) -> tuple[Any, list[Any]]:
    """A program whose threads load a vector of `A`, or zeros, into registers for each k of an unrolled loop."""
    zero = te.const(0, dtype)
    a = te.placeholder((16, lanes), dtype, name)
    kind = "float32" if dtype.startswith(("float", "bfloat")) else "int32"
    p = te.compute((16, 4, lanes), lambda i, k, j: te.cast(kind, te.if_then_else(condition(i, k), a[i, j], zero)), "P")
    b = te.compute((16, 4, lanes), lambda i, k, j: p[i, k, j] * te.const(2, kind), "B")
    s = te.create_schedule(b.op)
    i, k, _ = b.op.axis
    block, thread = s[b].split(i, factor=8)
    if on_gpu:
        s[b].bind(block, te.thread_axis("blockIdx.x"))
        s[b].bind(thread, te.thread_axis("threadIdx.x"))
    axes = {"block": block, "thread": thread, "k": k}
    for axis, key, value in pragmas:
        s[b].pragma(axes[axis], key, value)
    s[p].set_scope("local" if on_gpu else "global")
    s[p].compute_at(s[b], thread)
    s[p].vectorize(p.op.axis[2])
    return s, [a, b]


def source_of(program: tuple[Any, list[Any]], target: Any = CUDA) -> str:
    """The source of a program; that for CUDA is compiled by NVRTC."""
    return str(build(*program, target).program.source)


def text_of(program: tuple[Any, list[Any]]) -> str:
    """The source of a program for CUDA, not compiled."""
    return str(emulated(*program).program.source)


def loads(source: str) -> list[str]:
    """The values of all guarded vector loads."""
    return re.findall(r"_vector\w* = (.* \? .*);", source)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("lanes", ZEROS)
def test_a_word_is_settled_behind_the_choice(dtype: str, lanes: int) -> None:
    source = source_of(padded(early, dtype, lanes, WORDS))
    (load,) = loads(source)
    assert re.fullmatch(rf"settled_{lanes}\(.* < 13 \? \*\(.*\*\)\(A \+ .*\) : {re.escape(ZEROS[lanes])}\)", load)
    (body,) = re.findall(r"settled_\d\([\w ]+ v\) \{(.*?)\n\}", source, re.DOTALL)
    assert body.count('"+r"(v') == lanes // 2
    assert "volatile" not in body


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("lanes", ZEROS)
def test_a_word_is_loaded_by_one_instruction_under_its_condition(dtype: str, lanes: int) -> None:
    source = source_of(padded(early, dtype, lanes, LOADS))
    (load,) = re.findall(r"_vector\w* = (.*);", source)
    assert re.fullmatch(rf"loaded_{lanes}\(.* < 13, A \+ .*\)", load)
    (body,) = re.findall(r"loaded_\d\([\w ,*]+ from\) \{(.*?)\n\}", source, re.DOTALL)
    vector = {2: "", 4: ".v2", 8: ".v4"}[lanes]
    assert body.count("@p ") == 1
    assert f"@p ld.global.nc{vector}.b32 " in body
    assert body.count('"+r"(v') == lanes // 2


def stored_before() -> tuple[Any, list[Any]]:
    """A kernel that loads padded words of what it has stored itself, in memory that a block shares."""
    a, zero = te.placeholder((16, 8), "float16", "A"), te.const(0.0, "float16")
    first = te.compute((16, 8), lambda i, j: a[i, j] + te.const(1.0, "float16"), "first")
    p = te.compute((16, 8), lambda i, j: te.cast("float32", te.if_then_else(i > 2, first[i, j], zero)), "P")
    b = te.compute((16, 8), lambda i, j: p[i, j] * 2.0, "B")
    s = te.create_schedule(b.op)
    block, thread = s[b].split(b.op.axis[0], factor=8)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    s[b].pragma(thread, "whole_words", 2)
    s[first].set_scope("shared")
    s[first].compute_at(s[b], block)
    s[first].bind(first.op.axis[0], te.thread_axis("threadIdx.x"))
    s[p].set_scope("local")
    s[p].compute_at(s[b], thread)
    s[p].vectorize(p.op.axis[1])
    return s, [a, b]


def gathered() -> tuple[Any, list[Any]]:
    """A kernel whose rows are named by a table, of which a condition lets only some be read."""
    n, zero = te.var("n"), te.const(0.0, "float16")
    a, rows = te.placeholder((16, 8), "float16", "A"), te.placeholder((n,), "int32", "rows")
    p = te.compute((16, 8), lambda i, j: te.cast("float32", te.if_then_else(i < n, a[rows[i], j], zero)), "P")
    b = te.compute((16, 8), lambda i, j: p[i, j] * 2.0, "B")
    s = te.create_schedule(b.op)
    block, thread = s[b].split(b.op.axis[0], factor=8)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    s[b].pragma(thread, "whole_words", 2)
    s[p].set_scope("local")
    s[p].compute_at(s[b], thread)
    s[p].vectorize(p.op.axis[1])
    return s, [a, rows, b]


@pytest.mark.parametrize("program", [stored_before, gathered])
def test_what_no_instruction_loads_under_its_condition(program: Any) -> None:
    """Shared memory, and places that must not be computed where the condition does not hold."""
    source = source_of(program())
    assert "settled_8(" in source
    assert "loaded_" not in source


@emulates
def test_rows_of_a_table_that_a_condition_guards() -> None:
    a, rows = np.random.default_rng(0).uniform(-1, 1, (16, 8)).astype("float16"), np.array([3, 1, 9], "int32")
    wanted = np.zeros((16, 8))
    wanted[:3] = 2 * a[rows].astype("float64")
    np.testing.assert_array_equal(ran(gathered(), a, rows, shape=wanted.shape), wanted)


def test_conditions_of_unrolled_loops_stay_outside() -> None:
    (load,) = loads(source_of(padded(mixed, pragmas=WORDS)))
    outside, _, inside = load.partition(" ? settled_8(")
    assert set(outside.split(" && ")) == {"k < 3", "1 <= k"}
    held = inside.partition(" ? ")[0].split(" && ")
    assert len(held) == 2
    assert all("threadIdx_x" in each for each in held)
    assert load.endswith(f") : {ZEROS[8]}")
    (load,) = loads(source_of(padded(mixed, pragmas=LOADS)))
    outside, _, inside = load.partition(" ? loaded_8(")
    assert set(outside.split(" && ")) == {"k < 3", "1 <= k"}
    assert all("threadIdx_x" in each for each in inside.partition(", ")[0].split(" && "))


UNTOUCHED = {
    "a constant condition": (later, "float16", WORDS),
    "single precision": (mixed, "float32", WORDS),
    "double precision": (early, "float64", WORDS),
    "integers of 16 bits": (early, "int16", WORDS),
    "integers of 8 bits": (early, "int8", WORDS),
    "a constant condition, loaded under it": (later, "float16", LOADS),
    "single precision, loaded under it": (mixed, "float32", LOADS),
    "no border": (lambda i, k: i < 99, "float16", WORDS),
    "the value 0": (mixed, "float16", (("thread", "whole_words", 0),)),
    "a loop of no hardware index": (mixed, "bfloat16", (("k", "whole_words", 1),)),
}


@pytest.mark.parametrize(("condition", "dtype", "pragmas"), UNTOUCHED.values(), ids=UNTOUCHED)
def test_what_stays_as_it_is_without_the_pragma(condition: Condition, dtype: str, pragmas: Pragmas) -> None:
    lanes = 8 if "16" in dtype else 4
    source = text_of(padded(condition, dtype, lanes, pragmas))
    assert "settled" not in source
    assert "loaded_" not in source
    assert source == text_of(padded(condition, dtype, lanes))


@pytest.mark.parametrize("target", ["opencl", "llvm", "c"])
def test_other_languages_ignore_it(target: str) -> None:
    def text(pragmas: Pragmas) -> str:
        program = padded(mixed, "float16", 8, pragmas, on_gpu=target == "opencl")
        return source_of(program, target)

    assert text(WORDS) == text(())


ASKED = {
    "of a thread": WORDS,
    "of a block": (("block", "whole_words", 1),),
    "of both": (("block", "whole_words", 1), *WORDS),
    "of one, and against it of the other": (("block", "whole_words", 0), *WORDS),
    "True": (("thread", "whole_words", True),),
}


@pytest.mark.parametrize("pragmas", ASKED.values(), ids=ASKED)
def test_one_loop_of_a_kernel_asks_for_all(pragmas: Pragmas) -> None:
    assert text_of(padded(mixed, pragmas=pragmas)) == text_of(padded(mixed, pragmas=WORDS))


def test_beside_a_limit_of_registers() -> None:
    both = source_of(padded(mixed, pragmas=(("block", "resident_blocks", 6), *WORDS)))
    assert "__launch_bounds__(8, 6) " in both
    assert loads(both) == loads(text_of(padded(mixed, pragmas=WORDS)))


def two_stages(pragmas: Sequence[str], apart: bool) -> str:
    """The source of two stages that load with a border: kernels of their own, or two thread loops of one kernel."""
    a, zero = te.placeholder((16, 8), "float16", "A"), te.const(0.0, "float16")
    s: Any = None

    def shifted(by: int, read: Any, name: str, kind: str) -> tuple[Any, Any]:
        value = lambda i, j: te.if_then_else(i >= by, read[i - by, j], zero)
        local = te.compute((16, 8), lambda i, j: te.cast("float32", value(i, j)), f"{name}_local")
        return local, te.compute((16, 8), lambda i, j: te.cast(kind, local[i, j] * 2.0), name)

    first_local, first = shifted(3, a, "first", "float16")
    second_local, second = shifted(5, first, "second", "float32")
    s = te.create_schedule(second.op)
    block, thread = s[second].split(second.op.axis[0], factor=16)
    s[second].bind(block, te.thread_axis("blockIdx.x"))
    if not apart:
        s[first].set_scope("shared")
        s[first].compute_at(s[second], block)
    for stage, local, axis in ((first, first_local, first.op.axis[0]), (second, second_local, thread)):
        s[stage].bind(axis, te.thread_axis("threadIdx.x"))
        s[local].set_scope("local")
        s[local].compute_at(s[stage], axis)
        s[local].vectorize(local.op.axis[1])
        if stage.op.name in pragmas:
            s[stage].pragma(axis, "whole_words", 1)
    return source_of((s, [a, second]))


@pytest.mark.parametrize("asked", [(), ("second",), ("first", "second")], ids=len)
def test_a_kernel_asks_for_itself_alone(asked: Sequence[str]) -> None:
    kernels = re.split(r'extern "C"', two_stages(asked, apart=True))[1:]
    assert [name for name, kernel in zip(("first", "second"), kernels, strict=True) if "settled_8(" in kernel] == [
        *asked
    ]


@pytest.mark.parametrize("asked", [("first",), ("second",)])
def test_one_of_several_thread_loops_asks_for_its_kernel(asked: Sequence[str]) -> None:
    source = two_stages(asked, apart=False)
    assert source.count('extern "C"') == 1
    assert [load.startswith("settled_8(") for load in loads(source)] == [True, True]


def test_a_tensor_of_the_name_of_the_function() -> None:
    source = source_of(padded(early, pragmas=WORDS, name="settled_8"))
    assert "*(const uint4*)(v_settled_8 + " in source
    assert source.count(" settled_8(") == 2


@pytest.mark.parametrize("value", [None, "yes", -1, 1.0])
def test_a_value_that_is_not_a_whole_number(value: Any) -> None:
    with refused("pragma", f"'whole_words' has the value {value!r} for axis", fix="a whole number"):
        padded(mixed, pragmas=(("thread", "whole_words", value),))


def ran(program: tuple[Any, list[Any]], *given: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The result of a program on the emulated device, which checks every access."""
    with emulation():
        out = tw.nd.array(np.full(shape, 77, "float32"), tw.cuda())
        emulated(*program)(*(tw.nd.array(each, tw.cuda()) for each in given), out)
        found: np.ndarray = out.numpy()
    return found


@emulates
@pytest.mark.parametrize("pragmas", [WORDS, LOADS], ids=["words", "loads"])
@pytest.mark.parametrize(("condition", "lanes"), [(early, 2), (mixed, 4), (later, 8), (mixed, 8)])
def test_words_and_zeros_are_where_they_were(condition: Condition, lanes: int, pragmas: Pragmas) -> None:
    a = np.random.default_rng(lanes).uniform(-1, 1, (16, lanes)).astype("float16")
    wanted = np.zeros((16, 4, lanes))
    for i, k in np.ndindex(16, 4):
        chosen = {early: i < 13, later: k > 0, mixed: i < 13 and 0 < k < 3 and i + k > 2}[condition]
        wanted[i, k] = 2 * a[i].astype("float64") * chosen
    np.testing.assert_array_equal(ran(padded(condition, lanes=lanes, pragmas=pragmas), a, shape=wanted.shape), wanted)


def guarded_flags(pragma: int) -> tuple[Any, list[Any]]:
    """Where a condition itself reads memory: flags, of which there are only `n`."""
    n, zero = te.var("n"), te.const(0.0, "float16")
    a, flags = te.placeholder((16, 8), "float16", "A"), te.placeholder((n,), "int32", "flags")
    value = lambda i, k, j: te.if_then_else(te.all(k < n, flags[k] > 0), a[i, j], zero)
    p = te.compute((16, 4, 8), lambda i, k, j: te.cast("float32", value(i, k, j)), "P")
    b = te.compute((16, 4, 8), lambda i, k, j: p[i, k, j] * 2.0, "B")
    s = te.create_schedule(b.op)
    block, thread = s[b].split(b.op.axis[0], factor=8)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    if pragma:
        s[b].pragma(thread, "whole_words", pragma)
    s[p].set_scope("local")
    s[p].compute_at(s[b], thread)
    s[p].vectorize(p.op.axis[2])
    return s, [a, flags, b]


@emulates
@pytest.mark.parametrize("pragma", [0, 1, 2])
def test_a_condition_that_reads_memory_stays_behind_those_that_guard_it(pragma: int) -> None:
    a = np.random.default_rng(0).uniform(-1, 1, (16, 8)).astype("float16")
    flags = np.array([1, 0], "int32")
    wanted = np.zeros((16, 4, 8))
    wanted[:, 0] = 2 * a.astype("float64")
    np.testing.assert_array_equal(ran(guarded_flags(pragma), a, flags, shape=wanted.shape), wanted)
