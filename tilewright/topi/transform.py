"""Operators that move elements, under the name of the legacy module; their code is in several modules."""

from typing import TYPE_CHECKING

from ..core.refusals import old_name as _old_name
from .broadcast import broadcast_to as broadcast_to
from .indexing import gather as gather
from .indexing import gather_nd as gather_nd
from .indexing import matrix_set_diag as matrix_set_diag
from .indexing import one_hot as one_hot
from .indexing import sequence_mask as sequence_mask
from .indexing import take as take
from .indexing import trilu as trilu
from .indexing import where as where
from .joining import concatenate as concatenate
from .joining import dynamic_strided_slice as dynamic_strided_slice
from .joining import repeat as repeat
from .joining import split as split
from .joining import stack as stack
from .joining import strided_slice as strided_slice
from .joining import tile as tile
from .layout import layout_transform as layout_transform
from .linear_algebra import matmul as matmul
from .nn.matmul import tensordot as tensordot
from .ranges import arange as arange
from .ranges import meshgrid as meshgrid
from .ranges import ndarray_size as ndarray_size
from .ranges import shape as shape
from .ranges import unravel_index as unravel_index
from .scattering import invert_permutation as invert_permutation
from .scattering import sparse_to_dense as sparse_to_dense
from .selection import adv_index as adv_index
from .selection import sliding_window as sliding_window
from .selection import strided_set as strided_set
from .shapes import expand_dims as expand_dims
from .shapes import expand_like as expand_like
from .shapes import flip as flip
from .shapes import reshape as reshape
from .shapes import reverse_sequence as reverse_sequence
from .shapes import squeeze as squeeze
from .shapes import transpose as transpose

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
