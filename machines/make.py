#!/usr/bin/env python3
"""Writes the profiles of this folder; the script is their source, and is run by hand.

    python machines/make.py

Where each figure comes from stands in the profile's comment, and in docs/reference/machines.md.
Rates are in bytes per second with decimal prefixes, buffers in bytes with binary ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
MB, GB = 1e6, 1e9
US = 1e-6

Samples = list[list[int]]
Profile = dict[str, Any]


# Shapes of throughput functions.


def pieces(peak: float, overhead_s: float, first: int = 4, last: int = 64 * MIB) -> Samples:
    """Each contiguous piece takes `overhead_s` and then its bytes at the peak.

    Sampled at powers of two of the run. The request's size does not matter, so that it has one
    sample. The last sample is the peak itself.
    """
    runs = [first]
    while runs[-1] < last:
        runs.append(2 * runs[-1])
    rates = [run / (overhead_s + run / peak) for run in runs[:-1]] + [peak]
    return [[1, run, round(rate)] for run, rate in zip(runs, rates, strict=True)]


def overhead_of(run: int, rate: float, peak: float) -> float:
    """What a piece must cost for pieces of `run` bytes to make `rate`."""
    return run * (1 / rate - 1 / peak)


def requests(
    peak: float,
    overhead_s: float,
    shares: dict[int, float],
    sizes: Sequence[int] = (4 * KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB),
) -> Samples:
    """Each request takes `overhead_s`, and its bytes go at a share of the peak that its runs set.

    The last sample of the longest runs is the peak itself.
    """
    samples = [
        [size, run, round(size / (overhead_s + size / (peak * share)))]
        for size in sizes
        for run, share in shares.items()
    ]
    samples[-1][2] = round(peak * list(shares.values())[-1])
    return samples


# The parts that all machines are made of.


class Builder:
    """Collects the entries of a profile; names are of node0 unless they say another node."""

    def __init__(self, name: str, *, host: str, date: str, comment: str, nodes: int) -> None:
        self.name = name
        self.profile: Profile = {
            "format": "tranship-profile-1", "host": host, "date": date, "comment": comment,
            "nodes": nodes, "handoff_s": 5 * US, "cache_bytes": 0,
            "memories": [], "resources": [], "channels": [],
        }  # fmt: skip

    def memory(self, name: str, kind: str, buffer_bytes: int, threshold_bytes: int = 0) -> None:
        """A memory; equal ones of node1 are added by `far_memories`."""
        entry = {"name": full(name), "kind": kind, "buffer_bytes_max": buffer_bytes}
        if threshold_bytes:
            entry["threshold_bytes"] = threshold_bytes
        self.profile["memories"].append(entry)

    def far_memories(self, *names: str) -> None:
        """The memories of node1 that node0 reaches: like its own."""
        for name in names:
            like = next(m for m in self.profile["memories"] if m["name"] == full(name))
            self.profile["memories"].append(like | {"name": f"node1/{name}"})

    def resource(self, name: str, rate: float, *, whole_cluster: bool = False) -> None:
        """Something shared; a rate of 0: its channels take turns."""
        entry = {"name": name if whole_cluster else full(name), "bytes_per_second": round(rate)}
        self.profile["resources"].append(entry)

    def channel(
        self,
        kind: str,
        source: str,
        target: str,
        samples: Samples,
        latency_s: float,
        shares: Sequence[str] = (),
        by: str = "",
        gathers: bool = False,
    ) -> None:
        """A channel; `by` tells apart those between the same two memories."""
        near, _, left = full(source).partition("/")
        far, _, right = full(target).partition("/")
        goal = right if near == far else f"{far} {right}"
        known = {entry["name"] for entry in self.profile["resources"]}
        self.profile["channels"].append(
            {
                "name": f"{near} {kind} {left} > {goal}" + (f" by {by}" if by else ""),
                "kind": kind,
                "source": full(source),
                "target": full(target),
                "latency_s": latency_s,
                **({"gathers": True} if gathers else {}),
                "resources": [name if name in known else full(name) for name in shares],
                "samples": samples,
            }
        )


def full(name: str) -> str:
    """With its node."""
    return name if name.startswith("node") else f"node0/{name}"


# The clusters of the Isometry paper.

ISOMETRY = "Zhihao Jia et al., Isometry: A Path-Based Distributed Data Transfer System, ICS'18"
NEEDED = 1.002 * 3180 * MB  # what the worked example's hops must make, and little more
READ_S = overhead_of(32 * KIB, NEEDED, 6418 * MB)
WRITE_S = overhead_of(16 * KIB, NEEDED, 5139 * MB)
WRITE_PINNED_S = 3 * US
PAGEABLE_S = 10 * US
MEMCPY_S = overhead_of(4, 7740 * MB / 2, 7740 * MB)
REMOTE_S = 2 * US
GPU_COPY_S = 0.1 * US  # assumed: copies inside a GPU follow each other without a pause
TH = 32 * MIB


@dataclass(frozen=True)
class IsometryRates:
    """Peaks of a cluster with host, pinned and registered memory, in bytes per second."""

    memcpy: float
    gpu_read_pinned: float
    gpu_read: float
    gpu_write_pinned: float
    gpu_write: float
    gpu_copy: float
    disk_write: float
    disk_read: float
    disk_s: float
    """What a piece costs on the disk, in seconds."""
    remote: float
    remote_unregistered: float
    devices_a_link: int = 1


def isometry_node(builder: Builder, devices: int, rates: IsometryRates, file: str) -> None:
    """Memories and channels of one node of the Isometry paper; `file` is the disk's resource."""
    builder.memory("host0", "host", GIB, TH)
    builder.memory("pinned0", "pinned", 256 * MIB, TH)
    builder.memory("registered0", "registered", 256 * MIB, TH)
    for k in range(devices):
        builder.memory(f"device{k}", "device", 256 * MIB, TH)
    builder.memory("file0", "file", 0)
    builder.far_memories("host0", "pinned0", "registered0")
    hosts = ("host0", "pinned0", "registered0")
    for source in hosts:
        for target in hosts:
            builder.channel("memcpy", source, target, pieces(rates.memcpy, MEMCPY_S), 1 * US)
    read_s = {"pinned0": READ_S, "registered0": READ_S, "host0": PAGEABLE_S}
    write_s = {"pinned0": WRITE_PINNED_S, "registered0": WRITE_S, "host0": PAGEABLE_S}
    for k in range(devices):
        device, link = f"device{k}", f"pcie{k // rates.devices_a_link}"
        for host in hosts:
            fast = host == "pinned0"
            peak = rates.gpu_read_pinned if fast else rates.gpu_read
            latency_s = 15 * US if host == "host0" else 6 * US  # the driver stages pageable memory
            builder.channel("gpu_read", device, host, pieces(peak, read_s[host]), latency_s,
                            [f"{link} up"])  # fmt: skip
            peak = rates.gpu_write_pinned if fast else rates.gpu_write
            builder.channel("gpu_write", host, device, pieces(peak, write_s[host]), latency_s,
                            [f"{link} down"])  # fmt: skip
        builder.channel("gpu_copy", device, device, pieces(rates.gpu_copy, GPU_COPY_S), 6 * US)
    for host in hosts:
        write, read = pieces(rates.disk_write, rates.disk_s), pieces(rates.disk_read, rates.disk_s)
        builder.channel("file_write", host, "file0", write, rates.disk_s, [file])
        builder.channel("file_read", "file0", host, read, rates.disk_s, [file])
    for source in hosts:
        peak = rates.remote if source == "registered0" else rates.remote_unregistered
        for target in hosts:
            shares = ["nic out", "node1/nic in"]
            if source != "registered0":
                shares.append("bounce out")
            builder.channel(
                "remote_write", source, f"node1/{target}", pieces(peak, REMOTE_S), 3 * US, shares
            )


def isometry_resources(builder: Builder, links: int, rates: IsometryRates) -> None:
    """What the channels of a node share: links, card; the disk is added by the caller."""
    for k in range(links):
        builder.resource(f"pcie{k} up", rates.gpu_read_pinned)
        builder.resource(f"pcie{k} down", rates.gpu_write_pinned)
    for name in ("nic out", "nic in", "node1/nic in"):
        builder.resource(name, rates.remote)
    # The card does not know unregistered memory: one thread copies it into buffers that it does.
    builder.resource("bounce out", rates.remote_unregistered)


def sapling() -> Builder:
    """Table 5 of the Isometry paper."""
    builder = Builder(
        "sapling",
        host=f"Sapling (Stanford), as published in {ISOMETRY}",
        date="2018-06",
        comment=(
            "Published, not measured by this project. 4 nodes of 2x Xeon 5680, 2x Tesla C2070, "
            "48 GB, a Samsung SSD and 2x QDR InfiniBand (Table 4). Peaks are Table 5. How rates "
            "fall with the contiguous run is fitted: a piece takes an overhead and then its bytes "
            "at the peak, with overheads such that the worked example of section 4.3 comes out "
            "(gpu_read to pinned memory makes the network's 3180 MB/s from pieces of 32 KiB on, "
            "gpu_write from registered memory from pieces of 16 KiB on); the other overheads, "
            "latencies, buffer limits and shared resources are assumed. See "
            "docs/reference/machines.md."
        ),
        nodes=4,
    )
    builder.profile["cache_bytes"] = 12 * MIB
    rates = IsometryRates(
        memcpy=7740 * MB, gpu_read_pinned=6418 * MB, gpu_read=4502 * MB,
        gpu_write_pinned=5941 * MB, gpu_write=5139 * MB, gpu_copy=55366 * MB,
        disk_write=270 * MB, disk_read=280 * MB, disk_s=100 * US,
        remote=3180 * MB, remote_unregistered=2701 * MB,
    )  # fmt: skip
    isometry_resources(builder, 2, rates)
    builder.resource("disk", 280 * MB)
    isometry_node(builder, 2, rates, "disk")
    return builder


def xstream() -> Builder:
    """Table 4 of the Isometry paper, with what its parts are sold as."""
    builder = Builder(
        "xstream",
        host=f"XStream (Stanford): hardware of Table 4 in {ISOMETRY}; rates derived from its parts",
        date="2018-06",
        comment=(
            "Derived, not measured. 16 nodes of 2x E5-2680, 2x Tesla K80, 256 GB, FDR InfiniBand "
            "and SAS disks of 1.4 PB (Table 4). A K80 is two GPUs with a memory of their own "
            "behind one PCIe 3.0 x16 link, so a node has four devices and two links. Assumed "
            "from the parts' published rates: link 12 of 15.75 GB/s (pageable and registered "
            "memory 6 to 8), GPU memory 3/4 of 240 GB/s read and written, FDR 6 of 6.8 GB/s "
            "(3.75 from unregistered memory, fitted to the 1.6 of Figure 13), memcpy 10 GB/s, "
            "disks 1 GB/s a node and 10 GB/s for all. Overheads of pieces are those fitted for "
            "Sapling."
        ),
        nodes=16,
    )
    builder.profile["cache_bytes"] = 25 * MIB
    rates = IsometryRates(
        memcpy=10 * GB, gpu_read_pinned=12 * GB, gpu_read=7 * GB, gpu_write_pinned=12 * GB,
        gpu_write=8 * GB, gpu_copy=90 * GB, disk_write=1 * GB, disk_read=1 * GB, disk_s=5e-3,
        remote=6 * GB, remote_unregistered=3.75 * GB, devices_a_link=2,
    )  # fmt: skip
    isometry_resources(builder, 2, rates)
    builder.resource("file system", 10 * GB, whole_cluster=True)
    isometry_node(builder, 4, rates, "file system")
    return builder


def moonlight() -> Builder:
    """Table 4 of the Isometry paper, with what its parts are sold as."""
    builder = Builder(
        "moonlight",
        host=f"Moonlight (LANL): hardware of Table 4 in {ISOMETRY}; rates derived from its parts",
        date="2018-06",
        comment=(
            "Derived, not measured. 308 nodes of 2x E5-2670, 2x Tesla M2090, 32 GB, QDR "
            "InfiniBand and Panasas storage of 1.8 PB (Table 4). Links (PCIe 2.0 x16, 8 GB/s) and "
            "network (QDR, 4 GB/s) are those of Sapling and take its measured rates; GPU memory "
            "is Sapling's times 177/144, the ratio of the published rates of an M2090 and a "
            "C2070. Assumed: memcpy 9 GB/s, Panasas 0.4 GB/s a node and 20 GB/s for all. "
            "Overheads of pieces are those fitted for Sapling."
        ),
        nodes=308,
    )
    builder.profile["cache_bytes"] = 20 * MIB
    rates = IsometryRates(
        memcpy=9 * GB, gpu_read_pinned=6418 * MB, gpu_read=4502 * MB, gpu_write_pinned=5941 * MB,
        gpu_write=5139 * MB, gpu_copy=55366 * MB * 177 / 144, disk_write=0.4 * GB,
        disk_read=0.4 * GB, disk_s=5e-3, remote=3180 * MB, remote_unregistered=2701 * MB,
    )  # fmt: skip
    isometry_resources(builder, 2, rates)
    builder.resource("file system", 20 * GB, whole_cluster=True)
    isometry_node(builder, 2, rates, "file system")
    return builder


# Machines with GPUs of today. What a request costs, and what short runs do to it, was measured on
# H200 machines (docs/reference/machines.md) and is assumed for the others.

LINK_S = 2.66 * US  # fits the measured 1.5, 17, 48 and 53 GB/s at 4 KiB, 64 KiB, 1 MiB and 4 MiB
WRITE_SHARES = {4: 0.92, 64: 0.92, 256: 1.0}  # short runs: a kernel that reads pinned memory, 51
READ_SHARES = {4: 0.18, 16: 0.2, 64: 0.785, 256: 1.0}  # a kernel that writes it, 10; rows by DMA
KERNEL_SHARES = {4: 0.856, 8: 0.955, 64: 1.0}  # transposes: 3570 and 3980 of 4170 GB/s
PEER_SHARES = {4: 0.932, 64: 1.0}  # the same kernels over NVLink: 355 to 369 of 385
MEMCPY_SHARES = {4: 0.25, 16: 0.5, 64: 0.8, 4 * KIB: 1.0}
LAUNCH_S = 8.6 * US
COPY_S = 3.8 * US
PEER_S = 6.6 * US  # with LINK_S, the 9.2 us of 8 B and of 64 KiB to another GPU (gpu-process)
PAGEABLE_SHARES = {4: 0.2, 64: 0.8, 4 * KIB: 1.0}
FILE_S = 100 * US
NETWORK_S = 3 * US
CONTIGUOUS_SHARES = {64: 0.05, 4 * KIB: 0.8, 64 * KIB: 1.0}  # files and networks want long runs


@dataclass(frozen=True)
class Rates:
    """Peaks of a node whose pinned memory GPUs and network cards know, in bytes per second."""

    memcpy: float
    """With all threads."""
    memcpy_one_thread: float
    link: float
    """Between pinned memory and a GPU, each way."""
    pageable: float
    copy: float
    """Payload of a copy inside one GPU: half of what is read and written."""
    peer: float = 0
    """Between two GPUs, each way; 0: they have no link of their own."""
    link_both: float = 0
    """Between pinned memory and a GPU, both ways together; 0: the two do not limit each other."""
    dram: float = 0
    """Between host memory and all GPUs; 0: it does not limit them."""
    dram_read: float = 0
    """From host memory to all GPUs; 0: only `dram` limits it."""
    dram_written: float = 0
    """From all GPUs to host memory; 0: only `dram` limits it."""
    file_write: float = 0
    file_read: float = 0
    """0: the node has no disk of its own, and reaches no file system."""
    disk: str = "node0/disk"
    """The resource that files share."""
    pageable_by_cores: bool = False
    """Whether the driver's copies of pageable memory and memcpy take turns on the cores."""


def memcpy_samples(all_threads: float, one_thread: float) -> Samples:
    """One thread for small requests, all of them from 16 MiB on."""
    sizes = {4 * KIB: 1.0, 64 * KIB: 1.0, MIB: 0.6, 4 * MIB: 0.8, 16 * MIB: 1.0}
    samples = []
    for size, share in sizes.items():
        whole = one_thread if size < MIB else all_threads * share
        samples += [
            [size, run, round(part * max(whole, one_thread))] for run, part in MEMCPY_SHARES.items()
        ]
    return samples


def host_channels(builder: Builder, rates: Rates, node: str, host: str, pinned: str) -> None:
    """Copies between pageable and pinned memory of a node."""
    for source in (host, pinned):
        for target in (host, pinned):
            samples = memcpy_samples(rates.memcpy, rates.memcpy_one_thread)
            builder.channel("memcpy", source, target, samples, 1 * US, [f"{node}/cores"])


def gpu_channels(
    builder: Builder, rates: Rates, device: str, hosts: tuple[str, str], others: Sequence[str]
) -> None:
    """Channels of one GPU with pageable and pinned memory, within it, and to the `others`."""
    host, pinned = hosts
    node, k = device.partition("/")[0], device.rpartition("device")[2]
    both = [f"{node}/pcie{k} both"] if rates.link_both else []
    both += [f"{node}/dram"] if rates.dram else []
    pageable = requests(rates.pageable, LINK_S, PAGEABLE_SHARES)
    up = [f"{node}/pcie{k} up", *([f"{node}/dram written"] if rates.dram_written else []), *both]
    down = [f"{node}/pcie{k} down", *([f"{node}/dram read"] if rates.dram_read else []), *both]
    read = requests(rates.link, LINK_S, READ_SHARES)
    write = requests(rates.link, LINK_S, WRITE_SHARES)
    builder.channel("gpu_read", device, pinned, read, COPY_S, up)
    builder.channel("gpu_write", pinned, device, write, COPY_S, down)
    cores = [f"{node}/cores"] if rates.pageable_by_cores else []
    builder.channel("gpu_read", device, host, pageable, LAUNCH_S, [*up, *cores])
    builder.channel("gpu_write", host, device, pageable, LAUNCH_S, [*down, *cores])
    inside = requests(rates.copy, 0, KERNEL_SHARES, sizes=(4 * KIB,))
    builder.channel("gpu_copy", device, device, inside, LAUNCH_S)
    for other in others:
        shares = [f"{node}/nvlink{k} out", f"{node}/nvlink{other.rpartition('device')[2]} in"]
        peer = requests(rates.peer, LINK_S, PEER_SHARES)
        builder.channel("gpu_peer", device, other, peer, PEER_S, shares)


def modern_channels(builder: Builder, devices: int, rates: Rates, node: str = "node0") -> None:
    """The channels inside a node."""
    host, pinned, file = f"{node}/host0", f"{node}/pinned0", f"{node}/file0"
    host_channels(builder, rates, node, host, pinned)
    for k in range(devices):
        others = [f"{node}/device{j}" for j in range(devices if rates.peer else 0) if j != k]
        gpu_channels(builder, rates, f"{node}/device{k}", (host, pinned), others)
    for memory in (host, pinned) if rates.file_read else ():
        write = requests(rates.file_write, FILE_S, CONTIGUOUS_SHARES)
        read = requests(rates.file_read, FILE_S, CONTIGUOUS_SHARES)
        writes, reads = (
            [rates.disk, f"{node}/disk {ways}"] if rates.file_read != rates.file_write
            else [rates.disk] for ways in ("writes", "reads")
        )  # fmt: skip
        builder.channel("file_write", memory, file, write, FILE_S, writes, gathers=True)
        builder.channel("file_read", file, memory, read, FILE_S, reads, gathers=True)


def modern_node(builder: Builder, devices: int, rates: Rates, node: str = "node0") -> None:
    """Memories and resources of a node."""
    builder.memory(f"{node}/host0", "host", 8 * GIB)
    builder.memory(f"{node}/pinned0", "pinned", 2 * GIB)
    for k in range(devices):
        builder.memory(f"{node}/device{k}", "device", 2 * GIB)
    if rates.file_read:
        builder.memory(f"{node}/file0", "file", 0)
    builder.resource(f"{node}/cores", 0)
    if rates.dram:
        builder.resource(f"{node}/dram", rates.dram)
    if rates.dram_read:
        builder.resource(f"{node}/dram read", rates.dram_read)
    if rates.dram_written:
        builder.resource(f"{node}/dram written", rates.dram_written)
    for k in range(devices):
        for direction in ("up", "down"):
            builder.resource(f"{node}/pcie{k} {direction}", rates.link)
        if rates.link_both:
            builder.resource(f"{node}/pcie{k} both", rates.link_both)
        for direction in ("out", "in") if rates.peer else ():
            builder.resource(f"{node}/nvlink{k} {direction}", rates.peer)


def rails(builder: Builder, devices: int, rates: Rates, card: float) -> None:
    """A network card beside each GPU: GPU memory and pinned memory go straight to any far one.

    Everything into or out of a GPU passes its PCIe link too.
    """
    for k in range(devices):
        for name in (f"nic{k} out", f"nic{k} in", f"node1/nic{k} in"):
            builder.resource(name, card)
        builder.resource(f"node1/pcie{k} down", rates.link)
    names = ("host0", "pinned0", *(f"device{k}" for k in range(devices)))
    builder.far_memories(*names)
    samples = requests(card, REMOTE_S, CONTIGUOUS_SHARES)
    staged = requests(min(card, rates.memcpy_one_thread), REMOTE_S, CONTIGUOUS_SHARES)
    for k in range(devices):
        out, into = [f"nic{k} out", f"pcie{k} up"], [f"node1/nic{k} in", f"node1/pcie{k} down"]
        for other in range(devices):
            shares = [*out, f"node1/nic{other} in", f"node1/pcie{other} down"]
            builder.channel("remote_write", f"device{k}", f"node1/device{other}", samples,
                            NETWORK_S, shares)  # fmt: skip
        builder.channel("remote_write", f"device{k}", "node1/pinned0", samples, NETWORK_S,
                        [*out, f"node1/nic{k} in"])  # fmt: skip
        builder.channel("remote_write", "pinned0", f"node1/device{k}", samples, NETWORK_S,
                        [f"nic{k} out", *into])  # fmt: skip
        builder.channel("remote_write", "pinned0", "node1/pinned0", samples, NETWORK_S,
                        [f"nic{k} out", f"node1/nic{k} in"], by=f"nic{k}")  # fmt: skip
    # Pageable memory is copied into a registered buffer by the network's library, on one thread.
    for source, target in (("host0", "host0"), ("host0", "pinned0"), ("pinned0", "host0")):
        builder.channel("remote_write", source, f"node1/{target}", staged, NETWORK_S,
                        ["nic0 out", "node1/nic0 in"])  # fmt: skip


PERLMUTTER = Rates(
    memcpy=60 * GB, memcpy_one_thread=12 * GB, link=25 * GB, pageable=8 * GB,
    copy=0.85 * 1555 * GB / 2, peer=93 * GB, dram=100 * GB, file_write=10 * GB,
    file_read=10 * GB, disk="file system",
)  # fmt: skip
PERLMUTTER_CARD = 23 * GB


def perlmutter() -> Builder:
    """The GPU nodes that the DataSpaces-GPU paper ran on."""
    builder = Builder(
        "perlmutter",
        host=(
            "Perlmutter's GPU nodes (NERSC), as described by Bo Zhang et al., Optimizing Data "
            "Movement for GPU-Based In-Situ Workflow Using GPUDirect RDMA, Euro-Par'23, and by "
            "docs.nersc.gov/systems/perlmutter/architecture"
        ),
        date="2023-08",
        comment=(
            "Derived, not measured. 1536 nodes of one EPYC 7763, four A100 40 GB joined by "
            "NVLink 3 (four links, 100 GB/s each way between every two), a Slingshot 11 card of "
            "200 Gb/s beside each GPU, and a flash file system of 5 TB/s. Assumed from the parts' "
            "published rates: PCIe 4.0 x16 25 of 31.5 GB/s, NVLink 93 of 100, cards 23 of 25, GPU "
            "memory 0.85 of 1555 read and written, memcpy 12 GB/s with one thread and 60 with 16, "
            "DRAM 100 GB/s to all GPUs, files 10 GB/s a node. Request costs, and what short runs "
            "do, are those measured on H200 machines."
        ),
        nodes=1536,
    )
    builder.profile["cache_bytes"] = 256 * MIB
    modern_node(builder, 4, PERLMUTTER)
    builder.resource("file system", 5000 * GB, whole_cluster=True)
    rails(builder, 4, PERLMUTTER, PERLMUTTER_CARD)
    modern_channels(builder, 4, PERLMUTTER)
    return builder


def perlmutter_processes() -> Builder:
    """The same nodes as the paper used them: four processes, each with a GPU and a card."""
    builder = Builder(
        "perlmutter-processes",
        host=perlmutter().profile["host"],
        date="2023-08",
        comment=(
            "Derived, not measured: the nodes of the profile perlmutter with four processes each, "
            "as the paper has them (section 5: all four cards are used, and evenly mapped to the "
            "processes). hostK, pinnedK and deviceK are what process K uses: what it sends leaves "
            "by card K, and what it gets arrives by card K, whoever the other is. A staging "
            "server is such a process too. Rates are assumed as in perlmutter; no files."
        ),
        nodes=1536,
    )
    builder.profile["cache_bytes"] = 256 * MIB
    rates = PERLMUTTER
    kinds = (("host", 2 * GIB), ("pinned", 2 * GIB), ("device", 2 * GIB))
    for kind, buffer_bytes in kinds:
        for k in range(4):
            builder.memory(f"{kind}{k}", kind, buffer_bytes)
    builder.resource("cores", 0)
    builder.resource("dram", rates.dram)
    for k in range(4):
        for name, rate in (("pcie", rates.link), ("nvlink", rates.peer), ("nic", PERLMUTTER_CARD)):
            first, second = ("up", "down") if name == "pcie" else ("out", "in")
            builder.resource(f"{name}{k} {first}", rate)
            builder.resource(f"{name}{k} {second}", rate)
    for k in range(4):
        hosts = (f"node0/host{k}", f"node0/pinned{k}")
        host_channels(builder, rates, "node0", *hosts)
        others = [f"node0/device{j}" for j in range(4) if j != k]
        gpu_channels(builder, rates, f"node0/device{k}", hosts, others)
    own_cards(builder, 4, rates, PERLMUTTER_CARD)
    return builder


def own_cards(builder: Builder, processes: int, rates: Rates, card: float) -> None:
    """Each process's pinned memory and GPU reach those of all processes of another node."""
    for k in range(processes):
        builder.resource(f"node1/nic{k} in", card)
        builder.resource(f"node1/pcie{k} down", rates.link)
    names = [f"{kind}{k}" for kind in ("pinned", "device") for k in range(processes)]
    builder.far_memories(*names)
    samples = requests(card, REMOTE_S, CONTIGUOUS_SHARES)
    for source in names:
        for target in names:
            k, j = source[-1], target[-1]
            up = [f"pcie{k} up"] if source.startswith("device") else []
            down = [f"node1/pcie{j} down"] if target.startswith("device") else []
            shares = [f"nic{k} out", *up, f"node1/nic{j} in", *down]
            builder.channel("remote_write", source, f"node1/{target}", samples, NETWORK_S, shares)


# The two pairs of machines of the CERN paper.


@dataclass(frozen=True)
class Pair:
    """A client without a GPU and a server with one."""

    gpu: str
    words: str
    node: Rates
    infiniband: float
    ethernet: float
    cache_bytes: int


PAIRS = (
    Pair(
        gpu="t4",
        words=(
            "2x Xeon Gold 6130 (PCIe 3.0), ConnectX-5 100 Gb/s, Intel 10 Gb/s Ethernet, and in the "
            "server a Tesla T4. Assumed from the parts' published rates: link 12 of 15.75 GB/s, "
            "GPU memory 3/4 of 320 GB/s read and written, InfiniBand 11.5 of 12.5, Ethernet 1.1 "
            "of 1.25 GB/s"
        ),
        node=Rates(memcpy=40 * GB, memcpy_one_thread=10 * GB, link=12 * GB, pageable=6 * GB,
                   copy=0.75 * 320 * GB / 2),
        infiniband=11.5 * GB, ethernet=1.1 * GB, cache_bytes=22 * MIB,
    ),
    Pair(
        gpu="a10",
        words=(
            "EPYC 7502P (PCIe 4.0), ConnectX-5 Ex 100 Gb/s, Broadcom 1 Gb/s Ethernet, and in the "
            "server an A10. Assumed from the parts' published rates: link 25 of 31.5 GB/s, GPU "
            "memory 3/4 of 600 GB/s read and written, InfiniBand 12 of 12.5, Ethernet 0.117 of "
            "0.125 GB/s"
        ),
        node=Rates(memcpy=50 * GB, memcpy_one_thread=12 * GB, link=25 * GB, pageable=8 * GB,
                   copy=0.75 * 600 * GB / 2),
        infiniband=12 * GB, ethernet=0.117 * GB, cache_bytes=128 * MIB,
    ),
)  # fmt: skip


def cern(pair: Pair, *, rdma: bool) -> Builder:
    """One pair over one of its two networks, with GPUDirect RDMA or without any RDMA."""
    network = "infiniband" if rdma else "ethernet"
    rate = pair.infiniband if rdma else pair.ethernet
    direct = (
        "RDMA goes to and from pinned memory and, with GPUDirect, GPU memory"
        if rdma
        else "TCP: the kernel copies on one core, and there is no way into GPU memory but through "
        "the server's host memory"
    )
    builder = Builder(
        f"cern-{pair.gpu}-{network}",
        host=(
            "a pair of machines at CERN, as described by Marafi and Bocci, Data Transfer to Remote "
            "GPUs Over High-Performance Networks"
        ),
        date="2022",
        comment=(
            f"Derived, not measured. node0 is the client, node1 the server: {pair.words}. "
            f"This profile has the {'InfiniBand' if rdma else 'Ethernet'} network alone; {direct}. "
            "Request costs, and what short runs do, are those measured on H200 machines."
        ),
        nodes=0,
    )
    builder.profile["cache_bytes"] = pair.cache_bytes
    for node, devices in (("node0", 0), ("node1", 1)):
        modern_node(builder, devices, pair.node, node)
        for direction in ("out", "in"):
            builder.resource(f"{node}/nic {direction}", rate)
    for node, devices in (("node0", 0), ("node1", 1)):
        modern_channels(builder, devices, pair.node, node)
    request_s, latency_s = (REMOTE_S, NETWORK_S) if rdma else (20 * US, 30 * US)
    fast = requests(rate, request_s, CONTIGUOUS_SHARES)
    slow = requests(min(rate, pair.node.pageable), request_s, CONTIGUOUS_SHARES)
    for near, far in (("node0", "node1"), ("node1", "node0")):
        ends: dict[str, list[str]] = {
            node: ["host0", "pinned0", *(["device0"] if rdma and node == "node1" else [])]
            for node in (near, far)
        }
        for source in ends[near]:
            for target in ends[far]:
                shares = [f"{near}/nic out", f"{far}/nic in"]
                shares += ["node1/pcie0 up"] if source == "device0" else []
                shares += ["node1/pcie0 down"] if target == "device0" else []
                samples = slow if "host0" in (source, target) else fast
                builder.channel("remote_write", f"{near}/{source}", f"{far}/{target}", samples,
                                latency_s, shares)  # fmt: skip
    return builder


# The machines that this project was measured on.


@dataclass(frozen=True)
class H200:
    """What differs between machines of 1, 2, 4 and 8 H200 GPUs, in bytes per second.

    Names are those of benchmarks, whose lines of 2026-11-21 to 27 the numbers were taken from.
    """

    dram: float
    """The most that GPUs and host memory exchanged, 2026-11-21."""
    dram_read: float
    dram_written: float
    """Medians of six copies of four GPUs: gpu-lanes of two runs on four H200, by the engine
    and by the driver's copies on all links (up 150, 166, 150 and 166, down 118, 132, 128 and 146),
    gpu-process with another process's shared memory (143 and 115), and gpu-staging-designs, 1 GiB,
    direct (147 and 119). 0 where the links are the limit: over two, the driver makes 110 each way.
    """
    link_both: float
    """gpu-link, both at once, by the engine and by the driver: 99.6 and 100.8 on one and two GPUs,
    94.7 and 97.4 on four."""
    memcpy: float
    """67 with 16 threads on their own; on four GPUs, 45.1 into shared memory
    (isometry-figure7-measured), and 45.7 and 51.0 on the way to and from a GPU (gpu-link)."""
    file_write: float
    file_read: float
    """One GPU: calibrated (machines/measured); two: gpu-file (3.4 to 3.6 and 2.6 to 2.8); four: the
    same (3.1 to 3.3 and 2.0 to 2.3)."""


H200S = {
    1: H200(dram=55.4 * GB, dram_read=0, dram_written=0, link_both=99.6 * GB, memcpy=67 * GB,
            file_write=3.4 * GB, file_read=2.5 * GB),
    2: H200(dram=111 * GB, dram_read=0, dram_written=0, link_both=99.6 * GB, memcpy=67 * GB,
            file_write=3.5 * GB, file_read=2.7 * GB),
    4: H200(dram=179 * GB, dram_read=150 * GB, dram_written=124 * GB, link_both=96 * GB,
            memcpy=46 * GB, file_write=3.2 * GB, file_read=2.13 * GB),
    # Nobody measured eight: their host memory is taken to serve twice what it served four.
    8: H200(dram=358 * GB, dram_read=300 * GB, dram_written=248 * GB, link_both=96 * GB,
            memcpy=46 * GB, file_write=3.2 * GB, file_read=2.13 * GB),
}  # fmt: skip
# Between every two of two and of four GPUs, calibrated (machines/measured): 384 to 385. The
# driver's long copies make 379 to 394, gpu-peer and gpu-process 376 to 389.
H200_PEER = 385 * GB
# Memory of another process of the same machine, which the kernel copies with all threads: 42 to it
# (gpu-process, GPU to another process's plain memory, and figure 7, SYS to SYS* and FBM to SYS*: 40
# to 44 on two and four GPUs) and 39 from it (gpu-process back: 37 to 42). One thread makes 4.
OTHER_WRITE, OTHER_READ, OTHER_ONE_THREAD = 42 * GB, 39 * GB, 4 * GB


def h200_comment(devices: int) -> str:
    """Where the figures of a machine of so many H200 GPUs come from."""
    known = H200S[devices]
    note = (
        "Measured on machines of this kind"
        if devices < 8
        else "Extrapolated from machines of 1, 2 and 4 such GPUs, not measured: GPUs, links, "
        "memcpy and files are those of four, host memory serves twice what it served four, and "
        "each of 64 nodes has a 400 Gb/s InfiniBand card beside each GPU (assumed, 48 of 50 GB/s)"
    )
    limits = (
        f", {known.dram_read / GB:.4g} from it and {known.dram_written / GB:.4g} into it"
        if known.dram_read
        else ""
    )
    return (
        f"{note}. PCIe 5.0 x16 55.4 GB/s each way with pinned memory (1.5, 17, 48, 53 GB/s for "
        "requests of 4 KiB, 64 KiB, 1 MiB, 4 MiB), "
        f"{known.link_both / GB:.4g} both ways together, rows of 64 bytes 43, kernels that read "
        "pinned memory 51 and that write it 10; NVLink 385 and 359 while transposing; copies "
        "inside a GPU 4170 GB/s read and written, transposes 3570 to 3980; host memcpy 12 to "
        f"{known.memcpy / GB:.4g}; GPUs and host memory together {known.dram / GB:.4g}{limits}; "
        f"disk {known.file_write / GB:.4g} and {known.file_read / GB:.4g}. Assumed: memcpy of "
        "short runs, and files and networks of short runs."
    )


def h200(devices: int) -> Builder:
    """A machine of so many H200 GPUs; eight are extrapolated."""
    measured = devices < 8
    known = H200S[devices]
    builder = Builder(
        f"h200-{devices}",
        host=f"a machine with {devices} NVIDIA H200" + ("" if measured else ", extrapolated"),
        date="2026-11",
        comment=h200_comment(devices),
        nodes=0 if measured else 64,
    )
    builder.profile["cache_bytes"] = 96 * MIB
    rates = Rates(
        memcpy=known.memcpy, memcpy_one_thread=12 * GB, link=55.4 * GB, pageable=10 * GB,
        copy=4170 * GB / 2, peer=H200_PEER if devices > 1 else 0, link_both=known.link_both,
        dram=known.dram, dram_read=known.dram_read, dram_written=known.dram_written,
        file_write=known.file_write, file_read=known.file_read, pageable_by_cores=True,
    )  # fmt: skip
    modern_node(builder, devices, rates)
    builder.resource("disk", max(rates.file_read, rates.file_write))
    builder.resource("disk reads", rates.file_read)
    builder.resource("disk writes", rates.file_write)
    if measured:
        builder.memory("host1", "host", 0)
        write = memcpy_samples(OTHER_WRITE, OTHER_ONE_THREAD)
        read = memcpy_samples(OTHER_READ, OTHER_ONE_THREAD)
        for own in ("host0", "pinned0"):
            builder.channel("remote_write", own, "host1", write, LAUNCH_S, ["cores"])
            builder.channel("remote_read", "host1", own, read, LAUNCH_S, ["cores"])
    else:
        rails(builder, devices, rates, 48 * GB)
    modern_channels(builder, devices, rates)
    return builder


def machines() -> list[Builder]:
    """All of them."""
    pairs = [cern(pair, rdma=rdma) for pair in PAIRS for rdma in (True, False)]
    h200s = [h200(devices) for devices in (1, 2, 4, 8)]
    return [sapling(), xstream(), moonlight(), perlmutter(), perlmutter_processes(), *pairs, *h200s]


# Text that people can read: one memory, resource or channel a line, samples below.


def channel_text(channel: dict[str, Any]) -> str:
    """A channel, its samples some on a line."""
    head = json.dumps({key: value for key, value in channel.items() if key != "samples"})
    samples = [json.dumps(sample) for sample in channel["samples"]]
    lines = [", ".join(samples[k : k + 4]) for k in range(0, len(samples), 4)]
    body = ",\n     ".join(lines)
    return f'{head[:-1]},\n    "samples": [\n     {body}]}}'


def text_of(profile: Profile) -> str:
    """The profile as JSON."""
    lists: dict[str, Callable[[Any], str]] = {
        "memories": json.dumps,
        "resources": json.dumps,
        "channels": channel_text,
    }
    parts = [
        f" {json.dumps(key)}: {json.dumps(value)}"
        for key, value in profile.items()
        if key not in lists and not (key == "nodes" and value == 0)
    ]
    for key, write in lists.items():
        entries = ",\n".join("  " + write(entry) for entry in profile[key])
        parts.append(f' "{key}": [\n{entries}\n ]')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    """Writes them beside this script."""
    for machine in machines():
        (FOLDER / f"{machine.name}.json").write_text(text_of(machine.profile), encoding="utf-8")


if __name__ == "__main__":
    main()
