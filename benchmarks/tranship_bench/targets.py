"""Targets of the benchmarks, and whether result lines reach them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .remote_gpu_table import TIMES_LOCAL_MAX
from .results import Line

__all__ = ["TARGETS", "Target", "Verdict", "judge"]


@dataclass(frozen=True)
class Target:
    """A bound on a number of the lines of a benchmark.

    Attributes:
        what: Description.
        bench: Name of the benchmark.
        case: Prefix of the case's name.
        variant: Prefix of the variant's name.
        measure: "ratio" (times as fast as the baseline), "slowdown" (its inverse), "gbps" or
            "median_s".
        bound: Least value; for "slowdown" and "median_s", the largest value.
        whole: Whether `case` is the whole name of the case.
    """

    what: str
    bench: str
    case: str
    variant: str
    measure: str
    bound: float
    whole: bool = False

    @property
    def at_most(self) -> bool:
        """Returns whether less is better."""
        return self.measure in ("slowdown", "median_s")

    def text(self, value: float) -> str:
        """Returns a value of this measure with its unit."""
        if self.measure == "median_s":
            return f"{value * 1e6:.2f} us"
        return f"{value:.2f} GB/s" if self.measure == "gbps" else f"{value:.2f} x"


def gpu(what: str, bench: str, case: str, bound: float) -> Target:
    """Returns a target as a fraction of the driver's own copy."""
    whole = case in ("peer", "GPU to another process's GPU")
    return Target(what, bench, case, "tranship", "ratio", bound, whole)


TARGETS = (
    Target("contiguous, over memcpy", "contiguous", "", "tranship", "ratio", 1.3),
    Target("each conversion, over memcpy", "conversions", "", "tranship", "ratio", 0.7),
    Target(
        "median of the conversions", "conversions", "median of the conv", "tranship", "ratio", 0.9
    ),
    Target("copies that coalesce, over contiguous", "conversions", "", "tranship", "ratio", 0.95),
    Target("random shapes, least", "shapes", "least of all", "tranship", "ratio", 0.45),
    Target("random shapes, tenth", "shapes", "tenth of all", "tranship", "ratio", 0.6),
    Target("random shapes, median", "shapes", "median of all", "tranship", "ratio", 0.95),
    Target("to a plain array", "process", "same layout", "to a plain", "ratio", 0.55),
    Target("to a plain array, transposed", "process", "transposed", "to a plain", "ratio", 0.45),
    Target("to a shared array", "process", "same layout", "to a shared", "ratio", 0.9),
    Target("to a shared array, transposed", "process", "transposed", "to a shared", "ratio", 0.7),
    Target("pieces of 512 B", "pieces", "", "tranship, plain", "gbps", 6.0),
    Target("file to memory, transposed", "file", "file to mem", "transposed", "slowdown", 1.3),
    Target("memory to file, transposed", "file", "memory to", "transposed", "slowdown", 1.3),
    Target("three hops", "three-hops", "", "three hops", "ratio", 0.9),
    Target("4 KiB over memcpy", "small", "4 KiB in this process, tranship o", "", "median_s", 5e-7),
    Target("8 B to another process", "small", "8 B", "tranship, plain array", "median_s", 4e-6),
    Target("1 MiB at high priority", "priority", "1 MiB", "behind", "slowdown", 1.5),
    Target("plan from the cache", "plan-cache", "", "tranship", "median_s", 2e-7),
    Target(
        "part 3 by CUDA IPC, over local",
        "remote-gpu",
        "100M elements",
        "part 3, CUDA IPC",
        "slowdown",
        TIMES_LOCAL_MAX,
    ),
    gpu("pinned to device", "gpu-link", "pinned to device", 0.98),
    gpu("device to pinned", "gpu-link", "device to pinned", 0.98),
    gpu("both directions at once", "gpu-link", "both at once", 0.98),
    gpu("pageable to device, over the link", "gpu-link", "pageable to device", 0.93),
    gpu("device to pageable, over the link", "gpu-link", "device to pageable", 0.93),
    gpu("each conversion in a GPU, over its copy", "gpu-conversion", "", 0.85),
    gpu("GPU to peer", "gpu-peer", "peer", 0.98),
    gpu("GPU to peer, transposed", "gpu-peer", "peer, transposed", 0.93),
    gpu("another process's GPU", "gpu-process", "GPU to another process's GPU", 0.97),
    gpu("the same, transposed", "gpu-process", "GPU to another process's GPU, transposed", 0.92),
    gpu("scattered pages", "gpu-process", "GPU to another process's GPU, 16384", 0.7),
    gpu("another process's shared memory", "gpu-process", "GPU to another process's shared", 0.95),
    gpu("another process's plain memory", "gpu-process", "GPU to another process's plain", 0.85),
    gpu("images from the host, over the link", "gpu-images", "NHWC", 0.9),
    gpu("images to the host, over the link", "gpu-images", "NCHW", 0.9),
    gpu("over the links of two GPUs", "gpu-lanes", "pinned to device over 2", 1.9),
    Target(
        "processes at once, over the best fixed choice of lanes",
        "gpu-lanes-processes",
        "",
        "against the best fixed choice",
        "ratio",
        0.9,
    ),
    gpu("pageable memory, processes at once, over memcpy", "gpu-lanes-processes", "pageable", 0.9),
    gpu("back, processes at once, over memcpy", "gpu-lanes-processes", "device to pageable", 0.9),
    Target("8 B to another GPU", "gpu-process", "8 B", "tranship", "median_s", 15e-6),
    Target("64 KiB to another GPU", "gpu-process", "65536 B", "tranship", "median_s", 15e-6),
    Target(
        "halo of 64^3 between GPUs",
        "gpu-halo",
        "1 field, width 1, 2 GPUs",
        "tranship",
        "median_s",
        35e-6,
    ),
    Target("MPI between GPUs, short runs", "gpu-mpi", "12 B of 24 B", "tranship", "ratio", 100),
    Target("urgent 1 MiB on a GPU", "gpu-priority", "1 MiB behind", "tranship", "slowdown", 1.3),
)
"""Targets on 2 cores of an EPYC machine; those of GPUs on H200."""


@dataclass(frozen=True)
class Verdict:
    """A target and the value of a line that it applies to."""

    target: Target
    line: Line
    value: float

    @property
    def met(self) -> bool:
        """Returns whether the target is reached."""
        if self.target.at_most:
            return self.value <= self.target.bound
        return self.value >= self.target.bound


def value_of(measure: str, line: Line) -> float | None:
    """Returns the number that a target bounds; None if the line does not have it."""
    if measure in ("ratio", "slowdown"):
        ratio = line.get("ratio")
        if not ratio:
            return None
        return float(ratio) if measure == "ratio" else 1 / float(ratio)
    return float(line[measure])


def concerns(target: Target, line: Line) -> bool:
    """Returns whether a target applies to a line."""
    if line["bench"] != target.bench or line["variant"].endswith("from Python"):
        return False
    if "percentile" in line["case"] or (target.bench == "pieces" and "cold" in line["case"]):
        return False
    if target.bench == "conversions":
        coalesces = line.get("baseline") == "contiguous"
        if coalesces != ("contiguous" in target.what):
            return False
        if line["case"].startswith("median of the conv") != target.what.startswith("median"):
            return False
    begins: bool = line["case"].startswith(target.case)
    if target.whole:
        begins = line["case"] == target.case
    return begins and bool(line["variant"].startswith(target.variant))


def judge(lines: Iterable[Line]) -> Iterator[Verdict]:
    """Yields a verdict for every line to which a target applies; only lines of full size count."""
    for line in lines:
        if line.get("conditions", {}).get("size") == "small":
            continue
        for target in TARGETS:
            if not concerns(target, line):
                continue
            value = value_of(target.measure, line)
            if value is not None:
                yield Verdict(target, line, value)
