"""Who sees what: every memory scope against every hardware thread, and the errors where a result reaches no reader."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright import te
from tilewright.bounds.infer import infer_bounds
from tilewright.bounds.visibility import default_scope, shares
from tilewright.core.errors import UserError
from tilewright.core.hardware import MemoryScope, ThreadTag

BLOCKS = (ThreadTag.BLOCK_X, ThreadTag.BLOCK_Y, ThreadTag.BLOCK_Z)
THREADS = (ThreadTag.THREAD_X, ThreadTag.THREAD_Y, ThreadTag.THREAD_Z, ThreadTag.VTHREAD)


@pytest.mark.parametrize(
    ("scope", "blocks", "threads"),
    [(MemoryScope.GLOBAL, True, True), (MemoryScope.SHARED, False, True), (MemoryScope.LOCAL, False, False)],
)
def test_who_shares_a_copy(scope: MemoryScope, blocks: bool, threads: bool) -> None:
    assert {shares(scope, tag) for tag in BLOCKS} == {blocks}
    assert {shares(scope, tag) for tag in THREADS} == {threads}


def test_the_nearest_memory_for_a_place() -> None:
    assert default_scope(()) is MemoryScope.GLOBAL
    assert {default_scope((tag,)) for tag in BLOCKS} == {MemoryScope.SHARED}
    assert {default_scope((BLOCKS[0], tag)) for tag in THREADS} == {MemoryScope.LOCAL}


def chain(scope: str, at: str, own: str) -> Any:
    """B in some memory, computed at some loop of C, its own loop bound to some thread."""
    A = te.placeholder((32,), name="A")
    B = te.compute((32,), lambda i: A[i] * 2.0, "B")
    C = te.compute((32,), lambda i: B[31 - i] + 1.0, "C")
    s = te.create_schedule(C.op)
    block, thread = s[C].split(C.op.axis[0], factor=8)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(thread, te.thread_axis("threadIdx.x"))
    if at:
        s[B].compute_at(s[C], {"block": block, "thread": thread}[at])
    if scope:
        s[B].set_scope(scope)
    if own:
        s[B].bind(s[B].split(B.op.axis[0], nparts=8)[0], te.thread_axis(own))
    return infer_bounds(s.value)


@pytest.mark.parametrize(
    ("scope", "at", "own", "message"),
    [
        ("", "", "", ""),
        ("", "block", "threadIdx.x", ""),
        ("shared", "block", "threadIdx.x", ""),
        ("shared", "thread", "threadIdx.x", ""),
        ("local", "thread", "", ""),
        ("global", "block", "", "kept in global memory: blocks cannot wait for each other"),
        ("local", "thread", "threadIdx.x", "each thread sees only its own copy"),
        ("shared", "", "", "is computed outside of the kernel of 'C'"),
        ("local", "", "", "is computed outside of the kernel of 'C'"),
    ],
)
def test_a_result_reaches_its_readers(scope: str, at: str, own: str, message: str) -> None:
    if not message:
        chain(scope, at, own)
        return
    with pytest.raises(UserError, match=message):
        chain(scope, at, own)
