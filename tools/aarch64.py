"""Run tests as on Linux for aarch64, by qemu-user: python tools/aarch64.py [--folder FOLDER] [-- pytest options]

Python comes from Debian's packages for arm64 and its libraries from wheels; both are unpacked into a folder, without
root's rights, the first time. The emulator is qemu-user's (apt-get install qemu-user). Ends with pytest's status.

`TESTS` are the suites that run by default: programs for the CPU, from expressions to one-line calls. An emulated core
is about ten times slower.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("python3-minimal", "libpython3-stdlib", "libstdc++6")
WHEELS = ("numpy>=1.26", "llvmlite>=0.46", "ml_dtypes>=0.5", "typer>=0.15.4", "rich>=13.9", "pytest>=8.3",
          "pytest-xdist", "hypothesis>=6.100")  # fmt: skip
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64", "manylinux_2_17_aarch64")
TESTS = (
    "tests/core",
    "tests/expr",
    "tests/codegen/llvm",
    "tests/codegen/test_host.py",
    "tests/codegen/test_hostile_names.py",
    "tests/functional/test_batches.py",
    "tests/functional/test_timed_comparison.py",
    "tests/functional/test_named_arguments.py",
    "tests/functional/test_numpy_calls.py",
    "tests/functional/test_odd_calls.py",
    "tests/functional/test_quiet_calls.py",
    "tests/functional/test_signature.py",
    "tests/functional/test_store.py",
)
COMPARE_TIMES = ("tests/codegen/llvm/test_example.py",)
"""Tests of speed, which an emulated processor cannot show."""
PYTHON = """\
#!/bin/sh
# Python for aarch64, under qemu-user; -0 has it start processes of its own likewise.
here={here}
exec env PYTHONHOME="$here/system/usr" {qemu} -L "$here/system" -0 "$here/python" "$here/system/usr/bin/python3" "$@"
"""


def needed(command: str, fix: str) -> str:
    """Return the path of a command; end with the fix if it is absent."""
    found = shutil.which(command)
    if found is None:
        sys.exit(f"{command} is not on the PATH: {fix}")
    return found


def unpack_system(folder: Path) -> None:
    """Unpack Debian's packages for arm64, with all that they need."""
    apt, dpkg = needed("apt-get", "this needs Debian's package tools"), needed("dpkg", "it comes with Debian")
    work = folder / "apt"
    (work / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (work / "cache" / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    (work / "status").touch()
    options = {"APT::Architecture": "arm64", "APT::Architectures": "arm64", "Dir::State::Lists": work / "lists",
               "Dir::State::status": work / "status", "Dir::Cache": work / "cache", "Debug::NoLocking": "1",
               "APT::Sandbox::User": ""}  # fmt: skip
    asked = [f"-o{name}={value}" for name, value in options.items()]
    subprocess.run([apt, *asked, "-q", "update"], check=True, stdout=subprocess.DEVNULL)
    install = ["install", "--download-only", "--yes", "--no-install-recommends", *PACKAGES]
    subprocess.run([apt, *asked, "-q", *install], check=True, stdout=subprocess.DEVNULL)
    for package in sorted((work / "cache" / "archives").glob("*.deb")):
        subprocess.run([dpkg, "-x", str(package), str(folder / "system")], check=True)
    shutil.rmtree(work)


def unpack_wheels(folder: Path) -> None:
    """Unpack the libraries' wheels for the Python that was unpacked."""
    python = (folder / "system/usr/bin/python3").resolve().name.removeprefix("python")
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder / "packages"), *platforms]
    subprocess.run([*command, "--python-version", python, "--only-binary=:all:", *WHEELS], check=True)


def prepared(folder: Path) -> Path:
    """Unpack the system and the wheels if they are not there; return the command of the emulated Python."""
    qemu = needed("qemu-aarch64", "apt-get install qemu-user brings it")
    ready, command = folder / "ready", folder / "python"
    if not ready.exists():
        print(f"Unpacking Python for aarch64 into {folder} (a minute the first time)", flush=True)
        unpack_system(folder)
        unpack_wheels(folder)
        ready.touch()
    command.write_text(PYTHON.format(here=folder, qemu=qemu), encoding="utf-8")
    command.chmod(0o755)
    return command


def main(given: Sequence[str]) -> int:
    """Prepare the emulated Python, and run pytest by it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "aarch64")
    parser.add_argument("options", nargs="*", help="options and files of pytest, after --; without files, the default")
    args = parser.parse_args(given)
    folder = args.folder.resolve()
    python = prepared(folder)
    files = [] if any(Path(word.partition("::")[0]).exists() for word in args.options) else list(TESTS)
    variables = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(folder / "packages")]), "PYTHONHASHSEED": "0",
                 "TILEWRIGHT_CACHE": str(folder / "cache")}  # fmt: skip
    ignored = [f"--ignore={file}" for file in COMPARE_TIMES]
    cores = ["-n", str(os.cpu_count() or 1), "--dist", "worksteal"]
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *cores, *ignored, *files, *args.options]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
