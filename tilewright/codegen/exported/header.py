"""The C header of an exported program."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.text import identifier, remark
from ...expr import nodes as n
from .signature import CSignature, c_type, scalar_c_type

_RETURNS = """\
/* Each function returns 0; 1 where memory ran out; 2 where a size is not what its comment says, or leads beyond an
   array; 3 where the device or its driver is not there or refuses. */"""
_HOST = """\
/* Pointers are to memory of this process. Arrays lie row by row unless a comment gives strides, and what a function
   writes shares no memory with its other arguments. Loops that run in parallel take as many threads as there are
   processors, or as TILEWRIGHT_NUM_THREADS says; a program may define tilewright_parallel_for itself. */"""
_CUDA = """\
/* Pointers are to memory of the current CUDA context's device. `stream` is a CUstream, or NULL; the function returns
   when its kernels are in the stream. The driver (libcuda.so.1) is loaded at the first call. */"""
_OPENCL = """\
/* Arrays are cl_mem objects of `queue`'s context, `queue` is a cl_command_queue; the function returns when its kernels
   are in the queue. OpenCL (libOpenCL.so.1, unless the process has it) is loaded at the first call. */"""
_KINDS = {"llvm": (_HOST, None), "c": (_HOST, None), "cuda": (_CUDA, "stream"), "opencl": (_OPENCL, "queue")}


def prototype(signature: CSignature, kind: str) -> str:
    """The declaration of an entry point, without its semicolon."""
    on_host = _KINDS[kind][1] is None
    parts = []
    for p in signature.parameters:
        if isinstance(p.value, n.Var):
            parts.append(f"{scalar_c_type(p.value.dtype)} {p.name}")
        elif on_host:
            parts.append(f"{'' if p.written else 'const '}{c_type(p.value.dtype)} *{p.name}")
        else:
            parts.append(f"void *{p.name}")
    if not on_host:
        parts.append(f"void *{_KINDS[kind][1]}")
    return f"int32_t {signature.name}({', '.join(parts) or 'void'})"


def header(signatures: Sequence[CSignature], kind: str, target: str) -> str:
    """The text of the header."""
    guard = f"TILEWRIGHT_{identifier('_'.join(s.name for s in signatures)).upper()}_H"
    lines = [f"/* Made by Tilewright for {remark(target)}. */", f"#ifndef {guard}", f"#define {guard}", ""]
    lines += ["#include <stdint.h>", "", "#ifdef __cplusplus", 'extern "C" {', "#endif", "", _RETURNS, _KINDS[kind][0]]
    for signature in signatures:
        lines += ["", f"/* {remark(signature.function.name)}:"]
        for p in signature.parameters:
            role = "" if isinstance(p.value, n.Var) else ", written" if p.written else ", read"
            place = f", at a multiple of {p.align} bytes" if p.align > 1 else ""
            lines.append(f"     {p.name}: {remark(p.note) or str(p.value.dtype)}{role}{place}")
        lines += ["*/", f"{prototype(signature, kind)};"]
    lines += ["", "#ifdef __cplusplus", "}", "#endif", f"#endif /* {guard} */"]
    return "\n".join(lines) + "\n"
