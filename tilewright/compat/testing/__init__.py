"""Helpers for tests of numerical programs."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ...core.refusals import old_name as _old_name
from .checks import assert_allclose as assert_allclose
from .checks import assert_prim_expr_equal as assert_prim_expr_equal
from .checks import check_bool_expr_is_true as check_bool_expr_is_true
from .checks import check_int_constraints_trans_consistency as check_int_constraints_trans_consistency
from .checks import device_enabled as device_enabled
from .checks import enabled_targets as enabled_targets
from .parameters import exclude_targets as exclude_targets
from .parameters import fixture as fixture
from .parameters import known_failing_targets as known_failing_targets
from .parameters import main as main
from .parameters import parameter as parameter
from .parameters import parameters as parameters
from .parameters import parametrize_targets as parametrize_targets
from .parameters import requires_cuda as requires_cuda
from .parameters import requires_gpu as requires_gpu
from .parameters import requires_llvm as requires_llvm
from .parameters import requires_opencl as requires_opencl
from .parameters import requires_package as requires_package
from .parameters import uses_gpu as uses_gpu

if not _TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
