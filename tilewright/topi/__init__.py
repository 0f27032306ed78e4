"""Floor 12: the operator library, under the names of the legacy TOPI."""

from typing import TYPE_CHECKING

from ..core.refusals import missing as _missing
from . import broadcast as broadcast
from . import cuda as cuda
from . import generic as generic
from . import math as math
from . import nn as nn
from . import tag as tag
from . import tensor as tensor
from . import testing as testing
from . import utils as utils
from . import x86 as x86
from .broadcast import add as add
from .broadcast import bitwise_and as bitwise_and
from .broadcast import bitwise_or as bitwise_or
from .broadcast import bitwise_xor as bitwise_xor
from .broadcast import broadcast_to as broadcast_to
from .broadcast import divide as divide
from .broadcast import equal as equal
from .broadcast import floor_divide as floor_divide
from .broadcast import floor_mod as floor_mod
from .broadcast import greater as greater
from .broadcast import greater_equal as greater_equal
from .broadcast import left_shift as left_shift
from .broadcast import less as less
from .broadcast import less_equal as less_equal
from .broadcast import log_add_exp as log_add_exp
from .broadcast import logical_and as logical_and
from .broadcast import logical_or as logical_or
from .broadcast import logical_xor as logical_xor
from .broadcast import maximum as maximum
from .broadcast import minimum as minimum
from .broadcast import mod as mod
from .broadcast import multiply as multiply
from .broadcast import not_equal as not_equal
from .broadcast import power as power
from .broadcast import right_shift as right_shift
from .broadcast import subtract as subtract
from .broadcast import trunc_divide as trunc_divide
from .broadcast import trunc_mod as trunc_mod
from .math import abs as abs
from .math import acos as acos
from .math import acosh as acosh
from .math import asin as asin
from .math import asinh as asinh
from .math import atan as atan
from .math import atanh as atanh
from .math import bitwise_not as bitwise_not
from .math import cast as cast
from .math import ceil as ceil
from .math import ceil_log2 as ceil_log2
from .math import clip as clip
from .math import cos as cos
from .math import cosh as cosh
from .math import erf as erf
from .math import exp as exp
from .math import exp2 as exp2
from .math import fast_erf as fast_erf
from .math import fast_exp as fast_exp
from .math import fast_tanh as fast_tanh
from .math import fixed_point_multiply as fixed_point_multiply
from .math import floor as floor
from .math import identity as identity
from .math import isfinite as isfinite
from .math import isinf as isinf
from .math import isnan as isnan
from .math import log as log
from .math import log1p as log1p
from .math import log2 as log2
from .math import log10 as log10
from .math import logical_not as logical_not
from .math import negative as negative
from .math import round as round
from .math import rsqrt as rsqrt
from .math import sigmoid as sigmoid
from .math import sign as sign
from .math import sin as sin
from .math import sinh as sinh
from .math import sqrt as sqrt
from .math import tan as tan
from .math import tanh as tanh
from .math import trunc as trunc
from .tensor import elemwise_sum as elemwise_sum
from .tensor import full as full
from .tensor import full_like as full_like
from .tensor import ones as ones
from .tensor import ones_like as ones_like
from .tensor import zeros as zeros
from .tensor import zeros_like as zeros_like

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        raise _missing("topi", name, globals())
