"""Small programs whose loops the tests of primitives look at."""

from __future__ import annotations

import textwrap
from typing import Any

import tilewright
from tilewright import te


def loops(s: Any, args: list[Any]) -> str:
    """The statements of the lowered program."""
    lines = str(tilewright.lower(s, args)).splitlines()
    start = next(i for i, line in enumerate(lines) if "func_attr" in line)
    return textwrap.dedent("\n".join(lines[start + 1 :])).strip()


def expect(s: Any, args: list[Any], text: str) -> None:
    assert loops(s, args) == textwrap.dedent(text).strip()


class Plain:
    """B = A + 1 over n by m elements."""

    def __init__(self, n: int = 8, m: int = 6) -> None:
        self.A = te.placeholder((n, m), name="A")
        self.B = te.compute((n, m), lambda i, j: self.A[i, j] + 1.0, "B")
        self.s = te.create_schedule(self.B.op)
        self.i, self.j = self.B.op.axis
        self.stage = self.s[self.B]
        self.args = [self.A, self.B]

    def expect(self, text: str) -> None:
        views = "B_1 = T.Buffer({0}, data=B.data)\nA_1 = T.Buffer({0}, data=A.data)\n"
        body = loops(self.s, self.args)
        size = int(self.A.shape[0]) * int(self.A.shape[1])
        for view in views.format(f"({size},)").splitlines():
            body = "\n".join(line for line in body.splitlines() if line.strip() != view)
        assert body == textwrap.dedent(text).strip()


class Line:
    """B = A + 1 over n elements."""

    def __init__(self, n: int = 8) -> None:
        self.A = te.placeholder((n,), name="A")
        self.B = te.compute((n,), lambda i: self.A[i] + 1.0, "B")
        self.s = te.create_schedule(self.B.op)
        self.i = self.B.op.axis[0]
        self.stage = self.s[self.B]

    def expect(self, text: str) -> None:
        expect(self.s, [self.A, self.B], text)


def names(axes: Any) -> list[str]:
    return [axis.name for axis in axes]


class Chain:
    """C = B * 2 after B = A + 1, over 8 by 6 elements."""

    def __init__(self) -> None:
        self.A = te.placeholder((8, 6), name="A")
        self.B = te.compute((8, 6), lambda p, q: self.A[p, q] + 1.0, "B")
        self.C = te.compute((8, 6), lambda i, j: self.B[i, j] * 2.0, "C")
        self.s = te.create_schedule(self.C.op)
        self.i, self.j = self.C.op.axis

    def expect(self, text: str) -> None:
        body = [line for line in loops(self.s, [self.A, self.C]).splitlines() if " = T.Buffer(" not in line]
        assert "\n".join(body) == textwrap.dedent(text).strip()
