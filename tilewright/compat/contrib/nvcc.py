"""CUDA source compiled by NVRTC, and the capabilities of a GPU, under the legacy API's names; nothing here calls
`nvcc`."""

from __future__ import annotations

from typing import Any

from ...codegen.exported.linker import compiler_words
from ...codegen.nvrtc import architectures, compile_users, version
from ...core.errors import UserError
from ...core.paths import file_path
from ...core.target import Target
from ...report.files import write


def have_tensorcore(compute_version: Any = None, target: Any = None) -> bool:
    """Return whether GPUs of a compute capability have the matrix instructions that `tensorize` uses.

    Parameters
    ----------
    compute_version
        Such as "9.0", the `compute_version` of a device.
    target
        Accepted as in the legacy API.

    Raises
    ------
    UserError
        If `compute_version` is not such a text.
    """
    major = compute_version.partition(".")[0] if isinstance(compute_version, str) else ""
    if not major.isdecimal():
        raise UserError(
            f"compute_version is {compute_version!r}, which is not a compute capability",
            primitive="have_tensorcore",
            fix='give the compute capability of a device: tvm.cuda(0).compute_version, such as "9.0"',
        )
    return int(major) >= 8


def compile_cuda(
    code: str,
    target_format: str = "cubin",
    arch: str | None = None,
    options: Any = None,
    path_target: str | None = None,
) -> bytes:
    """Compile CUDA source by NVRTC, with no toolkit and no GPU.

    Parameters
    ----------
    code
        The source.
    target_format
        "cubin" or "ptx".
    arch
        The architecture, such as "sm_90"; without it that of the current target, else sm_90.
    options
        Further options of NVRTC: a text or a list of them.
    path_target
        A file to which the result is written, too.

    Returns
    -------
    bytes
        The cubin or the PTX.

    Raises
    ------
    UserError
        If NVRTC refuses the source (with its log), if NVRTC is not installed, or if `path_target` cannot be written.
    """
    if not isinstance(code, str):
        raise UserError(
            f"the code is {code!r}, which is not text", primitive="compile_cuda", fix="give CUDA source as text"
        )
    if not isinstance(target_format, str) or target_format not in ("cubin", "ptx"):
        raise UserError(
            f"target_format={target_format!r} is not known", primitive="compile_cuda", fix='give "cubin" or "ptx"'
        )
    current = Target.current()
    wanted = arch if arch is not None else (current.arch if current is not None and current.kind == "cuda" else "sm_90")
    known = architectures()
    if not isinstance(wanted, str) or wanted.rstrip("af") not in known:
        raise UserError(
            f"arch={wanted!r} is not one that NVRTC compiles for", primitive="compile_cuda", fix=f"give one of {known}"
        )
    more = compiler_words("compile_cuda", options=[options] if isinstance(options, str) else options)
    made = compile_users(code, target_format, wanted, tuple(more))
    if path_target is not None:
        write(file_path(path_target, "compile_cuda", "kernel.cubin"), lambda file: file.write(made))
    return made


def get_cuda_version(cuda_path: Any = None) -> tuple[int, int]:
    """Return the version of CUDA that NVRTC belongs to."""
    return version()


def parse_compute_version(compute_version: Any) -> tuple[int, int]:
    """Return the two numbers of a compute capability such as "9.0"."""
    major, _, minor = compute_version.partition(".") if isinstance(compute_version, str) else ("", "", "")
    if not major.isdecimal() or not (minor or "0").isdecimal():
        raise UserError(
            f"compute_version is {compute_version!r}, which is not a compute capability",
            primitive="parse_compute_version",
            fix='give the version as text, such as "9.0"',
        )
    return int(major), int(minor or 0)


def get_target_compute_version(target: Any = None) -> str:
    """Return the compute capability of a CUDA target, else of the current one: "9.0" for sm_90."""
    chosen = Target.parse(target) if target is not None else Target.current()
    if chosen is None or chosen.kind != "cuda":
        raise UserError(
            f"{chosen} is not a CUDA target", primitive="get_target_compute_version", fix='give Target("cuda")'
        )
    number = chosen.arch.removeprefix("sm_").rstrip("af")
    return f"{number[:-1]}.{number[-1]}"


def have_fp16(compute_version: Any) -> bool:
    """Return whether GPUs of a compute capability compute in float16."""
    return parse_compute_version(compute_version) >= (5, 3)


def have_int8(compute_version: Any) -> bool:
    """Return whether GPUs of a compute capability have dot products of four int8."""
    return parse_compute_version(compute_version) >= (6, 1)


def have_bf16(compute_version: Any) -> bool:
    """Return whether GPUs of a compute capability compute in bfloat16."""
    return parse_compute_version(compute_version) >= (8, 0)
