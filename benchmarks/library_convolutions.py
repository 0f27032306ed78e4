"""Convolutions by the operator library, in three ways, none of them tuned: python -m benchmarks.library_convolutions

"cuda": `topi.cuda.conv2d_*` with `topi.cuda.schedule_conv2d_*`; "template": the packaged template's own first
configuration; "general": `topi.nn.conv2d_*` with the schedule of `auto_schedule`. Each is checked against
PyTorch before it is timed; times are medians of CUDA graphs of several runs, in turns. Without a GPU, all are compiled.
"""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import te, topi
from tilewright.report.table import Column, table
from tilewright.topi.templates import Conv2dLayer, Depthwise, named

CONV2D = named("topi/conv2d")
DEPTHWISE = named("topi/depthwise")

RUNS, ROUNDS = 20, 9
LAYERS: list[Any] = [
    Conv2dLayer.of((1, 64, 56, 56), 64, 3, 1, 1),
    Conv2dLayer.of((1, 512, 7, 7), 512, 3, 1, 1),
    Conv2dLayer.of((1, 3, 224, 224), 64, 7, 2, 3),
    Conv2dLayer.of((8, 128, 28, 28), 128, 3, 1, 1),
    Conv2dLayer.of((8, 128, 28, 28), 128, 3, 1, 1, dtype="float16"),
    Conv2dLayer.of((8, 256, 14, 14), 1024, 1, 1, 0),
    Conv2dLayer.of((64, 128, 14, 14), 128, 3, 1, 1, layout="HWCN"),
    Conv2dLayer.of((1, 64, 56, 56), 64, 3, 1, 1, layout="NHWC", weights="HWIO"),
    Conv2dLayer.of((8, 256, 14, 14), 1024, 1, 1, 0, layout="NHWC", weights="HWIO"),
    Conv2dLayer.of((8, 128, 28, 28), 128, 3, 1, 1, layout="NHWC", weights="HWIO", dtype="float16"),
    Conv2dLayer.of((1, 3, 224, 224), 64, 7, 2, 3, layout="NHWC", weights="HWIO"),
    Conv2dLayer.of((8, 128, 56, 56), 128, 3, 1, 1, groups=32),
    Conv2dLayer.of((8, 256, 28, 28), 256, 3, 1, 1, groups=4),
    Conv2dLayer.of((8, 128, 56, 56), 128, 3, 1, 1, groups=32, layout="NHWC", weights="HWIO"),
    Conv2dLayer.of((8, 256, 28, 28), 256, 3, 1, 1, groups=4, layout="NHWC", weights="HWIO"),
    Depthwise.of((1, 96, 112, 112), 3, 2, 1),
    Depthwise.of((32, 384, 14, 14), 3, 1, 1),
]


def ways(of: Any, target: str) -> dict[str, tuple[Any, list[te.Tensor]]]:
    """The schedules of a layer, with their arguments."""
    depthwise = isinstance(of, Depthwise)
    groups = [of.groups] if not depthwise and of.groups > 1 else []
    name = "depthwise_conv2d_nchw" if depthwise else f"{'group_' if groups else ''}conv2d_{of.layout.lower()}"
    made: dict[str, tuple[Any, list[te.Tensor]]] = {}
    with tw.target.Target(target) as on:
        for way, library in (("cuda", topi.cuda), ("general", topi.nn)):
            data, weights = of.placeholders()
            kind = {"out_dtype": of.result} if of.layout == "NHWC" else {}  # float32 by default
            out = getattr(library, name)(data, weights, of.stride, of.padding, of.dilation, *groups, **kind)
            made[way] = getattr(topi.cuda, f"schedule_{name}")([out]), [data, weights, out]
        own = of if of.layout != "NHWC" else replace(of, weights="OIHW")  # the order that templates take by default
        template, config = (DEPTHWISE if depthwise else CONV2D).choose(own, on)
        made["template"] = template.instantiate(config, own.args, on)
    return made


def main() -> None:
    """Compile all layers, and check and time them if there is a GPU."""
    dev = tw.cuda()
    target = "cuda" if dev.exist else "cuda -arch=sm_90"
    made = [ways(of, target) for of in LAYERS]
    jobs = [(row, way) for row, each in enumerate(made) for way in each]
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda job: tw.build(*made[job[0]][job[1]], target), jobs)
        modules = dict(zip(jobs, found, strict=True))
    if not dev.exist:
        print(f"{len(modules)} programs compiled")
        return
    lines = []
    for row, of in enumerate(LAYERS):
        given, (expected,) = of.sample()
        usual = [given[0], np.ascontiguousarray(given[1].transpose(3, 2, 0, 1)) if of.layout == "NHWC" else given[1]]
        out = np.full(expected.shape, np.nan, of.dtype)
        arrays = {
            way: [tw.nd.array(a, dev) for a in (*(usual if way == "template" else given), out)] for way in made[row]
        }
        times: dict[str, list[float]] = {way: [] for way in made[row]}
        timers = {}
        for way in times:
            module = modules[row, way]
            module(*arrays[way])
            error = np.linalg.norm(arrays[way][-1].numpy().astype("float64") - expected) / np.linalg.norm(expected)
            assert error < (1e-2 if of.dtype == "float16" else 1e-5), f"{of.title}, {way}: error {error:.1e}"
            timers[way] = module.time_evaluator(module.entry_name, dev, number=RUNS, repeat=1)
        for _ in range(ROUNDS):
            for way, timer in timers.items():
                times[way].append(timer(*arrays[way]).median * 1e6)
        cuda, template, general = (statistics.median(times[way]) for way in ("cuda", "template", "general"))
        lines.append([of.title, f"{cuda:.1f}", f"{template:.1f}", f"{cuda / template:.2f}", f"{general:.1f}"])
    heads = ["cuda µs", "template µs", "cuda / template", "general µs"]
    print("\n".join(table([Column("layer", right=False), *map(Column, heads)], lines)))


if __name__ == "__main__":
    main()
