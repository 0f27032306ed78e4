"""Integer analysis: facts, bounds, the simplifier, the prover, regions.

This module is a face, too: the names that only scripts use stand in `compat/arith/`, and are imported when first used.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from ..core.refusals import old_name as _old_name
from .iter_map import detect_iter_map as detect_iter_map
from .iter_map import inverse_affine_iter_map as inverse_affine_iter_map
from .iter_map import iter_map_simplify as iter_map_simplify
from .iter_map import normalize_to_iter_sum as normalize_to_iter_sum
from .iter_marks import IterMapExpr as IterMapExpr
from .iter_marks import IterMapLevel as IterMapLevel
from .iter_marks import IterMapResult as IterMapResult
from .iter_marks import IterMark as IterMark
from .iter_marks import IterSplitExpr as IterSplitExpr
from .iter_marks import IterSumExpr as IterSumExpr
from .iter_marks import normalize_iter_map_to_expr as normalize_iter_map_to_expr

if TYPE_CHECKING:
    from ..compat.arith import int_set as int_set
    from ..compat.arith.analyzer import Analyzer as Analyzer
    from ..compat.arith.analyzer import ConstIntBound as ConstIntBound
    from ..compat.arith.analyzer import ModularSet as ModularSet
    from ..compat.arith.deduce import deduce_bound as deduce_bound
    from ..compat.arith.int_set import IntervalSet as IntervalSet
    from ..compat.arith.int_set import IntSet as IntSet
    from ..compat.arith.integer_inequalities import solve_linear_inequalities as solve_linear_inequalities
    from ..compat.arith.integer_systems import IntConstraints as IntConstraints
    from ..compat.arith.integer_systems import IntConstraintsTransform as IntConstraintsTransform
    from ..compat.arith.integer_systems import solve_linear_equations as solve_linear_equations
    from ..compat.arith.iter_divide import subspace_divide as subspace_divide
    from ..compat.arith.linear_equations import detect_clip_bound as detect_clip_bound
    from ..compat.arith.linear_equations import detect_linear_equation as detect_linear_equation
    from ..compat.arith.region_bounds import estimate_region_lower_bound as estimate_region_lower_bound
    from ..compat.arith.region_bounds import estimate_region_strict_bound as estimate_region_strict_bound
    from ..compat.arith.region_bounds import estimate_region_upper_bound as estimate_region_upper_bound

_HOMES = {
    "analyzer": ("Analyzer", "ConstIntBound", "ModularSet"),
    "deduce": ("deduce_bound",),
    "int_set": ("IntervalSet", "IntSet"),
    "integer_inequalities": ("solve_linear_inequalities",),
    "integer_systems": ("IntConstraints", "IntConstraintsTransform", "solve_linear_equations"),
    "iter_divide": ("subspace_divide",),
    "linear_equations": ("detect_clip_bound", "detect_linear_equation"),
    "region_bounds": ("estimate_region_lower_bound", "estimate_region_strict_bound", "estimate_region_upper_bound"),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:  # the legacy API has a module of this name

    def __getattr__(name: str) -> object:
        if name in _NAMES:
            return getattr(_import_module(f"..compat.arith.{_NAMES[name]}", __name__), name)
        return _old_name(__name__, name, __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, "int_set"})
