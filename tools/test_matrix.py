"""Run the tests under conditions that other machines have: python tools/test_matrix.py [options] [-- pytest options]

One line per cell: how many tests passed, failed and skipped, the seconds, and the failures. A cell that this machine
cannot offer is skipped, with the reason. Ends with status 1 if a cell has failures.

By default, each cell runs the tests that its condition concerns; `--whole` runs the suite in every cell, and `--brief`
only the files that show the condition in seconds.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
VARIABLE = "TILEWRIGHT_VENVS"
"""Python interpreters of other environments that have the package's dependencies, parted by colons."""
BASIC = ("tests/programs/test_examples.py", "tests/runtime/test_module.py", "tests/runtime/test_saved.py",
         "tests/tune/test_records.py", "tests/cli/test_log.py")  # fmt: skip
MEASURING = ("tests/measure", "tests/tune/test_run.py", "tests/cli/test_tune.py")
FORKING = ("tests/measure/test_session.py", "tests/measure/test_costs_only_itself.py",
           "tests/measure/test_references.py", "tests/tune/test_run.py")  # fmt: skip
"""The files of MEASURING that build, run, check and fail candidates, without waits for killed processes."""
BRIEF = (
    "tests/measure/test_session.py", "tests/measure/test_batches.py", "tests/measure/test_references.py",
    "tests/measure/test_forking.py", "tests/measure/test_strays.py", "tests/runtime/test_thread_pool.py",
    "tests/runtime/test_saved.py", "tests/runtime/test_module.py", "tests/runtime/test_timing.py",
    "tests/tune/test_records.py", "tests/tune/test_fallback.py", "tests/tune/test_search.py", "tests/cli/test_tune.py",
    "tests/cli/test_log.py", "tests/cli/test_doctor.py", "tests/cli/test_ladder.py", "tests/codegen/test_nvrtc.py",
    "tests/programs/test_wide_indices.py", "tests/programs/test_numbers.py", "tests/schedule/test_corners.py",
    "tests/fleet/test_dispatch.py", "tests/fleet/test_parts.py", "tests/errors/test_newcomers.py",
    "tests/errors/test_surface.py",
)  # fmt: skip
"""The tests of a cell that `--brief` runs."""
EXTRAS = {
    "distributed": ("tests/fleet", "tests/tune"),
    "pyopencl": (*BASIC, "tests/cli", "tests/measure/test_session.py"),
    "matplotlib": ("tests/cli", "tests/ladder", "tests/report"),
    "cuda": (*BASIC, "tests/codegen/test_nvrtc.py", "tests/cli/test_doctor.py"),
    "torch": ("tests/functional", "tests/ladder", "tests/cli/test_ladder.py"),
}
"""Optional packages, and the tests of their users."""
_TOTALS = re.compile(r"(\d+) (passed|failed|skipped|errors?)")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.M)
_HIDE = """\
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name.partition(".")[0] in {names} else find(name, *rest)
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""


@dataclass(frozen=True)
class Cell:
    """A condition: variables, limits of the process, and events around it; `lacks` is the reason why it is
    unavailable."""

    name: str
    tests: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[], None] | None = None
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    wrapper: Sequence[str] = ()
    options: Sequence[str] = ()
    python: str = sys.executable
    lacks: str = ""


def limited(kind: int, amount: int) -> Callable[[], None]:
    """Return a function that limits a resource of the process that calls it."""
    return lambda: resource.setrlimit(kind, (amount, amount))


@contextmanager
def loaded(processes: int) -> Iterator[None]:
    """Keep every core busy meanwhile."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for one in spinning:
            one.kill()
            one.wait()


def cells(folder: Path) -> list[Cell]:
    """Return all cells; `folder` is for their files."""
    cores = sorted(os.sched_getaffinity(0))
    made = []
    for count in (1, 2, 8):
        made.append(Cell(
            f"{count} core{'s' * (count > 1)}", (*MEASURING, "tests/runtime/test_thread_pool.py"),
            prepare=lambda count=count: os.sched_setaffinity(0, cores[:count]),
            lacks="" if count <= len(cores) else f"this machine has {len(cores)}",
        ))  # fmt: skip
    made += [
        Cell(
            "6 GiB of data",
            (*BASIC, *FORKING, "tests/measure/test_parts.py"),
            prepare=limited(resource.RLIMIT_DATA, 6 << 30),
        ),
        Cell("64 descriptors", (*MEASURING, *BASIC), prepare=limited(resource.RLIMIT_NOFILE, 64)),
        Cell(
            "no writable home",
            (*BASIC, "tests/cli", *FORKING, "tests/measure/test_forking.py"),
            {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": ""},
        ),
        mounted("read-only temporary folder", "mount -o remount,ro {at}", folder / "read-only"),
        mounted("full temporary folder", "head -c 2M /dev/zero > {at}/filler", folder / "full"),
        Cell(
            "OpenCL of 8 GiB",
            (*BASIC, "tests/programs/test_wide_indices.py", "tests/measure/test_session.py"),
            {"POCL_MEMORY_LIMIT": "8"},
        ),
        Cell("load on every core", (*MEASURING, "tests/runtime"), around=lambda: loaded(2 * len(cores))),
    ]
    for name, tests in EXTRAS.items():
        hidden = folder / f"without-{name}"
        hidden.mkdir()
        (hidden / "sitecustomize.py").write_text(_HIDE.format(names=(name,)))
        made.append(Cell(f"without {name}", tests, {"PYTHONPATH": os.pathsep.join([str(hidden), *inherited()])}))
    made += [Cell(f"hash seed {seed}", (*BASIC, "tests/schedule/test_corners.py"), {"PYTHONHASHSEED": str(seed)})
             for seed in (0, 1, 2)]  # fmt: skip
    optimised = ("tests/programs", "tests/runtime", "tests/topi", "tests/schedule")
    made += [
        Cell("OpenCL optimised", optimised, {"TILEWRIGHT_OPENCL_OPTIONS": ""}, options=("-m", "opencl and not slow")),
        Cell("warnings are errors", (*BASIC, "tests/measure/test_session.py"), {"PYTHONWARNINGS": "error"}),
        Cell("python -O", (*BASIC, "tests/measure/test_session.py"), {"PYTHONOPTIMIZE": "1"}),
        Cell("python -OO", (*BASIC, "tests/measure/test_session.py"), {"PYTHONOPTIMIZE": "2"}),
        Cell("locale C", (*BASIC, "tests/cli"), {"LC_ALL": "C", "LANG": "C"}),
        Cell("time zone of Kiritimati", (*BASIC, "tests/cli"), {"TZ": "Pacific/Kiritimati"}),
    ]
    return made + [other(python) for python in filter(None, os.environ.get(VARIABLE, "").split(":"))]


def inherited() -> list[str]:
    """The folders of PYTHONPATH."""
    return list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))


def other(python: str) -> Cell:
    """Return the cell of another interpreter."""
    asked = [python, "-c", "import platform, pytest; print(platform.python_version())"]
    found = subprocess.run(asked, capture_output=True, text=True) if shutil.which(python) else None
    lacks = "" if found is not None and not found.returncode else f"{python} does not run pytest"
    version = found.stdout.strip() if found is not None else ""
    tests = (*BASIC, *FORKING, "tests/measure/test_forking.py", "tests/errors", "tests/expr")
    return Cell(f"Python {version or python}", tests, python=python, lacks=lacks)


def mounted(name: str, spoil: str, at: Path) -> Cell:
    """Return a cell with a small file system of its own as temporary folder, spoilt by a command before the tests.

    pytest keeps its own folders elsewhere.
    """
    at.mkdir()
    script = f'mount -t tmpfs -o size=1M none {at} && {{ {spoil.format(at=at)} 2>/dev/null; exec "$@"; }}'
    wrapper = ("unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh")
    allowed = not subprocess.run(["unshare", "--mount", "--map-root-user", "true"], capture_output=True).returncode
    tests = (*BASIC, "tests/measure/test_session.py", "tests/measure/test_references.py")
    return Cell(name, tests, {"TMPDIR": str(at)}, wrapper=wrapper, lacks="" if allowed else "no namespaces for mounts")


def chosen_tests(cell: Cell, brief: bool) -> list[str]:
    """Return the tests of a cell that this tree has; on `brief`, those of them in BRIEF."""
    tests = [test for test in cell.tests if (ROOT / test).exists()]
    return [file for file in BRIEF if file.startswith(tuple(tests))] if brief else tests


def run(cell: Cell, whole: bool, options: Sequence[str], brief: bool = False) -> bool:
    """Run a cell, and print its line; False if a test failed."""
    print(f"{cell.name:28s}", end=" ", flush=True)
    if cell.lacks:
        print(f"skipped: {cell.lacks}")
        return True
    tests = [] if whole else chosen_tests(cell, brief)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="matrix-", dir=tempfile.gettempdir()) as own:
        command = [
            *cell.wrapper,
            cell.python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--basetemp={own}/pytest",
        ]
        variables = {**os.environ, "TMPDIR": own, **cell.variables}
        with cell.around():
            done = subprocess.run(
                [*command, *dict.fromkeys(tests), *cell.options, *options],
                cwd=ROOT, env=variables, preexec_fn=cell.prepare,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            )  # fmt: skip
    last = done.stdout.rstrip().rpartition("\n")[2]
    counts = {what.rstrip("s") if what != "passed" else what: int(number) for number, what in _TOTALS.findall(last)}
    failed = _FAILED.findall(done.stdout)
    ok = done.returncode == 0
    line = f"{counts.get('passed', 0):5d} passed {len(failed):3d} failed {counts.get('skipped', 0):4d} skipped"
    print(f"{line} {time.monotonic() - began:6.0f} s  {'' if ok else ' '.join(failed) or last or done.returncode}")
    if not ok:
        log = Path(tempfile.gettempdir()) / f"matrix-{re.sub(r'[^a-z0-9]+', '-', cell.name.lower())}.log"
        log.write_text(done.stdout, encoding="utf-8")
        print(f"{'':28s} {log}")
    return ok


def main(given: Sequence[str]) -> int:
    """Run the cells that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="show the cells")
    parser.add_argument("--cell", action="append", default=[], help="run the cells with this text in their names")
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--whole", action="store_true", help="run the whole suite in every cell")
    extent.add_argument("--brief", action="store_true", help="run the tests that show the condition in seconds")
    parser.add_argument("options", nargs="*", help="options of pytest, after --")
    args = parser.parse_args(given)
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder:
        chosen = [c for c in cells(Path(folder)) if not args.cell or any(part in c.name for part in args.cell)]
        if args.list:
            print("\n".join(f"{cell.name:28s} {' '.join(chosen_tests(cell, args.brief))}" for cell in chosen))
            return 0
        results = [run(cell, args.whole, args.options, args.brief) for cell in chosen]
    return 0 if all(results) and results else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
