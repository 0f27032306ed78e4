"""Compilation targets: `Target("cuda")`, `Target("cuda -arch=sm_90")`, `Target("opencl")`, `with Target(...)`."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .core.refusals import missing_from_module as _missing
from .core.target import Target


def create(target: str | Target) -> Target:
    """The target of that spelling."""
    return Target.parse(target)


def cuda(model: str = "unknown", arch: str | None = None, options: str | None = None) -> Target:
    """The CUDA target, of architecture `arch` ("sm_90") where given."""
    return Target.parse(" ".join(["cuda", *([f"-arch={arch}"] if arch else []), *([str(options)] if options else [])]))


def opencl(model: str = "unknown", options: str | None = None) -> Target:
    """The OpenCL target."""
    return Target.parse("opencl" if not options else f"opencl {options}")


__all__ = ["Target", "create", "cuda", "opencl"]

if not _TYPE_CHECKING:  # type checkers see what is there

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name, __all__)
