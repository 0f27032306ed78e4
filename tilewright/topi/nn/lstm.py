"""Long short-term memory: a recurrent network that carries a hidden state and a cell state from step to step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.errors import UserError
from ...expr import operators as o
from ...expr.intrinsics import TABLE
from ...expr.nodes import Expr
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from ..argument_checks import flag, known, rank_of, same, sizes, tensor
from ..statements import StatementBuilder, computed_by
from ..tag import INJECTIVE

Activation = Callable[[Expr], Expr]
_GATES = "IFGO"


def lstm(
    Xs: Tensor,
    Wi: Tensor,
    Wh: Tensor,
    Bi: Tensor | None = None,
    Bh: Tensor | None = None,
    h_init: Tensor | None = None,
    c_init: Tensor | None = None,
    proj: Tensor | None = None,
    p_i: Tensor | None = None,
    p_f: Tensor | None = None,
    p_o: Tensor | None = None,
    f_act: Activation = TABLE["sigmoid"],
    g_act: Activation = TABLE["tanh"],
    h_act: Activation = TABLE["tanh"],
    reverse: bool = False,
    weight_layout: str = _GATES,
) -> tuple[Tensor, Tensor]:
    """Run a sequence through a long short-term memory, and keep the states after each step.

    Parameters
    ----------
    Xs
        The sequence (steps, batch, inputs), of floating-point numbers.
    Wi, Wh
        Weights of the inputs, `(4 * hidden, inputs)`, and of the hidden state, `(4 * hidden, hidden)`, or with `proj`
        `(4 * hidden, projected)`. The rows of the four gates follow each other.
    Bi, Bh
        Summands of the gates (4 * hidden,).
    h_init, c_init
        The states before the first step: (batch, hidden), or for `h_init` with `proj` (batch, projected); by default 0.
    proj
        A matrix (projected, hidden) that the hidden state is multiplied by after each step.
    p_i, p_f, p_o
        Peepholes (batch, hidden): factors with which the cell state adds to the input, forget and output gates.
        `p_i` and `p_f` are given together.
    f_act, g_act, h_act
        The functions of the three gates, of the candidate, and of the cell state in the output.
    reverse
        Whether the steps are taken from the last one on; states are still in the order of the steps taken.
    weight_layout
        The order of the gates in the weights: input (I), forget (F), candidate (G), and output (O).

    Returns
    -------
    The hidden states (steps, batch, hidden or projected), and the cell states (steps, batch, hidden).

    Raises
    ------
    UserError
        For shapes that do not fit each other, and for another layout.

    Notes
    -----
    The products of all inputs are computed at once. The rest is declared for the current target: each step computes its
    gates, one per thread, then its states.
    """
    _check_layout(weight_layout)
    x = rank_of(tensor(Xs, "Xs", "lstm"), 3, "Xs", "lstm", "(steps, batch, inputs)")
    given = {"Wi": Wi, "Wh": Wh, "Bi": Bi, "Bh": Bh, "h_init": h_init, "c_init": c_init, "proj": proj, "p_i": p_i,
             "p_f": p_f, "p_o": p_o}  # fmt: skip
    if (p_i is None) != (p_f is None):
        raise UserError("only one of p_i and p_f is given", primitive="lstm", fix="give both, or neither")
    net = _Network.of(x, given)
    act = tuple(zip("IFOGH", (f_act, f_act, f_act, g_act, h_act), strict=True))
    return net.states(_inputs(x, net), dict(act), flag(reverse, "reverse", "lstm"), weight_layout)


def _check_layout(layout: Any) -> None:
    if not isinstance(layout, str) or sorted(layout) != sorted(_GATES):
        raise UserError(
            f"weight_layout={layout!r} is not an order of the gates",
            primitive="lstm",
            fix='name each gate once: "IFGO"',
        )


@dataclass(frozen=True)
class _Network:
    """The checked tensors of a network, by their arguments' names, and its sizes."""

    tensors: dict[str, Tensor]
    steps: int
    batch: int
    hidden: int
    projected: int

    @classmethod
    def of(cls, x: Tensor, given: dict[str, Any]) -> _Network:
        steps, batch, inputs = sizes(x, [0, 1, 2], "lstm")
        found = {name: tensor(t, name, "lstm") for name, t in given.items() if t is not None or name in ("Wi", "Wh")}
        rows = known(found["Wi"].shape[0]) if found["Wi"].ndim == 2 else None
        if not rows or rows % 4:
            raise UserError(
                f"Wi has the shape {list(found['Wi'].shape)}, which is not (4 * hidden, inputs)",
                primitive="lstm",
                fix="give one tensor with the rows of all four gates",
            )
        hidden = rows // 4
        projected = known(found["proj"].shape[0]) if "proj" in found else hidden
        if projected is None:
            raise UserError("proj has no constant shape", primitive="lstm", fix="give (projected, hidden) as numbers")
        state = (batch, hidden)
        wanted = {"Wi": (rows, inputs), "Wh": (rows, projected), "Bi": (rows,), "Bh": (rows,), "c_init": state,
                  "h_init": (batch, projected), "proj": (projected, hidden), "p_i": state, "p_f": state,
                  "p_o": state}  # fmt: skip
        for name, t in found.items():
            rank_of(t, len(wanted[name]), name, "lstm", str(wanted[name]))
            for d, n in enumerate(wanted[name]):
                same(t.shape[d], n, f"dimension {d} of {name} and its extent by Xs, Wi and proj", "lstm")
            if t.dtype != x.dtype:
                raise UserError(
                    f"{name} has type {t.dtype}, and Xs {x.dtype}", primitive="lstm", fix="give all one type"
                )
        return cls(found, steps, batch, hidden, projected)

    def states(self, inputs: Tensor, act: dict[str, Activation], reverse: bool, layout: str) -> tuple[Tensor, Tensor]:
        """The hidden and the cell states after each step, from the gates' sums over the inputs."""
        names = [name for name in self.tensors if name not in ("Wi", "Bi")]

        def write(statement: StatementBuilder, ins: Sequence[Any], outs: Sequence[Any]) -> None:
            read = dict(zip(["X", *names], ins, strict=True))
            wide, units = _sum_type(kind), self.batch * self.hidden
            gates = statement.ib.allocate(wide, 4 * units, "gates", scope="global")
            full = statement.ib.allocate(wide, units, "full", scope="global") if "proj" in self.tensors else None
            _Steps(self, statement, read, outs, act, gates, full).write(reverse, layout)

        kind = self.tensors["Wh"].dtype
        shapes = [((self.steps, self.batch, width), kind) for width in (self.projected, self.hidden)]
        made = computed_by("lstm", [inputs, *(self.tensors[name] for name in names)], shapes, write)
        return made[0], made[1]


def _sum_type(kind: Any) -> str:
    return "float64" if kind == "float64" else "float32"


def _inputs(x: Tensor, net: _Network) -> Tensor:
    """The gates' sums over the inputs of all steps: a matrix product, with its summands."""
    weights, bias, wide = net.tensors["Wi"], net.tensors.get("Bi"), _sum_type(x.dtype)
    k = reduce_axis((0, x.shape[2]), name="k")
    shape = net.steps, net.batch, 4 * net.hidden

    def total(t: Any, b: Any, row: Any) -> Expr:
        found: Expr = reduce_sum(o.cast(wide, x(t, b, k)) * o.cast(wide, weights(row, k)), axis=k)
        return found

    sums: Tensor = compute(shape, total, "lstm_inputs", "matmul")
    if bias is None:
        return sums
    made: Tensor = compute(
        shape, lambda t, b, row: sums(t, b, row) + o.cast(wide, bias(row)), "lstm_biased", INJECTIVE, {"store": True}
    )
    return made


@dataclass(frozen=True)
class _Steps:
    """The statements of all steps: `read` are the tensors by their names, `written` the hidden and the cell states."""

    net: _Network
    statement: StatementBuilder
    read: dict[str, Any]
    written: Sequence[Any]
    act: dict[str, Activation]
    gates: Any
    """The gates' sums of one step, (batch, 4 * hidden)."""
    full: Any
    """With a projection, the hidden state before it, (batch, hidden)."""

    def write(self, reverse: bool, layout: str) -> None:
        """Write the loop over the steps."""
        net, ib = self.net, self.statement.ib
        with ib.for_range(0, net.steps, "t") as t:
            place = net.steps - 1 - t if reverse else t
            self.statement.each(net.batch * 4 * net.hidden, lambda e: self._gate(t, place, e))
            self.statement.each(net.batch * net.hidden, lambda e: self._state(t, e, layout))
            if "proj" in net.tensors:
                self.statement.each(net.batch * net.projected, lambda e: self._projected(t, e))

    def _gate(self, t: Any, place: Any, e: Any) -> None:
        """One gate's sum of one sample: over the inputs, over the hidden state, and its summand."""
        net, width = self.net, 4 * self.net.hidden
        b, row = o.floordiv(e, width), o.floormod(e, width)
        start = self.read["X"][place, b, row]
        if "Bh" in self.read:
            start = start + self._wide(self.read["Bh"][row])
        weights = self.read["Wh"]
        total = self._sum(
            net.projected, start, lambda k: self._wide(weights[row, k]) * self._before(0, "h_init", t, b, k)
        )
        self.gates[e] = total

    def _state(self, t: Any, e: Any, layout: str) -> None:
        """The cell state of one unit, and its hidden state before the projection."""
        net, ib = self.net, self.statement.ib
        b, j = o.floordiv(e, net.hidden), o.floormod(e, net.hidden)
        old = ib.let("old", self._before(1, "c_init", t, b, j))

        def gate(letter: str, peephole: str = "", cell: Any = old) -> Expr:
            value = self.gates[(b * 4 + layout.index(letter)) * net.hidden + j]
            if peephole in self.read:
                value = value + self._wide(self.read[peephole][b, j]) * cell
            return self.act[letter](value)

        kind = net.tensors["Wh"].dtype
        new = ib.let("new", gate("F", "p_f") * old + gate("I", "p_i") * gate("G"))
        self.written[1][t, b, j] = o.cast(kind, new)
        out = gate("O", "p_o", new) * self.act["H"](new)
        if self.full is not None:
            self.full[e] = out
        else:
            self.written[0][t, b, j] = o.cast(kind, out)

    def _projected(self, t: Any, e: Any) -> None:
        """One element of the projected hidden state."""
        net = self.net
        b, row = o.floordiv(e, net.projected), o.floormod(e, net.projected)
        kind, proj = net.tensors["Wh"].dtype, self.read["proj"]
        start = o.const(0, _sum_type(kind))
        total = self._sum(net.hidden, start, lambda k: self._wide(proj[row, k]) * self.full[b * net.hidden + k])
        self.written[0][t, b, row] = o.cast(kind, total)

    def _sum(self, count: int, start: Expr, term: Callable[[Any], Expr]) -> Expr:
        ib = self.statement.ib
        total = ib.allocate(str(start.dtype), 1, "total", scope="local")
        total[0] = start
        with ib.for_range(0, count, "k") as k:
            total[0] = total[0] + term(k)
        found: Expr = total[0]
        return found

    def _before(self, output: int, start: str, t: Any, b: Any, j: Any) -> Expr:
        """An element of a state before step `t`."""
        earlier = self._wide(self.written[output][o.maximum(t - 1, 0), b, j])
        first = self._wide(self.read[start][b, j]) if start in self.read else o.const(0, earlier.dtype)
        return o.if_then_else(o.greater(t, 0), earlier, first)

    def _wide(self, value: Expr) -> Expr:
        return o.cast(_sum_type(value.dtype), value)
