"""Arrays on GPUs: those of other libraries, memory of the engine, streams.

The GPUs are emulated in host memory, so that the tests run on machines without GPUs.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_support import (
    Foreign,
    content,
    copy_a_turned_slice,
    copy_an_array_that_is_pinned_in_part,
    filled,
    on_gpu,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import tranship as ts
from tranship import _core
from tranship.topology import gpu_lines, rdma_lines


def gpu_channels() -> Iterator[tuple[str, str, str]]:
    """Yields kind, source and target of the channels that two GPUs add to a profile."""
    yield "memcpy", "node0/host0", "node0/pinned0"
    yield "memcpy", "node0/pinned0", "node0/host0"
    yield "memcpy", "node0/pinned0", "node0/pinned0"
    for number in (0, 1):
        device, other = f"node0/device{number}", f"node0/device{1 - number}"
        yield "gpu_write", "node0/pinned0", device
        yield "gpu_read", device, "node0/pinned0"
        yield "gpu_copy", device, device
        yield "gpu_peer", device, other


@pytest.fixture(scope="module")
def gpu_profile(profile: str) -> str:
    """Returns this machine's profile with two emulated GPUs and invented rates for them."""
    content = json.loads(profile)
    real = {m["name"] for m in content["memories"] if m["kind"] in ("pinned", "device")}
    content["memories"] = [m for m in content["memories"] if m["name"] not in real]
    content["channels"] = [c for c in content["channels"] if not {c["source"], c["target"]} & real]
    bytes_max = content["memories"][0]["buffer_bytes_max"]
    for name, kind in (("pinned0", "pinned"), ("device0", "device"), ("device1", "device")):
        memory = dict(content["memories"][0]) | {"name": f"node0/{name}", "kind": kind}
        content["memories"].append(memory | {"buffer_bytes_max": bytes_max})
    for kind, source, target in gpu_channels():
        channel = dict(content["channels"][0]) | {"kind": kind, "source": source, "target": target}
        channel["name"] = f"{kind} {source} {target}"
        channel["samples"] = [[65536, 65536, 1e9], [1048576, 1048576, 2e9]]
        channel["resources"] = []
        content["channels"].append(channel)
    return json.dumps(content)


@pytest.fixture(scope="module")
def gpus(gpu_profile: str) -> Iterator[ts.Engine]:
    """Yields an engine with two emulated GPUs."""
    with ts.Engine(profile=gpu_profile, emulated_gpus=2, threads=2) as opened:
        yield opened


def test_there_and_back(gpus: ts.Engine) -> None:
    values = np.arange(60.0).reshape(3, 4, 5)
    array = on_gpu(gpus, values)
    assert (array.shape, array.dtype, array.nbytes) == ((3, 4, 5), np.dtype("f8"), 480)
    assert (array.ndim, array.device, array.strides) == (3, 0, (160, 40, 8))
    assert np.array_equal(array.numpy(), values)
    assert array.__dlpack_device__() == (1, 0)  # an emulated GPU's memory is the host's


@pytest.mark.parametrize(("source", "target"), [(0, 0), (0, 1), (1, 0)])
def test_between_gpus_with_a_transpose(gpus: ts.Engine, source: int, target: int) -> None:
    values = np.arange(35 * 21, dtype="f4").reshape(35, 21)
    first = on_gpu(gpus, values, source)
    second = gpus.empty((21, 35), "f4", memory=f"device{target}")
    turned = Foreign(first, shape=(21, 35), strides=(4, 84))
    gpus.copy(turned, second).wait(timeout=60)
    assert np.array_equal(second.numpy(), values.T)


def test_a_foreign_array_is_written_where_it_lies(gpus: ts.Engine) -> None:
    array = on_gpu(gpus, np.zeros((6, 8), "i4"), 1)
    part = Foreign(array[1:5, ::2])
    gpus.copy(np.arange(16, dtype="i4").reshape(4, 4), part).wait(timeout=60)
    expected = np.zeros((6, 8), "i4")
    expected[1:5, ::2] = np.arange(16).reshape(4, 4)
    assert np.array_equal(array.numpy(), expected)


def test_version_2_and_dense_strides(gpus: ts.Engine) -> None:
    values = np.arange(24, dtype="u2").reshape(2, 3, 4)
    old = Foreign(on_gpu(gpus, values), version=2, strides=None, stream="absent", descr="absent")
    target = np.zeros_like(values)
    gpus.copy(old, target).wait(timeout=60)
    assert np.array_equal(target, values)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2)])
def test_arrays_of_one_element_and_of_none(gpus: ts.Engine, shape: tuple[int, ...]) -> None:
    values = np.full(shape, 7.0)
    array = on_gpu(gpus, values)
    assert np.array_equal(array.numpy(), values)
    target = np.zeros(shape)
    gpus.copy(Foreign(array), target).wait(timeout=60)
    assert np.array_equal(target, values)


def test_structured_types_keep_their_fields(gpus: ts.Engine) -> None:
    kind = np.dtype([("a", "i4"), ("b", "f8")])
    values = np.zeros(9, kind)
    values["a"], values["b"] = np.arange(9), np.arange(9) / 4
    array = on_gpu(gpus, values)
    assert array.dtype == kind
    planes = ts.Instance(extents={"d0": 9}, fields={"a": "i4", "b": "f8"}, layout="d0, F")
    gpus.copy(Foreign(array), planes).wait(timeout=60)
    assert np.array_equal(planes.buffer[:36].view("i4"), values["a"])
    assert np.array_equal(planes.buffer[36:].view("f8"), values["b"])


def test_slices_are_as_numpys(gpus: ts.Engine) -> None:
    values = np.arange(210).reshape(5, 6, 7)
    array = on_gpu(gpus, values)
    keys: list[Any] = [2, -1, (slice(None), 3), (..., slice(6, None, -2)), (slice(1, 1),)]
    for key in keys:
        assert np.array_equal(array[key].numpy(), values[key]), key
    assert len(array) == 5
    assert [row.numpy()[0, 0] for row in array] == list(values[:, 0, 0])
    with pytest.raises(ts.InvalidArgument, match="lies outside a dimension"):
        array[5]


def test_short_copies_of_one_shape_at_any_addresses(gpus: ts.Engine) -> None:
    """Their work is remembered, and fits only addresses that are aligned alike."""
    generator = np.random.default_rng(8)
    values = generator.integers(0, 256, 1 << 16, np.uint8)
    for there in ("device0", "device1", "pinned"):
        source = filled(gpus, values, "device0")
        target = filled(gpus, np.zeros_like(values), there)
        wanted = np.zeros_like(values)
        for _ in range(300):
            size = int(generator.choice([64, 1000, 4096]))
            read, written = (int(k) for k in generator.integers(0, values.size - size, 2))
            if generator.random() < 0.5:
                read, written = read // 64 * 64, written // 64 * 64
            priority = int(generator.integers(0, 2))
            gpus.copy(
                source[read : read + size], target[written : written + size], priority=priority
            ).wait(timeout=60)
            wanted[written : written + size] = values[read : read + size]
        assert np.array_equal(content(gpus, target), wanted)


def test_what_is_remembered_is_bounded(gpus: ts.Engine) -> None:
    """Short copies of ever new sizes and places leave nothing behind."""
    source, target = (gpus.empty((1 << 18,), "u1", memory="device0") for _ in range(2))

    def copy_many(first: int) -> None:
        for k in range(first, first + 8000):
            gpus.copy(source[k : k + 500 + k % 150], target[k : k + 500 + k % 150]).wait(60)

    def resident_kib() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])

    copy_many(0)
    before = resident_kib()
    copy_many(8000)
    copy_many(16000)
    assert resident_kib() - before < 20 << 10  # each miss once kept 5.8 KiB: 90 MiB


def test_faces_that_are_copied_again_and_again(gpus: ts.Engine) -> None:
    """Their work is remembered by what they are and where they lie; the content is today's."""
    generator = np.random.default_rng(9)
    zeros = np.zeros((3, 12, 12), "f4")
    fields = [filled(gpus, generator.random((12, 12, 12), "f4"), "device0") for _ in range(2)]
    faces = [filled(gpus, zeros, where) for where in ("device0", "device1")]
    for turn in range(40):
        k, j = (int(one) for one in generator.integers(0, 2, 2))
        values = generator.random((12, 12, 12), "f4")
        gpus.copy(values, fields[k]).wait(timeout=60)
        gpus.copy(zeros, faces[j]).wait(timeout=60)
        cut = int(generator.choice([0, 3, 11]))
        pairs = [
            (fields[k][cut], faces[j][0]),
            (fields[k][:, cut], faces[j][1]),
            (fields[k][:, :, cut].T if turn % 3 else fields[k][:, :, cut], faces[j][2]),
        ]
        priority = int(generator.integers(0, 2))
        gpus.copy_all(pairs, stream=1 if turn % 2 else None, priority=priority).wait(timeout=60)
        last = values[:, :, cut].T if turn % 3 else values[:, :, cut]
        wanted = np.stack([values[cut], values[:, cut], last])
        assert np.array_equal(content(gpus, faces[j]), wanted)


def test_numpy_takes_no_hidden_copy(gpus: ts.Engine) -> None:
    with pytest.raises(TypeError, match=r"use \.numpy\(\)"):
        np.asarray(on_gpu(gpus, np.ones(3)))


def test_memory_outlives_the_engine(gpu_profile: str) -> None:
    with ts.Engine(profile=gpu_profile, emulated_gpus=1, threads=1) as engine:
        array = on_gpu(engine, np.arange(5.0))
    with pytest.raises(ts.Closed):
        array.numpy()
    with ts.Engine(profile=gpu_profile, emulated_gpus=1, threads=1) as engine:
        target = np.zeros(5)
        engine.copy(array, target).wait(timeout=60)
    assert np.array_equal(target, np.arange(5.0))


def test_an_array_is_pinned_where_it_lies(gpus: ts.Engine) -> None:
    values = np.arange(5000, dtype="f4").reshape(50, 100)
    device = gpus.empty(values.shape, "f4", memory="device0")
    assert str(gpus.plan(values, device)).startswith("node0/host0")
    with gpus.pin(values) as held:
        assert gpus.plan(values, device).path == "node0/pinned0 > node0/device0"
        with gpus.pin(values[10:20]):  # The memory is pinned already, and stays pinned.
            pass
        assert gpus.plan(values, device).path == "node0/pinned0 > node0/device0"
        gpus.copy(values[:, ::2], device[:, ::2]).wait(timeout=60)
    assert str(gpus.plan(values, device)).startswith("node0/host0")
    held.release()
    back = np.zeros_like(values)
    gpus.copy(device[:, ::2], back[:, ::2]).wait(timeout=60)
    assert np.array_equal(back[:, ::2], values[:, ::2])


def test_what_cannot_be_pinned(gpus: ts.Engine, no_gpus: ts.Engine) -> None:
    memory = np.zeros(1 << 16, "u1")
    with (
        gpus.pin(memory[:8192]),
        pytest.raises(ts.InvalidArgument, match="pin it once"),
    ):
        gpus.pin(memory)
    with pytest.raises(ts.InvalidArgument, match="only that can be pinned"):
        gpus.pin(gpus.empty(10, memory="device0"))  # type: ignore[arg-type]
    with pytest.raises(ts.Error, match="needs a GPU"):
        no_gpus.pin(memory)
    gpus.pin(np.zeros((0, 4))).release()


def test_an_array_that_is_pinned_in_part(gpus: ts.Engine) -> None:
    copy_an_array_that_is_pinned_in_part(gpus)


def test_pinned_memory_is_a_numpy_array(gpus: ts.Engine) -> None:
    pinned = gpus.empty((4, 5), "i2", memory="pinned")
    assert isinstance(pinned, np.ndarray)
    pinned[...] = np.arange(20).reshape(4, 5)
    array = gpus.empty((4, 5), "i2", memory="device1")
    event = gpus.copy(pinned, array)
    event.wait(timeout=60)
    assert "pinned0" in event.plan.path
    assert np.array_equal(array.numpy(), pinned)


BAD_INTERFACES: dict[str, tuple[dict[str, Any], str]] = {
    "mask": ({"mask": object()}, "mask.*fill it"),
    "old version": ({"version": 1}, "version 1.*2 and 3 are understood"),
    "no data": ({"data": "absent"}, "incomplete.*'data'.*newer release"),
    "no type": ({"typestr": "absent"}, "incomplete.*'typestr'"),
    "unknown type": ({"typestr": "<q9", "descr": None}, "incomplete"),
    "strides": ({"strides": (8,)}, "do not fit"),
    "stream 0": ({"stream": 0}, "stream is 0.*None, 1 and 2"),
    "foreign stream": ({"stream": 4096}, "emulated GPUs have no streams"),
}


@pytest.mark.parametrize("case", BAD_INTERFACES)
def test_bad_interfaces(gpus: ts.Engine, case: str) -> None:
    changes, text = BAD_INTERFACES[case]
    array = on_gpu(gpus, np.ones((2, 2)))
    target = np.zeros((2, 2))
    with pytest.raises(ts.InvalidArgument, match=text):
        gpus.copy(Foreign(array, **changes), target)
    assert not target.any()


def test_an_address_that_no_gpu_knows(gpus: ts.Engine) -> None:
    array = Foreign(on_gpu(gpus, np.ones(2)), data=(np.ones(2).ctypes.data, False))
    with pytest.raises(ts.InvalidArgument, match="driver knows no memory at its address"):
        gpus.copy(array, np.zeros(2))


def test_read_only_arrays_are_not_written(gpus: ts.Engine) -> None:
    array = on_gpu(gpus, np.ones(3))
    interface = array.__cuda_array_interface__
    with pytest.raises(ts.Error, match="the target is read-only"):
        gpus.copy(np.zeros(3), Foreign(array, data=(interface["data"][0], True)))
    assert np.array_equal(array.numpy(), np.ones(3))


class Refusing:
    """A tensor whose library refuses to give the CUDA array interface."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        raise RuntimeError("requires grad")


def test_what_a_library_refuses_is_said(gpus: ts.Engine) -> None:
    with pytest.raises(ts.InvalidArgument, match="CUDA array interface: requires grad"):
        gpus.copy(Refusing(), np.zeros(3))


class Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("number", ctypes.c_int32))


class Kind(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("rank", ctypes.c_int32),
        ("kind", Kind),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = (("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", Deleter))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)

CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6, "bfloat": 4}


class Exported:
    """A tensor that has DLPack alone; `given_back` counts the calls of its deleter."""

    def __init__(
        self,
        owner: Any,
        *,
        device: tuple[int, int] = (2, 0),
        versioned: bool = True,
        major: int = 1,
        read_only: bool = False,
        kind: tuple[int, int, int] | None = None,
        dense: bool = False,
        offset: int = 0,
    ) -> None:
        interface = (
            owner.__cuda_array_interface__
            if hasattr(owner, "__cuda_array_interface__")
            else owner.__array_interface__
        )
        dtype, shape = np.dtype(interface["typestr"]), interface["shape"]
        strides = interface["strides"] or tuple(np.empty(shape, dtype).strides)
        steps = [stride // dtype.itemsize for stride in strides]
        self.owner, self.device, self.versioned = owner, device, versioned
        self.given_back = 0
        self.streams: list[Any] = []
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.steps = (ctypes.c_int64 * len(shape))(*steps)
        self.deleter = Deleter(self.give_back)
        tensor = Tensor(
            interface["data"][0] - offset,
            Device(*device),
            len(shape),
            Kind(*(kind or (CODES[dtype.kind], 8 * dtype.itemsize, 1))),
            self.shape,
            None if dense else self.steps,
            offset,
        )
        self.managed: Any = (
            Versioned(major, 0, None, self.deleter, int(read_only), tensor)
            if versioned
            else Managed(tensor, None, self.deleter)
        )

    def give_back(self, managed: int) -> None:
        self.given_back += 1

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: Any = None, **arguments: Any) -> Any:
        if not self.versioned and arguments:
            raise TypeError("this producer is older than versions")
        self.streams.append(stream)
        self.name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return new_capsule(ctypes.addressof(self.managed), self.name, None)


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("device", [(2, 0), (2, 1), (13, 0)])
def test_dlpack_of_a_gpu(gpus: ts.Engine, versioned: bool, device: tuple[int, int]) -> None:
    values = np.arange(30, dtype="f4").reshape(5, 6)
    array = on_gpu(gpus, values, device[1])
    tensor = Exported(array[:, ::2], device=device, versioned=versioned)
    target = np.zeros((5, 3), "f4")
    event = gpus.copy(tensor, target)
    event.wait(timeout=60)
    del event
    assert np.array_equal(target, values[:, ::2])
    assert tensor.streams == [1]
    back = Exported(array[1:3], device=device, versioned=versioned)
    gpus.copy(np.full((2, 6), 9, "f4"), back).wait(timeout=60)
    assert np.array_equal(array.numpy()[1:3], np.full((2, 6), 9))


def test_a_tensor_is_given_back_once(gpus: ts.Engine) -> None:
    tensor = Exported(on_gpu(gpus, np.ones(4)))
    gpus.copy(tensor, np.zeros(4)).wait(timeout=60)
    gpus.copy(tensor, np.zeros(4)).wait(timeout=60)
    assert tensor.given_back == 2


def test_dense_tensors_may_have_no_strides(gpus: ts.Engine) -> None:
    values = np.arange(24, dtype="i8").reshape(2, 3, 4)
    target = np.zeros_like(values)
    gpus.copy(Exported(on_gpu(gpus, values), dense=True, offset=64), target).wait(timeout=60)
    assert np.array_equal(target, values)


@pytest.mark.parametrize("device", [(3, 0)])
def test_dlpack_of_pinned_memory(gpus: ts.Engine, device: tuple[int, int]) -> None:
    pinned = gpus.empty((3, 4), memory="pinned")
    pinned[...] = np.arange(12).reshape(3, 4)
    tensor = Exported(pinned, device=device)
    target = gpus.empty((3, 4), memory="device0")
    gpus.copy(tensor, target).wait(timeout=60)
    assert np.array_equal(target.numpy(), pinned)
    assert tensor.streams == [None]


def test_types_that_numpy_lacks_keep_their_names(gpus: ts.Engine) -> None:
    values = np.arange(6, dtype="u2")
    array, target = on_gpu(gpus, values), on_gpu(gpus, np.zeros(6, "u2"))
    kind = (CODES["bfloat"], 16, 1)
    gpus.copy(Exported(array, kind=kind), Exported(target, kind=kind)).wait(timeout=60)
    assert np.array_equal(target.numpy(), values)
    for other in ("f2", "V2", "u2"):
        with pytest.raises(ts.InvalidArgument, match=r"bfloat16.*does not convert types"):
            gpus.copy(Exported(array, kind=kind), np.zeros(6, other))


def test_types_without_a_name_move_as_bytes(gpus: ts.Engine) -> None:
    values = np.arange(6, dtype="u4")
    target = np.zeros(6, "V4")
    pairs = Exported(on_gpu(gpus, values), kind=(CODES["bfloat"], 16, 2))
    gpus.copy(pairs, target).wait(timeout=60)
    assert np.array_equal(target.view("u4"), values)


BAD_TENSORS: dict[str, tuple[dict[str, Any], str]] = {
    "device": ({"device": (7, 0)}, "device of type 7.*copy it there first"),
    "version": ({"major": 9}, "version 9 of DLPack.*older release"),
    "bits": ({"kind": (2, 4, 1)}, "4 bits.*whole bytes"),
}


@pytest.mark.parametrize("case", BAD_TENSORS)
def test_bad_tensors(gpus: ts.Engine, case: str) -> None:
    options, text = BAD_TENSORS[case]
    tensor = Exported(on_gpu(gpus, np.ones(3)), **options)
    with pytest.raises(ts.InvalidArgument, match=text):
        gpus.copy(tensor, np.zeros(3))


def test_read_only_tensors_are_not_written(gpus: ts.Engine) -> None:
    array = on_gpu(gpus, np.ones(3))
    with pytest.raises(ts.Error, match="the target is read-only"):
        gpus.copy(np.zeros(3), Exported(array, read_only=True))
    assert np.array_equal(array.numpy(), np.ones(3))


class TorchStream:
    cuda_stream = 0
    device_index = 1


class CupyStream:
    ptr = 2
    device_id = 0


@pytest.mark.parametrize("stream", [0, 1, 2, TorchStream(), CupyStream()])
def test_streams_may_be_given(gpus: ts.Engine, stream: Any) -> None:
    array = on_gpu(gpus, np.zeros(5))
    gpus.copy(np.arange(5.0), Foreign(array, stream=1), stream=stream).wait(timeout=60)
    assert np.array_equal(array.numpy(), np.arange(5.0))


def test_after_takes_streams_and_events(gpus: ts.Engine) -> None:
    array, target = on_gpu(gpus, np.zeros(5)), np.zeros(5)
    first = gpus.copy(np.arange(5.0), array, after=TorchStream())
    gpus.copy(array, target, after=[first, CupyStream()]).wait(timeout=60)
    assert np.array_equal(target, np.arange(5.0))


BAD_ORDERS: dict[str, tuple[dict[str, Any], str]] = {
    "stream": ({"stream": "fast"}, "stream='fast' is not a CUDA stream.*PyTorch"),
    "negative stream": ({"stream": -1}, "stream=-1 is not a CUDA stream"),
    "foreign stream": ({"stream": 1 << 20}, "emulated GPUs have no streams"),
    "after": ({"after": 5}, "after=5 is not an event.*stream object"),
    "in after": ({"after": [None]}, "after=.None. is not an event"),
}


@pytest.mark.parametrize("case", BAD_ORDERS)
def test_bad_streams(gpus: ts.Engine, case: str) -> None:
    options, text = BAD_ORDERS[case]
    target = np.zeros(3)
    with pytest.raises(ts.InvalidArgument, match=text):
        gpus.copy(on_gpu(gpus, np.ones(3)), target, **options)
    assert not target.any()


@pytest.mark.parametrize("memory", ["gpu", "device-1", "Device0", "", "devices"])
def test_memories_that_do_not_exist(gpus: ts.Engine, memory: str) -> None:
    with pytest.raises(ts.InvalidArgument, match=r"memory=.*device0"):
        gpus.empty(3, memory=memory)


def test_a_gpu_that_is_not_there(gpus: ts.Engine) -> None:
    with pytest.raises(ts.InvalidArgument, match="no GPU number 2; this machine has 2"):
        gpus.empty(3, memory="device2")


@pytest.fixture(scope="module")
def no_gpus(profile: str) -> Iterator[ts.Engine]:
    """Yields an engine that uses no GPU, on any machine."""
    with ts.Engine(profile=profile, gpus=False, emulated_gpus=0, threads=1) as opened:
        yield opened


WITHOUT_GPUS: dict[str, Callable[[ts.Engine, ts.DeviceArray], object]] = {
    "source": lambda engine, array: engine.copy(array, np.zeros(3)),
    "target": lambda engine, array: engine.copy(np.zeros(3), array),
    "stream": lambda engine, array: engine.copy(np.zeros(3), np.ones(3), stream=1),
    "device memory": lambda engine, array: engine.empty(3, memory="device0"),
    "pinned memory": lambda engine, array: engine.empty(3, memory="pinned"),
}


@pytest.mark.parametrize("case", WITHOUT_GPUS)
def test_without_gpus(gpus: ts.Engine, no_gpus: ts.Engine, case: str) -> None:
    with pytest.raises(ts.Error, match="tranship topology"):
        WITHOUT_GPUS[case](no_gpus, on_gpu(gpus, np.ones(3)))


def test_topology_shows_gpus(gpus: ts.Engine, no_gpus: ts.Engine) -> None:
    text = gpus.topology()
    assert "device0" in text
    assert "emulated in host memory" in text
    assert "GPUs: none (the setting gpus is 0)" in no_gpus.topology()


def test_topology_says_why_there_is_none() -> None:
    assert gpu_lines([], "no driver") == ["GPUs: none (no driver)"]


def test_topology_names_rdma_cards(tmp_path: Path) -> None:
    assert rdma_lines(tmp_path / "nothing")[0].startswith("RDMA cards: none")
    port = tmp_path / "mlx5_0" / "ports" / "1"
    port.mkdir(parents=True)
    for name, value in (("link_layer", "InfiniBand"), ("rate", "400 Gb/sec")):
        (port / name).write_text(value + "\n")
    assert rdma_lines(tmp_path)[1].split(maxsplit=1) == [
        "mlx5_0",
        "port 1: InfiniBand, 400 Gb/sec",
    ]


@settings(max_examples=60)
@given(data=st.data())
def test_any_slice_of_any_transpose_between_any_two_memories(
    gpus: ts.Engine, data: st.DataObject
) -> None:
    copy_a_turned_slice(gpus, data, ("host", "pinned", "device0", "device1"))


def test_the_core_says_where_an_array_lies(gpus: ts.Engine) -> None:
    array = on_gpu(gpus, np.ones(3), 1)
    core = _core.array_of(array)
    assert (core.where, core.device, core.stream) == ("device", 1, None)
    foreign = _core.array_of(Foreign(array, stream=2))
    assert (foreign.where, foreign.device, foreign.stream) == ("device", -1, 2)
