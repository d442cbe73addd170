"""GPUs, RDMA cards and GPUDirect Storage of this machine, and the CUDA of this build.

All is read from files of the kernel; no library is loaded.
"""

from __future__ import annotations

import ctypes.util
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import _core

__all__ = [
    "RDMA_FOLDER",
    "cuda",
    "gpu_direct_storage",
    "hardware",
    "loaded_library",
    "nvcc",
    "rdma",
    "ucx",
]

ROOT = Path("/")
RDMA_FOLDER = Path("/sys/class/infiniband")
"""Folder in which the kernel lists RDMA cards."""


WITHOUT_CUDA = "this build has no CUDA"
"""How the core's reason for no GPUs begins where the build found no compiler for them."""


def hardware() -> dict[str, Any]:
    """Returns all of it, as `tranship topology --json` prints it."""
    gpus, reason = _core.find_gpus()
    build = cuda()
    compiler = nvcc() if reason.startswith(WITHOUT_CUDA) else None
    if compiler is not None:
        reason = f"{WITHOUT_CUDA}; {compiler} is here now: install tranship again"
    return {
        "gpus": gpus,
        "no_gpus_because": reason or None,
        "cuda": build,
        "gpu_direct_storage": gpu_direct_storage(setting=storage_setting()),
        "rdma": rdma(),
    }


def nvcc() -> str | None:
    """Returns the path of the CUDA compiler that a build would use, if there is one."""
    folders = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    beside = [os.path.join(folder, "bin", "nvcc") for folder in folders if folder]
    return next(filter(None, map(shutil.which, ["nvcc", *beside])), None)


def cuda(root: Path = ROOT) -> dict[str, Any]:
    """Returns the CUDA of this build, and the driver of this machine.

    Args:
        root: Folder of the kernel's files; for tests.
    """
    build = _core.cuda_build()
    return {
        "built_in": build["built_in"],
        "version": build["version"] or None,
        "architectures": str(build["architectures"]).split(", ") if build["built_in"] else [],
        **driver(root),
    }


UCX_REACH = {
    "ib": "InfiniBand and RoCE cards",
    "efa": "EFA cards",
    "ugni": "Gemini and Aries networks",
    "cuda": "GPU memory",
    "rocm": "memory of AMD GPUs",
    "cma": "processes of this machine",
    "knem": "processes of this machine",
    "xpmem": "processes of this machine",
}
"""What a module of UCX (libuct_NAME.so) reaches."""


def ucx(setting: str, library: str) -> dict[str, Any]:
    """Returns which UCX an engine would load, and what its modules reach.

    Args:
        setting: Value of the setting `ucx`: a mode, or the folder of a site's own UCX.
        library: Value of the setting `ucx_library`; empty if it is not set.
    """
    named = str(Path(setting, "lib", "libucp.so.0")) if Path(setting).is_dir() else setting
    wheel = Path(__file__).parents[1] / "libucx" / "lib" / "libucp.so.0"
    candidates = [
        ("TRANSHIP_UCX", named if "/" in setting else ""),
        ("ucx_library", library),
        ("the package libucx-cu12", str(wheel)),
    ]
    for source, path in candidates:
        if path and Path(path).exists():
            modules = sorted(
                file.name.removeprefix("libuct_").partition(".so")[0]
                for file in (Path(path).parent / "ucx").glob("libuct_*.so")
            )
            reached = dict.fromkeys(UCX_REACH[name] for name in modules if name in UCX_REACH)
            return {"library": path, "from": source, "modules": modules, "reaches": list(reached)}
    system = ctypes.util.find_library("ucp")
    return {
        "library": system,
        "from": None if system is None else "the system",
        "modules": [],
        "reaches": [],
    }


def driver(root: Path) -> dict[str, Any]:
    """Returns the NVIDIA driver's version, and whether its kernel modules are the open ones."""
    try:
        text = (root / "proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {"driver": None, "open_kernel_module": False}
    found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text)
    return {
        "driver": found[1] if found else "of unknown version",
        "open_kernel_module": "Open Kernel Module" in text,
    }


def storage_setting() -> str:
    """Returns the setting gpu_direct_storage."""
    return next(v for n, v, _, _ in _core.describe_config({}) if n == "gpu_direct_storage")


def gpu_direct_storage(
    root: Path = ROOT, library: str | None = None, setting: str = "automatic"
) -> dict[str, Any]:
    """Returns whether GPUs reach files without a bounce buffer in host memory.

    Args:
        root: Folder of the kernel's files; for tests.
        library: Path of libcufile. None: it is looked for.
        setting: The setting gpu_direct_storage: automatic, off, or the path of a library.
    """
    nodes = sorted(path.name for path in (root / "dev").glob("nvidia-fs*"))
    module = bool(nodes) or (root / "sys/module/nvidia_fs").is_dir()
    found = library if library is not None else find_cufile(sys.path)
    lacks = []
    if not module:
        lacks.append("the kernel module nvidia-fs is not loaded")
    if not found:
        lacks.append("libcufile is not installed")
    return {
        "present": not lacks,
        "lacks": lacks,
        "device_nodes": len(nodes),
        "library": (found or None) if setting in ("automatic", "off") else setting,
        "used": not lacks if setting == "automatic" else setting != "off",
    }


def find_cufile(folders: Sequence[str]) -> str | None:
    """Returns libcufile from packages of this interpreter, else where the linker finds it."""
    for folder in folders:
        for path in sorted(Path(folder or ".").glob("nvidia/*/lib/libcufile.so*")):
            return str(path)
    return ctypes.util.find_library("cufile")


def rdma(
    folder: Path = RDMA_FOLDER, root: Path = ROOT, ucx_library: str | None = None
) -> dict[str, Any]:
    """Returns the RDMA cards, and whether they reach GPU memory.

    Args:
        folder: Folder in which the kernel lists the cards.
        root: Folder of the kernel's other files; for tests.
        ucx_library: Path of libucp. None: the one that this process has loaded.
    """
    cards = sorted(folder.iterdir()) if folder.is_dir() else []
    peermem = (root / "sys/module/nvidia_peermem").is_dir()
    dma_buf = bool(driver(root)["open_kernel_module"])
    ucx = ucx_library if ucx_library is not None else loaded_library("libucp")
    return {
        "cards": [{"name": card.name, "ports": ports_of(card)} for card in cards],
        "nvidia_peermem": peermem,
        "dma_buf": dma_buf,
        "in_ucx": ucx is not None and any(Path(ucx).parent.glob("ucx/libuct_ib*.so*")),
        "reaches_gpus": bool(cards) and (peermem or dma_buf),
    }


def ports_of(card: Path) -> list[dict[str, str]]:
    """Returns number, link, rate and state of each port, as far as the driver reports them."""
    folder = card / "ports"
    ports = []
    for port in sorted(folder.iterdir()) if folder.is_dir() else ():
        facts = {"port": port.name}
        for name in ("link_layer", "rate", "state"):
            try:
                facts[name] = (port / name).read_text(encoding="utf-8").strip()
            except OSError:
                continue
        ports.append(facts)
    return ports


def loaded_library(name: str) -> str | None:
    """Returns the path of a shared library that this process has loaded."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    paths = (line.split(maxsplit=5)[5] for line in lines if line.count("/"))
    return next((path for path in paths if Path(path).name.startswith(name)), None)
