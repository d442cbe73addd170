"""The remote-GPU experiment in a few lines: times of each part beside the local GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..results import Line
from ..targets import TIMES_LOCAL_MAX
from .options import elements_text

__all__ = ["PAPER", "table_lines"]

SHOWN = 100_000_000
"""Largest size of the paper's Figure 5, in elements."""

PAPER = (
    "the paper (text; its figures give no numbers): direct as fast as local or faster; "
    "pinned faster than pageable"
)


def table_lines(lines: list[Line]) -> Iterator[str]:
    """Yields tables of the largest size of Figure 5, and of the size with the most results."""
    counts = Counter(line["conditions"]["elements"] for line in lines)
    if not counts:
        return
    fullest = max(counts, key=lambda size: (counts[size], min(size, SHOWN), -size))
    for size in dict.fromkeys([fullest, SHOWN if SHOWN in counts else fullest]):
        yield from table_of([line for line in lines if line["conditions"]["elements"] == size])
    yield f"  {PAPER}"


def table_of(rows: list[Line]) -> Iterator[str]:
    """Yields the lines of what was measured at one size."""
    yield f"{rows[0]['case']}: latency (all copies without the GPU's computing time)"
    yield f"  {'':34} {'median':>11} {'mean':>11} {'deviation':>11} {'GB/s':>7} {'x local':>8}"
    for line in rows:
        own = line["conditions"]
        times = [line["median_s"], own["mean_s"], own["deviation_s"]]
        texts = " ".join(f"{1e3 * value:>8.3f} ms" for value in times)
        ratio = f"{1 / line['ratio']:8.2f}" if line.get("baseline") == "local" else ""
        yield f"  {line['variant']:34} {texts} {line['gbps']:7.2f} {ratio}".rstrip()
    yield from comparisons(rows)


def comparisons(rows: list[Line]) -> Iterator[str]:
    """Yields the parts of each transport beside each other, and direct beside local."""
    parts: dict[str, dict[int, float]] = {}
    for line in rows:
        own = line["conditions"]
        if own["part"]:
            # CUDA IPC is the direct way on one machine; its other parts use shared memory.
            name = "one machine" if own["transport"].endswith(("IPC", "memory")) else ""
            parts.setdefault(name or own["transport"], {})[own["part"]] = line["median_s"]
    for transport, seconds in parts.items():
        if {1, 2, 3} <= seconds.keys():
            order = sorted(seconds, key=lambda part: seconds[part])
            words = " < ".join(f"part {part}" for part in order)
            verdict = "as the paper's" if order == [3, 2, 1] else "NOT the paper's (3 < 2 < 1)"
            yield (
                f"  {transport}: {words}, {verdict}; part 2 over 3: {seconds[2] / seconds[3]:.2f}, "
                f"part 1 over 2: {seconds[1] / seconds[2]:.2f}"
            )
    local = [line["median_s"] for line in rows if line["variant"] == "local"]
    direct = parts.get("one machine", {}).get(3)
    if local and direct:
        ratio = direct / local[0]
        yield f"  part 3 on one machine: {ratio:.2f} x local; {verdict_text(rows[0], ratio)}"


def verdict_text(line: Line, ratio: float) -> str:
    """Returns the target, and whether it is reached at the paper's size on a real GPU."""
    target = f"target for {elements_text(SHOWN)} elements on a real GPU: at most {TIMES_LOCAL_MAX}"
    if line["conditions"]["elements"] != SHOWN or "emulated" in line["case"]:
        return target
    return f"{target}, {'reached' if ratio <= TIMES_LOCAL_MAX else 'MISSED'}"
