# The fragments of the depthwise document, put together into one program. Lines marked `glue` join them; the
# document's own lines are unchanged.
import sys  # glue

import numpy as np  # glue
import topi  # glue
import tvm  # glue

target = sys.argv[1]  # glue
batch, in_channel, in_height, in_width = 1, int(sys.argv[2]), 96, 96  # glue
filter_height = filter_width = int(sys.argv[3])  # glue
channel_multiplier = int(sys.argv[4])  # glue
fused = len(sys.argv) > 5  # glue
out_channel, stride_h, stride_w = in_channel * channel_multiplier, 1, 1  # glue
stride, padding = [1, 1], "SAME"  # glue
pad_top = pad_left = (filter_height - 1) // 2  # glue
height_after_pad, width_after_pad = in_height + filter_height - 1, in_width + filter_width - 1  # glue
out_height, out_width = in_height, in_width  # glue
Input = tvm.placeholder((batch, in_channel, in_height, in_width), name="Input")  # glue
Filter = tvm.placeholder((in_channel, channel_multiplier, filter_height, filter_width), name="Filter")  # glue
Scale = tvm.placeholder((out_channel,), name="Scale")  # glue
Shift = tvm.placeholder((out_channel,), name="Shift")  # glue

# padding stage
PaddedInput = tvm.compute(
    (batch, in_channel, height_after_pad, width_after_pad),
    lambda b, c, i, j: tvm.select(
        tvm.all(i >= pad_top, i - pad_top < in_height, j >= pad_left, j - pad_left < in_width),
        Input[b, c, i - pad_top, j - pad_left], tvm.const(0.0)),
    name="PaddedInput")
# depthconv stage
di = tvm.reduce_axis((0, filter_height), name='di')
dj = tvm.reduce_axis((0, filter_width), name='dj')
Output = tvm.compute(
    (batch, out_channel, out_height, out_width),
    lambda b, c, i, j: tvm.sum(
        PaddedInput[b, c/channel_multiplier, i*stride_h + di, j*stride_w + dj] * Filter[c/channel_multiplier, c%channel_multiplier, di, dj],
        axis=[di, dj]),
    name='DepthwiseConv2d')

DepthwiseConv2d = Output  # glue
if fused:  # glue
    DepthwiseConv2d = topi.nn.depthwise_conv2d(Input, Filter, stride, padding)
    ScaleShift = topi.nn.scale_shift(DepthwiseConv2d, Scale, Shift)
    Relu = topi.nn.relu(ScaleShift)
    PaddedInput = DepthwiseConv2d.op.input_tensors[0]  # glue

    Output = Relu # is no longer DepthwiseConv2d

s = tvm.create_schedule(Output.op)
s[PaddedInput].compute_inline()

IS = s.cache_read(PaddedInput, "shared", [DepthwiseConv2d])
FS = s.cache_read(Filter, "shared", [DepthwiseConv2d])
block_y = tvm.thread_axis("blockIdx.y")
block_x = tvm.thread_axis("blockIdx.x")

if fused:  # glue
    s[ScaleShift].compute_inline() # this line fuses ScaleShift, explicitly
    s[DepthwiseConv2d].set_scope("local") # this line fuses DepthwiseConv2d, implicitly

blocking_h = 32
blocking_w = 32
# split the dimension of height (H in NCHW)
bx1, _ = s[Output].split(Output.op.axis[2], factor=blocking_h)
h_dim = _  # glue
# split the dimension of width (W in NCHW)
bx2, _ = s[Output].split(Output.op.axis[3], factor=blocking_w)
w_dim = _  # glue
s[Output].reorder(bx1, bx2, h_dim, w_dim)  # glue
# assign one 32 x 32 block to one cuda block
by = s[Output].fuse(Output.op.axis[0], Output.op.axis[1])
s[Output].bind(by, block_y)
bx = s[Output].fuse(bx1, bx2)
s[Output].bind(bx, block_x)

num_vthread_y = 2
num_vthread_x = 2
num_thread_y = 8
num_thread_x = 8
thread_vy = tvm.thread_axis((0, num_vthread_y), "vthread", name="vy")
thread_vx = tvm.thread_axis((0, num_vthread_x), "vthread", name="vx")
thread_y = tvm.thread_axis((0, num_thread_y), "threadIdx.y")
thread_x = tvm.thread_axis((0, num_thread_x), "threadIdx.x")
# split the dimension of height (H in NCHW) twice
tvy, vyi = s[Output].split(h_dim, nparts=num_vthread_y)
ty, yi = s[Output].split(vyi, nparts=num_thread_y)
# split the dimension of width (W in NCHW) twice
tvx, vxi = s[Output].split(w_dim, nparts=num_vthread_x)
tx, xi = s[Output].split(vxi, nparts=num_thread_x)
# bind thread and vthread respectively
s[Output].bind(tvy, thread_vy)
s[Output].bind(tvx, thread_vx)
s[Output].bind(ty, thread_y)
s[Output].bind(tx, thread_x)
s[Output].reorder(tvy, tvx, ty, tx, yi, xi)

if fused:  # glue
    s[DepthwiseConv2d].compute_at(s[Output], tx) # tx is the inner most axis, bound to threadIdx.x
for load in (IS, FS):  # glue
    s[load].compute_at(s[Output], bx)  # glue
    row, column = s[load].split(s[load].fuse(*s[load].op.axis), factor=num_thread_x)  # glue
    _, row = s[load].split(row, factor=num_thread_y)  # glue
    s[load].bind(row, tvm.thread_axis("threadIdx.y"))  # glue
    s[load].bind(column, tvm.thread_axis("threadIdx.x"))  # glue

inputs = [Input, Filter, Scale, Shift] if fused else [Input, Filter]  # glue
f = tvm.build(s, [*inputs, Output], target)  # glue
ctx = tvm.gpu(0) if target == "cuda" else tvm.opencl(0)  # glue
arrays = [np.random.uniform(-1, 1, tuple(int(n) for n in t.shape)).astype(t.dtype) for t in inputs]  # glue
out = tvm.nd.array(np.full((batch, out_channel, out_height, out_width), np.nan, "float32"), ctx=ctx)  # glue
f(*(tvm.nd.array(a, ctx=ctx) for a in arrays), out)  # glue
answer = topi.testing.depthwise_conv2d_python_nchw(arrays[0].astype("float64"), arrays[1], stride, padding)  # glue
if fused:  # glue
    answer = np.maximum(answer * arrays[2][:, None, None] + arrays[3][:, None, None], 0)  # glue
tvm.testing.assert_allclose(out.asnumpy(), answer, rtol=1e-4, atol=1e-5)  # glue
print("right")  # glue
