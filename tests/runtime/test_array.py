"""Arrays on devices."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys

import numpy as np
import pytest

from tilewright.core.dtype import DType
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.runtime import dlpack
from tilewright.runtime.array import NDArray, array, empty
from tilewright.runtime.device import Device, cl, cpu, cuda, device, gpu, opencl
from tilewright.runtime.from_dlpack import from_dlpack

DTYPES = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_come_back(dev: Device, dtype: str) -> None:
    x = np.arange(24).reshape(2, 3, 4).astype(DType(dtype).numpy)
    for on in (dev, cpu()):
        a = array(x, on)
        assert (a.shape, a.dtype, a.device, a.ctx, a.ndim, a.size) == ((2, 3, 4), dtype, on, on, 3, 24)
        np.testing.assert_array_equal(a.numpy(), x)
        np.testing.assert_array_equal(a.asnumpy(), x)
        assert a.numpy().dtype == x.dtype


def test_the_legacy_ways_to_make_one(dev: Device) -> None:
    x = np.random.default_rng(0).random((3, 4))
    assert array(x, ctx=dev).device is dev
    assert array(x).device is cpu()
    assert array(x).dtype == "float64"
    assert array([1.0, 2.0]).dtype == "float64"
    assert array(x, dtype="float32").dtype == "float32"
    assert array(array(x, dev)).device is dev
    assert empty((2, 3)).dtype == "float32"
    assert empty((2, 3), "int8", dev).device is dev
    assert empty((2, 3), ctx=dev).device is dev
    assert empty(5).shape == (5,)
    assert array(np.float32(3), dev).shape == ()
    assert array(np.float32(3), dev).numpy() == 3
    assert array(np.zeros((0, 3)), dev).numpy().shape == (0, 3)


def test_what_is_not_contiguous_is_copied_in_order(dev: Device) -> None:
    x = np.arange(12, dtype="float32").reshape(3, 4)
    np.testing.assert_array_equal(array(x.T, dev).numpy(), x.T)
    np.testing.assert_array_equal(array(x[:, ::2], dev).numpy(), x[:, ::2])


def test_filling_and_copying(dev: Device) -> None:
    x = np.arange(6, dtype="float32").reshape(2, 3)
    a = empty((2, 3), device=dev)
    a[:] = x
    np.testing.assert_array_equal(a.numpy(), x)
    a[...] = 2
    np.testing.assert_array_equal(a.numpy(), np.full((2, 3), 2))
    a[:, :] = x.astype("float64") + 1
    np.testing.assert_array_equal(a.numpy(), x + 1)
    b = a.copyto(cpu())
    a[:] = 0
    np.testing.assert_array_equal(b.numpy(), x + 1)
    c = empty((2, 3), device=dev)
    assert b.copyto(c) is c
    np.testing.assert_array_equal(c.numpy(), x + 1)
    assert c.copyto(a) is a
    a.copyfrom(x)
    np.testing.assert_array_equal(np.asarray(a), x)
    assert a[:] is a


def test_an_array_is_copied_to_itself(dev: Device) -> None:
    a = array(np.arange(5.0), dev)
    assert a.copyto(a) is a
    np.testing.assert_array_equal(a.numpy(), np.arange(5.0))


def test_what_numpy_gives_as_shapes_bytes_and_numbers() -> None:
    assert empty(np.array([2, 3])).shape == (2, 3)
    assert empty(np.int64(3)).shape == (3,)
    backwards = np.array([1.5, -2.0], ">f4")
    assert array(backwards).dtype == "float32"
    np.testing.assert_array_equal(array(backwards).numpy(), [1.5, -2.0])
    flags = empty((2,), "bool")
    flags[:] = np.bool_(True)
    assert flags.numpy().all()
    assert device("opencl", np.int64(91)) is device("opencl", 91)


def test_an_array_is_not_seen_without_a_copy() -> None:
    a = array(np.ones(3))
    np.testing.assert_array_equal(a.__array__(copy=True), np.ones(3))
    with pytest.raises(ValueError, match="leave out copy=False"):
        a.__array__(copy=False)


def test_mistakes_are_explained(dev: Device) -> None:
    a = empty((2, 3), device=dev)
    with pytest.raises(
        UserError, match=r"read and written whole, so \[0\] is not possible\n  fix: use a\[:\] = values"
    ):
        a[0]
    with pytest.raises(UserError, match="read and written whole"):
        a[0:1] = 3
    with pytest.raises(UserError, match=r"values of shape \(3, 2\) into an array of shape \(2, 3\)"):
        a[:] = np.zeros((3, 2))
    with pytest.raises(UserError, match=r"cannot copy float32\[2, 3\] on .* into float32\[2, 2\] on cpu\(0\)"):
        a.copyto(empty((2, 2)))
    with pytest.raises(UserError, match=r"shape \(2, -1\)"):
        empty((2, -1))


def test_text_and_pickle() -> None:
    a = array(np.arange(3))
    assert repr(a) == "<NDArray shape=(3,), cpu(0)>\narray([0, 1, 2])"
    assert str(a) == "[0 1 2]"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a)).numpy(), a.numpy())


def test_memory_is_shared_with_numpy_through_dlpack() -> None:
    x = np.arange(6, dtype="float32").reshape(2, 3)
    a = from_dlpack(x)
    x[0, 0] = 9
    assert a.numpy()[0, 0] == 9
    back = np.from_dlpack(array(x))
    np.testing.assert_array_equal(back, x)
    x.flags.writeable = False
    with pytest.raises(UserError, match=r"read-only.*\n  fix: copy it: nd.array\(x\)"):
        from_dlpack(x)
    with pytest.raises(UserError, match="a list cannot share its memory"):
        from_dlpack([1, 2])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_is_shared_with_torch_and_back(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    if dtype in ("uint16", "uint32", "uint64"):
        pytest.skip("few of torch's operations know these")
    theirs = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
    ours = from_dlpack(theirs)
    assert (ours.dtype, ours.shape, ours.strides) == (dtype, (2, 3), None)
    theirs[0, 0] = 1
    np.testing.assert_array_equal(ours.numpy().astype("float64"), theirs.double().numpy())
    again = torch.from_dlpack(ours)
    assert again.data_ptr() == theirs.data_ptr()
    del ours, theirs
    gc.collect()
    assert again[1, 2] == 5 or dtype == "bool"


def test_what_is_given_out_lives_as_long_as_its_users_need_it() -> None:
    a = array(np.arange(1000, dtype="float32"))
    unused, view = a.__dlpack__(), np.from_dlpack(a)
    assert len(dlpack._given) >= 2
    before = len(dlpack._given)
    del a, unused
    gc.collect()
    np.testing.assert_array_equal(view, np.arange(1000))
    assert len(dlpack._given) == before - 1
    del view
    gc.collect()
    assert len(dlpack._given) == before - 2


def test_strides_are_shared_too() -> None:
    x = np.arange(12, dtype="float32").reshape(3, 4)
    a = from_dlpack(x.T)
    assert (a.shape, a.strides, a.nbytes) == ((4, 3), (1, 4), 48)
    np.testing.assert_array_equal(a.numpy(), x.T)
    a[:] = -x.T
    np.testing.assert_array_equal(x, -np.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(np.from_dlpack(a), x.T)
    np.testing.assert_array_equal(a.copyto(cpu()).numpy(), x.T)
    assert a.copyto(cpu()).strides is None
    assert from_dlpack(x[:1, ::4]).strides is None  # one element: its strides do not matter
    with pytest.raises(UserError, match="some negative"):
        from_dlpack(x[::-1])


def test_copies_and_versions_as_consumers_ask_for_them() -> None:
    a = array(np.arange(3, dtype="float32"))
    copied = dlpack.take(type("", (), {"__dlpack__": lambda self, **_: a.__dlpack__(copy=True)})())
    assert copied.address != a.handle
    assert "dltensor_versioned" in repr(a.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(a.__dlpack__())
    with pytest.raises(BufferError, match=r"cannot be shared with device \(2, 0\)"):
        a.__dlpack__(dl_device=(2, 0))


@pytest.mark.opencl
def test_opencl_memory_is_not_shared() -> None:
    with pytest.raises(BufferError, match=r"no address.*\n  fix: use a.numpy\(\)"):
        np.from_dlpack(empty((3,), device=opencl(0)))


def test_views_with_strides(dev: Device) -> None:
    x = np.arange(24, dtype="int16").reshape(4, 6)
    a = array(x, dev)
    for view, wanted in (
        (a.as_strided((6, 4), (1, 6)), x.T),
        (a.as_strided((2, 3), (12, 2), 7), x[1::2, 1::2]),
        (a.as_strided((3,), (0,), 5), x[0, [5, 5, 5]]),
        (a.as_strided((4, 6), (6, 1)), x),
        (a.as_strided((0, 6), (6, 1)), x[:0]),
        (a.as_strided((2, 3), (12, 2), 7).as_strided((2,), (12,), 4), x[1::2, 5]),
    ):
        np.testing.assert_array_equal(view.numpy(), wanted)
        np.testing.assert_array_equal(view.copyto(cpu()).numpy(), wanted)
    a.as_strided((2, 3), (12, 2), 7)[:] = 0
    x[1::2, 1::2] = 0
    np.testing.assert_array_equal(a.numpy(), x)
    for shape, strides, offset in (((5, 6), (6, 1), 0), ((4, 6), (6, 1), 1), ((2,), (-1,), 3), ((2,), (1,), -1)):
        with pytest.raises(UserError, match="is not within int16"):
            a.as_strided(shape, strides, offset)
    with pytest.raises(UserError, match="needs 2 strides"):
        a.as_strided((2, 2), (1,))


class _CudaMemory:
    """What another library shows of an array on a GPU."""

    def __init__(self, strides: tuple[int, ...] | None) -> None:
        self.__cuda_array_interface__ = {
            "shape": (2, 3), "typestr": "<f4", "data": (4096, False), "version": 3, "strides": strides
        }  # fmt: skip


def test_memory_of_another_library_on_a_gpu_is_taken_as_it_is() -> None:
    for strides in (None, (12, 4)):
        a = from_dlpack(_CudaMemory(strides))
        assert (a.handle, a.shape, a.dtype, a.device) == (4096, (2, 3), "float32", cuda(0))
        assert a.__cuda_array_interface__["data"] == (4096, False)
    assert from_dlpack(_CudaMemory((4, 8))).strides == (1, 2)
    with pytest.raises(UserError, match=r"strides of \(5, 8\) bytes"):
        from_dlpack(_CudaMemory((5, 8)))
    frozen = _CudaMemory(None)
    frozen.__cuda_array_interface__["data"] = (4096, True)
    with pytest.raises(UserError, match="this array is read-only"):
        from_dlpack(frozen)
    assert from_dlpack(frozen, read_only=True).handle == 4096
    assert not hasattr(array(1.0), "__cuda_array_interface__")


@pytest.mark.cuda
def test_torch_shares_memory_on_the_gpu() -> None:
    torch = pytest.importorskip("torch")
    t = torch.arange(6, dtype=torch.float32, device="cuda").reshape(2, 3)
    a = from_dlpack(t)
    t += 1
    torch.cuda.synchronize()
    np.testing.assert_array_equal(a.numpy(), np.arange(1, 7).reshape(2, 3))
    b = torch.as_tensor(a, device="cuda")
    assert b.data_ptr() == t.data_ptr()


def test_devices_are_one_object_each() -> None:
    assert cpu() is cpu(0) is device("cpu") is device("llvm", 0) is device(1)
    assert gpu(1) is cuda(1) is device("cuda", 1) is device("cuda:1") is device(2, 1)
    assert cl() is opencl(0) is device("opencl") is device(Target("opencl")) is device(4)
    assert device(cuda(3)) is cuda(3)
    assert str(cuda(1)) == repr(gpu(1)) == "cuda(1)"
    assert (cuda(1).device_type, cuda(1).device_id, cl().device_type, cpu().device_type) == (2, 1, 4, 1)
    assert pickle.loads(pickle.dumps(cuda(1))) is cuda(1)
    assert cpu().exist
    with pytest.raises(UserError, match="unknown kind of device 'abacus'"):
        device("abacus")
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        cpu().colour


def test_a_device_tells_about_itself(dev: Device) -> None:
    assert dev.exist
    assert dev.name == dev.device_name
    assert dev.max_threads_per_block >= 256
    assert dev.compute_version
    assert dev.max_shared_memory_per_block >= 16 * 1024
    assert not device(dev.kind, 99).exist
    with pytest.raises(UserError, match=rf"there is no {dev.kind}\(99\): this machine has"):
        empty((1,), device=device(dev.kind, 99))
    dev.sync()


def test_a_missing_driver_is_named() -> None:
    if not cuda().exist:
        with pytest.raises(UserError, match="run elsewhere: "):
            array(np.zeros(3), cuda())


def test_an_array_frees_its_memory(dev: Device) -> None:
    """More than the device could hold at once."""
    size = 1 << 28
    for _ in range(6):
        a = empty((size,), "uint8", dev)
        assert isinstance(a, NDArray)
        del a


def test_copying_values_imports_nothing() -> None:
    """NumPy loads its masked arrays when they are first asked for, which takes a process of a trial 80 ms."""
    program = "import sys, tilewright as tw\ntw.nd.array([1.0, 2.0])\nprint('numpy.ma' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
