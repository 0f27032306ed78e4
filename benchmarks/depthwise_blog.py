"""The tables of the depthwise document, on this GPU: python -m benchmarks.depthwise_blog

Every kernel is checked against float64 before it is timed (CUDA graph of 20 calls, median of 21, warm L2). A
relation that the document reports is judged at the end, each by the times of one run.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import depthwise_fused as blog

import tilewright as tw

WHOLE = blog.Case(block=None)
BLOCKED = blog.Case()
BEST = replace(BLOCKED, threads=(8, 16), vthreads=(1, 2))
# name -> (case, microseconds that the document reports on a GTX 1080)
CASES = {
    **{
        f"{s}×{s}, whole channel": (replace(WHOLE, size=s), t)
        for s, t in ((21, 9.1), (32, 14.5), (64, 98.9), (96, 387.4))
    },
    "64×64, blocks of 32×32": (replace(BLOCKED, size=64), 63.4),
    "96×96, blocks of 32×32": (BLOCKED, 132.5),
    **{
        f"32×32, {y}×{x} threads": (replace(WHOLE, size=32, threads=(y, x)), t)
        for y, x, t in ((8, 32, 9.7), (4, 32, 8.8), (1, 32, 17.7), (32, 1, 32.5))
    },
    "96×96, 8×8 threads, 1×1 virtual": (BLOCKED, 132.5),
    "96×96, 8×8 threads, 1×4 virtual": (replace(BLOCKED, vthreads=(1, 4)), 103.1),
    "96×96, 4×32 threads, 1×1 virtual": (replace(BLOCKED, threads=(4, 32)), 95.9),
    "96×96, 8×16 threads, 1×2 virtual": (BEST, 90.9),
    "96×96, 5×5": (replace(BEST, kernel=5), 128.9),
    "96×96, multiplier 2": (replace(BEST, multiplier=2), 143.7),
    "96×96, 5×5, multiplier 2": (replace(BEST, kernel=5, multiplier=2), 170.5),
    "96×96, fused scale-shift + ReLU": (replace(BEST, fused=True), 91.5),
}
# The document's relations: the first is at most `factor` times the second.
RELATIONS = (
    ("64×64, blocks of 32×32", "64×64, whole channel", 1.0),
    ("96×96, blocks of 32×32", "96×96, whole channel", 1.0),
    ("32×32, 4×32 threads", "32×32, 8×32 threads", 1.0),
    ("32×32, 4×32 threads", "32×32, 1×32 threads", 1.0),
    ("32×32, 1×32 threads", "32×32, 32×1 threads", 1.0),
    ("96×96, 8×8 threads, 1×4 virtual", "96×96, 8×8 threads, 1×1 virtual", 1.0),
    ("96×96, 4×32 threads, 1×1 virtual", "96×96, 8×8 threads, 1×4 virtual", 1.0),
    ("96×96, 8×16 threads, 1×2 virtual", "96×96, 4×32 threads, 1×1 virtual", 1.0),
    ("96×96, fused scale-shift + ReLU", "96×96, 8×16 threads, 1×2 virtual", 1.05),
)


def main() -> None:
    """Measure all cases and print the table."""
    dev = tw.cuda() if tw.cuda().exist else tw.opencl()
    print(f"depthwise, 1×256 channels, on {dev.name}\n")
    print(
        f"{'case':34} {'time':>10} {'GTX 1080, document':>18} {'error':>8} {'registers':>9} {'shared':>7} {'stack':>5}"
    )
    times: dict[str, float] = {}
    for name, (case, reported) in CASES.items():
        shown = case if dev.kind == "cuda" else replace(case, channels=2)
        time, error, found, _ = blog.measure(shown, dev, number=20, repeat=21)
        times[name] = time
        used = f"{found.registers:9} {found.shared_bytes:7} {found.stack_bytes:5}" if found else ""
        print(f"{name:34} {time * 1e6:7.2f} µs {reported:15.1f} µs {error:8.1e} {used}")
    print()
    for first, second, factor in RELATIONS:
        ratio = times[first] / times[second]
        verdict = "holds" if ratio <= factor else "does not hold"
        print(f"{first} ≤ {factor:.2f} × {second}: ratio {ratio:.3f}, {verdict}")


if __name__ == "__main__":
    main()
