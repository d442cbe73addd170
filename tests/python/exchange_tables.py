"""Tensors of a library with DLPack's C exchange table, which is made here by ctypes."""

import ctypes

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


class OfPytorch(Given):
    """Of a library without read-only tensors."""

    __module__ = "torch"
