"""The operator as a primitive of JAX: shapes, tangents, transposition and batching of one `Problem`.

Arrays have four dimensions in the layout of the problem. Convolution, data gradient and weight gradient are linear in
both of their arrays. The transpose of each with respect to either array is one of the three. So gradients of any order,
forward or reverse, are calls of this primitive.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from ..arguments.batching import Case, case, folded, merged, unfolded
from ..arguments.problem import CONV, POOLS, TRANSPOSES, WEIGHT_GRADIENT, Problem
from ..planning.decision import Tune
from .by_xla import activation_of, beside, by_xla, made_shape, with_epilogue

operator = Primitive("tilewright")
_ROLES = {CONV: ("X", "W", "G"), WEIGHT_GRADIENT: ("X", "G", "W"), **dict.fromkeys(TRANSPOSES, ("G", "W", "X"))}
"""The roles of both arrays and of the result: X, W and G are the input, the weights and the result of a convolution."""


def compute(problem: Problem, *arrays: Any, tune: Tune = None) -> Any:
    """Compute a problem; `arrays` are its input and its extra arguments, in order."""
    axes: frozenset[Any] = frozenset().union(*map(_varying, arrays))
    return operator.bind(*[_varied(a, axes) for a in arrays], problem=problem, tune=tune)


def _varying(a: Any) -> frozenset[Any]:
    """Return the axes of a mesh along which `jax.shard_map` passes different arrays."""
    return _axes(jax.typeof(a)) if hasattr(jax, "typeof") else frozenset()


def _axes(kind: Any) -> frozenset[Any]:
    """Return these axes from the type of an array; versions of JAX store them in different places."""
    found: frozenset[Any] = getattr(getattr(kind, "manual_axis_type", None), "varying", None) or frozenset()
    return found or getattr(kind, "vma", frozenset())


def _varied(a: Any, axes: frozenset[Any]) -> Any:
    """Mark an array as varying along some axes of a mesh, so that JAX sums its gradient over them."""
    missing = tuple(sorted(axes - _varying(a)))
    if not missing:
        return a
    return jax.lax.pcast(a, missing, to="varying") if hasattr(jax.lax, "pcast") else jax.lax.pvary(a, missing)


@operator.def_abstract_eval  # type: ignore[untyped-decorator]  # JAX is not followed
def _shaped(x: Any, *others: Any, problem: Problem, tune: Tune) -> Any:
    shape = made_shape(problem)
    return x.update(shape=shape, weak_type=False) if _axes(x) else jax.core.ShapedArray(shape, x.dtype)


_compiled = jax.jit(operator.bind, static_argnames=("problem", "tune"))


@operator.def_impl  # type: ignore[untyped-decorator]  # JAX is not followed
def _run(*arrays: Any, problem: Problem, tune: Tune) -> Any:
    with jax.disable_jit(False):  # JAX's own operators are compiled despite this setting, too
        return _compiled(*arrays, problem=problem, tune=tune)


def _plain(problem: Problem) -> Problem:
    return problem._replace(bias=False, residual=False, activation="")


# Gradients


def _moved(primals: Any, tangents: Any, *, problem: Problem, tune: Tune) -> Any:
    """Return the result and its tangent. JAX computes the activation, so that no sum is computed twice."""
    layer = _layer(problem)
    if layer is None:
        tangents = [ad.instantiate_zeros(tangent) for tangent in tangents]
        return jax.jvp(partial(by_xla, problem), tuple(primals), tuple(tangents))
    named = dict(zip(("x", *problem.extra_arguments), tangents, strict=True))
    moved = {name: tangent for name, tangent in named.items() if type(tangent) is not ad.Zero}
    x, second = primals[:2]
    parts = [moved["residual"]] if "residual" in moved else []
    parts += [compute(_plain(problem), moved["x"], second)] if "x" in moved else []
    parts += [compute(_plain(problem), x, moved["weights"])] if "weights" in moved else []
    if "bias" in moved:
        # The tangent of the bias is at least float32, so that its transpose, a sum over all images, is too.
        bias = moved["bias"].astype(jax.numpy.promote_types(problem.dtype, "float32"))
        parts.append(jax.numpy.broadcast_to(beside(problem, bias), made_shape(problem)).astype(problem.dtype))
    tangent = sum(parts[1:], parts[0])
    made = compute(problem._replace(activation=""), *primals, tune=tune)
    if not problem.activation:
        return made, tangent
    return jax.jvp(activation_of(problem), (made,), (tangent,))


def _layer(problem: Problem) -> Problem | None:
    """Return the convolution that has the problem as its forward or a transposed operator; None if there is none."""
    if problem.op in POOLS:
        return None
    if problem.op not in TRANSPOSES:
        return _plain(problem)._replace(op=CONV)
    layer = _plain(problem)._replace(
        op=CONV, shape=problem.out_shape, filters=problem.shape[1], output_padding=(0, 0)
    )  # fmt: skip
    # A window that exceeds the input of a transposed convolution is no window of the convolution.
    return layer if layer.places == problem.shape[2:] else None


def _transposed(cotangent: Any, *arrays: Any, problem: Problem, tune: Tune) -> list[Any]:
    """Return the cotangents of the arrays: of the array in which the call is linear, and None for the other."""
    if type(cotangent) is ad.Zero:
        return [None] * len(arrays)
    layer = _layer(problem)
    if layer is None or len(arrays) > 2:
        raise NotImplementedError(f"the transpose of {problem}")
    first, second, out = _ROLES[problem.op]
    of_first = ad.is_undefined_primal(arrays[0])
    known = {second if of_first else first: arrays[1 if of_first else 0], out: cotangent}
    wanted = first if of_first else second
    of_weight, of_x = layer.gradients
    adjoint, needs = {"G": (layer, "XW"), "W": (of_weight, "XG"), "X": (of_x, "GW")}[wanted]
    made = compute(adjoint, *[known[role] for role in needs])
    return [made, None] if of_first else [None, made]


ad.primitive_jvps[operator] = _moved
ad.primitive_transposes[operator] = _transposed


# Batching


def _batched(arrays: Any, dims: Any, *, problem: Problem, tune: Tune) -> tuple[Any, int]:
    """Compute a call with an additional dimension in some of its arrays."""
    names = ("x", *problem.extra_arguments)
    held = {
        name: a if dim is None else jax.numpy.moveaxis(a, dim, 0)
        for name, a, dim in zip(names, arrays, dims, strict=True)
    }
    has = {name: dim is not None for name, dim in zip(names, dims, strict=True)}
    size = next(held[name].shape[0] for name in names if has[name])
    if not size:
        return jax.numpy.zeros((0, *made_shape(problem)), problem.dtype), 0
    order = ("x", "weights", "bias", "residual")
    mapped = tuple(has.get(name, False) for name in order)
    how = case(problem.op, mapped)
    if how is Case.SUMS:
        core, x, axes = _plain(problem), held["x"], {name: 0 if there else None for name, there in has.items()}
        shared = (held["weights"],)
        sums = _batched((x, *shared), (0, None), problem=core, tune=tune)[0] if has["x"] else compute(core, x, *shared)
        added = [held.get("bias"), held.get("residual")]
        along = (axes["x"], axes.get("bias"), axes.get("residual"))
        return jax.vmap(partial(with_epilogue, problem), along)(sums, *added), 0
    if how is Case.BATCH:
        whole = problem.with_batch(size * problem.shape[0])
        if "residual" in held and not has["residual"]:
            held["residual"] = jax.numpy.broadcast_to(held["residual"], (size, *held["residual"].shape))
        images = [folded(a) if name in ("x", "residual") else a for name, a in held.items()]
        return unfolded(compute(whole, *images, tune=tune), size), 0
    given = tuple(held.get(name) for name in order)
    channel = 3 if problem.layout == "NHWC" else 1
    call = merged(jax.numpy, problem.op, given, mapped, channel, problem.groups)
    batch, channels, height, width = problem.shape
    whole = problem._replace(
        shape=(batch, channels * call.channels, height, width), filters=problem.filters * call.filters,
        groups=problem.groups * call.groups,
    )  # fmt: skip
    return call.restore(compute(whole, *[a for a in call.arrays if a is not None], tune=tune)), 0


batching.primitive_batchers[operator] = _batched
