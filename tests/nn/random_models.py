"""Random models through `torch.compile(backend="tilewright")`, beside the models themselves in float64.

`python -m tests.nn.random_models --count 500 --seed 1`

A model is a graph of convolutions, norms, activations, sums and views, drawn from a seed. Some layers are used twice,
some results have several readers, some operations are in place. Every convolution that we cover is ours. Weights change
between runs. With `--door compile`, Dynamo traces the model, in evaluation or training mode, with or without gradients.
"""

from __future__ import annotations

import argparse
import copy
import random
import sys
import traceback
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch._functorch.aot_autograd import aot_export_joint_simple
from torch.nn import functional

from tests.decided import decided

dynamo, fusion = import_module("tilewright.nn.dynamo"), import_module("tilewright.nn.fusion")
CHANNELS, SIZES = 6, (7, 8)
ERRORS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 8e-2}
"""The relative L2 error; models in 16 bits may also have three times the error of PyTorch's own run."""
ACTIVATIONS: list[Callable[[], Any]] = [
    nn.ReLU, nn.SiLU, nn.GELU, nn.Hardswish, nn.ReLU6, nn.Sigmoid, nn.Tanh, nn.Mish, nn.LeakyReLU, nn.ELU, nn.Hardtanh,
    nn.Softplus, nn.Softsign, nn.CELU, nn.SELU,
    lambda: nn.ReLU(inplace=True), lambda: nn.SiLU(inplace=True), lambda: nn.Hardswish(inplace=True),
    lambda: nn.LeakyReLU(0.2), lambda: nn.ELU(0.5), lambda: nn.Hardtanh(-2, 1), lambda: nn.Softplus(2),
    lambda: nn.GELU(approximate="tanh"), lambda: nn.Hardtanh(0, 6, inplace=True),
]  # fmt: skip
Step = Callable[[Any, list[Any]], Any]
"""A function of the model and the results so far, which returns one more."""


class RandomModel(nn.Module):
    """Steps that are drawn from a seed; each reads results of earlier ones."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.draw = random.Random(seed)
        self.rank = self.draw.choice((1, 2, 2, 2))
        self.layers = nn.ModuleList()
        self.scales = nn.ParameterList([nn.Parameter(torch.randn(CHANNELS, *[1] * self.rank)) for _ in range(2)])
        self.steps: list[tuple[str, Step]] = []
        for _ in range(self.draw.randint(2, 9)):
            self.steps.append(getattr(self, f"_{self.draw.choice(KINDS)}")())
        self.returned = [self.draw.random() < 0.25 for _ in self.steps]

    def forward(self, x: Any) -> Any:
        """Return the last result, and some of the others."""
        made = [x]
        for _, step in self.steps:
            made.append(step(self, made))
        return made[-1], *[a.clone() for a, wanted in zip(made[1:], self.returned, strict=True) if wanted]

    def __str__(self) -> str:
        return f"rank {self.rank}: " + "; ".join(text for text, _ in self.steps)

    # Steps

    def _layer(self, layer: Any) -> int:
        """Add a layer, or find one of its kind that is used once more."""
        same = [place for place, each in enumerate(self.layers) if str(each) == str(layer)]
        if same and self.draw.random() < 0.5:
            return same[0]
        self.layers.append(layer)
        return len(self.layers) - 1

    def _read(self) -> int:
        """The place of the result that a step reads, from the last."""
        return -1 if self.draw.random() < 0.8 else -self.draw.randint(1, max(1, len(self.steps)))

    def _applied(self, layer: Any) -> tuple[str, Step]:
        place, read = self._layer(layer), self._read()
        return f"{layer} #{place} of {read}", lambda self, made: self.layers[place](made[read])

    def _conv(self) -> tuple[str, Step]:
        pick, taps = self.draw.choice, self.draw.choice((1, 3, 3, 5))
        kind = nn.Conv1d if self.rank == 1 else nn.Conv2d
        return self._applied(
            kind(
                CHANNELS, CHANNELS, taps, padding=taps // 2, groups=pick((1, 2, CHANNELS, CHANNELS)),
                bias=pick((True, False)), padding_mode=pick(("zeros", "zeros", "zeros", "reflect", "circular")),
            )
        )  # fmt: skip

    def _dilated(self) -> tuple[str, Step]:
        kind = nn.Conv1d if self.rank == 1 else nn.Conv2d
        return self._applied(kind(CHANNELS, CHANNELS, 3, padding=2, dilation=2, groups=CHANNELS))

    def _transposed(self) -> tuple[str, Step]:
        kind = nn.ConvTranspose1d if self.rank == 1 else nn.ConvTranspose2d
        groups, bias = self.draw.choice((1, 2, CHANNELS)), self.draw.choice((True, False))
        return self._applied(kind(CHANNELS, CHANNELS, 3, padding=1, groups=groups, bias=bias))

    def _norm(self) -> tuple[str, Step]:
        kind = nn.BatchNorm1d if self.rank == 1 else nn.BatchNorm2d
        pick = self.draw.choice
        affine, tracked = pick((True, True, False)), pick((True, True, True, False))
        return self._applied(kind(CHANNELS, affine=affine, track_running_stats=tracked, momentum=0.2))

    def _activation(self) -> tuple[str, Step]:
        return self._applied(self.draw.choice(ACTIVATIONS)())

    def _pool(self) -> tuple[str, Step]:
        kinds = (nn.MaxPool1d, nn.AvgPool1d) if self.rank == 1 else (nn.MaxPool2d, nn.AvgPool2d)
        return self._applied(self.draw.choice(kinds)(3, 1, 1))

    def _dropout(self) -> tuple[str, Step]:
        return self._applied(nn.Dropout(0.0))

    def _two(self) -> tuple[int, int]:
        return self._read(), -self.draw.randint(1, len(self.steps) + 1)

    def _sum(self) -> tuple[str, Step]:
        (one, other), how = self._two(), self.draw.randint(0, 4)

        def step(self: Any, made: list[Any]) -> Any:
            a, b = made[one], made[other]
            if how == 4 and 0 not in a.stride():  # PyTorch refuses to write to an expanded tensor
                a += b
                return a
            return (a + b, b + a, torch.add(a, b, alpha=2), a - b, a + b)[how]

        return f"sum {how} of {one} and {other}", step

    def _scale(self) -> tuple[str, Step]:
        read, place, how = self._read(), self.draw.randint(0, 1), self.draw.randint(0, 5)

        def step(self: Any, made: list[Any]) -> Any:
            a, by = made[read], self.scales[place]
            return (a * by, by + a, a * by[0], a * 2 + 1, a * by[None], a.mul(by).add(by))[how]

        return f"scale {how} of {read} by {place}", step

    def _gate(self) -> tuple[str, Step]:
        (one, other), how = self._two(), self.draw.randint(0, 2)

        def step(self: Any, made: list[Any]) -> Any:
            a, b = made[one], made[other]
            if how == 0:
                return a * torch.sigmoid(a)
            if how == 1:
                return torch.sigmoid(a) * b
            return a * torch.sigmoid(b.mean(-1, keepdim=True))

        return f"gate {how} of {one} and {other}", step

    def _view(self) -> tuple[str, Step]:
        read, how = self._read(), self.draw.randint(0, 6)

        def step(self: Any, made: list[Any]) -> Any:
            a = made[read]
            if how == 0:
                return a.flatten(1).view(a.shape)
            if how == 1:
                return a.transpose(1, -1).contiguous().transpose(1, -1)
            if how == 2:
                return torch.cat([a[:, 3:], a[:, :3]], 1)
            if how == 3:
                return functional.pad(a, (2, 1))[..., 1:-2]
            if how == 4:
                return a.flip(-1)
            if how == 5:
                first, second = a.chunk(2, 1)
                return torch.cat([second, first], 1)
            return a.detach().clone()

        return f"view {how} of {read}", step

    def _padded(self) -> tuple[str, Step]:
        value, taps = self.draw.choice((0.0, 0.0, 1.0)), 3
        kind = nn.Conv1d if self.rank == 1 else nn.Conv2d
        place, read = self._layer(kind(CHANNELS, CHANNELS, taps, groups=CHANNELS)), self._read()
        sides = [self.draw.choice(((1, 1), (2, 0), (0, 2))) for _ in range(self.rank)]
        flat = [side for pair in sides for side in pair]

        def step(self: Any, made: list[Any]) -> Any:
            return self.layers[place](functional.pad(made[read], flat, value=value))

        return f"padded by {flat} of {value} #{place} of {read}", step

    def _branches(self) -> tuple[str, Step]:
        kind = nn.Conv1d if self.rank == 1 else nn.Conv2d
        groups, pick = self.draw.choice((1, CHANNELS)), self.draw.choice
        large = self._layer(kind(CHANNELS, CHANNELS, 3, padding=1, groups=groups, bias=pick((True, False))))
        small = self._layer(kind(CHANNELS, CHANNELS, 1, groups=groups, bias=pick((True, False))))
        read, more, order = self._read(), pick((True, False)), pick((True, False))

        def step(self: Any, made: list[Any]) -> Any:
            a = made[read]
            parts = [self.layers[large](a), self.layers[small](a)]
            both = parts[0] + parts[1] if order else parts[1] + parts[0]
            return both + a if more else both

        return f"branches {large} and {small} of {read}, identity {more}", step

    def _linear(self) -> tuple[str, Step]:
        if self.rank == 1:
            return self._conv()
        place, read = self._layer(nn.Linear(CHANNELS, CHANNELS, bias=self.draw.choice((True, False)))), self._read()
        name = self.draw.choice(("gelu", "relu", "identity"))
        act = {"gelu": functional.gelu, "relu": functional.relu, "identity": lambda v: v}[name]

        def step(self: Any, made: list[Any]) -> Any:
            return act(self.layers[place](made[read].permute(0, 2, 3, 1))).permute(0, 3, 1, 2)

        return f"linear #{place} of {read}, {name}", step


KINDS = [
    "conv", "conv", "conv", "norm", "norm", "norm", "activation", "activation", "activation", "sum", "sum", "scale",
    "gate", "view", "pool", "dropout", "transposed", "dilated", "padded", "branches", "linear",
]  # fmt: skip


def changed_state(model: Any) -> None:
    """Statistics and parameters of norms that are not those of new ones."""
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            if module.running_mean is not None:
                module.running_mean.uniform_(-0.5, 0.5)
                module.running_var.uniform_(0.5, 2)
            if module.affine:
                nn.init.uniform_(module.weight, 0.5, 2)
                nn.init.normal_(module.bias, std=0.3)


def image(draw: random.Random, rank: int, dtype: Any) -> Any:
    """An input in a drawn memory order."""
    shape = draw.choice((1, 2, 3)), CHANNELS, *SIZES[2 - rank :]
    x, order = torch.randn(shape, dtype=dtype), draw.randint(0, 4)
    if order == 1 and rank == 2:
        return x.contiguous(memory_format=torch.channels_last)
    if order == 2:
        return torch.cat([x, x], -1)[..., ::2]
    if order == 3:
        return torch.randn(1, *shape[1:], dtype=dtype).expand(shape)
    if order == 4:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    return x


class Trial:
    """A model, and its runs by both ways."""

    def __init__(self, seed: int, door: str) -> None:
        torch._dynamo.reset()
        torch.manual_seed(seed)
        self.door, self.graphs = door, dict[Any, Any]()
        self.draw = random.Random(-seed)
        pick = self.draw.choice
        self.model: Any = RandomModel(seed)
        self.dtype = pick((torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16))
        self.training, self.grad, self.inference = pick((False, False, True)), pick((False, False, True)), pick((0, 1))
        self.last = pick((None, None, True, False))
        if door == "fuse":
            self.training = self.grad = False
        changed_state(self.model)
        self.model.train(self.training).to(self.dtype)
        if pick((0, 0, 1)) and self.model.rank == 2:
            self.model.to(memory_format=torch.channels_last)
        self.reports: list[Any] = []

    def __str__(self) -> str:
        how = f"{self.dtype}, training {self.training}, gradients {self.grad}, channels last {self.last}"
        return f"{how}\n{self.model}\n" + "\n".join(map(str, self.reports))

    def backend(self, gm: Any, inputs: Any) -> Any:
        """The backend, with eager operators in the place of Inductor."""
        return dynamo.compile_graph(
            gm, inputs, lambda made, *_, **__: made.forward, report=self.reports.append, channels_last=self.last
        )

    def _fused(self, x: Any) -> Any:
        """Run the graph of the model, rewritten as the backend does it; or the model if it writes to its inputs."""
        state = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        given = [*state.values(), x]

        def program(*given: Any) -> Any:
            return torch.func.functional_call(self.model, dict(zip(state, given[:-1], strict=True)), given[-1])

        key = x.shape, x.stride()
        if key not in self.graphs:
            try:
                traced = aot_export_joint_simple(program, given, trace_joint=False, decompositions={})
            except Exception:  # it writes to its inputs
                return self.model(x)
            fixed = set([node for node in traced.graph.nodes if node.op == "placeholder"][:-1])
            made = fusion.fuse(traced, fixed.__contains__, channels_last=self.last)
            self.reports.append(made)
            self.graphs[key] = made, None if made.prologue is None else dynamo.FoldedParameters(made.prologue)
        made, folded = self.graphs[key]
        return made.graph_module(*given, *([] if folded is None else folded.of(given)))

    def run(self) -> None:
        """Raise AssertionError if a result is wrong."""
        compiled = self._fused if self.door == "fuse" else torch.compile(self.model, backend=self.backend)
        for times in range(3):
            x = image(self.draw, self.model.rank, self.dtype)
            self._compare(compiled, x)
            self._change(times)

    def _change(self, times: int) -> None:
        how = self.draw.randint(0, 3)
        if how == 0:
            with torch.no_grad():
                for p in self.model.parameters():
                    p.mul_(1.25)
        elif how == 1:
            self.model.train()
            with torch.no_grad():
                self.model(image(self.draw, self.model.rank, self.dtype) + 1)
            self.model.train(self.training)
        elif how == 2:
            self.model.load_state_dict({k: v * 1.1 if v.dim() else v for k, v in self.model.state_dict().items()})

    def _compare(self, compiled: Any, x: Any) -> None:
        models = [copy.deepcopy(self.model).double(), copy.deepcopy(self.model)]
        inputs = [x.double(), x.clone(), x.clone()]
        for place, a in enumerate(inputs):  # the same strides
            inputs[place] = (
                torch.empty_strided(x.shape, x.stride(), dtype=a.dtype).copy_(a) if 0 not in x.stride() else a
            )
        exact, eager, found = [
            self._outcome(model, model if place < 2 else compiled, a)
            for place, (model, a) in enumerate(zip([*models, self.model], inputs, strict=True))
        ]
        assert len(exact) == len(found)
        for place, (true, theirs, mine) in enumerate(zip(exact, eager, found, strict=True)):
            assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype), (place, mine.shape, mine.dtype)
            bound = max(ERRORS[self.dtype], 4 * error(theirs, true))
            assert error(mine, true) <= bound, (place, tuple(mine.shape), error(mine, true), error(theirs, true))

    def _outcome(self, model: Any, run: Any, x: Any) -> list[Any]:
        """The results, the input afterwards, the buffers, and gradients."""
        model.zero_grad(set_to_none=True)
        if self.grad:
            leaf = x.detach().requires_grad_()
            made = run(leaf * 1)
            state = torch.get_rng_state()
            torch.manual_seed(5)
            total = sum((a * torch.randn(a.shape, dtype=torch.float64).to(a.dtype)).sum() for a in made)
            torch.set_rng_state(state)
            gradients = []
            if total.requires_grad:
                wanted = [leaf, *model.parameters()]
                gradients = [g for g in torch.autograd.grad(total, wanted, allow_unused=True) if g is not None]
            return [*[a.detach() for a in made], *[b.clone() for b in model.buffers()], *gradients]
        with torch.inference_mode() if self.inference else torch.no_grad():
            made = run(x)
            return [*made, x, *[b.clone() for b in model.buffers()]]


def error(found: Any, true: Any) -> float:
    """The relative error in the L2 norm."""
    if not true.numel() or torch.equal(found.double(), true.double()):
        return 0.0
    return float((found.double() - true.double()).norm() / true.double().norm().clamp_min(1e-6))


def main() -> int:
    """Run trials, and print those that fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--door", choices=("fuse", "compile"), default="fuse")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with decided("ours"):
        return _failed(options)


def _failed(options: argparse.Namespace) -> int:
    failed = ours = 0
    for seed in range(options.seed, options.seed + options.count):
        trial = Trial(seed, options.door)
        try:
            trial.run()
        except Exception:
            failed += 1
            print(f"seed {seed}: {trial}\n{traceback.format_exc(limit=-3)}", flush=True)
        ours += sum(row.replaced for report in trial.reports for row in report.rows)
    print(f"{options.count} models, {ours} convolutions ours, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
