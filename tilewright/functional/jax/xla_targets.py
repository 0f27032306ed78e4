"""Programs as custom-call targets of XLA's foreign function interface.

XLA calls a *handler*, a C function, with a call frame that holds the addresses of all buffers. Our handlers are machine
code from LLVM, one per program: they read the addresses, ask XLA for its stream, and launch the kernels. No Python runs
during execution, and nothing is copied. Intermediate buffers between kernels are further results of the call, so that
XLA allocates them.

The offsets below come from XLA's header `xla/ffi/api/c_api.h`, which jaxlib ships: `XLA_FFI_CallFrame` and the structs
that it points to. All versions of the interface so far have the same offsets.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

from ...codegen.llvm.binding import PACKED
from ...core.forking import new_lock
from ...runtime.llvm_link import keep_for_ever, link
from ...runtime.thread_pool import compiled_for_host
from ..programs import cuda_kernels
from ..programs.executable import Executable
from ..programs.running import CpuProgram

PLATFORMS = {"cpu": "cpu", "cuda": "CUDA"}
"""XLA's names of the kinds of devices."""
_INTERNAL_ERROR = 13
_lock = new_lock()
_names: dict[int, tuple[Executable, str]] = {}
_registered: set[tuple[str, str]] = set()

_HEAD = """
declare i32 @snprintf(ptr, i64, ptr, ...)
@misaligned = private constant [{misaligned_size} x i8] c"{misaligned}\\00"
@failed = private constant [{failed_size} x i8] c"{failed}\\00"

; XLA_FFI_Error_Create, with a number put into the message.
define internal ptr @error(ptr %frame, ptr %format, i32 %status) {{
  %text = alloca [256 x i8], align 16
  %length = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %text, i64 256, ptr %format, i32 %status)
  %of = alloca [4 x i64], align 16
  store i64 28, ptr %of
  %extension_at = getelementptr i64, ptr %of, i64 1
  store i64 0, ptr %extension_at
  %text_at = getelementptr i64, ptr %of, i64 2
  store ptr %text, ptr %text_at
  %code_at = getelementptr i64, ptr %of, i64 3
  store i64 {internal_error}, ptr %code_at
  %api_at = getelementptr i8, ptr %frame, i64 16
  %api = load ptr, ptr %api_at
  %create_at = getelementptr i8, ptr %api, i64 48
  %create = load ptr, ptr %create_at
  %made = call ptr %create(ptr %of)
  ret ptr %made
}}

define ptr @handler(ptr %frame) {{
  %head_at = getelementptr i8, ptr %frame, i64 8
  %head = load ptr, ptr %head_at
  %alone = icmp eq ptr %head, null
  br i1 %alone, label %execute, label %extended
extended:
  %kind_at = getelementptr i8, ptr %head, i64 8
  %kind = load i32, ptr %kind_at
  %asks = icmp eq i32 %kind, 1
  br i1 %asks, label %describe, label %execute
describe: ; XLA_FFI_Metadata: the version is that of XLA itself, and command buffers may record the call
  %about_at = getelementptr i8, ptr %head, i64 24
  %about = load ptr, ptr %about_at
  %version_at = getelementptr i8, ptr %about, i64 24
  store i64 {version}, ptr %version_at
  %traits_at = getelementptr i8, ptr %about, i64 32
  store i32 1, ptr %traits_at
  ret ptr null
execute:
  %args_at = getelementptr i8, ptr %frame, i64 72
  %args = load ptr, ptr %args_at
  %rets_at = getelementptr i8, ptr %frame, i64 112
  %rets = load ptr, ptr %rets_at
"""

_BUFFER = """  %b{i}_at = getelementptr ptr, ptr %{list}, i64 {place}
  %b{i} = load ptr, ptr %b{i}_at
  %d{i}_at = getelementptr i8, ptr %b{i}, i64 24
  %d{i} = load i64, ptr %d{i}_at
  %odd{i} = and i64 %d{i}, {mask}
  %bits{i} = or i64 %odd{i}, {before}
"""

_ALIGNED = """  %aligned = icmp eq i64 {bits}, 0
  br i1 %aligned, label %go, label %crooked
crooked:
  %refusal = call ptr @error(ptr %frame, ptr @misaligned, i32 0)
  ret ptr %refusal
go:
"""

# XLA_FFI_Stream_Get
_STREAM = """  %asked = alloca [4 x i64], align 16
  store i64 32, ptr %asked
  %asked1 = getelementptr i64, ptr %asked, i64 1
  store i64 0, ptr %asked1
  %ctx_at = getelementptr i8, ptr %frame, i64 24
  %ctx = load ptr, ptr %ctx_at
  %asked2 = getelementptr i64, ptr %asked, i64 2
  store ptr %ctx, ptr %asked2
  %api_at = getelementptr i8, ptr %frame, i64 16
  %api = load ptr, ptr %api_at
  %get_at = getelementptr i8, ptr %api, i64 80
  %get = load ptr, ptr %get_at
  %no_stream = call ptr %get(ptr %asked)
  %given = icmp eq ptr %no_stream, null
  br i1 %given, label %streamed, label %unstreamed
unstreamed:
  ret ptr %no_stream
streamed:
  %stream_at = getelementptr i64, ptr %asked, i64 3
  %stream = load ptr, ptr %stream_at
"""

_LAUNCHED = """  %done{k} = icmp eq i32 %status{k}, 0
  br i1 %done{k}, label %after{k}, label %wrong{k}
wrong{k}:
  %error{k} = call ptr @error(ptr %frame, ptr @failed, i32 %status{k})
  ret ptr %error{k}
after{k}:
"""


def target_of(program: Executable, on: Any) -> str:
    """Return the name of the target of a program on a kind of devices; register it with XLA once.

    The name is a digest of the program, so that an executable in JAX's disk cache finds the same code or none.
    """
    with _lock:
        _, name = _names.get(id(program), (None, ""))
        if not name:
            digest = hashlib.sha256(repr(program.description()).encode() + program.binary).hexdigest()
            name = f"tilewright_{digest[:32]}"
            _names[id(program)] = program, name
        if (name, on.kind) not in _registered:
            ffi = sys.modules["jax"].ffi
            ffi.register_ffi_target(name, ffi.pycapsule(_handler(program, on)), platform=PLATFORMS[on.kind])
            _registered.add((name, on.kind))
        return name


def _handler(program: Executable, on: Any) -> int:
    """Return the address of a handler, linked into this process permanently: XLA cannot unregister a target."""
    if on.kind == "cpu":
        loaded = CpuProgram(program)
        addresses = {f"kernel{k}": loaded.addresses[one.kernel + PACKED] for k, one in enumerate(program.launches)}
        owner: Any = loaded
    else:
        owner, kernels = cuda_kernels.load_on_all(program, on.index)
        addresses = {f"kernel{k}": kernel for k, kernel in enumerate(kernels)}
        addresses["launch"] = cuda_kernels.launch_address()
    held, found = link(compiled_for_host(_text(program, on.kind == "cuda")), ["handler"], addresses)
    keep_for_ever((owner, held))
    return found["handler"]


def _text(program: Executable, on_gpu: bool) -> str:
    """The LLVM code of a program's handler."""
    return "\n".join((_head(), "".join(_body(program, on_gpu))))


def _head() -> str:
    misaligned = "tilewright: a buffer begins at an address that the kernel cannot load vectors from"
    failed = "tilewright: a kernel could not be launched (status %d)"
    return _HEAD.format(
        misaligned=misaligned, misaligned_size=len(misaligned) + 1, failed=failed, failed_size=len(failed) + 1,
        internal_error=_INTERNAL_ERROR, version=_version(),
    )  # fmt: skip


def _version() -> int:
    """Return the interface version of the installed jaxlib: minor and major version, each in 32 bits of one number."""
    header = os.path.join(sys.modules["jax"].ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    with open(header, encoding="utf-8") as file:
        parts = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", file.read()))
    return int(parts["MINOR"]) << 32 | int(parts["MAJOR"])


def _body(program: Executable, on_gpu: bool) -> Iterator[str]:
    inputs, bits = program.arguments - 1, "0"
    for i in range(program.arguments + len(program.scratch)):
        listed, place = ("args", i) if i < inputs else ("rets", i - inputs)
        mask = max(1, program.alignment[i]) - 1 if i < program.arguments else 0
        yield _BUFFER.format(i=i, list=listed, place=place, mask=mask, before=bits)
        bits = f"%bits{i}"
    yield _ALIGNED.format(bits=bits)
    yield _STREAM if on_gpu else ""
    for k, one in enumerate(program.launches):
        count = len(one.arguments)
        yield f"  %v{k} = alloca [{count} x i64], align 16\n  %p{k} = alloca [{count} x ptr], align 16\n"
        for j, a in enumerate(one.arguments):
            value = a if a >= 0 else program.arguments - 1 - a
            yield f"  %v{k}_{j} = getelementptr i64, ptr %v{k}, i64 {j}\n  store i64 %d{value}, ptr %v{k}_{j}\n"
            yield f"  %p{k}_{j} = getelementptr ptr, ptr %p{k}, i64 {j}\n  store ptr %v{k}_{j}, ptr %p{k}_{j}\n"
        if on_gpu:
            sizes = ", ".join(f"i32 {size}" for size in (*one.grid, *one.block, one.shared))
            yield f"  %status{k} = call i32 @launch(ptr @kernel{k}, {sizes}, ptr %stream, ptr %p{k}, ptr null)\n"
        else:
            yield f"  %status{k} = call i32 @kernel{k}(ptr %v{k})\n"
        yield _LAUNCHED.format(k=k)
    yield "  ret ptr null\n}\n"
    if on_gpu:
        yield "declare i32 @launch(ptr, i32, i32, i32, i32, i32, i32, i32, ptr, ptr, ptr)\n"
    for k, _ in enumerate(program.launches):
        yield f"@kernel{k} = external global i8\n" if on_gpu else f"declare i32 @kernel{k}(ptr)\n"
