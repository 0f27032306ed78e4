"""A configuration: one choice per knob. It is a frozen mapping, printed and written in the form of logs."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping
from typing import Any

from ...core.errors import UserError
from ...measure.outcome import shorten
from .choices import Choice, ValueChoice, named_choice

_LARGEST_INDEX = 10**100


class Config(Mapping[str, Choice]):
    """Choices by the names of their knobs, in the order of the space.

    `index` is the index in the space; None if the configuration is not from a space. Two configurations are equal if
    their choices are. Indexing returns a choice: `config["tile_f"].size[2]`.
    """

    __slots__ = ("_choices", "code_hash", "index")
    is_fallback = False

    def __init__(self, choices: Mapping[str, Choice], index: int | None = None, code_hash: str | None = None) -> None:
        try:
            self._choices = dict(choices)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"choices={shorten(repr(choices))} is not a mapping from names of knobs to choices",
                primitive="ConfigEntity",
                fix="take one of a space: space.get(index)",
            ) from error
        self.index = index
        self.code_hash = code_hash

    def __getitem__(self, name: str) -> Any:
        found = self._choices.get(name)
        if found is None:
            known = ", ".join(self._choices) or "none"
            raise UserError(f"the configuration has no knob {name!r}", primitive="cfg[...]", fix=f"its knobs: {known}")
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._choices

    def __iter__(self) -> Iterator[str]:
        return iter(self._choices)

    def __len__(self) -> int:
        return len(self._choices)

    def items(self) -> ItemsView[str, Choice]:
        return self._choices.items()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._choices == other._choices

    def __hash__(self) -> int:
        return hash(frozenset(self._choices.items()))  # in any order: equal ones may come from different spaces

    def __repr__(self) -> str:
        entries = str(list(self._choices.items()))
        return f"{entries},{self.code_hash}" + ("" if self.index is None else f",{self.index}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Config, (self._choices, self.index, self.code_hash)

    @property
    def _entity_map(self) -> dict[str, Choice]:
        """The choices, under the legacy API's name."""
        return self._choices

    @_entity_map.setter
    def _entity_map(self, choices: Mapping[str, Choice]) -> None:
        self._choices = dict(choices)

    def valid(self) -> bool:
        """Return True: a `Config` holds no errors; the legacy API asks."""
        return True

    def get_other_option(self) -> dict[str, Any]:
        """The values of the plain knobs."""
        return {name: choice.val for name, choice in self._choices.items() if isinstance(choice, ValueChoice)}

    def get_flatten_feature(self) -> list[float]:
        """The choices as numbers, one after the other."""
        return [number for choice in self._choices.values() for number in choice.numbers]

    def to_json_dict(self) -> dict[str, Any]:
        """Return the configuration in the form of a log line."""
        entity = [[name, choice.TAG, choice.data] for name, choice in self._choices.items()]
        return {"index": self.index, "code_hash": self.code_hash, "entity": entity}

    @staticmethod
    def from_json_dict(written: Mapping[str, Any], named: Callable[[Any], tuple[str, Choice]] = named_choice) -> Config:
        """Return the configuration of a log line; raise UserError if it has none.

        `named` returns the name and the choice of an entry.
        """
        try:
            choices = dict([named(row) for row in written["entity"]])
            index, code = written["index"], written.get("code_hash")
            if index is not None and (type(index) is not int or not 0 <= index < _LARGEST_INDEX):
                raise ValueError(f"the index is {index!r}")
            return Config(choices, index, code if isinstance(code, str) else None)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise UserError(
                shorten(f"this is not a configuration: {written!r} ({error})"),
                primitive="from_json_dict",
                fix="pass the result of config.to_json_dict()",
            ) from error
