"""Names that are asked for and not there: parts of the legacy API that Tilewright lacks, and slips of the pen.

`absent(...)` makes the error: an `AttributeError` too, so that `hasattr` and `getattr` with a default work on.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from .errors import UserAttributeError

_COMPUTE = "declare the values with te.compute, te.if_then_else and te.sum(..., axis=k)"
_LOOPS = "loops come from a schedule: s = te.create_schedule(B.op), then s[B].split(...) and its kin"
_STEPS = "run its steps one after the other: build a function for one step, and call it in a Python loop"
_SEARCH = "tune a template with autotvm: @autotvm.template, autotvm.task.create, autotvm.tuner.XGBTuner"
_TRANSPOSED = "topi.nn.dilate(data, strides), then a convolution with the kernel reversed"
_MODELS = "declare the operators one by one with te.compute or topi, and build each"
_HERE = "programs run on this machine: tw.build(s, args, target), then call it with tw.nd arrays"
_PASS = 'give a pass of your own: transform.PassContext(config={"tir.add_lower_pass": [(1, function)]})'
_INLINE = "call s[stage].compute_inline() for each of the stages"
_CALLS = "use the intrinsics of te (te.exp, te.sqrt, te.popcount ...); other functions cannot be called"
_TARGETS = 'Target("cuda"), "opencl" or "llvm"'
_OPERATOR = "use Python's operators on expressions: a + b, a * b, a // b, a << b, a & b"

INSTEAD: dict[str, dict[str, str]] = {
    "te": {
        "scan": _STEPS,
        **dict.fromkeys(("extern", "extern_primfunc"), f"{_COMPUTE}; call other libraries on the arrays themselves"),
        "hybrid": _COMPUTE,
        "tag_scope": 'give the tag to the tensor: te.compute(..., tag="...")',
        **dict.fromkeys(("decl_tensor_intrin", "TensorIntrin"), "s[B].vectorize(axis) and s[B].unroll(axis)"),
        "gradient": "declare the gradient with te.compute",
        "create_prim_func": "tw.lower(s, [A, B])",
        **dict.fromkeys(("AutoInlineElemWise", "AutoInlineInjective", "AutoInlineBroadcast"), _INLINE),
        **dict.fromkeys(("ScanOp", "ExternOp", "HybridOp", "TensorComputeOp"), "te.ComputeOp and PlaceholderOp"),
        "SpecializedCondition": "te.if_then_else in the declaration",
        "trace": "pass the tensor in between as an argument: tw.build(s, [A, B, C]) keeps B",
        "logaddexp": "te.max(a, b) + te.log1p(te.exp(-te.abs(a - b)))",
        "clip": "te.max(low, te.min(x, high))",
        **dict.fromkeys(("add", "subtract", "multiply", "shift_left", "shift_right", "bitwise_and"), _OPERATOR),
    },
    "tir": {
        **dict.fromkeys(("ir_builder", "Schedule", "For", "Store", "Evaluate", "PrimFunc", "SeqStmt", "Block"), _LOOPS),
        **dict.fromkeys(("BufferLoad", "BufferStore", "ProducerLoad", "Load"), "A[i, j] reads an element of a tensor"),
        **dict.fromkeys(("call_extern", "call_pure_extern", "call_intrin", "call_packed", "call_llvm_intrin"), _CALLS),
        **dict.fromkeys(("stmt_functor", "transform", "analysis", "build"), _PASS),
        "TensorIntrin": "s[B].vectorize(axis) and s[B].unroll(axis)",
        "ceildiv": "(a + b - 1) // b",
        **dict.fromkeys(("shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor"), _OPERATOR),
    },
    "tilewright": {
        **dict.fromkeys(("relay", "relax"), _MODELS),
        **dict.fromkeys(("ir", "IRModule", "script"), "tw.lower(s, args) gives the program: print it, or .script()"),
        **dict.fromkeys(("auto_scheduler", "meta_schedule", "dlight"), _SEARCH),
        **dict.fromkeys(("rpc", "micro", "device_api"), _HERE),
        **dict.fromkeys(("register_func", "get_global_func", "_ffi", "ffi"), "call Python functions between kernels"),
        **dict.fromkeys(("rocm", "metal", "vulkan", "vpi", "hexagon", "webgpu"), "tw.cuda(), tw.opencl() or tw.cpu()"),
        **dict.fromkeys(("build_config", "PassContext"), "tw.transform.PassContext(config={...})"),
        **dict.fromkeys(("save_json", "load_json"), "module.save(path), and tw.runtime.load_module(path)"),
        "contrib": "nothing of it is here; a kernel's source is module.imported_modules[0].get_source()",
        "make": _LOOPS,
        "convert": "nothing: numbers and lists are taken as they are",
    },
    "topi": {
        **dict.fromkeys(("cuda", "generic", "x86"), "tune a template of autotvm, or write the schedule yourself"),
        **dict.fromkeys(("add", "subtract", "multiply", "divide", "maximum", "minimum", "sum", "matmul"), _COMPUTE),
        **dict.fromkeys(("exp", "tanh", "sigmoid", "sqrt", "transpose", "reshape", "concatenate", "full"), _COMPUTE),
        **{name: f"topi.nn.{name}" for name in ("relu", "pad", "dilate", "conv2d_nchw", "dense")},
    },
    "topi.nn": {
        **dict.fromkeys(("conv3d", "conv3d_ncdhw", "conv3d_ndhwc", "deformable_conv2d_nchw"), _COMPUTE),
        **dict.fromkeys(("conv1d_transpose_ncw", "conv2d_transpose_nchw", "conv3d_transpose_ncdhw"), _TRANSPOSED),
        **dict.fromkeys(("conv2d_NCHWc", "depthwise_conv2d_NCHWc", "conv2d_NCHWc_int8"), "topi.nn.conv2d_nhwc"),
        "conv2d_winograd_weight_transform": "topi.nn.conv2d_nchw",
        **dict.fromkeys(("matmul", "batch_matmul", "softmax", "log_softmax", "fast_softmax", "lstm"), _COMPUTE),
        **dict.fromkeys(("batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm", "lrn"), _COMPUTE),
        **dict.fromkeys(("pool2d", "pool1d", "pool3d", "pool_grad", "global_pool", "adaptive_pool"), _COMPUTE),
        **dict.fromkeys(("bias_add", "prelu", "flatten", "upsampling", "depth_to_space", "space_to_depth"), _COMPUTE),
        **dict.fromkeys(("mirror_pad", "fifo_buffer", "strided_slice", "nll_loss", "binarize_pack"), _COMPUTE),
        **dict.fromkeys(("sparse_dense", "csrmm", "csrmv"), "give the parts of a sparse matrix as arrays of their own"),
    },
    "nd": {
        **dict.fromkeys(("rocm", "metal", "vulkan", "vpi", "hexagon"), "nd.cuda(), nd.opencl() or nd.cpu()"),
        "sparse": "give the parts of a sparse matrix as arrays of their own",
        "numpyasarray": "nd.array(x)",
    },
    "target": {
        **dict.fromkeys(("rocm", "mali", "arm_cpu", "vulkan", "metal", "hexagon"), _TARGETS),
        "GenericFunc": "choose by target.kind in Python",
        "generic_func": "choose by target.kind in Python",
    },
    "transform": dict.fromkeys(("Sequential", "module_pass", "Pass", "function_pass"), _PASS),
    "autotvm": {
        **dict.fromkeys(("RPCRunner", "TrackerServer"), "autotvm.LocalRunner(number=10): it measures on this machine"),
        **dict.fromkeys(("register_topi_compute", "register_topi_schedule"), "@autotvm.template(name)"),
        **dict.fromkeys(("graph_tuner", "tophub"), "tune each operator's template, and keep its log"),
        "FallbackConfigEntity": "autotvm.task.ConfigEntity",
        "feature": "nothing: the tuner takes features from the lowered program",
    },
    "the schedule": {
        "rfactor": "reduce in two steps: a te.compute of partial sums over k.inner, and one that adds them up",
        "create_group": "s[stage].compute_at(s[reader], axis) for each stage of the group",
    },
    "the stage": {
        "tensorize": "s[B].vectorize(axis) and s[B].unroll(axis)",
        "prefetch": 's.cache_read(A, "shared", [B]), with compute_at, and double_buffer',
        "env_threads": 's[B].bind(axis, te.thread_axis("threadIdx.x"))',
        "set_store_predicate": "te.if_then_else in the declaration; a partial tile is guarded by itself",
        "rolling_buffer": "s[B].compute_at(s[reader], axis)",
        "transform_layout": "declare the other layout with te.compute",
        "axis": "s[B].op.axis, and s[B].op.reduce_axis",
        **{name: f"it belongs to the schedule: s.{name}(...)" for name in ("cache_read", "cache_write", "rfactor")},
    },
    "the array": {
        "astype": "tw.nd.array(a.numpy().astype(dtype), a.device)",
        **dict.fromkeys(("reshape", "T", "transpose", "sum", "max", "min", "mean"), "a.numpy() has it"),
        "to_dlpack": "other libraries take the array itself: torch.from_dlpack(a)",
        "tolist": "a.numpy().tolist()",
    },
}  # fmt: skip


def absent(holder: str, name: str, known: Iterable[str], owner: object = None) -> AttributeError:
    """The error for `holder.name`, where only the names `known` are there; `owner` is the object that was asked."""
    instead = INSTEAD.get(holder, {}).get(name)
    if instead is not None:
        about = f"{holder}.{name} is not part of Tilewright" if " " not in holder else f"{holder} has no {name!r}"
        return UserAttributeError(about, fix=_use(instead))
    near = get_close_matches(name, [each for each in known if not each.startswith("_")], n=3, cutoff=0.75)
    if near and not name.startswith("_"):
        return UserAttributeError(f"{holder} has no {name!r}", fix=f"did you mean {' or '.join(near)}?")
    return AttributeError(f"{holder} has no attribute {name!r}", name=name, obj=owner)


def absent_from_module(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """As `absent`, for a module of the package by its full name."""
    found = absent(module.rpartition(".")[2], name, known)
    if isinstance(found, UserAttributeError):
        return found
    return AttributeError(f"module {module!r} has no attribute {name!r}")


def _use(instead: str) -> str:
    starts = ("use ", "call ", "declare ", "give ", "run ", "pass ", "there ", "tune ", "nothing", "it ", "choose ")
    return instead if instead.startswith((*starts, "loops ", "programs ", "reduce ", "other ")) else f"use {instead}"
