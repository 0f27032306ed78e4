"""`tilewright auto`: the automatic schedule of a program in a file, ranked or measured."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..auto.program import AutomaticProgram, AutomaticTemplate
from ..auto.schedule import arguments, outputs_of, precision_of
from ..auto.search import fastest, search_of, shipped, unmeasured
from ..core.errors import UserError
from ..core.precision import PRECISIONS
from ..core.target import Target
from ..runtime.compile import target_on
from ..tensor.tensor import Tensor
from ..tune.session.layer import LayerSearch
from ..tune.task import Task
from .commands import FAILED, FINE
from .console import heading, print_lines
from .devices import choose_device
from .run import names_of, reported
from .search import run_table, shown


@dataclass(frozen=True)
class AutoOptions:
    """The options of the command."""

    program: str
    target: str | None
    trials: int
    budget: float | None
    log: Path | None
    precision: str = PRECISIONS[1]


def automatic(options: AutoOptions) -> int:
    """Schedule the program, measure candidates if any are wanted, and print its schedule; returns the exit status."""
    tensors = _tensors(options.program)
    if options.trials:
        on, line = choose_device(options.target, ("cuda", "opencl", "llvm"))
        target = target_on(on)
    else:
        target = Target(options.target or "cuda")
        line = f"target {target}, nothing is measured"
    outputs = outputs_of(tensors)
    args, program = arguments(tensors, outputs), AutomaticProgram(outputs, target, precision_of(options.precision))
    print_lines([heading(options.program), line, *_kernels(program), ""])
    if not options.trials:
        print_lines(unmeasured(program, args, options.log).as_python().splitlines())
        return FINE
    with shown():
        layer, templates = search_of(program, args, options.trials, options.budget, options.log, known=shipped())
    return _conclude(layer, templates)


def _kernels(program: AutomaticProgram) -> list[str]:
    return [f"{way.name}: {way.why}" for way in (ways[0] for ways in program.ways)]


def _conclude(layer: LayerSearch, templates: Sequence[AutomaticTemplate]) -> int:
    schedule = fastest(layer, templates)
    if schedule is None:
        print_lines(["", "no candidate could be measured: the schedule is ranked, not tuned"])
        return FAILED
    print_lines(["", *run_table(layer, "way", "ranked", _way_name), ""])
    print_lines(schedule.as_python().splitlines())
    return FINE


def _way_name(task: Task) -> str:
    return task.name.removeprefix("auto/").partition(".")[0].replace("_", " ")


def _tensors(named: str) -> list[Tensor]:
    """Return the tensors that `FILE:NAME` names: a list of tensors, or a function that returns one."""
    file, colon, name = named.rpartition(":")
    if not colon or not file or not name:
        raise UserError(f"{named} names no program of a file", fix="give FILE:FUNCTION: program.py:softmax", where="")
    if not Path(file).is_file():
        raise UserError(f"there is no file {file}", fix="give FILE:FUNCTION: program.py:softmax", where="")
    known = names_of(Path(file), "auto")
    if name not in known:
        functions = ", ".join(key for key, value in known.items() if callable(value) and not key.startswith("_"))
        raise UserError(f"{file} has no {name}", fix=f"give one of {functions or 'its functions'}", where="")
    value: Any = known[name]
    if callable(value):
        needed = [each.name for each in inspect.signature(value).parameters.values() if each.default is each.empty
                  and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]  # fmt: skip
        if needed:
            raise UserError(
                f"{name} of {file} needs the arguments {', '.join(needed)}",
                fix=f"give them defaults: def {name}({needed[0]}=1024)",
                where="",
            )
        value = reported(value)
    found = list(value) if isinstance(value, (list, tuple)) else [value]
    flat = [each for part in found for each in (part if isinstance(part, (list, tuple)) else [part])]
    if not flat or not all(isinstance(each, Tensor) for each in flat):
        raise UserError(
            f"{name} of {file} returns {value!r}, which is not a list of tensors",
            fix="return the inputs and outputs of the program: [A, B]",
            where="",
        )
    return flat
