"""Names never become code: any text as any name, on every target, builds and runs right."""

from __future__ import annotations

import builtins
import keyword
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.conftest import why_no_opencl
from tilewright import te
from tilewright.codegen.cuda import Cuda
from tilewright.codegen.host import HOST_WORDS
from tilewright.codegen.names import Names
from tilewright.codegen.opencl import OpenCl
from tilewright.core.text import identifier, one_line, printable, remark
from tilewright.runtime.argument_errors import ArgumentErrors

RUNS = ["llvm"] if why_no_opencl() else ["llvm", "opencl"]
NAMED = 9
"""The names that one program takes."""


def boom() -> None:
    """What the text of a name calls, should it ever run."""
    raise SystemExit


HOSTILE = [
    "x\n    raise SystemExit\n    #",
    "x\r\n__import__('tests.codegen.test_hostile_names').boom()\r#",
    "x\u2028raise SystemExit",
    "ends in a backslash \\",
    "ends in a trigraph ??/",
    "*/ } /*",
    "//",
    '"',
    "'''",
    "{0} %s ${x}",
    "",
    " ",
    "_",
    "__",
    "__global__",
    "__kernel",
    "__import__",
    "é",
    "变量",
    "\0",
    "a\0b",
    "\ud800",
    "\u202e reversed",
    "\x1b]0;title\x07",
    "n" * 100_000,
    "变" * 100_000,
    "0",
    "1e5",
    "A_kind",
    "A_layout",
    "A_strides",
    "A",
    "A_1",
    "main",
    "main_kernel",
    "main_kernel.packed",
    "arguments",
    "entry",
    "closure",
    "begin",
    "min_float32",
    "floordiv_int32",
    "float16_bits",
    "shared_memory",
    "make_float4",
    "get_group_id",
    "CLK_LOCAL_MEM_FENCE",
    "M_PI",
    "llvm.memcpy",
    "i.outer" + ".outer.inner" * 300,
]
WORDS = sorted(
    {*HOST_WORDS, *Cuda.reserved, *OpenCl.reserved, *keyword.softkwlist, *dir(builtins), *vars(ArgumentErrors)}
    | {*"printf malloc free memcpy memset exit abort assert errno stdin popc clock this_thread tex1D fma fmaf".split()}
    | {*"atomicAdd atomic_add mad24 mul24 CUDART_PI __FILE__ __LINE__ __CUDA_ARCH__ NULL EOF INT_MAX".split()}
)


def check(names: list[str], target: str) -> None:
    """Build and run a program with host code, scratch memory, two kernels and a scalar, under those names."""
    a, b, c, d, size, scalar, function, reduction, thread = names
    n, x = te.size_var(size), te.var(scalar, "float32")
    A, W = te.placeholder((n, 4), name=a), te.placeholder((4,), name=b)
    r = te.reduce_axis((0, 4), name=reduction)
    C = te.compute((n, 4), lambda i, j: te.min(A[i, j], te.floor(A[i, j])) * x, name=c)
    D = te.compute((n,), lambda i: te.sum(C[i, r] * W[r], axis=r), name=d)
    s = te.create_schedule(D.op)
    total = s.cache_write(D, "local")
    (i,) = D.op.axis
    block, lane = s[D].split(i, factor=4)
    s[total].compute_at(s[D], lane)
    if target == "llvm":
        s[D].parallel(block)
    else:
        for stage in (C, D):
            leaves = s[stage].leaf_iter_vars
            s[stage].bind(leaves[0], te.thread_axis("blockIdx.x", thread))
            s[stage].bind(leaves[1], te.thread_axis(None, "threadIdx.x", thread))
    assert "@T.prim_func" in str(tw.lower(s, [A, W, x, D], name=function))
    module = tw.build(s, [A, W, x, D], target, name=function)
    assert repr(module).isprintable()
    if target == "cuda":
        return
    left, right = np.arange(24, dtype="float32").reshape(6, 4) + 0.5, np.array([1, 2, 3, 4], "float32")
    on = tw.device(target, 0)
    out = tw.nd.array(np.full(6, np.nan, "float32"), on)
    module(tw.nd.array(left, on), tw.nd.array(right, on), 2.0, out)
    np.testing.assert_allclose(out.numpy(), (np.floor(left) * 2) @ right)


def of(names: list[str]) -> list[list[str]]:
    """Those names, as many as one program takes at a time, each in two places."""
    turned = names + names[5:] + names[:5]
    turned += turned[: -len(turned) % NAMED]
    return [turned[at : at + NAMED] for at in range(0, len(turned), NAMED)]


@pytest.mark.parametrize("target", [*RUNS, "cuda"])
def test_hostile_names(target: str) -> None:
    for names in of(HOSTILE):
        check(names, target)


@pytest.mark.parametrize("target", [*RUNS, "cuda"])
def test_words_of_every_language(target: str) -> None:
    """All at once: a program of many inputs, each one called like a word."""
    for start in range(0, len(WORDS), 120):
        words = WORDS[start : start + 120]
        inputs = [te.placeholder((4,), name=word) for word in words]
        B = te.compute((4,), lambda i, inputs=inputs: sum((t[i] for t in inputs[1:]), inputs[0][i]), name="B")
        s = te.create_schedule(B.op)
        if target != "llvm":
            s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
        module = tw.build(s, [*inputs, B], target, name=words[0])
        if target == "cuda":
            continue
        on = tw.device(target, 0)
        arrays = [tw.nd.array(np.full(4, k, "float32"), on) for k in range(len(words))]
        out = tw.nd.empty((4,), "float32", on)
        module(*arrays, out)
        assert out.numpy()[0] == sum(range(len(words)))


@pytest.mark.parametrize("target", [*RUNS, "cuda"])
@settings(max_examples=6)
@given(names=st.lists(st.text(max_size=40), min_size=NAMED, max_size=NAMED))
@example(names=["x"] * NAMED)
def test_any_text_as_any_name(target: str, names: list[str]) -> None:
    check(names, target)


@given(st.text())
def test_an_identifier_is_one(text: str) -> None:
    made = identifier(text)
    assert re.fullmatch("[A-Za-z][A-Za-z0-9_]*", made)
    assert len(made) <= 121


@given(st.text())
@example("\\")
@example("??/")
@example("a???/")
def test_a_remark_is_one_line_that_ends(text: str) -> None:
    made = remark(text)
    assert re.fullmatch("[ -~]*", made)
    assert not re.search(r"\\|\?\?|\?$", made)
    assert len(made) <= 160


@given(st.text())
def test_what_is_printed_commands_no_terminal(text: str) -> None:
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2028\u2029]", printable(text))
    assert "\n" not in one_line(text)
    printable(text).encode()


@given(st.lists(st.text(alphabet="A_1kind", max_size=8), max_size=12))
def test_names_and_what_is_derived_from_them_are_distinct(wishes: list[str]) -> None:
    names = Names(kin=("_kind",))
    made = [names.fresh(wish) for wish in wishes]
    derived = [name + ending for name in made for ending in ("", "_kind")]
    assert len(set(derived)) == len(derived)


def test_host_code_names_all_that_it_calls() -> None:
    assert {name for name in vars(ArgumentErrors) if not name.startswith("_") and name != "names"} <= HOST_WORDS


@pytest.mark.opencl
def test_no_macro_of_the_opencl_headers_is_a_name() -> None:
    package = pytest.importorskip("pocl_binary_distribution")
    headers = list(Path(package.__file__).parent.rglob("*.h"))
    text = "\n".join(header.read_text(errors="replace") for header in headers)
    plain = set(re.findall(r"^\s*#\s*define\s+(\w+)(?!\w|\()", text, re.MULTILINE))
    assert len(plain) > 500
    kept = {name for name in plain if Names(OpenCl.reserved, OpenCl.owned).fresh(name) == name}
    # Functions under another name: a variable called like one is another variable.
    called = set(re.findall(r"^\s*#\s*define\s+(\w+)\s+_cl_", text, re.MULTILINE))
    assert kept - called <= {"INTTYPE"}  # in a header that kernels do not see


def test_errors_escape_what_a_terminal_would_obey() -> None:
    with pytest.raises(tw.error.UserError) as caught:
        te.placeholder((-1,), name="\x1b[2J\x07")
    assert "\x1b" not in str(caught.value)
    assert r"\x1b[2J" in str(caught.value)
