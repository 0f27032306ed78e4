"""Compilation targets: `Target("cuda")`, `Target("cuda -arch=sm_90")`, `Target("opencl")`, `with Target(...)`."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .core.errors import UserError as _UserError
from .core.refusals import old_name as _old_name
from .core.target import Target


def create(target: str | Target) -> Target:
    """The target of that spelling."""
    return Target.parse(target)


def cuda(model: str = "unknown", arch: str | None = None, options: str | None = None) -> Target:
    """The CUDA target, of architecture `arch` ("sm_90") if given."""
    given = _text(options, "options", "cuda"), _text(arch, "arch", "cuda")
    return Target.parse(" ".join(["cuda", *([f"-arch={given[1]}"] if given[1] else []), *filter(None, given[:1])]))


def opencl(model: str = "unknown", options: str | None = None) -> Target:
    """The OpenCL target."""
    return Target.parse(f"opencl {_text(options, 'options', 'opencl')}".strip())


def _text(given: object, argument: str, primitive: str) -> str:
    if given is None or isinstance(given, str):
        return given or ""
    raise _UserError(f"argument {argument!r} is {given!r}", primitive=primitive, fix='give text, such as "sm_90"')


__all__ = [
    "GenericFunc",
    "Target",
    "create",
    "cuda",
    "generic_func",
    "get_native_generic_func",
    "opencl",
    "override_native_generic_func",
]

__path__: list[str] = []  # the legacy API has modules below this one; `legacy.finder` finds their names here

if _TYPE_CHECKING:
    from .compat.generic_function import (
        GenericFunc,
        generic_func,
        get_native_generic_func,
        override_native_generic_func,
    )
else:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
