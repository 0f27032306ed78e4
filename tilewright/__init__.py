"""Convolutions in one call, and the compiler behind them: declare a tensor computation, schedule it, run it, tune it.

`tilewright.conv2d` and others take arrays of PyTorch, NumPy, CuPy and JAX. The compiler has the names of the legacy
tensor-expression API. Everything is imported on first use, so that `import tilewright` stays quick.
"""

from __future__ import annotations

import typing as _typing
from importlib import import_module as _import_module
from typing import Any as _Any

from .core.other_paths import hook_in_other_paths as _hook_in_other_paths
from .core.refusals import hook_in as _hook_in
from .core.refusals import hook_in_old_names as _hook_in_old_names
from .core.refusals import old_name as _old_name
from .core.version import __version__ as __version__
from .core.views import hook_in as _hook_in_view
from .explain import hook_in_views as _hook_in_views

if _typing.TYPE_CHECKING:
    from . import arith as arith
    from . import driver as driver
    from . import error as error
    from . import intrin as intrin
    from . import ir as ir
    from . import nd as nd
    from . import nn as nn
    from . import runtime as runtime
    from . import target as target
    from . import te as te
    from . import tir as tir
    from . import topi as topi
    from . import transform as transform
    from .auto import auto_schedule as auto_schedule
    from .compat import auto_scheduler as auto_scheduler
    from .compat import autotvm as autotvm
    from .compat import contrib as contrib
    from .compat import legacy as legacy
    from .compat import testing as testing
    from .driver import build as build
    from .driver import lower as lower
    from .error import InternalError as InternalError
    from .error import TVMError as TVMError
    from .error import UserError as UserError
    from .functional import avg_pool2d as avg_pool2d
    from .functional import conv1d as conv1d
    from .functional import conv2d as conv2d
    from .functional import conv_transpose1d as conv_transpose1d
    from .functional import conv_transpose2d as conv_transpose2d
    from .functional import depthwise_conv2d as depthwise_conv2d
    from .functional import max_pool2d as max_pool2d
    from .functional.causal.conv1d import causal_conv1d_fn as causal_conv1d_fn
    from .functional.causal.conv1d import causal_conv1d_update as causal_conv1d_update
    from .functional.explain import explain_call as explain_call
    from .functional.user_operator import torch_operator as torch_operator
    from .ir import IRModule as IRModule
    from .nd import array as array
    from .nd import cl as cl
    from .nd import context as context
    from .nd import cpu as cpu
    from .nd import cuda as cuda
    from .nd import device as device
    from .nd import opencl as opencl
    from .nn import accelerate as accelerate
    from .runtime.conversion import convert as convert
    from .runtime.data_type import DataType as DataType
    from .runtime.packed import get_global_func as get_global_func
    from .runtime.packed import register_func as register_func
    from .tir import decl_buffer as decl_buffer

_MODULES = (
    "nn",
    "te",
    "tir",
    "ir",
    "intrin",
    "nd",
    "target",
    "testing",
    "error",
    "topi",
    "auto_scheduler",
    "autotvm",
    "runtime",
    "transform",
    "arith",
    "contrib",
    "driver",
)
_HOMES = {
    "driver": ("lower", "build"),
    "nd": ("array", "device", "context", "cpu", "cuda", "gpu", "opencl", "cl"),
    "error": ("TVMError", "UserError", "InternalError"),
    "tir": ("decl_buffer",),
    "ir": ("IRModule",),
    "runtime.data_type": ("DataType",),
    "runtime.conversion": ("convert",),
    "runtime.packed": ("register_func", "get_global_func"),
    "functional": ("conv1d conv2d depthwise_conv2d conv_transpose1d conv_transpose2d max_pool2d avg_pool2d").split(),
    "functional.causal.conv1d": ("causal_conv1d_fn", "causal_conv1d_update"),
    "functional.explain": ("explain_call",),
    "functional.user_operator": ("torch_operator",),
    "nn": ("accelerate",),
    "auto": ("auto_schedule",),
    # The oldest spelling kept all of these at the top level.
    "te": (
        "placeholder compute reduce_axis thread_axis create_schedule var size_var const sum min max all any exp log "
        "sqrt tanh sigmoid power floor ceil abs floordiv floormod truncdiv truncmod if_then_else comm_reducer "
        "min_value max_value round trunc rsqrt erf sin cos tan isnan popcount indexdiv indexmod Range IterVar Var div"
    ).split(),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}
_OLD_NAMES = {
    "_ffi": ("compat.legacy.ffi", "ffi"),
    "select": ("tir", "Select"),
    "gpu": ("nd", "cuda"),
    "hybrid": ("te", "hybrid"),
    "container": ("ir", "container"),
}

for _subject in ("name", "expression", "tensor", "array"):
    _hook_in(_subject, f"{__name__}.compat.messages.{_subject}s")
_hook_in_views()
_hook_in_view("schedule", f"{__name__}.auto.schedule", "scheduled")
_hook_in_view("redeclared convolution", f"{__name__}.topi.idioms.redeclared", "declared")
_hook_in_view("packaged templates", f"{__name__}.topi.templates.table", "packaged")
_hook_in_view("registered templates", f"{__name__}.compat.autotvm.task.legacy_tasks", "templates")
_hook_in_old_names(f"{__name__}.compat.legacy.spellings", "find")
_hook_in_other_paths(f"{__name__}.compat.legacy.finder", "folded_module")


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _import_module(f"{__name__}.{name}")
    if name in _OLD_NAMES:
        home, name = _OLD_NAMES[name]
        return getattr(_import_module(f"{__name__}.{home}"), name)
    if name in _NAMES:
        value = getattr(_import_module(f"{__name__}.{_NAMES[name]}"), name)
        globals()[name] = value
        return value
    return _old_name(__name__, name, __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_NAMES, *_OLD_NAMES} - {"annotations"})
