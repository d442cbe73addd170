"""The cost of making a plan, on profiles of clusters: a new plan, and one from the cache.

- What a plan costs to make: new ones of the simple and the full planner, and one from the cache; a
  GPU to a GPU of another node, on the profiles of Sapling and of nodes with eight H200. Nothing is
  moved.
- Follows: Isometry (ICS'18), sections 4.4, 6.3 and 6.5: 12-102 us for a full plan, 2-9 us for a
  simple one.
"""

from __future__ import annotations

from typing import Any

from tranship import _core, profiles

from ..harness import Bench
from ..registry import measures

Extents = list[tuple[str, int]]
Fields = list[tuple[str, str, int]]

ONE: Fields = [("f", "V16", 16)]
TWO: Fields = [("a", "f8", 8), ("b", "f4", 4)]
EIGHT: Fields = [(f"f{k}", "i4", 4) for k in range(8)]
LINE: Extents = [("x", 4 << 20)]
PLANE: Extents = [("x", 4096), ("y", 4096)]
SPACE: Extents = [("x", 256), ("y", 256), ("z", 256)]
HYPERSPACE: Extents = [("x", 64), ("y", 64), ("z", 64), ("w", 64)]

CASES: list[tuple[str, Extents, Fields, str, str]] = [
    ("1-D, one field, same layout", LINE, ONE, "F, x", "F, x"),
    ("1-D, eight fields, AOS to SOA", LINE, EIGHT, "F, x", "x, F"),
    ("2-D, one field, same layout", PLANE, ONE, "F, x, y", "F, x, y"),
    ("2-D, one field, transposed", PLANE, ONE, "F, x, y", "F, y, x"),
    ("3-D, two fields, reversed", SPACE, TWO, "F, x, y, z", "z, y, F, x"),
    ("4-D, two fields, reversed", HYPERSPACE, TWO, "F, x, y, z, w", "w, z, F, y, x"),
]


@measures("planning", "what a plan costs to make, on profiles of clusters")
def planning(bench: Bench) -> None:
    """Measures GPU to GPU of another node, on Sapling and between nodes of eight H200."""
    count = bench.pick(2000, 20)
    for machine in ("sapling", "h200-8"):
        profile = profiles.load(machine)
        for name, extents, fields, source, target in CASES:
            ends: tuple[Any, Any] = (("node0/device0", source), ("node1/device0", target))
            for planner in ("simple", "full"):
                seconds = [
                    _core.plan_on(profile, *ends, extents, fields, planner=planner)[3]
                    for _ in range(count)
                ]
                case, how = f"{machine}: {name}", {"plans": count, "timed": "core"}
                bench.emit(case, planner, 0, seconds, conditions=how)
