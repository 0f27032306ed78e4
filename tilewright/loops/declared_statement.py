"""The statement of a `te.extern` or a script, on tensors instead of buffers: the `op.body` that users see.

Memory that the statement allocates is a placeholder: its allocation is a `tir.ProducerRealize`, its stores are
`tir.ProducerStore`s, and its loads `tir.ProducerLoad`s. Assertions of a script are `tir.AssertStmt`s.
"""

from __future__ import annotations

from typing import Any

from ..expr.effects import FAILED
from ..expr.nodes import Call, Load, Not, StringImm
from ..expr.operators import const, logical_not
from ..expr.traverse import rewrite
from ..tensor.extern import ExternOp
from ..tensor.script import ScriptOp
from ..tensor.tensor import Tensor, placeholder
from .nodes import REPORT, Allocate, Buffer, Evaluate, If, Stmt, Store


def declared_statement(op: ExternOp) -> Stmt:
    """Return the statement of an operation with a tensor in place of each buffer."""
    tensors: dict[Buffer, Tensor] = dict(zip(op.input_buffers, op.inputs, strict=True))
    assertions = op.assertions if isinstance(op, ScriptOp) else ()
    made: Stmt = rewrite(op.statement, lambda node: _asserted(with_tensors(node, tensors), assertions))
    return made


def with_tensors(node: Any, tensors: dict[Buffer, Tensor]) -> Any:
    """The node with a tensor in place of its buffer: one of `tensors`, to which placeholders of others are added."""

    def at(buffer: Buffer) -> Any:
        if buffer not in tensors:
            tensors[buffer] = placeholder(buffer.shape, str(buffer.dtype), buffer.name)
        return tensors[buffer]

    if isinstance(node, Load) and isinstance(node.source, Buffer):
        return Load(at(node.source), node.indices)
    if isinstance(node, Store) and isinstance(node.buffer, Buffer):
        return Store(at(node.buffer), node.indices, node.value)
    if isinstance(node, Allocate) and isinstance(node.buffer, Buffer):
        return Allocate(at(node.buffer), node.body)
    return node


def _asserted(node: Any, assertions: tuple[tuple[str, str], ...]) -> Any:
    """The node, or the `tir.AssertStmt` of a report that an assertion of a script does not hold."""
    said = node.then if isinstance(node, If) else None
    if not (isinstance(said, Evaluate) and isinstance(said.value, Call) and said.value.name == REPORT):
        return node
    message, where = assertions[int(said.value.args[0])]
    holds = node.condition.a if isinstance(node.condition, Not) else logical_not(node.condition)
    failed = Call(FAILED, (StringImm(message), StringImm(where)), const(0, "int32").dtype)
    return If(holds, Evaluate(const(0, "int32")), Evaluate(failed))
