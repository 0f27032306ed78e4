"""Views of a schedule; floors above this one implement them (`core/views.py`)."""

from __future__ import annotations

from typing import Any

from ..core.views import view as show
from .schedule import Schedule


class ScheduleViews:
    """A handle of a schedule that explains and draws it."""

    value: Schedule

    def explain(self, target: Any = None, args: Any = None, sizes: Any = None) -> Any:
        """Explain the program of the schedule on a target, before anything runs.

        Parameters
        ----------
        target : Target or str, optional
            The target; by default the current target, else "cuda". No device is needed.
        args : list of Tensor, optional
            The parameters of the function; by default the inputs, then the outputs.
        sizes : mapping, optional
            The value of each size that is known only at the call, by its variable or its name.

        Returns
        -------
        tilewright.explain.explanation.Explanation
            As text: the loops, with the region that each computes. For each kernel: work per thread, buffers, accesses
            with their sectors and bank conflicts, and guards with their reasons. Also occupancy and its limit, and the
            place under the roofline, by the peak of each type. On a CPU: the vector and the memory order of each
            access, and the operations per byte. For each loop, the touched bytes and the cache that holds them. As a
            value: the same numbers.

        Raises
        ------
        UserError
            If the schedule cannot be built for the target, or if a size is not given.
        """
        return show("explain", self, target, args, sizes)

    def draw(self, path: Any = None, view: Any = None, target: Any = None, args: Any = None, sizes: Any = None) -> str:
        """Draw the schedule as an SVG picture; its colors follow the reader's light or dark scheme.

        Parameters
        ----------
        path : str or Path, optional
            The file to write, such as "tile.svg"; None writes none.
        view : str, optional
            "tile": which thread of a block computes which element. "banks": which banks of shared memory a warp asks.
            "fragments": how a matrix instruction deals its operands out to lanes. "schedule": the graph of stages, with
            their loops and the place of each. By default the first three, or "schedule" if no loop is bound to threads.
        target, args, sizes
            As for `explain`.

        Returns
        -------
        str
            The text of the picture.

        Raises
        ------
        UserError
            If there is nothing to draw, or if the file is not an SVG file.
        """
        made: str = show("draw", self, path, view, target, args, sizes)
        return made
