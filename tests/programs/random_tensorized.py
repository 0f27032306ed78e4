"""Random schedules around matrix instructions: `python -m tests.programs.random_tensorized [count] [first seed]`.

Each draws an atom, sizes that its tiles need not divide, layouts of operands, tiles of blocks and warps, rings, fills
and an epilogue. Kernels are compiled by all cores and run on the GPU; with `--emulate` after the seed, by all cores of
this machine, on the emulated device of `tests/emulator`.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright as tw
from tests.emulator import device
from tests.emulator.device import EmulationError, emulation
from tests.passes.running import finish
from tilewright import intrin, te
from tilewright.core.atoms import WARPGROUP_ATOMS, Atom
from tilewright.core.dtype import DType
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.loops.interpret import interpret
from tilewright.runtime.module import Module

GPU = "cuda -arch=sm_90"
ERRORS = {"float16": 4e-6, "bfloat16": 4e-6, "tf32": 1e-3, "3xtf32": 4e-7, "float64": 1e-14, "int8": 0.0, "uint8": 0.0}
ERRORS |= {"float16_float16": 1e-3, "bf16x6": 4e-7, "3xtf32_one": 8e-7}
OF_WARPGROUPS = {name: ERRORS[name.removeprefix("wgmma_")] for name in WARPGROUP_ATOMS}
EPILOGUES: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda d, b: d,
    "bias": lambda d, b: te.max(d + b, te.const(0, d.dtype)),
    "twice": lambda d, b: d * b + d,
}
NUMPY: dict[str, Callable[..., Any]] = {
    "plain": lambda d: d,
    "bias": lambda d, b: np.maximum(d + b, 0),
    "twice": lambda d, b: d * b + d,
}


@dataclass(frozen=True)
class Case:
    """One program: what was drawn."""

    seed: int
    atom: str
    turned: tuple[bool, bool]
    warps: tuple[int, int]
    warp: tuple[int, int]
    depth: int
    sizes: tuple[int, int, int]
    batch: int
    stages: tuple[int, int]
    vectors: bool
    pads_terms: bool
    epilogue: str
    through_shared: bool
    half: bool
    swizzled: tuple[bool, bool]


def atom_of(name: str) -> Atom:
    """The instruction of a case."""
    return WARPGROUP_ATOMS[name] if name in WARPGROUP_ATOMS else intrin.mma(name)


def draw(seed: int, small: bool = False) -> Case:
    """The case of a seed; `small` ones are for the interpreter. Every fifth is for a warpgroup."""
    rng = random.Random(seed)
    name = rng.choice(list(ERRORS if seed % 5 else OF_WARPGROUPS))
    atom = atom_of(name)
    turned = (False, True) if atom.per_word == 4 else (rng.random() < 0.5, rng.random() < 0.5)
    warp = (
        atom.m * rng.choice((1, 1, 2) if small else (1, 2, 3, 4)),
        8 * rng.choice((1, 2, 3) if small else (1, 2, 3, 4, 6)),
    )
    warps = (rng.choice((1, 2)), rng.choice((1, 2)))
    depth = atom.k * rng.choice((1, 2) if small else (1, 2, 3, 4))
    if atom.by_warpgroup:  # its four warps have 16 rows each, and slices 128 bytes of terms
        turned, warp, warps, depth = (False, True), (64, 2 * warp[1]), (warps[0], 1), 4 * atom.k
    block = (warps[0] * warp[0], warps[1] * warp[1])
    tiles = (rng.choice((1, 2)), rng.choice((1, 2)), rng.choice((1, 2, 3) if small else (1, 2, 5)))
    partial = rng.random() < 0.4
    m, n = (tiles[i] * block[i] - (rng.randrange(block[i]) if partial and tiles[i] > 1 else 0) for i in range(2))
    pads_terms = rng.random() < 0.3
    k = tiles[2] * depth - (rng.randrange(depth) if pads_terms else 0)
    return Case(
        seed, name, turned, warps, warp, depth, (m, n, k), rng.choice((0, 0, 2)),
        (rng.choice((1, 2, 3)), rng.choice((1, 2, 4))), rng.random() < 0.6, pads_terms,
        rng.choice(list(EPILOGUES)), rng.random() < 0.4, rng.random() < 0.3,
        (rng.random() < 0.4, rng.random() < 0.4) if not atom.by_warpgroup else (False, False),
    )  # fmt: skip


def program(case: Case) -> tuple[te.Schedule, list[Any]]:
    """The schedule of a case and its arguments: two operands, a bias, the result."""
    atom, (m, n, k) = atom_of(case.atom), case.sizes
    sums, kind = atom.accumulator, atom.operands
    ahead = (case.batch,) if case.batch else ()
    shapes = [(k, m) if case.turned[0] else (m, k), (n, k) if case.turned[1] else (k, n)]
    A, B = (te.placeholder((*ahead, *shape), kind, name) for name, shape in zip("AB", shapes, strict=True))
    bias = te.placeholder((n,), sums, "bias")
    terms = -(-k // case.depth) * case.depth
    operands = [A, B]
    if case.pads_terms:
        operands = [_padded(T, k, terms, int(turned) if i else 1 - turned, len(ahead)) for i, (T, turned) in
                    enumerate(zip((A, B), case.turned, strict=True))]  # fmt: skip
    x = te.reduce_axis((0, terms), "x")

    def sum_of(*at: Any) -> Any:
        g, (i, j) = at[:-2], at[-2:]
        left = operands[0](*g, *((x, i) if case.turned[0] else (i, x)))
        right = operands[1](*g, *((j, x) if case.turned[1] else (x, j)))
        return te.sum(left.astype(sums) * right.astype(sums), axis=x)

    D = te.compute((*ahead, m, n), sum_of, name="D")
    out = "float16" if case.half and sums == "float32" else sums
    C = te.compute(D.shape, lambda *at: EPILOGUES[case.epilogue](D(*at), bias[at[-1]]).astype(out), name="C")
    s = te.create_schedule(C.op)
    if case.pads_terms:
        for T in operands:
            s[T].compute_inline()
    _schedule(s, case, C, D, operands)
    return s, [A, B, *([bias] if case.epilogue != "plain" else []), C]


def _padded(T: Any, k: int, terms: int, place: int, ahead: int) -> Any:
    """An operand with zeros for the terms that it lacks."""
    shape = [*T.shape]
    shape[ahead + place] = terms
    zero = te.const(0, T.dtype)
    return te.compute(shape, lambda *at: te.if_then_else(at[ahead + place] < k, T(*at), zero), name=f"{T.name}.padded")


def _schedule(s: te.Schedule, case: Case, C: Any, D: Any, operands: list[Any]) -> None:
    block = (case.warps[0] * case.warp[0], case.warps[1] * case.warp[1])
    atom = atom_of(case.atom)
    below = 4 if atom.by_warpgroup else 1
    s[D].set_scope("local")
    held = s.cache_write(C, "shared") if case.through_shared else C
    tiles = [s.cache_read(T, "shared", [D]) for T in operands]
    *ahead, i, j = C.op.axis
    block_i, block_j, i, j = s[C].tile(i, j, *block)
    outer = block_j
    for axis, tag in ((block_i, "blockIdx.y"), (block_j, "blockIdx.x"), *((g, "blockIdx.z") for g in ahead)):
        s[C].bind(axis, te.thread_axis(tag))
    if case.through_shared:
        rest = s[C].fuse(i, j)
        for tag, size in (("threadIdx.x", 32), ("threadIdx.y", case.warps[1] * below), ("threadIdx.z", case.warps[0])):
            rest, thread = s[C].split(rest, size)
            s[C].bind(thread, te.thread_axis(tag))
        s[held].compute_at(s[C], outer)
        i, j = held.op.axis[-2:]
    warp_i, warp_j, i, j = s[held].tile(i, j, *case.warp)
    s[held].bind(warp_i, te.thread_axis("threadIdx.z"))
    if atom.by_warpgroup:
        warp_j, i = s[held].split(i, 16)
    s[held].bind(warp_j, te.thread_axis("threadIdx.y"))
    s[D].compute_at(s[held], warp_j)
    outer, inner = s[D].split(s[D].op.reduce_axis[0], case.depth)
    s[D].reorder(outer, *s[D].op.axis, inner)
    for operand, (tile, stages, swizzled) in enumerate(zip(tiles, case.stages, case.swizzled, strict=True)):
        s[tile].compute_at(s[D], outer)
        if case.vectors:
            _, lane = s[tile].split(s[tile].fuse(*tile.op.axis), 16 // DType(tile.dtype).bytes)
            s[tile].vectorize(lane)
        if stages > 1:
            s[tile].pipeline(stages)
        if swizzled and _has_swizzled_rows(case, operand):
            s[tile].storage_swizzle()
    s[D].tensorize(s[D].op.axis[-2], atom)


def _has_swizzled_rows(case: Case, operand: int) -> bool:
    """Whether the rows of an operand's tile in shared memory have a power of two bytes, of at least 16."""
    along_depth = case.turned[operand] == bool(operand)
    row = case.depth if along_depth else case.warps[operand] * case.warp[operand]
    row *= DType(atom_of(case.atom).operands).bytes
    return row >= 16 and row & (row - 1) == 0


def inputs_of(case: Case, args: list[Any]) -> list[np.ndarray]:
    """Random values for all arguments but the result."""
    rng = np.random.default_rng(case.seed)
    made = []
    for tensor in args[:-1]:
        kind, shape = DType(tensor.dtype), [int(extent) for extent in tensor.shape]
        if kind.is_float:
            made.append(rng.uniform(-1, 1, shape).astype(kind.numpy))
        else:
            made.append(rng.integers(0 if str(kind).startswith("u") else -100, 100, shape).astype(kind.numpy))
    return made


def wanted(case: Case, inputs: list[np.ndarray]) -> np.ndarray:
    """The result in float64."""
    a, b, *others = (given.astype("float64") for given in inputs)
    left = a.swapaxes(-1, -2) if case.turned[0] else a
    right = b.swapaxes(-1, -2) if case.turned[1] else b
    return np.asarray(NUMPY[case.epilogue](left @ right, *others))


def error(case: Case, found: np.ndarray, right: np.ndarray) -> float:
    """How many times the error is what it may be: relative to the norm; of float16 results, its rounding included."""
    norm = max(float(np.linalg.norm(right)), 1e-30)
    most = max(4 * {**ERRORS, **OF_WARPGROUPS}[case.atom], 5e-4 if found.dtype == np.float16 else 0, 1e-30)
    return float(np.linalg.norm(found.astype("float64") - right)) / norm / most


def interpreted(case: Case) -> float:
    """The error of a case by the interpreter: of what a GPU would run, threads, barriers and copies included."""
    s, args = program(case)
    given = inputs_of(case, args)
    right = wanted(case, given)
    found = np.full(right.shape, 77, DType(args[-1].dtype).numpy)
    interpret(finish(lower_for(Target(GPU), s, args).functions[0], GPU, check=True), [*given, found])
    return error(case, found, right)


def compiled(case: Case) -> tuple[Case, Any, str]:
    """A case and its module, or what went wrong."""
    try:
        s, args = program(case)
        return case, tw.build(s, args, GPU).program, ""
    except Exception as failure:  # reported with the case
        return case, None, f"{type(failure).__name__}: {failure}"


def on_device(case: Case, module: Module, args: list[Any], kind: str = "cuda") -> str:
    """What is wrong about the results of a case on a device of a kind; nothing where they are right."""
    given = inputs_of(case, args)
    right = wanted(case, given)
    poison = np.full(right.shape, 77, DType(args[-1].dtype).numpy)
    arrays = [tw.nd.array(x, tw.device(kind)) for x in (*given, poison)]
    module(*arrays)
    times = error(case, arrays[-1].numpy(), right)
    return "" if times <= 1 else f"the error is {times:.1e} times what it may be"


def emulated(case: Case) -> str:
    """What is wrong about a case on the emulated device."""
    s, args = program(case)
    try:
        with emulation(case.seed):
            return on_device(case, device.emulated(s, args), args)
    except EmulationError as failure:
        return str(failure)


def _on_gpu(cases: list[Case]) -> Iterator[tuple[Case, str]]:
    with multiprocessing.get_context("fork").Pool() as pool:
        made = pool.map(compiled, cases, chunksize=4)
    for case, held, failure in made:
        yield case, failure or on_device(case, Module(held), program(case)[1])


def _emulated(cases: list[Case]) -> Iterator[tuple[Case, str]]:
    with multiprocessing.get_context("fork").Pool() as pool:
        yield from zip(cases, pool.imap(emulated, cases), strict=True)


def main(count: int, first: int, emulate: bool = False) -> int:
    """Run cases on the GPU, or on the emulated one; returns how many are wrong."""
    wrong = 0
    cases = [draw(seed) for seed in range(first, first + count)]
    for case, failure in (_emulated if emulate else _on_gpu)(cases):
        wrong += bool(failure)
        if failure:
            print(case, failure, flush=True)
    print(f"{count} programs, {wrong} wrong")
    return wrong


if __name__ == "__main__":
    numbers = [int(given) for given in sys.argv[1:3]]
    sys.exit(bool(main(*(numbers + [100, 0][len(numbers) :]), emulate="--emulate" in sys.argv[3:])))
