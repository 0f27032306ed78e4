"""Integer analysis: facts, bounds, the simplifier, the prover, regions."""

from typing import TYPE_CHECKING

from ..core.refusals import old_name as _old_name
from . import int_set as int_set
from .analyzer import Analyzer as Analyzer
from .analyzer import ConstIntBound as ConstIntBound
from .analyzer import ModularSet as ModularSet
from .deduce import deduce_bound as deduce_bound
from .int_set import IntervalSet as IntervalSet
from .int_set import IntSet as IntSet
from .integer_inequalities import solve_linear_inequalities as solve_linear_inequalities
from .integer_systems import IntConstraints as IntConstraints
from .integer_systems import IntConstraintsTransform as IntConstraintsTransform
from .integer_systems import solve_linear_equations as solve_linear_equations
from .iter_divide import subspace_divide as subspace_divide
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
from .linear_equations import detect_clip_bound as detect_clip_bound
from .linear_equations import detect_linear_equation as detect_linear_equation
from .region_bounds import estimate_region_lower_bound as estimate_region_lower_bound
from .region_bounds import estimate_region_strict_bound as estimate_region_strict_bound
from .region_bounds import estimate_region_upper_bound as estimate_region_upper_bound

if not TYPE_CHECKING:  # the legacy API has a module of this name

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
