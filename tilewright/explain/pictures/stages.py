"""The graph of a schedule: stages with their loops, who reads whom, and at which loop each is computed."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.hardware import LoopKind
from ...schedule.schedule import At, Inlined, Schedule, Stage
from ...tensor.axis import AxisKind
from ...tensor.extern import ExternOp
from ...tensor.script import ScriptOp
from ...tensor.tensor import ComputeOp
from .svg import FONT, Picture, text_width

_LINE_HEIGHT = 18.0
_PADDING = 8.0
_GAP_ACROSS = 70.0
_GAP_DOWN = 26.0


@dataclass(frozen=True)
class _Box:
    """A drawn stage: its position, and the positions of its loops."""

    x: float
    y: float
    width: float
    height: float
    rows: dict[object, float]


def draw_stages(schedule: Schedule) -> Picture:
    """Stages from the inputs on the left to the outputs on the right.

    Solid arrows are data; dashed ones lead from a stage to the loop that it is computed at.
    """
    made = Picture()
    made.text(0, FONT, "stages", 15, "title")
    made.text(0, FONT + 20, "solid: reads; dashed: is computed at", FONT, "faint")
    levels = _levels(schedule)
    boxes: dict[int, _Box] = {}
    x = 0.0
    for level in range(max(levels.values(), default=0) + 1):
        own = [stage for stage in schedule.in_order() if levels[stage.id] == level]
        width = max((_width(schedule, stage) for stage in own), default=0.0)
        y = FONT + 44.0
        for stage in own:
            boxes[stage.id] = _place(schedule, stage, x, y, width)
            y += boxes[stage.id].height + _GAP_DOWN
        x += width + _GAP_ACROSS
    for stage in schedule.in_order():
        for reader in schedule.readers(stage.id):
            _flow(made, boxes[stage.id], boxes[reader.id])
        if isinstance(stage.placement, At):
            _attach(made, boxes[stage.id], boxes[stage.placement.stage], stage.placement)
    for stage in schedule.in_order():  # over the arrows that pass behind them
        _draw(made, schedule, stage, boxes[stage.id])
    return made


def _levels(schedule: Schedule) -> dict[int, int]:
    """How many readings lie between a stage and the inputs, at most."""
    found: dict[int, int] = {}
    for stage in schedule.in_order():
        found.setdefault(stage.id, 0)
        for reader in schedule.readers(stage.id):
            found[reader.id] = max(found.get(reader.id, 0), found[stage.id] + 1)
    return found


def _head(schedule: Schedule, stage: Stage) -> list[str]:
    """The name of a stage, its kind and memory, and its type and shape."""
    if stage.is_placeholder:
        kind = "input"
    elif isinstance(stage.placement, Inlined):
        kind = "inlined"
    else:
        known = {ComputeOp: "compute", ExternOp: "extern", ScriptOp: "script"}
        kind = known.get(type(stage.op), type(stage.op).__name__)
        kind = "output" if stage.is_output else kind
    scope = f", {stage.scope.value}" if stage.scope is not None else ""
    tensor = stage.op.outputs[0]
    return [stage.name, f"{kind}{scope}", f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"]


def _loops(stage: Stage) -> list[tuple[object, str, bool]]:
    """The loops of a stage as text, and whether each is of a reduction."""
    if stage.is_placeholder or isinstance(stage.placement, Inlined):
        return []
    found: list[tuple[object, str, bool]] = []
    for axis in stage.leaves:
        annotation = stage.annotation(axis)
        how = annotation.thread.thread_tag if annotation.thread is not None else ""
        if not how and annotation.kind is not LoopKind.SERIAL:
            how = annotation.kind.value
        marks = [how, *(name for name, _ in annotation.pragmas)]
        if stage.tensorized is not None and stage.tensorized[0] is axis:
            marks.append(f"tensorize {stage.tensorized[1].name}")
        shown = ", ".join(mark for mark in marks if mark)
        found.append((axis, f"{axis.name}  {shown}".rstrip(), axis.kind is AxisKind.REDUCE))
    return found


def _width(schedule: Schedule, stage: Stage) -> float:
    texts = [*_head(schedule, stage), *(f"for {text}" for _, text, _ in _loops(stage))]
    return max(text_width(text) for text in texts) + 2 * _PADDING


def _place(schedule: Schedule, stage: Stage, x: float, y: float, width: float) -> _Box:
    loops = _loops(stage)
    top = y + 3 * _LINE_HEIGHT + _PADDING
    rows = {axis: top + k * _LINE_HEIGHT + _LINE_HEIGHT / 2 for k, (axis, _, _) in enumerate(loops)}
    return _Box(x, y, width, 3 * _LINE_HEIGHT + 2 * _PADDING + len(loops) * _LINE_HEIGHT, rows)


def _draw(made: Picture, schedule: Schedule, stage: Stage, box: _Box) -> None:
    made.rect(box.x, box.y, box.width, box.height, "box", stroke=1.0)
    kind = "h0" if stage.is_placeholder else "h2" if stage.is_output else "h4" if stage.scope is not None else "h3"
    made.rect(box.x, box.y, box.width, _LINE_HEIGHT + 4, f"{kind} apart")
    name, *rest = _head(schedule, stage)
    made.text(box.x + _PADDING, box.y + _LINE_HEIGHT - 2, name, FONT, "title")
    for k, text in enumerate(rest):
        made.text(box.x + _PADDING, box.y + (k + 2) * _LINE_HEIGHT - 1, text, 11, "faint")
    for axis, text, is_sum in _loops(stage):
        made.text(box.x + _PADDING, box.rows[axis] + 4, f"{'sum' if is_sum else 'for'} {text}", 11, "mono")


def _flow(made: Picture, start: _Box, end: _Box) -> None:
    x0, y0 = start.x + start.width, start.y + _LINE_HEIGHT / 2 + 2
    x1, y1 = end.x, end.y + _LINE_HEIGHT / 2 + 2
    bend = max(24.0, (x1 - x0) / 2)
    made.path(
        f"M{x0:.1f} {y0:.1f}C{x0 + bend:.1f} {y0:.1f} {x1 - bend:.1f} {y1:.1f} {x1:.1f} {y1:.1f}", "flow", 1.2, "flow"
    )


def _attach(made: Picture, start: _Box, end: _Box, at: At) -> None:
    row = end.rows.get(at.axis, end.y + end.height)
    x0, y0 = start.x + start.width, start.y + start.height - _LINE_HEIGHT / 2
    x1 = end.x
    if end.x <= start.x:  # an edge that goes back to the left
        x0, x1 = start.x, end.x + end.width
    bend = (x1 - x0) / 2
    made.path(
        f"M{x0:.1f} {y0:.1f}C{x0 + bend:.1f} {y0:.1f} {x1 - bend:.1f} {row:.1f} {x1:.1f} {row:.1f}", "at", 1.4, "at"
    )
