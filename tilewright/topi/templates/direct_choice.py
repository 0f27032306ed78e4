"""The first configuration of the direct strategy, from what a thread's tile costs."""

from __future__ import annotations

from typing import Any

from .images import Images
from .window_cost import own_filters_of, registers, steps, widest

_THREADS, _BUSY = 128, 132 * 512
"""A block of usual size; threads that keep a large GPU busy."""
_FEW, _STEPS = 144, 2048


def usual(of: Images) -> dict[str, Any]:
    """As large a tile a thread as leaves enough threads and registers."""
    rows, columns = of.places
    chunk = widest(of)
    last = of.layout == "NHWC"
    channels = chunk if last else 1
    filters = max(f for f in own_filters_of(of) if f <= 8)
    whole = of.kernel[0] * of.kernel[1] <= 128
    threads_of = of.shape[0] * (of.filters // channels if last else of.filters // filters)

    def suits(down: int, across: int) -> bool:
        threads = threads_of * -(-rows // down) * -(-columns // across)
        enough = threads >= _BUSY or (down, across) == (1, 1 if last else chunk)
        fits = registers(of, channels, filters, down, across, chunk, whole) <= _FEW
        return enough and fits and steps(of, channels, filters, down, across, whole) <= _STEPS

    across = 1 if last else chunk
    down = max((d for d in (1, 2, 4, 8) if d <= rows and suits(d, across)), default=1)
    width = -(-columns // across)
    x = min(width, 64)
    y = max(1, min(-(-rows // down), _THREADS // x))
    c = max(1, min(threads_of, _THREADS // (x * y)))
    if last:
        c = min(-(-of.filters // channels), 32)
        x = max(1, min(width, _THREADS // c))
        y = max(1, min(-(-rows // down), _THREADS // (x * c)))
    return {
        "tile_c": [c, channels],
        "tile_f": [filters],
        "tile_y": [y, down],
        "tile_x": [x, across],
        "chunk": chunk,
        "window": "all" if whole else "row",
    }
