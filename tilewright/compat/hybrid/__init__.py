"""The hybrid language: operations written as Python functions, under the legacy API's module name.

@te.hybrid.script
def outer_product(a, b):
    c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = a[i] * b[j]
    return c
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from ...core.refusals import old_name as _old_name
from .script import Script, script

__all__ = ["HybridModule", "Script", "build", "script"]

if _TYPE_CHECKING:
    from .writing import HybridModule, build
else:  # type checkers see the names

    def __getattr__(name: str) -> object:
        if name in ("HybridModule", "build"):  # only writing needs the whole compiler
            found = globals()[name] = getattr(_import_module(f"{__name__}.writing"), name)
            return found
        return _old_name(__name__, name, __all__)
