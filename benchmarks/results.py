"""Writes RESULTS.md, and the tables of README.md, from benchmarks/data: python -m benchmarks.results [--check]

    python -m benchmarks.results --take FOLDER/acceptance.jsonl

stores a run of `benchmarks.acceptance` as data, and writes the page again. Each file of benchmarks/data holds one run.
Its first line names the command, the commit, the device, the driver and the date. Every other line is one row.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import NamedTuple

from benchmarks import automatic_tables
from benchmarks.stored_runs import MISSING, Row, lines_of, number, ratio, read, write

FOLDER = Path(__file__).parent
PAGE = FOLDER / "RESULTS.md"
README, TRAINING, MODELS, AUTOMATIC = (
    FOLDER.parent / page for page in ("README.md", "docs/training.md", "docs/models.md", "docs/automatic.md")
)
Cell = str | Callable[[Row], str]
"""The key of a number, or a function of a row."""


def plain(name: str, first: str, columns: Mapping[str, Cell]) -> list[str]:
    """Return a table with a line for each row of a run."""
    rows = [[str(row["row"]), *(shown(row, cell) for cell in columns.values())] for row in read(name).rows]
    return lines_of([first, *columns], rows)


def pivot(name: str, first: str, cell: Callable[[Row], str]) -> list[str]:
    """Return a table with a line for each row and a column for each mode."""
    rows = read(name).rows
    modes = list(dict.fromkeys(row["mode"] for row in rows))
    cells = {(row["row"], row["mode"]): cell(row) for row in rows}
    names = dict.fromkeys(row["row"] for row in rows)
    body = [[f"`{each}`", *(cells.get((each, mode), MISSING) for mode in modes)] for each in names]
    return lines_of([first, *modes], body)


def shown(row: Row, cell: Cell) -> str:
    """Return the text of a cell."""
    return number(row.get(cell)) if isinstance(cell, str) else cell(row)


def means() -> list[str]:
    """Return PyTorch's time over ours per type: the geometric mean of depthwise and 1-D rows, and the least."""
    rows = [row for row in read("shipped").rows if not row["row"].startswith(("grouped", "replk"))]
    found = []
    for mode in dict.fromkeys(row["mode"] for row in rows):
        ratios = [row["pytorch_us"] / row["us"] for row in rows if row["mode"] == mode]
        found.append(f"{mode} {geometric_mean(ratios):.2f} (least {min(ratios):.2f})")
    return ["", f"Depthwise and 1-D rows, PyTorch ÷ ours, geometric means: {', '.join(found)}."]


def curves() -> list[str]:
    """Return the best GFLOPS of each search after given numbers of trials."""
    rows = read("tuning-curves").rows
    trials = sorted({int(count) for row in rows for count in row["gflops"]})
    body = [
        [row["row"], str(row["seed"]), *(number(row["gflops"].get(str(count))) for count in trials)] for row in rows
    ]
    return lines_of(["tuner", "seed", *map(str, trials)], body)


class Section(NamedTuple):
    """A section of the page: its title, the runs that it shows, a remark, and its table."""

    title: str
    names: Sequence[str]
    remark: str
    table: Callable[[], list[str]]


def _ladder(name: str) -> Callable[[], list[str]]:
    columns = {"H200, µs": "us", "document (T4), µs": "document_us", "registers": "registers"}
    return lambda: plain(name, "rung", columns)


SECTIONS = (
    Section(
        "Convolutions as shipped",
        ["shipped"],
        "Each cell: our time and PyTorch's time in µs, and their ratio; then our time with bias and ReLU ÷ our time "
        "without them. PyTorch uses the faster of its two memory orders, with `benchmark=True`. Rows with less than "
        "16 MB are means over eight addresses.",
        lambda: [*pivot("shipped", "workload", lambda row: f"{number(row['us'])}, {number(row['pytorch_us'])}, "
                        f"{row['pytorch_us'] / row['us']:.2f}; {row['fused_ratio']:.2f}"), *means()],
    ),
    Section(
        "The one-line call",
        ["one-call"],
        "A call allocates its output.",
        lambda: plain("one-call", "figure", {"value": "value", "spread": "spread"}),
    ),
    Section(
        "Whole models by `accelerate`",
        ["models"],
        "Each cell: PyTorch's time ÷ the time after `accelerate`, in a CUDA graph; then the same without a graph.",
        lambda: pivot("models", "model", lambda row: f"{row['graph_ratio']:.2f}, {row['eager_ratio']:.2f}"),
    ),
    Section(
        "Dense convolutions without records",
        ["dense"],
        "Each cell: the times of the default configuration, the best known configuration and cuDNN, in µs; then the "
        "relative L2 error. Calls run PyTorch's kernel if it is faster.",
        lambda: pivot("dense", "layer", lambda row: f"{number(row['first_us'])}, {number(row['best_us'])}, "
                      f"{number(row.get('cudnn_us'))}; {number(row['error'])}"),
    ),
    Section("1-D convolution document, 16,384 values, 32 weights", ["ladder-conv1d"], "", _ladder("ladder-conv1d")),
    Section("Depthwise document, 3×4×16×32, 7×7", ["ladder-depthwise"], "", _ladder("ladder-depthwise")),
    Section(
        "Convolution document, HWCN 256×256×14×14 → 512, 3×3",
        ["hwcn-steps"],
        "The document's own GPU took 41.5 ms.",
        lambda: plain("hwcn-steps", "step", {
            "ms": "ms", "TFLOP/s": "tflops", "registers": "registers", "shared bytes": "shared_bytes"}),
    ),
    Section(
        "Depthwise blog, 256 channels",
        ["depthwise-document"],
        "The document used a GTX 1080.",
        lambda: plain("depthwise-document", "case", {
            "H200, µs": "us", "document, µs": "document_us", "registers": "registers", "shared bytes": "shared_bytes"}),
    ),
    Section(
        "Matrix products 4096³ on tensor cores",
        ["matmul"],
        "The error is the relative L2 distance from the product in float64.",
        lambda: plain("matmul", "`intrin.mma`", {
            "block, warp, terms × ring": "tile", "registers": "registers", "µs": "us", "TFLOP/s": "tflops",
            "cuBLAS, µs": "cublas_us", "error": "error"}),
    ),
    Section(
        "Reductions",
        ["reductions"],
        "General schedules of `topi` in float32, without tuning.",
        lambda: plain("reductions", "operator", {
            "size": "size", "ours, µs": "us", "PyTorch, µs": "pytorch_us", "ours ÷ PyTorch": ratio("us", "pytorch_us"),
            "TB/s": "tb_s", "% of a copy": "of_copy_percent", "error": "error"}),
    ),
    Section(
        "Tuning the layer of the tuning document, 1×512×7×7 → 512, 3×3",
        ["tuning-curves"],
        "Best GFLOPS after a number of trials; cuDNN in float32 reaches 2,160.",
        curves,
    ),
    Section(
        "CPU: depthwise and 1-D calls, channels last",
        ["cpu-calls"],
        "PyTorch's time ÷ the time of our call, float32.",
        lambda: plain("cpu-calls", "layer", {"one thread": "one_thread", "16 threads": "sixteen_threads"}),
    ),
    Section(
        "CPU: layers of every kind",
        ["cpu-layers"],
        "PyTorch's time ÷ ours, float32, one thread: geometric mean, least, and number of layers below 0.95.",
        lambda: pivot("cpu-layers", "kind", lambda row: f"{row['mean']:.2f}, {row['least']:.2f}; {row['below_095']} of "
                      f"{row['layers']}"),
    ),
    Section(
        "CPU: programs of the schedule language",
        ["cpu-programs"],
        "The other library's time ÷ ours, one thread.",
        lambda: plain("cpu-programs", "program", {"beside": "beside", "ratio": "ratio", "ours": "ours"}),
    ),
    Section(
        "Lowering, ms",
        ["lowering"],
        "",
        lambda: plain("lowering", "program", {
            "total": "total_ms", "bounds": "bounds_ms", "loops": "loops_ms", "passes": "passes_ms"}),
    ),
    Section(
        "Compiling, ms",
        ["compile"],
        "",
        lambda: plain("compile", "program", {
            "target": "target", "lower": "lower_ms", "compile": "compile_ms", "first call": "first_call_ms"}),
    ),
    Section(
        "A call of a built kernel, µs",
        ["calls"],
        "C = A + B with 4,096 values; a call includes all checks of its arguments.",
        lambda: plain("calls", "target", {
            "launch": "raw_us", "static sizes": "call_us", "symbolic sizes": "symbolic_us", "PyTorch": "pytorch_us"}),
    ),
    Section(
        "Fleets",
        ["fleet"],
        "Simulated devices behind Dask's real scheduler.",
        lambda: plain("fleet", "workers", {
            "stretch": "stretch", "trials/s": "trials_s", "scheduler, ms per trial": "scheduler_ms",
            "efficiency, %": "efficiency_percent"}),
    ),
)  # fmt: skip

HEAD = """# Results

This page is generated from [benchmarks/data](data) by `python -m benchmarks.results`: change the data, not the page.
Times of kernels on a GPU are medians over CUDA graphs of 20 calls, with random inputs and a warm L2 cache. Every output
was checked against float64 on poisoned memory. The two times of a ratio were measured in turns in one process. Rejected
experiments, and the reasons, are in [docs/notes](../docs/notes/README.md)."""


GPU_ROWS = (
    ("depthwise 3×3, 1×256×96×96", "dw-256x96-k3", "float32"),
    ("depthwise 3×3, 128×576×14×14, stride 2", "mbv2-b128-dw576x14s2", "float32"),
    ("depthwise 5×5, 1×256×96×96, multiplier 2", "dw-256x96-k5-m2", "float32"),
    ("depthwise 7×7, 128×96×56×56", "convnext-b128-dw96x56", "float32"),
    ("the same in float16", "convnext-b128-dw96x56", "float16"),
    ("depthwise 31×31, 32×128×56×56", "replk-b32-dw128x56-k31", "float32"),
    ("the same in float16", "replk-b32-dw128x56-k31", "float16"),
    ("causal 1-D, 12,288 channels × 16,384, 4 taps each", "dw1d-12288x16384-k4", "float32"),
    ("the same in float16", "dw1d-12288x16384-k4", "float16"),
    ("grouped 3×3, 16×256×28×28, 32 groups", "grouped-b16-256x28-g32", "float32"),
    ("the same in float16", "grouped-b16-256x28-g32", "float16"),
)
CPU_ROWS = (
    ("depthwise 3×3, 1×256×21×21", "dw-256x21-k3"),
    ("depthwise 3×3, 1×256×96×96", "dw-256x96-k3"),
    ("depthwise 5×5, 1×256×96×96, multiplier 2", "dw-256x96-k5-m2"),
    ("depthwise 7×7, 1×96×56×56", "convnext-b1-dw96x56"),
    ("1-D, 8×512×4096, 31 taps", "dw1d-512x4096-k31"),
    ("1-D, 64×768×1024, 7 taps", "dw1d-768x1024-k7"),
)


DENSE_ROWS = {
    "r50-b1-l3.3x3": "dense 3×3, 1×256×14×14 → 256",
    "doc-hwcn": "dense 3×3, 256×256×14×14 → 512: calls run PyTorch's",
}


def gpu_table() -> list[str]:
    """Return the table of the README with calls on a GPU."""
    known = {(row["row"], row["mode"]): row for row in read("shipped").rows}
    body = []
    for label, row, mode in GPU_ROWS:
        ours, theirs = (known[row, mode][key] for key in ("us", "pytorch_us"))
        body.append([label, f"{number(ours)} µs", f"{number(theirs)} µs", f"{theirs / ours:.1f}"])
    for row in read("dense").rows:
        if row["mode"] == "fp32" and row["row"] in DENSE_ROWS:
            ours, theirs = row["best_us"], row["cudnn_us"]
            label = DENSE_ROWS[row["row"]]
            body.append([label, f"{number(ours)} µs", f"{number(theirs)} µs", f"{theirs / ours:.1f}"])
    return lines_of(
        [f"one {read('shipped').made['device']}, one call", "Tilewright", "PyTorch (cuDNN)", "times as fast"], body
    )


def cpu_table() -> list[str]:
    """Return the table of the README with calls on a CPU."""
    known = {row["row"]: row for row in read("cpu-calls").rows}
    body = [[label, *(number(known[row][key]) for key in ("one_thread", "sixteen_threads"))] for label, row in CPU_ROWS]
    return lines_of(["PyTorch's time ÷ Tilewright's, CPU, channels last, float32", "1 thread", "16 threads"], body)


def training_table() -> list[str]:
    """Return the table of training steps."""
    short = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
    body = [
        [f"{row['row']}, {short[row['mode']]}", *(number(row[key]) for key in TRAINING_KEYS),
         f"{row['pytorch_us'] / row['us']:.1f}"]
        for row in read("training").rows
    ]  # fmt: skip
    heads = ["layer, µs", "copy", "forward", "by x", "by weights", "step", "PyTorch's step", "times as fast"]
    return lines_of(heads, body)


def in_order(rows: list[Row]) -> list[Row]:
    """Return the rows of whole models: rows with all sides as they were measured, then the others by name."""
    return sorted(rows, key=lambda row: (True, row["row"]) if "both" not in row else (False, ""))


TRAINED = {
    "convnext_tiny, channels last": "ConvNeXt-T",
    "efficientnet_b0, channels last": "EfficientNet-B0",
    "12 short convolutions": "12 gated short convolutions",
}


def training_models_table() -> list[str]:
    """Return the table of training steps of whole models."""
    body = [
        [f"{TRAINED[row['row']]}, {row['mode']}", *(number(row[key]) for key in ("pytorch_ms", "ms")),
         f"{row['pytorch_ms'] / row['ms']:.2f}", *(number(row[key]) for key in ("pytorch_gib", "gib"))]
        for row in read("training-models").rows
    ]  # fmt: skip
    heads = ["model", "PyTorch, ms", "Tilewright, ms", "times as fast", "PyTorch, GiB", "Tilewright, GiB"]
    return lines_of(heads, body)


def models_table() -> list[str]:
    """Return the table of whole models."""
    sides = ("eager", "compile", "accelerate", "both", "backend")
    body = [
        [
            row["row"],
            *(f"{row[side]:.2f}" if side in row else "–" for side in sides),
            f"{row['compile'] / row['backend']:.2f}",
        ]
        for row in in_order(read("whole-models").rows)
    ]
    return lines_of(["model, ms", "PyTorch", "compile", "accelerate", "both", "backend", "compile ÷ backend"], body)


TRAINING_KEYS = ("copy_us", "forward_us", "by_x_us", "by_weights_us", "us", "pytorch_us")
BLOCKS = {
    README: {"gpu": gpu_table, "cpu": cpu_table},
    TRAINING: {"training": training_table, "training models": training_models_table},
    MODELS: {"models": models_table},
    AUTOMATIC: automatic_tables.TABLES,
}
"""Tables that stand in a page between `<!-- figures: NAME -->` and `<!-- end -->`."""
RUNS = {
    "training": ("training",),
    "training models": ("training-models",),
    "models": ("whole-models",),
    **automatic_tables.RUNS,
}
"""The stored runs of a block, which stand below its table; RESULTS.md has the runs of the README."""


def runs_of(names: Sequence[str]) -> str:
    """Return the command, device, date and commit of stored runs, for a line of text."""
    made = [read(name).made for name in names]
    return "; ".join(f"`{one['command']}`, {one['device']}, {one['date']}, {one['commit']}" for one in made)


def with_figures(path: Path) -> str:
    """Return the text of a page with its tables of figures written anew."""
    text = path.read_text(encoding="utf-8")
    for name, made in BLOCKS[path].items():
        begin, end = f"<!-- figures: {name} -->\n", "<!-- end -->"
        before, _, rest = text.partition(begin)
        lines = [*made(), *(["", f"({runs_of(RUNS[name])})"] if name in RUNS else [])]
        text = f"{before}{begin}\n" + "\n".join(lines) + f"\n\n{end}{rest.partition(end)[2]}"
    return text


def page() -> str:
    """Return the text of RESULTS.md."""
    parts = [HEAD]
    for section in SECTIONS:
        remark = f"{section.remark} ({runs_of(section.names)})".strip()
        parts.append("\n".join(["", f"## {section.title}", remark, "", *section.table()]))
    return "\n".join(parts) + "\n"


def take(path: Path) -> None:
    """Store a run of `.training`, `.training_models` or `.whole_models`; or `rows` and `models` of `.acceptance`."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if isinstance(lines[0].get("model"), dict):
        _take_models(lines)
        return
    if "training_model" in lines[0]:
        write("training-models", lines[0]["run"], list(map(_trained, lines)))
        return
    if "layer" in lines[0]:
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        made = {**lines[0]["run"], "command": "python -m benchmarks.training", "commit": commit}
        write("training", made, list(map(_step, lines)))
        return
    for part, name, row_of in (("rows", "shipped", _shipped), ("models", "models", _model)):
        own = [line for line in lines if line["part"] == part]
        if own:
            made = read(name).made
            write(name, {**made, **{key: own[-1].get(key) for key in ("commit", "device", "driver", "date")}},
                  [row_of(line["unit"], line["values"]) for line in own])  # fmt: skip


_MODEL_SPREAD = 0.2
"""The most that the times of a row may differ by: other work on the GPU makes them differ by more."""


def _take_models(lines: list[Row]) -> None:
    """Store rows of whole models beside the rows of earlier runs; each has the commit of its own run."""
    before = read("whole-models")
    rows = {row["row"]: {"commit": before.made["commit"], **row} for row in before.rows}
    for line in lines:
        if max(line["spread"].values()) > _MODEL_SPREAD:
            print(f"left out, since its times differ by {max(line['spread'].values()):.0%}: {line['row']}")
        elif {"compile", "backend"} <= line["ms"].keys():
            rows[line["row"]] = {"row": line["row"], "commit": line["run"]["commit"], **line["ms"]}
    made = {**lines[0]["run"], "command": "python -m benchmarks.whole_models"}
    write("whole-models", made, list(rows.values()))


def _shipped(unit: str, values: Row) -> Row:
    mode, row = unit.split()
    times = {"us": round(values["untuned_us"], 2), "pytorch_us": round(values["pytorch"], 2)}
    return {"row": row, "mode": mode, **times, "fused_ratio": round(values["fused"], 2)}


def _model(unit: str, values: Row) -> Row:
    name, mode, batch = unit.split()[:3]
    ratios = {"graph_ratio": round(values["graph"], 2), "eager_ratio": round(values["eager"], 2)}
    return {"row": f"{name}, {mode}", "mode": f"batch {batch}", **ratios}


def _trained(line: Row) -> Row:
    times = {key: round(line[key], 2) for key in ("pytorch_ms", "ms", "pytorch_gib", "gib")}
    return {"row": line["training_model"], "mode": line["mode"], **times}


def _step(line: Row) -> Row:
    """A training step in µs, in the faster memory order of each side."""
    seconds = line["seconds"]
    order = min(("first", "last"), key=lambda o: seconds[f"ours {o} xw"])
    forward, by_x, by_weights, step = (1e6 * seconds[f"ours {order} {wanted}"] for wanted in ("", "x", "w", "xw"))
    theirs = 1e6 * min(seconds["theirs first"], seconds["theirs last"])
    times = {"copy_us": 1e6 * seconds["copy"], "forward_us": forward, "by_x_us": by_x - forward,
             "by_weights_us": by_weights - forward, "us": step, "pytorch_us": theirs}  # fmt: skip
    rounded = {key: round(value, 1) for key, value in times.items()}
    return {"row": line["layer"], "mode": line["dtype"], "channels": order, **rounded, "error": max(line["errors"])}


def main() -> int:
    """Write the page, or compare it with the data."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is out of date")
    parser.add_argument("--take", type=Path, help="store a run of a benchmark first")
    given = parser.parse_args()
    if given.take:
        take(given.take)
    texts = {PAGE: page(), **{path: with_figures(path) for path in BLOCKS}}
    if given.check:
        return int(any(path.read_text(encoding="utf-8") != text for path, text in texts.items()))
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
