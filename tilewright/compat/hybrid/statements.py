"""Parse the statements of a script into statements of the loop grammar, by the builder of `tir.ir_builder`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.dtype import DType
from ...core.errors import UserError
from ...core.hardware import LoopKind, MemoryScope, ThreadTag
from ...core.text import quantity
from ...expr.nodes import Call, Expr, IntImm, Load
from ...expr.operators import as_expr, cast, const, logical_not, subtract
from ...expr.traverse import post_order
from ...loops.checked_index import REPORT
from ...loops.declare import decl_buffer
from ...loops.ir_builder import BufferVar, IRBuilder
from ...loops.nodes import Allocate, Buffer, Evaluate, For, If, Stmt, Store, While
from ...tensor.axis import AxisKind, IterVar, Range
from .expressions import Expressions, Local, type_of
from .names import Path, uses
from .refusals import refused
from .source import LineError, Source
from .words import LOOPS

_KINDS = {
    "range": LoopKind.SERIAL,
    "serial": LoopKind.SERIAL,
    "parallel": LoopKind.PARALLEL,
    "vectorize": LoopKind.VECTORIZED,
    "unroll": LoopKind.UNROLLED,
}


class Builder(IRBuilder):
    """The builder, with blocks that are opened and closed as in the text."""

    def open(self) -> None:
        """Begin a block."""
        self._scopes.append([])

    def close(self) -> Stmt:
        """End the innermost block and return its statements."""
        inner = Builder()
        inner._scopes = [self._scopes.pop()]
        return inner.get()

    @property
    def depth(self) -> int:
        """The number of open blocks."""
        return len(self._scopes)

    def declare(self, buffer: Buffer, depth: int) -> None:
        """Allocate a buffer for the rest of the block number `depth`."""
        self._scopes[depth].append(lambda body: Allocate(buffer, body))


@dataclass
class Written:
    """The state of parsing a script and the scripts that it calls."""

    builder: Builder = field(default_factory=Builder)
    axes: dict[Any, IterVar] = field(default_factory=dict)
    threads: dict[IterVar, IterVar] = field(default_factory=dict)
    assertions: list[tuple[str, str]] = field(default_factory=list)
    loops: int = 0
    """The number of loops around the current statement."""


class Reader(Expressions):
    """Parses one call of a script. After the parse, `results` holds the arrays that the script returns."""

    def __init__(self, source: Source, written: Written, called_by: Reader | None) -> None:
        super().__init__(source)
        self.written = written
        self.called_by = called_by
        self.uses = uses(source.tree)
        self.path: Path = ()
        self.base = written.builder.depth - 1
        self.locals: dict[str, Local] = {}
        self.declared: list[BufferVar] = []
        self.results: list[BufferVar] | None = None

    def read(self, arguments: dict[str, Any]) -> list[BufferVar]:
        """Parse the body for these values of the parameters; returns the arrays that the script returns."""
        self.names = dict(arguments)
        body = self.source.tree.body
        self.path = (id(body),)
        self._statements(body)
        if self.results is None:
            raise self.error(body[-1], "the script returns nothing", "end it with: return b, of an output_tensor b")
        lost = next((array for array in self.declared if array not in self.results), None)
        if lost is not None:
            raise self.error(
                body[-1],
                f"the output_tensor {lost.buffer.name!r} is not returned",
                "return it, or make it with allocate",
            )
        return self.results

    def block(self, statements: Sequence[ast.stmt]) -> Stmt:
        """The statements of a block of the text."""
        self.path = (*self.path, id(statements))
        self.written.builder.open()
        self._statements(statements)
        made = self.written.builder.close()
        self._leave()
        return made

    def _leave(self) -> None:
        for name in [name for name in self.locals if self.uses[name].block == self.path]:
            del self.locals[name]
        self.path = self.path[:-1]

    def _statements(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        read = _READ.get(type(node))
        if read is None:
            what, fix = refused(node)
            raise self.error(node, f"{what} is not in the hybrid language", fix)
        if self.results is not None:
            raise self.error(node, "a statement follows the return", "return at the end")
        try:
            read(self, node)
        except LineError:
            raise
        except UserError as error:
            raise self.error(node, error.message, error.fix) from None

    # Assignments.

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            raise self.error(node, "several targets are assigned at once", "assign one at a time")
        target = node.targets[0]
        if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
            word = node.value.func.id
            if word in ("allocate", "output_tensor") and word not in self.names:
                self._declare(node, target, node.value, word)
                return
        if not isinstance(target, (ast.Tuple, ast.List)):
            self._store(target, self.value(node.value))
            return
        values = self.value(node.value)
        if not isinstance(values, (tuple, list)) or len(values) != len(target.elts):
            count = len(values) if isinstance(values, (tuple, list)) else 1
            raise self.error(
                node, f"{quantity(count, 'value')} are assigned to {len(target.elts)} names", "give one name per value"
            )
        kept = [self._kept("value", v) if isinstance(v, Expr) else v for v in values]  # all are read before a store
        for part, value in zip(target.elts, kept, strict=True):
            self._store(part, value)

    def _augmented(self, node: ast.AugAssign) -> None:
        old, new = self.number(node.target), self.number(node.value)
        self._store(node.target, self.combine(node, node.op, old, new))

    def _store(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self._store_name(target, value)
            return
        if not isinstance(target, ast.Subscript):
            raise self.error(target, f"`{ast.unparse(target)}` is not assigned to", "assign a name or an element")
        array, indices = self.element(target)
        if not isinstance(array, BufferVar):
            raise self.error(target, f"`{ast.unparse(target)}` is a part of a tuple", "store to an array")
        if not isinstance(value, (Expr, bool, int, float)):
            raise self.error(target, "an element is assigned an array", "assign an element of it: b[i]")
        e = self._converted(target, value, array.dtype, f"`{ast.unparse(target)}`")
        self.written.builder.emit(Store(array.buffer, indices, e))

    def _store_name(self, target: ast.Name, value: Any) -> None:
        name, use = target.id, self.uses[target.id]
        parameter = name in [argument.arg for argument in self.source.tree.args.args]
        if parameter or use.is_loop:
            what = "a parameter" if parameter else "the variable of a loop"
            raise self.error(target, f"{name!r} is {what}, which is not assigned to", "use another name")
        if not isinstance(value, (Expr, bool, int, float)):
            if len(use.stores) > 1:
                raise self.error(target, f"{name!r} is the name of more than one array or tuple", "use two names")
            self.names[name] = value
        elif use.is_constant:
            self.names[name] = self._kept(name, value) if isinstance(value, Expr) else value
        else:
            local = self.locals.get(name)
            if local is None:
                buffer = Buffer(name, str(type_of(value)), (const(1, "int32"),), MemoryScope.LOCAL, note=name)
                self.written.builder.declare(buffer, self.base + len(use.block) - 1)
                local = self.locals[name] = Local(buffer, self.source.first + target.lineno - 1)
            kind = local.buffer.dtype
            e = as_expr(value, kind) if not isinstance(value, Expr) and _fits(value, kind) else as_expr(value)
            if e.dtype != kind and not _widens(e.dtype, kind):
                raise self.error(
                    target,
                    f"{name!r} is {kind} since line {local.line}, but is assigned {e.dtype}",
                    f"begin with {name} = {e.dtype}(...), or convert the value: {kind}(...)",
                )
            self.written.builder.emit(Store(local.buffer, (const(0, "int32"),), cast(kind, e)))
            self.names[name] = local

    def _kept(self, name: str, value: Expr) -> Expr:
        """Return the value, in a variable if later stores could change it."""
        if any(isinstance(e, (Load, Call)) for e in post_order(value)):
            return self.written.builder.let(name, value)
        return value

    def _converted(self, node: ast.AST, value: Any, kind: DType, what: str) -> Expr:
        """Convert a value for a store to an array, by NumPy's rules for kinds of numbers."""
        if not isinstance(value, Expr) and _fits(value, kind):
            return as_expr(value, kind)
        e = as_expr(value)
        if e.dtype == kind or (kind.is_float and not e.dtype.is_bool) or (kind.is_int and e.dtype.is_int):
            return cast(kind, e)
        raise self.error(node, f"{what} is {kind}, but is assigned {e.dtype}", f"convert the value: {kind}(...)")

    def _declare(self, node: ast.stmt, target: ast.expr, call: ast.Call, word: str) -> None:
        """`b = allocate(...)`, `b = output_tensor(...)`."""
        if not isinstance(target, ast.Name) or len(self.uses[target.id].stores) != 1:
            raise self.error(node, f"{word} is assigned to a name with other values", "give the array its own name")
        options = {"shape": None, "dtype": "float32", "scope": ""}
        given = dict(zip(options, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
        if len(call.args) > 3 or "shape" not in given or not set(given) <= set(options):
            raise self.error(node, f"`{ast.unparse(call)}` is not understood", f"{word}((n, m), 'float32')")
        shape = self.value(given["shape"])
        extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        if not all(isinstance(e, (int, Expr)) and not isinstance(e, bool) for e in extents) or not extents:
            raise self.error(node, f"the shape `{ast.unparse(given['shape'])}` is not one", "give integers: (n, m)")
        dtype = self.value(given["dtype"]) if "dtype" in given else "float32"
        scope = self.value(given["scope"]) if "scope" in given else ""
        buffer = decl_buffer(extents, dtype, target.id, scope=scope)
        top = len(self.path) == 1 and self.called_by is None
        if word == "output_tensor":
            if len(self.path) != 1:
                raise self.error(node, f"the output_tensor {target.id!r} is made in a block", "make it at the top")
            if scope not in ("", "global"):
                raise self.error(node, "an output_tensor is global memory", "use allocate for a nearer one")
        constant = all(isinstance(e, IntImm) for e in buffer.shape)
        if not scope and self.written.loops and constant:
            buffer.scope = MemoryScope.LOCAL
        array = BufferVar(self.written.builder, buffer)
        self.names[target.id] = array
        if word == "output_tensor":
            self.declared.append(array)
        if not (word == "output_tensor" and top):
            buffer.note = target.id
            self.written.builder.declare(buffer, self.written.builder.depth - 1)

    # Loops and branches.

    def _for(self, node: ast.For) -> None:
        call = node.iter
        word = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
        if word not in LOOPS or not isinstance(call, ast.Call):
            raise self.error(
                node, f"the loop runs over `{ast.unparse(call)}`", f"loop with one of {', '.join(LOOPS)}: range(n)"
            )
        if node.orelse or not isinstance(node.target, ast.Name):
            raise self.error(node, "a loop has one variable, and no else", "for i in range(n):")
        if node.target.id in self.locals or isinstance(self.names.get(node.target.id), BufferVar):
            raise self.error(node, f"{node.target.id!r} has a value already", "give the loop a name of its own")
        before = dict(self.names)
        if word == "const_range":
            self._unrolled(node, call)
        elif word == "bind":
            self._bound(node, call)
        else:
            begin, end, step = self._ends(node, call)
            if step == 0:
                raise self.error(node, "the step of the loop is 0", "give another one")
            if step != 1:
                round_up = step - 1 if step > 0 else step + 1
                end = (end - begin + round_up) // step
                self._loop(node, const(0, "int32"), end, word, lambda i: begin + i * step)
            else:
                self._loop(node, begin, end, word, lambda i: i)
        lasting = {} if word != "const_range" else self._lasting(self.names)
        self.names = {**before, **lasting}

    def _ends(self, node: ast.For, call: ast.Call) -> tuple[Any, Any, Any]:
        given = [self.integer(arg, "the end of the loop") for arg in call.args]
        if not 1 <= len(given) <= 3 or call.keywords:
            raise self.error(node, f"`{ast.unparse(call)}` is not understood", "range(n), or range(begin, end)")
        begin, end = (0, given[0]) if len(given) == 1 else given[:2]
        step = given[2] if len(given) == 3 else 1
        if not isinstance(step, int):
            raise self.error(node, f"the step `{ast.unparse(call.args[2])}` is not constant", "give an int")
        return begin, end, step

    def _unrolled(self, node: ast.For, call: ast.Call) -> None:
        ends = self._ends(node, call)
        if not all(isinstance(e, int) for e in ends) or ends[2] == 0:
            raise self.error(
                node, f"the ends of `{ast.unparse(call)}` are not constant", "use range for bounds known at the call"
            )
        outside = dict(self.names)
        for k in range(*ends):
            inside = {name: value for name, value in self.names.items() if isinstance(value, Local)}
            self.names = {**outside, **inside, node.target.id: k}  # type: ignore[attr-defined]  # a name: checked
            self.written.builder.emit(self.block(node.body))

    def _bound(self, node: ast.For, call: ast.Call) -> None:
        tag = self.value(call.args[0]) if len(call.args) == 2 and not call.keywords else None
        thread = ThreadTag.parse(tag) if isinstance(tag, str) else None
        if thread is None:
            raise self.error(node, f"`{ast.unparse(call)}` is not understood", 'for i in bind("threadIdx.x", extent):')
        extent = self.integer(call.args[1], "the extent")
        self._loop(node, const(0, "int32"), extent, "bind", lambda i: i, thread)

    def _loop(
        self,
        node: ast.For,
        begin: Any,
        end: Any,
        word: str,
        value: Callable[[Any], Any],
        thread: ThreadTag | None = None,
    ) -> None:
        low, stop = as_expr(begin), as_expr(end)
        wide = max(low.dtype, stop.dtype, key=lambda t: t.bits)
        low, extent = cast(wide, low), cast(wide, subtract(stop, low))
        kind = _KINDS.get(word, LoopKind.SERIAL)
        if kind in (LoopKind.UNROLLED, LoopKind.VECTORIZED) and not isinstance(extent, IntImm):
            raise self.error(node, f"the extent `{extent}` of {word} is not constant", "use range or parallel")
        if isinstance(extent, IntImm) and extent.value <= 0:
            return
        name: str = node.target.id  # type: ignore[attr-defined]  # a name: checked
        axis = IterVar(name, Range.from_min_extent(low, extent), AxisKind.DATA)
        self.written.axes[axis.var] = axis
        if thread is not None:
            self.written.threads[axis] = IterVar(name, Range(extent), AxisKind.THREAD, thread)
        self.names[name] = value(axis.var)
        self.written.loops += 1
        body = self.block(node.body)
        self.written.loops -= 1
        self.written.builder.emit(For(axis.var, low, extent, kind, None, (), body))

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            raise self.error(node, "a loop has no else in a script", "put the following statements after the loop")
        before = dict(self.names)
        test = self.truth(node.test)
        if isinstance(test, bool):
            raise self.error(
                node,
                f"the condition `{ast.unparse(node.test)}` of the loop never changes",
                "write one that the loop changes: a variable that it assigns, or an element that it stores",
            )
        self.written.loops += 1
        body = self.block(node.body)
        self.written.loops -= 1
        self.names = before
        self.written.builder.emit(While(test, body))

    def _if(self, node: ast.If) -> None:
        test = self.truth(node.test)
        before = dict(self.names)
        if isinstance(test, bool):
            taken = node.body if test else node.orelse
            if taken:
                self.written.builder.emit(self.block(taken))
            self._after(before, self.names)
            return
        then = self.block(node.body)
        after, self.names = self.names, dict(before)
        orelse = self.block(node.orelse) if node.orelse else None
        self._after(before, {name: value for name, value in after.items() if self.names.get(name) is value})
        self.written.builder.emit(If(test, then, orelse))

    def _after(self, before: dict[str, Any], assigned: dict[str, Any]) -> None:
        """The values after an `if`: the earlier ones, and the values that every branch assigns."""
        self.names = {**before, **self._lasting(assigned)}

    def _lasting(self, names: dict[str, Any]) -> dict[str, Any]:
        """Return the variables among some names with storage that still exists."""
        return {name: v for name, v in names.items() if isinstance(v, Local) and self.locals.get(name) is v}

    # Other statements

    def _assert(self, node: ast.Assert) -> None:
        test = self.truth(node.test)
        text = f"the assertion `{ast.unparse(node.test)}` does not hold"
        if node.msg is not None:
            message = node.msg.value if isinstance(node.msg, ast.Constant) else None
            if not isinstance(message, str):
                raise self.error(node, "the message of the assertion is not text", 'assert condition, "message"')
            text = message
        if test is False:
            raise self.error(node, text, "give arguments for which it holds")
        if test is not True:
            slot = const(len(self.written.assertions), "int32")
            self.written.assertions.append((text, self.source.where(node)))
            said = Evaluate(Call(REPORT, (slot, const(0, "int32")), DType("int32")))
            self.written.builder.emit(If(logical_not(test), said, None))

    def _return(self, node: ast.Return) -> None:
        if len(self.path) != 1:
            raise self.error(node, "the script returns from within a block", "return at the end")
        parts = node.value.elts if isinstance(node.value, (ast.Tuple, ast.List)) else [node.value]
        found = [self.value(part) for part in parts if part is not None]
        for value, part in zip(found, parts, strict=False):
            if not any(value is array for array in self.declared):
                shown = ast.unparse(part) if part is not None else "nothing"
                raise self.error(node, f"`{shown}` is not an output_tensor", "return the result of output_tensor")
        if not found or len({id(array) for array in found}) != len(found):
            raise self.error(node, "each output_tensor is returned once", "return b, or return b, c")
        self.results = found

    def _effect(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return
        if not isinstance(node.value, ast.Call):
            raise self.error(node, f"`{ast.unparse(node)}` has no effect", "assign it")
        self.value(node.value)

    def _pass(self, node: ast.Pass) -> None:
        return


def _fits(value: Any, kind: DType) -> bool:
    """Whether a Python number is a value of a type."""
    if isinstance(value, bool):
        return kind.is_bool
    return kind.is_float or (isinstance(value, int) and kind.is_int)


def _widens(given: DType, kind: DType) -> bool:
    """Whether the type `kind` holds all numbers of the type `given`, judged by kind and bits."""
    if given.is_float:
        return kind.is_float and given.bits <= kind.bits
    return (
        given.is_int and not given.is_bool and (kind.is_float or (given.kind == kind.kind and given.bits <= kind.bits))
    )


_READ: dict[type[ast.AST], Callable[[Any, Any], None]] = {
    ast.Assign: Reader._assign,
    ast.AugAssign: Reader._augmented,
    ast.For: Reader._for,
    ast.While: Reader._while,
    ast.If: Reader._if,
    ast.Assert: Reader._assert,
    ast.Return: Reader._return,
    ast.Expr: Reader._effect,
    ast.Pass: Reader._pass,
}
