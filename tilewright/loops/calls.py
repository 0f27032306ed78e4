"""Calls of functions that the compiler does not know: C functions, LLVM's intrinsics, atomics, packed functions.

    ib.emit(tir.call_extern("int32", "gemv", C.access_ptr("w"), A.access_ptr("r"), 16))

A *pure* function computes its value from its arguments and the memory that it is given to read, and does nothing else.
Its call is an expression like any other. Any other call has an *effect*. It happens as often, and in the order, that
the program says, and may access any element of the buffers at its address arguments.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from ..core.dtype import DType
from ..core.errors import UserError
from ..core.hardware import MemoryScope
from ..expr.bits import REINTERPRET, reinterpret
from ..expr.effects import ATOMICS, EFFECTS, EXTERN, LLVM, PACKED, PREFETCH, PURE_EXTERN, PURE_LLVM, RETURN
from ..expr.intrinsics import TABLE
from ..expr.matrix_calls import MATRIX_CALLS, matrix_call
from ..expr.nodes import Call, Expr, IntImm, Load, StringImm
from ..expr.op_registry import is_declared
from ..expr.operators import (
    add,
    as_expr,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    const,
    if_then_else,
    likely,
    multiply,
    shift_left,
    shift_right,
)
from ..expr.printer import PRINTED, PRINTED_CALLS, ExprPrinter
from ..expr.returns import ret
from ..expr.traverse import post_order
from .nodes import Barrier, Evaluate, Stmt
from .storage import AddressOf, Buffer
from .unlowered_statements import GlobalVar

ARRAY = "tvm_stack_make_array"
FOREIGN = frozenset((EXTERN, PURE_EXTERN, LLVM, PURE_LLVM))
"""Calls with a first argument that names a function, which the back end calls unchanged."""
_C_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LLVM_NAME = re.compile(r"llvm(\.[A-Za-z0-9_]+)+", re.ASCII)


def has_effect(e: Any) -> bool:
    """Whether an expression is a call with side effects."""
    return isinstance(e, Call) and e.name in EFFECTS


def is_packed(e: Any) -> bool:
    """Whether an expression belongs to host code: the call of a packed function, or a return."""
    return isinstance(e, Call) and e.name in (PACKED, RETURN)


def refuse_packed(call: Call) -> None:
    """UserError for the call of a packed function, which is Python, in compiled code."""
    if call.name == RETURN:
        raise UserError(
            f"`{call}` is inside a kernel",
            primitive="ret",
            fix="return outside of thread loops, or build for llvm: its host code runs the loops",
        )
    if is_packed(call):
        raise UserError(
            f"the packed function {called_function(call)!r} is called inside a kernel",
            primitive="call_packed",
            fix="make it a statement outside of thread loops, ib.emit(tir.call_packed(...)), or build for llvm: its "
            "host code runs the loops",
        )


def refuse_nested(e: Expr, stmt: Any) -> None:
    """UserError for a call within an expression that may write memory: dataflow looks at whole values only."""
    whole = getattr(stmt, "value", None)
    for at in post_order(e):
        if (at is not e or e is not whole) and has_effect(at) and any(True for _ in addresses(at)):
            raise UserError(
                f"`{at}`, which may write memory, is a part of `{e}`",
                primitive=at.name,
                fix="give it a name first: x = ib.let('x', call)" if at is not e else "call it before the statement",
            )


def called_function(call: Call) -> str:
    """The name of the function that a call names by its first argument."""
    name = call.args[0]
    assert isinstance(name, StringImm)
    return name.value


def addresses(call: Expr) -> Iterator[AddressOf]:
    """The addresses that a call is given, alone or as parts of arrays."""
    for arg in call.args if isinstance(call, Call) else ():
        if isinstance(arg, AddressOf):
            yield arg
        elif isinstance(arg, Call) and arg.name == ARRAY:
            yield from addresses(arg)


def call_extern(dtype: Any, func_name: Any, *args: Any, span: Any = None) -> Expr:
    """Call a C function, or a function of the target's language, that may have effects.

    Parameters
    ----------
    dtype
        The type that the function returns.
    func_name
        Its name. On llvm the function is looked up in the modules that `import_llvm` and `import_c` pragmas name, then
        in the process. A GPU's language has to define it.
    *args
        Numbers, expressions, and addresses of buffers: `B.access_ptr("w")`, or `B` for reading and writing.

    Raises
    ------
    UserError
        For a name that no C function can have, and for arguments that are no values.
    """
    return _foreign(EXTERN, dtype, func_name, args)


def call_pure_extern(dtype: Any, func_name: Any, *args: Any, span: Any = None) -> Expr:
    """Call a function of C, or of the target's language, without side effects; `call_extern` has the details."""
    return _foreign(PURE_EXTERN, dtype, func_name, args)


def call_llvm_intrin(dtype: Any, name: Any, *args: Any, span: Any = None) -> Expr:
    """Call an intrinsic of LLVM that may have effects, such as "llvm.prefetch"; on the llvm target only.

    As in older versions of the legacy API, the first argument may be a uint32 constant, the number of arguments in the
    intrinsic's signature. It is dropped.
    """
    return _foreign(LLVM, dtype, name, args)


def call_llvm_pure_intrin(dtype: Any, name: Any, *args: Any, span: Any = None) -> Expr:
    """Call an intrinsic of LLVM that only computes a value, such as "llvm.fma"; on the llvm target only."""
    return _foreign(PURE_LLVM, dtype, name, args)


def _foreign(what: str, dtype: Any, name: Any, args: tuple[Any, ...]) -> Expr:
    is_llvm = what in (LLVM, PURE_LLVM)
    if not isinstance(name, str) or (_LLVM_NAME if is_llvm else _C_NAME).fullmatch(name) is None:
        raise UserError(
            f"{name!r} is not the name of {'an intrinsic of LLVM' if is_llvm else 'a function'}",
            primitive=what,
            fix='the type of the result comes first, then the name: call_llvm_pure_intrin("float32", "llvm.fabs", x)'
            if is_llvm
            else 'the type of the result comes first, then the name: call_extern("float32", "sinf", x)',
        )
    values = tuple(_argument(arg, what) for arg in args)
    if is_llvm and values and isinstance(values[0], IntImm) and values[0].dtype == "uint32":
        values = values[1:]
    kind = "int32" if isinstance(dtype, str) and dtype in ("void", "") else dtype  # a value that nobody looks at
    return Call(what, (StringImm(name), *values), DType(kind))


def _argument(given: Any, what: str) -> Expr:
    if isinstance(given, str):
        return StringImm(given)
    buffer = given.asobject() if hasattr(given, "asobject") else given
    if isinstance(buffer, Buffer):
        return buffer.data
    if isinstance(given, (bool, int, float, Expr)) or hasattr(given, "as_expr"):
        return as_expr(given)
    raise UserError(
        f"the argument {given!r} is not a value",
        primitive=what,
        fix='give numbers, expressions, or addresses of buffers: A.access_ptr("r")',
    )


def call_packed(*args: Any, span: Any = None) -> Expr:
    """Call a Python function that `register_func` has made known, from host code.

    Parameters
    ----------
    *args
        The name of the function, then its arguments. A buffer comes as a `tvm.nd` array over its memory, which the
        function reads and writes; numbers and texts come as such. The call's value is an int32.

    Raises
    ------
    UserError
        If the first argument is not a name, or an argument is not a value.
    """
    if not args or not isinstance(args[0], str):
        raise UserError(
            f"the function is given as {args[0]!r}" if args else "no function is given",
            primitive="call_packed",
            fix='give its name: tir.call_packed("my.function", ins[0], outs[0])',
        )
    return Call(PACKED, (StringImm(args[0]), *(_packed_argument(arg) for arg in args[1:])), DType("int32"))


def _packed_argument(given: Any) -> Expr:
    buffer = given.asobject() if hasattr(given, "asobject") else given
    if not isinstance(buffer, Buffer):
        return _argument(given, "call_packed")
    return array_of(buffer)


def array_of(buffer: Buffer) -> Call:
    """A buffer as an array for a packed function: its memory, its shape, and its strides unless they are row-major."""
    count = const(len(buffer.shape), "int32")
    strides = buffer.strides if buffer.layout.given is not None or buffer.layout.aligns else ()
    return Call(ARRAY, (buffer.data, count, *buffer.shape, *strides), DType("handle"))


def address_of(place: Any, span: Any = None) -> Expr:
    """The address of an element, `address_of(B[i])`, for an atomic function or a C function.

    Raises
    ------
    UserError
        For anything but an element of a buffer.
    """
    if not isinstance(place, Load):
        raise UserError(
            f"{place!r} is not an element of a buffer", primitive="address_of", fix="give an element: address_of(B[i])"
        )
    made = AddressOf(place, const(1, "int32"), True, True)
    assert made.buffer is not None  # `buffer` raises for a tensor
    return made


def _atomic(name: str, args: tuple[Any, ...]) -> Expr:
    """An atomic update; its value is the element's previous value."""
    place = args[0] if args else None
    place = address_of(place) if isinstance(place, Load) else place
    if len(args) != 2 or not isinstance(place, AddressOf):
        raise UserError(
            f"{name} is given {', '.join(map(repr, args)) or 'nothing'}",
            primitive="call_intrin",
            fix=f'give the address of an element and a value: call_intrin("int32", "tir.{name}", '
            'call_intrin("handle", "tir.address_of", B[i]), 1)',
        )
    element = place.buffer.dtype
    value = as_expr(args[1], element) if isinstance(args[1], (bool, int, float)) else as_expr(args[1])
    bits = name in ("atomic_and", "atomic_or", "atomic_xor")
    if value.dtype != element or (bits and not element.is_int):
        raise UserError(
            f"{name} of `{value}`, of type {value.dtype}, on {place.buffer.name!r} with elements of {element}",
            primitive="call_intrin",
            fix="give an integer buffer: bits of floats are not numbers"
            if bits and value.dtype == element
            else f'convert the value: value.astype("{element}")',
        )
    return Call(name, (place, value), element)


def call_intrin(dtype: Any, func_name: Any, *args: Any, span: Any = None) -> Expr:
    """Call an intrinsic by its name in the legacy API.

    Parameters
    ----------
    dtype
        The type of its value; that of known intrinsics follows from their arguments.
    func_name
        One of: "tir.exp" and the other functions of `te`; "tir.address_of"; "tir.prefetch" (of an address). Or
        "tir.atomic_add" (of an address and a value), `_sub`, `_min`, `_max`, `_and`, `_or`, `_xor`, `_exchange`. Or
        "tir.call_extern" and its variants, a matrix instruction, or a name declared by `tvm.ir.register_op_attr`.
    *args
        Its arguments.

    Raises
    ------
    UserError
        For an unknown function, and for arguments that it does not take.
    """
    name = func_name.removeprefix("tir.") if isinstance(func_name, str) else ""
    if name in MATRIX_CALLS:
        return matrix_call(name)
    if name in _BY_NAME:
        return _applied(_BY_NAME[name], func_name, (dtype, *args))
    if name in ATOMICS:
        return _atomic(name, args)
    if name in (PACKED, "tvm_call_packed"):
        return _typed(call_packed(*args), dtype)
    if name == REINTERPRET:
        return _applied(reinterpret, func_name, (dtype, *args))
    if name in _OPERATORS:
        return _applied(_OPERATORS[name], func_name, args)
    if name == STORAGE_SYNC:
        return _storage_sync(args)
    if name == PREFETCH:
        return _prefetch(args)
    if name == RETURN:
        return _applied(ret, func_name, args)
    if name == "address_of":
        return _applied(address_of, func_name, args)
    if name in TABLE:
        return _applied(TABLE[name], func_name, args)
    if is_declared(name):
        return Call(name, tuple(_argument(arg, name) for arg in args), DType(dtype))
    raise UserError(
        f"there is no intrinsic {func_name!r}",
        primitive="call_intrin",
        fix=f"use one of {', '.join((*MATRIX_CALLS, *ATOMICS))}, or the intrinsics of te (te.exp, te.sqrt ...); "
        'a C function is called by call_extern("float32", "name", x)',
    )


def _prefetch(args: tuple[Any, ...]) -> Expr:
    """Bring the cache line of an address into the cache; the arguments for kind and level are ignored."""
    place = address_of(args[0]) if args and isinstance(args[0], Load) else args[0] if args else None
    if not isinstance(place, AddressOf):
        raise UserError(
            f"tir.prefetch of {place!r}", primitive="call_intrin", fix="give an address: tir.address_of(A[i])"
        )
    return Call(PREFETCH, (AddressOf(place.place, place.extent, True, False),), DType("int32"))


STORAGE_SYNC = "tvm_storage_sync"
"""The call that is a barrier, as a statement."""


def _storage_sync(args: tuple[Any, ...]) -> Expr:
    scope = args[0] if args else ""
    name = str(scope.value if isinstance(scope, StringImm) else scope)
    if MemoryScope.parse(name) is None:
        raise UserError(
            f"tir.tvm_storage_sync of {scope!r}", primitive="call_intrin", fix='name a memory scope: "shared"'
        )
    return Call(STORAGE_SYNC, (StringImm(name),), DType("int32"))


def for_effect(e: Expr) -> Stmt:
    """The statement that evaluates an expression for its effect."""
    if isinstance(e, Call) and e.name == STORAGE_SYNC:
        scope = e.args[0]
        assert isinstance(scope, StringImm)
        return Barrier(MemoryScope.parse(scope.value) or MemoryScope.SHARED)
    return Evaluate(e)


def call(dtype: Any, op: Any, args: Any, span: Any = None) -> Expr:
    """Make a call of an intrinsic, as `call_intrin` does, of a list of arguments; of a `GlobalVar`, as `call_extern`.

    Raises
    ------
    UserError
        For arguments that are not a list, and as `call_intrin`.
    """
    if not isinstance(args, (list, tuple)):
        raise UserError(
            f"the arguments are {args!r}", primitive="Call", fix='give a list: tir.Call("float32", "tir.exp", [x])'
        )
    return (call_extern if isinstance(op, GlobalVar) else call_intrin)(dtype, op, *args)


def _typed(call: Expr, dtype: Any) -> Expr:
    """A call of a packed function with a value of another type than the default."""
    assert isinstance(call, Call)
    return call if dtype in ("", "void", "handle") else Call(call.name, call.args, DType(dtype))


def _applied(function: Callable[..., Expr], name: str, args: tuple[Any, ...]) -> Expr:
    """Apply a function to known arguments; UserError for a wrong number of arguments."""
    try:
        inspect.signature(function).bind(*args)
    except TypeError as error:
        raise UserError(
            f"{name} is called with {', '.join(map(repr, args)) or 'nothing'}: {error}",
            primitive="call_intrin",
            fix=f"give the arguments of tir.{function.__name__}",
        ) from error
    return function(*args)


def fma(a: Any, b: Any, c: Any) -> Expr:
    """`a * b + c`; whether it is rounded once is the back end's choice."""
    return add(multiply(a, b), c)


_OPERATORS: dict[str, Callable[..., Expr]] = {
    "if_then_else": if_then_else,
    "likely": likely,
    "fma": fma,
    "shift_left": shift_left,
    "shift_right": shift_right,
    "bitwise_and": bitwise_and,
    "bitwise_or": bitwise_or,
    "bitwise_xor": bitwise_xor,
    "bitwise_not": bitwise_not,
}

_BY_NAME = {
    EXTERN: call_extern,
    PURE_EXTERN: call_pure_extern,
    LLVM: call_llvm_intrin,
    PURE_LLVM: call_llvm_pure_intrin,
}


# The printed forms of calls.


def _show_address(printer: ExprPrinter, e: AddressOf) -> str:
    buffer, place = e.buffer, e.place
    assert isinstance(place, Load)
    name, at = printer.name(buffer), ", ".join(printer.write(i) for i in place.indices) or "0"
    mask, size = e.reads + 2 * e.writes, printer.write(e.extent)
    at = at if len(place.indices) < 2 else f"({at})"
    return f'T.tvm_access_ptr(T.type_annotation("{buffer.dtype}"), {name}.data, {at}, {size}, {mask})'


def _show_foreign(printer: ExprPrinter, e: Call) -> str:
    name, *args = (printer.write(arg) for arg in e.args)
    dtype = f'"{e.dtype}"'
    return f"T.{e.name}({', '.join([dtype, name, *args])})"


def _show_array(printer: ExprPrinter, e: Call) -> str:
    address, count, *rest = e.args
    assert isinstance(address, AddressOf)
    assert isinstance(address.place, Load)
    assert isinstance(count, IntImm)
    sizes = [printer.write(size) for size in rest]
    shape, strides = sizes[: count.value], sizes[count.value :]
    steps = f"T.tvm_stack_make_shape({', '.join(strides)})" if strides else "0"
    kind = address.buffer.dtype
    zero = "0" if kind == "int32" else f"T.{kind}({0 if kind.is_int else 0.0})"
    offset = printer.write(address.place.indices[0]) if len(address.place.indices) == 1 else "0"
    array = f"{printer.name(address.buffer)}.data, T.tvm_stack_make_shape({', '.join(shape)})"
    return f"T.tvm_stack_make_array({array}, {steps}, {count.value}, {zero}, {offset})"


PRINTED[AddressOf] = _show_address
PRINTED_CALLS.update(dict.fromkeys(FOREIGN, _show_foreign))
PRINTED_CALLS[ARRAY] = _show_array
PRINTED_CALLS[REINTERPRET] = lambda printer, e: f'T.reinterpret("{e.dtype}", {printer.write(e.args[0])})'
