"""Programs as operators of PyTorch, and built functions on its tensors; PyTorch's own operators are the oracle."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

import tilewright as tw
from tilewright import te
from tilewright.compat import autotvm
from tilewright.core.errors import UserError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.torch
_numbers = count()


def name() -> str:
    return f"tilewright_tests::op{next(_numbers)}"


def weighted(dtype: str = "float64") -> list[Any]:
    """Sums of rows, weighted by exponentials; all sizes are variables."""
    n, m = te.var("n"), te.var("m")
    a, b = te.placeholder((n, m), dtype, name="A"), te.placeholder((m,), dtype, name="B")
    k = te.reduce_axis((0, m), name="k")
    return [a, b, te.compute((n,), lambda i: te.sum(a[i, k] * te.exp(b[k]), axis=k), name="C")]


def tensors(*shapes: tuple[int, ...], dtype: Any = torch.float64) -> list[Any]:
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def test_a_schedule_with_gradients_of_any_order() -> None:
    a, b, c = weighted()
    s = te.create_schedule(c.op)
    s[c].parallel(c.op.axis[0])
    operator = tw.torch_operator(name(), s, [a, b, c], gradient=True)
    x, w = tensors((3, 4), (4,))
    torch.testing.assert_close(operator(x, w), x @ w.exp())
    torch.testing.assert_close(operator(x[:, :2], w[::2]), x[:, :2] @ w[::2].exp())
    assert torch.autograd.gradcheck(operator, (x, w))
    assert torch.autograd.gradgradcheck(operator, (x, w))
    assert set(torch.library.opcheck(operator.default, (x, w)).values()) == {"SUCCESS"}


def test_it_compiles_in_one_graph() -> None:
    operator = tw.torch_operator(name(), weighted()[2], gradient=True)
    x, w = tensors((3, 4), (4,))
    found = torch.autograd.grad(
        torch.compile(lambda x, w: operator(2 * x, w).sin().sum(), backend="aot_eager", fullgraph=True)(x, w), (x, w)
    )
    torch.testing.assert_close(found, torch.autograd.grad((2 * x @ w.exp()).sin().sum(), (x, w)))


def test_a_result_of_negative_size_is_refused() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    operator = tw.torch_operator(name(), te.compute((n - 2,), lambda i: a[i] + a[i + 2], name="B"))
    assert operator(torch.ones(2)).shape == (0,)
    for device in ("cpu", "meta"):
        with pytest.raises(UserError, match=r"B would have the shape \(-1,\)"):
            operator(torch.ones(1, device=device))


def test_several_results_and_a_size() -> None:
    n, window = te.size_var("n"), te.size_var("window")
    a = te.placeholder((n,), "float64", name="A")
    k = te.reduce_axis((0, window), name="k")
    sums = te.compute((n - window + 1,), lambda i: te.sum(a[i + k], axis=k), name="sums")
    squares = te.compute((n,), lambda i: a[i] * a[i], name="squares")
    operator = tw.torch_operator(
        name(), te.create_schedule([sums.op, squares.op]), [sums, a, squares, window], gradient=True
    )
    (x,) = tensors((7,))
    found = operator(x, 3)
    torch.testing.assert_close(found, (x.unfold(0, 3, 1).sum(1), x * x))
    assert torch.autograd.gradcheck(lambda x: operator(x, 3), x)
    torch.testing.assert_close(torch.autograd.grad(found[1].sum(), x)[0], 2 * x)  # the other one has no gradient


def test_inputs_come_in_the_given_order() -> None:
    """The program reads them in another one, and one of them not at all."""
    a, b, c = (te.placeholder((4,), "float64", name) for name in "abc")
    made = te.compute((4,), lambda i: c[i] / a[i], name="made")
    operator = tw.torch_operator(name(), [a, b, c, made], gradient=True)
    x, y, z = given = tensors((4,), (4,), (4,))
    torch.testing.assert_close(operator(x, y, z), z / x)
    found = torch.autograd.grad(operator(*given).sum(), given, materialize_grads=True)
    torch.testing.assert_close(found, (-z / x**2, torch.zeros(4, dtype=torch.float64), 1 / x))
    x, z = x.detach(), z.detach()
    torch.testing.assert_close(tw.torch_operator(name(), made)(z, x), z / x)


def test_many_arguments() -> None:
    given = [te.placeholder((4,), "float64", name=f"A{place}") for place in range(12)]
    total = te.compute((4,), lambda i: sum((a[i] for a in given[1:]), given[0][i]), name="total")
    operator = tw.torch_operator(name(), total)
    held = [x.detach() for x in tensors(*[(4,)] * 12)]
    torch.testing.assert_close(operator(*held), torch.stack(held).sum(0))


def test_the_state_of_a_scan_is_no_argument() -> None:
    x, state = (te.placeholder((5, 3), "float64", name) for name in ("x", "state"))
    first = te.compute((1, 3), lambda _, j: x[0, j], name="first")
    update = te.compute((5, 3), lambda t, j: state[t - 1, j] + x[t, j], name="update")
    operator = tw.torch_operator(name(), te.scan(first, update, state, inputs=[x], name="sums"))
    (given,) = tensors((5, 3))
    torch.testing.assert_close(operator(given.detach()), given.detach().cumsum(0))


def test_a_template() -> None:
    @autotvm.template(f"tests/{name()}")
    def scaled(size: int) -> Any:
        a = te.placeholder((size,), name="A")
        b = te.compute((size,), lambda i: a[i] * 3, name="B")
        s, config = te.create_schedule(b.op), autotvm.get_config()
        config.define_split("tile", s[b].op.axis[0], num_outputs=2)
        config["tile"].apply(s, b, s[b].op.axis[0])
        return s, [a, b]

    operator = tw.torch_operator(name(), scaled, [12])
    (x,) = tensors((12,), dtype=torch.float32)
    torch.testing.assert_close(operator(x), 3 * x)
    with pytest.raises(UserError, match="it has no gradient"):
        operator(x).sum().backward()


def test_a_program_that_calls_python() -> None:
    def doubled(source: Any, target: Any) -> None:
        tw.nd.array(2 * source.numpy()).copyto(target)

    key = f"tests.doubled{next(_numbers)}"
    tw.register_func(key, doubled)
    a = te.placeholder((4,), name="A")
    b = te.extern((4,), [a], lambda ins, outs: tw.tir.call_packed(key, ins[0], outs[0]), name="B")
    operator = tw.torch_operator(name(), te.create_schedule(b.op), [a, b])
    torch.testing.assert_close(operator(torch.arange(4.0)), 2 * torch.arange(4.0))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: (torch.ones(3, 4, dtype=torch.float64), torch.ones(5, dtype=torch.float64)), "B has the shape"),
        (lambda: (torch.ones(3, 4), torch.ones(4, dtype=torch.float64)), "A has the type float32"),
        (lambda: (torch.ones(3, dtype=torch.float64), torch.ones(4, dtype=torch.float64)), "give it 2 dimensions"),
        (lambda: (torch.ones(3, 4, dtype=torch.float64), torch.ones(4, device="meta")), "are on cpu and meta"),
    ],
)
def test_wrong_tensors(given: Any, message: str) -> None:
    operator = tw.torch_operator(name(), weighted()[2])
    with pytest.raises(UserError) as caught:
        operator(*given())
    assert message in str(caught.value)


def test_sizes_of_any_sign_and_floats() -> None:
    n, k, far, factor = te.var("n"), te.var("k"), te.var("far", "int64"), te.var("factor", "float32")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + k + far % 1000, name="B")
    c = te.compute((n,), lambda i: a[i] * factor, name="C")
    operator = tw.torch_operator(name(), b, [a, b, k, far])
    for number in (0, 5, -1, -7):
        for large in (0, -1, 3 + 1000 * 2**42, -(2**50)):
            wanted = torch.ones(3) + number + large % 1000
            torch.testing.assert_close(operator(torch.ones(3), number, large), wanted)
    x = torch.ones(3, requires_grad=True)
    scaled = tw.torch_operator(name(), c, [a, c, factor], gradient=True)
    for by in (2.5, 2, -1.5):
        torch.testing.assert_close(scaled(x, by), x * by)
        torch.testing.assert_close(torch.autograd.grad(scaled(x, by).sum(), x)[0], torch.full((3,), float(by)))


def test_derivatives_that_pytorch_would_leave_out_are_refused() -> None:
    operator = tw.torch_operator(name(), weighted()[2], gradient=True)
    x, w = (t.detach() for t in tensors((3, 4), (4,)))
    for derive in (
        lambda: torch.func.jvp(operator, (x, w), (x, w)),
        lambda: torch.func.grad(lambda x: operator(x, w).sum())(x),
        lambda: torch.func.hessian(lambda x: operator(x, w).sum())(x),
    ):
        with pytest.raises(UserError, match=r"do not differentiate registered operators\n.*torch.autograd.grad"):
            derive()
    value, moved = torch.func.jvp(lambda z: z * operator(x, w), (w[:3],), (torch.ones_like(w[:3]),))
    torch.testing.assert_close((value, moved), (w[:3] * (x @ w.exp()), x @ w.exp()))


def test_wrong_programs() -> None:
    a, _, c = weighted()
    taken = name()
    tw.torch_operator(taken, c)
    n = te.var("n")
    few = te.compute((n,), lambda i: te.const(1.0), name="few")
    words = te.compute(a.shape, lambda i, j: a[i, j].astype("int32"), name="words")
    for arguments, named, message in (
        ((taken, c), {}, "already"),
        (("plain", c), {}, "not the name of an operator"),
        (("my::class", c), {}, "not the name of an operator"),
        ((name(), te.create_schedule(c.op)), {}, "no arguments are given"),
        ((name(), 3), {}, "neither a schedule nor tensors"),
        ((name(), few), {}, "no argument is an input"),
        ((name(), words), {"gradient": True}, "the output is of type int32"),
        ((name(), lambda: None), {}, "the template returned None"),
    ):
        with pytest.raises(UserError, match=message):
            tw.torch_operator(*arguments, **named)


# Built functions


def test_a_built_function_takes_tensors() -> None:
    a, b, c = weighted("float32")
    run = tw.build(te.create_schedule(c.op), [a, b, c], "llvm")
    x, w = tensors((3, 4), (4,), dtype=torch.float32)
    made = torch.empty(3)
    with pytest.raises(UserError, match="A requires a gradient"):
        run(x, w, made)
    with torch.no_grad():
        run(x, torch.nn.Parameter(w), made)
    torch.testing.assert_close(made, (x @ w.exp()).detach())
    run(tw.nd.array(x.detach().numpy()), w.detach(), made.zero_())  # beside an array of ours
    torch.testing.assert_close(made, (x @ w.exp()).detach())
    with pytest.raises(UserError, match=r"argument 0 of main \(A: float32\[n, m\]\) has type float64"):
        run(x.detach().double(), w.detach(), made)
    with pytest.raises(UserError, match=r"opposite signs\n.*resolve_neg"):
        run(torch._neg_view(x.detach()), w.detach(), made)
