"""Products of bytes on the CPU by VNNI, beside plain loops and NumPy: `python -m benchmarks.vnni [size ...]`.

C[i, j] = sum of A[i, k] * B[k, j], uint8 by int8 in int32, all sizes equal, one thread. B is packed in advance, as
weights are. Plain loops have the same tiles, on vectors. Each result is compared with NumPy's int64.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import intrin, te
from tilewright.report.table import Column, table


def product(n: int, tile: tuple[int, int], by_vnni: bool) -> tuple[te.Schedule, list[Any]]:
    """The product in tiles of rows by columns that stay in registers."""
    A, B = te.placeholder((n, n), "uint8", "A"), te.placeholder((n // 4, n, 4), "int8", "B")
    k = te.reduce_axis((0, n), "k")
    C = te.compute(
        (n, n), lambda i, j: te.sum(A[i, k].astype("int32") * B[k // 4, j, k % 4].astype("int32"), axis=k), "C"
    )
    s = te.create_schedule(C.op)
    sums = s.cache_write(C, "local")
    rows, columns, i, j = s[C].tile(*C.op.axis, *tile)
    s[C].reorder(columns, rows, i, j)
    s[C].vectorize(j)
    s[sums].compute_at(s[C], rows)
    i, j = sums.op.axis
    outer, inner = s[sums].split(sums.op.reduce_axis[0], 4)
    if by_vnni:
        s[sums].reorder(outer, i, j, inner)
        s[sums].tensorize(i, intrin.vnni())
    else:
        s[sums].reorder(outer, inner, i, j)
        s[sums].unroll(i)
        s[sums].vectorize(j)
    return s, [A, B, C]


def main() -> None:
    """Print one row for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("sizes", type=int, nargs="*", default=[256, 768, 1536], help="multiples of 64")
    rng = np.random.default_rng(0)
    columns = [Column(x) for x in ("size", "VNNI us", "GOP/s", "plain loops us", "NumPy int32 us", "NumPy float32 us")]
    rows = []
    for n in parser.parse_args().sizes:
        a = rng.integers(0, 256, (n, n)).astype("uint8")
        b = rng.integers(-128, 128, (n, n)).astype("int8")
        packed = np.ascontiguousarray(b.reshape(n // 4, 4, n).transpose(0, 2, 1))
        ours = [_seconds(n, by_vnni, a, b, packed) for by_vnni in (True, False)]
        theirs = [_numpy_seconds(a.astype(kind), b.astype(kind)) for kind in ("int32", "float32")]
        figures = [f"{x * 1e6:,.0f}" for x in (ours[0], ours[1], *theirs)]
        rows.append([str(n), figures[0], f"{2 * n**3 / ours[0] / 1e9:.0f}", *figures[1:]])
    print("\n".join(table(columns, rows)))


def _seconds(n: int, by_vnni: bool, a: np.ndarray, b: np.ndarray, packed: np.ndarray) -> float:
    s, args = product(n, (6, 64) if n % 6 == 0 else (8, 32), by_vnni)
    module = tw.build(s, args, "llvm")
    arrays = [tw.nd.array(x) for x in (a, packed, np.zeros((n, n), "int32"))]
    module(*arrays)
    sample = slice(0, n, max(1, n // 32))
    np.testing.assert_array_equal(arrays[2].numpy()[sample], a[sample].astype("int64") @ b.astype("int64"))
    timed = module.time_evaluator(module.entry_name, tw.cpu(), number=2, repeat=7)
    return float(min(timed(*arrays).results))


def _numpy_seconds(a: np.ndarray, b: np.ndarray) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    main()
