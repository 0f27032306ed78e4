"""PyTorch's own samples (OpInfo) in every memory order, against PyTorch in float64.

A share of the product of samples, types, operands and memories runs by default, all of it with the marker `slow`.
`docs/functional.md` lists the calls that PyTorch accepts and Tilewright refuses.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.core.errors import UserError
from tilewright.functional.planning import plans, rivals

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("expecttest", reason="expecttest is not installed, which PyTorch's samples need")

from tests.functional.opinfo import (  # noqa: E402
    FLOATS,
    OPERATORS,
    VERSIONS,
    Sample,
    call,
    database,
    mistakes,
    ours,
    samples,
    version_is_known,
)
from tests.functional.opinfo_trials import (  # noqa: E402
    Bench,
    CuPy,
    NumPy,
    Torch,
    Trial,
    any_memory,
    drawn,
    gradient_trials,
    trials,
)
from tilewright.functional.pytorch import tensors as torch_tensors  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "functional.md"
pytestmark = pytest.mark.usefixtures("little_optimisation")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
DIVIDING = [dtype for dtype in FLOATS if dtype != "float32"]
WHOLE = pytest.param(1.0, marks=pytest.mark.slow, id="all")
if not version_is_known():
    pytest.skip(f"samples of PyTorch {', '.join(VERSIONS)}, not of {torch.__version__}", allow_module_level=True)


@pytest.fixture(autouse=True)
def one_thread_and_no_tf32() -> Iterator[None]:
    """Small layers need no threads; PyTorch's own kernels and gradients compute in float32, as the bounds assume."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield
    torch.set_num_threads(threads)
    plans.forget()


@pytest.fixture
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bench]:
    """Return a function that returns a bench for a device; its calls run Tilewright's kernels, or all PyTorch's."""

    def made(device: str, by: str = "tilewright") -> Bench:
        if device == "cuda" and not torch.cuda.is_available():
            pytest.skip("PyTorch sees no GPU")
        plans.forget()
        monkeypatch.setattr(torch_tensors, "RIVAL", "" if by == "tilewright" else "torch, by a test")
        if by == "torch":
            monkeypatch.setattr(rivals, "is_undecided", lambda *_: False)
            monkeypatch.setattr(rivals, "reason_for_rival", lambda *_: "a test says so")
        return Bench(Torch(device), refusal, 1 if by == "tilewright" else 3)

    return made


def refusals() -> list[str]:
    """Return the texts of errors in the table of refusals; "…" stands for any text."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Calls that PyTorch accepts and Tilewright refuses\n")[2]
    rows = [line.split("|")[2] for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    return [match.group(1) for row in rows if (match := re.search(r"`(.+)`", row))]


def refusal(text: str) -> str | None:
    """Return the row of the table that lists an error."""
    return next((row for row in refusals() if re.search(".*".join(map(re.escape, row.split("…"))), text)), None)


def held(faults: Iterable[str]) -> None:
    """Fail with the first faults, if there are any."""
    found = [fault for fault in faults if fault]
    assert not found, f"{len(found)} wrong:\n" + "\n".join(found[:15])


def share(everything: Iterable[Any], part: float, seed: str) -> list[Any]:
    """Return a part of a list, always the same one."""
    found = list(everything)
    if not found:
        return []
    kept = random.Random(seed).sample(range(len(found)), max(1, round(part * len(found))))
    return [found[place] for place in sorted(kept)]


def some(operator: str, dtype: str, part: float) -> list[Sample]:
    """Return samples of an operator that can be computed: in float32 all, or, of hundreds, a share.

    The other types divide the samples among themselves, unless all are asked for.
    """
    found = [sample for sample in samples(operator, dtype) if not sample.kwargs.get("return_indices")]
    if dtype in DIVIDING and part < 1:
        found = found[DIVIDING.index(dtype) :: len(DIVIDING)]
    return share(found, max(part, 0.08) if len(found) > 100 else 1, f"{operator} {dtype}")


def test_pytorch_has_the_samples() -> None:
    """A failed import fails here, rather than leaving the tests out."""
    assert set(database()) == set(OPERATORS)


@pytest.mark.parametrize("part", [0.1, WHOLE])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("by", ["tilewright", "torch"])
@pytest.mark.parametrize("device", DEVICES)
def test_samples_as_they_are(bench: Callable[..., Bench], device: str, by: str, dtype: str, part: float) -> None:
    on = bench(device, by)
    plain = [Trial(sample, {}) for operator in OPERATORS for sample in some(operator, dtype, part)]
    held([*map(on.fault, plain), *map(on.gradient_fault, plain)])


@pytest.mark.parametrize("part", [0.06, WHOLE])
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("by", ["tilewright", "torch"])
@pytest.mark.parametrize("device", DEVICES)
def test_one_operand_in_every_memory(
    bench: Callable[..., Bench], device: str, by: str, operator: str, part: float
) -> None:
    on = bench(device, by)
    for dtype in FLOATS:
        everything = [trial for sample in some(operator, dtype, part) for trial in trials(sample)]
        held(map(on.fault, share(everything, part, dtype)))


@pytest.mark.parametrize("part", [0.03, WHOLE])
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("device", DEVICES)
def test_gradients_in_every_memory(bench: Callable[..., Bench], device: str, operator: str, part: float) -> None:
    on = bench(device)
    for dtype in FLOATS:
        everything = [trial for sample in some(operator, dtype, part) for trial in gradient_trials(sample)]
        held(map(on.gradient_fault, share(everything, part, dtype)))


@pytest.mark.parametrize("count", [1, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("by", ["tilewright", "torch"])
@pytest.mark.parametrize("device", DEVICES)
def test_many_operands_in_any_memory(bench: Callable[..., Bench], device: str, by: str, count: int) -> None:
    on, rng = bench(device, by), random.Random(0)
    given = [sample for operator in OPERATORS for dtype in FLOATS for sample in some(operator, dtype, count / 40)]
    held(on.fault(drawn(sample, rng)) for sample in given for _ in range(count))


@pytest.mark.parametrize("part", [0.05, WHOLE])
@pytest.mark.parametrize("operator", OPERATORS)
def test_arrays_of_numpy(operator: str, part: float) -> None:
    on = Bench(NumPy(), refusal)
    for dtype in FLOATS:
        everything = [trial for sample in some(operator, dtype, part) for trial in trials(sample, any_memory)]
        held(map(on.fault, share(everything, part, dtype)))


@pytest.mark.cuda
@pytest.mark.parametrize("part", [0.02, WHOLE])
def test_arrays_of_cupy(part: float) -> None:
    on = Bench(CuPy(pytest.importorskip("cupy", reason="CuPy is not installed")), refusal)
    for operator in OPERATORS:
        given = [s for dtype in FLOATS if dtype != "bfloat16" for s in some(operator, dtype, part)]
        held(map(on.fault, share([t for s in given for t in trials(s, any_memory)], part, operator)))


@pytest.mark.parametrize("device", DEVICES)
def test_an_empty_batch_in_every_memory(bench: Callable[..., Bench], device: str) -> None:
    on = bench(device)
    for operator in OPERATORS:
        batched = [sample.empty() for sample in some(operator, "float32", 0) if sample.is_batched]
        held(map(on.fault, share([t for sample in batched for t in trials(sample)], 0.2, operator)))
        held(on.gradient_fault(Trial(sample, {})) for sample in batched)


@pytest.mark.parametrize("operator", OPERATORS)
def test_inferred_strides_are_those_of_the_result(bench: Callable[..., Bench], operator: str) -> None:
    """`torch.compile` plans memory by the strides that shape inference returns."""
    bench("cpu")
    faults = []
    for sample in some(operator, "float32", 0):
        found = [] if refusal_of(sample) else [trial for trial in trials(sample) if set(trial.memory) == {"x"}]
        for trial in share(found, 0.4, str(sample)):
            x = trial.memory["x"].place(trial.turned(sample.arrays["x"]).contiguous())
            layout = {"layout": "NHWC" if sample.rank == 2 else "NWC"} if trial.last else {}
            real = call(ours(sample), sample, {**sample.arrays, "x": x.requires_grad_()}, **layout)
            made = inferred(sample, {**sample.arrays, "x": x}, **layout)
            faults += [] if steps(made) == steps(real) else [f"{trial}: inferred {steps(made)}, not {steps(real)}"]
    held(faults)


def steps(a: Any) -> list[tuple[int, int | None]]:
    """Return each extent with its stride, which means nothing for an extent of one."""
    return [(size, step if size > 1 else None) for size, step in zip(a.shape, a.stride(), strict=True)]


def inferred(sample: Sample, arrays: dict[str, Any], **layout: str) -> Any:
    """Return the result of a call without values."""
    with fake_tensors() as mode:
        fake = {name: mode.from_tensor(a) for name, a in arrays.items()}
        return call(ours(sample), sample, fake, **layout)


@functools.cache
def fake_tensors() -> Any:
    return torch._subclasses.FakeTensorMode()


def refusal_of(sample: Sample) -> str | None:
    """Return the text of the error by which Tilewright refuses a sample, from shape inference alone."""
    try:
        inferred(sample, sample.arrays)
    except UserError as error:
        return str(error)
    return None


def test_every_refusal_is_in_the_table_and_every_row_refuses() -> None:
    found = {
        f"{operator}: {error}"
        for operator, info in database().items()
        for dtype in sorted(str(dtype).partition(".")[2] for dtype in info.dtypes)
        for sample in share(samples(operator, dtype), 1 if dtype == "float32" else 0.1, dtype)
        if (error := refusal_of(sample))
    }
    assert refusals()
    held(f"{text}\n(refused, and not in the table of docs/functional.md)" for text in found if not refusal(text))
    held(f"docs/functional.md: nothing is refused by {row!r}" for row in {*refusals()} - {*map(refusal, found)})


def test_calls_that_pytorch_refuses_are_refused() -> None:
    faults = []
    for operator in OPERATORS:
        for sample in mistakes(operator):
            with pytest.raises((RuntimeError, ValueError, TypeError)):
                call(getattr(torch.nn.functional, operator), sample, {"weight": None, **sample.arrays})
            try:
                call(ours(sample), sample, {"weight": None, **sample.arrays})
            except UserError as error:
                if error.__context__ is not None and not error.__suppress_context__:
                    faults.append(f"{sample}: the traceback begins with {error.__context__!r}")
            except Exception as error:
                faults.append(f"{sample}: {type(error).__name__}: {error}")
            else:
                faults.append(f"{sample}: is computed")
    held(faults)
