"""Draws the documentation's pictures of the hardware and of schedules: python docs/pictures.py"""

from __future__ import annotations

from pathlib import Path

from benchmarks.steps import transpose
from examples.conv2d_hwcn import Problem, virtual
from tilewright.explain.explanation import chosen_target, explanation_data
from tilewright.explain.pictures.banks import draw_banks
from tilewright.explain.pictures.svg import Picture, beside
from tilewright.tune.model.machine import Rates

IMAGES = Path(__file__).parent / "images"


def memory() -> Picture:
    """The memories of a GPU by who shares them; the rates are those of `tilewright doctor --calibrate` on an H200."""
    rates, processors = Rates(), 132
    made = Picture()
    made.text(0, 12, "Memories of a GPU, nearest first (H200)", 15, "title")
    left, width, y = 0.0, 430.0, 34.0
    for name, at in (("multiprocessor 0: some blocks", 0.0), ("multiprocessor 131", 290.0)):
        wide = 270.0 if at == 0 else 140.0
        made.rect(left + at, y, wide, 132, "box", stroke=1)
        made.text(left + at + 8, y + 16, name, 11, "faint")
        count = 4 if at == 0 else 2
        for k in range(count):
            x = left + at + 8 + k * (wide - 16) / count
            made.rect(x, y + 26, (wide - 16) / count - 6, 46, "h0 apart")
            made.text(x + ((wide - 16) / count - 6) / 2, y + 44, "thread", 10, "", "middle")
            made.text(x + ((wide - 16) / count - 6) / 2, y + 60, "registers", 10, "", "middle")
        made.rect(left + at + 8, y + 82, wide - 22, 40, "h1 apart")
        made.text(
            left + at + 8 + (wide - 22) / 2,
            y + 106,
            "shared memory and L1 cache" if not at else "shared, L1",
            12,
            "",
            "middle",
        )
    made.text(left + 274, y + 70, "…", 14)
    made.rect(left, y + 146, width, 36, "h2 apart")
    made.text(left + width / 2, y + 168, "L2 cache", 12, "", "middle")
    made.rect(left, y + 192, width, 36, "h5 apart")
    made.text(left + width / 2, y + 214, "device memory", 12, "", "middle")
    total = processors * rates.clock_hertz / 1e12
    rows = [
        ("", "in schedules", "size", "bandwidth", "latency"),
        ("registers", '"local"', "256 KB each, 255 words per thread", "", "none"),
        ("shared memory", '"shared"', "228 KB each, 227 KB per block",
         f"{128 * total:.0f} TB/s", f"{rates.shared_latency_cycles:.0f} cycles"),
        ("L2 cache", "", "50 MB", f"{rates.l2_bytes_per_cycle * total:.1f} TB/s",
         f"{rates.l2_latency_cycles:.0f} cycles"),
        ("device memory", '"global"', "141 GB", "4.8 TB/s", "longer"),
    ]  # fmt: skip
    columns = (460.0, 580.0, 668.0, 880.0, 968.0)
    for row, line in zip((y + 12, y + 53, y + 106, y + 168, y + 214), rows, strict=True):
        for k, (x, text) in enumerate(zip(columns, line, strict=True)):
            made.text(x, row, text, 11, "faint" if row == y + 12 else "title" if k == 0 else "")
    return made


def banks() -> Picture:
    """How a warp reads a column of a 32 × 32 tile, and of one with padded rows."""
    made: list[Picture] = []
    target = chosen_target("cuda")
    for kind in ("tile", "padded"):
        (kernel,) = explanation_data(transpose(kind, 4096)[0], target, None, None, compiled=False).kernels
        (load,) = [a for a in kernel.counts.accesses.values() if a.buffer == "A.shared" and not a.stores]
        made.append(draw_banks(load, target.hardware.warp_memory, target.hardware.warp))
    return beside(made, most=900)


def pictures() -> dict[str, str]:
    """All pictures by name."""
    convolution = virtual(Problem())[0]
    return {
        "memory": memory().document("memories of a GPU"),
        "banks": banks().document("banks of a tile, and of one with padded rows"),
        "tile": convolution.draw(view="tile"),
        "stages": convolution.draw(view="schedule"),
    }


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    for name, svg in pictures().items():
        (IMAGES / f"{name}.svg").write_text(svg, encoding="utf-8")
