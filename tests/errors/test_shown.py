"""How objects show themselves: by what they are, never by an address."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import autotvm, te, tir

A = te.placeholder((16, 24), name="A")
k = te.reduce_axis((0, 24), "k")
B = te.compute((16, 24), lambda x, y: A[x, y] + 1.0, name="B")
C = te.compute((16,), lambda x: te.sum(B[x, k], axis=k), name="C")


@autotvm.template("shown/template")
def template(n: int) -> Any:
    config = autotvm.get_config()
    config.define_split("tile", C.op.axis[0], num_outputs=2)
    return te.create_schedule(C.op), [A, C]


def everything() -> dict[str, Any]:
    """One of each kind of object that users hold."""
    s = te.create_schedule(C.op)
    s[C].split(k, 4)
    lowered, module = tw.lower(s, [A, C]), tw.build(s, [A, C], "llvm")
    s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], C.op.axis[0])
    kernels = tw.build(s, [A, C], "cuda -arch=sm_90")
    task = autotvm.task.create("shown/template", (3,), "llvm")
    return {
        "Tensor(shape=[16, 24], dtype=float32, name=A)": A,
        "A[0]": A[0],
        "ComputeOp(C)": C.op,
        "IterVar(k: reduction, Range(min=0, extent=24))": k,
        "CommReducer(sum: (x) and (y) give [x + y], starting at [T.float32(0)])": C.op.body[0].combiner,
        "Schedule(A, B, C)": s,
        "Stage(A: an input)": s[A],
        "Stage(C: x, k.outer, k.inner)": s[C],
        "Schedule(A, B, C) ": s.value,
        "Stage(1, B: x, y)": s[B].value,
        "Function(main(A: float32[16, 24], C: float32[16]))": lowered["main"],
        "<Module main for llvm>": module,
        "<function main for llvm>": module["main"],
        "<DeviceModule main_kernel for cuda -arch=sm_90>": kernels.imported_modules[0],
        "cpu(0)": tw.cpu(),
        "<NDArray shape=(3,), cpu(0)>\narray([0., 0., 0.], dtype=float32)": tw.nd.array(np.zeros(3, "float32")),
        "Target('cuda -arch=sm_90')": tw.target.Target("cuda -arch=sm_90"),
        "PassContext(opt_level=2, config={})": tw.transform.PassContext(),
        "Buffer(b: float32[3] in global)": tir.decl_buffer((3,), name="b"),
        "Task(func_name=shown/template, args=(3,), kwargs={}, workload=('shown/template', 3))": task,
        "[-1, 1]": task.config_space.get(0)["tile"],
        "AmbientTemplate(shown/template(n: 'int') -> 'Any')": task.template,
        "progress_bar(0/3)": autotvm.callback.progress_bar(3),
        "Monitor(0 trials)": autotvm.callback.Monitor(),
        "ApplyHistoryBest(0 best configurations)": autotvm.apply_history_best(None),
    }


def test_objects_show_what_they_are() -> None:
    for text, thing in everything().items():
        assert repr(thing) == text.rstrip(), text


def test_longer_texts_hold_no_addresses() -> None:
    task = autotvm.task.create("shown/template", (3,), "llvm")
    s = te.create_schedule(C.op)
    s[C].split(k, 4)
    lowered, module = tw.lower(s, [A, C]), tw.build(s, [A, C], "llvm")
    timer = module.time_evaluator("main", tw.cpu())
    tuner = autotvm.tuner.GATuner(task)
    things = (lowered, lowered.functions, s.stages, s.steps, s[C].relations, module.program, timer, tuner, task)
    options = autotvm.measure_option("local", "local")
    for thing in (*things, options, task.config_space, tw.cpu().attributes, C.op.body):
        assert not re.search(r"\bat 0x[0-9a-f]+", repr(thing)), repr(thing)
