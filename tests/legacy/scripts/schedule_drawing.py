"""A program of the shape of the legacy tutorial on drawing schedules: graphs of data, of loops and of their axes."""

import tempfile
from pathlib import Path

import tvm
from tvm import te, topi
from tvm.contrib import tedd

folder = Path(tempfile.mkdtemp())
data = te.placeholder((1, 64, 32, 32), name="A")
weight = te.placeholder((64, 64, 3, 3), name="W")
bias = te.placeholder((1, 64, 1, 1), name="B")
with tvm.target.Target("llvm"):
    convolution = topi.nn.conv2d(data, weight, 1, "SAME", 1)
    out = topi.nn.relu(topi.add(convolution, bias))
    s = topi.generic.schedule_conv2d_nchw([out])

tedd.viz_dataflow_graph(s, dot_file_path=str(folder / "data.dot"))
tedd.viz_schedule_tree(s, dot_file_path=str(folder / "loops.dot"))
s = s.normalize()
tedd.viz_itervar_relationship_graph(s, dot_file_path=str(folder / "axes.dot"))
for name, words in {
    "data": ['label="input A', 'label="stage pad_temp', "->"],
    "loops": ["pad_temp", "->"],
    "axes": [".outer", ".inner", "->"],
}.items():
    text = (folder / f"{name}.dot").read_text(encoding="utf-8")
    assert text.startswith("digraph") and all(word in text for word in words), text
s.draw(str(folder / "schedule.svg"), view="schedule")
assert "<svg" in (folder / "schedule.svg").read_text(encoding="utf-8")
print("right")
