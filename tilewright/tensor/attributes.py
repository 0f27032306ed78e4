"""The attributes of an operation: texts and other values as given, numbers as constants."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..expr.nodes import FloatImm, IntImm
from ..expr.operators import const


class Attributes(dict[str, Any]):
    """A dictionary that prints as JSON if its values have a JSON form.

    Numbers, also in lists, are constants (`op.attrs["factor"].value`); True and False stay as they are.
    """

    def __init__(self, given: Mapping[str, Any] | None = None) -> None:
        super().__init__({key: _constants(value) for key, value in (given or {}).items()})

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{_text(key)}: {_text(value)}" for key, value in self.items()) + "}"


def _constants(value: Any) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return const(value)
    return [_constants(part) for part in value] if isinstance(value, list) else value


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    plain = value.value if isinstance(value, (IntImm, FloatImm)) else value
    return json.dumps(plain) if isinstance(plain, (str, int, float)) else repr(plain)
