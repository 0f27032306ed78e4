"""Loads of vectors of 16-bit floats, with zeros beyond a border. Several elements share one word.

A word is loaded if a condition holds, and is zero otherwise; it is then split into its halves. NVVM moves this split
into the branch of the load, so ptxas predicates the instructions that wait for the load. Since there are few
predicates, ptxas issues them before the loads that follow, and a thread waits for memory several times instead of once.
An empty assembly statement on the word, after the choice, keeps the split after the choice. It costs no instruction.
But the compiler knows nothing of the word after this statement. So if a condition becomes constant when loops are
unrolled, its choice stands outside of the statement. In the second form, the load is an assembly statement, predicated
by its condition, over a word of zeros. Then ptxas gets no branch, and needs no predicate after the load is issued. But
it loads whole words even if only half of one is read. The faster form differs between kernels (0.97 to 1.25 times as
fast), so schedules choose it.
"""

from __future__ import annotations

from typing import Protocol

from ..arith.facts import conjuncts
from ..core.dtype import DType
from ..core.hardware import LoopKind
from ..expr import nodes as n
from ..expr import operators as op
from ..expr.traverse import post_order, reads_memory, variables
from ..loops.nodes import For, Launch
from .c_expr import OR, ExprWriter
from .dialect import Dialect, is_half
from .kernel import Kernel


def unrolled_loops(launch: Launch) -> frozenset[n.Var]:
    """The variables of loops that the compiler unrolls, in a kernel that asks for whole words."""
    loops = (at for at in post_order(launch.body) if isinstance(at, For)) if launch.whole_words else ()
    return frozenset(loop.var for loop in loops if loop.kind is LoopKind.UNROLLED)


class PaddedLoadWriter(Protocol):
    """The interface of the kernel writer that padded loads use."""

    dialect: Dialect
    expr: ExprWriter
    kernel: Kernel
    unrolled: frozenset[n.Var]


def padded_load(
    by: PaddedLoadWriter, condition: n.Expr, text: str, pointer: str | None, dtype: DType, lanes: int
) -> str:
    """Return the choice between the load `text` of `lanes` lanes, if `condition` holds, and zeros.

    `pointer` is the place in memory that no thread writes, and that may be computed even if the condition does not
    hold; None if unknown.
    """
    zeros, name = by.dialect.vector_zeros(dtype, lanes), f"settled_{lanes}"
    changing: list[n.Expr] = []
    constant: list[n.Expr] = []
    for part in conjuncts(condition):
        changes = not by.unrolled.issuperset(variables(part)) or reads_memory(part)
        (changing if changes else constant).append(part)
    asked = by.kernel.launch.whole_words and is_half(dtype) and name in by.dialect.helpers
    if not asked or not changing:
        return f"{by.expr(condition, OR)} ? {text} : {zeros}"
    if by.kernel.launch.whole_words > 1 and pointer is not None:
        chosen = f"{by.expr.helper(f'loaded_{lanes}')}({by.expr(op.all_of(*changing))}, {pointer})"
    else:
        chosen = f"{by.expr.helper(name)}({by.expr(op.all_of(*changing), OR)} ? {text} : {zeros})"
    return f"{by.expr(op.all_of(*constant), OR)} ? {chosen} : {zeros}" if constant else chosen


def _settled(lanes: int, kind: str, words: str) -> str:
    each = ", ".join(f'"+r"({word})' for word in words.split())
    return f'{kind} settled_{lanes}({kind} v) {{\n  asm("" : {each});\n  return v;\n}}'


def _loaded(lanes: int, kind: str, words: str) -> str:
    each = ", ".join(f'"+r"({word})' for word in words.split())
    count = len(words.split())
    places = ", ".join(f"%{i}" for i in range(count))
    load = f"ld.global.nc.v{count}.b32 {{{places}}}" if count > 1 else f"ld.global.nc.b32 {places}"
    return (
        f"{kind} loaded_{lanes}(bool present, const void* from) {{\n  {kind} v = {{}};\n"
        f'  asm("{{ .reg .pred p; setp.ne.b32 p, %{count}, 0; @p {load}, [%{count + 1}]; }}"\n'
        f'      : {each} : "r"((int)present), "l"(from));\n  return v;\n}}'
    )


_WORDS = ((2, "unsigned int", "v"), (4, "uint2", "v.x v.y"), (8, "uint4", "v.x v.y v.z v.w"))
HELPERS = {
    **{f"settled_{each[0]}": _settled(*each) for each in _WORDS},
    **{f"loaded_{each[0]}": _loaded(*each) for each in _WORDS},
}
"""Words that no instruction for their halves passes, and loads of such words or zeros, by the 16-bit floats in them."""
