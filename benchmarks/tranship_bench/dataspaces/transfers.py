"""Puts and gets of the staging service as simulated tasks, in the designs of `workflows`.

The request for room to the server precedes a put, and the commit follows it; requests to the
servers for the locations of the objects precede a get.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tranship import _core

from ..isometry.places import Shape
from ..isometry.simulated import Run
from .grids import Box, Grid
from .machine import SERVICE_S, Channels, Cluster, Place

TRANSHIP = "tranship"
ELEMENT_BYTES = 8
Tasks = list[int]


Piece = tuple[int, Box]
"""The part of one object that a get takes: its server, and its box."""


class Workflow:
    """Puts and gets of variables over one domain, as tasks of a run.

    Args:
        run: Run to which the tasks are added.
        cluster: Positions of the processes.
        channels: Rates of the cluster's profile.
        grid: Decomposition among the writers; the readers use `grid.otherwise()`.
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
        """Adds a request to a server and its reply."""
        asked = self.run.compute(client.core, self.message_s, after=after)
        place = self.cluster.server(server)
        answered = self.run.compute(place.core, SERVICE_S, after=[asked])
        return [self.run.compute(client.core, self.message_s, after=[answered])]

    def ask_each(self, client: Place, servers: Sequence[int], after: Sequence[int]) -> Tasks:
        """Adds requests to several servers, one after another, as the client sends them."""
        tasks = list(after)
        for server in servers:
            tasks = self.ask(client, server, tasks)
        return tasks

    def owners(self, variable: str, grid: Grid) -> list[list[int]]:
        """Returns the servers of each box of a grid, from the service's own placement."""
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
        """Adds the put of one writer's object and returns the tasks that end it."""
        writer = self.cluster.writer(rank)
        primary, *others = self.owners(variable, self.grid)[rank]
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
        """Adds the transfer of an object for which the server has reserved room."""
        if design == TRANSHIP:
            return [self.send(writer.device, server.pinned, shape, after)]
        if design == "direct":
            return [self.hop(writer.device, server.pinned, shape, after)]
        stage = writer.host if design == "baseline" else writer.pinned
        staged = self.hop(writer.device, stage, shape, after)
        return [self.send(stage, server.pinned, shape, [staged])]

    # gets

    def get(self, design: str, rank: int, variable: str, after: Sequence[int]) -> Tasks:
        """Adds the get of one reader's box and returns the tasks that end it."""
        reader, box = self.cluster.reader(rank), self.readers.box(rank)
        primaries = self.owners(variable, self.grid)
        pieces = [(primaries[writer][0], part) for writer, part in self.grid.meeting(box)]
        found = self.ask_each(reader, self.owners(variable, self.readers)[rank], after)
        got = self.get_data(design, reader, pieces, box, found)
        # A message to each server that lent objects releases them.
        return self.ask_each(reader, sorted({server for server, _ in pieces}), got)

    def get_data(
        self, design: str, reader: Place, pieces: list[Piece], box: Box, after: Tasks
    ) -> Tasks:
        """Adds the transfers of a box whose objects have been located."""
        if design in ("baseline", "strong baseline"):
            return self.through_host(design, reader, pieces, box, after)
        device = reader.device
        tasks = []
        for server, part in pieces:
            shape, source = vector(part.cells), self.cluster.server(server).pinned
            if design == "hybrid":
                received = self.send(source, reader.pinned, shape, after)
                tasks.append(self.hop(reader.pinned, device, shape, [received]))
            elif design == TRANSHIP:
                tasks.append(self.send(source, device, shape, after))
            else:
                tasks.append(self.hop(source, device, shape, after))
        if design == TRANSHIP:
            return [self.hop(device, device, vector(box.cells), tasks)]
        return [
            self.hop(device, device, vector(part.cells), [arrived])
            for (_, part), arrived in zip(pieces, tasks, strict=True)
        ]

    def through_host(
        self, design: str, reader: Place, pieces: list[Piece], box: Box, after: Tasks
    ) -> Tasks:
        """Adds copies of all objects to pinned memory, their assembly, and the copy to the GPU."""
        received = [
            self.send(self.cluster.server(server).pinned, reader.pinned, vector(part.cells), after)
            for server, part in pieces
        ]
        whole = vector(box.cells)
        if design == "strong baseline":
            together = [self.hop(reader.pinned, reader.pinned, whole, received)]
            return [self.hop(reader.pinned, reader.device, whole, together)]
        together = list(received)
        for _, part in pieces:  # one thread copies line by line (section 4.2)
            line = part.shape[-1] * ELEMENT_BYTES
            seconds = part.cells * ELEMENT_BYTES / self.channels.line_rate(line)
            together = [self.run.compute(reader.core, seconds, after=[*received, *together])]
        return [self.hop(reader.host, reader.device, whole, together)]

    # copies

    def hop(self, source: str, target: str, shape: Shape, after: Sequence[int]) -> int:
        """Adds a copy over the one channel between two memories."""
        return self.run.copy((source, target), shape, after=after, through=[source, target])

    def send(self, source: str, target: str, shape: Shape, after: Sequence[int]) -> int:
        """Adds a copy between nodes, over the path that the planner chooses."""
        return self.run.copy((source, target), shape, after=after, lanes=self.cluster.lanes)


@cache
def vector(cells: int) -> Shape:
    """Returns the shape of data that go as one run: a whole object, or whole slabs of it."""
    return Shape({"x": cells}, {"value": "f8"})
