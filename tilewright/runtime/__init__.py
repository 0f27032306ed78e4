"""Floor 9: devices, arrays, callable modules, and timing them."""

from typing import TYPE_CHECKING

from ..core.refusals import missing_from_module as _missing
from .array import NDArray as NDArray
from .device import Device as Device
from .device import device as device
from .device import enabled as enabled
from .driver import DeviceError as DeviceError
from .module import Module as Module
from .module import load_module as load_module
from .module import set_debug as set_debug
from .thread_pool import num_threads as num_threads
from .thread_pool import set_num_threads as set_num_threads

if not TYPE_CHECKING:  # the legacy API has a module of this name

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name, globals())
