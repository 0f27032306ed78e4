"""The pytest plugin behind `tvm.testing`: `pytest_plugins = ["tvm.testing.plugin"]` in a conftest.py.

A test that takes `target` runs for every target that is enabled, `dev` is its device, and fixtures that
`tvm.testing.parameters` made together vary together.
"""

from __future__ import annotations

from typing import Any

import pytest

from ...core.target import Target
from ...runtime.device import Device, device
from .checks import enabled_targets
from .parameters import EXCLUDED, FAILING, named, of_kind


def pytest_configure(config: pytest.Config) -> None:
    """Make the marks known."""
    for mark in (EXCLUDED, FAILING):
        config.addinivalue_line("markers", f"{mark}(*targets): targets that a test is not for, or fails on")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise tests by target, and by fixtures that vary together."""
    given = {name for mark in metafunc.definition.iter_markers("parametrize") for name in _names(mark.args[0])}
    if "target" in metafunc.fixturenames and "target" not in given:
        excluded = named(metafunc.definition.iter_markers(EXCLUDED))
        metafunc.parametrize("target", [kind for kind, _ in enabled_targets() if not of_kind(kind, excluded)])
    groups: dict[int, dict[str, Any]] = {}
    for name in metafunc.fixturenames:
        for made in metafunc._arg2fixturedefs.get(name, ())[-1:]:
            about = vars(made.func)
            if "group" in about:
                groups.setdefault(about["group"], {})[name] = about
    for fixtures in groups.values():
        first = next(iter(fixtures.values()))
        rows = list(zip(*(about["values"] for about in fixtures.values()), strict=True))
        metafunc.parametrize(",".join(fixtures), rows, indirect=True, ids=first["ids"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the failures that tests are marked with."""
    for item in items:
        target = getattr(getattr(item, "callspec", None), "params", {}).get("target", "")
        if target and of_kind(str(target), named(item.iter_markers(FAILING))):
            item.add_marker(pytest.mark.xfail(reason=f"known to fail on {target}"))


@pytest.fixture
def dev(target: Any) -> Device:
    """The first device of the target; the test is skipped if there is none."""
    found = device(str(Target.parse(target).kind))
    if not found.exist:
        pytest.skip(f"there is no device for {target}")
    return found


def _names(given: Any) -> list[str]:
    return [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)
