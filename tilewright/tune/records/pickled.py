"""Records of the legacy API's protocol "pickle", read without running code: only data and its classes of choices load.

A line holds the target, and pickles of the task, the configuration and the result, in base64, with tabs between them.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
from collections import OrderedDict
from typing import Any

from ...core.errors import UserError
from ...core.version import __version__
from ...measure.outcome import MeasureResult
from .format import VERSION, MeasureInput, Pair
from .format import decode as of_json
from .format import encode as as_json

_FIELDS = 6


class _Kept:
    """An object of the legacy API: the values of its attributes."""


_KINDS = {
    "SplitEntity": ("sp", "size"),
    "ReorderEntity": ("re", "perm"),
    "AnnotateEntity": ("an", "anns"),
    "OtherOptionEntity": ("ot", "val"),
}
"""Classes of choices: the name of their kind in records, and the attribute that holds the choice."""
_HOMES = ("tvm.autotvm.task.space",)
_CLASSES: dict[str, type] = {name: type(name, (_Kept,), {}) for name in ("ConfigEntity", *_KINDS)}


class _DataOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return the class of that name, if it only holds data."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module in _HOMES and name in _CLASSES:
            return _CLASSES[name]
        raise UserError(
            f"the record pickles {module}.{name}, and loading that may run any code",
            primitive="record.decode",
            fix="write the log with protocol='json' in the program that made it",
        )


def encode(inp: MeasureInput, result: MeasureResult) -> str:
    """The line for a measurement: the data of its JSON, pickled."""
    line = json.loads(as_json(inp, result))
    target, *task = line["input"]
    return "\t".join([target, *map(_pickled, (task, line["config"], line["result"])), str(VERSION), __version__])


def _pickled(value: Any) -> str:
    return base64.b64encode(pickle.dumps(value)).decode()


def decode(row: str) -> Pair:
    """The measurement of a line; raises UserError if it is none, or holds other things than data."""
    try:
        target, *parts = row.split("\t")
        if len(parts) != _FIELDS - 1:
            raise ValueError(f"{len(parts) + 1} fields")
        task, config, result = (_DataOnly(io.BytesIO(base64.b64decode(part))).load() for part in parts[:3])
        line = {"input": [target, *task], "config": _config(config), "result": list(result), "version": VERSION}
        text = json.dumps(line)
    except UserError:
        raise
    except Exception as error:  # a file may hold anything, and fail in any way
        raise UserError(
            f"this is not a pickled record ({type(error).__name__}: {error})"[:300],
            primitive="record.decode",
            fix="give a line that record.encode(..., protocol='pickle') made",
        ) from error
    return of_json(text)


def _config(found: Any) -> Any:
    """Return a configuration in the form of JSON."""
    if isinstance(found, dict):
        return found
    entity = []
    for name, choice in found._entity_map.items():
        kind, attribute = _KINDS[type(choice).__name__]
        entity.append([name, kind, getattr(choice, attribute)])
    return {"index": found.index, "code_hash": found.code_hash, "entity": entity}
