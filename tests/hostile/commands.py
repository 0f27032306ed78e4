"""One hostile command line: any command, with options that fit and some that do not."""

from __future__ import annotations

import io
import os
import random
import sys
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import typer

_WORDS = (
    *(
        "",
        " ",
        "-",
        "--",
        "x",
        "é",
        "变量",
        "\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape"),
    ),
    *("0", "1", "-1", "3", "1.5", "nan", "inf", "-inf", "1e308", "1e999", "9" * 400, "999999999²", "٣", "0x10", "1_0"),
    *("1x", "x1", "1x2x3x4", "1x4x7x7", "0x0x0x0", "1x-4x7x7", "99999999x99999999x9x9", "1x1x1x1x1x1", "12x3", "3,3"),
    *("llvm", "cuda", "opencl", "cuda -arch=sm_1", "llvm -mtriple=bogus", "gpu", "auto", "random", "same", "float32"),
    *(
        "handle",
        "float32x99999",
        "\\",
        "\x1b[31m",
        "a\nb",
        "a" * 5000,
        "None",
        "[]",
        "{}",
        "*",
        "~",
        "$HOME",
        "%s",
        "1s",
    ),
    *("mma", "gemm", "NHWC", "NCHW", "relu", "1h", "1d", "1ns", "-5s", "tf32", "int8", "bfloat16", "k=v", "=", "a=b=c"),
)
_PATHS = (
    *("missing.log", ".", "/", "/proc/self/mem", "/proc/nowhere/x", "/dev/null", "/dev/full", "a.log", "text.txt"),
    *("binary.bin", "x" * 300, "no/such/folder/file", "script.py", "broken.py", "fifo", "module.tw", ""),
)
_BOUNDED = ("--trials", "1", "--budget", "1s")
"""Given first to what searches, so that what follows may replace one of them and the search ends all the same."""
_SEARCHES = frozenset(("conv1d", "conv2d", "depthwise", "dense", "batch_matmul"))
_LONG = frozenset(("doctor", "worker"))
"""What measures or waits if its arguments fit: at least one of theirs does not."""


@cache
def lines() -> tuple[tuple[tuple[str, ...], Any], ...]:
    """Every command: its words, and what its parser knows of it."""
    from tilewright.cli.app import app

    return tuple(_commands(typer.main.get_command(app), ()))


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    below = getattr(command, "commands", None)
    yield words, command
    for name in sorted(below or ()):
        yield from _commands(below[name], (*words, name))


class Line:
    """Command line number `number` of a seed. Numbers go round the commands."""

    def __init__(self, seed: int, number: int) -> None:
        turn, at = divmod(number, len(lines()))
        words, self.command = lines()[at]
        self.rng = random.Random(f"{seed} {turn} {words}")
        self.words = [*words]
        self.name = " ".join(("tilewright", *words))
        self.words += self._given()
        self.shown = repr(self.words)[:600]

    def _given(self) -> list[str]:
        named = [p for p in self.command.params if p.param_type_name == "option" and p.name != "help"]
        placed = [p for p in self.command.params if p.param_type_name == "argument"]
        given: list[str] = []
        if self.words and self.words[-1] in _SEARCHES and "tune" in self.words:
            given += ["--target", "llvm", *_BOUNDED, "--log", "a.log"]
            if self.rng.random() < 0.5:
                given += ["--shape", self.rng.choice(("1x4x7x7", "1x16", "64", "1x8x8", "2x4x4x4", "4x4x4"))]
        elif self.words and self.words[0] in ("ladder", *_LONG):
            given += ["--variant" if self.words[0] == "ladder" else "--nonsense", "nothing of the kind"]
        taken = False
        for option in named:
            if self.rng.random() < 0.25:
                if option.opts[0] in ("--trials", "--budget"):
                    if taken:
                        continue
                    taken = True
                given.append(self.rng.choice(option.opts))
                if not getattr(option, "is_flag", False):
                    given.append(self._value())
        for argument in placed:
            if self.rng.random() < 0.9:
                given += [self._value() for _ in range(1 if argument.nargs == 1 else self.rng.randrange(4))]
        if self.rng.random() < 0.1:
            given.insert(self.rng.randrange(len(given) + 1), self.rng.choice(_WORDS))
        return [word.replace("\0", "") for word in given]

    def _value(self) -> str:
        return self.rng.choice(_WORDS if self.rng.random() < 0.6 else _PATHS)

    def run(self) -> str:
        """Empty where the command ends with a status and no traceback; else what went wrong."""
        from tilewright.cli.app import main

        _files()
        os.environ["TILEWRIGHT_CACHE"] = str(Path.cwd() / "kernels")
        before = sys.argv, sys.stdout, sys.stderr, sys.stdin
        said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace")
        sys.argv, sys.stdout, sys.stderr = ["tilewright", *self.words], said, said
        sys.stdin = io.StringIO()
        try:
            main()
        except SystemExit as end:
            if end.code not in (None, 0, 1, 2, 130):
                return f"ends with status {end.code!r}"
        except BaseException as error:  # whatever a command raises is its outcome
            frames = [f for f in traceback.extract_tb(error.__traceback__) if "/tilewright/" in f.filename]
            at = " < ".join(f"{f.filename.partition('/tilewright/')[2]}:{f.lineno} {f.name}" for f in frames[:-4:-1])
            return f"{type(error).__name__}: {str(error)[:200]!r} at {at}"
        finally:
            sys.argv, sys.stdout, sys.stderr, sys.stdin = before
        said.flush()
        text = said.buffer.getvalue().decode(errors="replace")  # type: ignore[attr-defined]
        own = "run" in self.words[:1]  # what a script of the user's raises is shown as Python shows it
        return f"shows a traceback: {text[-300:]!r}" if "Traceback (most recent" in text and not own else ""


def _files() -> None:
    """The files of the working directory that options may name."""
    if Path("binary.bin").exists():
        return
    Path("text.txt").write_text("not a log\n")
    Path("binary.bin").write_bytes(bytes(range(256)) * 40)
    Path("script.py").write_text("print('ran')\n")
    Path("broken.py").write_text("import tvm\ntvm.nonsense(\n")
    Path("module.tw").write_bytes(b"PK\x03\x04 nothing")
    os.mkfifo("fifo")
