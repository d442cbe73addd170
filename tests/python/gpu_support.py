"""Helpers of the tests on real and emulated GPUs."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import tranship as ts
from tranship import _core

REAL = os.environ.get("TRANSHIP_TEST_GPUS") == "real"
EMULATED = 0 if REAL else 2


def gpu_count() -> int:
    """Returns the number of GPUs that an engine of the tests has."""
    with ts.Engine(emulated_gpus=EMULATED, threads=1) as engine:
        return len(_core.list_gpus(engine._core)[0])


two_gpus = pytest.mark.skipif(REAL and gpu_count() < 2, reason="needs two GPUs")


RATES = {"memcpy": 1e10, "file_read": 3e9, "file_write": 2e9, "gpu_peer": 3e11, "gpu_copy": 4e12}
"""Bytes per second, as with real GPUs; other kinds, such as the links to the host, get 5e10."""


def fixed_gpu_profile(gpus: int = 2) -> str:
    """Returns this machine's profile with emulated GPUs and fixed rates.

    Measured rates would depend on what else runs on the machine.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSHIP_EMULATED_GPUS", str(gpus))
        profile = json.loads(ts.profiles.calibrate(sample_bytes=1 << 20, processes=False))
    profile["handoff_s"] = profile["planning_s"] = 2e-5
    for channel in profile["channels"]:
        rate = RATES.get(channel["kind"], 5e10)
        channel["samples"] = [[request, run, rate] for request, run, _ in channel["samples"]]
        channel["latency_s"] = profile["handoff_s"]
    for resource in profile["resources"]:
        resource["bytes_per_second"] = 0
    return json.dumps(profile)


class Foreign:
    """An array as GPU libraries have it: the CUDA array interface and nothing else."""

    def __init__(self, owner: Any, **changes: Any) -> None:
        self.owner = owner
        interface = dict(owner.__cuda_array_interface__) | changes
        self.__cuda_array_interface__ = {k: v for k, v in interface.items() if v != "absent"}


def on_gpu(engine: ts.Engine, values: np.ndarray[Any, Any], device: int = 0) -> ts.DeviceArray:
    """Returns an array in the memory of a GPU with these values."""
    made = engine.empty(values.shape, values.dtype, memory=f"device{device}")
    assert isinstance(made, ts.DeviceArray)
    engine.copy(values, made).wait(timeout=60)
    return made


def filled(engine: ts.Engine, values: np.ndarray[Any, Any], memory: str) -> Any:
    """Returns an array that the engine allocates in `memory`, with these values."""
    array = engine.empty(values.shape, values.dtype, memory=memory)
    engine.copy(values, array).wait(timeout=60)
    return array


def content(engine: ts.Engine, array: Any) -> np.ndarray[Any, Any]:
    """Returns a copy of an array in host memory."""
    target = np.zeros(array.shape, array.dtype)
    engine.copy(array, target).wait(timeout=60)
    return target


def copy_neighbours_that_are_pinned_apart(engine: ts.Engine, bytes_of_each: int) -> None:
    """Copies adjacent pieces of memory, each pinned by a call of its own, to a GPU and back.

    CUDA refuses a command that leaves the pinned range or the allocation that it starts in.
    """
    count = 16
    pages = np.empty((count + 1) * bytes_of_each, "u1")
    pages = pages[-pages.ctypes.data % 4096 :][: count * bytes_of_each].reshape(count, -1)
    values = np.random.default_rng(3).integers(0, 255, pages.shape, "u1")
    pages[:] = values
    device = filled(engine, np.zeros_like(pages), "device0")
    with ExitStack() as held:
        for page in pages:
            held.enter_context(engine.pin(page))
        engine.copy_all([(pages[k], device[k]) for k in range(count)]).wait(timeout=20)
        assert np.array_equal(content(engine, device), values)
        pages[:] = 0
        engine.copy_all([(device[k], pages[k]) for k in range(count)]).wait(timeout=20)
        assert np.array_equal(pages, values)


def copy_an_array_that_is_pinned_in_part(engine: ts.Engine) -> None:
    """Copies a transposed array, of which only the first half is pinned, to a GPU and back."""
    values = np.random.default_rng(4).random((64, 2048))
    whole = values.copy()
    device = filled(engine, np.zeros(values.shape[::-1]), "device0")
    with engine.pin(whole[:32]):
        engine.copy(whole.T, device).wait(timeout=20)
        assert np.array_equal(content(engine, device), values.T)
        whole[:] = 0
        engine.copy(device, whole.T).wait(timeout=20)
        assert np.array_equal(whole, values)


def copy_a_turned_slice(engine: ts.Engine, data: st.DataObject, places: tuple[str, ...]) -> None:
    """Draws an array and a transposed slice of it, and copies that from one memory to another."""
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)))
    kind = data.draw(st.sampled_from(["u1", "f2", "i4", "f8", "c16", "V3"]))
    order = data.draw(st.permutations(range(len(shape))))
    key = tuple(
        slice(data.draw(st.integers(0, n - 1)), None, data.draw(st.sampled_from([1, 2, 3])))
        for n in shape
    )
    raw = np.random.default_rng(data.draw(st.integers(0, 99))).bytes(
        int(np.prod(shape)) * np.dtype(kind).itemsize
    )
    values = np.frombuffer(raw, kind).reshape(shape)
    expected = values[key].transpose(order)
    source = engine.empty(shape, kind, memory=data.draw(st.sampled_from(places)))
    engine.copy(values, source).wait(timeout=60)
    part: Any = source[key]
    if isinstance(part, ts.DeviceArray):
        steps = [part.strides[k] for k in order]
        turned: Any = Foreign(part, shape=expected.shape, strides=tuple(steps))
    else:
        turned = part.transpose(order)
    target = engine.empty(expected.shape, kind, memory=data.draw(st.sampled_from(places)))
    engine.copy(turned, target).wait(timeout=60)
    found = target.numpy() if isinstance(target, ts.DeviceArray) else target
    assert found.tobytes() == expected.tobytes()
