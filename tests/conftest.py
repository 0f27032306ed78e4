"""Shared by all tests: golden files, skip rules for missing devices, hypothesis profiles."""

from __future__ import annotations

import ctypes
import difflib
import functools
import gc
import importlib.util
import os
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests.bytecode import compile_before
from tests.decided import decided
from tilewright.codegen.c_compiler import c_compiler
from tilewright.runtime.opencl_driver import load_pyopencl
from tilewright.runtime.pocl_processor import name_processor

GOLDEN = Path(__file__).parent / "golden"

try:
    import hypothesis
    from hypothesis.internal.conjecture import providers as hypothesis_providers
except ImportError:  # a GPU machine may run `-m cuda` with pytest alone
    pass
else:
    # No deadline: the first example of a property pays for imports and compilers. Every run draws the same
    # examples, so that a change never fails by chance; `make fuzz-properties` draws new ones.
    hypothesis.settings.register_profile("default", deadline=None, max_examples=60, derandomize=True)
    hypothesis.settings.register_profile("ci", deadline=None, max_examples=400, derandomize=True)
    hypothesis.settings.register_profile("fuzz", deadline=None, max_examples=int(os.environ.get("FUZZ_EXAMPLES", 600)))
    hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
    # Hypothesis draws the constants of the sources, too: any change of them would change the examples of all tests.
    # Reading them takes each process seconds.
    if hasattr(hypothesis_providers, "_get_local_constants"):
        _no_constants = hypothesis_providers.Constants()
        hypothesis_providers._get_local_constants = lambda: _no_constants


# PoCL takes ten times as long to optimise a large kernel as to compile it, and tests are of the source that it gets.
# It optimises in tests marked `optimised`, in slow runs, and everywhere if the user has set the variable (to nothing).
COMPILER_OPTIONS = "TILEWRIGHT_OPENCL_OPTIONS"
KEEPS_OPTIONS = COMPILER_OPTIONS in os.environ


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what the tests produce to tests/golden/")
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too")
    parser.addoption("--emulate-cuda", action="store_true", help="run tests that need a GPU on tests/emulator")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--emulate-cuda"):
        from tests.emulator.device import EmulatedCuda, install

        install(EmulatedCuda())
    compile_before(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Keep the garbage collector from walking over modules and tests: now, and at each collection of a run.

    A run collects less often than Python does by itself, which takes 6 % of the processor time of tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object | None) -> None:
    """Say how the process of a crashed worker ended: pytest-xdist names the test, and no signal."""
    popen = getattr(getattr(node.gateway, "_io", None), "popen", None)
    if error is None or popen is None:
        return
    try:
        status = popen.wait(timeout=10)
    except subprocess.TimeoutExpired:
        status = None
    facts = Path("/proc/meminfo")
    lines = facts.read_text(encoding="ascii").splitlines() if facts.exists() else []
    memory = ", ".join(" ".join(line.split()) for line in lines if line.startswith(("MemTotal", "MemAvailable")))
    print(f"\n{node.gateway.id}: exit status {status}; {memory}")


def _slow_too(config: pytest.Config) -> bool:
    """Return whether slow tests are asked for: by --slow, or by -m."""
    return config.getoption("--slow") or "slow" in config.option.markexpr.replace("not slow", "")


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that need PyTorch: `make test-torch` runs these."""
    module = getattr(item, "module", None)
    reasons = [str(mark.kwargs.get("reason", "")) for mark in item.iter_markers("skipif")]
    if hasattr(module, "torch") or any("PyTorch" in reason for reason in reasons) or _item_names_torch(item):
        item.add_marker("torch")


_NAMING_TORCH: dict[object, bool] = {}
"""Whether a test function names PyTorch; all of its parameters share the answer."""


def _item_names_torch(item: pytest.Item) -> bool:
    function = getattr(item, "function", None)
    if function not in _NAMING_TORCH:
        fixtures = getattr(item, "_fixtureinfo", None)
        made = [fixture.func for found in fixtures.name2fixturedefs.values() for fixture in found] if fixtures else []
        _NAMING_TORCH[function] = _names_torch(function, made, getattr(item, "module", None))
    return _NAMING_TORCH[function]


def _names_torch(function: object, functions: list[object], module: object) -> bool:
    """Whether a test, a fixture of it, or a function of its module that it uses, names PyTorch."""
    pending = [code for f in [function, *functions] if (code := getattr(f, "__code__", None))]
    seen: set[CodeType] = set()
    while pending:
        code = pending.pop()
        if code in seen:
            continue
        seen.add(code)
        if "torch" in (*code.co_varnames, *code.co_names) or "torch" in code.co_consts:
            return True
        pending += [part for part in code.co_consts if isinstance(part, CodeType)]
        used = [getattr(module, name, None) for name in code.co_names]
        pending += [f.__code__ for f in used if isinstance(f, FunctionType)]
    return False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests, unless they are asked for: by --slow, by -m, or by name."""
    if _slow_too(config) or any("::" in given for given in config.args):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder of kernels and rates for all tests of a process: what one test compiles, the next one starts.

    The user's own folder knows decisions and rates that were measured on this machine.
    """
    folder = tmp_path_factory.getbasetemp() / "kernels"
    os.environ["TILEWRIGHT_CACHE"] = str(folder)
    return folder


@pytest.fixture
def our_kernels(own_cache: Path) -> Iterator[None]:
    """Calls run our kernels if they can, and nothing is timed."""
    with decided("ours", own_cache):
        yield


@pytest.fixture
def rival_kernels(own_cache: Path) -> Iterator[None]:
    """Calls on PyTorch's tensors run PyTorch's kernels, and nothing is timed."""
    with decided("theirs", own_cache):
        yield


@pytest.fixture(params=["ours", "theirs"])
def kernels(request: pytest.FixtureRequest, own_cache: Path) -> Iterator[str]:
    """Calls run our kernels, and run PyTorch's kernels in a second test."""
    with decided(request.param, own_cache):
        yield request.param


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("conv1d/v1.txt", text)`: text must be what tests/golden/conv1d/v1.txt holds."""

    def compare(name: str, text: str) -> None:
        __tracebackhide__ = True
        path = GOLDEN / name
        text = text if text.endswith("\n") else text + "\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        hint = "if the new text is right: pytest --update-golden"
        if not path.exists():
            pytest.fail(f"tests/golden/{name} does not exist; {hint}", pytrace=False)
        expected = path.read_text(encoding="utf-8")
        if text != expected:
            diff = difflib.unified_diff(
                expected.splitlines(), text.splitlines(), f"tests/golden/{name}", "this run", lineterm=""
            )
            pytest.fail("\n".join([*diff, "", hint]), pytrace=False)

    return compare


@functools.cache
def why_no_cuda() -> str | None:
    """None where a CUDA device answers, else what is missing. Asks the driver and creates no context."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no driver (libcuda.so.1 not found)"
    if status := driver.cuInit(0):
        return f"the driver does not start (cuInit gives {status})"
    count = ctypes.c_int(0)
    if status := driver.cuDeviceGetCount(ctypes.byref(count)):
        return f"the driver does not count devices (cuDeviceGetCount gives {status})"
    return None if count.value else "the driver sees none"


@functools.cache
def why_no_opencl() -> str | None:
    """None where an OpenCL device answers, else what is missing."""
    try:
        pyopencl = load_pyopencl()
    except ImportError:
        return "pyopencl is not installed"
    try:
        devices = [device for platform in pyopencl.get_platforms() for device in platform.get_devices()]
    except pyopencl.Error as error:
        return str(error)
    if devices and not any(name_processor(device) for device in devices):
        return "its compiler does not know this processor"
    return None if devices else "no platform has one"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if not KEEPS_OPTIONS:
        optimised = item.get_closest_marker("optimised") or _slow_too(item.config)
        os.environ[COMPILER_OPTIONS] = "" if optimised else "-cl-opt-disable"
    emulated = item.config.getoption("--emulate-cuda")
    if item.get_closest_marker("cuda") and not emulated and (reason := why_no_cuda()):
        pytest.skip(f"no CUDA device: {reason}")
    if item.get_closest_marker("opencl") and (reason := why_no_opencl()):
        pytest.skip(f"no OpenCL device: {reason}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test skips if it needs a compiler or a library that this machine lacks, as any test may."""
    try:
        return (yield)
    except Exception as error:
        text = str(error)
        if "NVRTC is not usable here" in text and importlib.util.find_spec("cuda") is None:
            pytest.skip("the extra cuda, which brings NVRTC, is not installed")
        if "C compiler" in text and "on the PATH" in text and c_compiler() is None:
            pytest.skip("no C compiler (cc, gcc, clang) is on the PATH")
        if "no OpenCL: pyopencl is not installed" in text and importlib.util.find_spec("pyopencl") is None:
            pytest.skip("the extra opencl is not installed")
        raise
