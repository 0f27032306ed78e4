"""Matrix products on tensor cores, beside PyTorch's (cuBLAS): `python -m benchmarks.matmul [size] [--atoms NAME ...]`.

C[i, j] = sum of A[i, k] * B[k, j], all sizes equal. Each result is compared with float64 on the rounded operands, on a
sample of its rows; `error` is the relative L2 norm of the difference.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import intrin as ti
from tilewright import te
from tilewright.core.dtype import DType
from tilewright.report.table import Column, table


@dataclass(frozen=True)
class Tiling:
    """Tiles of a product: of a block, of a warp, of terms at a time; buffers that are filled ahead."""

    block: tuple[int, int] = (128, 128)
    warp: tuple[int, int] = (64, 32)
    depth: int = 32
    stages: int = 1


def product(
    m: int, n: int, k: int, atom: str, tiling: Tiling, out: str = "", a_turned: bool = False, b_turned: bool = False
) -> tuple[te.Schedule, list[Any]]:
    """The product of two matrices by matrix instructions; a turned operand has its terms along the other dimension."""
    kind = ti.mma(atom)
    sums = kind.accumulator
    A = te.placeholder((k, m) if a_turned else (m, k), kind.operands, "A")
    B = te.placeholder((n, k) if b_turned else (k, n), kind.operands, "B")
    term = te.reduce_axis((0, k), "k")

    def left(i: Any, x: Any) -> Any:
        return (A[x, i] if a_turned else A[i, x]).astype(sums)

    def right(x: Any, j: Any) -> Any:
        return (B[j, x] if b_turned else B[x, j]).astype(sums)

    D = te.compute((m, n), lambda i, j: te.sum(left(i, term) * right(term, j), axis=term), name="D")
    C = te.compute((m, n), lambda i, j: D[i, j].astype(out or sums), name="C")
    s = te.create_schedule(C.op)
    s[D].set_scope("local")
    tiles = [s.cache_read(T, "shared", [D]) for T in (A, B)]
    (block_i, i), (block_j, j) = (s[C].split(x, f) for x, f in zip(s[C].op.axis, tiling.block, strict=True))
    (warp_i, i), (warp_j, j) = (s[C].split(x, f) for x, f in zip((i, j), tiling.warp, strict=True))
    s[C].reorder(block_i, block_j, warp_i, warp_j, i, j)
    for axis, tag in (
        (block_i, "blockIdx.y"),
        (block_j, "blockIdx.x"),
        (warp_i, "threadIdx.z"),
        (warp_j, "threadIdx.y"),
    ):
        s[C].bind(axis, te.thread_axis(tag))
    s[D].compute_at(s[C], warp_j)
    outer, inner = s[D].split(s[D].op.reduce_axis[0], tiling.depth)
    s[D].reorder(outer, *s[D].op.axis, inner)
    s[D].tensorize(s[D].op.axis[0], kind)
    for tile in tiles:
        s[tile].compute_at(s[D], outer)
        _, lane = s[tile].split(s[tile].fuse(*s[tile].op.axis), 16 // DType(kind.operands).bytes)
        s[tile].vectorize(lane)
        if tiling.stages > 1:
            s[tile].pipeline(tiling.stages)
    return s, [A, B, C]


_HALF = (
    Tiling((128, 128), (64, 32), 32, 4),
    Tiling((128, 128), (64, 32), 64, 3),
    Tiling((128, 128), (64, 64), 32, 4),
    Tiling((128, 128), (64, 64), 64, 3),
    Tiling((128, 256), (64, 64), 32, 4),
    Tiling((256, 128), (64, 64), 32, 4),
    Tiling((256, 128), (64, 64), 64, 3),
    Tiling((256, 128), (64, 64), 64, 4),
)
TILINGS = {
    "float16": _HALF,
    "float16_float16": (Tiling((128, 256), (64, 64), 32, 4), *_HALF[-2:]),
    "bfloat16": _HALF[-2:-1],
    "tf32": (
        Tiling((128, 128), (64, 32), 32, 3),
        Tiling((128, 128), (64, 64), 32, 3),
        Tiling((256, 128), (64, 64), 32, 3),
    ),
    "3xtf32": (
        Tiling((64, 64), (32, 32), 32, 3),
        Tiling((128, 64), (32, 32), 32, 3),
        Tiling((128, 64), (64, 32), 32, 3),
        Tiling((64, 64), (32, 16), 32, 3),
    ),
    "bf16x6": (
        Tiling((64, 64), (32, 32), 32, 3),
        Tiling((128, 64), (32, 32), 32, 3),
        Tiling((64, 64), (32, 16), 32, 3),
    ),
    "int8": (Tiling((128, 128), (64, 32), 64, 3), Tiling((128, 128), (64, 64), 128, 3)),
    "float64": (Tiling((64, 64), (32, 32), 16, 3),),
}


def main() -> None:
    """Print one row for each atom and tiling."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("size", type=int, nargs="?", default=4096)
    parser.add_argument("--atoms", nargs="*", default=list(TILINGS), choices=list(TILINGS))
    parser.add_argument("--turned", action="store_true", help="the terms are the last dimension of both operands")
    given = parser.parse_args()
    columns = [
        Column(x)
        for x in ("operands", "block", "warp", "depth x stages", "regs", "spill", "us", "TFLOP/s", "cuBLAS us", "error")
    ]
    rows = []
    for atom in given.atoms:
        a, b, theirs = _operands(atom, given.size)
        for tiling in TILINGS[atom]:
            rows.append(_row(atom, tiling, a, b, theirs, given.turned))
    print("\n".join(table(columns, rows)))


def _operands(atom: str, size: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Random operands, the right one as `product` takes it, and the time of PyTorch's product of the same type."""
    import torch

    kind = ti.mma(atom).operands
    if kind == "int8":
        draw = torch.randint(-100, 100, (2, size, size), dtype=torch.int8)
    else:
        draw = torch.rand((2, size, size), dtype=torch.float64).sub_(0.5).to(getattr(torch, kind))
    on_device = draw.cuda()
    torch.backends.cuda.matmul.allow_tf32 = atom == "tf32"
    call = (lambda: torch._int_mm(*on_device)) if kind == "int8" else (lambda: torch.matmul(*on_device))
    for _ in range(3):
        call()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(20):
        call()
    end.record()
    torch.cuda.synchronize()
    plain = draw.view(torch.int16).numpy().view(DType(kind).numpy) if kind == "bfloat16" else draw.numpy()
    return plain[0], plain[1], start.elapsed_time(end) / 20 * 1e3


def _row(atom: str, tiling: Tiling, a: np.ndarray, b: np.ndarray, theirs: float, turned: bool) -> list[str]:
    size, turned = len(a), turned or ti.mma(atom).per_word == 4
    s, args = product(size, size, size, atom, tiling, b_turned=turned)
    module = tw.build(s, args, "cuda")
    dev = tw.cuda()
    right = np.ascontiguousarray(b.T) if turned else b
    arrays = [tw.nd.array(a, dev), tw.nd.array(right, dev), tw.nd.empty((size, size), str(args[2].dtype), dev)]
    module(*arrays)
    sample = np.random.default_rng(0).integers(0, size, 64)
    wanted = a[sample].astype("float64") @ b.astype("float64")
    error = float(np.linalg.norm(arrays[2].numpy()[sample].astype("float64") - wanted) / np.linalg.norm(wanted))
    seconds = module.time_evaluator(module.entry_name, dev, number=10, repeat=5)(*arrays).median
    (used,) = module.resources.values()
    return [
        atom,
        "x".join(map(str, tiling.block)),
        "x".join(map(str, tiling.warp)),
        f"{tiling.depth} x {tiling.stages}",
        str(used.registers),
        str(used.spill_store_bytes),
        f"{seconds * 1e6:.1f}",
        f"{2 * size**3 / seconds / 1e12:.1f}",
        f"{theirs:.1f}",
        f"{error:.1e}",
    ]


if __name__ == "__main__":
    main()
