"""Functions of which the current target chooses a form."""

from __future__ import annotations

import pytest

from tests.errors.refused import refused
from tilewright import target
from tilewright.target import GenericFunc, Target


@pytest.fixture
def plus() -> GenericFunc:
    @target.generic_func
    def made(data: int) -> int:
        return data + 1

    made.register(["cuda", "gpu"], lambda data: data + 2)

    @made.register("cpu")
    def on_cpu(data: int) -> int:
        return data + 10

    return made


def test_the_current_target_chooses(plus: GenericFunc) -> None:
    assert plus(1) == 2
    for name, value in (("cuda", 3), ("opencl", 3), ("llvm", 11), ("c", 11), ("llvm -keys=arm", 2)):
        with Target(name):
            assert plus(1) == plus.get_packed_func()(1) == value, name


def test_what_is_registered_twice(plus: GenericFunc) -> None:
    with refused("generic_func", "'made' has an implementation for 'cuda' already", fix="allow_override=True"):
        plus.register("cuda", lambda data: data)
    plus.register("cuda", lambda data: data, allow_override=True)
    with Target("cuda"):
        assert plus(1) == 1
    with refused("generic_func", "'made' has a default already", fix="allow_override=True"):
        plus.set_default(lambda data: data)
    with refused("generic_func", "[3] is not a key of a target", fix='"cuda"'):
        plus.register([3], lambda data: data)  # type: ignore[list-item]


def test_without_a_form() -> None:
    empty = GenericFunc("empty")
    with refused("generic_func", "'empty' has no implementation for no target", fix="set_default"):
        empty(1)
    empty.set_default(lambda data: -data)
    assert empty(1) == -1


def test_functions_by_name() -> None:
    @target.override_native_generic_func("tests.named")
    def named(data: int) -> int:
        return data + 1

    assert target.get_native_generic_func("tests.named") is named
    with refused("get_native_generic_func", "there is no generic function 'tests.nobody'", fix="override_native"):
        target.get_native_generic_func("tests.nobody")
