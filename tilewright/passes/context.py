"""What a caller may change about the passes: `with PassContext(config={...}):`, as the legacy API has it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.errors import InternalError, UserError
from ..core.hardware import LoopKind
from ..core.target import Target
from ..loops.nodes import For, Function, Stmt, map_statements
from ..loops.verify import verify
from .flatten_storage import flatten_storage
from .pipeline import FINISH, FINISH_FOR_CPU, FINISH_WITHOUT_WARPS, LOWER, Pass
from .unroll_loops import unroll_loops
from .vectorize_loops import vectorize_loops

_OPTIONAL = {
    "cooperative_fetch": "cooperative_fetch",
    "drop_unread_stores": "drop_unread_stores",
    "hoist_divisions": "hoist_divisions",
    "narrow_indices": "narrow_indices",
    "partition_loops": "partition_loops",
    "register_prefetch": "register_prefetch",
    "separate_full_tiles": "separate_full_tiles",
    "share_storage": "share_storage",
    "unroll_local_accesses": "unroll_local_accesses",
    "prefetch_fills": "register_prefetch",
    "spread_fills": "cooperative_fetch",
    "tir.LoopPartition": "partition_loops",
    "tir.StorageRewrite": "share_storage",
}
"""Optional passes, by our names, our earlier names and the legacy names: disabling one never changes results."""


@dataclass(frozen=True)
class PassOptions:
    """What differs from the usual passes. `added`: (phase, pass) pairs, phases counted as the legacy API does."""

    unroll_step: int = 0
    explicit_unroll: bool = True
    vectorize: bool = True
    disabled: frozenset[str] = frozenset()
    added: tuple[tuple[int, Pass], ...] = ()
    explain: bool = False

    def lowering(self) -> tuple[Pass, ...]:
        """The passes up to the program that users read."""
        if self == PassOptions() or self == PassOptions(explain=True):
            return LOWER
        made: list[Pass] = [self._checked(step, flat=False) for phase, step in self.added if phase == 0]
        for step in LOWER:
            if step is unroll_loops:
                made.append(_unrolling_pass(self.unroll_step, self.explicit_unroll))
            elif step is vectorize_loops and not self.vectorize:
                made.append(run_vectors_serially)
            else:
                made.append(step)
            if step is flatten_storage:
                made += [self._checked(extra) for phase, extra in self.added if phase == 1]
        return (*made, *(self._checked(extra) for phase, extra in self.added if phase >= 2))

    def finishing(self, target: Target) -> tuple[Pass, ...]:
        """The passes from there to what is compiled for a target."""
        passes = FINISH_FOR_CPU if target.kind == "llvm" else FINISH if target.has_warps else FINISH_WITHOUT_WARPS
        return tuple(step for step in passes if step.__name__ not in self.disabled) if self.disabled else passes

    @property
    def fetches_cooperatively(self) -> bool:
        """Whether fills of shared memory are dealt out to the threads of their block, before the passes."""
        return "cooperative_fetch" not in self.disabled

    def _checked(self, step: Pass, flat: bool = True) -> Pass:
        """A pass of the caller's, and that it leaves a well-formed program."""
        name = getattr(step, "__name__", type(step).__name__)

        def run(function: Function) -> Function:
            made = step(function)
            if not isinstance(made, Function):
                raise UserError(
                    f"the pass {name} gives {made!r}",
                    primitive="PassContext",
                    fix="a pass takes a loop function and gives one",
                )
            try:
                verify(made, flat=flat)
            except InternalError as error:
                raise UserError(
                    f"after the pass {name} the program is broken: {error}",
                    primitive="PassContext",
                    fix="let the pass give a well-formed loop function",
                ) from error
            return made

        run.__name__ = name
        return run


def _unrolling_pass(step: int, explicit: bool) -> Pass:
    """`unroll_loops` with other defaults."""

    def run(function: Function) -> Function:
        return unroll_loops(function, step, explicit)

    run.__name__ = unroll_loops.__name__
    return run


def run_vectors_serially(function: Function) -> Function:
    """In place of vectorisation: every vectorised loop runs one element after the other."""

    def visit(stmt: Stmt) -> Stmt:
        made = map_statements(stmt, visit)
        if isinstance(made, For) and made.kind is LoopKind.VECTORIZED:
            return For(made.var, made.min, made.extent, LoopKind.SERIAL, None, made.pragmas, made.body)
        return made

    return function.with_body(visit(function.body))


# The legacy configuration: what each key does to the options.


def _unrolling(options: PassOptions, value: Any, key: str) -> PassOptions:
    fields = ("auto_max_step", "explicit_unroll", "auto_max_depth", "auto_max_extent")
    if not isinstance(value, Mapping):
        raise UserError(f"{key} is {value!r}", primitive="PassContext", fix=f'give fields: {{"{fields[0]}": 16}}')
    for name, setting in value.items():
        if name not in fields:
            raise UserError(
                f"{key} has no field {name!r}", primitive="PassContext", fix=f"its fields are {', '.join(fields)}"
            )
        if not isinstance(setting, (bool, int)) or (setting < 0 and name != "auto_max_extent"):
            raise UserError(
                f"{name}={setting!r} of {key} is no number", primitive="PassContext", fix=f'give e.g. {{"{name}": 1}}'
            )
    given = {"auto_max_step": options.unroll_step, "explicit_unroll": options.explicit_unroll, **dict(value)}
    return replace(options, unroll_step=int(given["auto_max_step"]), explicit_unroll=bool(given["explicit_unroll"]))


def _adding(options: PassOptions, value: Any, key: str) -> PassOptions:
    added = []
    for pair in value if isinstance(value, (list, tuple)) else [value]:
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and callable(pair[1]) and pair[0] in (0, 1, 2, 3)):
            raise UserError(
                f"{key} holds {pair!r}",
                primitive="PassContext",
                fix="give (phase, pass) pairs: a phase from 0 to 3, and a function from loop functions to such",
            )
        added.append((int(pair[0]), pair[1]))
    return replace(options, added=(*options.added, *added))


def _vectors(options: PassOptions, value: Any, key: str) -> PassOptions:
    return replace(options, vectorize=not _flag(value, key))


def _explain(options: PassOptions, value: Any, key: str) -> PassOptions:
    return replace(options, explain=_flag(value, key))


def _flag(value: Any, key: str) -> bool:
    if not isinstance(value, (bool, int)):
        raise UserError(f"{key} is {value!r}", primitive="PassContext", fix="give True or False")
    return bool(value)


def _only(accepted: Any) -> Callable[[PassOptions, Any, str], PassOptions]:
    """A key whose one supported value is what happens anyway."""

    def check(options: PassOptions, value: Any, key: str) -> PassOptions:
        if value != accepted:
            raise UserError(f"{key}={value!r} is not supported", primitive="PassContext", fix=f"leave it {accepted!r}")
        return options

    return check


_KEYS: dict[str, Callable[[PassOptions, Any, str], PassOptions]] = {
    "tir.UnrollLoop": _unrolling,
    "tir.add_lower_pass": _adding,
    "tir.disable_vectorize": _vectors,
    "tir.noalias": _only(True),
    "tir.detect_global_barrier": _only(False),
    "tir.instrument_bound_checkers": _only(False),
    "tilewright.explain": _explain,
}


class PassContext:
    """Options of `lower` and `build` for the `with` statement around them, under the legacy names.

    `config` may hold "tir.UnrollLoop" ({"auto_max_step": 16, "explicit_unroll": False}), "tir.add_lower_pass"
    ([(phase, pass)]: 0 before storage is flattened, 1 after, 2 and 3 at the end of lowering),
    "tir.disable_vectorize", and "tilewright.explain" (print each pass that changes something). `disabled_pass`
    leaves out passes without which programs mean the same. `opt_level` is accepted: there is one level.
    Raises UserError for what is unknown, by its name.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Iterable[str] | None = None,
        disabled_pass: Iterable[str] | None = None,
        instruments: Sequence[Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        if instruments:
            raise UserError("instruments are not supported", primitive="PassContext", fix='use "tilewright.explain"')
        if isinstance(opt_level, bool) or not isinstance(opt_level, int):
            raise UserError(f"opt_level={opt_level!r} is no number", primitive="PassContext", fix="give 0 to 3")
        if config is not None and not isinstance(config, Mapping):
            raise UserError(
                f"config={config!r} is no mapping", primitive="PassContext", fix='give {"tir.disable_vectorize": True}'
            )
        if isinstance(disabled_pass, str) or not isinstance(disabled_pass or (), Iterable):
            raise UserError(
                f"disabled_pass={disabled_pass!r} is no list of names",
                primitive="PassContext",
                fix=f"give names of these: {', '.join(_OPTIONAL)}",
            )
        self.opt_level = opt_level
        self.config = dict(config or {})
        self.options = PassOptions(disabled=frozenset(_known_pass(name) for name in disabled_pass or ()))
        for key, value in self.config.items():
            if key not in _KEYS:
                raise UserError(
                    f"unknown configuration key {key!r}", primitive="PassContext", fix=f"use {', '.join(_KEYS)}"
                )
            self.options = _KEYS[key](self.options, value, key)

    @staticmethod
    def current() -> PassContext:
        """The innermost context of the `with` statements around the caller, or the usual one."""
        stack = _stack()
        return stack[-1] if stack else PassContext()

    def __enter__(self) -> PassContext:
        _stack().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _stack().pop()

    def __repr__(self) -> str:
        return f"PassContext(opt_level={self.opt_level}, config={self.config})"


def _known_pass(name: str) -> str:
    if name not in _OPTIONAL:
        raise UserError(
            f"the pass {name!r} cannot be left out", primitive="PassContext", fix=f"these can: {', '.join(_OPTIONAL)}"
        )
    return _OPTIONAL[name]


_local = threading.local()


def _stack() -> list[PassContext]:
    stack: list[PassContext] | None = getattr(_local, "stack", None)
    if stack is None:
        stack = _local.stack = []
    return stack
