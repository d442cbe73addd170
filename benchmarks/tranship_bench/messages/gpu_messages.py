"""DDTBench's messages from a GPU to another process's GPU and back, by several designs.

The latency-oriented design is that to which Maximal Overlap (IPDPS'16) compares itself: one
stream, and a wait for the GPU after each step (pack, wire, unpack).

Every case goes straight, and packed, beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..gpu.copies import Side
from ..gpu.crew import LATENCY_ORIENTED, WIRE, Member, open_crew
from ..harness import Bench, blank, nothing, random_bytes
from ..registry import measures
from .ddtbench import Layout, cases, one_of_each, packing

__all__ = ["gpu_messages"]


class MessageMember(Member):
    """One process that sends a message and receives one."""

    def load(self, case: str) -> None:
        parts = dict(cases())[case]()
        self.layout = Layout([part.type for part in parts])
        kinds, span, nbytes = self.layout.kinds, self.layout.span, self.layout.nbytes
        self.content = [random_bytes(span, rank + 1) for rank in (0, 1)]
        source, self.target = (Side(self.engine, self.device, (span,), "u1") for _ in range(2))
        out, self.arrived = (Side(self.engine, self.device, (nbytes,), "u1") for _ in range(2))
        self.source, self.out = source.array, out.array
        source.write(self.content[self.rank])
        self.wanted = blank(span)
        arrays_in = self.layout.arrays_in
        packed = self.engine.pack(arrays_in(self.content[1 - self.rank]), kinds)
        self.engine.unpack(packed, arrays_in(self.wanted), kinds)
        self.export("target", self.target.array)
        self.export("arrived", self.arrived.array)

    def connect(self) -> None:
        engine, kinds, arrays_in = self.engine, self.layout.kinds, self.layout.arrays_in
        source, target = arrays_in(self.source), arrays_in(self.target.array)
        peer = self.peers[1 - self.rank]
        assert peer is not None
        # The types count from the first byte of the other process's one array.
        spans = arrays_in(peer["target"])
        self.direct = engine.prepare_all(
            list(zip(source, spans, strict=True)), types=list(zip(kinds, kinds, strict=True))
        )
        pairs, given = packing(source, self.out, kinds)
        self.pack = engine.prepare_all(pairs, types=given)
        self.wire = engine.prepare(self.out, peer["arrived"])
        pairs, given = packing(target, self.arrived.array, kinds, unpacks=True)
        self.unpack = engine.prepare_all(pairs, types=given)

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
