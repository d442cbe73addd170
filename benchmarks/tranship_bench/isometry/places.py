"""The paper's words for memories, the arrays that its benchmarks move, and Realm's ways."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

__all__ = [
    "WORDS",
    "Shape",
    "instance_shape",
    "kind_of",
    "memory",
    "node_of",
    "staged_path",
    "vector_shape",
    "word_of",
]

WORDS = {
    "SYS": "host0",
    "ZCM": "pinned0",
    "REG": "registered0",
    "FBM": "device0",
    "DSK": "file0",
}
"""Memories as the paper names them (Table 1), and as profiles do."""

INSTANCE_POINTS = 4 << 20
INSTANCE_FIELDS = 8


@dataclass(frozen=True)
class Shape:
    """What a copy moves: the extents, the fields, and the layouts of the two sides.

    The default layouts are "F" and then the dimensions in order: an array of structures.
    """

    extents: dict[str, int]
    fields: dict[str, str] = field(default_factory=lambda: {"value": "f4"})
    source_layout: str = ""
    target_layout: str = ""

    @property
    def bytes(self) -> int:
        """Size of the array."""
        point = sum(np.dtype(kind).itemsize for kind in self.fields.values())
        return math.prod(self.extents.values()) * point

    @property
    def layouts(self) -> tuple[str, str]:
        """Returns the layouts of the source and of the target."""
        plain = ",".join(["F", *self.extents])
        return self.source_layout or plain, self.target_layout or plain

    @property
    def converts(self) -> bool:
        """Whether the two sides differ in layout."""
        return self.layouts[0] != self.layouts[1]


def instance_shape(*, converts: bool = False, points: int = INSTANCE_POINTS) -> Shape:
    """An instance of the paper's microbenchmarks (6.1, 6.3): one dimension, 8 integers a point.

    Args:
        converts: from an array of structures to a structure of arrays.
        points: extent of the dimension; 4 Mi make 128 MiB.
    """
    fields = {f"f{k}": "i4" for k in range(INSTANCE_FIELDS)}
    return Shape({"x": points}, fields, "F,x", "x,F" if converts else "F,x")


def vector_shape(count: int) -> Shape:
    """A plain vector of `count` bytes, rounded up to whole floats."""
    return Shape({"x": -(-count // 4)})


def memory(word: str, node: int = 0) -> str:
    """The profile's name: "FBM" on node 0 is "node0/device0"; a star stands for the next node."""
    bare = word.rstrip("*")
    return f"node{node + (bare != word)}/{WORDS[bare]}"


def node_of(name: str) -> str:
    """The node of a memory."""
    return name.partition("/")[0]


def kind_of(name: str) -> str:
    """Its kind: the name without node and number."""
    return name.partition("/")[2].rstrip("0123456789")


def word_of(name: str) -> str:
    """The paper's word for a memory of a profile."""
    kinds = {place.rstrip("0123456789"): word for word, place in WORDS.items()}
    return kinds[kind_of(name)]


def staged_path(ends: tuple[str, str], stage: str, *, converts: bool = False) -> list[str]:
    """The memories that Legion goes through with Realm (6.1): host memory next to each end.

    Args:
        ends: source and target.
        stage: host memory that holds the whole instances on the way, such as "host0".
        converts: Whether the layout changes in a copy within host memory, where the path has a host
            memory; an instance more is made for it.
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
