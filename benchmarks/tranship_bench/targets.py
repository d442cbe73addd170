"""Targets of the benchmarks, and whether result lines reach them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .results import Line

__all__ = ["TARGETS", "Target", "Verdict", "concerns", "judge"]

TIMES_LOCAL_MAX = 1.05
"""Largest ratio of the direct way's time to the local GPU's, of remote-gpu."""


@dataclass(frozen=True)
class Target:
    """A bound on a number of the lines of a benchmark.

    Attributes:
        bench: Name of the benchmark.
        case: Pattern that the case's name begins with.
        variant: Pattern that the variant's name begins with.
        measure: "ratio" (times as fast as the baseline), "slowdown" (its inverse), "gbps",
            "median_s" or "share" (of the cases).
        bound: Least value; for "slowdown" and "median_s", the largest value.
        baseline: Baseline of the lines; "": any.
    """

    bench: str
    case: str
    variant: str
    measure: str
    bound: float
    baseline: str = ""

    @property
    def what(self) -> str:
        """Returns what is bounded, in words."""
        words = f"{self.case or 'each case'}, {self.variant}".removesuffix(", ")
        words = re.sub(r"[()$]|\.\*", "", words.replace("|", " or ")).strip()
        return f"{words}, over {self.baseline}" if self.baseline else words

    @property
    def at_most(self) -> bool:
        """Returns whether less is better."""
        return self.measure in ("slowdown", "median_s")

    def text(self, value: float) -> str:
        """Returns a value of this measure with its unit."""
        if self.measure == "median_s":
            return f"{value * 1e6:.2f} us"
        if self.measure == "share":
            return f"{value:.0%}"
        return f"{value:.2f} GB/s" if self.measure == "gbps" else f"{value:.2f} x"


RATIOS: dict[str, list[tuple[str, str, float]]] = {
    "contiguous": [("", "tranship", 1.3)],
    "shapes": [
        ("least of all", "tranship", 0.45),
        ("tenth of all", "tranship", 0.6),
        ("median of all", "tranship", 0.95),
    ],
    "process": [
        ("same layout", "to a plain", 0.55),
        ("transposed", "to a plain", 0.45),
        ("same layout", "to a shared", 0.9),
        ("transposed", "to a shared", 0.7),
    ],
    "lists": [(r"64 MiB in 16384 .* over TCP", "tranship", 0.8)],
    "three-hops": [("", "three hops", 0.9)],
    "network": [("256 MiB, TCP", "tranship$", 0.9), ("8 B, TCP", "tranship$", 0.67)],
    "staging": [("(put|get) 256 MiB", "(put|get), ", 0.7), ("get an eighth", "get, ", 0.5)],
    "staging-first-use": [("", "(first|second) put", 0.5)],
    "mpi-messages": [("12 B of 24 B|box (128|64)", "tranship-mpi", 1.5)],
    "gpu-link": [("(pinned|device to pinned|both)", "tranship", 0.98), ("", "tranship", 0.93)],
    "gpu-conversion": [("", "tranship", 0.85)],
    "gpu-peer": [("peer$", "tranship", 0.98), ("peer, transposed", "tranship", 0.93)],
    "gpu-process": [
        ("(GPU to another process's GPU|another process's GPU to a GPU)$", "tranship", 0.97),
        ("GPU to another process's GPU, transposed", "tranship", 0.92),
        ("GPU to another process's GPU, 16384", "tranship", 0.7),
        (".*another process's shared", "tranship", 0.95),
        (".*another process's plain", "tranship", 0.85),
    ],
    "gpu-images": [("", "tranship", 0.9)],
    "gpu-lanes": [(".* over 2 links", "tranship", 1.9)],
    "gpu-lanes-processes": [
        ("", "against the best fixed choice", 0.9),
        ("pageable|device to pageable", "tranship", 0.9),
    ],
    "gpu-file": [("", "device", 0.95)],
    "gpu-lists": [
        (r".*4096 B, within a GPU", "tranship", 0.85),
        (r".*4096 B, GPU to another process's GPU", "tranship", 0.8),
        (r".*4096 B, GPU to another process's shared", "tranship", 0.75),
        (r".*4096 B, GPU to another process's plain", "tranship", 0.5),
        (r".* 512 B, within a GPU", "tranship", 0.42),
        (r".* 512 B, GPU to another process's GPU", "tranship", 0.4),
        (r".* 512 B, GPU to another process's shared", "tranship", 0.37),
        (r".* 512 B, GPU to another process's plain", "tranship", 0.25),
    ],
    "gpu-messages": [
        ("SPECFEM3D_oc", "tranship", 1.54),
        ("SPECFEM3D_cm", "tranship", 1.67),
        ("WRF_y_sa", "tranship", 1.61),
        ("", "tranship", 1.0),
    ],
    "gpu-halo": [("520x350x60", "tranship", 1.5)],
    "gpu-collective": [("", "tranship", 0.9)],
    "gpu-mpi": [("12 B of 24 B", "tranship", 100)],
    "gpu-shapes": [
        ("least of round", "tranship", 0.8),
        ("median of round", "tranship", 0.93),
        ("tenth of (odd|sliced), 4", "tranship", 0.68),
        ("median of (odd|sliced), 4", "tranship", 0.85),
        ("tenth of (odd|sliced), 1", "tranship", 0.45),
        ("median of (odd|sliced), 1", "tranship", 0.65),
    ],
    "gpu-peer-shapes": [("median of (round|odd), 4", "tranship", 0.9)],
    "gpu-staging": [
        (".* of a GPU, server on", "(put|get)", 0.9),
        (".* of a GPU", "(put|get)", 0.95),
    ],
    "gpu-staging-first-use": [("", "(first|second) put", 0.5)],
    "gpu-staging-designs": [("", "direct", 2.13)],
    "gpu-reassembly": [("", "one launch", 0.85)],
}
"""Least ratios. Of several that a line matches, the first one applies."""

TIMES: dict[str, list[tuple[str, str, float]]] = {
    "small": [
        ("4 KiB in this process, tranship from Python over memcpy", "", 6e-7),
        ("8 B", "tranship, (plain|shared) array, from Python", 4e-6),
    ],
    "peer-death": [("", "shared memory", 0.2), ("", "TCP", 2.0)],
    "planning": [
        (".*: 1-D", "full", 2e-5),
        (".*: 2-D", "full", 6e-5),
        ("", "full", 1e-3),
        ("", "simple", 1e-6),
    ],
    "staging": [("(put|get) 8 KiB$", "(put|get)$", 2e-5)],
    "gpu-process": [("(8|65536) B", "tranship", 15e-6)],
    "gpu-halo": [("128x64x64, 1 field, width 1(, 2 GPUs)?$", "tranship", 35e-6)],
}
"""Longest times in seconds."""

TARGETS = (
    Target("conversions", "median of the conv", "tranship", "ratio", 0.9),
    Target("conversions", "", "tranship", "ratio", 0.7, "memcpy"),
    Target("conversions", "", "tranship", "ratio", 0.95, "contiguous"),
    *(Target(name, *row[:2], "ratio", row[2]) for name, rows in RATIOS.items() for row in rows),
    *(Target(name, *row[:2], "median_s", row[2]) for name, rows in TIMES.items() for row in rows),
    Target("pieces", "16384 pieces of 512 B$", "tranship, plain", "gbps", 6.0),
    Target("file", "", "transposed", "slowdown", 1.3),
    Target("priority", "1 MiB at high priority$", "behind", "slowdown", 1.5),
    Target("gpu-priority", "1 MiB behind", "tranship", "slowdown", 1.3),
    Target("remote-gpu", "100M elements", "part 3, CUDA IPC", "slowdown", TIMES_LOCAL_MAX),
    Target("prediction", "predictions within", "tranship", "share", 0.9),
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
    return float(line["median_s" if measure == "share" else measure])


def concerns(target: Target, line: Line) -> bool:
    """Returns whether a target applies to a line."""
    return (
        line["bench"] == target.bench
        and target.baseline in ("", line.get("baseline"))
        and re.match(target.case, line["case"]) is not None
        and re.match(target.variant, line["variant"]) is not None
    )


def judge(lines: Iterable[Line]) -> Iterator[Verdict]:
    """Yields a verdict for each line and measure with a target; lines of small size do not count.

    Of several targets with one measure, the first one applies.
    """
    for line in lines:
        if line.get("conditions", {}).get("size") == "small":
            continue
        judged = set()
        for target in TARGETS:
            if target.measure in judged or not concerns(target, line):
                continue
            judged.add(target.measure)
            value = value_of(target.measure, line)
            if value is not None:
                yield Verdict(target, line, value)
