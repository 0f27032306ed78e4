"""`runtime.system_lib()`: functions of libraries that this process has loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import ctypes, sys
import numpy as np
import tilewright as tw
from tilewright import te
from tilewright.contrib import cc

A = te.placeholder((4,), name="A")
schedules = {}
for name, by in (("plus1", 1.0), ("plus2", 2.0), ("other", 3.0)):
    B = te.compute((4,), lambda i: A[i] + by, name="B")
    target = "llvm" if name == "other" else "llvm -system-lib"
    tw.build(te.create_schedule(B.op), [A, B], target, name=name).save(f"{name}.o")
try:
    tw.runtime.system_lib()
except tw.UserError as error:
    print("ctypes.CDLL" in str(error))
cc.create_shared("all.so", ["plus1.o", "other.o", "plus2.o"])
ctypes.CDLL("./all.so")
found = tw.runtime.system_lib()
a, b = tw.nd.array(np.arange(4, dtype="float32")), tw.nd.array(np.zeros(4, "float32"))
for f in (found["plus1"], found["plus2"], tw.runtime.system_lib("plus")["2"], tw.runtime.system_lib("x")["plus1"]):
    f(a, b)
    print(b.numpy().tolist())
print(found.implements_function("other", True))
"""


def test_functions_of_loaded_libraries(tmp_path: Path) -> None:
    made = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    one, two = [1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0]
    assert made.stdout.splitlines() == ["True", *map(str, (one, two, two, one)), "False"]
