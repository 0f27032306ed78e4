"""te.hybrid.script: a Python function that declares an operation on tensors, and runs unchanged on NumPy arrays."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ...core.dtype import DType
from ...core.errors import UserError
from ...core.own_code import calling
from ...expr.nodes import Expr, IntImm, Var
from ...loops.certain_faults import certain_faults
from ...loops.declare import decl_buffer
from ...loops.ir_builder import BufferVar
from ...loops.nodes import Buffer
from ...loops.script_nest import kinds_of, loop_nests
from ...tensor.axis import IterVar
from ...tensor.extern import ExternOp
from ...tensor.script import ScriptOp
from ...tensor.tag_scope import tagged
from ...tensor.tensor import Tensor, extents
from .source import Source
from .statements import Reader, Written
from .words import WORDS, python_words


class Script:
    """A function in the hybrid language.

    Called with tensors, it returns the tensors that it computes. Called with NumPy arrays, it runs as Python and
    returns arrays. Called from another script, it is inlined.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.source = Source(function)
        self.signature = inspect.signature(function)
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self._bound(args, kwargs)
        kinds = {kind for value in given.values() for kind in _kinds(value)}
        if "array" in kinds and "tensor" in kinds:
            raise UserError(
                f"{self.source.name} is called with tensors and with NumPy arrays",
                primitive="hybrid.script",
                fix="give tensors to declare an operation, or arrays to run it as Python",
            )
        if "part" in kinds:
            raise UserError(
                f"{self.source.name} is called from a Python function that a script calls",
                primitive="hybrid.script",
                fix="call it from the script itself",
            )
        if "array" in kinds:
            return self._run(tuple(given.values()), np.dtype)
        return self._declared(given)

    @property
    def __globals__(self) -> dict[str, Any]:  # functions have this attribute
        return self.source.function.__globals__

    def __repr__(self) -> str:
        return f"Script({self.source.name}{self.signature})"

    def _bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise UserError(
                f"{self.source.name}{self.signature}: {error}",
                primitive="hybrid.script",
                fix="give one value per parameter",
            ) from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def _run(self, args: Sequence[Any], numpy_type: Callable[[str], Any]) -> Any:
        """The function as Python, with the words of the language defined."""
        called = {
            n.func.id for n in ast.walk(self.source.tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        }
        words = {name: word for name, word in python_words(numpy_type).items() if name in called}
        function = self.source.function
        made = FunctionType(
            function.__code__, {**function.__globals__, **words}, function.__name__, None, function.__closure__
        )
        with calling(f"the script {self.source.name!r}"):
            return made(*args)

    def inlined(self, caller: Reader, node: ast.Call, args: Sequence[Any]) -> Any:
        """The arrays that a call from within another script returns."""
        try:
            given = self._bound(args, {})
        except UserError as error:
            raise caller.error(node, error.message, error.fix) from None
        at: Reader | None = caller
        while at is not None:
            if at.source.tree is self.source.tree:
                raise caller.error(node, f"{self.source.name} calls itself", "write a loop")
            at = at.called_by
        results = Reader(self.source, caller.written, caller).read(given)
        return results[0] if len(results) == 1 else tuple(results)

    def _declared(self, given: dict[str, Any]) -> Any:
        """The tensors of a new operation."""
        written = Written()
        inputs: list[Tensor] = []
        buffers: list[Buffer] = []

        def parameter(value: Any) -> Any:
            if isinstance(value, (tuple, list)):
                return tuple(parameter(part) for part in value)
            if not isinstance(value, Tensor):
                return _number(value, self.source.name)
            if value not in inputs:
                inputs.append(value)
                buffers.append(decl_buffer(value.shape, str(value.dtype), value.name))
            return BufferVar(written.builder, buffers[inputs.index(value)])

        arguments = {name: parameter(value) for name, value in given.items()}
        results = Reader(self.source, written, None).read(arguments)
        outputs = tuple(array.buffer for array in results)
        statement = written.builder.get()
        for wrong, fix in certain_faults(statement):
            raise UserError(f"the script {self.source.name!r} {wrong}", primitive="hybrid.script", fix=fix)
        parts = ExternOp(
            self.source.name,
            tuple(inputs),
            tuple(extents(buffer.shape, "hybrid.script", buffer.name) for buffer in outputs),
            tuple(buffer.dtype for buffer in outputs),
            statement,
            tuple(buffers),
            outputs,
            tagged("", self.source.name),
        )
        op = ScriptOp(
            self.source.name,
            parts,
            loop_nests(statement, written.axes),
            kinds_of(statement, written.axes),
            written.threads,
            tuple(written.assertions),
            functools.partial(self._emulated, given, inputs),
        )
        return list(op.outputs) if len(outputs) > 1 else op.outputs[0]

    def _emulated(
        self,
        given: dict[str, Any],
        inputs: Sequence[Tensor],
        arrays: Sequence[np.ndarray],
        numpy_type: Callable[[str], Any],
    ) -> Sequence[np.ndarray]:
        """The results for these values of the inputs, computed by Python itself."""
        values = dict(zip(inputs, arrays, strict=True))

        def argument(value: Any) -> Any:
            if isinstance(value, (tuple, list)):
                return tuple(argument(part) for part in value)
            return values[value] if isinstance(value, Tensor) else _plain(value)

        made = self._run([argument(value) for value in given.values()], numpy_type)
        return tuple(made) if isinstance(made, (tuple, list)) else (made,)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, IntImm) else value


def _kinds(value: Any) -> set[str]:
    """How an argument says that a script is called."""
    if isinstance(value, (tuple, list)):
        return {kind for part in value for kind in _kinds(part)}
    if isinstance(value, np.ndarray):
        return {"array"}
    if isinstance(value, (Tensor, Var, IterVar)):
        return {"tensor"}
    return {"part"} if isinstance(value, BufferVar) else set()


def _number(value: Any, name: str) -> Any:
    """The value of a parameter that is not a tensor, as known when the script is parsed."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, IterVar) or not (
        plain is None or callable(plain) or isinstance(plain, (Expr, bool, int, float, str, DType))
    ):
        raise UserError(
            f"{name} is called with {value!r}",
            primitive="hybrid.script",
            fix="give tensors, numbers, size variables, or tuples of them; or NumPy arrays, to run it as Python",
        )
    return _plain(plain)


def script(pyfunc: Callable[..., Any]) -> Script:
    """Turn a Python function in the hybrid language into an operation.

    Parameters
    ----------
    pyfunc
        A function in the language. Its loops run over `range`, `parallel`, `vectorize`, `unroll`, `const_range` and
        `bind`. It may also use `if` and `else`, assignments, assertions, `allocate`, `output_tensor` and mathematical
        functions.

    Returns
    -------
    Script
        Called with tensors, it returns the tensors of a new operation, one or a list; the loops of that operation are
        scheduled as others are. Called with NumPy arrays, it runs as Python.

    Raises
    ------
    UserError
        If the source of the function cannot be found; at the call, for syntax that is not in the language, with its
        line.
    """
    return Script(pyfunc)


__all__ = ["WORDS", "Script", "script"]
