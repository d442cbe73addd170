"""The paper's names of memories, the arrays that its benchmarks move, and Realm's paths."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

WORDS = {
    "SYS": "host0",
    "ZCM": "pinned0",
    "REG": "registered0",
    "FBM": "device0",
    "DSK": "file0",
}
"""Names of memories in the paper (Table 1), each with its name in profiles."""

INSTANCE_POINTS = 4 << 20
INSTANCE_FIELDS = 8


@dataclass(frozen=True)
class Shape:
    """The shape of a copy: the extents, the fields, and the layouts of source and target.

    The default layouts are "F" and then the dimensions in order: an array of structures.
    """

    extents: dict[str, int]
    fields: dict[str, str] = field(default_factory=lambda: {"value": "f4"})
    source_layout: str = ""
    target_layout: str = ""

    @property
    def bytes(self) -> int:
        """Returns the bytes of the array."""
        point = sum(np.dtype(kind).itemsize for kind in self.fields.values())
        return math.prod(self.extents.values()) * point

    @property
    def layouts(self) -> tuple[str, str]:
        """Returns the layouts of the source and of the target."""
        plain = ",".join(["F", *self.extents])
        return self.source_layout or plain, self.target_layout or plain

    @property
    def converts(self) -> bool:
        """Returns whether source and target differ in layout."""
        return self.layouts[0] != self.layouts[1]


def instance_shape(*, converts: bool = False, points: int = INSTANCE_POINTS) -> Shape:
    """Returns an instance of the microbenchmarks (6.1, 6.3): one dimension, 8 integers a point.

    Args:
        converts: Whether the copy converts an array of structures to a structure of arrays.
        points: Extent of the dimension; 4 Mi points are 128 MiB.
    """
    fields = {f"f{k}": "i4" for k in range(INSTANCE_FIELDS)}
    return Shape({"x": points}, fields, "F,x", "x,F" if converts else "F,x")


def vector_shape(count: int) -> Shape:
    """Returns a plain vector of `count` bytes, rounded up to whole floats."""
    return Shape({"x": -(-count // 4)})


def memory(word: str, node: int = 0) -> str:
    """Returns a memory's name in profiles: "FBM" is "node0/device0"; a star adds 1 to `node`."""
    bare = word.rstrip("*")
    return f"node{node + (bare != word)}/{WORDS[bare]}"


def node_of(name: str) -> str:
    """Returns the node of a memory."""
    return name.partition("/")[0]


def kind_of(name: str) -> str:
    """Returns the kind of a memory: the name without node and number."""
    return name.partition("/")[2].rstrip("0123456789")


def staged_path(ends: tuple[str, str], stage: str, *, converts: bool = False) -> list[str]:
    """Returns the memories of a copy by Legion with Realm (6.1): host memory next to each end.

    Args:
        ends: Source and target.
        stage: Host memory that holds the intermediate whole instances, such as "host0".
        converts: Whether the layout changes in a copy within host memory, where the path has a host
            memory; the conversion needs one more instance.
    """
    source, target = ends
    path = [source]
    remote = node_of(source) != node_of(target)
    outer = ("device", "file")
    if kind_of(source) in outer and (remote or kind_of(target) in outer):
        path.append(f"{node_of(source)}/{stage}")
    if remote and kind_of(target) in outer:
        path.append(f"{node_of(target)}/{stage}")
    path.append(target)
    if converts:
        first = next(k for k, name in enumerate(path) if kind_of(name) not in outer)
        path.insert(first, path[first])
    return path
