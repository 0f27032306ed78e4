"""A processor that PoCL's compiler does not know gets the name of one that it does, and only in PoCL's own record."""

from __future__ import annotations

import ctypes
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import llvmlite.binding as llvm
import pytest

import tilewright as tw
from tilewright import te
from tilewright.runtime import opencl_driver, pocl_processor
from tilewright.runtime.device import opencl
from tilewright.runtime.pocl_processor import name_processor, processor

TRIPLE, GENERIC = b"x86_64-unknown-linux-gnu", b"generic"
ZEN5 = dict.fromkeys(
    "avx avx2 cx16 popcnt lzcnt f16c fma bmi bmi2 avx512f avx512bw avx512cd avx512dq avx512vl avx512bf16".split(), True
)
HERE = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-"


class Record:
    """What PoCL keeps of a device: numbers, and pointers to texts."""

    def __init__(self, *texts: bytes) -> None:
        self.texts = [ctypes.create_string_buffer(text) for text in texts]
        self.words = (ctypes.c_size_t * 512)(3, 2**64 - 1, *map(ctypes.addressof, self.texts), 4096)

    def device(self, version: str = HERE + "generic", platform: str = pocl_processor.POCL) -> Any:
        """A device of pyopencl's that has the record."""
        return SimpleNamespace(
            int_ptr=ctypes.addressof(self.words), version=version, platform=SimpleNamespace(name=platform)
        )

    def names(self) -> list[bytes]:
        """The texts that the record points to."""
        return [ctypes.string_at(self.words[2 + at]) for at in range(len(self.texts))]


@pytest.fixture
def zen5(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """A processor that came after the compiler."""
    features = dict(ZEN5)
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: features)
    return features


def test_the_name_follows_the_features() -> None:
    assert processor(ZEN5) == "skylake-avx512"
    assert processor({**ZEN5, "avx512vl": False}) == "haswell"
    assert processor({**ZEN5, "avx512vl": False, "bmi2": False}) is None


def test_names_are_those_of_the_libraries_that_pocl_links() -> None:
    folder = files(pytest.importorskip("pocl_binary_distribution"))
    for library, name in (("avx512", "skylake-avx512"), ("avx2", "haswell")):
        bitcode = folder / ".libs" / "share" / "pocl" / f"kernel-{TRIPLE.decode()}-{library}.bc"
        if not bitcode.is_file():
            pytest.skip(f"this PoCL has no {bitcode}")
        assert f'"target-cpu"="{name}"' in str(llvm.parse_bitcode(bitcode.read_bytes()))


@pytest.mark.usefixtures("zen5")
def test_the_record_of_an_unknown_processor_gets_a_name_once() -> None:
    record = Record(b"pthread", TRIPLE, GENERIC, b"CL3.0")
    assert name_processor(record.device())
    assert record.names() == [b"pthread", TRIPLE, b"skylake-avx512", b"CL3.0"]
    before = list(record.words)
    assert name_processor(record.device())  # as a second context of the process does
    assert list(record.words) == before


def test_a_processor_without_a_library_keeps_its_name(zen5: dict[str, bool]) -> None:
    zen5["avx2"] = zen5["avx512f"] = False
    record = Record(TRIPLE, GENERIC)
    assert not name_processor(record.device())
    assert record.names() == [TRIPLE, GENERIC]


@pytest.mark.usefixtures("zen5")
@pytest.mark.parametrize(
    "texts",
    [(GENERIC, TRIPLE), (TRIPLE, b"generic-x"), (TRIPLE, GENERIC, TRIPLE, GENERIC), (TRIPLE, b"pthread", GENERIC)],
)
def test_records_of_another_form_stay_as_they_are(texts: tuple[bytes, ...]) -> None:
    record = Record(*texts)
    assert not name_processor(record.device())
    assert record.names() == list(texts)


@pytest.mark.usefixtures("zen5")
def test_a_known_processor_and_other_drivers_are_left_alone() -> None:
    record = Record(TRIPLE, GENERIC)
    assert name_processor(record.device(version=HERE + "znver3"))
    assert name_processor(record.device(platform="NVIDIA CUDA"))
    assert record.names() == [TRIPLE, GENERIC]


@pytest.mark.opencl
def test_an_unknown_processor_is_said_to_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    a = te.placeholder((32,), name="a")
    b = te.compute((32,), lambda i: a[i] + 1.0, name="b")
    s = te.create_schedule(b.op)
    s[b].bind(s[b].op.axis[0], te.thread_axis("threadIdx.x"))
    module, arrays = tw.build(s, [a, b], "opencl"), [tw.nd.empty((32,), device=opencl()) for _ in "ab"]

    def built(at: Any, *_: Any) -> Any:
        raise at.cl.RuntimeError("clBuildProgram failed: BUILD_PROGRAM_FAILURE\nerror: unknown target CPU 'generic'")

    monkeypatch.setattr(opencl_driver, "_built", built)
    with pytest.raises(tw.TVMError, match=r"does not know this processor(?s:.*)fix: install a newer one"):
        module(*arrays)
