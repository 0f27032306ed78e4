"""Programs for Linux on aarch64 that are built on another machine, linked there, and run by qemu-user."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te
from tilewright.core.system import family_of
from tilewright.core.target import Target
from tilewright.runtime.module import Module
from tilewright.topi.templates import Depthwise, named
from tilewright.topi.templates.processor import VectorRegisters

TRIPLE = "aarch64-linux-gnu"
TARGET = Target(f"llvm -mtriple={TRIPLE}")
COMPILER, EMULATOR = f"{TRIPLE}-gcc", shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
ARM_MACHINE = 183
"""The number of AArch64 in an ELF file."""

pytestmark = pytest.mark.skipif(family_of("") == "aarch64", reason="this machine is an aarch64 one")
runs = pytest.mark.skipif(
    not (shutil.which(COMPILER) and EMULATOR),
    reason="apt-get install gcc-aarch64-linux-gnu qemu-user brings the cross compiler and the emulator",
)

MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include "layer.h"
int main(int argc, char **argv) {
  static float data[DATA], weight[WEIGHT], out[OUT];
  FILE *file = fopen(argv[1], "rb");
  if (fread(data, 4, DATA, file) != DATA || fread(weight, 4, WEIGHT, file) != WEIGHT) return 9;
  int status = layer(data, weight, out);
  fwrite(out, 4, OUT, stdout);
  return status;
}
"""


def layer(of: Depthwise) -> Module:
    """The default configuration of a layer."""
    template = named("topi/depthwise").able(of, TARGET)[0]
    return tw.build(*template.program(template.default_config(of, TARGET), of, TARGET), TARGET, name="layer")


def test_the_object_is_for_arm_with_vectors_of_128_bits(tmp_path: Path) -> None:
    A = te.placeholder((1024,), name="A")
    B = te.compute((1024,), lambda i: A[i] * 2 + 1, name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], 8)[1])
    module = tw.build(s, [A, B], TARGET)
    module.save(tmp_path / "lib.o")
    content = (tmp_path / "lib.o").read_bytes()
    assert struct.unpack_from("<H", content, 18) == (ARM_MACHINE,)
    text = module.get_source("asm")
    assert ".4s" in text
    assert "ptrue" not in text  # no scalable vectors
    with refused("call", f"the program is for {TRIPLE}, and this machine is not", fix="export_library"):
        module(*(tw.nd.array(np.zeros(1024, "float32")) for _ in range(2)))


def test_templates_know_the_registers_of_the_target() -> None:
    assert VectorRegisters.of(TARGET) == VectorRegisters(32, 16)
    assert TARGET.hardware.name == Target("llvm -mtriple=arm64-apple-darwin").hardware.name == "aarch64"


def test_names_of_processors_are_checked_for_the_family() -> None:
    tw.build(*_copy(), f"llvm -mtriple={TRIPLE} -mcpu=neoverse-n1")
    with refused("Target", "'skylake' is not a recognized processor"):
        tw.build(*_copy(), f"llvm -mtriple={TRIPLE} -mcpu=skylake")


def test_a_library_without_the_cross_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with refused("export_library", f"there is no {COMPILER} on the PATH", fix="apt-get install gcc-aarch64"):
        tw.build(*_copy(), TARGET).export_library(tmp_path / "lib.so")


def _copy() -> tuple[te.Schedule, list[te.Tensor]]:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i], name="B")
    return te.create_schedule(B.op), [A, B]


@runs
@pytest.mark.parametrize("linked", ["lib.o", "liblayer.so"])
def test_a_layer_runs_under_qemu(linked: str, tmp_path: Path) -> None:
    of = Depthwise.of((2, 8, 13, 15), kernel=5)
    module = layer(of)
    module.save(tmp_path / "layer.h")
    module.export_library(tmp_path / linked) if linked.endswith(".so") else module.save(tmp_path / linked)
    data, weight = of.inputs(np.random.default_rng(0))
    right = of.numpy(data.astype("float64"), weight.astype("float64"))
    (tmp_path / "main.c").write_text(MAIN, encoding="utf-8")
    (tmp_path / "input").write_bytes(data.tobytes() + weight.tobytes())
    sizes = [f"-D{name}={values.size}" for name, values in (("DATA", data), ("WEIGHT", weight), ("OUT", right))]
    how = ["-static"] if linked.endswith(".o") else ["-Wl,-rpath,."]
    command = [COMPILER, *sizes, "main.c", linked, *how, "-o", "main", "-lm", "-lpthread"]
    subprocess.run(command, cwd=tmp_path, check=True)
    root = [] if linked.endswith(".o") else ["-L", f"/usr/{TRIPLE}"]
    done = subprocess.run([str(EMULATOR), *root, "./main", "input"], cwd=tmp_path, check=True, stdout=subprocess.PIPE)
    np.testing.assert_allclose(np.frombuffer(done.stdout, "float32").reshape(right.shape), right, rtol=1e-4, atol=1e-5)
