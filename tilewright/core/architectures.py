"""The hardware that Tilewright knows, one row per architecture.

NVIDIA's numbers are from the CUDA Programming Guide, "Technical Specifications per Compute Capability". The allocation
rules of memory and registers are from `cuda_occupancy.h` (CUDA 13.0). Matrix shapes are from the PTX ISA (`mma.sync`,
`wgmma.mma_async`, `tcgen05.mma`). Operations per cycle are from "Throughput of Native Arithmetic Instructions" (CUDA
C++ Programming Guide, and Best Practices Guide 13). The rates of 16-bit floats are from NVIDIA's white papers. Intel's
are from the Software Developer's Manual. To add an architecture, add a row; nothing else names one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .hardware import Cache, Hardware, Level, MatrixShape, Memory, MemoryScope, Multiprocessor, Synchronization
from .system import family_of

_KB = 1024
_LARGEST = 2**31 - 1


# NVIDIA: features of all architectures, and when others appeared.

_F16, _BF16, _TF32, _F64, _S8, _U8 = "float16", "bfloat16", "tfloat32", "float64", "int8", "uint8"
_F32, _S32 = "float32", "int32"
_FP8 = ("float8_e4m3", "float8_e5m2")


def _mma(m: int, n: int, k: int, operands: str, accumulator: str) -> MatrixShape:
    return MatrixShape("mma.sync", m, (n,), k, operands, accumulator)


def _matrix_shapes(number: int) -> Iterator[MatrixShape]:
    """The matrix instructions of compute capability `number` / 10, `a` variants included."""
    if number >= 61:
        yield from (MatrixShape("dp4a", 1, (1,), 4, kind, _S32, level="thread") for kind in (_S8, _U8))
    if number in (70, 72):
        yield from (_mma(8, 8, 4, _F16, sums) for sums in (_F16, _F32))
    if number >= 75:
        yield from (_mma(16, 8, 8, _F16, sums) for sums in (_F16, _F32))
        yield from (_mma(8, 8, 16, kind, _S32) for kind in (_S8, _U8))
    if number >= 80:
        yield from (_mma(16, 8, 16, _F16, sums) for sums in (_F16, _F32))
        yield from (_mma(16, 8, k, _BF16, _F32) for k in (8, 16))
        yield from (_mma(16, 8, k, _TF32, _F32) for k in (4, 8))
        yield from (_mma(16, 8, k, kind, _S32) for kind in (_S8, _U8) for k in (16, 32))
        yield _mma(8, 8, 4, _F64, _F64)
    if number >= 89:
        yield from (_mma(16, 8, 32, kind, _F32) for kind in _FP8)
    if number >= 90:
        yield from (_mma(16, 8, k, _F64, _F64) for k in (4, 8, 16))
    if number == 90:
        yield from _warpgroup_shapes()
    if number in (100, 103, 110):
        yield from _tensor_memory_shapes()


def _warpgroup_shapes() -> Iterator[MatrixShape]:
    """wgmma: B is in shared memory, A there or in registers; n is a multiple of 8, for integers only some multiples."""
    widths = tuple(range(8, 257, 8))
    of_integers = tuple(n for n in widths if n <= 24 or n % 16 == 0)

    def shape(k: int, operands: str, sums: str, n: tuple[int, ...] = widths) -> MatrixShape:
        return MatrixShape("wgmma", 64, n, k, operands, sums, "warpgroup", "shared", "shared")

    yield from (shape(16, kind, sums) for kind, sums in ((_F16, _F16), (_F16, _F32), (_BF16, _F32)))
    yield shape(8, _TF32, _F32)
    yield from (shape(32, kind, _F32) for kind in _FP8)
    yield from (shape(32, kind, _S32, of_integers) for kind in (_S8, _U8))


def _tensor_memory_shapes() -> Iterator[MatrixShape]:
    """tcgen05 of one block: operands in shared memory, sums in tensor memory, issued by one thread."""
    kinds = ((16, _F16), (16, _BF16), (8, _TF32), *((32, kind) for kind in _FP8))
    for m, step in ((64, 8), (128, 16)):
        widths = tuple(range(step, 257, step))
        for k, operands in kinds:
            yield MatrixShape("tcgen05", m, widths, k, operands, _F32, "thread", "shared", "shared")


def _synchronization(number: int) -> Iterator[Synchronization]:
    yield Synchronization("barrier", "block")
    yield Synchronization("named barrier", "block", count=16)
    yield Synchronization("shuffle", "warp", awaits="registers of other lanes")
    if number >= 70:
        yield Synchronization("warp barrier", "warp")
    if number >= 80:
        yield Synchronization("mbarrier", "block", awaits="arrivals and bytes")
        yield Synchronization("cp.async group", "thread", awaits="cp.async")
    if number >= 90:
        yield Synchronization("cluster barrier", "cluster")
        yield Synchronization("bulk group", "thread", awaits="bulk stores")
    if number == 90:
        yield Synchronization("wgmma group", "warpgroup", awaits="wgmma")


# Multiply-adds per cycle of a multiprocessor. Two 16-bit floats share an instruction from 5.3 on, if at all.
_HALF = {53: 256, 60: 128, 61: 2, 62: 256, 80: 256, 90: 256, **dict.fromkeys((70, 72, 75), 128)}
_BRAIN = {80: 128, 90: 256}
_DOUBLE = {60: 32, 70: 32, 72: 32, 80: 32, 90: 64, 100: 64}


def _peaks(number: int, lanes: int) -> tuple[tuple[str, float], ...]:
    """The most operations per cycle of compute capability `number` / 10, by type."""
    double = _DOUBLE.get(number, 4 if number < 70 else 2)
    # Integers are added in 128 lanes up to 6.2 and from 12.0 on, and in 64 between. From 7.0 on, 64 lanes multiply and
    # add; before, a product takes several instructions.
    adds = 64 if number == 60 or 70 <= number < 120 else 128
    found = {
        "float32": 2 * lanes,
        "float64": 2 * double,
        "int32": adds if number < 70 else 128,
        "int64": adds / 2,
    }
    if half := _HALF.get(number, lanes if number >= 86 else 0):
        found["float16"] = 2 * half
    if brain := _BRAIN.get(number, lanes if number >= 86 else 0):
        found["bfloat16"] = 2 * brain
    return tuple(found.items())


def _pieces(number: int) -> tuple[int, int]:
    """The allocation granularity of shared memory, and the bytes that the system reserves per block."""
    return (256 if number < 80 else 128), (_KB if number >= 80 else 0)


def nvidia(
    number: int, shared: int, pool: int, blocks: int, warps: int, lanes: int, block_registers: int = 65_536
) -> Hardware:
    """The row of one compute capability. `shared` is the KB of shared memory of a block that opts in, `pool` of a
    multiprocessor.
    """
    clusters = number >= 90
    levels = (
        Level("grid", _LARGEST, (_LARGEST, 65_535, 65_535)),
        *((Level("cluster", 8 * 1024, (8, 8, 8)),) if clusters else ()),
        Level("block", 1024, (1024, 1024, 64)),
        *((Level("warpgroup", 128),) if number == 90 else ()),
        Level("warp", 32),
        Level("thread", 1),
    )
    swizzles = ("swizzle 32", "swizzle 64", "swizzle 128") if clusters else ()
    memories = (
        Memory("global", MemoryScope.GLOBAL, "grid", _LARGEST, _LARGEST, alignment=256),
        Memory(
            "shared", MemoryScope.SHARED, "block", 48 * _KB, shared * _KB, pool * _KB, 128, swizzles, *_pieces(number)
        ),
        Memory("register", MemoryScope.LOCAL, "thread", 255 * 4, 255 * 4, 65_536 * 4, alignment=4),
        *((Memory("tensor", None, "block", 256 * _KB, 256 * _KB, 256 * _KB),) if number in (100, 103, 110) else ()),
    )
    return Hardware(
        f"sm_{number}",
        levels,
        memories,
        Multiprocessor(
            blocks,
            warps,
            block_registers,
            lanes,
            2 if number == 60 else 4,
            register_unit=256,
            peaks=_peaks(number, lanes),
        ),
        tuple(_synchronization(number)),
        tuple(_matrix_shapes(number)),
        copy_bytes=(4, 8, 16) if number >= 80 else (),
    )


# The spelling of `-arch`, without the letter of a variant (sm_90a), and the row. The columns of numbers: shared memory
# of a block that opts in and of a multiprocessor (KB), resident blocks and warps, float32 lanes.
NVIDIA: dict[str, Hardware] = {
    f"sm_{number}": nvidia(number, *limits)
    for number, limits in {
        50: (48, 64, 32, 64, 128),
        52: (48, 96, 32, 64, 128),
        53: (48, 64, 32, 64, 128, 32_768),
        60: (48, 64, 32, 64, 64),
        61: (48, 96, 32, 64, 128),
        62: (48, 64, 32, 64, 128, 32_768),
        70: (96, 96, 32, 64, 64),
        72: (96, 96, 32, 64, 64),
        75: (64, 64, 16, 32, 64),
        80: (163, 164, 32, 64, 64),
        86: (99, 100, 16, 48, 128),
        87: (163, 164, 16, 48, 128),
        88: (99, 100, 16, 48, 128),
        89: (99, 100, 24, 48, 128),
        90: (227, 228, 32, 64, 128),
        100: (227, 228, 32, 64, 128),
        103: (227, 228, 32, 64, 128),
        110: (227, 228, 24, 48, 128),
        120: (99, 100, 24, 48, 128),
        121: (99, 100, 24, 48, 128),
    }.items()
}


# OpenCL: limits that every current device meets.

_OPENCL_GPU = Hardware(
    "opencl gpu",
    (
        Level("grid", _LARGEST, (_LARGEST, _LARGEST, _LARGEST)),
        Level("block", 1024, (1024, 1024, 1024)),
        Level("warp", 32),
        Level("thread", 1),
    ),
    (
        Memory("global", MemoryScope.GLOBAL, "grid", _LARGEST, _LARGEST, alignment=128),
        Memory("local", MemoryScope.SHARED, "block", 48 * _KB, 48 * _KB, alignment=128),
        Memory("private", MemoryScope.LOCAL, "thread", 255 * 4, 255 * 4, 65_536 * 4, alignment=4),
    ),
    Multiprocessor(blocks=32, warps=64, registers=65_536, float_lanes=64),
    (Synchronization("barrier", "block"),),
)

# Rows by the device in the spelling (`opencl -device=gpu`); other names of GPUs (mali, adreno) take the row "gpu".
OPENCL: dict[str, Hardware] = {
    # The threads of a block may be loops here. Values live across a barrier go to memory and back, so they should use
    # no registers. Unrolling by thousands takes the compiler a minute, and gains nothing. There are no warps: loads of
    # one thread, not of neighbouring threads, should be adjacent.
    "cpu": replace(
        _OPENCL_GPU,
        name="opencl cpu",
        levels=tuple(level for level in _OPENCL_GPU.levels if level.name != "warp"),
        multiprocessor=replace(_OPENCL_GPU.multiprocessor, registers=0),
        vector_bytes=64,
        unrolled_stores=256,
        most_lanes=1024,
    ),
    "gpu": _OPENCL_GPU,
}


# Processors.

LLVM_UNROLLED_STORES = 256
"""Vectors that LLVM's copies of a loop store: enough for neighbouring copies to share their loads."""

_PLAIN_LEVELS = (
    Level("grid", _LARGEST, (_LARGEST, _LARGEST, _LARGEST)),
    Level("block", 1, (1, 1, 1)),
    Level("thread", 1),
)


def _processor(
    name: str, vector_bytes: int, registers: int, second: int, shapes: tuple[MatrixShape, ...] = ()
) -> Hardware:
    """The row of a level of processors; `registers` is the number of vector registers that LLVM can allocate.

    `second` is the second cache in KB, the smallest of the processors that have this level.
    """
    memories = (
        Memory("global", MemoryScope.GLOBAL, "grid", _LARGEST, _LARGEST, alignment=64),
        Memory("cache", MemoryScope.SHARED, "block", 48 * _KB, 48 * _KB, alignment=64),
        Memory("stack", MemoryScope.LOCAL, "thread", 16 * _KB, 16 * _KB, alignment=64),
    )
    lanes = vector_bytes // 4
    processor = Multiprocessor(blocks=1, warps=1, registers=registers * lanes, float_lanes=2 * lanes)
    return Hardware(
        name,
        _PLAIN_LEVELS,
        memories,
        processor,
        (),
        shapes,
        vector_bytes=vector_bytes,
        most_lanes=4096,
        marked_stores=LLVM_UNROLLED_STORES,
        launches_grids=False,
        caches=(Cache("L1", 32 * _KB), Cache("L2", second * _KB)),
    )


_VNNI = MatrixShape("vpdpbusd", 1, (16,), 4, "uint8 × int8", _S32, level="thread")
_AVX512_BF16 = MatrixShape("vdpbf16ps", 1, (16,), 2, _BF16, _F32, level="thread")

X86: dict[str, Hardware] = {
    "x86-64": _processor("x86-64", 16, 16, 256),
    "x86-64-v3": _processor("x86-64-v3", 32, 16, 256),
    "x86-64-v4": _processor("x86-64-v4", 64, 32, 1024),
    "x86-64-v4+vnni": _processor("x86-64-v4+vnni", 64, 32, 512, (_VNNI,)),
    "x86-64-v4+vnni+bf16": _processor("x86-64-v4+vnni+bf16", 64, 32, 1024, (_VNNI, _AVX512_BF16)),
}

# Arm with vectors of 128 bits (NEON): scalable vectors (SVE) are wider on few processors, and left off.
ARM: dict[str, Hardware] = {"aarch64": _processor("aarch64", 16, 32, 512)}

# The meanings of LLVM's processor names (`-mcpu`); other names count as x86-64.
PROCESSORS: dict[str, str] = {
    **dict.fromkeys(("haswell", "broadwell", "skylake", "alderlake", "znver1", "znver2", "znver3"), "x86-64-v3"),
    **dict.fromkeys(("skylake-avx512",), "x86-64-v4"),
    **dict.fromkeys(("cascadelake", "icelake-client", "icelake-server", "tigerlake"), "x86-64-v4+vnni"),
    **dict.fromkeys(("cooperlake", "sapphirerapids", "graniterapids", "znver4", "znver5"), "x86-64-v4+vnni+bf16"),
    **{name: name for name in X86},
}


def opencl_hardware(device: str) -> Hardware:
    """The row of a device as `opencl -device=...` names it."""
    return OPENCL.get(device, OPENCL["gpu"])


def processor_hardware(cpu: str | None, features: str, triple: str = "") -> Hardware:
    """The row of a processor as LLVM names it, with features such as "+avx512f,+avx512vnni".

    If neither is named, the program is for the processor that it is built on, with the row of AVX-512. Narrower units
    split each of its vectors into two or four.
    """
    if (family := family_of(triple)) in ARM:
        return ARM[family]
    if cpu is None and not features:
        return X86["x86-64-v4"]
    found = PROCESSORS.get(cpu or "", "x86-64")
    added = {feature[1:] for feature in features.split(",") if feature.startswith("+")}
    if "avx2" in added and found == "x86-64":
        found = "x86-64-v3"
    if "avx512f" in added and not found.startswith("x86-64-v4"):
        found = "x86-64-v4"
    if "avx512vnni" in added and found == "x86-64-v4":
        found = "x86-64-v4+vnni"
    return X86[found]
