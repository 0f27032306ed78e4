"""The names of 2017 to 2020: which objects of today they are, by the module that held them.

`core.refusals.old_name` asks `find` for a name that a module lacks, so that no module pays for these tables before a
script uses such a name.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

from ...core.other_paths import PACKAGE

_SCHEDULES = """batch_matmul binarize_pack binary_dense bitserial_conv2d bitserial_dense conv2d conv2d_direct
conv2d_hwcn conv2d_int8 conv2d_nchw conv2d_transpose conv2d_transpose_nchw conv2d_winograd deformable_conv2d dense
depthwise_conv2d extern group_conv2d_nchw injective nn pooling reduction search softmax sort tensor_intrin vision"""
_CUDA = """argwhere batch_matmul_tensorcore conv1d conv1d_transpose_ncw conv2d_alter_op conv2d_hwnc_tensorcore
conv2d_nhwc_tensorcore conv2d_nhwc_winograd conv3d conv3d_alter_op conv3d_direct conv3d_ndhwc_tensorcore
conv3d_transpose_ncdhw conv3d_winograd correlation dense_tensorcore nms scan scatter scatter_elements searchsorted
signal sparse sparse_reshape tensorcore_alter_op transform unique"""
_X86 = """concat conv1d conv2d_alter_op conv2d_avx_1x1 conv2d_avx_common conv2d_int8 conv3d conv3d_transpose
dense_alter_op group_conv2d math_alter_op roi_align scatter sparse utils"""
_FOLDED: dict[str, tuple[str, str]] = {
    "arith": ("arith", "bound int_solver iter_affine_map pattern"),
    "autotvm.measure": ("autotvm.measure", "executor"),
    "autotvm.task": ("autotvm.task", "code_hash"),
    "autotvm.tuner": ("autotvm.tuner", "model_based_tuner sa_model_optimizer"),
    "driver": ("driver", "build_module"),
    "hybrid": ("te.hybrid", "api calls intrin module parser preprocessor runtime util utils"),
    "ir": ("ir", "analysis attrs base expr function module op tensor_type type"),
    "runtime": ("runtime", "object object_generic packed_func"),
    "target": ("target", "compilation_config datatype generic_func intrin tag target"),
    "te": ("te", "autodiff tag tensor_intrin"),
    "te.hybrid": ("te.hybrid", "api calls intrin module parser preprocessor runtime util utils"),
    "tir": ("tir", "buffer data_layout expr function generic op stmt"),
    "tir.analysis": ("tir.analysis", "analysis"),
    "tir.transform": ("tir.transform", "function_pass transform"),
    "topi": ("topi", "argwhere einsum generic_op_impl scatter scatter_add scatter_elements searchsorted unique"),
    "topi.cuda": ("topi.cuda", f"{_SCHEDULES} {_CUDA}"),
    "topi.generic": ("topi.generic", f"{_SCHEDULES} default image math"),
    "topi.image": ("topi.image", "resize"),
    "topi.nn": ("topi.nn", """batch_matmul batch_norm batch_to_space_nd bitserial_conv2d bitserial_dense bitserial_util
        bnn conv1d_transpose conv2d_transpose conv3d_transpose depth_to_space elemwise flatten group_norm instance_norm
        l2_norm l2_normalize layer_norm local_response_norm mapping qnn rms_norm space_to_batch_nd space_to_depth sparse
        winograd_util"""),
    "topi.testing": ("topi.testing", """batch_matmul bilinear_resize_python conv2d_hwcn_python conv2d_nchw_python
        conv2d_nhwc_python conv2d_transpose_nchw_python conv2d_transpose_python deformable_conv2d_nchw_python
        depthwise_conv2d_python dilate_python gather_nd_python l2_normalize_python lrn_python one_hot pool_grad_python
        sequence_mask_python slice_axis_python softmax_python strided_slice_python upsampling_python"""),
    "topi.x86": ("topi.x86", f"{_SCHEDULES} {_X86}"),
}  # fmt: skip
"""Modules whose names are those of one module here: the module that held them, that module, and their own names."""

_RENAMED: dict[str, str] = {
    "_ffi": "legacy.ffi",
    "_ffi.base": "legacy.ffi",
    "_ffi.registry": "legacy.ffi",
    "api": "",
    "autotvm.task.nnvm_integration": "autotvm.task",
    "autotvm.task.relay_integration": "autotvm.task",
    "autotvm.task.topi_integration": "autotvm.task",
    "autotvm.tuner.callback": "autotvm.callback",
    "autotvm.tuner.gridsearch_tuner": "autotvm.tuner",
    "autotvm.tuner.metric": "autotvm.utils",
    "autotvm.util": "autotvm.utils",
    "build_module": "legacy.build_module",
    "container": "ir.container",
    "contrib.util": "contrib.utils",
    "generic": "te",
    "hybrid": "te.hybrid",
    "ir.container": "ir.container",
    "ir.transform": "transform",
    "ir_builder": "tir.ir_builder",
    "ir_pass": "legacy.ir_pass",
    "make": "legacy.make",
    "module": "runtime",
    "ndarray": "nd",
    "runtime.container": "ir.container",
    "runtime.ndarray": "nd",
    "stmt": "tir",
    "tag": "te",
    "target.codegen": "legacy.llvm_facts",
    "tensor_intrin": "te",
    "tir.ir_builder": "tir.ir_builder",
    "topi.gpu": "topi.cuda",
    "topi.gpu.conv2d": "topi.cuda",
    "topi.gpu.dense": "topi.cuda",
    "topi.nn.util": "topi.nn.utils",
    "topi.util": "topi.utils",
}
MODULES: dict[str, str] = {
    **{f"{holder}.{part}": ours for holder, (ours, parts) in _FOLDED.items() for part in parts.split()},
    **_RENAMED,
}
"""Modules of the legacy package, and the modules here that hold their names ("" is the package itself)."""

_DEVICES = "aocl sdaccel vulkan metal mtl vpi rocm ext_dev hexagon webgpu"
_TYPES = "TVMType=DataType Function=PackedFunc"
_TOP = {
    "te": "atan decl_tensor_intrin extern fmod nearbyint scan tag_scope trace",
    "tir": """bijective_layout call_extern call_intrin call_llvm_intrin call_packed call_pure_extern
        call_pure_intrin=call_intrin layout""",
    "ir": "load_json save_json",
    "runtime.packed": "get_env_func=get_global_func",
    "legacy.build_module": "build_config",
    "legacy.intrinsics": "register_intrin_rule float32 int32 int8 handle",
    "tensor.reduction": "prod",
    "nd": "TVMContext=Device",
    "runtime": _TYPES,
    "legacy.devices": _DEVICES,
    "legacy.type_codes": "DataTypeCode",
}
_HELPERS = "equal_const_int get_const_int get_const_tuple ravel_index unravel_index"
_OPERATORS = {
    "topi.utils": _HELPERS,
    "error": "InvalidShapeError=UserError",
    "topi": """broadcast_add=add broadcast_sub=subtract broadcast_mul=multiply broadcast_div=divide
        broadcast_maximum=maximum broadcast_minimum=minimum""",
}
_SCHEDULE_NAMES = "schedule_l2norm=schedule_l2_normalize schedule_global_pool=schedule_adaptive_pool"

NAMES: dict[str, dict[str, str]] = {
    "": _TOP,
    "arith": {
        "arith": """DeduceBound=deduce_bound DetectClipBound=detect_clip_bound
            DetectLinearEquation=detect_linear_equation intset_interval=IntervalSet
            intset_single_point=IntSet.single_point intset_vector=IntSet.vector""",
    },
    "autotvm.task": {"autotvm": "register=template", "error": "FlopCalculationError=UserError"},
    "autotvm.task.task": {"autotvm": "register=template", "error": "FlopCalculationError=UserError"},
    "codegen": {"driver": "build_module=build"},
    "expr": {
        "tir": "Expr=PrimExpr UIntImm=IntImm Load=BufferLoad",
        "legacy.node_classes": "BinaryOpExpr CmpExpr ConstExpr LogicalExpr",
    },
    "intrin": {
        "tir": "call_pure_intrin=call_intrin",
        "legacy.intrinsics": "register_intrin_rule",
    },
    "ir": {"legacy.env_func": "EnvFunc", "legacy.make_node": "make_node", "loops.unlowered_statements": "GlobalVar"},
    "ir.container": {"tir": "LoweredFunc=PrimFunc", "ir.container": "StrMap=Map", "ir": "Range"},
    "nd": {"nd": "TVMContext=Device", "legacy.devices": _DEVICES},
    "runtime": {
        "runtime": f"load=load_module {_TYPES}",
        "nd": "cpu cuda opencl gpu cl TVMContext=Device",
        "legacy.devices": _DEVICES,
        "legacy.type_codes": "DataTypeCode",
        "te": "const",
    },
    "target": {
        "target": "current_target=Target.current",
        "legacy.targets": "arm_cpu intel_graphics mali",
        "compat.generic_function": "GenericFunc generic_func get_native_generic_func override_native_generic_func",
    },
    "te": {"te": "divide=div", "tensor.reduction": "prod"},
    "te.hybrid": {"legacy.hybrid_globals": "HYBRID_GLOBALS"},
    "testing": {"legacy.suite_marks": "skip_if_32bit skip_if_wheel_test"},
    "tir": {
        "loops.legacy_statements": "Load=POINTER_LOAD Store=POINTER_STORE",
        "tir": "EqualOp=EQ NotEqualOp=NE",
        "legacy.node_classes": "Any",
    },
    "topi": _OPERATORS,
    "topi.broadcast": _OPERATORS,
    "topi.cuda": {
        "topi.cuda": f"""{_SCHEDULE_NAMES} schedule_pool_grad_cuda=schedule_pool_grad
            dense_int8=dense_small_batch batch_matmul_int8=batch_matmul schedule_batch_matmul_int8=schedule_batch_matmul
            schedule_conv2d_nchw_int8=schedule_conv2d_nchw schedule_conv2d_hwnc_tensorcore=schedule_conv2d_nhwc
            conv3d_ncdhw_winograd=conv3d_ncdhw schedule_conv3d_ncdhw_winograd=schedule_conv3d_ncdhw
            conv3d_ndhwc_tensorcore=conv3d_ndhwc schedule_conv3d_ndhwc_tensorcore=schedule_conv3d_ndhwc""",
        "legacy.operators": "conv2d_nchw_int8 conv2d_hwnc_tensorcore",
    },
    "topi.generic": {
        "topi.generic": _SCHEDULE_NAMES,
        "legacy.workloads": "fallback_schedule_cpu_common_int8=default_tiles_int8",
    },
    "topi.image": {"legacy.operators": "resize"},
    "topi.nn": {"legacy.operators": "batch_norm_inference l2norm_instance pool upsampling_nchw upsampling_nhwc"},
    "topi.nn.conv2d": {"legacy.workloads": "_get_workload=conv2d_workload Workload=Conv2dWorkload"},
    "topi.nn.depthwise_conv2d": {"legacy.workloads": "_get_workload=depthwise_workload Workload=DepthwiseWorkload"},
    "topi.nn.pooling": {"legacy.operators": "pool"},
    "topi.utils": {"error": "InvalidShapeError=UserError"},
    "topi.x86": {
        "topi.x86": f"{_SCHEDULE_NAMES} schedule_conv2d=schedule_conv2d_nchw",
        "legacy.workloads": "_fallback_schedule=default_tiles get_simd_32bit_lanes=vector_lanes",
    },
}
"""Old names by the module that is asked for them: {module here: "name old=new"}; "" is the package itself."""

ALSO: dict[str, tuple[str, ...]] = {
    "autotvm.measure.measure_methods": ("autotvm.measure",),
    "autotvm.task.dispatcher": ("autotvm.task",),
    "expr": ("tir", "te"),
    "intrin": ("te", "tir"),
    "schedule": ("te.schedule", "te", "tir", "runtime"),
    "tensor": ("te", "tir"),
    "topi.broadcast": ("topi",),
    "topi.math": ("topi",),
    "topi.nn.conv2d": ("topi.nn",),
    "topi.nn.depthwise_conv2d": ("topi.nn",),
    "topi.nn.pooling": ("topi.nn",),
    "topi.tensor": ("topi",),
}
"""The present places of a module's other old names."""


def find(module: str, name: str) -> Any:
    """Return the object that was `module.name`, by the module's full name here; None if there is none.

    Parameters
    ----------
    module
        A module of this package: "tilewright.topi.nn".
    name
        A name that it lacks.
    """
    holder = module.partition(".")[2]
    old = f"{holder}.{name}".lstrip(".")
    if old in _RENAMED:
        return module_of(_RENAMED[old])
    for home, names in NAMES.get(holder, {}).items():
        for word in names.split():
            was, _, now = word.partition("=")
            if was == name:
                return _attribute(home, now or was)
    for home in ALSO.get(holder, ()):
        if name in dir(module_of(home)):
            return _attribute(home, name)
    return None


def module_of(path: str) -> ModuleType:
    """Return a module of this package by its path within it."""
    if path == "tir.ir_builder":  # a face's attribute
        found: ModuleType = import_module(f"{PACKAGE}.tir").ir_builder
        return found
    return import_module(f"{PACKAGE}.{path}".rstrip("."))


def _attribute(home: str, path: str) -> Any:
    found: Any = module_of(home)
    for part in path.split("."):
        found = getattr(found, part)
    return found
