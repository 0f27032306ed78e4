"""Low-overhead launches of compiled kernels from Python: one C function per kernel, compiled by LLVM.

`ctypes` converts the eleven arguments of a launch one by one, which takes longer than many kernels run. Here, a small
function with Python's own fast calling convention takes addresses as Python integers, or reads them from NumPy arrays.
Everything else is prepared in a record behind the function. It returns 0 or an error.

LLVM compiles that function in a few milliseconds, once per process. The first launches of a kernel on a GPU work
without it, so a process that only launches a known kernel never loads LLVM.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from ...runtime.llvm_link import keep_for_ever, link
from ...runtime.thread_pool import compiled_for_host

Start = Callable[..., int]
"""`start(*addresses)`, on a GPU with the stream last: 0, `MISALIGNED`, `UNSUITABLE`, or the driver's error."""

MISALIGNED, UNSUITABLE = -1, -2
"""Statuses: an address is misaligned; an array is not contiguous, or not writable."""
_MOST_ARGUMENTS = 16
"""The most arguments of a record, including the result and scratch memory."""
_RECORD = "QQ7iI" + f"{_MOST_ARGUMENTS}Q{_MOST_ARGUMENTS}I3Q"
"""The layout of a record, in the notation of `struct`. `_record` packs it, and the LLVM code below reads it.

Q: the address of the kernel. Q: the address of `cuLaunchKernel`. 7i: grid, block, bytes of dynamic shared memory.
I: the number of arguments. Then for each argument, Q: its alignment less one, and I: the NumPy flags that it needs.
3Q: the CUDA context, and the addresses of `cuCtxPushCurrent` and `cuCtxPopCurrent`.
"""
_CONTEXT_AT = struct.calcsize(f"={_RECORD.removesuffix('3Q')}")
"""The offset of the context in a record, in bytes."""
NO_CONTEXT = (201, 400)
"""CUDA_ERROR_INVALID_CONTEXT and CUDA_ERROR_INVALID_HANDLE: the thread has no current context, or another GPU's
context."""
_BYTES_HEADER = bytes.__basicsize__ - 1
"""The offset of the contents of a `bytes` object, which are the record."""
_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
"""NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED and NPY_ARRAY_WRITEABLE: flags of NumPy's arrays."""
_FASTCALL = 0x80
"""METH_FASTCALL: Python calls the function with an array of its positional arguments."""

_HELPERS = """
declare i64 @PyLong_AsUnsignedLongLong(ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

define internal i64 @address_of_int(ptr %object, i32 %wanted) {
  %address = call i64 @PyLong_AsUnsignedLongLong(ptr %object)
  ret i64 %address
}

; A NumPy array begins with its object header, then its data; its flags are a fixed part, too.
define internal i64 @address_of_array(ptr %object, i32 %wanted) {
  %flags_at = getelementptr i8, ptr %object, i64 64
  %flags = load i32, ptr %flags_at
  %kept = and i32 %flags, %wanted
  %right = icmp eq i32 %kept, %wanted
  br i1 %right, label %good, label %bad
good:
  %data_at = getelementptr i8, ptr %object, i64 16
  %data = load i64, ptr %data_at
  ret i64 %data
bad:
  ret i64 -1
}
"""

# `{name}`: of the entry; `{find}`: how an argument becomes an address; `{body}`: the use of the addresses.
_ENTRY = """
define ptr @{name}(ptr %self, ptr %args, i64 %given) {{
  %record = getelementptr i8, ptr %self, i64 {header}
  %values = alloca [{most} x i64], align 16
  %places = alloca [{most} x ptr], align 16
  %code = load i64, ptr %record
  %count_at = getelementptr i8, ptr %record, i64 {count_at}
  %count32 = load i32, ptr %count_at
  %count = zext i32 %count32 to i64
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %next, %kept ]
  %bits = phi i64 [ 0, %0 ], [ %seen, %kept ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %from = getelementptr ptr, ptr %args, i64 %i
  %object = load ptr, ptr %from
  %wanted_at0 = getelementptr i8, ptr %record, i64 {flags_at}
  %wanted_at = getelementptr i32, ptr %wanted_at0, i64 %i
  %wanted = load i32, ptr %wanted_at
  %address = call i64 @{find}(ptr %object, i32 %wanted)
  %unsuitable = icmp eq i64 %address, -1
  br i1 %unsuitable, label %refused, label %kept
kept:
  %mask_at0 = getelementptr i8, ptr %record, i64 {masks_at}
  %mask_at = getelementptr i64, ptr %mask_at0, i64 %i
  %mask = load i64, ptr %mask_at
  %odd = and i64 %address, %mask
  %seen = or i64 %bits, %odd
  %value_at = getelementptr i64, ptr %values, i64 %i
  store i64 %address, ptr %value_at
  %place_at = getelementptr ptr, ptr %places, i64 %i
  store ptr %value_at, ptr %place_at
  %next = add i64 %i, 1
  br label %head
refused:
  %r2 = call ptr @PyLong_FromLong(i64 -2)
  ret ptr %r2
done:
  %aligned = icmp eq i64 %bits, 0
  br i1 %aligned, label %go, label %crooked
crooked:
  %r1 = call ptr @PyLong_FromLong(i64 -1)
  ret ptr %r1
go:
{body}
  %status = sext i32 %status32 to i64
  %r0 = call ptr @PyLong_FromLong(i64 %status)
  ret ptr %r0
}}
"""

_ON_CPU = """  %function = inttoptr i64 %code to ptr
  %state = call ptr @PyEval_SaveThread()
  %status32 = call i32 %function(ptr %values)
  call void @PyEval_RestoreThread(ptr %state)"""

# If the thread's current context is another GPU's, our context is pushed for the launch and popped after it.
_ON_GPU = f"""  %launch_at = getelementptr i8, ptr %record, i64 8
  %launch = load ptr, ptr %launch_at
  %sizes = getelementptr i8, ptr %record, i64 16
  %gx = load i32, ptr %sizes
  %gy_at = getelementptr i32, ptr %sizes, i64 1
  %gy = load i32, ptr %gy_at
  %gz_at = getelementptr i32, ptr %sizes, i64 2
  %gz = load i32, ptr %gz_at
  %bx_at = getelementptr i32, ptr %sizes, i64 3
  %bx = load i32, ptr %bx_at
  %by_at = getelementptr i32, ptr %sizes, i64 4
  %by = load i32, ptr %by_at
  %bz_at = getelementptr i32, ptr %sizes, i64 5
  %bz = load i32, ptr %bz_at
  %shared_at = getelementptr i32, ptr %sizes, i64 6
  %shared = load i32, ptr %shared_at
  %stream_at = getelementptr ptr, ptr %args, i64 %count
  %stream_object = load ptr, ptr %stream_at
  %stream = call i64 @PyLong_AsUnsignedLongLong(ptr %stream_object)
  %function = inttoptr i64 %code to ptr
  %on = inttoptr i64 %stream to ptr
  %state = call ptr @PyEval_SaveThread()
  %first32 = call i32 %launch(ptr %function, i32 %gx, i32 %gy, i32 %gz, i32 %bx, i32 %by, i32 %bz,
      i32 %shared, ptr %on, ptr %places, ptr null)
  %no_context = icmp eq i32 %first32, {NO_CONTEXT[0]}
  %no_handle = icmp eq i32 %first32, {NO_CONTEXT[1]}
  %elsewhere = or i1 %no_context, %no_handle
  br i1 %elsewhere, label %within, label %launched
within:
  %context_at = getelementptr i8, ptr %record, i64 {_CONTEXT_AT}
  %context = load ptr, ptr %context_at
  %push_at = getelementptr ptr, ptr %context_at, i64 1
  %push = load ptr, ptr %push_at
  %pop_at = getelementptr ptr, ptr %context_at, i64 2
  %pop = load ptr, ptr %pop_at
  %popped = alloca ptr
  %pushed32 = call i32 %push(ptr %context)
  %pushed = icmp eq i32 %pushed32, 0
  br i1 %pushed, label %again, label %launched
again:
  %second32 = call i32 %launch(ptr %function, i32 %gx, i32 %gy, i32 %gz, i32 %bx, i32 %by, i32 %bz,
      i32 %shared, ptr %on, ptr %places, ptr null)
  %left32 = call i32 %pop(ptr %popped)
  br label %launched
launched:
  %status32 = phi i32 [ %first32, %go ], [ %pushed32, %within ], [ %second32, %again ]
  call void @PyEval_RestoreThread(ptr %state)"""

_ENTRIES = {
    "start_on_cpu": ("address_of_int", _ON_CPU),
    "start_arrays": ("address_of_array", _ON_CPU),
    "start_on_gpu": ("address_of_int", _ON_GPU),
}


def _assembly() -> str:
    offsets = {
        "header": _BYTES_HEADER,
        "most": _MOST_ARGUMENTS,
        "count_at": struct.calcsize("=QQ7i"),
        "masks_at": struct.calcsize("=QQ7iI"),
        "flags_at": struct.calcsize(f"=QQ7iI{_MOST_ARGUMENTS}Q"),
    }
    entries = (_ENTRY.format(name=n, find=f, body=b, **offsets) for n, (f, b) in _ENTRIES.items())
    return "\n".join([_HELPERS, *entries])


class _Definition(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@cache
def _definitions() -> dict[str, _Definition]:
    """Return the entries, compiled and linked into this process."""
    held, found = link(compiled_for_host(_assembly()), [*_ENTRIES], {})
    made = {name: _Definition(name.encode(), found[name], _FASTCALL, None) for name in _ENTRIES}
    # Threads that link at the same time get a copy each. None is freed, because functions may point into it.
    keep_for_ever((held, made))
    return made


_new_function = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p
)(("PyCMethod_New", ctypes.pythonapi))


def _function(name: str, record: bytes) -> Start:
    """Return a built-in function with the record as its `self`."""
    made: Start = _new_function(ctypes.addressof(_definitions()[name]), record, None, None)
    return made


def _record(
    code: int,
    alignment: tuple[int, ...],
    flags: list[int],
    launch: int = 0,
    sizes: tuple[int, ...] = (0,) * 7,
    context: tuple[int, ...] = (0,) * 3,
) -> bytes:
    masks = [max(1, align) - 1 for align in alignment]
    fill = [0] * (_MOST_ARGUMENTS - len(masks))
    return struct.pack(f"={_RECORD}", code, launch, *sizes, len(masks), *masks, *fill, *flags, *fill, *context)


def fits(arguments: int) -> bool:
    """Return whether a record has room for the arguments, including scratch memory."""
    return arguments < _MOST_ARGUMENTS


def on_cpu(code: int, alignment: tuple[int, ...], arrays: bool) -> Start:
    """Return a `Start` that calls the packed function at address `code` with addresses or, with `arrays`, NumPy arrays.

    The last array must be writable; the others need not.
    """
    readable = _CONTIGUOUS | _ALIGNED
    flags = [readable] * (len(alignment) - 1) + [readable | _WRITEABLE]
    return _function("start_arrays" if arrays else "start_on_cpu", _record(code, alignment, flags))


def on_gpu(
    function: int, launch: int, sizes: tuple[int, ...], alignment: tuple[int, ...], context: tuple[int, int, int]
) -> Start:
    """Return a `Start` that launches a kernel.

    Parameters
    ----------
    function, launch : int
        The driver's handle of the kernel, and the address of `cuLaunchKernel`.
    sizes : tuple of int
        Grid, block and dynamic shared bytes.
    alignment : tuple of int
        The alignment in bytes of each argument's address.
    context : tuple of int
        The context of the kernel, and the addresses of `cuCtxPushCurrent` and `cuCtxPopCurrent`.
    """
    return _function("start_on_gpu", _record(function, alignment, [0] * len(alignment), launch, sizes, context))


def by_ctypes(function: int, launch: Any, sizes: tuple[int, ...], alignment: tuple[int, ...]) -> Start:
    """Return the same as `on_gpu` without compilation: several times slower, but ready at once."""
    handle = ctypes.c_void_p(function)
    masks = [max(1, align) - 1 for align in alignment]
    number = len(masks)

    def start(*arguments: int) -> int:
        if any(address & mask for address, mask in zip(arguments, masks, strict=False)):
            return MISALIGNED
        values = (ctypes.c_uint64 * number)(*arguments[:number])
        first = ctypes.addressof(values)
        params = (ctypes.c_void_p * number)(*range(first, first + 8 * number, 8))
        status: int = launch(handle, *sizes, ctypes.c_void_p(arguments[number]), params, None)
        return status

    return start
