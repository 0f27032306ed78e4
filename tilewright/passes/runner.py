"""Running passes: their selection by target and options, records of their effects, verification after each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.errors import InternalError, UserError
from ..core.options import DEFAULT_OPTIONS, Options, UserPass
from ..core.target import Target
from ..loops.nodes import Function
from ..loops.verify import Form, verify
from .flatten_storage import flatten_storage
from .pass_list import ESTABLISHES, ON_REQUEST, OPTIONAL, READABLE, Pass, pipeline_for


@dataclass(frozen=True)
class PassRecord:
    """A pass that ran: its name, its seconds, and the function after it if the function changed."""

    name: str
    seconds: float
    result: Function | None


def lowering(target: Target, options: Options = DEFAULT_OPTIONS) -> tuple[Pass, ...]:
    """The passes up to the program that users read, with the caller's passes at their places."""
    passes = pipeline_for(target)[: len(READABLE)]
    if not options.added:
        return _without(passes, options)
    made: list[Pass] = [_checked(step, Form.BUILT) for phase, step in options.added if phase == 0]
    for step in _without(passes, options):
        made.append(step)
        if step is flatten_storage:
            made += [_checked(extra, Form.FLAT) for phase, extra in options.added if phase == 1]
    return (*made, *(_checked(extra, Form.FLAT) for phase, extra in options.added if phase >= 2))


def finishing(target: Target, options: Options = DEFAULT_OPTIONS) -> tuple[Pass, ...]:
    """The passes from there to the compiled program of a target."""
    return _without(pipeline_for(target)[len(READABLE) :], options)


def _without(passes: tuple[Pass, ...], options: Options) -> tuple[Pass, ...]:
    if not options.check_bounds:
        passes = tuple(step for step in passes if step not in ON_REQUEST)
    if not options.disabled:
        return passes
    return tuple(step for step in passes if step not in OPTIONAL or step.__name__ not in options.disabled)


def _checked(step: UserPass, form: Form) -> Pass:
    """A pass of the caller's, and that it leaves a well-formed program."""
    name = getattr(step, "__name__", type(step).__name__)

    def run_checked(function: Function, target: Target, options: Options) -> Function:
        made = step(function)
        if not isinstance(made, Function):
            raise UserError(
                f"the pass {name} returns {made!r}",
                primitive="PassContext",
                fix="a pass takes a loop function and returns one",
            )
        try:
            verify(made, form)
        except InternalError as error:
            raise UserError(
                f"after the pass {name} the program is broken: {error}",
                primitive="PassContext",
                fix="let the pass return a well-formed loop function",
            ) from error
        return made

    run_checked.__name__ = name
    return run_checked


def well_formed(function: Function) -> None:
    """Check a function that a user made of statements. Raises UserError if it is broken."""
    try:
        verify(function, Form.BUILT)
    except InternalError as error:
        raise UserError(
            f"the function {function.name} is broken: {error}",
            primitive="lower",
            fix="let every buffer be a parameter or allocated around its use, and every variable be defined",
        ) from error


def run(
    passes: Sequence[Pass],
    function: Function,
    target: Target,
    options: Options = DEFAULT_OPTIONS,
    records: list[PassRecord] | None = None,
    check: bool = False,
) -> Function:
    """Apply passes in order; note each in `records`; if `check`, verify the program after each."""
    forms = _forms(target) if check else {}
    form = Form.BUILT
    for step in passes:
        start = time.perf_counter()
        changed = step(function, target, options)
        seconds = time.perf_counter() - start
        if records is not None:
            records.append(PassRecord(step.__name__, seconds, changed if changed is not function else None))
        if check:
            form = forms.get(step, form)
            verify(changed, form)
        function = changed
    return function


def _forms(target: Target) -> dict[Pass, Form]:
    """The form of programs after each pass, whether or not optional passes before it ran."""
    form = Form.BUILT
    found: dict[Pass, Form] = {}
    for step in pipeline_for(target):
        found[step] = form = form | ESTABLISHES.get(step, Form.BUILT)
    return found
