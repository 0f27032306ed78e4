"""The attributes of a target under the legacy API's names: its options by name, its libraries, its host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LISTS = ("libs", "mattr", "keys")
_NUMBERS = ("num-cores", "opt-level")


class TargetView:
    """A target that answers as the legacy API's does."""

    kind: Any
    arch: str
    limits: tuple[tuple[str, int], ...]
    labels: tuple[tuple[str, str], ...]
    hardware: Any

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The options by name: the architecture, the limits of a GPU, and other options of the spelling."""
        found: dict[str, Any] = {"arch": self.arch} if self.arch else {}
        if self.hardware.launches_grids:
            block = self.hardware.block.threads
            found |= {"max_num_threads": block, "max_threads_per_block": block, "thread_warp_size": self.hardware.warp}
        found |= dict(self.limits)
        return found | {name: _value(name, text) for name, text in self.labels}

    def get_attr(self, name: str, default: Any = None) -> Any:
        """An option by name; `default` if the target does not have it."""
        return self.attrs.get(name, default) if isinstance(name, str) else default

    @property
    def libs(self) -> list[str]:
        """The libraries that the spelling names."""
        return _listed(dict(self.labels).get("libs", ""))

    @property
    def model(self) -> str:
        """The model that the spelling names, "unknown" if it names none."""
        return dict(self.labels).get("model", "unknown")

    @property
    def mcpu(self) -> str:
        """The processor that the spelling names, "" if it names none."""
        return dict(self.labels).get("mcpu", "")

    @property
    def mattr(self) -> list[str]:
        """The features of the processor that the spelling switches on and off."""
        return _listed(dict(self.labels).get("mattr", ""))

    @property
    def device_name(self) -> str:
        """The device that the spelling names, "" if it names none."""
        return dict(self.labels).get("device", "")

    @property
    def tag(self) -> str:
        """The tag that the spelling names, "" if it names none."""
        return dict(self.labels).get("tag", "")

    def export(self) -> dict[str, Any]:
        """The target as a mapping that makes it anew."""
        return {"kind": str(self.kind), **self.attrs}


def _value(name: str, text: str) -> Any:
    """Convert an option to a list or a number, if possible."""
    if name in _LISTS:
        return _listed(text)
    return int(text) if name in _NUMBERS and text.isdecimal() else text


def _listed(text: str) -> list[str]:
    return text.split(",") if text else []
