"""The contexts that decide which configuration a template gets when it is called.

The innermost context is asked first, then the ones outside. Outermost stands a `FallbackContext`, which always has an
answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from ....core.errors import UserError
from ....core.log import logger
from ....core.target import Target
from ....topi.templates.template import ALL
from ...topi import by_template
from ..env import GLOBAL_SCOPE
from .legacy_tasks import LEGACY
from .space import FallbackConfigEntity


class _Current(type):
    @property
    def current(cls) -> DispatchContext:
        """The innermost context."""
        return _stack.get()[-1]


class DispatchContext(metaclass=_Current):
    """The base of the contexts; `with` makes a context the innermost one, even if it is entered already."""

    def query(self, target: Target | None, workload: Any) -> Any:
        """The configuration for a workload on a target, from here or from the contexts outside."""
        known = (one._query_inside(target, workload) for one in self._outwards())
        return next(found for found in known if found is not None)

    def answers(self, target: Target | None, workloads: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """The known configurations of one workload under several names, such as names of strategies.

        Each with the place of its name, in the order to try them: this context's, the fastest first, then the outer
        contexts'.
        """
        for one in self._outwards():
            ranks = [one._rank_inside(target, workload) for workload in workloads]
            for _, place in sorted((rank, place) for place, rank in enumerate(ranks) if rank is not None):
                yield place, one._query_inside(target, workloads[place])

    def _outwards(self) -> list[DispatchContext]:
        """This context and the outer contexts, each once; outside of any `with`, only the outermost context."""
        stack = _stack.get()
        around = stack[: len(stack) - stack[::-1].index(self)] if self in stack else (_ROOT, self)
        return list(dict.fromkeys(reversed(around)))

    def _query_inside(self, target: Target | None, workload: Any) -> Any:
        """The configuration that this context knows, or None."""
        raise NotImplementedError

    def _rank_inside(self, target: Target | None, workload: Any) -> tuple[bool, float] | None:
        """Whether this context's record was measured without a check, and its seconds; None if it knows nothing.

        Unmeasured configurations come first: the user chose them.
        """
        return None if self._query_inside(target, workload) is None else (False, 0.0)

    def update(self, target: Target | None, workload: Any, cfg: Any) -> None:
        """Set the configuration for a workload."""
        raise NotImplementedError

    def __enter__(self) -> Any:
        _stack.set((*_stack.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _stack.set(_stack.get()[:-1])


class ApplyConfig(DispatchContext):
    """One configuration for all queries."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self.workload: Any = None

    def _query_inside(self, target: Target | None, workload: Any) -> Any:
        self.workload = workload
        return self._config

    def update(self, target: Target | None, workload: Any, cfg: Any) -> None:
        self.workload = workload
        self._config = cfg


class FallbackContext(DispatchContext):
    """Returns a fallback configuration, always the same one for a workload, and warns once."""

    def __init__(self) -> None:
        self.memory: dict[tuple[str, Any], Any] = {}
        self._warned: set[tuple[str, Any]] = set()

    def _query_inside(self, target: Target | None, workload: Any) -> Any:
        key = _key(target, workload)
        found = self.memory.get(key)
        if found is None:
            # Packaged templates choose their own default schedule.
            packaged = workload is not None and workload[0] in {t.name for t in ALL}.union(t.name for t in LEGACY)
            if key not in self._warned and not GLOBAL_SCOPE.silent and not packaged:
                self._warned.add(key)
                logger.warning(
                    "Cannot find config for target=%s, workload=%s. A fallback configuration is used, which may "
                    "bring great performance regression.",
                    target,
                    workload,
                )
            found = self.memory[key] = FallbackConfigEntity()
        return found

    def update(self, target: Target | None, workload: Any, cfg: Any) -> None:
        self.memory[_key(target, workload)] = cfg

    def clear_cache(self, target: Target | None, workload: Any) -> None:
        """Forget the fallback of a workload."""
        self.memory.pop(_key(target, workload), None)


def _key(target: Target | None, workload: Any) -> tuple[str, Any]:
    """The key of a fallback."""
    try:
        hash(workload)
    except TypeError as error:
        raise UserError(
            f"workload={workload!r} is not a workload: a tuple of a template's name and its arguments",
            primitive="DispatchContext",
            fix="give task.workload",
        ) from error
    return str(target), workload


_ROOT = FallbackContext()
_stack: ContextVar[tuple[DispatchContext, ...]] = ContextVar("autotvm contexts", default=(_ROOT,))
"""The contexts that are entered, the outermost first."""


def clear_fallback_cache(target: Target | None, workload: Any) -> None:
    """Forget the fallback that the outermost context remembers for a workload."""
    _ROOT.clear_cache(target, workload)


def _answers(target: Target, names: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """The records that the contexts around a declaration of `topi.cuda` have."""
    return DispatchContext.current.answers(target, names)


by_template.ask(_answers)
