"""Build a release and try it: python tools/release.py [--out dist]

The command builds the sdist and the wheel, and installs the wheel into a fresh environment outside of the tree. There
it checks the version, the import time, a program on the CPU, the programs of README.md, and `tilewright doctor`. Ends
with status 1 if something is wrong. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_IMPORT_SECONDS = 0.3
PROGRAM = """\
import numpy as np
import tilewright as tw
from tilewright import te

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] * 2.0 + 1.0, name="B")
s = te.create_schedule(B.op)
outer, inner = s[B].split(B.op.axis[0], factor=8)
s[B].vectorize(inner)
f = tw.build(s, [A, B], target="llvm")
a = tw.nd.array(np.arange(1000, dtype="float32"))
b = tw.nd.array(np.zeros(1000, dtype="float32"))
f(a, b)
np.testing.assert_allclose(b.numpy(), np.arange(1000) * 2.0 + 1.0)
print(tw.__file__)
"""
IMPORT = "import time; start = time.perf_counter(); import tilewright; print(time.perf_counter() - start)"


class Wrong(Exception):  # noqa: N818  # the fault of the release
    """The release is not fit to be published."""


def programs(readme: str) -> list[str]:
    """Return the Python programs of a document."""
    return re.findall(r"^```python\n(.*?)^```", readme, re.M | re.S)


def version() -> str:
    """The version of pyproject.toml, which the package and the changelog must agree with."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        named: str = tomllib.load(file)["project"]["version"]
    return named


def check_versions(named: str, code: str, changelog: str) -> None:
    """Raise Wrong if the code names another version, or the changelog none such."""
    if f'__version__ = "{named}"' not in code:
        raise Wrong(f"pyproject.toml says {named}, tilewright/core/version.py does not")
    if not re.search(rf"^## {re.escape(named)} - \d{{4}}-\d\d-\d\d$", changelog, re.M):
        raise Wrong(f"CHANGELOG.md has no section `## {named} - YYYY-MM-DD`")


def check_contents(names: Sequence[str], needed: Sequence[str], what: str) -> None:
    """Raise Wrong if an archive lacks files."""
    missing = [each for each in needed if not any(name.endswith(each) for name in names)]
    if missing:
        raise Wrong(f"the {what} lacks {', '.join(missing)}")


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Run a command; return its output, or raise Wrong with it."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode:
        raise Wrong(f"{' '.join(map(str, command))} exits with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(out: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it; gives their paths (sdist, wheel)."""
    run(sys.executable, "-m", "build", "--outdir", out, cwd=ROOT)
    sdist, wheel = out / f"tilewright-{version()}.tar.gz", out / f"tilewright-{version()}-py3-none-any.whl"
    with tarfile.open(sdist) as archive:
        check_contents(archive.getnames(), ("Makefile", "CHANGELOG.md", "LICENSE", "tests/conftest.py"), "sdist")
    with zipfile.ZipFile(wheel) as archive:
        check_contents(archive.namelist(), ("tilewright/driver.py", "LICENSE", "tilewright/py.typed"), "wheel")
    return sdist, wheel


def try_wheel(wheel: Path) -> list[str]:
    """Install a wheel into a fresh environment and use it; returns the findings, a line each."""
    with tempfile.TemporaryDirectory(prefix="tilewright-release-") as folder:
        home = Path(folder)
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        run(sys.executable, "-m", "venv", home / "env", cwd=home)
        python, command = home / "env/bin/python", home / "env/bin/tilewright"
        run(
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            wheel.resolve(),
            cwd=home,
            env=plain,
        )
        said = run(command, "--version", cwd=home, env=plain).strip()
        if said != f"tilewright {version()}":
            raise Wrong(f"tilewright --version says {said!r}")
        (home / "first.py").write_text(PROGRAM)
        where = run(python, "first.py", cwd=home, env=plain).strip()
        if not where.startswith(str(home)):
            raise Wrong(f"the program ran {where}, not the wheel's package")
        shown = programs((ROOT / "README.md").read_text(encoding="utf-8"))
        for program in shown:
            (home / "shown.py").write_text(program)
            run(python, "shown.py", cwd=home, env=plain)
        seconds = min(float(run(python, "-c", IMPORT, cwd=home, env=plain)) for _ in range(5))
        if seconds > MOST_IMPORT_SECONDS:
            raise Wrong(f"import tilewright takes {seconds:.2f} s, more than {MOST_IMPORT_SECONDS} s")
        doctor = run(command, "doctor", cwd=home, env=plain)
        return [
            said,
            "first program: right",
            f"programs of README.md: {len(shown)} run",
            f"import tilewright: {seconds * 1e3:.0f} ms",
            doctor.rstrip(),
        ]


def main() -> int:
    """Build, try, and print the next step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder of the sdist and the wheel")
    out = parser.parse_args().out
    try:
        code = (ROOT / "tilewright/core/version.py").read_text(encoding="utf-8")
        check_versions(version(), code, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
        sdist, wheel = build(out)
        print("\n".join(try_wheel(wheel)))
    except Wrong as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(f"\nbuilt and tried: {sdist} and {wheel}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
