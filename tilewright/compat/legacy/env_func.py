"""`ir.EnvFunc`: registered functions by their names, as fields of programs held them."""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...runtime.packed import PackedFunc, get_global_func


class _EnvFuncType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, PackedFunc)


class EnvFunc(metaclass=_EnvFuncType):
    """A function that is registered under a name; `isinstance` asks for one."""

    def __init__(self, *args: Any) -> None:
        raise UserError(
            f"EnvFunc is not made of {args!r}",
            primitive="EnvFunc",
            fix='ask for one: tvm.ir.EnvFunc.get("my.function")',
        )

    @staticmethod
    def get(name: str) -> Any:
        """Return the function that is registered under a name.

        Parameters
        ----------
        name
            The name.

        Raises
        ------
        UserError
            If no function has that name.
        """
        return get_global_func(name)
