"""Mistakes in what tests of the legacy API are marked with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.errors.refused import refused
from tilewright import testing


@pytest.mark.parametrize(
    ("call", "primitive", "says"),
    [
        (lambda: testing.parameter(), "parameter", "no values are given"),
        (lambda: testing.parameter(8, ids=3), "parameter", "ids=3 is no list of names"),
        (lambda: testing.parameter(by_dict=[8]), "parameter", "by_dict=[8] is not a mapping"),
        (lambda: testing.parameters(8, 16), "parameters", "a set of values is not a sequence"),
        (lambda: testing.parameters((8, 16), (4,)), "parameters", "the sets have 1, 2 values"),
        (lambda: testing.fixture(3), "fixture", "3 is not a function"),
        (lambda: testing.fixture(int), "fixture", "<class 'int'> is not a function"),
        (lambda: testing.exclude_targets(3), "exclude_targets", "3 is not the name of a target"),
        (lambda: testing.known_failing_targets(print), "known_failing_targets", "is not the name of a target"),
        (lambda: testing.requires_package(3), "requires_package", "3 is not the name of a package"),
        (lambda: testing.requires_llvm(3), "requires", "3 is not a test"),
    ],
)
def test_what_marks_refuse(call: Callable[[], Any], primitive: str, says: str) -> None:
    with refused(primitive, says):
        call()


def test_packages_that_cannot_be_looked_for_are_not_there() -> None:
    for name in ("tests_absent.part", "", "."):
        assert testing.requires_package(name).marks()
    assert not testing.requires_package("numpy").marks()
