"""Layouts that matrix instructions require of other stages, and the conflicts between these requirements.

A stage that reads sums is distributed over lanes as the sums are; an operand in shared memory gets lines that start in
different banks. Two instructions may demand incompatible layouts.
"""

from __future__ import annotations

from dataclasses import replace

from ..bounds.stage_bounds import StageBounds, StageContraction
from ..core.atoms import Atom
from ..core.hardware import WarpMemory
from ..expr.nodes import Load
from ..schedule.legality import names
from ..schedule.schedule import Stage
from ..schedule.tensor_intrin import refuse
from ..tensor.axis import IterVar
from .banks import bank_ways

Axes = tuple[IterVar, ...]


class Demands:
    """The demands of the instructions that are matched so far."""

    def __init__(self, memory: WarpMemory) -> None:
        self.memory = memory
        self._dealt: dict[int, tuple[Stage, Atom, Axes, Axes]] = {}
        self._padded: dict[tuple[int, IterVar], tuple[Stage, Atom, tuple[int, int]]] = {}

    def deal(self, reader: StageBounds, found: StageBounds, atom: Atom, rows: Axes, columns: Axes) -> None:
        """Distribute the loops of a reader like the sums of a stage; UserError if another stage's sums need another
        way.
        """
        first, one, its_rows, its_columns = self._dealt.setdefault(reader.stage.id, (found.stage, atom, rows, columns))
        if (one.halves, its_rows, its_columns) == (atom.halves, rows, columns):
            return
        refuse(
            f"stage {reader.stage.name!r} reads the sums of {first.name!r} and of {found.stage.name!r}, but no lane "
            f"holds both. {one.name} distributes {first.name!r} in pieces of {one.m} rows ({names(its_rows)}) by "
            f"{one.n} columns ({names(its_columns)}). {atom.name} distributes {found.stage.name!r} in pieces of "
            f"{atom.m} rows ({names(rows)}) by {atom.n} columns ({names(columns)})",
            f"pass one of them through shared memory: s.cache_read({found.stage.name}, 'shared', "
            f"[{reader.stage.name}]), computed at the loop of {found.stage.name!r}",
        )

    def lay_out(
        self,
        found: StageBounds,
        matched: StageContraction,
        operand: Load,
        lines: Axes,
        held: StageBounds,
        axis: IterVar,
        wanted: tuple[int, int],
    ) -> None:
        """Set the distance of an operand's lines as an instruction requires; raise UserError if others require another
        one.

        A distance of lines that suits both is no conflict.
        """
        stage, atom = held.stage, matched.atom
        first, one, given = self._padded.setdefault((stage.id, axis), (found.stage, atom, wanted))
        if given == wanted:
            return
        ways = bank_ways(found, matched, operand, lines, held, self.memory)
        own = replace(held, stage=replace(stage, aligns={**stage.aligns, axis: wanted}))
        if ways <= bank_ways(found, matched, operand, lines, own, self.memory):
            return
        refuse(
            f"stage {stage.name!r} in shared memory is an operand of {first.name!r} and of {found.stage.name!r}, which "
            f"need different distances of its lines along axis {axis.name!r}. {one.name} needs {_remainder(given)} "
            f"elements, {atom.name} needs {_remainder(wanted)}. With the first, {ways} lanes of the second want one "
            "bank at a time",
            f"give each reader its own copy, by a cache_read for each, or choose one distance: s[{stage.name}]."
            f"storage_align({axis.name}, {given[0]}, {given[1]})",
        )


def _remainder(wanted: tuple[int, int]) -> str:
    factor, offset = wanted
    return f"{offset} modulo {factor}"
