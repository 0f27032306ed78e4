"""What a GPU can do, under the legacy API's names; nothing here calls `nvcc`."""

from __future__ import annotations

from typing import Any

from ..core.errors import UserError


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
        Where `compute_version` is not such a text.
    """
    major = compute_version.partition(".")[0] if isinstance(compute_version, str) else ""
    if not major.isdecimal():
        raise UserError(
            f"compute_version is {compute_version!r}",
            primitive="have_tensorcore",
            fix='give the compute capability of a device: tvm.cuda(0).compute_version, such as "9.0"',
        )
    return int(major) >= 8
