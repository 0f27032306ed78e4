"""One hostile call: any public function with arguments that fit, and some that do not."""

from __future__ import annotations

import inspect
import random
import traceback
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import tilewright as tw
from tests.hostile.world import Mine, World, device, module, tuner
from tilewright import autotvm
from tilewright.autotvm.task import ConfigSpace
from tilewright.core.errors import InternalError, UserError
from tilewright.runtime.driver import DeviceError

_FACES = (
    "te te.hybrid te.operation te.schedule te.tensor tir tir.analysis tir.stmt_functor tir.transform nd topi topi.nn "
    "topi.image topi.generic topi.cuda topi.x86 target transform runtime intrin ir arith testing contrib.nvcc "
    "contrib.clang contrib.cblas fleet autotvm autotvm.record autotvm.feature autotvm.measure autotvm.task "
    "autotvm.task.dispatcher autotvm.templates autotvm.tuner"
).split()
LEFT_OUT = {
    **dict.fromkeys(
        ("runtime.set_num_threads", "runtime.set_debug", "register_func", "get_global_func"),
        "changes the process for all calls after it",
    ),
    **dict.fromkeys(("tir.Reduce", "tir.StringImm"), "an interned node, which Python refuses to make of lists"),
    **dict.fromkeys(("arith.IterMapLevel", "autotvm.MeasureErrorNo"), "an enumeration of Python's"),
    "tir.ir_builder": "a module; what its `create` returns is called by its methods, `builder.*`",
    **dict.fromkeys(("accelerate", "nn"), "needs PyTorch; tests/functional/test_torch.py"),
    "testing.main": "runs its caller's tests and ends the process",
    "testing.enabled_targets": "asks for devices in this process, which has too few addresses for some drivers",
}
"""Public callables that no case calls, and why. Errors are left out too: users catch them."""
_METHODS: dict[str, Callable[[World], Any]] = {
    "schedule": lambda w: w.s,
    "stage": lambda w: w.s[w.rng.choice([w.B, w.C])],
    "tensor": lambda w: w.rng.choice([w.A, w.C]),
    "op": lambda w: w.C.op,
    "axis": lambda w: w.rng.choice(w.leaves),
    "expression": lambda w: w.A[0, 0] + 1,
    "array": lambda w: tw.nd.empty((8, 6), device=device()),
    "module": lambda w: module(),
    "function": lambda w: module().entry_func,
    "lowered": lambda w: tw.lower(w.s, w.args),
    "device": lambda w: device(),
    "Target": lambda w: tw.target.Target("cuda -arch=sm_90"),
    "space": lambda w: ConfigSpace(),
    "conv2d": lambda w: autotvm.templates.conv2d,
    "conv1d": lambda w: autotvm.templates.conv1d,
    "builder": lambda w: tw.tir.ir_builder.create(),
    "allocated": lambda w: tw.tir.ir_builder.create().allocate("float32", (8,), name="a", scope="local"),
    "intrinsic": lambda w: tw.intrin.mma("float16"),
    "tuner": tuner,
}
_OPERANDS = {
    **dict.fromkeys("neg invert iter len bool float int hash repr str".split(), 0),
    **dict.fromkeys("getitem contains eq lt add sub mul truediv floordiv mod pow and or lshift".split(), 1),
    "setitem": 2,
}
"""Operators, and how many operands Python passes to each."""
_INSIDE = {
    *("runs_on", "follow", "report", "children", "map_children"),
    *("acts_below", "choices_below", "read_below", "written_below"),
}
"""Methods that the compiler and the tuner call, not users."""
_UNSET = {"tuner.index_offset", "tuner.range_length", "tuner.counter"}
"""Names of a class that only some of its objects have."""
_SLOW = {"module.time_evaluator", "function.time_evaluator"}


def _face(name: str) -> Any:
    """A module of the package, or an object that stands for one."""
    home: Any = tw
    for part in name.split("."):
        home = getattr(home, part, None)
    try:
        return import_module(f"tilewright.{name}") if home is None else home
    except ImportError:  # not in this version
        return None


@cache
def exported() -> dict[str, Any]:
    """Every public callable of the package and of its faces by the first of its names, but for classes of errors."""
    found: dict[str, Any] = {}
    for face in _FACES:
        home = _face(face)
        for name in getattr(home, "__all__", dir(home)):
            value = getattr(home, name, None)
            if face.startswith(("contrib.", "testing")):
                made = getattr(value, "__module__", None) or ""
                if home.__name__ not in (made, made.rpartition(".")[0]):
                    continue  # what the module itself imports from elsewhere
            found[f"{face}.{name}"] = value
    found.update((name, getattr(tw, name)) for name in sorted(tw._NAMES) if name != "accelerate")
    for name in ("log_to_file", "progress_bar", "Monitor"):
        found[f"autotvm.callback.{name}"] = getattr(autotvm.callback, name)
    seen: dict[int, str] = {}
    public = ((name, value) for name, value in found.items() if not name.rpartition(".")[2].startswith("_"))
    ours = ((n, v) for n, v in public if callable(v) and v.__module__.startswith("tilewright"))
    called = ((n, v) for n, v in ours if not (isinstance(v, type) and issubclass(v, Exception)))
    return {name: value for name, value in called if seen.setdefault(id(value), name) == name}


@cache
def surface() -> tuple[tuple[str, Callable[[World], Any]], ...]:
    """Every public callable, by name: functions of the faces, and methods of what they give."""
    found: dict[str, Callable[[World], Any]] = {
        name: lambda w, value=value: value for name, value in exported().items() if name not in LEFT_OUT
    }
    world = World(random.Random(0))
    for owner, get in _METHODS.items():
        for name in dir(get(world)):
            public = not name.startswith("_") or name.strip("_") in (*_OPERANDS, "call")
            if public and name not in _INSIDE and f"{owner}.{name}" not in _SLOW | _UNSET:
                found[f"{owner}.{name}"] = lambda w, get=get, name=name: getattr(get(w), name)
    return tuple(sorted(found.items()))


class Call:
    """Call number `number` of a seed: what it calls, with what, and what comes of it.

    Numbers go round the surface. What one function is called with does not depend on which others there are.
    """

    def __init__(self, seed: int, number: int) -> None:
        turn, at = divmod(number, len(surface()))
        self.name, self.get = surface()[at]
        self.rng = random.Random(f"{seed} {turn} {self.name}")
        self.shown = self.name

    def run(self) -> str:
        """Empty where the outcome is one of those that a user may meet; else what went wrong."""
        world = World(self.rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                function = self.get(world)
                if not callable(function):
                    return ""
                args, named = self._arguments(function, world)
                self.shown = f"{self.name}({_text(args)}, {_text(named)})"[:600]
                made = function(*args, **named)
                if not isinstance(made, tw.nd.NDArray) or made.size < 1000:
                    repr(made)
                if self.rng.random() < 0.3:  # what was done must not break what comes after
                    tw.lower(world.s, world.args)
            except (UserError, Mine, DeviceError) as error:
                before = error.__context__ if isinstance(error, UserError) and not error.__suppress_context__ else None
                return "" if before is None or isinstance(before, Mine) else _report(before)
            except AssertionError as error:  # which is what these are for
                return "" if self.name.startswith("testing.") else _report(error)
            except BaseException as error:  # whatever a call raises is its outcome
                return "" if _is_callers(error) else _report(error)
        return ""

    def _arguments(self, function: Any, world: World) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        named: dict[str, Any] = {}
        operands = _OPERANDS.get(self.name.rpartition(".")[2].strip("_"))
        if "__" in self.name and operands is not None:
            return [world.hostile() for _ in range(operands)], named
        if self.rng.random() < 0.2:
            return self._one_wrong(function, world)
        for parameter in _parameters(function):
            if parameter.kind is parameter.VAR_POSITIONAL:
                args += [world.fitting(parameter.name) for _ in range(self.rng.randrange(3))]
            elif parameter.kind is parameter.VAR_KEYWORD:
                if self.rng.random() < 0.1:
                    named["nonsense"] = world.hostile()
            elif parameter.default is parameter.empty or self.rng.random() < 0.3:
                value = world.fitting(parameter.name) if self.rng.random() < 0.6 else world.hostile()
                if parameter.kind is parameter.KEYWORD_ONLY or named:
                    named[parameter.name] = value
                elif parameter.default is parameter.empty:
                    args.append(value)
                else:
                    named[parameter.name] = value
        return args, named

    def _one_wrong(self, function: Any, world: World) -> tuple[list[Any], dict[str, Any]]:
        """Arguments that fit but for one, which the function looks at only where the others pass its checks."""
        given = [p for p in _parameters(function) if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        wrong = self.rng.choice(given) if given else None
        args: list[Any] = []
        named: dict[str, Any] = {}
        for parameter in given:
            if parameter is not wrong and parameter.default is not parameter.empty:
                continue
            value = world.hostile() if parameter is wrong else world.fitting(parameter.name)
            if parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
                args.append(value)
            else:
                named[parameter.name] = value
        return args, named


def _parameters(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def _is_callers(error: BaseException) -> bool:
    """Whether Python itself refused the call, by the signature of what was called, or on behalf of the user's code."""
    frames = traceback.extract_tb(error.__traceback__)
    passed_on = ("expr/constructors.py", "compat/topi/by_template.py")  # all arguments, to the function that they wrap
    if isinstance(error, TypeError) and (len(frames) == 1 or frames[-1].filename.endswith(passed_on)):
        return True
    return not isinstance(error, InternalError) and "raised by " in "".join(getattr(error, "__notes__", []))


def _report(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/tilewright/" in f.filename]
    at = " < ".join(f"{f.filename.partition('/tilewright/')[2]}:{f.lineno} {f.name}" for f in reversed(frames[-3:]))
    return f"{type(error).__name__}: {str(error)[:200]!r} at {at}"


def _text(values: Any) -> str:
    try:
        return repr(values)[:300]
    except BaseException as error:  # a repr of ours, perhaps
        return f"<repr raised {type(error).__name__}>"
