"""Devices, arrays, callable modules, and timing them.

Each name is imported when first used: a process that runs a known kernel needs few of these modules.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from ..core.refusals import old_name as _old_name
from .device import device as device  # imported now; otherwise the submodule `device` would replace the function

if TYPE_CHECKING:
    from .array import NDArray as NDArray
    from .conversion import convert as convert
    from .data_type import DataType as DataType
    from .device import Device as Device
    from .device import enabled as enabled
    from .driver import DeviceError as DeviceError
    from .loaded_libraries import system_lib as system_lib
    from .module import Module as Module
    from .module import load_module as load_module
    from .module import set_debug as set_debug
    from .packed import PackedFunc as PackedFunc
    from .thread_pool import num_threads as num_threads
    from .thread_pool import set_num_threads as set_num_threads

_HOMES = {
    "data_type": ("DataType",),
    "array": ("NDArray",),
    "conversion": ("convert",),
    "device": ("Device", "enabled"),
    "driver": ("DeviceError",),
    "loaded_libraries": ("system_lib",),
    "module": ("Module", "load_module", "set_debug"),
    "packed": ("PackedFunc",),
    "thread_pool": ("num_threads", "set_num_threads"),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:  # the legacy API has a module of this name

    def __getattr__(name: str) -> object:
        if name in _NAMES:
            return getattr(_import_module(f"{__name__}.{_NAMES[name]}"), name)
        return _old_name(__name__, name, __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
