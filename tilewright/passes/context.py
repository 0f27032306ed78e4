"""The options of passes that a caller may set: `with PassContext(config={...}):`, as in the legacy API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from ..core.errors import UserError, warn_caller
from ..core.options import Options
from ..refine.refine import REFINEMENTS
from .pass_list import OPTIONAL

_OPTIONAL = {
    **{name: name for name in sorted(step.__name__ for step in (*REFINEMENTS, *OPTIONAL))},
    "prefetch_fills": "register_prefetch",
    "spread_fills": "cooperative_fetch",
    "tir.CommonSubexprElimTIR": "",  # left to the back end's compiler
    "tir.LoopPartition": "partition_loops",
    "tir.StorageRewrite": "share_storage",
}
"""Optional passes, by our names, our earlier names and the legacy names: disabling one never changes results. No pass
of ours has an empty name."""


# The legacy configuration: the effect of each key on the options.


def _unrolling(options: Options, value: Any, key: str) -> Options:
    fields = ("auto_max_step", "explicit_unroll", "auto_max_depth", "auto_max_extent")
    if not isinstance(value, Mapping):
        raise UserError(
            f"{key} is {value!r}, not fields", primitive="PassContext", fix=f'give fields: {{"{fields[0]}": 16}}'
        )
    for name, setting in value.items():
        if name not in fields:
            raise UserError(
                f"{key} has no field {name!r}", primitive="PassContext", fix=f"its fields are {', '.join(fields)}"
            )
        if not isinstance(setting, (bool, int)) or (setting < 0 and name != "auto_max_extent"):
            raise UserError(
                f"{name}={setting!r} of {key} is not a number",
                primitive="PassContext",
                fix=f'give e.g. {{"{name}": 1}}',
            )
    for name in ("auto_max_depth", "auto_max_extent"):
        if name in value:
            warn_caller(f"{name} of {key} has no effect: auto_max_step alone decides unrolling", UserWarning)
    given = {"auto_max_step": options.unroll_step, "explicit_unroll": options.explicit_unroll, **dict(value)}
    return replace(options, unroll_step=int(given["auto_max_step"]), explicit_unroll=bool(given["explicit_unroll"]))


def _adding(options: Options, value: Any, key: str) -> Options:
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


def _vectors(options: Options, value: Any, key: str) -> Options:
    return replace(options, vectorize=not _flag(value, key))


def _bounds(options: Options, value: Any, key: str) -> Options:
    return replace(options, check_bounds=_flag(value, key))


def _explain(options: Options, value: Any, key: str) -> Options:
    return replace(options, explain=_flag(value, key))


def _flag(value: Any, key: str) -> bool:
    if not isinstance(value, (bool, int)):
        raise UserError(
            f"{key} is {value!r}, which is neither True nor False", primitive="PassContext", fix="give True or False"
        )
    return bool(value)


def _only(accepted: Any) -> Callable[[Options, Any, str], Options]:
    """A key with one supported value, which is the default."""

    def check(options: Options, value: Any, key: str) -> Options:
        if value != accepted:
            raise UserError(f"{key}={value!r} is not supported", primitive="PassContext", fix=f"leave it {accepted!r}")
        return options

    return check


_SETTLED = {
    "tir.LoopPartition": "loops are always partitioned if that removes guards from their bodies",
    "tir.InjectDoubleBuffer": "use s[B].double_buffer() or s[B].pipeline(depth) for a stage",
    "tir.HoistIfThenElse": "the back end's compiler hoists conditions",
    "tir.RemoveNoOp": "loops without effect are left out",
    "tir.Simplify": "expressions are simplified as far as rules go",
    "tir.disable_assert": "host code checks arguments at each call",
    "tir.disable_storage_rewrite": 'disabled_pass=["tir.StorageRewrite"] leaves the pass out',
    "tir.disable_cse_tir": "common subexpressions are left to the back end's compiler",
    "tir.enable_equiv_terms_in_cse_tir": "common subexpressions are left to the back end's compiler",
    "tir.debug_keep_trivial_loop": "loops of one iteration are written as their bodies",
    "tir.merge_static_smem": "buffers of shared memory share it if their lifetimes allow",
    "te.keep_schedule_record": "every schedule has its schedule_record and its primitive_record",
}
"""Keys of the legacy API that change nothing here, and why."""


def _settled(options: Options, value: Any, key: str) -> Options:
    warn_caller(f"{key} has no effect: {_SETTLED[key]}", UserWarning)
    return options


def _aliases(options: Options, value: Any, key: str) -> Options:
    if not _flag(value, key):
        warn_caller(f"{key}=False has no effect: a call refuses a written array that overlaps another", UserWarning)
    return options


_KEYS: dict[str, Callable[[Options, Any, str], Options]] = {
    "tir.UnrollLoop": _unrolling,
    "tir.add_lower_pass": _adding,
    "tir.disable_vectorize": _vectors,
    "tir.noalias": _aliases,
    "tir.detect_global_barrier": _only(False),
    "tir.instrument_bound_checkers": _bounds,
    "tilewright.explain": _explain,
    **dict.fromkeys(_SETTLED, _settled),
}


_entered: ContextVar[tuple[PassContext, ...]] = ContextVar("PassContext", default=())
"""Contexts around the caller, the innermost last."""


class PassContext:
    """Options of `lower` and `build` for the `with` statement around them, under the legacy names.

    `config` may have these keys. "tir.UnrollLoop": such as `{"auto_max_step": 16, "explicit_unroll": False}`.
    "tir.add_lower_pass": a list of (phase, pass), with phase 0 before storage is flattened, 1 after, and 2 and 3 at the
    end of lowering. "tir.disable_vectorize". "tir.instrument_bound_checkers": check each access at run time; a call
    with an access out of bounds raises. "tilewright.explain": print each pass that changes something. `disabled_pass`
    leaves out optional passes, which never change results. `opt_level` is accepted: there is one level. Keys of the
    legacy API that change nothing here draw a warning. Raises UserError, with the name, for unknown options.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Iterable[str] | None = None,
        disabled_pass: Iterable[str] | None = None,
        instruments: Sequence[Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        if instruments is not None and not (isinstance(instruments, (list, tuple)) and not instruments):
            raise UserError("instruments are not supported", primitive="PassContext", fix='use "tilewright.explain"')
        if isinstance(opt_level, bool) or not isinstance(opt_level, int):
            raise UserError(f"opt_level={opt_level!r} is not a number", primitive="PassContext", fix="give 0 to 3")
        if config is not None and not isinstance(config, Mapping):
            raise UserError(
                f"config={config!r} is not a mapping",
                primitive="PassContext",
                fix='give {"tir.disable_vectorize": True}',
            )
        disabled = () if disabled_pass is None else disabled_pass
        if isinstance(disabled, str) or not isinstance(disabled, Iterable):
            raise UserError(
                f"disabled_pass={disabled_pass!r} is not a list of names",
                primitive="PassContext",
                fix=f"give names of these: {', '.join(_OPTIONAL)}",
            )
        self.opt_level = opt_level
        self.config = dict(config or {})
        self.options = Options(disabled=frozenset(_known_pass(name) for name in disabled))
        for key, value in self.config.items():
            if key not in _KEYS:
                raise UserError(
                    f"unknown configuration key {key!r}",
                    primitive="PassContext",
                    fix=f"use {', '.join(known for known in _KEYS if known not in _SETTLED)}",
                )
            self.options = _KEYS[key](self.options, value, key)

    @staticmethod
    def current() -> PassContext:
        """The innermost context of the `with` statements around the caller, or the default one."""
        stack = _entered.get()
        return stack[-1] if stack else PassContext()

    def __enter__(self) -> PassContext:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _entered.set(_entered.get()[:-1])

    def __repr__(self) -> str:
        return f"PassContext(opt_level={self.opt_level}, config={self.config})"


def _known_pass(name: str) -> str:
    if not isinstance(name, str) or name not in _OPTIONAL:
        raise UserError(
            f"the pass {name!r} cannot be left out", primitive="PassContext", fix=f"these can: {', '.join(_OPTIONAL)}"
        )
    return _OPTIONAL[name]
