"""Calls of Tilewright on PyTorch's samples in every memory, each compared with PyTorch in float64."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import torch

from tests.functional.memories import PLAIN, Memory, memories, reversals
from tests.functional.opinfo import ACTIVATIONS, Sample, Wanted, call, gradients, ours, wanted
from tilewright.core.errors import UserError


class Trial(NamedTuple):
    """A call to make: the memory of operands that do not lie as their shape says, and options.

    Operands are x, weight, bias, residual and `out`; `along` is the gradient of the result.
    """

    sample: Sample
    memory: dict[str, Memory]
    activation: str | None = None
    last: bool = False
    """Whether the call is made with the channels last, `layout="NHWC"` or "NWC"."""

    def __str__(self) -> str:
        places = ", ".join(f"{name} {memory.name}" for name, memory in self.memory.items()) or PLAIN.name
        more = [f", {self.activation}"] if self.activation else []
        return "".join([f"{self.sample}: {places}", *more, ", channels last by layout=" if self.last else ""])

    def turned(self, a: Any) -> Any:
        """Return an image in the layout of the call."""
        return a.movedim(-self.sample.rank - 1, -1) if self.last else a

    def turned_back(self, a: Any) -> Any:
        """Return an image of the call's layout with the channels first."""
        return a.movedim(-1, -self.sample.rank - 1) if self.last else a


def _ranks(sample: Sample) -> dict[str, int]:
    """Return the number of dimensions of each operand that a call of this sample may have."""
    image = sample.arrays["x"].dim()
    ranks = {"x": image, "out": image}
    if sample.is_convolution:
        ranks |= {"weight": sample.rank + 2, "residual": image}
    return ranks | ({"bias": 1} if "bias" in sample.arrays else {})


def trials(sample: Sample, kinds: Callable[[int], list[Memory]] = memories) -> Iterator[Trial]:
    """Yield a trial for each operand and each memory of it, in both layouts."""
    for last in (False, True):
        yield Trial(sample, {}, last=last)
        for name, rank in _ranks(sample).items():
            for memory in kinds(rank):
                if not (name == "out" and memory.expanded):
                    yield Trial(sample, {name: memory}, last=last)


def gradient_trials(sample: Sample) -> Iterator[Trial]:
    """Yield a trial for each operand and each memory of it; in place of `out`, of the gradient of the result."""
    for trial in trials(sample):
        yield trial._replace(memory={"along" if name == "out" else name: m for name, m in trial.memory.items()})
    for last in (False, True):
        yield from (Trial(sample, {"along": m}, last=last) for m in memories(_ranks(sample)["out"]) if m.expanded)


def drawn(sample: Sample, rng: random.Random, kinds: Callable[[int], list[Memory]] = memories) -> Trial:
    """Draw the memory of two or more operands, and options that PyTorch's samples do not have."""
    ranks = _ranks(sample)
    names = rng.sample(sorted(ranks), min(len(ranks), rng.choice((2, 2, 2, 3, 4))))
    memory = {n: rng.choice([m for m in kinds(ranks[n]) if not (n == "out" and m.expanded)]) for n in names}
    activation = rng.choice([None, None, *ACTIVATIONS]) if sample.is_convolution else None
    return Trial(sample, memory, activation, rng.random() < 0.3)


def any_memory(rank: int) -> list[Memory]:
    """Return every way to store an array of NumPy or CuPy."""
    return [*memories(rank), *reversals(rank)]


class Torch:
    """Tensors of PyTorch on a device."""

    def __init__(self, device: str) -> None:
        self.device = device

    def place(self, a: Any, memory: Memory) -> Any:
        """Return a contiguous tensor of the CPU in a memory of the device."""
        return memory.place(a.to(self.device))

    def back(self, a: Any) -> Any:
        """Return the values as a tensor of the CPU, in float64."""
        return a.detach().cpu().double()


class NumPy:
    """Arrays of NumPy."""

    def place(self, a: Any, memory: Memory) -> Any:
        """Return a contiguous tensor as an array in this memory."""
        return memory.place(self._array(a)) if "reversed" in memory.name else self._array(memory.place(a))

    @staticmethod
    def _array(a: Any) -> Any:
        return a.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if a.dtype == torch.bfloat16 else a.numpy()

    def back(self, a: Any) -> Any:
        """Return the values as a tensor of the CPU, in float64."""
        return torch.from_numpy(a.astype(np.float64))


class CuPy:
    """Arrays of CuPy, on the GPU; CuPy has no bfloat16."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy

    def place(self, a: Any, memory: Memory) -> Any:
        """Return a contiguous tensor as an array in this memory."""
        plain = "reversed" in memory.name
        array = self.cupy.from_dlpack(a.cuda() if plain else memory.place(a.cuda()))
        return memory.place(array) if plain else array

    def back(self, a: Any) -> Any:
        """Return the values as a tensor of the CPU, in float64."""
        return torch.from_numpy(self.cupy.asnumpy(a).astype(np.float64))


class Bench:
    """Makes calls on arrays of a library, and remembers the results that PyTorch computes for a sample.

    `refusals` are texts of errors that a call may raise; `seen` are those that calls raised.
    """

    def __init__(
        self, library: Torch | NumPy | CuPy, refusals: Callable[[str], str | None], roundings: int = 1
    ) -> None:
        self.library, self.refusals, self.roundings = library, refusals, roundings
        self.seen: set[str] = set()
        self.count = 0
        self._known: dict[Any, Any] = {}

    def fault(self, trial: Trial) -> str:
        """Make a call and return its fault, "" if there is none."""
        return self._text(trial, self._compared)

    def gradient_fault(self, trial: Trial) -> str:
        """Make a call on tensors, differentiate it, and return its fault, "" if there is none."""
        return self._text(trial, self._differentiated)

    def _text(self, trial: Trial, compare: Callable[[Trial], str]) -> str:
        self.count += 1
        try:
            text = compare(trial)
        except UserError as error:
            listed = self.refusals(str(error))
            self.seen |= {listed} if listed else set()
            text = "" if listed else f"is refused: {error}"
        except Exception as error:
            text = f"raises {type(error).__name__}: {error}"
        return f"{trial}: {text}" if text else ""

    def _compared(self, trial: Trial) -> str:
        """Make a call twice, since the second one takes a shorter path."""
        arrays, exact = self._operands(trial)
        out = None
        if "out" in trial.memory:
            empty = torch.full_like(trial.turned(exact.value), torch.nan, dtype=getattr(torch, trial.sample.dtype))
            out = self.library.place(empty.contiguous(), trial.memory["out"])
        before = {name: self.library.back(a).clone() for name, a in arrays.items()}
        for _ in range(2):
            found = _called(trial, arrays, out)
            if out is not None and found is not out:
                return "does not return out"
            if (found.dtype, found.device) != (arrays["x"].dtype, arrays["x"].device):
                return f"is of {found.dtype} on {found.device}"
            if text := exact.fault(trial.turned_back(self.library.back(found))):
                return text
        return next((f"changes {n}" for n, a in before.items() if not torch.equal(a, self.library.back(arrays[n]))), "")

    def _differentiated(self, trial: Trial) -> str:
        arrays, exact = self._operands(trial)
        dtype = getattr(torch, trial.sample.dtype)
        values = torch.randn(exact.value.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        along = self.library.place(trial.turned(values).contiguous().to(dtype), trial.memory.get("along", PLAIN))
        leaves = {name: a.detach().requires_grad_() for name, a in arrays.items()}
        made = _called(trial, leaves, None)
        if text := exact.fault(trial.turned_back(self.library.back(made))):
            return text
        found = dict(zip(leaves, torch.autograd.grad(made, list(leaves.values()), along), strict=True))
        plain = {n: trial.turned_back(a) if n in ("x", "residual") else a for n, a in arrays.items()}
        right = gradients(trial.sample, plain, trial.turned_back(along))
        for name, gradient in found.items():
            if gradient.dtype != dtype:
                return f"the gradient of {name} is of {gradient.dtype}"
            back = self.library.back(gradient)
            if text := right[name].fault(trial.turned_back(back) if name in ("x", "residual") else back):
                return f"the gradient of {name} {text}"
        return ""

    def _operands(self, trial: Trial) -> tuple[dict[str, Any], Wanted]:
        """Return the operands of a call in their memory, and the result that it must have."""
        sample = trial.sample
        plain = sample.arrays | ({"residual": self._residual(sample)} if "residual" in trial.memory else {})
        placed: dict[str, Any] = {}
        expanded = {}
        for name, a in plain.items():
            image, memory = name in ("x", "residual"), trial.memory.get(name, PLAIN)
            placed[name] = self.library.place((trial.turned(a) if image else a).contiguous(), memory)
            if memory.expanded:
                values = self.library.back(placed[name])
                expanded[name] = trial.turned_back(values) if image else values
        if expanded:
            return placed, wanted(sample, plain | expanded, self.roundings, trial.activation)
        key = (sample, "residual" in plain, trial.activation)
        if key not in self._known:
            self._known[key] = wanted(sample, plain, self.roundings, trial.activation)
        return placed, self._known[key]

    def _residual(self, sample: Sample) -> Any:
        key = (sample, "values of the residual")
        if key not in self._known:
            shape = wanted(sample, sample.arrays).value.shape
            values = torch.randn(shape, generator=torch.Generator().manual_seed(2))
            self._known[key] = values.to(getattr(torch, sample.dtype))
        return self._known[key]


def _called(trial: Trial, arrays: dict[str, Any], out: Any) -> Any:
    layout = {"layout": "NHWC" if trial.sample.rank == 2 else "NWC"} if trial.last else {}
    given = {"residual": arrays.get("residual"), "activation": trial.activation, "out": out}
    more = {name: value for name, value in given.items() if value is not None}
    return call(ours(trial.sample), trial.sample, arrays, **more, **layout)
