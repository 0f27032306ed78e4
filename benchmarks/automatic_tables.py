"""Tables of docs/automatic.md from stored runs of `benchmarks.automatic`."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from benchmarks.convolution_rows import DENSE
from benchmarks.stored_runs import MISSING, Row, lines_of, ratio, read

_PAGE = "page: "
"""How the names of the programs of docs/automatic.md begin in stored runs."""


def _rows(name: str) -> list[Row]:
    """Return the rows of a stored run, without the programs that the page shows."""
    return [row for row in read(name).rows if not row["row"].startswith(_PAGE)]


def page_table() -> list[str]:
    """Return the table of the programs that the page on automatic schedules shows."""
    body = []
    for name in ("automatic", "automatic-cpu"):
        for row in (row for row in read(name).rows if row["row"].startswith(_PAGE)):
            on = f"{row['threads']} thread{'s' * (row['threads'] > 1)} of a CPU" if "threads" in row else "H200"
            times = [f"{row[side]:,.1f}" for side in ("ranked", "rival", "copy")]
            body.append([f"{row['row'].removeprefix(_PAGE)}, {on}", *times, ratio("rival", "ranked")(row)])
    return lines_of(["program, µs", "Tilewright", "torch.compile", "copy of the data", "times as fast"], body)


def gpu_table() -> list[str]:
    """Return the table of programs with automatic schedules on a GPU, ranked and after 64 trials."""
    body = [
        [
            row["row"],
            *("–" if row.get(side) is None else f"{row[side]:.1f}" for side in ("ranked", "tuned", "rival", "copy")),
            ratio("rival", "ranked")(row),
            ratio("rival", "tuned")(row),
        ]
        for row in _rows("automatic")
    ]
    heads = ["program, µs", "ranked", "64 trials", "PyTorch", "copy of the data", "PyTorch ÷ ranked", "÷ 64 trials"]
    rows = _rows("automatic")
    return [*lines_of(heads, body), "", _means(rows), "", f"After 64 trials: {_means(rows, 'tuned')}"]


def _means(rows: Sequence[Row], side: str = "ranked") -> str:
    """Return PyTorch's time over ours: the geometric means of fused programs and of products, and the least."""
    groups = {"fused programs": [row for row in rows if "product" not in row["row"] and "tutorial" not in row["row"]]}
    groups["products"] = [row for row in rows if "product" in row["row"]]
    found = []
    for name, own in groups.items():
        ratios = [row["rival"] / row[side] for row in own if row.get("rival") and row.get(side)]
        if ratios:
            found.append(f"{name} {geometric_mean(ratios):.2f} (least {min(ratios):.2f}, {len(ratios)} rows)")
    return f"PyTorch's time ÷ ours, geometric means: {'; '.join(found)}."


def cpu_table() -> list[str]:
    """Return the table of programs with automatic schedules on a CPU: PyTorch's time divided by ours."""
    rows = _rows("automatic-cpu")
    threads = sorted({row["threads"] for row in rows})
    known = {(row["row"], row["threads"]): row for row in rows}
    sides = [(n, side) for side in ("ranked", "tuned") for n in threads]
    body = []
    for name in dict.fromkeys(row["row"] for row in rows):
        first = known[name, threads[0]]
        times = [MISSING if first.get(side) is None else f"{first[side] / 1e3:.1f}" for side in ("ranked", "rival")]
        body.append([name, *times, *(ratio("rival", side)(known.get((name, n), {})) for n, side in sides)])
    numbers = [f"{n} thread{'s' * (n > 1)}{', 64 trials' * (side == 'tuned')}" for n, side in sides]
    heads = ["program, CPU", "ranked, ms", "torch.compile, ms", *numbers]
    means = [
        f"{n} thread{'s' * (n > 1)}, {title}: {_means([row for row in rows if row['threads'] == n], side)}"
        for n in threads for side, title in (("ranked", "ranked"), ("tuned", "64 trials"))
    ]  # fmt: skip
    return [*lines_of(heads, body), *(line for mean in means for line in ("", mean))]


def layers_table() -> list[str]:
    """Return the table of layers: the time of tuned kernels divided by the time of automatic schedules."""
    every, body = read("automatic-layers").rows, []
    for title, dense, mode in (
        ("depthwise, grouped, 1-D, float32", False, "float32"), ("the same in float16", False, "float16"),
        ("dense, float16", True, "float16"), ("dense, rounded float32", True, "tf32"),
    ):  # fmt: skip
        rows = [row for row in every if row["mode"] == mode and row["row"].startswith(DENSE) == dense]
        speeds = {side: [row["packaged"] / row[side] for row in rows] for side in ("ranked", "rules")}
        cells = [f"{geometric_mean(each):.2f} (least {min(each):.2f})" for each in speeds.values()]
        body.append([f"{title}, {len(rows)} rows", *cells])
    return lines_of(["tuned kernel's time ÷ ours, H200", "auto_schedule", "without packaged strategies"], body)


TABLES = {
    "automatic-layers": layers_table,
    "automatic-page": page_table,
    "automatic": gpu_table,
    "automatic-cpu": cpu_table,
}
"""Tables by the name of their figures."""
RUNS = {name: (name,) for name in TABLES} | {"automatic-page": ("automatic", "automatic-cpu")}
"""The stored runs of each table."""
