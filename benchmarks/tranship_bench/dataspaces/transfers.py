"""Puts and gets of the staging service as simulated tasks, in the designs of the paper.

Senders (section 4.1), each after a request for room to the server and before the commit:

- *baseline*: the GPU's array to pageable memory; when it is there, over the network.
- *pipeline*: the same, and the request to the server runs while the GPU's array is copied.
- *strong baseline*: as the baseline, through pinned memory that the cards know.
- *direct*: from the GPU into the server's memory.
- *tranship*: the planner's own way.

Receivers (section 4.2), each after requests to the servers about where the objects are:

- *baseline*: all objects to host memory, put together there line by line by one thread, to the GPU.
- *strong baseline*: the same through pinned memory, put together by all threads.
- *hybrid*: each object to pinned memory, from there to the GPU, put in its place by a launch.
- *direct*: each object to the GPU, put in its place by a launch.
- *tranship*: the planner's own way to the GPU, and one launch for all objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from tranship import _core

from ..isometry.places import Shape
from ..isometry.simulated import Run
from .grids import Box, Grid
from .machine import SERVICE_S, Channels, Cluster, Place

__all__ = ["ELEMENT_BYTES", "TRANSHIP", "Workflow"]

TRANSHIP = "tranship"
ELEMENT_BYTES = 8
Tasks = list[int]


@dataclass(frozen=True)
class Piece:
    """What a get takes of one object."""

    server: int
    box: Box


class Workflow:
    """Puts and gets of variables over one domain, as tasks of a run.

    Args:
        run: what they are added to.
        cluster: where the processes are.
        channels: rates of its profile.
        grid: how the writers cut the domain; the readers cut it otherwise.
    """

    def __init__(self, run: Run, cluster: Cluster, channels: Channels, grid: Grid) -> None:
        self.run = run
        self.cluster = cluster
        self.channels = channels
        self.grid = grid
        self.readers = grid.otherwise()
        self.message_s = channels.message_s()
        self._owners: dict[tuple[str, Grid], list[list[int]]] = {}

    # messages

    def ask(self, client: Place, server: int, after: Sequence[int]) -> Tasks:
        """A question to a server, and its answer."""
        asked = self.run.compute(client.core, self.message_s, after=after)
        place = self.cluster.server(server)
        answered = self.run.compute(place.core, SERVICE_S, after=[asked])
        return [self.run.compute(client.core, self.message_s, after=[answered])]

    def ask_each(self, client: Place, servers: Sequence[int], after: Sequence[int]) -> Tasks:
        """One after another, as the client does it."""
        tasks = list(after)
        for server in servers:
            tasks = self.ask(client, server, tasks)
        return tasks

    def primaries(self, variable: str) -> list[list[int]]:
        """Of each writer's object the server that holds it, then the others that know of it."""
        return self.owners(variable, self.grid)

    def owners(self, variable: str, grid: Grid) -> list[list[int]]:
        """The same for the boxes of another grid; the service itself says so."""
        key = (variable, grid)
        if key not in self._owners:
            self._owners[key] = _core.staging_places(
                variable,
                self.cluster.servers,
                ELEMENT_BYTES,
                self.grid.box(0).corners,
                [box.corners for box in grid.boxes()],
                ([0] * len(grid.cells), list(grid.cells)),
            )
        return self._owners[key]

    # puts

    def put(self, design: str, rank: int, variable: str, after: Sequence[int]) -> Tasks:
        """One writer's object; what ends it."""
        writer = self.cluster.writer(rank)
        primary, *others = self.primaries(variable)[rank]
        server = self.cluster.server(primary)
        shape = vector(self.grid.box(rank).cells)
        if design == "pipeline":
            staged = [self.hop(writer.device, writer.host, shape, after)]
            room = self.ask_each(writer, [primary, *others], after)
            sent = [self.send(writer.host, server.pinned, shape, [*staged, *room])]
        else:
            room = self.ask_each(writer, [primary, *others], after)
            sent = self.put_data(design, writer, server, shape, room)
        return self.ask_each(writer, [primary, *others], sent)

    def put_data(
        self, design: str, writer: Place, server: Place, shape: Shape, after: Tasks
    ) -> Tasks:
        """The bytes of an object that has room."""
        if design == TRANSHIP:
            return [self.send(writer.device, server.pinned, shape, after)]
        if design == "direct":
            return [self.hop(writer.device, server.pinned, shape, after)]
        stage = writer.host if design == "baseline" else writer.pinned
        staged = self.hop(writer.device, stage, shape, after)
        return [self.send(stage, server.pinned, shape, [staged])]

    # gets

    def pieces(self, rank: int, variable: str) -> list[Piece]:
        """What a reader takes from which server."""
        primaries = self.primaries(variable)
        return [
            Piece(primaries[writer][0], box)
            for writer, box in self.grid.meeting(self.readers.box(rank))
        ]

    def get(self, design: str, rank: int, variable: str, after: Sequence[int]) -> Tasks:
        """One reader's box; what ends it."""
        reader = self.cluster.reader(rank)
        found = self.ask_each(reader, self.owners(variable, self.readers)[rank], after)
        pieces = self.pieces(rank, variable)
        got = self.get_data(design, reader, pieces, self.readers.box(rank), found)
        # Each server that lent objects is told that they have been read.
        lenders = sorted({piece.server for piece in pieces})
        return self.ask_each(reader, lenders, got)

    def get_data(
        self, design: str, reader: Place, pieces: list[Piece], box: Box, after: Tasks
    ) -> Tasks:
        """The bytes of a box whose objects have been found."""
        if design in ("baseline", "strong baseline"):
            return self.through_host(design, reader, pieces, box, after)
        tasks = []
        for piece in pieces:
            shape = vector(piece.box.cells)
            source = self.cluster.server(piece.server).pinned
            if design == "hybrid":
                received = self.send(source, reader.pinned, shape, after)
                arrived = self.hop(reader.pinned, reader.device, shape, [received])
            elif design == TRANSHIP:
                arrived = self.send(source, reader.device, shape, after)
            else:
                arrived = self.hop(source, reader.device, shape, after)
            tasks.append(arrived)
        if design == TRANSHIP:
            return [self.hop(reader.device, reader.device, vector(box.cells), tasks)]
        return [
            self.hop(reader.device, reader.device, vector(piece.box.cells), [arrived])
            for piece, arrived in zip(pieces, tasks, strict=True)
        ]

    def through_host(
        self, design: str, reader: Place, pieces: list[Piece], box: Box, after: Tasks
    ) -> Tasks:
        """All objects to pinned memory, as the cards need it, put together, and to the GPU."""
        received = []
        for piece in pieces:
            source = self.cluster.server(piece.server).pinned
            shape = vector(piece.box.cells)
            received.append(self.send(source, reader.pinned, shape, after))
        whole = vector(box.cells)
        if design == "strong baseline":
            together = [self.hop(reader.pinned, reader.pinned, whole, received)]
            return [self.hop(reader.pinned, reader.device, whole, together)]
        together = list(received)
        for piece in pieces:
            seconds = self.line_by_line_s(piece.box)
            together = [self.run.compute(reader.core, seconds, after=[*received, *together])]
        return [self.hop(reader.host, reader.device, whole, together)]

    def line_by_line_s(self, box: Box) -> float:
        """One thread copies an object's part to its place, a line at a time (4.2)."""
        line = box.shape[-1] * ELEMENT_BYTES
        return box.cells * ELEMENT_BYTES / self.channels.line_rate(line)

    # copies

    def hop(self, source: str, target: str, shape: Shape, after: Sequence[int]) -> int:
        """Over the one channel between two memories."""
        return self.run.copy((source, target), shape, after=after, through=[source, target])

    def send(self, source: str, target: str, shape: Shape, after: Sequence[int]) -> int:
        """Between nodes, as the planner has it."""
        return self.run.copy((source, target), shape, after=after, lanes=self.cluster.lanes)


@cache
def vector(cells: int) -> Shape:
    """What goes as one run: a whole object, or whole slabs of it."""
    return Shape({"x": cells}, {"value": "f8"})
