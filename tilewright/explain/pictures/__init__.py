"""Pictures of a schedule: the tile of a block, the banks that a warp asks, fragments, the graph of stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from ...bounds.stage_bounds import Bounds
from ...core.errors import UserError
from ...core.recursion import deep
from ...driver import refined_bounds
from ...report.files import write_text
from ...schedule.handle import ScheduleHandle
from ...schedule.schedule import Schedule
from ..explanation import chosen_target, explanation_data
from .banks import bank_pictures
from .fragments import draw_fragments
from .stages import draw_stages
from .svg import Picture, below
from .tile import draw_tile, tiles

VIEWS = ("tile", "banks", "fragments", "schedule")


@deep
def draw(
    handle: ScheduleHandle,
    path: Any = None,
    view: Any = None,
    target: Any = None,
    args: Sequence[Any] | None = None,
    sizes: Mapping[Any, int] | None = None,
) -> str:
    """Draw a schedule into an SVG file; see `Schedule.draw`."""
    place, schedule = _place(path), handle.value
    if view is not None and (not isinstance(view, str) or view not in VIEWS):
        raise UserError(f"there is no view {view!r}", primitive="draw", fix=f"use one of {', '.join(map(repr, VIEWS))}")
    chosen = chosen_target(target)
    makers: dict[str, Callable[[], list[Picture]]] = {
        "tile": lambda: [draw_tile(tile, chosen.warp_size) for tile in tiles(schedule, _bounds())],
        "banks": lambda: bank_pictures(explanation_data(handle, chosen, args, sizes, compiled=False)),
        "fragments": lambda: _fragments(_bounds()),
        "schedule": lambda: [draw_stages(schedule)],
    }

    def _bounds() -> Bounds:
        return refined_bounds(schedule, chosen)

    views = (view,) if view is not None else ("tile", "banks", "fragments") if _has_threads(schedule) else ("schedule",)
    pictures = [picture for name in views for picture in makers[name]()]
    if not pictures:
        raise UserError(
            f"there is nothing to draw for view={view!r}: {_WHY_EMPTY.get(str(view), 'the schedule is empty')}",
            primitive="draw",
            fix='draw the stages and their loops: s.draw("schedule.svg", view="schedule")',
        )
    made = below(pictures).document(f"{', '.join(views)} of {', '.join(s.name for s in schedule.in_order())}")
    if place is not None:
        write_text(place, made)
    return made


_WHY_EMPTY = {
    "tile": "no loop of a stage at the root is bound to threads",
    "banks": "no access of shared memory is left in the kernels",
    "fragments": "no stage is tensorized by an instruction with fragments",
}


def _place(path: Any) -> Path | None:
    if path is None:
        return None
    if not isinstance(path, (str, PathLike)) or Path(fspath(path)).suffix != ".svg":
        raise UserError(f"cannot draw into {path!r}", primitive="draw", fix='give the name of an SVG file: "tile.svg"')
    return Path(fspath(path))


def _has_threads(schedule: Schedule) -> bool:
    threads = (
        annotation.thread
        for stage in schedule.in_order()
        for annotation in stage.annotations.values()
        if annotation.thread is not None
    )
    return any(thread.thread is not None and thread.thread.is_thread for thread in threads)


def _fragments(bounds: Bounds) -> list[Picture]:
    found = ((one.contraction.atom, one.stage.name) for one in reversed(list(bounds.values())) if one.contraction)
    return [draw_fragments(atom, name) for atom, name in found if not atom.by_thread]
