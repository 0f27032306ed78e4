"""One hostile module file: a saved module that was mutated, or an archive that is none of ours."""

from __future__ import annotations

import io
import json
import random
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tests.hostile.world import device, module
from tilewright.core.errors import UserError
from tilewright.runtime.driver import DeviceError

_VALUES = (None, True, -1, 2**70, 1e308, "", "x", "\ud800", "cuda", [], {}, [[]], {"a": 1}, "main", "import os")

_ARGUMENTS = (((8, 6), 1), ((6,), 1), ((8,), 0))


@cache
def _saved(folder: str) -> bytes:
    path = Path(folder) / "whole.tw"
    module().save(path)
    return path.read_bytes()


class Mutation:
    """File number `number` of a seed: how it was made, and what comes of loading and calling it."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = random.Random(seed * 1_000_003 + number + 7)
        self.how = self.rng.choice([_flipped, _cut, _spliced, _described, _emptied, _renamed, _inflating, _foreign])
        self.name = self.shown = self.how.__name__.strip("_")

    def run(self) -> str:
        """Empty where the file is refused, or gives what the module gave before; else what went wrong."""
        whole = _saved(str(Path.cwd()))
        content = self.how(whole, self.rng)
        Path("mutated.tw").write_bytes(content)
        try:
            loaded = tw.runtime.load_module("mutated.tw")
        except UserError:
            return ""
        except BaseException as error:  # whatever loading raises is its outcome
            return f"{type(error).__name__}: {str(error)[:200]!r} at load_module"
        a, w, out = (tw.nd.array(np.full(shape, x, "float32"), device()) for shape, x in _ARGUMENTS)
        try:
            loaded(a, w, out)
        except (UserError, DeviceError):
            return ""
        except BaseException as error:
            return f"{type(error).__name__}: {str(error)[:200]!r} at the call"
        return "" if (out.numpy() == 12).all() else f"a mutated module ran and gave {out.numpy()[:3]}"


def _flipped(whole: bytes, rng: random.Random) -> bytes:
    made = bytearray(whole)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def _cut(whole: bytes, rng: random.Random) -> bytes:
    return whole[: rng.randrange(len(whole))] if rng.random() < 0.7 else whole[rng.randrange(1, len(whole)) :]


def _spliced(whole: bytes, rng: random.Random) -> bytes:
    a, b, c = (rng.randrange(len(whole)) for _ in range(3))
    return whole[:a] + whole[min(b, c) : max(b, c)] + whole[a:]


def _described(whole: bytes, rng: random.Random) -> bytes:
    """A description in which a value somewhere is another one."""
    members = _members(whole)
    description = json.loads(members["module.json"])
    at: Any = description
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = rng.choice(keys)
        if isinstance(at[key], (dict, list)) and at[key] and rng.random() < 0.7:
            at = at[key]
            continue
        at[key] = rng.choice(_VALUES)
        break
    return _zipped({**members, "module.json": json.dumps(description).encode()})


def _emptied(whole: bytes, rng: random.Random) -> bytes:
    members = _members(whole)
    name = rng.choice(list(members))
    changed = rng.choice([None, b"", b"\0" * 100, members[name][:-7], members[name] * 2])
    return _zipped({key: changed if key == name else text for key, text in members.items() if key != name or changed})


def _renamed(whole: bytes, rng: random.Random) -> bytes:
    members = list(_members(whole).items())
    name = rng.choice(["../x", "/etc/x", "module.json", "kernels.o", "é" * 300])
    at = rng.randrange(len(members))
    return _zipped(dict([*members[:at], (name, members[at][1]), *members[at + 1 :]]))


def _inflating(whole: bytes, rng: random.Random) -> bytes:
    return _inflated(whole, rng.choice(["module.json", "kernels.ll"]))


@cache
def _inflated(whole: bytes, name: str) -> bytes:
    return _zipped({**_members(whole), name: b" " * 300_000_000})


def _foreign(whole: bytes, rng: random.Random) -> bytes:
    texts = [b"", b"{}", b"[]", b"null", b"[" * 100_000, b'{"format": 2}', b'{"format": []}', b"\xff\xfe", b"1" * 5000]
    archive = _zipped({"module.json": rng.choice(texts)})
    return rng.choice([archive, b"PK\x05\x06" + b"\0" * 18, b"\x7fELF" + b"\0" * 60, rng.randbytes(300), b""])


def _members(whole: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zipped(members: dict[str, bytes | None]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(name, content or b"")
    return made.getvalue()
