"""Memories are named by text, or by device objects of other libraries, wherever one is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_support import EMULATED, two_gpus

import tranship as ts
from tranship.arrays.memories import memory_name


def device_of(library: str, text: str = "", **attributes: Any) -> Any:
    """Returns an object as a library has for a device."""
    kind = type("Device", (), {"__module__": library, "__str__": lambda _: text})
    device = kind()
    for name, value in attributes.items():
        setattr(device, name, value)
    return device


NAMES: dict[str, tuple[Any, str]] = {
    "host": ("host", "host"),
    "cpu": ("cpu", "host"),
    "pinned": ("pinned", "pinned"),
    "any GPU": ("device", "device"),
    "a GPU": ("device12", "device12"),
    "cuda": ("cuda", "device"),
    "cuda:1": ("cuda:1", "device1"),
    "torch": (device_of("torch", "cuda:1"), "device1"),
    "torch without a number": (device_of("torch", "cuda"), "device"),
    "torch's host": (device_of("torch", "cpu"), "host"),
    "jax": (device_of("jaxlib._jax", id=5, local_hardware_id=1, platform="gpu"), "device1"),
    "jax without a number": (device_of("jaxlib._jax", id=1, platform="cuda"), "device1"),
    "jax's host": (device_of("jaxlib._jax", id=0, platform="cpu"), "host"),
    "cupy": (device_of("cupy.cuda.device", id=1), "device1"),
    "numba": (device_of("numba.cuda.cudadrv.devices", id=np.int64(0)), "device0"),
}
UNKNOWN: dict[str, Any] = {
    "a word": "gpu",
    "a sign": "cuda:-1",
    "a space": "cuda: 1",
    "a capital": "Device0",
    "nothing": "",
    "None": None,
    "a number": 1,
    "another device of torch": device_of("torch", "mps"),
    "another platform of jax": device_of("jax", id=0, platform="tpu"),
    "an object": object(),
    "cupy without a number": device_of("cupy"),
}


@pytest.fixture(scope="module")
def engine() -> Iterator[ts.Engine]:
    with ts.Engine(emulated_gpus=EMULATED, threads=1) as opened:
        yield opened


@pytest.mark.parametrize("case", NAMES)
def test_names(case: str) -> None:
    given, name = NAMES[case]
    assert memory_name(given) == name


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_no_memory(engine: ts.Engine, case: str, tmp_path: Path) -> None:
    for name, call in (
        ("memory", lambda: engine.empty(3, memory=UNKNOWN[case])),
        (
            "memory_kind",
            lambda: ts.StagingServer(tmp_path / "contact", memory_kind=UNKNOWN[case]).close(),
        ),
    ):
        with pytest.raises(ts.InvalidArgument, match=rf'{name}=.* is not a memory; give "host"'):
            call()


@two_gpus
@pytest.mark.parametrize("memory", ["device1", "cuda:1", "torch", "jax", "cupy"])
def test_arrays_lie_there(engine: ts.Engine, memory: str) -> None:
    array = engine.empty((2, 3), "f4", memory=NAMES.get(memory, (memory, ""))[0])
    assert isinstance(array, ts.DeviceArray) and array.device == 1
    array.fill(2)
    assert array.numpy().sum() == 12


def test_objects_of_servers_are_not_pinned(tmp_path: Path) -> None:
    with pytest.raises(ts.InvalidArgument, match='give "host", "device", "device0"'):
        ts.StagingServer(tmp_path / "contact", memory_kind="pinned")


def test_servers_name_memories_alike(tmp_path: Path) -> None:
    gpus = {"emulated_gpus": EMULATED} if EMULATED else {}
    for number, memory in enumerate(("cpu", "cuda", "cuda:0", device_of("torch", "cuda:0"))):
        contact = tmp_path / f"contact{number}"
        with (
            ts.StagingServer(contact, memory="16MiB", memory_kind=memory, threads=1, **gpus),
            ts.Staging(contact) as client,
        ):
            client.put("a", 1, np.arange(4.0))
            assert client.get("a", 1, (0,), (4,)).tolist() == [0, 1, 2, 3]
