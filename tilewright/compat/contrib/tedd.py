"""Graphs of schedules in the DOT language, under the legacy API's names; `s.draw(file)` draws SVG without Graphviz.

from tvm.contrib import tedd

tedd.viz_schedule_tree(s, dot_file_path="schedule.dot")
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from ...core.errors import UserError
from ...core.text import one_line
from ...report.files import write_text
from ...schedule.handle import ScheduleHandle
from ...schedule.schedule import At, Inlined, Schedule, Stage
from ...tensor.axis import IterVar

_EDGE = "  {} -> {}{};"


def viz_dataflow_graph(
    sch: ScheduleHandle, show_svg: bool = False, dot_file_path: str = "", output_dot_string: bool = False
) -> str | None:
    """Describe which stage reads which.

    Parameters
    ----------
    sch : Schedule
    show_svg : bool
        Show the picture of `sch.draw` in a notebook.
    dot_file_path : str
        The file to write the graph to; none if it is empty.
    output_dot_string : bool
        Whether the graph is returned.

    Returns
    -------
    str or None
        The graph in the DOT language.

    Raises
    ------
    UserError
        For anything but a schedule.
    """
    return _finish("Dataflow Graph", sch, _dataflow(_value(sch)), show_svg, dot_file_path, output_dot_string)


def viz_schedule_tree(
    sch: ScheduleHandle, show_svg: bool = False, dot_file_path: str = "", output_dot_string: bool = False
) -> str | None:
    """Describe the loops of each stage, and the loop at which it is computed; parameters as `viz_dataflow_graph`."""
    return _finish("Schedule Tree", sch, _tree(_value(sch)), show_svg, dot_file_path, output_dot_string)


def viz_itervar_relationship_graph(
    sch: ScheduleHandle, show_svg: bool = False, dot_file_path: str = "", output_dot_string: bool = False
) -> str | None:
    """Describe how the loops of each stage came from its axes; parameters as `viz_dataflow_graph`."""
    lines = _relationships(_value(sch))
    return _finish("IterVar Relationship Graph", sch, lines, show_svg, dot_file_path, output_dot_string)


def _value(sch: Any) -> Schedule:
    if not isinstance(sch, ScheduleHandle):
        raise UserError(f"{sch!r} is not a schedule", primitive="tedd", fix="give the result of te.create_schedule")
    return sch.value


def _finish(name: str, sch: ScheduleHandle, lines: Iterator[str], show: bool, path: Any, returned: bool) -> str | None:
    text = "\n".join([f"digraph {_quoted(name)} {{", "  node [shape=box];", *lines, "}"]) + "\n"
    if path:
        write_text(Path(path), text)
    if show:
        _show(sch)
    return text if returned else None


def _show(sch: ScheduleHandle) -> None:
    try:
        notebook = import_module("IPython.display")
    except ImportError as error:
        raise UserError(
            "IPython is not installed, which shows pictures in notebooks",
            primitive="tedd",
            fix='draw into a file: s.draw("schedule.svg", view="schedule")',
        ) from error
    notebook.display(notebook.SVG(sch.draw(view="schedule")))


def _quoted(text: str) -> str:
    escaped = one_line(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _stage(stage: Stage) -> str:
    return _quoted(f"Stage:{stage.id}")


def _node(name: str, *lines: str, style: str = "") -> str:
    label = '"' + "\\n".join(_quoted(line)[1:-1] for line in lines) + '"'
    return f"  {name} [label={label}{style}];"


def _dataflow(schedule: Schedule) -> Iterator[str]:
    for stage in schedule.in_order():
        tensors = [f"{t.name}: {t.dtype}[{', '.join(map(str, t.shape))}]" for t in stage.op.outputs]
        kind = "input" if stage.is_placeholder else "output" if stage.is_output else "stage"
        yield _node(_stage(stage), f"{kind} {stage.name}", *tensors)
    for stage in schedule.in_order():
        for reader in schedule.readers(stage.id):
            yield _EDGE.format(_stage(stage), _stage(reader), "")


def _axis(stage: Stage, axis: IterVar) -> str:
    return _quoted(f"Stage:{stage.id} {stage.place_of.get(axis, axis.name)}")


def _tree(schedule: Schedule) -> Iterator[str]:
    for stage in schedule.in_order():
        scope = f" in {stage.scope.value}" if stage.scope is not None else ""
        inlined = ", inlined" if isinstance(stage.placement, Inlined) else ""
        yield _node(_stage(stage), f"{stage.name}{scope}{inlined}", style=", style=bold")
        above = _stage(stage)
        for axis in () if stage.is_placeholder or inlined else stage.leaves:
            annotation = stage.annotation(axis)
            how = annotation.thread.thread_tag if annotation.thread is not None else annotation.kind.value
            yield _node(_axis(stage, axis), f"{axis.name} ({how})")
            yield _EDGE.format(above, _axis(stage, axis), "")
            above = _axis(stage, axis)
    for stage in schedule.in_order():
        if isinstance(stage.placement, At):
            at = schedule.stages[stage.placement.stage]
            yield _EDGE.format(_axis(at, stage.placement.axis), _stage(stage), ' [label="compute_at", style=dashed]')


def _relationships(schedule: Schedule) -> Iterator[str]:
    for stage in schedule.in_order():
        yield f"  subgraph {_quoted(f'cluster {stage.id}')} {{ label={_quoted(stage.name)};"
        for axis in () if stage.is_placeholder else stage.all_axes:
            leaf = ", style=bold" if axis in stage.leaves else ""
            yield _node(_axis(stage, axis), axis.name, style=leaf)
        for number, relation in enumerate(stage.relations):
            name = _quoted(f"Stage:{stage.id} relation {number}")
            yield _node(name, type(relation).__name__.lower(), style=", shape=ellipse")
            yield from (_EDGE.format(_axis(stage, axis), name, "") for axis in relation.above)
            yield from (_EDGE.format(name, _axis(stage, axis), "") for axis in relation.below)
        yield "  }"
