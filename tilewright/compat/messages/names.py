"""Names that are not there: parts of the legacy API that Tilewright lacks, and misspellings."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from types import ModuleType

from ...core.errors import UserAttributeError

_COMPUTE = "declare the values with te.compute, te.if_then_else and te.sum(..., axis=k)"
_LOOPS = "loops come from a schedule: s = te.create_schedule(B.op), then s[B].split(...) and its kin"
_SEARCH = "tune a template with autotvm: @autotvm.template, autotvm.task.create, autotvm.tuner.XGBTuner"
_POOL = 'topi.nn.pool2d(data, kernel, stride, dilation, padding, "max"), or "avg"'
_MODELS = "declare the operators one by one with te.compute or topi, and build each"
_PROGRAM = "tw.lower(s, args), which returns the program: print it, or .script()"
_HERE = "programs run on this machine: tw.build(s, args, target), then call it with tw.nd arrays"
_PASS = 'give a pass of your own: transform.PassContext(config={"tir.add_lower_pass": [(1, function)]})'
_INSTRUMENTS = (
    'transform.PassContext(config={"tilewright.explain": True}), which prints each pass that changes something'
)
_STATEMENTS = "the statements of tir (tir.For, tir.BufferStore ...), or tir.ir_builder"
_OTHER_LIBRARIES = "te.extern with tir.call_packed of a Python function, which calls the library on the arrays"
_BLOCKS = "te.create_schedule: schedules of blocks (TensorIR) are not part of it"
_BY_BUILD = "nothing: tw.build does it, since host code is Python that checks its arguments"
_BY_BACK_END = "nothing: the back end's compiler (NVRTC, LLVM, the OpenCL driver) does it"
_INLINE = "call s[stage].compute_inline() for each of the stages"
_TENSORIZE = 's[T].tensorize(axis, tilewright.intrin.mma("float16")), or an intrinsic of te.decl_tensor_intrin'
_OPERATIONS = "te.ComputeOp and te.PlaceholderOp"
_OBJECTS = "give Python's own objects: functions, lists, numbers"
_DEVICES = "tw.cuda(), tw.opencl() or tw.cpu()"
_ND_DEVICES = "nd.cuda(), nd.opencl() or nd.cpu()"
_SCHEDULE = "use topi.cuda, topi.x86 or topi.generic, which schedules for the current target"
_TASK = "declare the task of each operator: autotvm.task.create(name, args, target)"
_IN_NN = """relu leaky_relu pad dilate dense conv1d conv2d conv2d_nchw depthwise_conv2d_nchw scale_shift_nchw softmax
log_softmax layer_norm batch_norm l2_normalize lrn pool2d global_pool adaptive_pool batch_matmul flatten""".split()
_LAYOUTS = "compute_dag.rewrite_layout_from_state(state): the graph's inputs take the layout of the loops"
_GRAPHS = "auto_scheduler.SearchTask(func=..., args=..., target=...) for each operator, and task.apply_best(log)"
_SHAPES = "a shape that depends on values is not declared; work with as many elements as there may be, and a count"
_PLAIN = "nothing: numbers and lists are taken as they are"
_LOGS = "tune each operator's template, and keep its log"
_TARGETS = 'Target("cuda"), "opencl" or "llvm"'
_REFERENCE = "compare with NumPy: np.testing.assert_allclose(found.numpy(), expected)"
_LAYOUT = "declare the other layout with te.compute"

_PACKAGE = __name__.partition(".")[0]
_HOMES = (
    """te tir topi topi.nn topi.utils nd arith autotvm autotvm.task ir target runtime transform te.schedule""".split()
)
"""The modules that users import, in the order in which a name is looked for."""

INSTEAD: dict[str, dict[str, str]] = {
    "te": {
        **dict.fromkeys(("extern_primfunc",), f"{_COMPUTE}; call other libraries on the arrays themselves"),
        "tag": 'te.tag_scope("..."), or te.compute(..., tag="...")',
        **dict.fromkeys(("TensorIntrin", "tensor_intrin"), _TENSORIZE),
        "autodiff": "te.gradient(output, inputs, head)",
        **dict.fromkeys(("AutoInlineElemWise", "AutoInlineInjective", "AutoInlineBroadcast"), _INLINE),
        **dict.fromkeys(("TensorComputeOp", "BaseComputeOp"), _OPERATIONS),
        "SpecializedCondition": "te.if_then_else in the declaration",
        "clip": "te.max(low, te.min(x, high))",
        "mean": "te.sum(A[i, k], axis=k) in one te.compute, then B[i] / n in the next",
        "average": "te.sum(A[i, k], axis=k) in one te.compute, then B[i] / n in the next",
        **dict.fromkeys(("std", "variance"), "the sums of A[i, k] and of its square, then a te.compute of both"),
        "norm": "te.sum of the squares in one te.compute, then te.sqrt(B[i]) in the next",
        **dict.fromkeys(("argmax", "argmin"), "te.comm_reducer of (index, value) pairs, with te.if_then_else"),
        "cumsum": "te.scan, or a te.sum over the elements before",
        "relu": 'te.max(x, te.const(0, "float32")), or topi.nn.relu(A)',
        "leaky_relu": "te.if_then_else(x > 0, x, x * slope), or topi.nn.leaky_relu(A, slope)",
        "gelu": "0.5 * x * (1 + te.erf(x / 2**0.5))",
        **dict.fromkeys(("silu", "swish"), "x * te.sigmoid(x)"),
        **dict.fromkeys(("softmax", "log_softmax"), "topi.nn.softmax(A), topi.nn.log_softmax(A)"),
        **dict.fromkeys(
            ("matmul", "dot", "einsum", "tensordot", "inner"),
            "k = te.reduce_axis((0, n)) and te.compute((m, p), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k))",
        ),
        **dict.fromkeys(("conv1d", "conv2d", "dense", "pad", "dilate"), "topi.nn, which declares these"),
        **dict.fromkeys(("maximum", "fmax"), "te.max(a, b)"),
        **dict.fromkeys(("minimum", "fmin"), "te.min(a, b)"),
        "where": "te.if_then_else(condition, a, b)",
        "square": "x * x",
        "reciprocal": "1 / x",
        **dict.fromkeys(("zeros", "ones", "full", "arange"), "te.compute(shape, lambda *i: value)"),
        "transpose": "te.compute((m, n), lambda i, j: A[j, i])",
        **dict.fromkeys(("reshape", "flatten"), "te.compute((n * m,), lambda i: A[i // m, i % m])"),
        **dict.fromkeys(("concatenate", "stack"), "te.compute with te.if_then_else(i < n, A[i], B[i - n])"),
        **dict.fromkeys(("gather", "take", "embedding"), "te.compute((n,), lambda i: A[index[i]])"),
        "ceildiv": "tir.ceildiv(a, b)",
        **{name: f"tir.{name}" for name in ("clz", "likely", "Reduce", "Cast", "Select", "decl_buffer")},
        "select": "tir.Select(condition, a, b), or te.if_then_else(condition, a, b)",
    },
    "te.hybrid": {
        **dict.fromkeys(("decorate", "source_to_op"), "@te.hybrid.script above the function"),
    },
    "te.schedule": {
        "VerifyCompactBuffer": _PROGRAM,
        "SpecializedCondition": "te.if_then_else in the declaration",
    },
    "tir": {
        **dict.fromkeys(("Free", "DeclBuffer"), _STATEMENTS),
        **dict.fromkeys(("Block", "BlockRealize", "Schedule", "MatchBufferRegion"), _BLOCKS),
        **dict.fromkeys(("call_cpacked", "call_tir"), "tir.call_packed, of a function that tw.register_func names"),
        "build": "tw.build(function, target=...)",
        **dict.fromkeys(("TensorIntrin", "ptx_mma", "ptx_ldmatrix", "mma_store", "mma_fill"), _TENSORIZE),
        "tvm_bmma_sync": "tir.popcount(a & b): there are no matrix instructions of bits",
        **dict.fromkeys(("tvm_stack_alloca", "tvm_stack_make_shape", "tvm_stack_make_array", "tvm_tuple"), _BY_BUILD),
        **dict.fromkeys(("tvm_struct_get", "tvm_struct_set", "lookup_param", "type_annotation"), _BY_BUILD),
        **dict.fromkeys(("tvm_check_return", "tvm_throw_last_error"), _BY_BUILD),
        **dict.fromkeys(("assume", "undef", "ignore_loop_partition"), "nothing: ranges are proven if possible"),
        **dict.fromkeys(("isnullptr", "DataProducer", "BufferRegion"), _STATEMENTS),
        "tvm_access_ptr": 'buffer.access_ptr("r")',
        "start_profile_intrinsic": "module.time_evaluator(module.entry_name, dev), or a profiler of the device",
        "IndexMap": _LAYOUT,
        **dict.fromkeys(("tvm_thread_allreduce", "ptx_cp_async"), "s.cache_read and s.cache_write, with bind"),
        "Range": "te.Range(begin, end)",
        "log_softmax": "topi.nn.log_softmax(A)",
        "select": "tir.Select(condition, a, b)",
    },
    "tilewright": {
        **dict.fromkeys(("relay", "relax", "nnvm"), _MODELS),
        "script": f"programs are not parsed from TVMScript: {_STATEMENTS}, or {_PROGRAM}",
        **dict.fromkeys(("meta_schedule", "dlight"), _SEARCH),
        **dict.fromkeys(("rpc", "micro", "device_api", "exec"), _HERE),
        "ffi": "tw.register_func and tw.get_global_func",
        **dict.fromkeys(("register_object", "register_extension", "register_node", "Object", "Node"), _OBJECTS),
        **dict.fromkeys(("libinfo", "get_env", "parser"), _OBJECTS),
        **dict.fromkeys(("node", "attrs", "TypeCode", "NodeBase"), _OBJECTS),
        **dict.fromkeys(("micro_dev", "opengl"), _DEVICES),
        "PassContext": "tw.transform.PassContext(config={...})",
        "instrument": _INSTRUMENTS,
        **dict.fromkeys(("datatype", "dtype"), 'give types as text: "float32", "int8", "bfloat16"'),
        **dict.fromkeys(("support", "get_build_info"), "call `tilewright doctor`: it lists this machine's targets"),
        "infinity": "tir.infinity(dtype)",
    },
    "tir.transform": {
        **dict.fromkeys(("MakePackedAPI", "MakeUnpackedAPI", "LowerTVMBuiltin", "CombineContextCall"), _BY_BUILD),
        **dict.fromkeys(("AnnotateEntryFunc", "AnnotateDeviceRegions", "LowerDeviceKernelLaunch"), _BY_BUILD),
        **dict.fromkeys(("LowerDeviceStorageAccessInfo", "DecorateDeviceScope"), _BY_BUILD),
        **dict.fromkeys(("BF16Legalize", "BF16ComputeLegalize", "BF16StorageLegalize", "BF16TypeLowering"), _BY_BUILD),
        **dict.fromkeys(("CommonSubexprElimTIR", "HoistIfThenElse", "HoistExpression"), _BY_BACK_END),
        "LowerWarpMemory": 'scope "local" and a cross-thread reduction, which exchanges registers by shuffles',
        "InferFragment": 's[T].tensorize(axis, tilewright.intrin.mma("float16")), which lays fragments out itself',
        "InjectRollingBuffer": "nothing: tw.lower does it, after s[B].rolling_buffer()",
        "InjectPrefetch": 's.cache_read(A, "shared", [B]), with compute_at, and double_buffer',
        **dict.fromkeys(("CoProcSync", "LiftAttrScope", "InjectCopyIntrin", "TextureFlatten", "LowerVtcmAlloc"),
                        "nothing: it is about hardware that is not a target here"),
        **dict.fromkeys(("LowerInitBlock", "ConvertBlocksToOpaque", "LowerMatchBuffer", "LowerOpaqueBlock"), _BLOCKS),
        **dict.fromkeys(("PlanAndUpdateBufferAllocationLocation", "CompactBufferAllocation"), _BLOCKS),
        **dict.fromkeys(("UnifyThreadBinding", "LowerCrossThreadReduction", "DefaultGPUSchedule"), _BLOCKS),
    },
    "tir.analysis": {
        **dict.fromkeys(("get_block_access_region", "get_block_read_write_region", "find_anchor_block"), _BLOCKS),
        "detect_buffer_access_lca": "tir.stmt_functor.pre_order_visit(stmt, visit)",
        "calculate_allocated_bytes": "tir.analysis.calculate_workspace_bytes, or verify_gpu_code against limits",
        "estimate_tir_flops": "autotvm.task.create(...).flop, of the declaration",
    },
    "topi": {
        **dict.fromkeys(("arm_cpu", "mali", "bifrost", "intel_graphics", "rocm", "hls"), _SCHEDULE),
        **{name: f"topi.nn.{name}" for name in _IN_NN},
        **dict.fromkeys(("argwhere", "nonzero", "sparse_fill_empty_rows", "sparse_reshape"), _SHAPES),
        **dict.fromkeys(("dyn_tile", "dynamic_reshape"), _SHAPES),
        **dict.fromkeys(("scatter", "scatter_add"), 'topi.scatter_elements(data, indices, updates, axis, "add")'),
        "embedding": "topi.nn.embed(table, indices), or topi.take",
        "auto_scheduler_layout_transform": "topi.layout_transform",
        **dict.fromkeys(("random", "vision", "sparse", "hopper"), _COMPUTE),
        "mean": "topi.sum(A, axis) divided by the number of elements, or topi.nn.global_pool",
        "matrix_transpose": "topi.transpose(A, axes)",
    },
    "topi.nn": {
        **dict.fromkeys(("max_pool2d", "avg_pool2d", "max_pool", "avg_pool"), _POOL),
        **dict.fromkeys(("max_pool1d", "avg_pool1d"), _POOL.replace("2d", "1d")),
        **dict.fromkeys(("max_pool3d", "avg_pool3d"), _POOL.replace("2d", "3d")),
        **dict.fromkeys(("conv2d_transpose", "conv_transpose2d"), "topi.nn.conv2d_transpose_nchw"),
        **dict.fromkeys(
            ("sparse_dense", "csrmm", "csrmv", "sparse_transpose", "sparse_conv2d", "sparse_add"),
            "give the parts of a sparse matrix as arrays of their own",
        ),
        **dict.fromkeys(("bitserial_conv2d_nchw", "bitserial_dense", "bitpack", "binary_dense"), _COMPUTE),
        "bias_add": "topi.add(A, bias), which broadcasts",
        "pixel_shuffle": "topi.nn.depth_to_space(A, block_size)",
    },
    "nd": {
        "sparse": "give the parts of a sparse matrix as arrays of their own",
        "numpyasarray": "nd.array(x)",
        **{name: f"nd.array(np.{name}(shape, dtype))" for name in ("zeros", "ones")},
        "random": "nd.array(np.random.rand(*shape).astype(dtype))",
    },
    "target": {
        **dict.fromkeys(("build_config", "BuildConfig"), "tw.transform.PassContext(config={...})"),
    },
    "runtime": {
        **dict.fromkeys(("String", "ShapeTuple"), _PLAIN),
        **dict.fromkeys(("Object", "ObjectGeneric"), _OBJECTS),
    },
    "ir": {
        "Op": "tir.call_intrin(dtype, name, ...), and tvm.ir.register_op_attr for intrinsics of your own",
        "instrument": _INSTRUMENTS,
    },
    "codegen": {
        "llvm_version_major": "call `tilewright doctor`: it lists this machine's targets",
    },
    "arith": {
        "domain_touched": "te.schedule.InferBound(s): ranges of loops",
        "detect_common_subexpr": "nothing: equal expressions are one node",
    },
    "contrib": {
        **dict.fromkeys(("rpc", "rpc_proxy", "tracker", "peak", "ndk", "xcode", "hexagon", "emcc", "sdaccel"), _HERE),
        **dict.fromkeys(("rocm", "verilog", "emscripten", "binutil"), _HERE),
        **dict.fromkeys(("cublas", "cudnn", "cutlass", "thrust", "rocblas", "mkl", "mps", "nnpack"), _OTHER_LIBRARIES),
        **dict.fromkeys(("miopen", "mxnet"), _OTHER_LIBRARIES),
        **dict.fromkeys(("download", "tar"), "Python's own library: urllib.request, tarfile"),
        "sparse": "give the parts of a sparse matrix as arrays of their own",
        **dict.fromkeys(("graph_executor", "graph_runtime", "debugger", "pipeline_executor"), _MODELS),
        "random": "te.compute of an array that NumPy made: nd.array(np.random.rand(*shape))",
        "dlpack": "other libraries take arrays themselves: torch.from_dlpack(a), tw.nd.from_dlpack(t)",
        "spirv": "nothing: it is about hardware that is not a target here",
    },
    "auto_scheduler": {
        "feature": "state.stages and str(state): no features are extracted, since the machine model reads schedules",
        **dict.fromkeys(("relay_integration", "extract_tasks", "dispatcher", "DispatchContext"), _GRAPHS),
        **dict.fromkeys(("ApplyHistoryBest", "ApplyHistoryBestOrSample", "is_auto_scheduler_enabled"), _GRAPHS),
        **dict.fromkeys(("ProgramRunner", "ProgramBuilder", "ProgramMeasurer"), "auto_scheduler.LocalRunner()"),
        **dict.fromkeys(("remove_index_check", "rewrite_compute_body", "rewrite_tensor_shape"), _LAYOUTS),
        "MeasureCallback": "auto_scheduler.PythonBasedMeasureCallback",
        "register_task_input_check_func": 'auto_scheduler.SearchTask(..., task_inputs={"name": array})',
    },
    "autotvm": {
        "TrackerServer": "a Dask scheduler, and autotvm.RPCRunner(key, host, port) for its workers",
        **dict.fromkeys(("graph_tuner", "apply_graph_best", "apply_fixed_config"), _LOGS),
        "FallbackConfigEntity": "autotvm.task.ConfigEntity",
        **{name: f"autotvm.task.{name}" for name in ("args_to_workload", "serialize_args", "ApplyConfig")},
    },
    "autotvm.callback": {
        "visualize_progress": "autotvm.callback.Monitor()",
    },
    "autotvm.tuner": {
        **dict.fromkeys(("model_based_tuner", "sa_model_optimizer"), "autotvm.tuner.XGBTuner"),
    },
    "autotvm.measure": {
        "request_remote": _HERE,
        **dict.fromkeys(("local_executor", "executor"), "concurrent.futures"),
    },
    "autotvm.task": {
        **dict.fromkeys(("extract_from_program", "extract_from_multiple_program", "TaskExtractEnv"), _TASK),
        **dict.fromkeys(("ApplyGraphBest", "ApplyFixedConfig"), _LOGS),
    },
    "the schedule": {
    },
    "the stage": {
        "store_predicate": "s[B].set_store_predicate(condition) sets it; s[B].value.store_predicate is it",
        "axis": "s[B].op.axis, and s[B].op.reduce_axis",
        **{name: f"it belongs to the schedule: s.{name}(...)" for name in ("cache_read", "cache_write", "rfactor")},
    },
    "the array": {
        "astype": "tw.nd.array(a.numpy().astype(dtype), a.device)",
        **dict.fromkeys(("reshape", "T", "transpose", "sum", "max", "min", "mean"), "a.numpy(), which has it"),
        "tolist": "a.numpy().tolist()",
        "context": "a.device",
    },
    "the target": {
        "features": "dict(target.labels), and target.arch",
        **dict.fromkeys(("target_name", "id"), "target.kind"),
    },
    "the analyzer": {
        "enter_constraint_context": "with analyzer.constraint_scope(condition):",
    },
}  # fmt: skip
"""Replacements of names of the legacy API, by the object that holds them."""

OTHERWISE: dict[str, str] = {
    "arith": "tw.arith.Analyzer, which simplifies and proves, or te.schedule.InferBound(s): the ranges of loops",
    "expr": "the nodes of expressions in tir: tir.Var, tir.IntImm, tir.Add",
    "schedule": "te.create_schedule, te.Schedule, te.Stage and te.schedule.InferBound",
    "tensor": "te.Tensor, te.PlaceholderOp and te.ComputeOp",
    "tir": _LOOPS,
    "tir.stmt_functor": "post_order_visit, pre_order_visit, ir_transform and substitute",
    "tir.transform": _PASS,
    "tir.analysis": "tir.stmt_functor.post_order_visit(stmt, visit)",
    "ir": _OBJECTS,
    "topi": _COMPUTE,
    "topi.nn": _COMPUTE,
    "topi.testing": _REFERENCE,
    "target": _TARGETS,
    "testing": _REFERENCE,
    "runtime": _HERE,
    "transform": _PASS,
    "autotvm.task": _SEARCH,
    "topi.utils": "topi.utils.get_const_tuple(shape): a tuple of Python numbers, to compute with",
    "error": "TVMError, UserError and InternalError",
    **dict.fromkeys(("topi.cuda", "topi.generic", "topi.x86"), _SCHEDULE),
    **dict.fromkeys(("topi.nn.conv2d", "topi.nn.depthwise_conv2d", "topi.nn.pooling", "topi.broadcast"), _COMPUTE),
    "topi.reduction": _COMPUTE,
    "autotvm.measure": _SEARCH,
    "autotvm.measure.measure_methods": _SEARCH,
    "autotvm.tophub": _LOGS,
    "make": _STATEMENTS,
    "ir_pass": _PASS,
    "build_module": "tw.lower, tw.build and tw.transform.PassContext",
    "codegen": "tw.build(s, args, target).get_source()",
    "contrib": _OTHER_LIBRARIES,
    "nd": _ND_DEVICES,
    "te.hybrid": "@te.hybrid.script above the function",
    "intrin": _TENSORIZE,
    "ir.container": _OBJECTS,
}
"""The replacement of all other names of a holder, if one answer fits all."""


def instead_of(holder: str, name: str) -> str:
    """The replacement of `holder.name`; "" if none is known."""
    return _by_name(holder, name) or OTHERWISE.get(holder, "")


def _by_name(holder: str, name: str) -> str:
    # The oldest scripts had the names of te and tir at the top level.
    holders = ("tilewright", "te", "tir") if holder == "tilewright" else (holder,)
    return next((INSTEAD[h][name] for h in holders if name in INSTEAD.get(h, {})), "")


def error_for(holder: str, name: str, known: Iterable[str]) -> UserAttributeError | None:
    """Make the error for `holder.name`, which has only the names `known`; None if there is nothing to say."""
    found = _by_name(holder, name)
    if not found and not name.startswith("_"):
        if near := nearly(holder, name, known):
            return near
        found = _home_of(name) or OTHERWISE.get(holder, "")
    if not found:
        return None
    absent = f"{holder}.{name} is not part of Tilewright"
    elsewhere = " " in holder or _path_of(found).rpartition(".")[2] == name
    return UserAttributeError(f"{holder} has no {name!r}" if elsewhere else absent, fix=advice(found))


def _home_of(name: str) -> str:
    """The path of an object of that name in a module that users import; "" if no loaded module has one."""
    for home in _HOMES:
        if not isinstance(vars(sys.modules.get(f"{_PACKAGE}.{home}", sys)).get(name, sys), ModuleType):
            return f"{home}.{name}"
    return ""


def nearly(holder: str, name: str, known: Iterable[str]) -> UserAttributeError | None:
    """Make the error for a name that is nearly one of `known`; None if none is near."""
    near = get_close_matches(name, [each for each in known if not each.startswith("_")], n=3, cutoff=0.75)
    return UserAttributeError(f"{holder} has no {name!r}", fix=f"did you mean {' or '.join(near)}?") if near else None


def _path_of(fix: str) -> str:
    """The path with which a fix begins: "topi.nn.relu" of "topi.nn.relu(A)"."""
    found = re.match(r"(?:use )?(?P<path>[A-Za-z_]\w*(?:\.\w+)*)", fix)
    return found["path"] if found else ""


def advice(instead: str) -> str:
    """Return a fix as a sentence: "use te.compute"."""
    starts = (
        "use ",
        "call ",
        "declare ",
        "give ",
        "run ",
        "pass ",
        "there ",
        "tune ",
        "nothing",
        "it ",
        "choose ",
        "compare ",
    )
    return instead if instead.startswith((*starts, "loops ", "programs ", "reduce ", "other ")) else f"use {instead}"
