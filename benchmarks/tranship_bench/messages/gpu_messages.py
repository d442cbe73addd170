"""DDTBench's messages from a GPU to another process's GPU and back, by several designs.

The latency-oriented design is that to which Maximal Overlap (IPDPS'16) compares itself: one
stream, and a wait for the GPU after each step (pack, wire, unpack).

Every case goes straight, and packed, beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from tranship.typed_ends import packed_places

from ..gpu.copies import Side
from ..gpu.crew import LATENCY_ORIENTED, WIRE, Member, open_crew
from ..harness import Bench, blank, nothing, random_bytes
from ..registry import measures
from .ddtbench import cases, one_of_each

__all__ = ["gpu_messages"]

BEGINS_AT = 256
"""Bytes to whose multiples arrays are aligned."""


class MessageMember(Member):
    """One process that sends a message and receives one."""

    def load(self, case: str) -> None:
        parts = dict(cases())[case]()
        self.kinds = [part.type for part in parts]
        self.sizes = [-(-kind.true_upper_bound // BEGINS_AT) * BEGINS_AT for kind in self.kinds]
        ends = [int(end) for end in np.cumsum(self.sizes)]
        self.begins = [0, *ends[:-1]]
        span, nbytes = ends[-1], sum(kind.nbytes for kind in self.kinds)
        self.content = [random_bytes(span, rank + 1) for rank in (0, 1)]
        source, self.target = (Side(self.engine, self.device, (span,), "u1") for _ in range(2))
        out, self.arrived = (Side(self.engine, self.device, (nbytes,), "u1") for _ in range(2))
        self.source, self.out = source.array, out.array
        source.write(self.content[self.rank])
        self.wanted = blank(span)
        packed = self.engine.pack(self.parts_of(self.content[1 - self.rank]), self.kinds)
        self.engine.unpack(packed, self.parts_of(self.wanted), self.kinds)
        self.export("target", self.target.array)
        self.export("arrived", self.arrived.array)

    def connect(self) -> None:
        engine, kinds, places = self.engine, self.kinds, packed_places(self.kinds)
        source, target = self.parts_of(self.source), self.parts_of(self.target.array)
        peer = self.peers[1 - self.rank]
        assert peer is not None
        # The types count from the first byte of the other process's one array.
        spans = self.parts_of(peer["target"])
        self.direct = engine.prepare_all(
            list(zip(source, spans, strict=True)), types=list(zip(kinds, kinds, strict=True))
        )
        self.pack = engine.prepare_all(
            [(array, self.out) for array in source], types=list(zip(kinds, places, strict=True))
        )
        self.wire = engine.prepare(self.out, peer["arrived"])
        self.unpack = engine.prepare_all(
            [(self.arrived.array, array) for array in target],
            types=list(zip(places, kinds, strict=True)),
        )

    def parts_of(self, memory: Any) -> list[Any]:
        """Returns the arrays of the message in one block of memory."""
        pairs = zip(self.begins, self.sizes, strict=True)
        return [memory[begin : begin + size] for begin, size in pairs]

    def spoil(self) -> None:
        self.target.spoil()
        self.arrived.spoil()

    def right(self) -> bool:
        return self.target.holds(self.wanted)

    def ways(self) -> Mapping[str, Callable[[], None]]:
        def step_by_step() -> None:
            self.pack.start().wait(timeout=60)
            self.wire.start().wait(timeout=60)

        def chained() -> None:
            self.wire.start(after=self.pack.start()).wait(timeout=60)

        def done(copy: Any) -> None:
            copy.start().wait(timeout=60)

        wire, unpack, direct = (
            partial(done, copy) for copy in (self.wire, self.unpack, self.direct)
        )
        return {
            "tranship": partial(self.there_and_back, direct, nothing),
            "tranship, packed": partial(self.there_and_back, chained, unpack),
            LATENCY_ORIENTED: partial(self.there_and_back, step_by_step, unpack),
            WIRE: partial(self.there_and_back, wire, nothing),
        }

    def there_and_back(self, send: Callable[[], object], receive: Callable[[], object]) -> None:
        """Sends a message and receives one; the second process receives first."""
        if self.rank == 1:
            self.steps.follow()
            receive()
        send()
        self.steps.tell()
        if self.rank == 0:
            self.steps.follow()
            receive()


@measures(
    "gpu-messages",
    "DDTBench's messages from a GPU to another process's GPU and back, by several designs",
)
def gpu_messages(bench: Bench) -> None:
    """Measures every case of DDTBench; in small size, the smallest of each."""
    names = [name for name, _ in (cases() if bench.full else one_of_each(cases()))]
    with open_crew(bench, MessageMember, 2) as crew:
        for name in names:
            crew.load(name)
            member = crew.member
            assert isinstance(member, MessageMember)
            crew.measure(name, member.out.nbytes, LATENCY_ORIENTED, (WIRE,), 2)
