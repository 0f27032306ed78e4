"""Text that others chose, made safe for the place that it is written into: names never become code.

Names of stages, axes, variables and functions may be any text. Each goes out through one of three functions:

    identifier(text)   a name in generated Python, OpenCL C, CUDA C or LLVM IR (`codegen/names.py` makes it unique)
    remark(text)       a comment in generated source
    printable(text)    an error, a log line, a terminal

Nothing else writes such text. A test builds programs with arbitrary text as names, for every target.
"""

from __future__ import annotations

import re

LONGEST_NAME = 120
"""Characters of a generated identifier: compilers slow down on longer ones, and some abort."""
LONGEST_REMARK = 160
_NOT_IN_A_NAME = re.compile(r"\W+", re.ASCII)  # C compilers treat other characters differently
_NOT_IN_A_DOTTED_NAME = re.compile(r"[^\w.]+", re.ASCII)
# In C, a backslash at a line's end continues the comment, and `??/` is a backslash. The rest is one line of ASCII.
_NOT_IN_A_REMARK = re.compile(r"[^ -\[\]-~]|\?(?=\?)|\?$")
_LAYOUT = "\n\t"


def identifier(text: str, dots: bool = False) -> str:
    """Return `text` as a name that Python, C and LLVM accept and none of them reserves by its form.

    The result is ASCII, begins with a letter, and is at most `LONGEST_NAME` characters long; with `dots`, which LLVM
    allows, it keeps dots. Different texts may have the same result, and it may be a word of the language:
    `codegen.names.Names` tells names apart.
    """
    made = (_NOT_IN_A_DOTTED_NAME if dots else _NOT_IN_A_NAME).sub("_", text[: 2 * LONGEST_NAME])[:LONGEST_NAME]
    return made if made[:1].isalpha() else f"v{made}"


def remark(text: str) -> str:
    """Return `text` as part of a comment that ends with its line, in any of the languages."""
    escaped = _NOT_IN_A_REMARK.sub(lambda found: f"<{ord(found[0]):x}>", text[: LONGEST_REMARK + 1])
    return escaped if len(escaped) <= LONGEST_REMARK else f"{escaped[: LONGEST_REMARK - 3]}..."


def printable(text: str, layout: str = _LAYOUT) -> str:
    r"""Return `text` with control characters escaped (`\x1b`), so that a terminal obeys none of it.

    Line breaks and tabs stay, as do letters of every script. Lone surrogates, which no encoding can write, and
    characters that reverse the text direction are escaped too.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in layout else _escape(c) for c in text)


def one_line(text: str) -> str:
    r"""Return `text` as `printable` has it, line breaks and tabs escaped too."""
    return printable(text, layout="")


def _escape(c: str) -> str:
    return c.encode("unicode_escape", "surrogatepass").decode()


def quantity(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: "1 dimension", "2 dimensions", "3 indices"; PyTorch's symbolic sizes by name."""
    number = f"{count:,}" if isinstance(count, int) else f"{count}"
    return f"{number} {noun if count == 1 else plural or noun + 's'}"


def kind_of(value: object) -> str:
    """Return the kind of a value, with its article: "a list", "an int", "a NumPy array", "None"."""
    if value is None:
        return "None"
    name = type(value).__name__
    if name == "ndarray":
        name = f"{'CuPy' if type(value).__module__.startswith('cupy') else 'NumPy'} array"
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def brief(value: object, most: int = 120) -> str:
    """Return a value for one line of an error: its `repr`, cut to `most` characters; for an array, shape and type."""
    if hasattr(value, "__dlpack__") and hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{kind_of(value)} of shape {tuple(value.shape)} and type {value.dtype}"
    text = " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[: most - 3]}..."
