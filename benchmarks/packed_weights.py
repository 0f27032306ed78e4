"""Products with weights in the packed order beside plain ones: python -m benchmarks.packed_weights

Both run on one thread, in turns; times are the processor's, so that other processes change them little.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import te

SIZE, LANES, ROUNDS, CALLS = 1024, 32, 25, 4


def products(rows: int) -> dict[str, Any]:
    """The plain product and the packed one: modules with their arguments, checked in float64."""
    rng = np.random.default_rng(0)
    data, weights = rng.random((rows, SIZE), np.float32), rng.random((SIZE, SIZE), np.float32)
    x, d = te.placeholder((rows, SIZE), name="x"), te.reduce_axis((0, SIZE), name="d")
    w, v = te.placeholder((SIZE, SIZE), name="w"), te.placeholder((SIZE // LANES, SIZE, LANES), name="v")
    y = te.compute((rows, SIZE), lambda i, j: te.sum(x[i, d] * w[j, d], axis=d), name="y")
    z = te.compute((rows, SIZE // LANES, LANES), lambda i, j, lane: te.sum(x[i, d] * v[j, d, lane], axis=d), name="z")
    packed = np.ascontiguousarray(weights.reshape(-1, LANES, SIZE).transpose(0, 2, 1))
    found = {}
    for name, tensors, weight in (("plain", [x, w, y], weights), ("packed", [x, v, z], packed)):
        module = tw.build(tensors, target="llvm")
        arrays = [tw.nd.array(data), tw.nd.array(weight), tw.nd.empty(tuple(map(int, tensors[-1].shape)))]
        module(*arrays)
        expected = data.astype(float) @ weights.T.astype(float)
        np.testing.assert_allclose(arrays[-1].numpy().reshape(rows, SIZE), expected, rtol=1e-5)
        found[name] = (module, arrays)
    return found


def main() -> None:
    """Run the command."""
    tw.runtime.set_num_threads(1)
    for rows in (16, 256):
        times: dict[str, list[float]] = {}
        made = products(rows)
        for _ in range(ROUNDS):
            for name, (module, arrays) in made.items():
                began = time.process_time()
                for _ in range(CALLS):
                    module(*arrays)
                times.setdefault(name, []).append((time.process_time() - began) / CALLS)
        plain, packed = (statistics.median(times[name]) * 1e6 for name in ("plain", "packed"))
        print(f"{rows} rows: plain {plain:,.0f} µs, packed {packed:,.0f} µs, {plain / packed:.1f} times as fast")


if __name__ == "__main__":
    main()
