"""What becomes of a case: in the interpreter, and where it can run, on this CPU, on OpenCL and on a GPU.

The engine "ptx" runs nothing: it looks at what NVRTC makes of a kernel, which needs no GPU. The engine "text" compares
the loops of an automatic schedule with those of its program in Python.
"""

from __future__ import annotations

import re
import traceback
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright
from tests.codegen.ptx import read_stale
from tests.emulator.device import EmulationError, emulated, emulation
from tests.fuzz.automatic import target_of
from tests.fuzz.cases import Case, Script
from tests.fuzz.seeded import SEEDED
from tests.passes.running import finish
from tilewright.core.errors import InternalError, UserError
from tilewright.core.target import Target
from tilewright.loops.interpret import interpret
from tilewright.loops.interpret.memory import InterpretError
from tilewright.loops.nodes import Function
from tilewright.loops.verify import Form, verify
from tilewright.runtime.module import Module

CUDA = Target("cuda -arch=sm_90")
TARGETS = {"llvm": "llvm -fp-contract=off", "opencl": "opencl -device=gpu", "cuda": "cuda"}
OF_TARGET = {
    "llvm": ("text", "interpreter", "llvm"),
    "cuda": ("text", "interpreter", "ptx", "emulated", "cuda"),
    "opencl": ("text", "interpreter", "opencl"),
}
_CLOSE = {"float64": (1e-9, 1e-10), "float32": (2e-4, 2e-5), "float16": (3e-2, 1e-2)}
"""The relative and the absolute error that results of inexact operators may have."""
_ROWS_APART = re.compile(r"te\.scan\((.|\n)*\.split\(")
FAULTS = ("wrong", "internal error", "crash", "hang")


@dataclass(frozen=True)
class Verdict:
    """What became of a case: "right", "refused" or one of FAULTS; where, and details.

    "unlike" and "slow" are faults of a device's compiler: it computes something else in another of its modes, or takes
    longer than a case may.
    """

    outcome: str
    where: str = ""
    detail: str = ""

    @property
    def is_fault(self) -> bool:
        return self.outcome in FAULTS

    def like(self, other: Verdict) -> bool:
        """Whether another verdict is the same fault, for shrinking; numbers and names may differ."""
        return (self.outcome, self.where, self.kind) == (other.outcome, other.where, other.kind)

    @property
    def kind(self) -> str:
        """The detail without its numbers and names: what it has in common with others."""
        lines = [line for line in self.detail.splitlines() if line.strip()]
        line = lines[-1 if self.outcome == "internal error" else 0] if lines else ""
        line = re.sub(r"\(first \+ rows: .*\) that", "that", line)
        return re.sub(r"'[^']*'|`[^`]*`|\d+|\[.*?\]", "·", line)


def judge(case: Case, engines: tuple[str, ...], tell: Any = None) -> Verdict:
    """Run a case on all `engines` that it fits; `tell` is called with the name of each before it runs."""
    where = "interpreter"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seeded = SEEDED.get(case.family)
            script = Script(case) if seeded is None else None
            for where in stations(case, engines):
                if tell is not None:
                    tell(where)
                if script is None:
                    wrong = seeded(case.seed, where) if seeded is not None else ""
                else:
                    wrong = _ENGINES.get(where, _ran)(script, where)
                if wrong:
                    return Verdict("wrong", where, wrong)
    except UserError as error:
        return Verdict("refused", where, str(error))
    except KeyError as error:  # shrinking has taken a line away that others need
        if str(error).strip("'") in ("s", "outputs", "kept") or str(error).strip("'") in case.tensors:
            return Verdict("refused", where, "the script is incomplete")
        return Verdict("internal error", where, traceback.format_exc(limit=-4))
    except Exception:
        return Verdict("internal error", where, traceback.format_exc(limit=-4))
    return Verdict("right")


def stations(case: Case, engines: tuple[str, ...]) -> list[str]:
    """The engines that fit a case: kernels run on devices, other programs on the CPU.

    An automatic schedule runs on the engines of its target.
    """
    target = target_of(case)
    if target:
        return [engine for engine in OF_TARGET[target] if engine in engines]
    fitting = ("interpreter", "ptx", "opencl", "emulated", "cuda") if case.on_grid else ("interpreter", "llvm")
    if case.family in SEEDED:
        fitting = tuple(engine for engine in fitting if engine != "ptx")
    return [engine for engine in fitting if engine in engines]


def _interpreted(script: Script, engine: str) -> str:
    """Interpret the program as it is compiled, for GPUs too where that differs; "" or what is wrong."""
    (part,) = tilewright.lower(script.schedule, script.arguments).parts
    programs = [("finished", _finished(part.function))]
    verify(part.function, Form.FLAT)
    compiled = part.compiled_for(CUDA).function
    if compiled is not part.function:
        programs.append(("finished for GPUs", _finished(compiled)))
    for given in script.calls():
        expected = script.expected(given)
        for how, function in programs:
            if wrong := _interpret(script, given, expected, function):
                return f"{how}: {wrong}"
    return ""


def _finished(function: Function) -> Function:
    """The function as it is compiled, verified after each pass; UserError for what a later pass refuses."""
    try:
        return finish(function, check=True)
    except InternalError:
        finish(function)
        raise


def _interpret(script: Script, given: dict[Any, Any], expected: list[np.ndarray], function: Function) -> str:
    inputs = [array for key, array in given.items() if key not in script.variables]
    results = script.empty(given)
    outputs = function.buffers[len(inputs) :]
    try:
        interpret(function, [*inputs, *results], outputs=outputs)
    except InterpretError as error:
        # A tile of a step's row that is bound to threads holds rows of later steps, which are computed and not stored.
        if "never written" not in str(error) or not _ROWS_APART.search(script.case.text):
            raise
        results = script.empty(given)
        interpret(function, [*inputs, *results], outputs=outputs, unwritten=False)
    return _difference(script, results, expected)


def _compiled(script: Script, engine: str) -> str:
    """Compile the program for a GPU; "" or which loads may miss what the kernel has stored."""
    return "; ".join(read_stale(tilewright.build(script.schedule, script.arguments, CUDA)))


def _printed(script: Script, engine: str) -> str:
    """Whether the schedule printed as Python makes the same loops; "" or the text."""
    text = script.schedule.as_python()
    names: dict[str, Any] = {}
    exec(text, names)
    again = names["schedule"](*{tensor.op: tensor for tensor in script.schedule.computed}.values())
    loops = [str(tilewright.lower(s, script.arguments, simple_mode=True)) for s in (script.schedule, again)]
    return "" if loops[0] == loops[1] else f"another schedule:\n{text}"


def _ran(script: Script, engine: str) -> str:
    """Run the program by an engine; "" or what is wrong."""
    if engine == "emulated":
        try:
            with emulation(script.case.seed):
                return _called(script, emulated(script.schedule, script.arguments), "cuda")
        except EmulationError as failure:
            return str(failure)
    return _called(script, tilewright.build(script.schedule, script.arguments, TARGETS[engine]), engine)


def _called(script: Script, module: Module, engine: str) -> str:
    device = tilewright.device("cpu" if engine == "llvm" else engine, 0)
    for given in script.calls():
        inputs = [array for key, array in given.items() if key not in script.variables]
        arrays = [tilewright.nd.array(array, device) for array in (*inputs, *script.empty(given))]
        module(*arrays)
        found = [np.asarray(array.numpy()) for array in arrays[len(inputs) :]]
        if wrong := _difference(script, found, script.expected(given)):
            return wrong
    return ""


def _difference(script: Script, found: list[np.ndarray], expected: list[np.ndarray]) -> str:
    """Where the outputs, the last of `found`, are not what is expected; "" where they are.

    Operators of the library are compared closely, other programs exactly.
    """
    for tensor, values, right in zip(script.program.outputs, found[-len(expected) :], expected, strict=True):
        differs = np.asarray(values, right.dtype) != right
        if script.case.family.endswith("operators") and tensor.dtype.is_float:
            differs = ~np.isclose(values, right, *_CLOSE[str(tensor.dtype)])
        if differs.any():
            at = tuple(int(i) for i in np.argwhere(differs)[0])
            return f"{tensor.name}{list(at)} is {values[at]}, not {right[at]}; {differs.sum()} of {right.size} differ"
    return ""


_ENGINES = {"interpreter": _interpreted, "ptx": _compiled, "text": _printed}
