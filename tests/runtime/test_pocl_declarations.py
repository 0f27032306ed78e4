"""Declarations for PoCL: they are those of its header, and programs that need more get the header."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.paths import python_path
from tilewright import te
from tilewright.runtime import opencl_driver
from tilewright.runtime.device import opencl
from tilewright.runtime.pocl_declarations import WITHOUT_HEADER, declarations

_MARKS = {"__cnfn": "const", "__purefn": "pure", "__conv": "convergent"}
_TYPE = r"unsigned|u?(?:char|short|int|long)\d*|(?:float|double|half)\d*|size_t|cl_mem_fence_flags|void"
_WORD = re.compile(rf"(?:const|volatile|__(?:constant|global|local|private)|{_TYPE})|\*")
_SPACE = re.compile(r"__(?:constant|global|local|private)")
KNOWN = (
    "acos acosh asin asinh atan atan2 atanh atomic_add atomic_and atomic_cmpxchg atomic_max atomic_min atomic_or "
    "atomic_sub atomic_xchg atomic_xor barrier ceil clz copysign cos cosh erf exp exp10 exp2 fabs floor fmod "
    "get_global_id get_global_size get_group_id get_local_id get_local_size get_num_groups hypot isfinite isinf isnan "
    "ldexp log log10 log1p log2 max min nextafter popcount pow rint round rsqrt sin sinh sqrt tan tanh trunc "
    "vload16 vload2 vload3 vload4 vload8 vload_half vstore16 vstore2 vstore3 vstore4 vstore8 vstore_half_rte"
).split()
Prototype = tuple[tuple[str, ...], frozenset[str]]


def words(text: str) -> tuple[str, ...]:
    """Types and qualifiers, without names of parameters; what has no address space points to any."""
    parts = [_WORD.findall(part) for part in re.split(r"[(,]", text)]
    return tuple(" ".join(part) for part in parts)


def of_the_header() -> dict[str, set[Prototype]]:
    """The prototypes of Clang's header as OpenCL C 1.2 sees them, read line by line."""
    package = pytest.importorskip("pocl_binary_distribution")
    header = Path(package.__file__).parent / ".libs/share/pocl/include/opencl-c.h"
    if not header.exists():
        pytest.skip("this PoCL brings no header")
    found: dict[str, set[Prototype]] = {}
    for line in header.read_text().splitlines():
        made = re.fullmatch(r"([\w ]+?)((?: __(?:ovld|cnfn|purefn|conv))+) (\w+)\((.*)\);", line.strip())
        if made is None:
            continue
        result, marks, name, parameters = made.groups()
        anywhere = "*" in parameters and not _SPACE.search(parameters)  # of OpenCL C 2.0
        halves = "half" in line and "_half" not in name  # of devices that compute in it
        if not anywhere and not halves:
            kinds = frozenset(_MARKS[mark] for mark in marks.split() if mark in _MARKS)
            found.setdefault(name, set()).add((words(f"{result}({parameters}"), kinds))
    return found


def declared(name: str) -> set[Prototype]:
    """What is declared for a program that calls a function and mentions every type."""
    text = declarations(f"{name}(x); (double)y;")
    assert text is not None
    found = set()
    for line in text.splitlines():
        made = re.fullmatch(r"(.+) __attribute__\(\((overloadable(?:, (\w+))?)\)\) (\w+)\((.*)\);", line)
        assert made is not None, line
        assert made[4] == name
        found.add((words(f"{made[1]}({made[5]}"), frozenset(filter(None, [made[3]]))))
    return found


def test_declarations_are_those_of_the_header() -> None:
    """A missing overload would let a call mean another one."""
    header = of_the_header()
    assert {name: declared(name) ^ header[name] for name in KNOWN} == {name: set() for name in KNOWN}


@pytest.mark.parametrize(
    "source",
    [
        "__kernel void f(__global float* a) { a[0] = fma(a[0], a[1], a[2]); }",
        "__kernel void f(__global float* a) { a[0] = users_own(a[0]); }",
        "#ifdef cl_khr_fp16\n#endif\n__kernel void f() { barrier(CLK_LOCAL_MEM_FENCE); }",
        '#include "other.h"\n__kernel void f() { barrier(CLK_LOCAL_MEM_FENCE); }',
        "__kernel void f(__global half* a) { half x = a[0]; a[1] = exp(x); }",
        "__kernel void f(__global half4* a) { a[1] = exp(a[0]); }",
    ],
    ids=["not known", "of the user", "asks", "includes", "half", "half in vectors"],
)
def test_programs_that_need_the_header(source: str) -> None:
    assert declarations(source) is None


def test_own_functions_casts_and_loops_are_no_calls() -> None:
    source = (
        "float twice(float x) {\n  return as_float(as_int(x)) * 2;\n}\n"
        "__kernel void f(\n    __global float* restrict a\n) {\n"
        "  for (int i = 0; i < 4; ++i) {\n    if (i > 1) a[i] = twice((float4)(0).s0);\n  }\n}"
    )
    assert declarations(source) == ""


def _building(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The options of each build from now on."""
    seen: list[tuple[str, ...]] = []
    cl = opencl_driver.load_pyopencl()
    monkeypatch.delenv(opencl_driver.OPTIONS, raising=False)

    class Program(cl.Program):  # type: ignore[misc, name-defined]  # pyopencl is imported when first used
        def build(self, options: Any = (), **others: Any) -> Any:
            seen.append(tuple(options))
            return super().build(options=options, **others)

    monkeypatch.setattr(cl, "Program", Program)
    return seen


def _run(name: str) -> np.ndarray:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: te.exp(a[i]) * 2.0, name=name)
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    module = tw.build(s, [a, b], "opencl")
    result = tw.nd.empty((8,), device=opencl())
    module(tw.nd.array(np.arange(8, dtype="float32"), opencl()), result)
    found: np.ndarray = result.numpy()
    return found


@pytest.mark.opencl
def test_a_program_is_built_without_the_header(monkeypatch: pytest.MonkeyPatch) -> None:
    device = opencl_driver.load_pyopencl().get_platforms()[0]
    if device.name.strip() != "Portable Computing Language":
        pytest.skip("the device is not PoCL's")
    seen = _building(monkeypatch)
    assert np.allclose(_run("lean"), 2 * np.exp(np.arange(8)), rtol=1e-5)
    assert seen == [("-w", WITHOUT_HEADER)]


@pytest.mark.opencl
def test_a_program_that_is_refused_without_the_header_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = _building(monkeypatch)
    monkeypatch.setattr(opencl_driver, "declarations", lambda source: "no declaration;\n")
    assert np.allclose(_run("refused"), 2 * np.exp(np.arange(8)), rtol=1e-5)
    assert seen[-1] == ("-w",)


REFUSED = """
from tests.runtime.test_pocl_declarations import _run, opencl_driver
opencl_driver.declarations = lambda source: "no declaration;\\n"
print(_run("refused")[0])
"""


@pytest.mark.opencl
def test_a_refusal_that_has_another_try_is_not_printed(tmp_path: Path) -> None:
    """Clang's words about it would appear when the process ends."""
    environment = {**os.environ, "PYTHONPATH": python_path(), "POCL_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", REFUSED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("2.0\n", "")


@pytest.mark.opencl
def test_a_language_that_is_asked_for_gets_the_header(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = _building(monkeypatch)
    monkeypatch.setenv(opencl_driver.OPTIONS, "-cl-std=CL1.2")
    _run("asked")
    assert seen == [("-w", "-cl-std=CL1.2")]
