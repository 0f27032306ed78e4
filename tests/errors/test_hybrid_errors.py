"""Mistakes in scripts: what is not in the hybrid language, on which line it stands, and what to write instead."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.hybrid_mistakes import CALLS_ITSELF, HERE, MISTAKES, calls_itself
from tests.errors.refused import refused
from tilewright import te

# ruff: noqa: F821  # the words of the language are known where a script is read


@pytest.mark.parametrize("function", MISTAKES, ids=lambda f: f.__name__)
def test_mistakes(function: Any) -> None:
    lines, first = inspect.getsourcelines(function)
    number, line = next((i, line) for i, line in enumerate(lines) if HERE in line)
    says, _, fix = line.partition(f"{HERE}: ")[2].partition("  # noqa")[0].strip().partition(" | ")
    script = te.hybrid.script(function) if function is not calls_itself else CALLS_ITSELF
    with pytest.raises(tw.UserError) as caught:
        script(te.placeholder((4,), name="a"))
    error = caught.value
    assert error.primitive == "hybrid.script"
    assert says in error.message, str(error)
    assert error.message.startswith(function.__name__)
    assert fix, "no fix is promised"
    assert fix in error.fix, str(error)
    assert error.where == f"{inspect.getsourcefile(function)}:{first + number}", str(error)


@contextmanager
def script_refused(says: str, fix: str) -> Iterator[None]:
    with refused("hybrid.script", says, fix=fix):
        yield


@te.hybrid.script
def double(a):
    b = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        b[i] = a[i] * 2
    return b


def doubled_by_python(a):
    return double(a)


@te.hybrid.script
def indirect(a):
    b = doubled_by_python(a)
    return b  # noqa: RET504  # a script has no calls in what it returns


def test_what_is_no_script() -> None:
    with script_refused("is not a Python function", "above a def"):
        te.hybrid.script(3)
    with script_refused("is not written as a def", "above a def"):
        te.hybrid.script(lambda a: a)
    names: dict[str, Any] = {}
    exec("def unseen(a):\n    return a", names)
    with script_refused("the text of 'unseen' cannot be found", "in a file"):
        te.hybrid.script(names["unseen"])


def test_the_text_of_another_function_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 keeps the text of `python -c` under the name that code of `exec` has, too."""
    names: dict[str, Any] = {}
    exec(compile("def unseen(a):\n    return a", "<kept>", "exec"), names)
    text = "def other(a):\n    return a + a\n"
    monkeypatch.setitem(linecache.cache, "<kept>", (len(text), None, text.splitlines(True), "<kept>"))
    with script_refused("the text of 'unseen' cannot be found", "in a file"):
        te.hybrid.script(names["unseen"])


def test_calls() -> None:
    a = te.placeholder((4,), name="a")
    with script_refused("with tensors and with NumPy arrays", "or arrays"):
        te.hybrid.script(lambda_free)(a, np.ones(4))
    with script_refused("missing a required argument: 'a'", "one value per parameter"):
        double()
    with script_refused("is called with {1}", "size variables"):
        double({1})
    with pytest.raises(tw.UserError, match="from a Python function that a script calls"):
        indirect(a)


def lambda_free(a, b):
    return a


@te.hybrid.script
def two_nests(a):
    b = output_tensor((4, 4), "float32")
    for i in range(4):
        for j in range(4):
            b[i, j] = a[i]
        for k in range(i):
            b[i, k] = a[k] * 2
    return b


def test_schedules() -> None:
    a = te.placeholder((4,), name="a")
    b = two_nests(a)
    s = te.create_schedule(b.op)
    i, j, k = b.op.axis
    with refused("reorder", "'j' and 'i' of script 'two_nests' are not perfectly nested", fix="(i), (j), (k)"):
        s[b].reorder(j, i)
    with refused("fuse", "'i' and 'j'", fix="one nest"):
        s[b].fuse(i, j)
    after = te.compute((4, 4), lambda x, y: b[x, y], name="after")
    with refused("storage_align", "computed by a statement", fix="another shape"):
        te.create_schedule(after.op)[b].storage_align(i, 4, 1)
    with refused("set_store_predicate", "computed by a statement", fix="under an if"):
        s[b].set_store_predicate(True)
    with refused("cache_write", "names the buffers that it writes"):
        s.cache_write(b, "local")
    with refused("rfactor", "two_nests"):
        s.rfactor(b, i)
    tx = te.thread_axis("threadIdx.x")
    s[b].bind(j, tx)
    s[b].bind(k, tx)  # side by side with j
    with refused("bind", "'j' and 'i'", fix="another thread axis"):
        s[b].bind(i, tx)
    with refused("bind", "not constant"):
        late = te.create_schedule(b.op)
        late[b].bind(k, te.thread_axis("vthread"))
        tw.lower(late, [a, b])


def test_what_a_kernel_cannot_hold() -> None:
    a = te.placeholder((8,), name="a")
    for script, primitive, says, fix in (
        (asserts_outside, "call_packed", "`a[0]` is evaluated by host code", "decide in"),
        (carries, "build", "stage 'k' is computed outside of any kernel", "bind"),
        (allocates_global, "build", "'t' is allocated within a kernel, but in global memory", '"shared"'),
    ):
        b = te.hybrid.script(script)(a)
        s = te.create_schedule(b.op)
        with refused(primitive, says, fix=fix):
            tw.build(s, [a, b], "opencl")


def asserts_outside(a):
    b = output_tensor(a.shape, "float32")
    assert a[0] > 0
    for i in bind("blockIdx.x", a.shape[0]):
        b[i] = a[i]
    return b


def carries(a):
    b = output_tensor(a.shape, "float32")
    k = 0.0
    for i in bind("blockIdx.x", a.shape[0]):
        k += a[i]
        b[i] = k
    return b


def allocates_global(a):
    b = output_tensor(a.shape, "float32")
    for i in bind("blockIdx.x", a.shape[0]):
        t = allocate((a.shape[0],), "float32", "global")
        t[i] = a[i]
        b[i] = t[i]
    return b


def test_a_schedule_to_write_with_one_tensor_for_a_list() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1, name="B")
    with refused("hybrid.build", "outputs=3 is not a list of tensors", fix="outputs="):
        te.hybrid.build(te.create_schedule(B.op), [A], 3)  # type: ignore[arg-type]
