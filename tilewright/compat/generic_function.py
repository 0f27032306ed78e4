"""Functions with several forms, chosen by the current target: `@target.generic_func`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..core.errors import UserError, UserValueError
from ..core.target import Target

_NAMED: dict[str, GenericFunc] = {}


class GenericFunc:
    """A function with forms per target: it calls the form of the first target key that has a form, else the default."""

    def __init__(self, name: str, default: Callable[..., Any] | None = None) -> None:
        self.name = name
        self._default = default
        self._forms: dict[str, Callable[..., Any]] = {}

    def __call__(self, *args: Any) -> Any:
        target = Target.current(allow_none=True)
        keys = target.keys if target is not None else ()
        form = next((self._forms[key] for key in keys if key in self._forms), self._default)
        if form is None:
            raise UserError(
                f"the function {self.name!r} has no implementation for {target or 'no target'}",
                primitive="generic_func",
                fix=f"register one for a key of the target ({', '.join(keys) or 'there is none'}), or set_default",
            )
        return form(*args)

    def register(
        self, key: str | Iterable[str], func: Callable[..., Any] | None = None, allow_override: bool = False
    ) -> Any:
        """Register the form for targets with a key, or with one of several; without `func`, a decorator.

        Raises
        ------
        UserError
            For keys that are not text, and for a key that has a form unless `allow_override` is given.
        """
        keys = [key] if isinstance(key, str) else list(key)
        if not all(isinstance(each, str) for each in keys):
            raise UserError(f"{key!r} is not a key of a target", primitive="generic_func", fix='give "cuda" or "cpu"')

        def add(form: Callable[..., Any]) -> Callable[..., Any]:
            taken = next((each for each in keys if each in self._forms and not allow_override), None)
            if taken is not None:
                raise UserError(
                    f"the function {self.name!r} has an implementation for {taken!r} already",
                    primitive="generic_func",
                    fix="pass allow_override=True",
                )
            self._forms.update(dict.fromkeys(keys, form))
            return form

        return add if func is None else add(func)

    def set_default(self, func: Callable[..., Any], allow_override: bool = False) -> None:
        """Set the form for all other targets, and for calls without a current target."""
        if self._default is not None and not allow_override:
            raise UserError(
                f"the function {self.name!r} has a default already",
                primitive="generic_func",
                fix="pass allow_override=True",
            )
        self._default = func

    def get_packed_func(self) -> Callable[..., Any]:
        """The form that the current target chooses."""
        return self


def generic_func(fdefault: Callable[..., Any]) -> GenericFunc:
    """Make a function generic: `@f.register("cuda")` adds a form for targets with that key."""
    return GenericFunc(getattr(fdefault, "__name__", "function"), fdefault)


def override_native_generic_func(func_name: str) -> Callable[[Callable[..., Any]], GenericFunc]:
    """Make a function generic, and register it under a name, in place of an earlier function with that name."""

    def decorate(fdefault: Callable[..., Any]) -> GenericFunc:
        made = _NAMED[func_name] = GenericFunc(func_name, fdefault)
        return made

    return decorate


def get_native_generic_func(name: str) -> GenericFunc:
    """Return the generic function of that name.

    Raises
    ------
    UserError
        If there is none.
    """
    if not isinstance(name, str) or name not in _NAMED:
        raise UserValueError(
            f"there is no generic function {name!r}",
            primitive="get_native_generic_func",
            fix=f"make it with @target.override_native_generic_func({name!r})",
        )
    return _NAMED[name]
