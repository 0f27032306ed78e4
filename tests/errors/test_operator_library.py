"""Wrong uses of element-wise, broadcasting and reducing operators: one row per message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.errors.refused import refused
from tilewright import te, topi

A, B = te.placeholder((3, 4), name="A"), te.placeholder((5,), name="B")
WHOLE, TRUTH = te.placeholder((3, 4), "int32", "I"), te.placeholder((3, 4), "bool", "T")
SCALAR = te.placeholder((), name="S")

C, INDEX = te.placeholder((3, 5), name="C"), te.placeholder((3,), "int32", "N")
GAMMA, MAPS = te.placeholder((4,), name="gamma"), te.placeholder((2, 3, 3), name="maps")
IMAGES, OPEN = te.placeholder((2, 6, 4, 5), name="X"), te.placeholder((te.size_var("n"), 4), name="O")
EMPTY, WHOLE_ROW = te.placeholder((0, 4), name="E"), te.placeholder((1, 3), "int32", "R")
nn = topi.nn
MOVING: list[tuple[str, Callable[[], Any], str, str]] = [
    ("expand_dims", lambda: topi.expand_dims(A, 3), "argument 'axis' is 3, which is not one of 3", "from -3 to 2"),
    ("expand_dims", lambda: topi.expand_dims(A, 0, -1), "argument 'num_newaxis' is -1", "int >= 0"),
    ("expand_like", lambda: topi.expand_like(B, A, 0), "'B' has the shape [5], and 'A' without", "lacks"),
    ("squeeze", lambda: topi.squeeze(A, 1), "dimension 1 of 'A' has the extent 4, not 1", "extent 1: []"),
    ("transpose", lambda: topi.transpose(A, (0, 0)), "argument 'axes' is (0, 0)", "2 dimensions once: [1, 0]"),
    ("flip", lambda: topi.flip(A, 2), "argument 'axis' is 2", "from -2 to 1"),
    ("reverse_sequence", lambda: topi.reverse_sequence(A, B), "seq_lengths 'B' is float32", "int32 of shape [3]"),
    ("reshape", lambda: topi.reshape(A, (5, 2)), "'A' of shape [3, 4] cannot have the shape [5, 2]", "12 elements"),
    ("reshape", lambda: topi.reshape(A, (-1, -1)), "is not an extent", "extents"),
    ("concatenate", lambda: topi.concatenate([A, C], 0), "'A' is float32 of shape [3, 4], and 'C'", "dimension 0"),
    ("concatenate", lambda: topi.concatenate([A, WHOLE], 0), "'I' is int32", "one type"),
    ("stack", lambda: topi.stack([A, C], 0), "'A' is float32 of shape [3, 4], and 'C'", "one type and shape"),
    ("stack", lambda: topi.stack([], 0), "argument 'tensors' is []", "[A, B]"),
    ("split", lambda: topi.split(A, 3, 1), "of extent 4, does not divide into 3", "a divisor"),
    ("split", lambda: topi.split(A, [3, 1], 1), "argument 'indices_or_sections' is [3, 1]", "ascending order, up to 4"),
    ("split", lambda: topi.split(OPEN, 2), "has the extent `n`, which is not constant", "constant extents"),
    ("repeat", lambda: topi.repeat(A, 0, 1), "argument 'repeats' is 0", "int >= 1"),
    ("tile", lambda: topi.tile(A, (2, "x")), "argument 'reps' is 'x'", "int >= 1"),
    ("strided_slice", lambda: topi.strided_slice(A, [0], [1, 2]), "do not fit dimensions [0]", "an entry of each"),
    ("strided_slice", lambda: topi.strided_slice(A, [0], [1], [0]), "a stride is 0", "below 0"),
    ("strided_slice", lambda: topi.strided_slice(A, [0], [1], None, None, "x"), "'slice_mode' is 'x'", "'size'"),
    ("layout_transform", lambda: topi.layout_transform(A, "N1", "NC"), "'N1', which is not a layout", "NCHW16c"),
    (
        "layout_transform",
        lambda: topi.layout_transform(A, "NC", "NCH"),
        "cannot be converted from NC to NCH",
        "same letters",
    ),
    ("layout_transform", lambda: topi.layout_transform(A, "NC", "NC3c"), "which blocks of 3 do not divide", "pad"),
    ("layout_transform", lambda: topi.layout_transform(IMAGES, "NCW4c", "NWC"), "has blocks of 5 along C", "has"),
    ("take", lambda: topi.take(A, B), "indices 'B' has type float32", "topi.cast"),
    ("take", lambda: topi.take(A, INDEX, 0, mode="x"), "argument 'mode' is 'x'", "'clip', 'wrap'"),
    ("take", lambda: topi.take(A, INDEX, 0, 1), "batch_dims=1 exceeds axis=0", "at most axis"),
    (
        "take",
        lambda: topi.take(EMPTY, INDEX, 0, mode="fast"),
        "'N' of shape [3] index a dimension without",
        "or no indices",
    ),
    ("gather", lambda: topi.gather(EMPTY, 0, WHOLE), "'I' of shape [3, 4] index a dimension without", "or no indices"),
    ("gather_nd", lambda: topi.gather_nd(EMPTY, WHOLE_ROW), "index a dimension without elements", "or no indices"),
    ("embed", lambda: topi.nn.embed(EMPTY, INDEX), "'N' of shape [3] index a dimension without", "or no indices"),
    ("gather", lambda: topi.gather(A, 0, INDEX), "indices 'N' has the shape [3]", "2 dimensions"),
    ("gather", lambda: topi.gather(C, 0, WHOLE), "extents of dimension 1 of data and indices", "agree"),
    ("gather_nd", lambda: topi.gather_nd(A, INDEX), "indices 'N' has the shape [3]", "from 1 to 2"),
    ("where", lambda: topi.where(A, C, 0), "the extents 4 and 5 differ", "equal or 1"),
    ("where", lambda: topi.where(True, A, A), "argument 'condition' is True", "te.placeholder"),
    ("one_hot", lambda: topi.one_hot(A, 1, 0, 3, 0, "int8"), "indices 'A' has type float32", "topi.cast"),
    ("one_hot", lambda: topi.one_hot(INDEX, 1, 0, 0, 0, "int8"), "argument 'depth' is 0", "int >= 1"),
    ("sequence_mask", lambda: topi.sequence_mask(A, INDEX, 0, 2), "argument 'axis' is 2", "0, 1"),
    ("sequence_mask", lambda: topi.sequence_mask(A, A), "valid_length [3, 4]", "a length per sequence"),
    ("sequence_mask", lambda: topi.sequence_mask(A, INDEX), "elements of valid_length and sequences", "agree"),
    ("matrix_set_diag", lambda: topi.matrix_set_diag(A, B, 4), "have diagonals from -2 to 3", "one of them"),
    ("matrix_set_diag", lambda: topi.matrix_set_diag(A, B, (0, 1)), "'B' has the shape [5]", "diagonals, elements"),
    ("matrix_set_diag", lambda: topi.matrix_set_diag(A, B), "elements of diagonal and of the longest", "agree"),
    ("matrix_set_diag", lambda: topi.matrix_set_diag(A, B, 0, "LEFT"), "argument 'align' is 'LEFT'", "'RIGHT_LEFT'"),
    ("matrix_set_diag", lambda: topi.matrix_set_diag(B, B), "data 'B' has the shape [5]", "at least 2"),
    ("trilu", lambda: topi.trilu(B, 0, True), "data 'B' has the shape [5]", "at least 2"),
    ("einsum", lambda: topi.einsum("ij,jk", A), "describe 2 operands, but 1 are given", "separated by commas"),
    ("einsum", lambda: topi.einsum("ij,jk", A, A), "index 'j' has the extents 4 and 3", "one extent"),
    ("einsum", lambda: topi.einsum("i", A), "'i' describe 1 dimension, but operand 'A' has 2", "a letter per"),
    ("einsum", lambda: topi.einsum("ij->ik", A), "the result has 'k' which no operand has", "each once"),
    ("einsum", lambda: topi.einsum("ij->ii", A), "the result has 'i' and its letters more than once", "each once"),
    ("einsum", lambda: topi.einsum("i1->i", A), "subscripts 'i1' hold '1'", "a letter per dimension"),
    ("einsum", lambda: topi.einsum(A, A), "and 1 tensor", "ij,jk->ik"),
    ("scatter_elements", lambda: topi.scatter_elements(A, A, A), "indices 'A' has type float32", "topi.cast"),
    ("scatter_elements", lambda: topi.scatter_elements(A, WHOLE, WHOLE), "'I' is int32, but data 'A' is", "topi.cast"),
    ("scatter_elements", lambda: topi.scatter_elements(A, WHOLE, A, 0, "x"), "argument 'reduction' is 'x'", "'add'"),
    ("scatter_elements", lambda: topi.scatter_elements(C, WHOLE, A), "dimension 1 of data and indices", "agree"),
    ("scatter_nd", lambda: topi.scatter_nd(A, WHOLE, A), "indices 'I' has the shape [3, 4]", "from 1 to 2"),
    ("scatter_nd", lambda: topi.scatter_nd(B, topi.reshape(WHOLE, (1, 12)), A), "updates 'A' has the shape", "1 dim"),
    ("index_put", lambda: topi.index_put(A, [INDEX], B), "has 2 dimensions", "one tensor of integers per"),
    ("sparse_to_dense", lambda: topi.sparse_to_dense(WHOLE, (3, 4), B), "columns of sparse_indices", "agree"),
    (
        "searchsorted",
        lambda: topi.searchsorted(B, INDEX),
        "values 'N' has type int32, but sorted_sequence 'B'",
        '"float32")',
    ),
    ("unique", lambda: topi.unique(A), "data 'A' has the shape [3, 4]", "(elements,)"),
    ("unique", lambda: topi.unique(topi.cast(B, "bool")), "has type bool", 'topi.cast(data, "int8")'),
    ("adv_index", lambda: topi.adv_index(A, [INDEX] * 3), "has 2 dimensions", "one for each of the first"),
    ("sliding_window", lambda: topi.sliding_window(A, 0, (4, 1), (1, 1)), "a window of 4 does not fit", "topi.nn.pad"),
    ("strided_set", lambda: topi.strided_set(A, A, [0], [2]), "elements of the part along dimension 0", "agree"),
    ("strided_set", lambda: topi.strided_set(A, A, [0], [2], [0]), "a stride is 0", "above or below 0"),
    ("strided_set", lambda: topi.strided_set(A, A, 0, [2]), "begin=0 and end=[2] do not fit 'A'", "one entry each"),
    (
        "strided_set",
        lambda: topi.strided_set(OPEN, A, [0], [2]),
        "has the extent `n`, which is not",
        "constant extents",
    ),
    ("nll_loss", lambda: nn.nll_loss(WHOLE, INDEX, B), "predictions 'I' is int32[3, 4]", "floats of one type"),
    ("nll_loss", lambda: nn.nll_loss(A, INDEX, B), "elements of weights and classes", "agree"),
    ("grid_sample", lambda: topi.image.grid_sample(IMAGES, A), "grid 'A' has the shape [3, 4]", "4 dimensions"),
    ("grid_sample", lambda: topi.image.grid_sample(IMAGES, IMAGES), "coordinates of grid and dimensions", "agree"),
    ("grid_sample", lambda: topi.image.grid_sample(IMAGES, IMAGES, "x"), "argument 'method' is 'x'", "'bicubic'"),
    ("affine_grid", lambda: topi.image.affine_grid(MAPS, (2, 2)), "of shape [2, 3, 3]", "(batch, 2, 3)"),
    ("arange", lambda: topi.arange(0, 3, 0), "from 0 to 3 by 0 is not a range", "a step other than 0"),
    ("arange", lambda: topi.arange(3, 0), "no number lies from 3 to 0 by 1", "direction"),
    ("meshgrid", lambda: topi.meshgrid([A], "ij"), "a_tuple[0] 'A' has the shape", "0 or 1"),
    ("meshgrid", lambda: topi.meshgrid([B], "yx"), "argument 'indexing' is 'yx'", "'ij', 'xy'"),
    ("unravel_index", lambda: topi.unravel_index(INDEX, (3, 0)), "argument 'shape' is 0", "int >= 1"),
    ("shape", lambda: topi.shape(SCALAR), "'S' has no dimensions", "at least one"),
    ("flatten", lambda: nn.flatten(SCALAR), "'S' has no dimensions", "at least one"),
    ("mirror_pad", lambda: nn.mirror_pad(A, [3, 5]), "dimension 1 has 5 elements, but only 4", "pad less"),
    ("mirror_pad", lambda: nn.mirror_pad(A, [3, 0], None, "REFLECT"), "but only 2 can be mirrored", "pad less"),
    ("mirror_pad", lambda: nn.mirror_pad(A, [1, 1], None, "WRAP"), "argument 'mode' is 'WRAP'", "'REFLECT'"),
    ("depth_to_space", lambda: nn.depth_to_space(IMAGES, 2), "6 channels do not divide into blocks of 2×2", "of 4"),
    ("depth_to_space", lambda: nn.depth_to_space(A, 2), "data 'A' has the shape [3, 4]", "layout NCHW"),
    ("depth_to_space", lambda: nn.depth_to_space(IMAGES, 1, "CHWN"), "argument 'layout' is 'CHWN'", "'NHWC'"),
    ("space_to_depth", lambda: nn.space_to_depth(IMAGES, 2), "W has the extent 5", "topi.nn.pad"),
    (
        "space_to_batch_nd",
        lambda: nn.space_to_batch_nd(A, [3], [0], [0]),
        "extent is 4, which blocks of 3",
        "multiple of 3",
    ),
    ("space_to_batch_nd", lambda: nn.space_to_batch_nd(A, [1, 2], [0], [0]), "'block_shape' is [1, 2]", "spatial"),
    ("batch_to_space_nd", lambda: nn.batch_to_space_nd(A, [2], [0], [0]), "a batch of 3 with blocks [2]", "multiple"),
]

K, BATCHES = te.placeholder((8, 6, 3, 3), name="K"), te.placeholder((2, 3, 4), name="B3")
CUBE = te.placeholder((3, 3, 3), name="Q")
BLOCKED, BLOCKS = te.placeholder((1, 2, 5, 5, 4), name="Y"), te.placeholder((2, 2, 3, 3, 4, 3), name="V")
SMALL, NINE = te.placeholder((2, 2, 2, 2), name="small"), te.placeholder((2, 2, 3, 3), name="nine")
ONCE, MORE = te.placeholder((2, 2, 2, 1), name="once"), te.placeholder((3, 2, 2, 2), name="more")
WINDOWS: list[tuple[str, Callable[[], Any], str, str]] = [
    ("pool2d", lambda: nn.pool2d(3, 2, 2, 1, 0, "max"), "argument 'data' is 3", "te.placeholder"),
    ("pool2d", lambda: nn.pool2d(IMAGES, 2, 2, 1, 0, "mean"), "argument 'pool_type' is 'mean'", "'max', 'avg'"),
    ("pool2d", lambda: nn.pool2d(IMAGES, 0, 2, 1, 0, "max"), "argument 'kernel' is 0", "int >= 1"),
    ("pool2d", lambda: nn.pool2d(IMAGES, 2, (1, 1, 1), 1, 0, "max"), "'stride' is (1, 1, 1), which has 3", "of 2"),
    ("pool2d", lambda: nn.pool2d(IMAGES, 7, 2, 1, 1, "max"), "argument 'kernel' is 7 for dimension 2: a window", "pad"),
    ("pool2d", lambda: nn.pool2d(A, 2, 2, 1, 0, "max"), "layout 'NCHW' does not fit 'A' of shape [3, 4]", "H, W among"),
    ("pool1d", lambda: nn.pool1d(IMAGES, 2, 2, 1, 0, "max", layout="NCH2"), "'NCH2', which is not a layout", "NCHW16c"),
    ("pool1d", lambda: nn.pool1d(IMAGES, 2, 2, 1, -1, "max", layout="NCHW"), "argument 'padding' is -1", "int >= 0"),
    ("pool3d", lambda: nn.pool3d(IMAGES, 2, 2, 1, 0, "max"), "layout 'NCDHW' does not fit", "D, H, W among them"),
    ("global_pool", lambda: nn.global_pool(IMAGES, "sum"), "argument 'pool_type' is 'sum'", "'max', 'avg'"),
    ("adaptive_pool", lambda: nn.adaptive_pool(IMAGES, 0, "max"), "argument 'output_size' is 0", "int >= 1"),
    ("adaptive_pool1d", lambda: nn.adaptive_pool1d(OPEN, 2, "max", "WN"), "must be constant", "constant height"),
    (
        "pool_grad",
        lambda: nn.pool_grad(IMAGES, IMAGES, 2, 2, 0, "max"),
        "but the result of pool2d",
        "respect to the result",
    ),
    ("matmul", lambda: nn.matmul(A, C), "the extents of tensor_a and tensor_b", "agree"),
    ("matmul", lambda: nn.matmul(A, B), "tensor_b 'B' has the shape [5]", "(rows, columns)"),
    ("matmul", lambda: nn.matmul(A, C, B, transpose_a=True, out_dtype="x"), "'dtype' is 'x'", "name a type"),
    ("matmul", lambda: nn.matmul(A, A, B, transpose_a=True), "the elements of bias and the columns", "agree"),
    ("batch_matmul", lambda: nn.batch_matmul(A, A), "tensor_a 'A' has the shape [3, 4]", "(batch, rows, columns)"),
    ("batch_matmul", lambda: nn.batch_matmul(BATCHES, BATCHES, transpose_a=True), "that are summed over", "agree"),
    ("tensordot", lambda: topi.tensordot(A, C, 3), "argument 'axes' is 3, for tensors of 2 and 2", "axes=([1], [0])"),
    ("tensordot", lambda: topi.tensordot(A, C, -1), "argument 'axes' is -1, for tensors of 2 and 2", "axes=([1], [0])"),
    ("tensordot", lambda: topi.tensordot(A, A, ([1, -1], [1, 1])), "argument 'axes' is ([1, -1], [1, 1])", "once"),
    ("tensordot", lambda: topi.tensordot(A, C, ([1], [1])), "extents of dimension 1 of a and 1 of b", "agree"),
    ("conv3d_ncdhw", lambda: nn.conv3d_ncdhw(IMAGES, K, 1, 0), "Input 'X' has the shape", "layout NCDHW"),
    ("conv2d_transpose_nchw", lambda: nn.conv2d_transpose_nchw(IMAGES, K, 1, 0, None, 0), "channels of Input", "agree"),
    ("conv2d_transpose_nchw", lambda: nn.conv2d_transpose_nchw(A, K, 1, 0, None, 0), "Input 'A'", "(N, C, H, W)"),
    (
        "conv1d_transpose_ncw",
        lambda: nn.conv1d_transpose_ncw(CUBE, CUBE, 0, 0, None, 0),
        "'strides' is 0",
        ">= 1",
    ),
    (
        "group_conv2d_transpose_nchw",
        lambda: nn.group_conv2d_transpose_nchw(IMAGES, te.placeholder((6, 2, 3, 3)), 1, 0, None, 0, 4),
        "argument 'groups' is 4, which does not divide the 6 channels of",
        "a divisor of 6",
    ),
    (
        "conv2d_transpose_nchw",
        lambda: nn.conv2d_transpose_nchw(IMAGES, te.placeholder((6, 2, 1, 1)), 1, 3, None, 0),
        "argument 'padding' is 3, which leaves an empty result of -2 x -1",
        "less padding",
    ),
    (
        "conv1d_transpose_ncw",
        lambda: nn.conv1d_transpose_ncw(te.placeholder((1, 3, 1)), te.placeholder((3, 1, 2)), 1, 1, None, 0),
        "argument 'padding' is 1, which leaves an empty result of 0",
        "less padding",
    ),
    (
        "conv2d_nchw",
        lambda: nn.conv2d_nchw(IMAGES, K, 1, 0, 1, np.zeros(2)),
        "'dtype' is array([0., 0.])",
        "name a type",
    ),
    ("dense", lambda: nn.dense(A, A, None, "x"), "argument 'dtype' is 'x', which is not a type", "name a type"),
    ("conv2d_NCHWc", lambda: nn.conv2d_NCHWc(BLOCKED, BLOCKS, 1, 0, 1, "NCHW", "NCHW3c"), "'layout' is 'NCHW'", "16c"),
    ("conv2d_NCHWc", lambda: nn.conv2d_NCHWc(BLOCKED, BLOCKS, 1, 0, 1, "NCHW8c", "NCHW3c"), "layout's block", "agree"),
    ("conv2d_NCHWc", lambda: nn.conv2d_NCHWc(BLOCKED, K, 1, 0, 1, "NCHW4c", "NCHW3c"), "kernel 'K'", "6 dimension"),
    ("conv2d_winograd_nchw", lambda: nn.conv2d_winograd_nchw(IMAGES, K, 2, 0, 1, None), "strides=2", "conv2d_nchw"),
    ("conv2d_winograd_nchw", lambda: nn.conv2d_winograd_nchw(IMAGES, IMAGES, 1, 0, 1, None), "[2, 6, 4, 5]", "square"),
    ("conv2d_winograd_nchw", lambda: nn.conv2d_winograd_nchw(SMALL, SMALL, 1, 0, 1, "int32"), "type int32", "float32"),
    ("conv2d_winograd_nchw", lambda: nn.conv2d_winograd_nchw(SMALL, NINE, 1, 0, 1, None), "height 3 is larger", "pad"),
    ("conv2d_nchw", lambda: nn.conv2d_nchw(SMALL, NINE, 1, np.array([1, 1])), "padding is array([1, 1])", "vertical"),
    ("conv2d_winograd_nchw", lambda: nn.conv2d_winograd_nchw(K, SMALL, 1, 0, 1, None, True), "[2, 2, 2, 2]", "False"),
    (
        "conv2d_winograd_nchw",
        lambda: nn.conv2d_winograd_nchw(
            IMAGES, nn.conv2d_winograd_weight_transform(te.placeholder((2, 6, 5, 5)), 2), 1, 0, 1, None, True
        ),
        "weight has the shape [6, 6, 6, 2], which is that of kernels of 5×5",
        "for kernels of 3×3",
    ),
    *(
        (
            f"conv2d_winograd_{layout}",
            lambda layout=layout, n=n: getattr(nn, f"conv2d_winograd_{layout}")(
                IMAGES, te.placeholder((n, n, 6, 2)), 1, 0, 1, None, True
            ),
            f"weight has the shape [{n}, {n}, 6, 2], which is not that of transformed kernels of 3×3",
            "conv2d_winograd_weight_transform",
        )
        for layout in ("nchw", "nhwc")
        for n in (1, 2, 3, 5, 7)
    ),
    (
        "conv2d_winograd_nchw",
        lambda: nn.conv2d_winograd_nchw(IMAGES, te.placeholder((2, 6, 8, 8), name="L"), 1, 4, 1, None),
        "weight 'L' has kernels of 8×8, but tiles of 9×9 would lose",
        "use conv2d_nchw",
    ),
    (
        "conv2d_winograd_nhwc",
        lambda: nn.conv2d_winograd_nhwc(IMAGES, te.placeholder((9, 9, 5, 2)), 1, 0, 1, None, True),
        "shape [9, 9, 5, 2], but tiles of 9×9",
        "use conv2d_nhwc",
    ),
    (
        "conv2d_winograd_weight_transform",
        lambda: nn.conv2d_winograd_weight_transform(te.placeholder((2, 2, 3, 3), "int8", name="L"), 4),
        "kernel 'L' has type int8",
        "topi.cast",
    ),
    (
        "depthwise_conv2d_NCHWc",
        lambda: nn.depthwise_conv2d_NCHWc(BLOCKED, BLOCKS, 1, 0, 1, "NCHW4c", "NCHW3c"),
        "dimension 1 of Filter and 1: 2 and 1 differ",
        "agree",
    ),
    (
        "winograd_transform_matrices",
        lambda: nn.winograd_transform_matrices(6, 5, "float32"),
        "tile_size=6 with kernel_size=5 needs tiles of 10",
        "between 2 and 8",
    ),
    (
        "depthwise_conv2d_backward_input_nhwc",
        lambda: nn.depthwise_conv2d_backward_input_nhwc(K, IMAGES, (1, 2, 3, 4), (1, 2, 3, 4), 1, 0),
        "Out_grad has the shape [2, 6, 4, 5]",
        "the shapes of the tensors",
    ),
    (
        "depthwise_conv2d_backward_input_nhwc",
        lambda: nn.depthwise_conv2d_backward_input_nhwc(SMALL, SMALL, SMALL.shape, (2, 2, 2, 2), 1, 0),
        "the channels of Out_grad and the filters: 2 and 4 differ",
        "agree",
    ),
    (
        "depthwise_conv2d_backward_input_nhwc",
        lambda: nn.depthwise_conv2d_backward_input_nhwc(ONCE, SMALL, SMALL.shape, (3, 9, 9, 2), 1, 0),
        "the images of Out_grad and ishape: 2 and 3 differ",
        "agree",
    ),
    (
        "depthwise_conv2d_backward_weight_nhwc",
        lambda: nn.depthwise_conv2d_backward_weight_nhwc(MORE, SMALL, SMALL.shape, (2, 2, 2, 1), 1, 0),
        "the images of Out_grad and Input: 2 and 3 differ",
        "agree",
    ),
    (
        "depthwise_conv2d_backward_weight_nhwc",
        lambda: nn.depthwise_conv2d_backward_weight_nhwc(IMAGES, IMAGES, IMAGES.shape, (3, 3), 1, 0),
        "fshape is (3, 3)",
        "(KH, KW, C, M)",
    ),
]

DISPLACED: list[tuple[str, Callable[[], Any], str, str]] = [
    ("correlation_nchw", lambda: nn.correlation_nchw(FOUR, FOUR, 2, 1, 1, 1, 0, True), "kernel_size=2 is even", "odd"),
    ("correlation_nchw", lambda: nn.correlation_nchw(FOUR, FOUR, 3, 4, 1, 1, 0, True), "hold no patch", "pad more"),
    ("correlation_nchw", lambda: nn.correlation_nchw(FOUR, FOUR, 1, 3, 1, 1, 0, True), "hold no patch", "pad more"),
    (
        "deformable_conv2d_nchw",
        lambda: nn.deformable_conv2d_nchw(SMALL, te.placeholder((2, 18, 1, 1)), NINE, 1, 0, 1, 1, 1),
        "the kernel's height 3 is larger than the padded input's, 2 + 0 + 0",
        "pad more",
    ),
    (
        "deformable_conv2d_nchw",
        lambda: nn.deformable_conv2d_nchw(FOUR, FOUR, te.placeholder((3, 2, 3, 3)), 1, 0, 1, 1, 2),
        "argument 'groups' is 2, which does not divide the 3 filters",
        "a divisor of 3",
    ),
    (
        "deformable_conv2d_nchw",
        lambda: nn.deformable_conv2d_nchw(FOUR, FOUR, FOUR, 1, 1, 1, 3, 1),
        "argument 'deformable_groups' is 3, which does not divide the 4 channels",
        "a divisor of 4",
    ),
]
FOUR = te.placeholder((1, 4, 6, 6), name="E")

image = topi.image
TAPS = te.placeholder((6, 2, 2), name="D")
REST: list[tuple[str, Callable[[], Any], str, str]] = [
    ("resize2d", lambda: image.resize2d(IMAGES, (0, 0, 1, 1), (2, 2)), "argument 'roi' is (0, 0, 1, 1)", "slice"),
    ("resize2d", lambda: image.resize2d(IMAGES, None, (2, 2), method="area"), "argument 'method' is 'area'", "'cubic'"),
    (
        "crop_and_resize",
        lambda: image.crop_and_resize(IMAGES, IMAGES, IMAGES, (2, 2)),
        "boxes 'X' has the shape",
        "(boxes, 4)",
    ),
    (
        "crop_and_resize",
        lambda: image.crop_and_resize(
            IMAGES, te.placeholder((3, 4), "int32", "B"), te.placeholder((3,), "int32", "I"), (2, 2)
        ),
        "boxes 'B' is int32",
        "float32",
    ),
    ("resize2d", lambda: image.resize2d(IMAGES, None, (2, 0)), "argument 'size' is 0", "int >= 1"),
    ("resize2d", lambda: image.resize2d(IMAGES, None, 2, "NCW"), "layout 'NCW' does not fit 'X'", "H, W among them"),
    ("resize1d", lambda: image.resize1d(OPEN, None, 2, "WC"), "but its spatial extents must be constant", "constant"),
    ("resize3d", lambda: image.resize3d(IMAGES, None, 2), "layout 'NCDHW' does not fit", "D, H, W among them"),
    ("upsampling", lambda: nn.upsampling(IMAGES, 0, 2), "scales (0, 2) do not fit the extents ['4', '5']", "positive"),
    (
        "upsampling",
        lambda: nn.upsampling(IMAGES, float("inf"), 2),
        "scales (inf, 2) do not fit the extents ['4', '5']",
        "finite",
    ),
    ("upsampling", lambda: nn.upsampling(IMAGES, 2, 2, method="linear"), "'method' is 'linear'", "'bilinear'"),
    ("upsampling3d", lambda: nn.upsampling3d(IMAGES, 2, 2, 2), "layout 'NCDHW' does not fit", "D, H, W"),
    ("dilation2d_nchw", lambda: image.dilation2d_nchw(IMAGES, K, 1, 0, 1), "filter 'K' has the shape", "layout CHW"),
    ("dilation2d_nhwc", lambda: image.dilation2d_nhwc(IMAGES, TAPS, 1, 0, 1), "the channels of input", "agree"),
    ("cumsum", lambda: topi.cumsum(TRUTH), "'T' has type bool", 'dtype="int32"'),
    ("cumsum", lambda: topi.cumsum(A, 0, dtype=np.zeros(2)), "argument 'dtype' is array", "float32"),
    ("cumsum", lambda: topi.cumsum(OPEN, 0), "has the extent `n`, which is not constant", "te.compute"),
    ("cumprod", lambda: topi.cumprod(A, 5), "argument 'axis' is 5", "from -2 to 1"),
    (
        "traverse_inline",
        lambda: topi.utils.traverse_inline(te.create_schedule(topi.exp(A).op), A, print),
        "final_op is Tensor(",
        "out.op",
    ),
    ("sort", lambda: topi.sort(TRUTH), "'T' has type bool", "topi.cast"),
    ("sort", lambda: topi.sort(OPEN, 1), "has the extent `n`", "te.compute"),
    ("sort", lambda: topi.sort(A, 0, "up"), "argument 'is_ascend' is 'up'", "True or False"),
    ("argsort", lambda: topi.argsort(A, B), "valid_count 'B' has type float32", "topi.cast"),
    ("topk", lambda: topi.topk(A, 5), "k=5 is more than the 4 elements", "up to 4"),
    ("topk", lambda: topi.topk(A, 1, -1, "best"), "argument 'ret_type' is 'best'", "'both', 'values', 'indices'"),
]

MISTAKES: list[tuple[str, Callable[[], Any], str, str]] = [
    ("exp", lambda: topi.exp(3), "argument 'x' is 3, which is not a tensor", "te.placeholder"),
    ("cast", lambda: topi.cast(A, "float31"), "argument 'dtype' is 'float31'", 'dtype="float32"'),
    ("cast", lambda: topi.cast(A, None), "argument 'dtype' is None", "name a type"),
    ("clip", lambda: topi.clip("A", 0, 1), "argument 'x' is 'A'", "te.placeholder"),
    ("ceil_log2", lambda: topi.ceil_log2(3), "argument 'x' is 3", "te.placeholder"),
    ("fixed_point_multiply", lambda: topi.fixed_point_multiply(A, 1, 0), "x 'A' has type float32", "int32"),
    ("fixed_point_multiply", lambda: topi.fixed_point_multiply(WHOLE, 1.5, 0), "'multiplier' is 1.5", "int >= 0"),
    ("fixed_point_multiply", lambda: topi.fixed_point_multiply(WHOLE, 1, 31), "shift=31 are out of", "from -31 to 30"),
    ("Not", lambda: topi.logical_not(A), "has type float32, but a condition has type bool", "compare it"),
    ("bitwise_not", lambda: topi.bitwise_not(A), "needs an integer", "convert it"),
    ("add", lambda: topi.add(A, B), "the extents 4 and 5 differ", "equal or 1"),
    ("add", lambda: topi.add(A, [1, 2]), "argument 'rhs' is [1, 2], which is not a tensor", "te.placeholder"),
    ("divide", lambda: topi.divide(None, A), "argument 'lhs' is None", "te.placeholder"),
    ("all", lambda: topi.logical_and(A, A), "but a condition has type bool", "compare it"),
    ("logical_xor", lambda: topi.logical_xor(A, TRUTH), "but a condition has type bool", "compare it"),
    ("bitwise_and", lambda: topi.bitwise_and(A, WHOLE), "needs integers", "convert it"),
    ("broadcast_to", lambda: topi.broadcast_to(A, (3, 5)), "the extents 4 and 5 differ", "equal or 1"),
    ("broadcast_to", lambda: topi.broadcast_to(A, (4,)), "does not broadcast to [4]", "ends with the extents"),
    ("elemwise_sum", lambda: topi.elemwise_sum(A), "which is not a list of tensors", "[A, B]"),
    ("elemwise_sum", lambda: topi.elemwise_sum([A, 3]), "argument 'xs[1]' is 3", "te.placeholder"),
    ("elemwise_sum", lambda: topi.elemwise_sum([A, B]), "'A' has the shape [3, 4] and 'B' [5]", "topi.add"),
    ("full_like", lambda: topi.full_like((3,), 1), "argument 'x' is (3,)", "te.placeholder"),
    ("sum", lambda: topi.sum(3), "argument 'data' is 3", "te.placeholder"),
    ("sum", lambda: topi.sum(A, 2), "argument 'axis' is 2, which is not one of 2 dimensions", "from -2 to 1"),
    ("max", lambda: topi.max(A, (0, -2)), "'axis' is (0, -2), which names a dimension twice", "once"),
    ("min", lambda: topi.min(A, ()), "no dimension is to be reduced", "axis=-1"),
    ("prod", lambda: topi.prod(SCALAR), "'S' has no dimensions", "give a tensor with at least one dimension"),
    ("sum", lambda: topi.sum(TRUTH), "'T' has type bool", "topi.cast"),
    ("all", lambda: topi.all(A), "'A' has type float32", "topi.not_equal"),
    ("any", lambda: topi.any(A, 0, "yes"), "argument 'keepdims' is 'yes'", "True or False"),
    ("argmax", lambda: topi.argmax(TRUTH), "'T' has type bool", "topi.cast"),
    ("argmin", lambda: topi.argmin(A, "x"), "argument 'axis' is 'x'", "from -2 to 1"),
    ("softmax", lambda: topi.nn.softmax(WHOLE), "'I' has type int32", "topi.cast"),
    ("log_softmax", lambda: topi.nn.log_softmax(A, 3), "argument 'axis' is 3", "from -2 to 1"),
    ("layer_norm", lambda: topi.nn.layer_norm(A, B, B, [1]), "extents of gamma and of dimension 1", "agree"),
    ("layer_norm", lambda: topi.nn.layer_norm(A, A, None, [1]), "gamma 'A' has the shape [3, 4]", "1 dimension"),
    ("rms_norm", lambda: topi.nn.rms_norm(WHOLE, B, 1), "'I' has type int32", "topi.cast"),
    ("l2_normalize", lambda: topi.nn.l2_normalize(A, 1e-5, 7), "argument 'axis' is 7", "from -2 to 1"),
    ("instance_norm", lambda: topi.nn.instance_norm(A, B, B, []), "argument 'axis' is []", "at least one"),
    ("instance_norm", lambda: topi.nn.instance_norm(A, B, B, [1]), "extents of gamma and of dimension 1", "agree"),
    ("group_norm", lambda: topi.nn.group_norm(A, B, B, 3, 1, [0]), "num_groups=3 and axes=[0] do not fit", "divisor"),
    ("group_norm", lambda: topi.nn.group_norm(A, B, B, 2, 1, [0]), "elements of gamma and channels", "agree"),
    ("group_norm", lambda: topi.nn.group_norm(WHOLE, B, B, 2, 1, [0]), "data 'I' has type int32", "topi.cast"),
    ("batch_norm", lambda: topi.nn.batch_norm(A, B, B, B, B), "elements of gamma and channels", "agree"),
    (
        "batch_norm",
        lambda: nn.batch_norm(A, *[GAMMA] * 4, training=np.zeros(2)),
        "'training' is array",
        "True or False",
    ),
    ("batch_norm", lambda: nn.batch_norm(A, *[GAMMA] * 4, training=True, momentum=2), "'momentum' is 2", "0 to 1"),
    ("batch_norm", lambda: nn.batch_norm(WHOLE, *[GAMMA] * 4, training=True), "data 'I' has type int32", "topi.cast"),
    ("batch_norm", lambda: nn.batch_norm(WHOLE, *[GAMMA] * 4), "data 'I' has type int32", "topi.cast"),
    ("lrn", lambda: nn.lrn(WHOLE, 3), "data 'I' has type int32", "topi.cast"),
    (
        "global_pool",
        lambda: nn.global_pool(te.placeholder((1, 2, 0, 4)), "avg"),
        "every window is empty",
        "at least one",
    ),
    ("batch_norm", lambda: topi.nn.batch_norm(A, A, B, B, B), "gamma 'A' has the shape [3, 4]", "(channels,)"),
    ("prelu", lambda: topi.nn.prelu(A, B), "elements of slope and channels of x: 5 and 4 differ", "agree"),
    ("prelu", lambda: topi.nn.prelu(A, A), "slope 'A' has the shape [3, 4]", "(channels,)"),
    ("lrn", lambda: topi.nn.lrn(A, 4), "argument 'size' is 4", "odd number"),
    ("lrn", lambda: topi.nn.lrn(A, 0), "argument 'size' is 0", "int >= 1"),
    ("schedule_injective", lambda: topi.cuda.schedule_injective([3]), "holds 3, which is not a tensor", "[B]"),
    ("schedule_reduce", lambda: topi.x86.schedule_reduce([]), "argument 'outs' is empty", "give the tensors"),
]


ALL = [*MISTAKES, *MOVING, *WINDOWS, *DISPLACED, *REST]


@pytest.mark.parametrize(("name", "call", "message", "fix"), ALL, ids=[f"{m[0]}-{m[2]}"[:60] for m in ALL])
def test_mistakes(name: str, call: Callable[[], Any], message: str, fix: str) -> None:
    with refused(name, message, fix=fix):
        call()
