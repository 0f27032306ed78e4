"""A script that an absent device ends prints one line, under plain `python`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = "import tilewright as tw\ntw.nd.empty((3,), device=tw.device('vulkan'))\n"


def _run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(text)
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)


def test_one_line_ends_the_script(tmp_path: Path) -> None:
    done = _run(tmp_path, SCRIPT)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{tmp_path / 'script.py'}:2: Tilewright has no driver for vulkan; ")


def test_other_errors_keep_their_traceback(tmp_path: Path) -> None:
    done = _run(
        tmp_path, f"try:\n    {SCRIPT.splitlines()[0]}\n    tw.cuda(99).require()\nexcept tw.TVMError:\n    1 / 0\n"
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_a_hook_of_the_script_stays(tmp_path: Path) -> None:
    done = _run(tmp_path, f"import sys\nsys.excepthook = lambda kind, *_: print(kind.__name__)\n{SCRIPT}")
    assert (done.stdout, done.stderr) == ("AbsentDeviceError\n", "")
