"""The tutorial's template, as its document writes it, and the facts that the document states."""

from __future__ import annotations

from tilewright import autotvm, te, topi

LAYER = (1, 7, 7, 512, 512, 3, 3, (1, 1), (1, 1))
FLOP = 231_501_312

SPACE = """\
ConfigSpace (len=10454400, space_map=
   0 tile_f: Split(policy=factors, product=512, num_outputs=4) len=220
   1 tile_y: Split(policy=factors, product=7, num_outputs=4) len=4
   2 tile_x: Split(policy=factors, product=7, num_outputs=4) len=4
   3 tile_rc: Split(policy=factors, product=512, num_outputs=3) len=55
   4 tile_ry: Split(policy=factors, product=3, num_outputs=3) len=3
   5 tile_rx: Split(policy=factors, product=3, num_outputs=3) len=3
   6 auto_unroll_max_step: OtherOption([0, 512, 1500]) len=3
   7 unroll_explicit: OtherOption([0, 1]) len=2
)"""

# Of each trial that the document prints: the index, then tile_f, tile_y, tile_x, tile_rc, tile_ry, tile_rx (without
# their leading -1), auto_unroll_max_step, unroll_explicit, and the time in seconds (0: an invalid kernel).
_TRIALS = """
4881186 2,64,1 1,1,7 1,7,1 2,2 3,1 1,3 1500 0 0.0005069250867924528
7106118 8,4,4 1,1,1 1,1,7 16,16 1,1 1,1 512 1 0
3605182 4,32,1 1,1,7 1,1,1 1,16 1,1 1,1 1500 0 0.0010510892745098038
9420813 8,2,32 7,1,1 7,1,1 4,16 1,1 3,1 1500 1 0
1721347 8,2,2 1,1,1 1,1,1 1,128 1,3 1,3 0 0 0
6444505 1,64,1 7,1,1 1,1,7 32,2 1,1 1,3 0 1 0
8675766 4,2,2 1,1,7 1,7,1 16,32 1,3 1,3 512 1 0
2716108 2,4,64 7,1,1 1,7,1 2,1 1,3 3,1 512 0 0.10620077
1263092 1,4,2 7,1,1 1,1,7 2,8 1,1 1,3 0 0 0.010940765500000001
8921130 1,32,4 1,7,1 7,1,1 16,1 3,1 1,1 1500 1 0.0008466825684210527
4036575 32,2,1 1,1,1 1,1,7 2,64 1,3 1,1 1500 0 0
5036371 2,32,4 1,1,1 1,1,7 1,1 1,3 1,3 1500 0 0.0015510021076923077
252051 4,4,8 7,1,1 1,7,1 64,2 3,1 1,1 0 0 0
5057676 4,64,2 7,1,1 1,1,7 64,1 1,3 1,3 1500 0 0
3582580 1,1,4 1,1,1 1,1,7 1,8 1,1 1,1 1500 0 0.0021395734680851063
9705041 4,8,16 7,1,1 1,1,1 128,1 1,3 3,1 1500 1 0
4730274 1,512,1 7,1,1 1,1,7 16,4 1,1 1,3 1500 0 0
5003765 1,16,2 1,1,1 1,7,1 2,64 3,1 1,3 1500 0 0
4107668 8,64,1 1,1,7 1,1,7 2,2 1,1 3,1 1500 0 0.014774698
2440616 4,8,8 7,1,1 7,1,1 64,8 1,1 3,1 512 0 0
"""
KNOBS = ("tile_f", "tile_y", "tile_x", "tile_rc", "tile_ry", "tile_rx", "auto_unroll_max_step", "unroll_explicit")


def _trial(line: str) -> tuple[int, str, float]:
    index, *words, seconds = line.split()
    values = [[-1, *map(int, word.split(","))] for word in words[:6]] + [int(word) for word in words[6:]]
    return int(index), f"{list(zip(KNOBS, values, strict=True))},None,{index}", float(seconds)


TRIALS = [_trial(line) for line in _TRIALS.strip().splitlines()]
"""Of each trial: index, the configuration as printed, and seconds (0 where the kernel was invalid)."""


@autotvm.template("tutorial/conv2d_no_batching")
def conv2d_no_batching(N, H, W, CO, CI, KH, KW, stride, padding):
    assert N == 1, "Only consider batch_size = 1 in this template"

    data = te.placeholder((N, CI, H, W), name="data")
    kernel = te.placeholder((CO, CI, KH, KW), name="kernel")
    conv = topi.nn.conv2d_nchw(data, kernel, stride, padding, dilation=1, out_dtype="float32")
    s = te.create_schedule([conv.op])

    ##### space definition begin #####
    n, f, y, x = s[conv].op.axis
    rc, ry, rx = s[conv].op.reduce_axis

    cfg = autotvm.get_config()
    cfg.define_split("tile_f", f, num_outputs=4)
    cfg.define_split("tile_y", y, num_outputs=4)
    cfg.define_split("tile_x", x, num_outputs=4)
    cfg.define_split("tile_rc", rc, num_outputs=3)
    cfg.define_split("tile_ry", ry, num_outputs=3)
    cfg.define_split("tile_rx", rx, num_outputs=3)
    cfg.define_knob("auto_unroll_max_step", [0, 512, 1500])
    cfg.define_knob("unroll_explicit", [0, 1])
    ##### space definition end #####

    # inline padding
    pad_data = s[conv].op.input_tensors[0]
    s[pad_data].compute_inline()
    data, raw_data = pad_data, data

    output = conv
    OL = s.cache_write(conv, "local")

    # create cache stage
    AA = s.cache_read(data, "shared", [OL])
    WW = s.cache_read(kernel, "shared", [OL])
    AL = s.cache_read(AA, "local", [OL])
    WL = s.cache_read(WW, "local", [OL])

    # tile and bind spatial axes
    n, f, y, x = s[output].op.axis
    bf, vf, tf, fi = cfg["tile_f"].apply(s, output, f)
    by, vy, ty, yi = cfg["tile_y"].apply(s, output, y)
    bx, vx, tx, xi = cfg["tile_x"].apply(s, output, x)
    kernel_scope = n  # this is the scope to attach global config inside this kernel

    s[output].bind(bf, te.thread_axis("blockIdx.z"))
    s[output].bind(by, te.thread_axis("blockIdx.y"))
    s[output].bind(bx, te.thread_axis("blockIdx.x"))
    s[output].bind(vf, te.thread_axis("vthread"))
    s[output].bind(vy, te.thread_axis("vthread"))
    s[output].bind(vx, te.thread_axis("vthread"))
    s[output].bind(tf, te.thread_axis("threadIdx.z"))
    s[output].bind(ty, te.thread_axis("threadIdx.y"))
    s[output].bind(tx, te.thread_axis("threadIdx.x"))
    s[output].reorder(n, bf, by, bx, vf, vy, vx, tf, ty, tx, fi, yi, xi)
    s[OL].compute_at(s[output], tx)

    # tile reduction axes
    n, f, y, x = s[OL].op.axis
    rc, ry, rx = s[OL].op.reduce_axis
    rco, rcm, rci = cfg["tile_rc"].apply(s, OL, rc)
    ryo, rym, ryi = cfg["tile_rx"].apply(s, OL, ry)
    rxo, rxm, rxi = cfg["tile_ry"].apply(s, OL, rx)
    s[OL].reorder(rco, ryo, rxo, rcm, rym, rxm, rci, ryi, rxi, n, f, y, x)

    s[AA].compute_at(s[OL], rxo)
    s[WW].compute_at(s[OL], rxo)
    s[AL].compute_at(s[OL], rxm)
    s[WL].compute_at(s[OL], rxm)

    # cooperative fetching
    for load in [AA, WW]:
        n, f, y, x = s[load].op.axis
        fused = s[load].fuse(n, f, y, x)
        tz, fused = s[load].split(fused, nparts=cfg["tile_f"].size[2])
        ty, fused = s[load].split(fused, nparts=cfg["tile_y"].size[2])
        tx, fused = s[load].split(fused, nparts=cfg["tile_x"].size[2])
        s[load].bind(tz, te.thread_axis("threadIdx.z"))
        s[load].bind(ty, te.thread_axis("threadIdx.y"))
        s[load].bind(tx, te.thread_axis("threadIdx.x"))

    # tune unroll
    s[output].pragma(kernel_scope, "auto_unroll_max_step", cfg["auto_unroll_max_step"].val)
    s[output].pragma(kernel_scope, "unroll_explicit", cfg["unroll_explicit"].val)

    return s, [raw_data, kernel, conv]
