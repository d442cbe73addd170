"""What is found of GPUs, RDMA cards and GPUDirect Storage, on made-up files of the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tranship import hardware
from tranship.topology import gpu_rdma_text, storage_line

DRIVER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"


def test_drivers_and_ways_around_host_memory_are_detected(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing"
    assert hardware.cuda(nothing)["driver"] is None
    storage = hardware.gpu_direct_storage(nothing, library="")
    assert storage["present"] is False and len(storage["lacks"]) == 2
    assert storage_line(storage).startswith("GPUDirect Storage: none (the kernel module nvidia-fs")
    root = tmp_path / "root"
    for name in ("proc/driver/nvidia", "dev", "sys/module/nvidia_peermem", "ucx"):
        (root / name).mkdir(parents=True)
    (root / "proc/driver/nvidia/version").write_text(DRIVER)
    for name in ("dev/nvidia-fs0", "dev/nvidia-fs1", "ucx/libuct_ib.so.0", "libucp.so"):
        (root / name).touch()
    assert hardware.cuda(root)["driver"] == "580.65.06"
    storage = hardware.gpu_direct_storage(root, library="libcufile.so.0")
    assert storage["present"] is True and storage["device_nodes"] == 2
    assert storage["used"] and "without host memory" in storage_line(storage)
    storage = hardware.gpu_direct_storage(root, library="libcufile.so.0", setting="off")
    assert not storage["used"] and "the setting is off" in storage_line(storage)
    storage = hardware.gpu_direct_storage(nothing, library="", setting="/opt/libcufile.so")
    assert storage["used"] and "/opt/libcufile.so" in storage_line(storage)
    cards = root / "infiniband"
    (cards / "mlx5_0/ports/1").mkdir(parents=True)
    (cards / "mlx5_0/ports/1/state").write_text("4: ACTIVE\n")
    rdma = hardware.rdma(cards, root, str(root / "libucp.so"))
    assert rdma["in_ucx"] and rdma["reaches_gpus"] and rdma["nvidia_peermem"] and rdma["dma_buf"]
    assert rdma["cards"] == [{"name": "mlx5_0", "ports": [{"port": "1", "state": "4: ACTIVE"}]}]
    assert gpu_rdma_text(rdma) == "by the kernel module nvidia_peermem"
    assert "by dma-buf" in gpu_rdma_text(rdma | {"nvidia_peermem": False})
    without = rdma | {"nvidia_peermem": False, "dma_buf": False}
    assert gpu_rdma_text(without).startswith("none (nvidia_peermem is not loaded")


def test_libcufile_of_a_package_is_found(tmp_path: Path) -> None:
    library = tmp_path / "nvidia/cu13/lib/libcufile.so.0"
    library.parent.mkdir(parents=True)
    library.touch()
    assert hardware.find_cufile([str(tmp_path)]) == str(library)


def test_a_compiler_that_came_later_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    compiler = tmp_path / "bin" / "nvcc"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    reason = f"{hardware.WITHOUT_CUDA}; install the CUDA toolkit"
    monkeypatch.setattr("tranship._core.find_gpus", lambda: ([], reason))
    found = hardware.hardware()["no_gpus_because"]
    assert found == f"{hardware.WITHOUT_CUDA}; {compiler} is here now: install tranship again"
    monkeypatch.setattr("tranship._core.find_gpus", lambda: ([], "the setting gpus is 0"))
    assert hardware.hardware()["no_gpus_because"] == "the setting gpus is 0"
