"""The DLPack protocol: how arrays of different libraries share memory, on the host and on NVIDIA GPUs.

A capsule holds a C struct that describes the memory, with a function that the consumer calls when it is done.
Here, `ctypes` reads and makes capsules, so all types (bfloat16 too) and strides work.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from ..core.dtype import DType
from ..core.errors import UserError

CPU, CUDA, CUDA_HOST, OPENCL, CUDA_MANAGED = 1, 2, 3, 4, 13
"""Kinds of devices, as the protocol numbers them."""
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}
_READ_ONLY = 1
_VERSION = (1, 1)


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("index", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    """The struct in a capsule named "dltensor"."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


class _ManagedVersioned(ctypes.Structure):
    """The struct in a capsule named "dltensor_versioned"."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_STRUCTS: dict[bytes, type[_Managed | _ManagedVersioned]] = {
    b"dltensor": _Managed,
    b"dltensor_versioned": _ManagedVersioned,
}
_USED = {name: b"used_" + name for name in _STRUCTS}


@dataclass(frozen=True)
class Shared:
    """Memory of another library: strides in elements (None: row-major), and the object that keeps it alive."""

    kind: int
    index: int
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    address: int
    read_only: bool
    owner: Any


def _api(name: str, result: Any, *arguments: Any) -> Any:
    """A function of Python's C interface; it may raise Python's errors."""
    prototype = ctypes.PYFUNCTYPE(result, *arguments)
    return prototype((name, ctypes.pythonapi))


_new = _api("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_pointer = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_is_valid = _api("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_rename = _api("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
# A capsule that is being destroyed is not an object any more.
_raw_is_valid = _api("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_raw_pointer = _api("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)


# Taking memory in


class _Owner:
    """Calls the producer's deleter once nobody uses the memory any more."""

    def __init__(self, managed: Any, address: int) -> None:
        self._managed = managed
        self._address = address

    def __del__(self) -> None:
        if self._managed.deleter:
            self._managed.deleter(self._address)


def take(source: Any, stream: int | None = None) -> Shared:
    """The memory of an array that has `__dlpack__`. `stream` (CUDA) waits for running work of the producer."""
    options: dict[str, Any] = {} if stream is None else {"stream": stream}
    try:
        try:
            capsule = source.__dlpack__(max_version=_VERSION, **options)
        except TypeError:  # a producer from before version 1
            capsule = source.__dlpack__(**options)
    except Exception as error:  # any exception of the producer
        raise not_shared(source, error) from error
    name = next((name for name in _STRUCTS if _is_valid(capsule, name)), None)
    if name is None:
        raise UserError(
            f"the __dlpack__ of {type(source).__name__} gives no tensor that is still unused",
            fix="copy it: nd.array(x)",
        )
    address = _pointer(capsule, name)
    managed: Any = ctypes.cast(address, ctypes.POINTER(_STRUCTS[name])).contents
    _rename(capsule, _USED[name])  # now the memory is ours to free
    owner = _Owner(managed, address)
    tensor = managed.tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else None
    read_only = bool(managed.flags & _READ_ONLY) if name == b"dltensor_versioned" else False
    where = (tensor.data or 0) + tensor.byte_offset
    dtype = _dtype(tensor.dtype)
    return Shared(tensor.device.kind, tensor.device.index, dtype, shape, strides, where, read_only, owner)


def not_shared(source: Any, why: object) -> UserError:
    """The error for another library's array that does not export its memory, or misreports its device."""
    return UserError(
        f"the {type(source).__name__} does not share its memory: {why}",
        primitive="from_dlpack",
        fix="copy it: nd.array(x)",
    )


def _dtype(given: Any) -> DType:
    kind = _KINDS.get(given.code)
    if kind is None:
        what = {3: "opaque handles", 5: "complex numbers"}.get(given.code, f"DLPack's type code {given.code}")
        raise UserError(
            f"arrays of {what}, {given.bits} bits each, cannot be used here",
            primitive="from_dlpack",
            fix="share real numbers: x.real and x.imag apart, or x.astype('float32')",
        )
    name = "bool" if kind == "bool" else f"{kind}{given.bits}"
    return DType(name if given.lanes == 1 else f"{name}x{given.lanes}")


# Giving memory out

_given: dict[int, Any] = {}
"""The exports still in use, by the address of their struct: the struct, the objects it points to, and the owner of the
memory."""


def _forget(address: int) -> None:
    """The deleter of every tensor that is given out."""
    _given.pop(address, None)


def _destroy(capsule: int) -> None:
    """The destructor of a capsule. A capsule without a consumer still owns its tensor."""
    for name in _STRUCTS:
        if _raw_is_valid(capsule, name):
            _given.pop(_raw_pointer(capsule, name), None)


_deleter = _Deleter(_forget)
_destroyer = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy)
_destructor = ctypes.cast(_destroyer, ctypes.c_void_p)


def give(owner: Any, shared: Shared, versioned: bool) -> Any:
    """A capsule for some memory, which `owner` keeps alive. A consumer of version 1 and later asks for `versioned`."""
    name = next(key for key in _STRUCTS if key.endswith(b"_versioned") is versioned)
    managed: Any = _STRUCTS[name]()
    extents = (ctypes.c_int64 * max(1, len(shared.shape)))(*shared.shape)
    strides = (ctypes.c_int64 * max(1, len(shared.shape)))(*(shared.strides or ()))
    kind, longs = shared.dtype, ctypes.POINTER(ctypes.c_int64)
    managed.tensor.data = shared.address
    managed.tensor.device = _Device(shared.kind, shared.index)
    managed.tensor.ndim = len(shared.shape)
    managed.tensor.dtype = _Type(_CODES[kind.kind], 8 if kind.is_bool else kind.bits, kind.lanes)
    managed.tensor.shape = ctypes.cast(extents, longs)
    managed.tensor.strides = ctypes.cast(strides, longs)
    managed.deleter = _deleter
    if versioned:
        managed.major, managed.minor = _VERSION
    address = ctypes.addressof(managed)
    _given[address] = managed, extents, strides, owner
    return _new(address, name, _destructor)
