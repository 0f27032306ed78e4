"""Requirements of a schedule on workloads and hardware, as data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...core.atoms import atom_named
from ...core.target import Target


@dataclass(frozen=True)
class Needs:
    """Requirements of a schedule; an empty one admits everything."""

    types: Collection[str] = ()
    """Element types."""
    atoms: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The matrix instruction for each admitted element type. Targets must have all of these instructions."""
    layouts: Collection[str] = ()
    """Orders of the dimensions of images."""
    group_channels: Collection[int] = ()
    """Channels of a group."""
    scope: str = ""
    """Further limits in words, for messages."""

    def admit(self, workload: Any) -> bool:
        """Return whether a workload meets the requirements."""
        types = self.atoms or self.types
        return (
            (not types or workload.element in types)
            and (not self.layouts or workload.layout in self.layouts)
            and (not self.group_channels or workload.shape[1] // workload.groups in self.group_channels)
        )

    def run_on(self, target: Target | None) -> bool:
        """Return whether a target has the instructions; the default GPU, None, has all."""
        if not self.atoms or target is None:
            return True
        found = map(atom_named, self.atoms.values())
        return target.kind == "cuda" and all(a is not None and a.runs_on(target.hardware) for a in found)

    def __str__(self) -> str:
        """Return the requirements in words: "groups of 2, 4 or 8 channels, float16 or bfloat16, NCHW"."""
        groups = f"groups of {_either(self.group_channels)} channels" if self.group_channels else ""
        parts = (self.scope, groups, _either(self.atoms or self.types), _either(self.layouts))
        return ", ".join(filter(None, parts))


def _either(values: Collection[Any]) -> str:
    """Return values as words: "2, 4 or 8"."""
    *first, last = map(str, values) if values else ("",)
    return f"{', '.join(first)} or {last}" if first else last


HALVES = {"float16": "float16", "bfloat16": "bfloat16"}
"""The matrix instructions of 16-bit floats."""
ANYTHING = Needs()
