"""Tensors that are read through DLPack's C exchange table, made here by ctypes."""

import ctypes

import numpy as np
import pytest

import tranship

CPU, CUDA, OPENCL = 1, 2, 4
FLOAT, BFLOAT, COMPLEX = 2, 4, 5


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    pass


Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("context", ctypes.c_void_p),
    ("deleter", Deleter),
    ("flags", ctypes.c_uint64),
    ("tensor", Tensor),
]
ToManaged = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.POINTER(Managed))
)
ToTensor = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
Current = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)


class Table(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("to_managed", ToManaged),
        ("from_managed", ctypes.c_void_p),
        ("to_tensor", ToTensor),
        ("current_stream", Current),
    ]


def fill(given, tensor):
    if given.refused:
        return False
    for name, value in given.described.items():
        setattr(tensor, name, value)
    return True


@ToTensor
def to_tensor(given, tensor):
    given.reads += 1
    return 0 if fill(given, tensor[0]) else -1


kept = {}


@Deleter
def deleter(managed):
    kept.pop(ctypes.addressof(managed.contents))


@ToManaged
def to_managed(given, out):
    given.writes += 1
    managed = Managed(major=1, minor=3, deleter=deleter, flags=given.flags)
    if not fill(given, managed.tensor):
        return -1
    kept[ctypes.addressof(managed)] = managed
    out[0] = ctypes.pointer(managed)
    return 0


@Current
def current_stream(device_type, device, stream):
    stream[0] = None
    return 0


TABLE = Table(1, 3, None, None, to_managed, None, to_tensor, current_stream)
NEWER = Table(2, 0, ctypes.addressof(TABLE), None, to_managed, None, to_tensor, current_stream)


def capsule(table):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    return new(ctypes.addressof(table), b"dlpack_exchange_api", None)


class Given:
    """An array of another library, with its table alone."""

    __dlpack_c_exchange_api__ = capsule(TABLE)
    requires_grad = False

    def __init__(self, memory, device_type=CPU, device=0, address=None, code=FLOAT):
        self.memory, self.refused, self.flags, self.reads, self.writes = memory, False, 0, 0, 0
        self.lazily = ""
        item = memory.dtype.itemsize
        self.shape = (ctypes.c_int64 * memory.ndim)(*memory.shape)
        self.strides = (ctypes.c_int64 * memory.ndim)(*(step // item for step in memory.strides))
        self.described = {
            "data": memory.ctypes.data if address is None else address,
            "device_type": device_type,
            "device_id": device,
            "ndim": memory.ndim,
            "code": code,
            "bits": 8 * item,
            "lanes": 1,
            "shape": self.shape,
            "strides": self.strides,
        }

    def is_conj(self):
        return self.lazily == "conj"

    def is_neg(self):
        return self.lazily == "neg"


class OfNewerLibrary(Given):
    __dlpack_c_exchange_api__ = capsule(NEWER)


@pytest.fixture(scope="module")
def engine():
    with tranship.Engine() as engine:
        yield engine


@pytest.mark.parametrize("kind", [Given, OfNewerLibrary])
def test_strided_tensors_are_read_and_written_through_the_table(engine, kind):
    base = np.arange(24.0).reshape(4, 6)
    source, target = kind(base[::2, ::-1]), kind(np.zeros((2, 6)))
    engine.copy(source, target).wait()
    np.testing.assert_array_equal(target.memory, base[::2, ::-1])
    assert (source.reads, source.writes) == (1, 0)
    assert (target.reads, target.writes) == (0, 1)
    assert not kept  # the tensor with flags went back to its library


def test_targets_of_a_library_without_read_only_tensors_need_no_flags(engine):
    class Tensor(Given):
        __module__ = "torch"

    source, target = Tensor(np.arange(8.0)), Tensor(np.zeros(8))
    for _ in range(2):
        engine.copy(source, target).wait()
    np.testing.assert_array_equal(target.memory, source.memory)
    assert (source.reads, source.writes, target.reads, target.writes) == (2, 0, 2, 0)
    prepared = engine.prepare(source, target)  # it keeps the memory that both have now
    assert (source.writes, target.writes, len(kept)) == (1, 1, 2)
    del prepared
    assert not kept


def test_lists_read_tables_too(engine):
    pairs = [(Given(np.full(8, float(k))), Given(np.zeros(8))) for k in range(5)]
    engine.copy_all(pairs).wait()
    for k, (source, target) in enumerate(pairs):
        assert (target.memory == k).all()
        assert source.reads == 1


def test_a_prepared_copy_keeps_the_memory_that_a_tensor_has(engine):
    source, target = Given(np.full(8, 3.0)), Given(np.zeros(8))
    source.flags = 1  # it may only be read
    copy = engine.prepare(source, target)
    assert (source.reads, source.writes, len(kept)) == (0, 1, 2)
    for _ in range(2):
        target.memory[:] = 0
        copy.start().wait()
        assert (target.memory == 3).all()
    assert (source.reads, source.writes) == (0, 1)
    del copy
    assert not kept


def test_types_of_equal_width_are_told_apart(engine):
    numbers = np.arange(6, dtype="u2")
    source = Given(numbers, code=BFLOAT)
    target = Given(np.zeros(6, "u2"), code=BFLOAT)
    engine.copy(source, target).wait()
    np.testing.assert_array_equal(target.memory, numbers)
    with pytest.raises(tranship.InvalidArgument):
        engine.copy(source, Given(np.zeros(6, "u2"))).wait()


def test_tensors_on_gpus():
    with tranship.Engine(emulated_gpus=2, threads=1) as engine:
        memory = [engine.empty((4, 6), memory="device0") for _ in range(2)]
        numbers = np.arange(24.0).reshape(4, 6)
        engine.copy(numbers, memory[0]).wait()
        source, target = (
            Given(numbers, CUDA, 0, one.__cuda_array_interface__["data"][0]) for one in memory
        )
        event = engine.copy(source, target, stream=1)
        event.wait()
        assert event.plan.path == "node0/device0 > node0/device0"
        np.testing.assert_array_equal(memory[1].numpy(), numbers)


@pytest.mark.parametrize(
    "change", ["read-only", "gradient", "conj", "neg", "refused", "null", "device"]
)
def test_what_a_table_does_not_say_is_refused_before_anything_moves(engine, change):
    target = Given(np.zeros(4))
    source = np.ones(4)
    if change == "conj":  # real numbers are not asked
        target, source = Given(np.zeros(4, "c16"), code=COMPLEX), np.ones(4, "c16")
    if change == "read-only":
        target.flags = 1
    elif change == "gradient":
        target.requires_grad = True
    elif change == "refused":
        target.refused = True
    elif change == "null":
        target.described["data"] = None
    elif change == "device":
        target.described["device_type"] = OPENCL
    else:
        target.lazily = change
    with pytest.raises(tranship.InvalidArgument):
        engine.copy(source, target).wait()
    assert not target.memory.any()
    assert not kept
