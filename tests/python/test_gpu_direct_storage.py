"""Files to and from GPUs without host memory between.

The tests use emulated GPUs and a library that stands for libcufile and is built with the C++ tests.
With TRANSHIP_TEST_GPUS=real they use a GPU and libcufile itself, in its compatibility mode where
the kernel has no nvidia-fs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_support import REAL

import tranship as ts
from tranship import profiles

BUILDS = Path(__file__).parents[2] / "build"
EMULATED_GPUS = 0 if REAL else 1


@pytest.fixture(scope="module")
def library() -> str:
    """Returns the newest library that was built, or libcufile itself for a real GPU."""
    if REAL:
        os.environ.setdefault("CUFILE_FORCE_COMPAT_MODE", "true")
        return "libcufile.so.0"
    plain = [  # Libraries with a sanitizer load only into programs with one.
        path
        for path in BUILDS.glob("*/tests/libfake_cufile.so")
        if not path.parts[-3].startswith("sanitize")
    ]
    built = sorted(plain, key=os.path.getmtime)
    if not built:
        pytest.skip("the C++ tests were not built: make test-cpp")
    return str(built[-1])


def calibrated(library: str) -> tuple[dict[str, Any], list[str]]:
    """Returns a measured profile and the messages of the calibration."""
    overrides = {
        "TRANSHIP_EMULATED_GPUS": str(EMULATED_GPUS),
        "TRANSHIP_GPU_DIRECT_STORAGE": library,
    }
    said: list[str] = []
    text = profiles.calibrate(
        sample_bytes=1 << 20,
        processes=False,
        overrides=overrides,
        progress=lambda _, what: said.append(what),
    )
    return json.loads(text), said


@pytest.fixture(scope="module")
def engine(library: str) -> Iterator[ts.Engine]:
    """Yields an engine whose profile makes the direct channels the fastest."""
    content, said = calibrated(library)
    refused = [what for what in said if "is left out" in what]
    if REAL and refused:
        pytest.skip(f"libcufile refuses files in the temporary folder: {refused[0]}")
    straight = [
        c for c in content["channels"] if c["name"].startswith("file_") and "device0" in c["name"]
    ]
    assert [c["name"] for c in straight] == ["file_read to device0", "file_write from device0"]
    for channel in straight:
        assert len(channel["samples"]) > 3  # The channel was measured.
        channel["samples"] = [[size, run, 1e13] for size, run, _ in channel["samples"]]
        channel["latency_s"] = 0.0
    for resource in content["resources"]:
        resource["bytes_per_second"] = 1e13 if resource["bytes_per_second"] else 0
    with ts.Engine(
        profile=json.dumps(content),
        emulated_gpus=EMULATED_GPUS,
        gpu_direct_storage=library,
        threads=2,
    ) as opened:
        yield opened


def test_a_file_goes_straight_to_a_gpu_and_back(engine: ts.Engine, tmp_path: Path) -> None:
    values = np.random.default_rng(1).random((300, 1000))
    np.save(tmp_path / "in.npy", values)
    device = engine.empty(values.shape, memory="device0")
    source = ts.File(tmp_path / "in.npy")
    event = engine.copy(source, device)
    event.wait(timeout=20)
    assert event.plan.path == "node0/file0 > node0/device0"
    assert isinstance(device, ts.DeviceArray) and np.array_equal(device.numpy(), values)
    target = ts.File(tmp_path / "out.npy", extents=values.shape, fields="f8", mode="w")
    event = engine.copy(device, target)
    event.wait(timeout=20)
    target.flush()
    assert event.plan.path == "node0/device0 > node0/file0"
    assert np.array_equal(np.load(tmp_path / "out.npy"), values)


def test_a_file_is_transposed_on_its_way(engine: ts.Engine, tmp_path: Path) -> None:
    values = np.random.default_rng(2).random((200, 300))
    np.save(tmp_path / "in.npy", values)
    device = engine.empty((300, 200), memory="device0")
    engine.copy(ts.File(tmp_path / "in.npy"), device.transpose((1, 0))).wait(timeout=20)
    assert isinstance(device, ts.DeviceArray) and np.array_equal(device.numpy(), values.T)


@pytest.mark.skipif(REAL, reason="the real library takes the file, or says itself why not")
def test_a_refused_file_leaves_the_ways_through_the_host(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CUFILE_REFUSES", "1")
    content, said = calibrated(library)
    names = [channel["name"] for channel in content["channels"]]
    assert "file_read" in names and "file_write" in names
    assert not any(name.startswith("file_") and "device0" in name for name in names)
    assert any("file_read to device0 is left out: " in what and "5007" in what for what in said)


def test_a_library_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ts.Error, match="GPUDirect Storage"):
        ts.Engine(emulated_gpus=EMULATED_GPUS, gpu_direct_storage=str(tmp_path / "libcufile.so"))
    with pytest.raises(ts.Error, match="lacks a function"):
        ts.Engine(emulated_gpus=EMULATED_GPUS, gpu_direct_storage="libm.so.6")


def test_a_profile_of_another_setting(engine: ts.Engine, tmp_path: Path) -> None:
    """Without the library, a copy ignores the library's channels of a profile."""
    np.save(tmp_path / "in.npy", np.arange(1000.0))
    with ts.Engine(
        profile=json.dumps(json.loads(engine.profile)), emulated_gpus=EMULATED_GPUS, threads=2
    ) as other:
        device = other.empty(1000, memory="device0")
        event = other.copy(ts.File(tmp_path / "in.npy"), device)
        event.wait(timeout=20)
        assert "node0/pinned0" in str(event.plan)
        assert isinstance(device, ts.DeviceArray) and np.array_equal(
            device.numpy(), np.arange(1000.0)
        )
