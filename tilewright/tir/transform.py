"""Passes under the legacy API's names; `passes/named_passes.py` defines the passes."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ..core.refusals import old_name as _old_name
from ..passes.named_passes import COUNTERPARTS as _COUNTERPARTS
from ..passes.named_passes import apply as Apply
from ..passes.named_passes import bind_target as BindTarget
from ..passes.named_passes import filtered as Filter
from ..passes.named_passes import maker_of as _maker_of
from ..passes.named_passes import prim_func_pass as prim_func_pass
from ..passes.named_passes import verifying_gpu_code as VerifyGPUCode
from ..passes.named_passes import verifying_memory as VerifyMemory
from ..passes.named_passes import verifying_ssa as VerifySSA

globals().update({_name: _maker_of(_name) for _name in _COUNTERPARTS})

__all__ = [name for name in dir() if not name.startswith("_")]

__path__: list[str] = []  # the legacy API has modules below this one; `legacy.finder` finds their names here

if not _TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
