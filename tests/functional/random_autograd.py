"""Random uses of autograd with our calls against the same uses with PyTorch's, in float64.

`python -m tests.functional.random_autograd --count 500 --seed 1`

A case draws a layer, an activation, and the way in which gradients are asked for. An error must be an error on both
sides.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import tilewright as tw
from tests.decided import decided

Call = Callable[..., Any]
TOLERANCE = 1e-9


class Pair(NamedTuple):
    """Our call and PyTorch's, of input, weight and bias, with the shapes of these."""

    ours: Call
    theirs: Call
    shapes: tuple[tuple[int, ...], ...]


def _named(name: str, *shapes: tuple[int, ...], **options: Any) -> Pair:
    return Pair(
        partial(_given, getattr(tw, name), options), partial(_given, getattr(functional, name), options), shapes
    )


def _given(call: Call, options: dict[str, Any], x: Any, w: Any, b: Any) -> Any:
    return call(x, w, b, **options)


def _causal(x: Any, w: Any, b: Any) -> Any:
    return tw.causal_conv1d_fn(x, w, b, activation="silu")


def _causal_reference(x: Any, w: Any, b: Any) -> Any:
    return functional.silu(functional.conv1d(functional.pad(x, (3, 0)), w[:, None], b, groups=w.shape[0]))


def _last(x: Any, w: Any, b: Any) -> Any:
    return tw.conv2d(x, w, b, padding=1, groups=3, layout="NHWC")


def _last_reference(x: Any, w: Any, b: Any) -> Any:
    return functional.conv2d(x.movedim(-1, -3), w, b, padding=1, groups=3).movedim(-3, -1)


LAYERS = {
    "depthwise": _named("conv2d", (2, 3, 5, 4), (3, 1, 3, 3), (3,), padding=1, groups=3),
    "strides": _named("conv2d", (2, 3, 7, 6), (6, 1, 3, 2), (6,), padding=(2, 1), groups=3, stride=(2, 3)),
    "groups": _named("conv2d", (2, 4, 5, 5), (4, 2, 3, 3), (4,), padding=2, groups=2, dilation=2),
    "dense": _named("conv2d", (1, 2, 4, 5), (3, 2, 2, 2), (3,)),
    "line": _named("conv1d", (2, 4, 9), (4, 1, 3), (4,), padding=1, groups=4),
    "unbatched": _named("conv1d", (4, 9), (8, 1, 3), (8,), groups=4, stride=2),
    "transposed": _named("conv_transpose2d", (1, 4, 3, 4), (4, 1, 3, 2), (4,), groups=4, stride=2, output_padding=1),
    "last": Pair(_last, _last_reference, ((2, 5, 4, 3), (3, 1, 3, 3), (3,))),
    "causal": Pair(_causal, _causal_reference, ((2, 3, 8), (3, 4), (3,))),
    "empty batch": _named("conv2d", (0, 3, 5, 4), (3, 1, 3, 3), (3,), padding=1, groups=3),
}
ACTIVATIONS: dict[str, Call] = {"relu": functional.relu, "silu": functional.silu, "gelu": functional.gelu}


class Drawn:
    """Numbers of a case that both sides draw alike."""

    def __init__(self, seed: int) -> None:
        self.rng, self.torch = random.Random(seed), torch.Generator().manual_seed(seed)

    def like(self, y: Any) -> Any:
        """A gradient of a result in a random memory order."""
        shape = tuple(y.shape)
        kind = self.rng.choice(["plain", "expanded", "turned", "every second", "a part"])
        if kind == "expanded":
            return torch.randn((), generator=self.torch, dtype=torch.float64).expand(shape)
        if kind == "turned":
            return torch.randn(shape[::-1], generator=self.torch, dtype=torch.float64).permute(*range(len(shape))[::-1])
        wide = (*shape[:-1], 2 * shape[-1] + 1)
        values = torch.randn(wide if kind != "plain" else shape, generator=self.torch, dtype=torch.float64)
        return values[..., 1::2] if kind == "every second" else values[..., : shape[-1]] if kind != "plain" else values

    def some(self, tensors: list[Any]) -> list[Any]:
        """At least one of the tensors."""
        found = [t for t in tensors if t is not None and self.rng.random() < 0.5]
        return found or [self.rng.choice([t for t in tensors if t is not None])]


# Ways to ask for gradients: each takes the call, its tensors and the drawn numbers, and yields tensors to compare.


def subset(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    wanted = d.some(t)
    t = [a if any(a is b for b in wanted) else None if a is None else a.detach() for a in t]
    y = f(*t)
    yield y
    yield from torch.autograd.grad(y, wanted, d.like(y))


def accumulated(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    for _ in range(2):
        y = f(*t)
        y.retain_grad()
        y.backward(d.like(y))
        yield y.grad
    yield from (a.grad for a in t if a is not None)


def twice_through_one_graph(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    y = f(*t)
    wanted = d.some(t)
    yield from torch.autograd.grad(y, wanted, d.like(y), retain_graph=True)
    yield from torch.autograd.grad(y, wanted, d.like(y))


def of_gradients(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    y = f(*t)
    first = torch.autograd.grad(y, d.some(t), d.like(y).requires_grad_(), create_graph=True)
    yield from first
    loss = sum((g * g).sum() for g in first) + y.sum()
    yield from torch.autograd.grad(loss, [a for a in t if a is not None], allow_unused=True, materialize_grads=True)


def third(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    y = torch.sin(f(*t))
    for _ in range(2):
        (g,) = torch.autograd.grad(y.sum(), [t[0]], create_graph=True, allow_unused=True, materialize_grads=True)
        y = (g * g).sum() + y.sum()
    yield from torch.autograd.grad(y.sum(), [t[0], t[1]], allow_unused=True, materialize_grads=True)


def hooks(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    seen: list[Any] = []
    t[0].register_hook(lambda g: g * 2)
    t[1].register_hook(seen.append)
    t[1].register_post_accumulate_grad_hook(lambda a: seen.append(a.grad.clone()))
    y = f(*t)
    y.register_hook(lambda g: g + 1)
    y.grad_fn.register_prehook(lambda gs: tuple(g * 3 for g in gs))
    y.backward(d.like(y))
    yield from seen
    yield from (a.grad for a in t if a is not None)


def checkpointed(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    reentrant = d.rng.random() < 0.5

    def twice(*u: Any) -> Any:
        return torch.tanh(f(*u)) * 2

    y = checkpoint(twice, *t, use_reentrant=reentrant)
    y.backward(d.like(y))
    yield from (a.grad for a in t if a is not None)


def shared(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    y = f(*t) + f(t[0] * 2, *t[1:])
    y.backward(d.like(y))
    yield from (a.grad for a in t if a is not None)


def views(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    base = torch.randn((*t[0].shape, 3), generator=d.torch, dtype=torch.float64).requires_grad_()
    weight = t[1].detach()[:1].expand_as(t[1]).requires_grad_()
    y = f(base[..., 1], weight * 1, *t[2:])
    yield from torch.autograd.grad(y, [base, weight], d.like(y))


def changed_result(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    y = f(*t)
    y.mul_(2).add_(1)
    yield from torch.autograd.grad(y, d.some(t), d.like(y))


def changed_input(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    x = t[0] * 1
    y = f(x, *t[1:])
    x.mul_(2)
    yield from torch.autograd.grad(y, [t[1]], d.like(y))


def packed(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    with torch.autograd.graph.saved_tensors_hooks(lambda a: a.detach().numpy().copy(), torch.from_numpy):
        y = f(*t)
    yield from torch.autograd.grad(y, d.some(t), d.like(y))


def batched(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    y = f(*t)
    above = torch.stack([d.like(y), d.like(y)])
    yield from torch.autograd.grad(y, d.some(t), above, is_grads_batched=True)


def functions(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    t = [None if a is None else a.detach() for a in t]
    numbers = tuple(d.rng.sample([k for k, a in enumerate(t) if a is not None], 2))
    yield from grad(lambda *u: torch.sin(f(*u)).sum(), argnums=numbers)(*t)
    y, pull = vjp(lambda x, w: f(x, w, t[2]), t[0], t[1])
    yield y
    yield from vmap(pull)(torch.stack([d.like(y), d.like(y)]))
    yield from jvp(lambda x, w: f(x, w, t[2]), (t[0], t[1]), (torch.ones_like(t[0]), t[1]))


def jacobians(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    t = [None if a is None else a.detach() for a in t]
    made = d.rng.choice([jacrev, jacfwd])
    yield made(lambda w: f(t[0], w, t[2]).flatten()[:5])(t[1])
    yield made(lambda x: f(x, t[1], t[2]).flatten()[-5:])(t[0])


def hessians(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    t = [None if a is None else a.detach() for a in t]
    yield hessian(lambda w: torch.cos(f(t[0], w, t[2])).sum())(t[1])
    yield jacrev(jacrev(lambda w: torch.cos(f(t[0], w, t[2])).sum()))(t[1])


def per_sample(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    t = [None if a is None else a.detach() for a in t]
    xs, ws = torch.stack([t[0], t[0] * 2, t[0] + 1]), torch.stack([t[1], t[1] * 2, t[1] - 1])

    def loss(x: Any, w: Any) -> Any:
        return torch.sin(f(x, w, t[2])).sum()

    yield vmap(grad(loss, argnums=1), in_dims=(0, None), chunk_size=d.rng.choice([None, 2]))(xs, t[1])
    yield vmap(loss)(xs, ws)
    yield from vmap(grad(loss, argnums=(0, 1)), in_dims=(None, 0))(t[0], ws)


def of_a_module(f: Call, t: list[Any], d: Drawn) -> Iterator[Any]:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(t[1].detach().clone())

        def forward(self, x: Any) -> Any:
            return f(x, self.weight, t[2])

    layer = Layer()
    given = {"weight": t[1].detach() * 2}
    yield from grad(lambda p: functional_call(layer, p, (t[0].detach(),)).square().sum())(given).values()
    with torch.no_grad():
        yield layer(t[0])
    with torch.inference_mode():
        yield layer(t[0].detach()).clone()
    y = layer(t[0])
    yield from torch.autograd.grad(y, [layer.weight], d.like(y))


WAYS: tuple[Call, ...] = (
    subset, accumulated, twice_through_one_graph, of_gradients, third, hooks, checkpointed, shared, views,
    changed_result, changed_input, packed, batched, functions, jacobians, hessians, per_sample, of_a_module,
)  # fmt: skip


def results(f: Call, way: Call, shapes: tuple[tuple[int, ...], ...], with_bias: bool, seed: int) -> list[Any]:
    """The compared tensors of one side, or the error's kind."""
    d = Drawn(seed)
    t: list[Any] = [torch.randn(s, generator=d.torch, dtype=torch.float64).requires_grad_() for s in shapes]
    if not with_bias:
        t[2] = None
    try:
        return [None if a is None else a.detach() for a in way(f, t, d)]
    except Exception as error:  # the other side must fail as well
        return [error]


def judged(seed: int) -> str:
    """Nothing if a case is right; else its description and the difference."""
    rng = random.Random(seed)
    name, way, with_bias = rng.choice([*LAYERS]), rng.choice(WAYS), rng.random() < 0.5
    ours, theirs, shapes = LAYERS[name]
    activation = rng.choice([None, None, *ACTIVATIONS]) if name != "causal" else None
    if activation is not None:
        plain, plain_ours, after = theirs, ours, ACTIVATIONS[activation]
        # PyTorch's activations keep their result, which then must not change; ours keep their input.
        theirs, ours = (lambda *t: after(plain(*t)) * 1), partial(_activated, plain_ours, activation)
    if name == "causal" and way is changed_input:  # the reference keeps a padded copy of the input
        return ""
    case = f"seed {seed}: {name}, {way.__name__}, activation {activation}, {'with' if with_bias else 'without'} bias"
    found, wanted = (results(f, way, shapes, with_bias, seed) for f in (ours, theirs))
    if len(found) != len(wanted):
        text = "".join(traceback.format_exception(found[0])) if isinstance(found[0], Exception) else ""
        return f"{case}: {len(found)} tensors, {len(wanted)} expected; {found[:1]!r} {wanted[:1]!r}\n{text}"
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if isinstance(a, Exception) or isinstance(b, Exception):
            if not (isinstance(a, Exception) and isinstance(b, Exception)):
                text = "".join(traceback.format_exception(a)) if isinstance(a, Exception) else ""
                return f"{case}: ours {a!r}, PyTorch's {b!r}\n{text}"
        elif a is None or b is None:
            if a is not b:
                return f"{case}: tensor {k} is {a!r}, expected {b!r}"
        elif a.shape != b.shape or not torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE):
            return f"{case}: tensor {k}, {tuple(a.shape)} and {tuple(b.shape)} differ by {(a - b).abs().max()}"
    return ""


def _activated(call: Call, activation: str, x: Any, w: Any, b: Any) -> Any:
    if isinstance(call, partial):
        return call.args[0](x, w, b, activation=activation, **call.args[1])
    return tw.conv2d(x, w, b, padding=1, groups=3, layout="NHWC", activation=activation)


def main() -> None:
    """Judge cases, and name all faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pytorchs", action="store_true", help="let calls run PyTorch's kernels if they are faster")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    faults = []
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict("os.environ", {"TILEWRIGHT_CACHE": folder}),
        nullcontext() if given.pytorchs else decided("ours", Path(folder, "kernels")),
    ):
        for seed in range(1000 * given.seed, 1000 * given.seed + given.count):
            fault = judged(seed)
            if fault:
                print(fault, flush=True)
                faults.append(fault)
    print(f"{given.count} cases, {len(faults)} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
