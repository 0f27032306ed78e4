"""`causal_conv1d_fn` and `causal_conv1d_update`: the semantics of the package of that name, and what it lacks."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tilewright as tw
from tilewright.core.errors import UserError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.functional import causal_cases as cases  # noqa: E402  # it needs PyTorch

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
X, W, B = torch.randn(2, 6, 10), torch.randn(6, 4), torch.randn(6)


def close(found: Any, wanted: Any, dtype: Any) -> None:
    """Compare with float64, by the largest value, which sums of many products are rounded against."""
    assert found.shape == wanted.shape
    limit = cases.TOLERANCES[dtype] * max(1.0, float(wanted.abs().max()) if wanted.numel() else 0.0)
    torch.testing.assert_close(found.double(), wanted, atol=limit, rtol=0)


def check_convolution(
    seed: int, device: str, channels: tuple[int, ...], widths: tuple[int, ...], dtypes: Any = cases.FLOATS
) -> None:
    case = cases.drawn(seed, device, channels, widths, dtypes)
    wanted = cases.convolution(*case)
    found = tw.causal_conv1d_fn(*case[:5], activation=case.activation)
    assert found.dtype == case.x.dtype
    close(found, wanted, case.x.dtype)
    if case.seq_idx is None:
        found, last = tw.causal_conv1d_fn(*case[:5], True, activation=case.activation)
        close(found, wanted, case.x.dtype)
        assert torch.equal(last, cases.final_states(case.x, case.states, case.weight.shape[1] - 1))
    check_gradients(case, wanted, returned=case.seq_idx is None)


def check_gradients(case: cases.Case, wanted: Any, returned: bool) -> None:
    """Gradients of all arguments, and through the final states, against those of float64."""
    tensors = [case.x, case.weight, case.bias, case.states]
    trained = [None if t is None else t.detach().requires_grad_() for t in tensors]
    exact = [None if t is None else t.detach().double().requires_grad_() for t in tensors]
    arguments = (*trained[:3], case.seq_idx, trained[3])
    made = tw.causal_conv1d_fn(*arguments, returned, activation=case.activation)
    made, last = made if returned else (made, None)
    right = cases.convolution(*exact[:3], case.seq_idx, exact[3], case.activation)
    grad = torch.randn(right.shape, dtype=torch.float64, device=right.device).to(case.x.dtype)
    losses, exact_losses = [(made * grad).sum()], [(right * grad.double()).sum()]
    if returned:
        losses.append(last.sum())
        exact_losses.append(cases.final_states(exact[0], exact[3], case.weight.shape[1] - 1).sum())
    for each in (losses, exact_losses):
        sum(one.double() for one in each).backward()
    for t, e in zip(trained, exact, strict=True):
        if t is not None and t.numel():
            assert t.grad.dtype == t.dtype
            coarse = max((t.dtype, case.x.dtype), key=cases.TOLERANCES.__getitem__)
            close(t.grad, torch.zeros_like(e) if e.grad is None else e.grad, coarse)


@pytest.mark.parametrize("device", DEVICES)
def test_random_sequences(device: str) -> None:
    for seed in range(8):
        check_convolution(seed, device, (16,), (1, 4), (torch.float32, torch.bfloat16))


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("part", range(25))
def test_500_random_sequences(part: int, device: str) -> None:
    for seed in range(20):
        check_convolution(1000 + 20 * part + seed, device, (1, 5, 16, 40), (1, 2, 3, 4, 9))


def check_update(seed: int, device: str, channels: tuple[int, ...]) -> None:
    case = cases.drawn(seed, device, channels, (1, 2, 3, 4, 7))
    x, weight = case.x, case.weight
    generator = torch.Generator().manual_seed(seed)

    def integers(low: int, high: int, count: int) -> Any:
        kind = (torch.int32, torch.int64)[int(torch.randint(2, (), generator=generator))]
        return torch.randint(low, high, (count,), generator=generator, dtype=kind).to(device)

    batch, count, width = x.shape[0], x.shape[1], weight.shape[1]
    kept = width - 1 + int(torch.randint(0, 5, (), generator=generator))
    indexed, circular, flat = (bool(torch.randint(2, (), generator=generator)) for _ in range(3))
    entries = batch + 3 if indexed else batch
    state = cases.ordered(generator, (entries, count, kept), x.dtype, device)
    rows = torch.randperm(entries, generator=generator)[:batch].int() if indexed else None
    if rows is not None:
        rows[::3] = -1
        rows = rows.to(device)
    counts = integers(0, 100, batch) if circular and kept else None
    x = x[..., 0] if flat and x.shape[-1] else x
    wanted, new = cases.update(
        x if x.dim() == 3 else x[..., None], state, weight, case.bias, case.activation, counts, rows
    )
    found = tw.causal_conv1d_update(x, state, weight, case.bias, case.activation, counts, rows)
    assert found.dtype == x.dtype
    close(found, wanted if x.dim() == 3 else wanted[..., 0], x.dtype)
    assert torch.equal(state, new)


@pytest.mark.parametrize("device", DEVICES)
def test_random_steps(device: str) -> None:
    for seed in range(40):
        check_update(seed, device, (16,))


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("part", range(5))
def test_500_random_steps(part: int, device: str) -> None:
    for seed in range(100):
        check_update(1000 + 100 * part + seed, device, (1, 5, 16, 40, 200))


def test_steps_continue_sequences() -> None:
    whole = tw.causal_conv1d_fn(X, W, B, activation="silu")
    first, state = tw.causal_conv1d_fn(X[..., :4], W, B, return_final_states=True, activation="silu")
    steps = [tw.causal_conv1d_update(X[..., t], state, W, B, "silu") for t in range(4, 8)]
    rest = tw.causal_conv1d_fn(X[..., 8:], W, B, None, state, activation="silu")
    torch.testing.assert_close(torch.cat([first, torch.stack(steps, -1), rest], -1), whole)


def test_results_lie_as_their_inputs_do() -> None:
    for x in (X, X.transpose(1, 2).contiguous().transpose(1, 2)):
        assert tw.causal_conv1d_fn(x, W).stride() == x.stride()
        assert tw.causal_conv1d_update(x, torch.zeros(2, 6, 3), W).stride() == x.stride()


def test_final_states_are_written() -> None:
    out = torch.empty(2, 3, 6).transpose(1, 2)
    _, states = tw.causal_conv1d_fn(X, W, return_final_states=True, final_states_out=out)
    assert states is out
    assert torch.equal(out, X[..., -3:])


def test_gradients_of_gradients() -> None:
    tensors = (X[:1, :2, :3], W[:2, :2], B[:2], X[:1, :2, :1])
    x, w, b, s = (t.double().requires_grad_() for t in tensors)
    numbers = torch.tensor([[0, 1, 1]])

    def with_states(*given: Any) -> Any:
        return tw.causal_conv1d_fn(*given[:3], None, given[3], True, activation="silu")

    def packed(*given: Any) -> Any:
        return tw.causal_conv1d_fn(*given, None, numbers, activation="silu")

    assert torch.autograd.gradcheck(with_states, (x, w, b, s))
    assert torch.autograd.gradgradcheck(with_states, (x, w, b, s))
    assert torch.autograd.gradcheck(packed, (x, w))
    assert torch.autograd.gradgradcheck(packed, (x, w))


def test_only_wanted_gradients_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.functional.causal import calls as causal_calls

    passes: list[str] = []
    usual = causal_calls.executor
    monkeypatch.setattr(causal_calls, "executor", lambda step, *rest: (passes.append(step), usual(step, *rest))[1])
    packed = torch.zeros(X.shape[0], X.shape[2], dtype=torch.int32)  # without it, the call is an ordinary layer
    tw.causal_conv1d_fn(X, W, B.clone().requires_grad_(), packed).backward(X)
    tw.causal_conv1d_fn(X.clone().requires_grad_(), W, B, packed).backward(X)
    assert passes == ["forward", "weight_gradient", "forward", "data_gradient"]


def test_transforms() -> None:
    grads = torch.func.grad(lambda w: tw.causal_conv1d_fn(X, w, B, activation="silu").sum())(W)
    w = W.clone().requires_grad_()
    cases.convolution(X, w, B, None, None, "silu").sum().backward()
    torch.testing.assert_close(grads, w.grad, atol=1e-4, rtol=1e-4)
    each = torch.func.vmap(lambda x: tw.causal_conv1d_fn(x, W))(torch.stack([X, 2 * X]))
    torch.testing.assert_close(each[1], tw.causal_conv1d_fn(2 * X, W))


def test_autocast_has_no_effect() -> None:
    for states in (None, X[..., :3]):
        for x in (X, X.clone().requires_grad_()):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                made = tw.causal_conv1d_fn(x, W, B, None, states)
            torch.testing.assert_close(made, tw.causal_conv1d_fn(x, W, B, None, states))


@pytest.mark.parametrize("name", ["x", "weight", "initial_states", "conv_state"])
def test_known_calls_check_each_tensor(name: str) -> None:
    """PyTorch's own check ends the process for a nested tensor, and raises for an object of another class."""
    update = name == "conv_state"
    call = tw.causal_conv1d_update if update else tw.causal_conv1d_fn
    state = {"conv_state": torch.zeros(2, 6, 3)} if update else {"initial_states": torch.zeros(2, 6, 3)}
    given = {"x": X[..., :1], "weight": W, **state}
    call(**given)
    call(**given)
    a = given[name]
    bad = [torch.nested.nested_tensor([*a], layout=torch.jagged), a.to_sparse(), a.numpy(), a.to("meta")]
    bad += [torch.nested.nested_tensor([*a])]
    for other in bad:
        with pytest.raises(UserError, match=f"{name} is |and x is on meta"):
            call(**{**given, name: other})
    if not update:  # zeros without memory
        zeros, none = {**given, name: torch.zeros_like(a)}, {**given, name: torch._efficientzerotensor(a.shape)}
        torch.testing.assert_close(call(**none), call(**zeros))


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(dynamic: bool) -> None:
    def model(x: Any, w: Any, state: Any) -> Any:
        made, last = tw.causal_conv1d_fn(x * 2, w, B, return_final_states=True, activation="silu")
        return made + 1, last, tw.causal_conv1d_update(x[..., 0], state, w, B, "silu") * 2

    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for length in (5, 9):
        x, w = X[..., :length].clone().requires_grad_(), W.clone().requires_grad_()
        y, v = x.detach().clone().requires_grad_(), W.clone().requires_grad_()
        first, second = torch.zeros(2, 6, 3), torch.zeros(2, 6, 3)
        found, wanted = compiled(x, w, first), model(y, v, second)
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(first, second)
        (found[0].sum() + found[1].sum()).backward()
        (wanted[0].sum() + wanted[1].sum()).backward()
        torch.testing.assert_close((x.grad, w.grad), (y.grad, v.grad))


@pytest.mark.slow
def test_operators_are_sound() -> None:
    x, w, b = X.clone().requires_grad_(), W.clone().requires_grad_(), B.clone().requires_grad_()
    torch.library.opcheck(torch.ops.tilewright.causal_conv1d.default, (x, w, b, None, None, "silu"))
    given = (X[..., 0], torch.zeros(2, 6, 3), W, B, "", None, None)
    torch.library.opcheck(torch.ops.tilewright.causal_conv1d_update.default, given)


ERRORS = {
    "activation is 'gelu'": lambda: tw.causal_conv1d_fn(X, W, activation="gelu"),
    "x is ": lambda: tw.causal_conv1d_fn([1.0], W),
    "x has the shape (6, 10)": lambda: tw.causal_conv1d_fn(X[0], W),
    "x has the type torch.int32": lambda: tw.causal_conv1d_fn(X.int(), W),
    "pass weight[:, 0]": lambda: tw.causal_conv1d_fn(X, W[:, None]),
    "the weight has the shape (4, 6), and x has 6 channels": lambda: tw.causal_conv1d_fn(X, W.T),
    "the bias has the shape (5,)": lambda: tw.causal_conv1d_fn(X, W, B[:5]),
    "seq_idx has the type torch.float32": lambda: tw.causal_conv1d_fn(X, W, None, X[:, 0]),
    "seq_idx has the shape (2, 9)": lambda: tw.causal_conv1d_fn(X, W, None, X[:, 0, :9].int()),
    "seq_idx is given with initial or final states": lambda: tw.causal_conv1d_fn(
        X, W, None, X[:, 0].int(), return_final_states=True
    ),
    "initial_states has the type torch.float64": lambda: tw.causal_conv1d_fn(X, W, None, None, X[..., :3].double()),
    "initial_states has the shape (2, 6, 4)": lambda: tw.causal_conv1d_fn(X, W, None, None, X[..., :4]),
    "return_final_states is False": lambda: tw.causal_conv1d_fn(X, W, final_states_out=X[..., :3]),
    "conv_state has the shape (2, 6, 2)": lambda: tw.causal_conv1d_update(X[..., 0], X[..., :2].clone(), W),
    "conv_state has the shape (3, 6, 3)": lambda: tw.causal_conv1d_update(X[..., 0], torch.zeros(3, 6, 3), W),
    "several elements of conv_state are one place in memory": lambda: tw.causal_conv1d_update(
        X[..., 0], torch.zeros(1, 6, 3).expand(2, 6, 3), W
    ),
    "cache_seqlens has the shape (3,)": lambda: tw.causal_conv1d_update(
        X[..., 0], torch.zeros(2, 6, 3), W, cache_seqlens=torch.zeros(3).int()
    ),
    "conv_state requires a gradient": lambda: tw.causal_conv1d_update(
        X[..., 0], torch.zeros(2, 6, 3, requires_grad=True), W
    ),
}


@pytest.mark.parametrize("message", ERRORS)
def test_errors(message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        ERRORS[message]()
