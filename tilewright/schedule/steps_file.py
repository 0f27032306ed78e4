"""Files of schedule steps: JSON that says which computation they are for, and lists them.

{"format": 1, "computation": ["A: placeholder float32[n, 64]", "B: compute float32[n]"], "steps": [["split", ...]]}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.errors import UserError
from ..core.paths import file_path
from ..core.text import quantity
from ..tensor.tensor import Tensor
from .as_python import as_python
from .schedule import Schedule
from .steps import Step, StepReferences

FORMAT = 1


def computation(schedule: Schedule) -> list[str]:
    """The stages of a schedule before any step, a line for each: the condition for replaying steps."""
    return [
        f"{stage.op.name}: {type(stage.op).__name__.removesuffix('Op').lower()} "
        + ", ".join(f"{t.dtype}[{', '.join(map(str, t.shape))}]" for t in stage.op.outputs)
        for stage in schedule.in_order()
    ]


def write_steps(path: Any, begun: Schedule, steps: Sequence[Step]) -> None:
    """Write the steps that were taken on the schedule `begun`."""
    lines = ",\n  ".join(json.dumps(step.to_json()) for step in steps)
    head = json.dumps({"format": FORMAT, "computation": computation(begun)})[:-1]
    place = file_path(path, "save_steps", "steps.json")
    try:
        place.write_text(f'{head}, "steps": [\n  {lines}\n]}}\n', encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{place} cannot be written: {error.strerror}", primitive="save_steps", fix="give another path"
        ) from None


def read_steps(path: Any, begun: Schedule) -> list[Any]:
    """Return the steps in a file. Raises UserError for a file of another computation than that of `begun`."""
    place = file_path(path, "load_steps", "steps.json")
    try:
        data = json.loads(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"{place} cannot be read: {error.strerror}", primitive="load_steps", fix="give a file that is there"
        ) from None
    except ValueError:
        data = None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("steps"), list):
        raise UserError(
            f"{place} is not a file of schedule steps",
            primitive="load_steps",
            fix="give the file of s.save_steps(path)",
        )
    there, here = data.get("computation"), computation(begun)
    if there != here:
        listed = there if isinstance(there, list) else []
        pairs = zip([*listed, *[None] * len(here)], [*here, *[None] * len(listed)], strict=False)
        theirs, ours = next((pair for pair in pairs if pair[0] != pair[1]), (None, None))
        raise UserError(
            f"{place} is for another computation: it has the stage {theirs!r}, this schedule has {ours!r}",
            primitive="load_steps",
            fix="load it onto a schedule of tensors of the same names, shapes and types",
        )
    steps: list[Any] = data["steps"]
    return steps


def _in_parts(step: list[Any], axes: int) -> list[list[Any]]:
    """A step as the legacy API counts it: `tile` is two splits, of a stage with the given number of `axes`, and a
    reorder."""
    if step[0] != "tile":
        return [step]
    _, stage, x, y, x_factor, y_factor = step
    xo, xi, yo, yi = ({"axis": [stage["stage"], axes + k]} for k in range(4))
    splits = [["split", stage, x, x_factor, None], ["split", stage, y, y_factor, None]]
    return [*splits, ["reorder", stage, xo, yo, xi, yi]]


class KeptSteps:
    """A handle of a schedule that can be saved to a file and loaded from it."""

    value: Schedule
    steps: list[Step]
    _begun: Schedule
    _references: StepReferences
    copy: Callable[[], Any]
    replay: Callable[[Sequence[Any]], None]

    @property
    def computed(self) -> tuple[Tensor, ...]:
        """The tensors that the schedule was created from."""
        return tuple(tensor for i in self._begun.outputs for tensor in self._begun.stages[i].op.outputs)

    @property
    def recorded(self) -> list[Any]:
        """The steps as JSON data."""
        return [step.to_json() for step in self.steps]

    @property
    def primitive_record(self) -> list[str]:
        """The names of the steps under the legacy API's names: first "vanilla", then each step's; a `tile` is three."""
        return ["vanilla", *(part[0] for step in self.steps for part in _in_parts(step.to_json(), 0))]

    @property
    def schedule_record(self) -> list[Any]:
        """The states of the schedule after each entry of `primitive_record`, as separate schedules."""
        at = type(self)(self._begun)  # type: ignore[call-arg]
        found = [at.copy()]
        for step in self.steps:
            stages = at.value.stages
            own = next((stages[arg["stage"]] for arg in step.args if isinstance(arg, dict) and "stage" in arg), None)
            for part in _in_parts(step.to_json(), 0 if own is None else len(own.all_axes)):
                at.replay([part])
                found.append(at.copy())
        return found

    def as_python(self, declaration: Mapping[str, Any] | None = None) -> str:
        """Return the program that takes these steps, as a person would write it.

        Parameters
        ----------
        declaration : mapping, optional
            The variables of the program that declares the computation, such as `globals()`: tensors, axes and sizes
            keep their names. By default the text is a function `schedule` of the outputs.

        Returns
        -------
        str
            Python, with an import, `te.create_schedule` and a line for each step. It has parameters for intrinsics of
            the program's own that are no variable of the declaration.

        Raises
        ------
        UserError
            If `declaration` is no mapping, or has no variable for an output or a size.

        Notes
        -----
        The program makes the same schedule again: the lowered text is identical.

        Examples
        --------
        >>> print(s.as_python())
        >>> print(s.as_python({"A": A, "B": B, "C": C}))
        """
        return as_python(self._begun, self.steps, self.value.stage_of, declaration)

    def save_steps(self, path: Any) -> None:
        """Write the steps of this schedule to a file, as JSON."""
        write_steps(path, self._begun, self.steps)

    def load_steps(self, path: Any) -> None:
        """Apply all steps of a file from `save_steps`, or none. The schedule must not have any steps."""
        if self.steps:
            raise UserError(
                f"the schedule has taken {quantity(len(self.steps), 'step')} already",
                primitive="load_steps",
                fix="load the steps onto a new schedule: te.create_schedule(B.op)",
            )
        trial = self.copy()
        trial.replay(read_steps(path, self._begun))
        self.value, self.steps, self._references = trial.value, trial.steps, trial._references
