"""Operators against their references: a case is one call; the cases of a table are built as one module per target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tilewright as tw
from tests.programs.harness import poison
from tilewright import te, topi
from tilewright.core.dtype import DType
from tilewright.runtime.array import array
from tilewright.runtime.device import device


@dataclass
class Case:
    """`operator(*tensors)` shall return what `expected` holds, for the arrays `given`."""

    name: str
    operator: Callable[..., Any]
    given: Sequence[np.ndarray]
    expected: Any
    schedule: str = "schedule_injective"
    rtol: float = 1e-5
    atol: float = 1e-6
    options: dict[str, Any] = field(default_factory=dict)
    on_opencl: bool = True
    """Whether the case also runs on OpenCL, where kernels with barriers take long to compile."""

    def declared(self) -> tuple[list[te.Tensor], list[te.Tensor]]:
        """The input and the output tensors."""
        inputs = [te.placeholder(a.shape, str(DType(a.dtype)), f"A{i}") for i, a in enumerate(self.given)]
        made = self.operator(*inputs)
        return inputs, list(made) if isinstance(made, (list, tuple)) else [made]


def check(cases: Sequence[Case], target: str) -> None:
    """Build all cases for a target, run them on poisoned outputs, and compare.

    With OpenCL all of them are compiled for CUDA as well, which needs no GPU, and every other one runs: its kernels are
    written as those of CUDA, and what operators mean is checked on the CPU for all of them.
    """
    if target == "opencl":
        built("cuda", cases)
        cases = [case for case in cases if case.on_opencl][::2]
    # LLVM's optimisation takes most of the time, and is not the subject.
    module, made = built("llvm -opt-level=1" if target == "llvm" else target, cases)
    found = (_compared(case, module[entry], read, outputs, target) for case, entry, read, outputs in made)
    wrong = [problem for problem in found if problem]
    assert not wrong, "\n".join(wrong)


def built(target: str, cases: Sequence[Case]) -> tuple[Any, list[tuple[Case, str, list[int], list[te.Tensor]]]]:
    """One module of all cases; and of each its entry, the places of the inputs that it reads, and its outputs."""
    parts: dict[str, Any] = {}
    made: list[tuple[Case, str, list[int], list[te.Tensor]]] = []
    with tw.target.Target(target):
        for number, case in enumerate(cases):
            inputs, outputs = case.declared()
            s = getattr(topi.generic, case.schedule)(outputs, **case.options)
            entry = f"k{number}_{case.name.replace(' ', '_').replace('.', '_')}"
            read = [t for t in inputs if t.op in s.value.stage_of]
            parts[entry] = (s, [*read, *outputs])
            made.append((case, entry, [inputs.index(t) for t in read], outputs))
    return tw.build(parts, target=target), made


def _compared(case: Case, entry: Any, read: Sequence[int], outputs: Sequence[te.Tensor], target: str) -> str:
    on = device(target)
    wanted = list(case.expected) if isinstance(case.expected, (list, tuple)) else [case.expected]
    results = [array(poison(w.shape, str(o.dtype)), on) for w, o in zip(wanted, outputs, strict=True)]
    shapes = [topi.utils.get_const_tuple(o.shape) for o in outputs]
    if shapes != [w.shape for w in wanted] or [str(o.dtype) for o in outputs] != [str(DType(w.dtype)) for w in wanted]:
        return f"{case.name}: {outputs} are declared, but {[(w.shape, w.dtype) for w in wanted]} expected"
    entry(*(array(np.asarray(case.given[i], order="C"), on) for i in read), *results)
    for found, expected in zip(results, wanted, strict=True):
        exact = expected.dtype.kind != "f"
        rtol, atol = (0, 0) if exact else (case.rtol, case.atol)
        try:
            np.testing.assert_allclose(
                found.numpy().astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=atol, equal_nan=True
            )
        except AssertionError as error:
            return f"{case.name} on {target}: {error}"
    return ""
