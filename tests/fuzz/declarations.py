"""Programs as users declare them, for automatic schedules: sizes that are known at the call, and operators of `topi`.

Values of `symbolic` programs are small whole numbers. Values of `operators` are not: results are compared closely.
"""

from __future__ import annotations

from tests.schedule.random_graphs import Template, draw_symbolic_graph
from tests.schedule.random_programs import RandomProgram, placeholder

SYMBOLIC: tuple[Template, ...] = (
    (
        {"A": "(n, m)"},
        "(n, m)",
        (
            "k, r = te.reduce_axis((0, m), name='k'), te.reduce_axis((0, m), name='r')",
            "U = te.compute((n,), lambda i: te.max(A[i, k], axis=k), name='U')",
            "V = te.compute((n, m), lambda i, j: te.max(A[i, j] - U[i], -2.0), name='V')",
            "W = te.compute((n,), lambda i: te.sum(V[i, r], axis=r), name='W')",
            "T = te.compute((n, m), lambda i, j: V[i, j] * 2.0 - W[i], name='T')",
        ),
    ),
    (
        {"A": "(n, m)", "W": "(n, m)", "B": "(n,)"},
        "(n, n)",
        (
            "k = te.reduce_axis((0, m), name='k')",
            "U = te.compute((n, n), lambda i, j: te.sum(A[i, k] * W[j, k], axis=k), name='U')",
            "T = te.compute((n, n), lambda i, j: te.max(U[i, j] + B[j], 0.0), name='T')",
        ),
    ),
    (
        {"A": "(n, 16)", "B": "(m, 16)", "C": "(m, 24)"},
        "(n, 24)",
        (
            "k, r, l = (te.reduce_axis((0, e), name=name) for e, name in ((16, 'k'), (m, 'r'), (m, 'l')))",
            "U = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name='U')",
            "V = te.compute((n,), lambda i: te.max(U[i, r], axis=r), name='V')",
            "T = te.compute((n, 24), lambda i, j: te.sum(te.max(U[i, l] - V[i], -3.0) * C[l, j], axis=l), name='T')",
        ),
    ),
    (
        {"A": "(n, m)", "P": "(m,)"},
        "(m, m)",
        ("limits['P'] = n", "T = te.compute((m, m), lambda i, j: A[P[i], j] + 1.0, name='T')"),
    ),
    (
        {"A": "(n, m)"},
        "(m, n)",
        ("T = te.compute((m, n), lambda i, j: A[j, i] * 2.0, name='T')",),
    ),
    (
        {"A": "(n, m)", "B": "(m,)"},
        "(n, m)",
        (
            "k, r = te.reduce_axis((0, n), name='k'), te.reduce_axis((0, m), name='r')",
            "U = te.compute((), lambda: te.sum(A[k, r], axis=[k, r]), name='U')",
            "T = te.compute((n, m), lambda i, j: A[i, j] * B[j] + U[()], name='T')",
        ),
    ),
    (
        {"A": "(n, m)"},
        "(n, m)",
        (
            "U = te.compute((n + 2, m + 2), lambda i, j: tir.if_then_else(tir.all(i >= 1, i <= n, j >= 1, j <= m), "
            "A[i - 1, j - 1], 0.0), name='U')",
            "y, x = te.reduce_axis((0, 3), name='y'), te.reduce_axis((0, 3), name='x')",
            "T = te.compute((n, m), lambda i, j: te.sum(U[i + y, j + x], axis=[y, x]), name='T')",
        ),
    ),
    (
        {"A": "(n, m)"},
        "(n, m)",
        (
            "S = te.placeholder((n, m), 'float32', 'S')",
            "U = te.compute((1, m), lambda t, i: A[0, i], name='U')",
            "V = te.compute((n, m), lambda t, i: te.max(S[t - 1, i], A[t, i]), name='V')",
            "X = te.scan(U, V, S, inputs=[A], name='X')",
            "T = te.compute((n, m), lambda t, i: X[t, i] * 2.0 + A[t, i], name='T')",
        ),
    ),
    (
        {"A": "(n, 4, m)", "B": "(4,)"},
        "(n, 4, m)",
        (
            "k, r = te.reduce_axis((0, n), name='k'), te.reduce_axis((0, m), name='r')",
            "U = te.compute((4,), lambda c: te.sum(A[k, c, r], axis=[k, r]), name='U')",
            "V = te.compute((4,), lambda c: te.max(A[k, c, r], axis=[k, r]), name='V')",
            "T = te.compute((n, 4, m), lambda i, c, j: (A[i, c, j] - V[c]) * B[c] + U[c], name='T')",
        ),
    ),
    (
        {"A": "(n, m)"},
        "(n,)",
        (
            "k = te.reduce_axis((0, m), name='k')",
            "first = te.comm_reducer(lambda x, y: (tir.Select(tir.any(x[1] > y[1], tir.all(x[1].equal(y[1]), "
            "x[0] < y[0])), x[0], y[0]), te.max(x[1], y[1])), lambda a, b: (tir.const(99, a), te.min_value(b)))",
            "U, V = te.compute((n,), lambda i: first((k, A[i, k]), axis=k), name='U')",
            "T = te.compute((n,), lambda i: U[i].astype('float32') + V[i], name='T')",
        ),
    ),
)


def draw_symbolic(program: RandomProgram) -> None:
    """A program of sizes n and m; sometimes a stage on the way is a result, too."""
    draw_symbolic_graph(program, SYMBOLIC)
    if "te.scan(" not in program.text and program.chance(20):
        op = program.names["T"].op.input_tensors[-1].op
        names = [name for name in "UVW" if name in program.names and program.names[name].op is op]
        program.do(f"outputs = {[*(name for name in names if name not in program.tensors), 'T']}")


OPERATORS = (
    "topi.nn.softmax({a}, {axis})",
    "topi.nn.softmax({a}, -1)",
    "topi.nn.log_softmax({a}, -1)",
    "topi.nn.layer_norm({a}, {last}, {last}, [-1])",
    "topi.nn.rms_norm({a}, {last}, [-1])",
    "topi.nn.l2_normalize({a}, 1e-3)",
    "topi.sigmoid({a})",
    "topi.tanh({a})",
    "topi.exp(topi.negative(topi.abs({a})))",
    "topi.erf({a})",
    "topi.sqrt(topi.abs({a}))",
    "topi.rsqrt(topi.add(topi.abs({a}), tir.const(1, {dtype!r})))",
    "topi.log(topi.add(topi.abs({a}), tir.const(1, {dtype!r})))",
    "topi.sum({a}, {axis}, keepdims=True)",
    "topi.sum({a}, {axis})",
    "topi.max({a}, None, keepdims=True)",
    "topi.prod(topi.tanh({a}), {axis})",
    "topi.divide({a}, topi.add(topi.sum(topi.abs({a}), {axis}, keepdims=True), tir.const(1, {dtype!r})))",
    "topi.subtract({a}, topi.max({a}, {axis}, keepdims=True))",
    "topi.multiply({a}, topi.sigmoid({a}))",
    "topi.add({a}, {same})",
    "topi.multiply({a}, {last})",
    "topi.transpose({a})",
    "topi.reshape({a}, {flat})",
    "topi.concatenate([{a}, {same}], {axis})",
    "topi.cumsum({a}, {axis})",
    "topi.flip({a}, {axis})",
    "topi.repeat({a}, 2, {axis})",
    "topi.where(topi.greater({a}, {same}), {a}, topi.tanh({same}))",
    "topi.nn.matmul({a2}, {a2}, transpose_b=True)",
    "topi.nn.relu(topi.nn.matmul({a2}, topi.transpose({a2})))",
    "topi.cast(topi.cast({a}, 'float64'), {dtype!r})",
    "topi.clip({a}, -1.0, 1.5)",
    "topi.expand_dims({a}, {axis})",
)  # fmt: skip


def draw_operators(program: RandomProgram) -> None:
    """Operators of the library, one after the other; sometimes the result of an earlier one is a result, too."""
    program.dtype = program.pick(["float32", "float32", "float32", "float64", "float16"])
    program.do("from tilewright import topi")
    sizes = program.pick([(1, 2, 3, 5, 8, 13), (1, 16, 31, 64, 97, 128)])
    shape: tuple[int, ...] = ()
    for _ in range(program.pick([2, 1, 2, 3])):
        shape = (*shape, program.pick(sizes))
    made = placeholder(program, shape)
    for _ in range(program.pick([1, 2, 3, 4])):
        now = tuple(int(e) for e in program.names[made].shape)
        if not now:
            break
        program.extents[made] = now
        twins = [t for t in program.tensors if tuple(int(e) for e in program.names[t].shape) == now]
        last = placeholder(program, now[-1:])
        text = program.pick([o for o in OPERATORS if "{a2}" not in o or len(now) == 2]).format(
            a=made, a2=made, last=last, same=program.pick(twins), axis=program.between(0, len(now) - 1),
            dtype=program.dtype, flat=(-1,) if len(now) < 3 else (now[0], -1),
        )  # fmt: skip
        name = program.fresh("T")
        if program.do(f"{name} = {text}"):
            program.tensors.append(name)
            made = name
    if not made.startswith("T"):
        name = program.fresh("T")
        program.do(f"{name} = topi.tanh({made})")
        program.tensors.append(name)
        made = name
    results = [t for t in program.tensors if t.startswith("T")]
    first = [program.pick(results)] if program.chance(20) else []
    program.do("kept = []")
    program.do(f"outputs = {[*(name for name in first if name != made), made]}")
