"""A device and its arrays: a candidate runs on poisoned output, is compared, timed, and compared again."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen.abi import ArrayArgument, EntryPoint, Resources
from ..core.errors import InternalError, TVMError, UserError
from ..core.text import quantity
from ..runtime.device import Device
from ..runtime.driver import DeviceError
from ..runtime.module import Module
from . import reference_file
from .exclusive import turn
from .guarded_array import GuardedArray
from .outcome import (
    BuildFailed,
    Measured,
    Outcome,
    ReferenceDisputed,
    ReferenceLost,
    RunFailed,
    WrongAnswer,
    shorten,
)
from .output_comparison import SECOND_POISON, Wanted, WantedSample, changed, same_bytes
from .protocol import RunRequest

_IDLE_SECONDS = 0.3
"""A GPU that was idle for at least this time is assumed to have lowered its clock."""
_WARM_SECONDS = 0.05
"""Such a GPU first runs a kernel for this time, unmeasured, so that its clock rises again."""
_PATIENCE = 0.25
"""The part of a candidate's time limit that each wait for another search may take."""


class _WrongError(Exception):
    """The kernel computed something else."""


class _OutsideError(Exception):
    """The kernel wrote out of bounds."""


class _LostError(Exception):
    """The reference cannot be read."""


class _DisputedError(Exception):
    """The kernel computed something else than an earlier one, at elements outside the sample of the reference."""

    def __init__(self, points: tuple[np.ndarray, ...]) -> None:
        super().__init__("its outputs differ from another candidate's")
        self.points = points


class DeviceRunner:
    """The device and the arrays on it, kept from request to request while the workload stays the same."""

    def __init__(self, on: Device) -> None:
        self.on = on
        self.healthy = True
        self.rng = np.random.default_rng()
        self.busy_until = 0.0
        self.resources: dict[str, Resources] = {}
        self.stages: dict[str, float] = {}
        """Seconds of the parts of the last turn."""
        self._since = 0.0
        self._file: tuple[str, Any] = ("", None)
        self._arrays: tuple[Any, list[GuardedArray]] = (None, [])

    def attempt(self, request: RunRequest, ran: Callable[[], None]) -> Outcome:
        """Run, check and time a candidate; `ran` is called when it has run once."""
        self.stages, self._since = {}, time.perf_counter()
        try:
            costs = self._run(request, ran)
        except _WrongError as error:
            self._arrays = (None, [])
            return WrongAnswer(reason=str(error))
        except _DisputedError as error:
            return ReferenceDisputed(reason=str(error), path=request.reference, points=error.points)
        except _LostError as error:
            return ReferenceLost(reason=shorten(f"its reference cannot be read: {error}"), path=request.reference)
        except _OutsideError as error:
            self.healthy = False  # the kernel may have written anywhere
            return RunFailed(reason=str(error))
        except InternalError as error:  # the driver's compiler refuses the source
            return BuildFailed(reason=shorten(str(error)), stage="compile")
        except (DeviceError, UserError) as error:
            self._examine()
            return RunFailed(reason=shorten(str(error)))
        except Exception as error:
            self._examine()
            return RunFailed(reason=shorten(f"{type(error).__name__}: {error}"))
        sampled = sum(each.sample.points.size for each in self._samples(request).values())
        return Measured(costs=costs, checked=bool(request.reference), sampled=sampled, resources=self.resources)

    def _examine(self) -> None:
        """Whether the device still works: an error of a kernel can leave the whole context unusable."""
        self._arrays = (None, [])
        try:
            self.on.sync()
            probe = GuardedArray("probe", (16,), "int32", self.on)
            probe.fill(None)
            self.healthy = not probe.changed()
        except (TVMError, OSError, RuntimeError):
            self.healthy = False

    def _run(self, request: RunRequest, ran: Callable[[], None]) -> tuple[float, ...]:
        program = pickle.loads(request.program)
        module = Module(program)
        entry = program.entries[0]
        self.resources = dict(program.resources)
        self._passed("load")
        arrays = self._prepare(request, entry)
        args = [a.array for a in arrays]
        self._passed("prepare")
        patience = request.options.timeout * _PATIENCE
        with turn(self.on, patience):
            module(*args)
            self.on.sync()
        ran()
        self._passed("first run")
        first = self._check(request, arrays)
        samples = self._samples(request)
        self._dispute(request, samples, first)
        for rank in samples:
            arrays[request.spec.outputs[rank]].fill(None, SECOND_POISON)
        self._passed("check")
        options = request.options
        flush = 2 * self.on.attributes.l2_cache_bytes if options.enable_cpu_cache_flush else 0
        timed = module.time_evaluator(
            entry.name,
            self.on,
            number=options.number,
            repeat=options.repeat,
            min_repeat_ms=options.min_repeat_ms,
            cache_flush_bytes=flush,
        )
        with turn(self.on, patience):
            self._warm(module, entry.name, args)
            self._passed("warm")
            costs = timed(*args).results
        self.busy_until = time.monotonic()
        self._passed("time")
        self._check(request, arrays, first)
        for rank, sample in samples.items():
            sample.agreed(first[rank])
        self._passed("check again")
        return costs

    def _samples(self, request: RunRequest) -> dict[int, WantedSample]:
        """The samples of the reference, by the ranks of their outputs."""
        expected = self._load(request)[1] if request.reference else []
        return {rank: each for rank, each in enumerate(expected) if isinstance(each, WantedSample)}

    def _dispute(self, request: RunRequest, samples: dict[int, WantedSample], found: list[np.ndarray]) -> None:
        """Raise _DisputedError if outputs differ from an earlier candidate's."""
        none = np.empty(0, np.int64)
        points = tuple(
            samples[rank].disputed(each, request.spec.tolerance) if rank in samples else none
            for rank, each in enumerate(found)
        )
        if any(each.size for each in points):
            raise _DisputedError(points)

    def _passed(self, stage: str) -> None:
        """Note how long a part of the turn took, which ends now."""
        now = time.perf_counter()
        self.stages[stage], self._since = now - self._since, now

    def _warm(self, module: Module, name: str, args: list[Any]) -> None:
        if self.on.kind == "cuda" and time.monotonic() - self.busy_until > _IDLE_SECONDS:
            module.time_evaluator(name, self.on, number=1, min_repeat_ms=_WARM_SECONDS * 1e3)(*args)

    def _prepare(self, request: RunRequest, entry: EntryPoint) -> list[GuardedArray]:
        """The arguments: inputs from the reference, or random, and poisoned outputs."""
        wanted = [a for a in entry.arguments if isinstance(a, ArrayArgument)]
        key = (request.spec.declaration, request.reference, tuple(wanted))
        outputs = request.spec.outputs
        if self._arrays[0] != key:
            self._arrays = (None, [])  # freed before others are made
            arrays = GuardedArray.row([(a.name, _shape(a), a.dtype) for a in wanted], self.on)
            given = iter(self._load(request)[0]) if request.reference else None
            for position, array in enumerate(arrays):
                if position not in outputs:
                    array.fill(self._input(array, next(given, None) if given else None, bool(given)))
            self._arrays = (key, arrays)
        arrays = self._arrays[1]
        for position in outputs:
            arrays[position].fill(None)
        return arrays

    def _input(self, array: GuardedArray, given: np.ndarray | None, required: bool) -> np.ndarray:
        shape, dtype = array.array.shape, array.dtype.numpy
        if not required:
            return reference_file.random(shape, array.dtype, self.rng, careful=True)
        if given is not None and given.dtype.kind == "V" and given.itemsize == dtype.itemsize:
            given = given.view(dtype)  # a type of ml_dtypes, which comes back from a file as mere bytes
        if given is None or given.shape != shape:
            found = "none" if given is None else f"one of shape {given.shape}"
            raise UserError(
                f"the reference returns {found} for the input {array.name} of shape {shape}",
                fix="return an array of that shape",
            )
        return given.astype(dtype, copy=False)

    def _load(self, request: RunRequest) -> Any:
        path, branches = request.reference, request.spec.branches
        if self._file[0] != path:
            self._file = ("", None)
            try:
                inputs, expected = reference_file.load(path)
                made = [
                    WantedSample(each, branches) if isinstance(each, reference_file.OutputSample)
                    else Wanted(each, branches) for each in expected
                ]  # fmt: skip
                self._file = (path, (inputs, made))
            except Exception as error:  # deleted, cut off, or too large for the memory that is left
                raise _LostError(f"{type(error).__name__}: {error}") from error
        return self._file[1]

    def _check(
        self, request: RunRequest, arrays: list[GuardedArray], first: list[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """Compare the outputs, and return them; `first`: the outputs as compared before the timing.

        At the end, and if outputs are wrong, check inputs and guards, too.
        """
        outputs = request.spec.outputs
        expected = self._load(request)[1] if request.reference else []
        if request.reference and len(expected) != len(outputs):
            raise UserError(
                f"the reference returns {quantity(len(expected), 'output')}, but the kernel has {len(outputs)}",
                fix="return one array for each output",
            )
        found, damage, wrong = [], [], []
        for rank, position in enumerate(outputs):
            values, outside = arrays[position].read()
            found.append(values)
            damage.append(outside)
            if request.reference and (first is None or not same_bytes(values, first[rank])):
                name, allowed = arrays[position].name, request.spec.tolerance
                wrong.append(expected[rank].compare(name, values, allowed))
                if first is not None and isinstance(expected[rank], WantedSample):
                    wrong.append(changed(name, first[rank], values, allowed))
        if first is not None or any(wrong):
            damage += [array.changed() for i, array in enumerate(arrays) if i not in outputs]
            damage += [array.stray() for array in arrays]
        if any(damage):
            raise _OutsideError("; ".join(filter(None, damage)))
        if any(wrong):
            again = " (right at first, wrong after it was timed)" if first is not None else ""
            raise _WrongError("; ".join(filter(None, wrong)) + again)
        return found


def _shape(argument: ArrayArgument) -> tuple[int, ...]:
    extents = tuple(extent for extent in argument.shape if isinstance(extent, int))
    if len(extents) != len(argument.shape):
        raise UserError(
            f"{argument.name} has the shape {argument.shape}: only known sizes can be measured",
            fix="tune for constant sizes: give the template numbers",
        )
    return extents
