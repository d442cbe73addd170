"""Halo exchange: the ghost cells of blocks of grids are filled from their neighbours."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np

from .arguments import check_seconds, check_switch, check_whole, guard_methods, shown
from .errors import InvalidArgument, Timeout

__all__ = ["Halo"]

Direction = tuple[int, ...]
"""-1, 0 or 1 for each dimension: where a neighbour lies."""
Slices = tuple[slice, ...]
Neighbours = Mapping[Direction, Any]

DIMENSIONS_MAX = 8
"""Most dimensions of a copy."""
POLL_SECONDS = 50e-6
"""Pause between two looks whether a message has come, if the wait has a limit."""


@guard_methods
class Halo:
    """A halo exchange that was planned once. Make one by `Engine.halo`.

    A start reads the neighbours' cells beside the borders and writes the ghost cells of this
    process's fields, nothing else. Without a communicator it reads the neighbours' arrays directly:
    they are complete when it starts, and stay as they are until it has ended; processes agree on
    that themselves. With one, every process of the neighbourhood starts its exchange, and messages
    keep them in step.
    """

    def __init__(self, copies: Sequence[Any], messages: Messages | None = None) -> None:
        self._copies = list(copies)
        self._messages = messages
        self._events: list[Any] = []

    @property
    def nbytes(self) -> int:
        """Bytes of all ghost cells that one exchange fills."""
        own = sum(int(copy.nbytes) for copy in self._copies)
        return own + (self._messages.nbytes if self._messages else 0)

    def __repr__(self) -> str:
        parts = f"{len(self._copies)} direct copies"
        if self._messages:
            parts += f", {len(self._messages.received)} messages"
        return f"<Halo: {self.nbytes} bytes an exchange, {parts}>"

    def start(self, *, stream: Any = None) -> None:
        """Starts the exchange; do not touch the borders and the ghost cells until `wait`.

        Args:
            stream: As for `Engine.copy`.

        Raises:
            InvalidArgument: The exchange before has not been waited for.
        """
        if self._events or (self._messages and self._messages.under_way):
            raise InvalidArgument(
                "the exchange before has not been waited for", "call wait() between two starts"
            )
        if self._messages:
            self._messages.start(stream)
        self._events = [copy.start(stream=stream) for copy in self._copies]

    def wait(self, timeout: float | None = None) -> None:
        """Waits until the ghost cells are filled.

        Args:
            timeout: Seconds for all messages, and for each part that is read directly; None: no
                limit.

        Raises:
            Timeout: A neighbour has not started its exchange by then. Wait again.
        """
        if self._messages:
            self._messages.finish(timeout)
        while self._events:
            self._events[-1].wait(timeout)
            self._events.pop()

    def exchange(self, *, stream: Any = None) -> None:
        """Starts the exchange and waits for its end."""
        self.start(stream=stream)
        self.wait()


class Messages:
    """The part of an exchange that goes as MPI messages: one to and from each neighbour.

    In host memory each message is packed and sent, and each that has come is unpacked while the
    others are on their way. On a GPU all are packed by one launch, and unpacked by one.
    """

    def __init__(
        self,
        engine: Any,
        comm: Any,
        fields: Sequence[Field],
        ranks: Mapping[Direction, int],
        memory: Any,
    ) -> None:
        self.comm = comm
        self.stream: Any = None
        """What the last start was given."""
        self.running: list[Any] = []
        """Requests that were started and have not been waited for: receives, then sends."""
        self.sent: list[tuple[Any, int, int]] = []
        self.received: list[tuple[Any, int, int]] = []
        packs: list[list[tuple[Any, Any]]] = []
        unpacks: list[list[tuple[Any, Any]]] = []
        order = {direction: k for k, direction in enumerate(all_directions(fields[0].widths))}
        for direction, rank in ranks.items():
            opposite = tuple(-one for one in direction)
            borders = [field.border(direction) for field in fields]
            ghosts = [field.ghosts(direction) for field in fields]
            outgoing, incoming = (
                engine.empty(sum(nbytes_of(box) for box in boxes), "u1", memory=memory)
                for boxes in (borders, ghosts)
            )
            packs.append(list(zip(borders, parts_of(outgoing, borders), strict=True)))
            unpacks.append(list(zip(parts_of(incoming, ghosts), ghosts, strict=True)))
            self.sent.append((outgoing, rank, order[direction]))
            self.received.append((incoming, rank, order[opposite]))
        self.one_by_one = all(isinstance(field.array, np.ndarray) for field in fields)
        groups = (packs, unpacks) if self.one_by_one else (joined(packs), joined(unpacks))
        self.packs, self.unpacks = (
            [engine.prepare_all(pairs) for pairs in some] for some in groups
        )

        self.sends = [comm.Send_init(buffer, rank, tag) for buffer, rank, tag in self.sent]
        self.receives = [comm.Recv_init(buffer, rank, tag) for buffer, rank, tag in self.received]

    def __del__(self) -> None:
        requests = [*getattr(self, "sends", []), *getattr(self, "receives", [])]
        if not requests:
            return
        if getattr(self, "running", None):
            ABANDONED.append((requests, self.sent, self.received))  # MPI may still write there
            return
        from mpi4py import MPI

        if not MPI.Is_finalized():
            for request in requests:
                request.Free()

    @property
    def nbytes(self) -> int:
        """Bytes that arrive."""
        return sum(int(buffer.nbytes) for buffer, _, _ in self.received)

    @property
    def under_way(self) -> bool:
        """Whether messages were started and not waited for."""
        return bool(self.running)

    def start(self, stream: Any) -> None:
        """Packs and sends; receives in the background."""
        self.stream = stream
        for request in self.receives:
            request.Start()
        for k, request in enumerate(self.sends):
            if self.one_by_one or k == 0:
                self.packs[k].start(stream=stream).wait()
            request.Start()
        self.running = [*self.receives, *self.sends]

    def finish(self, timeout: float | None) -> None:
        """Waits for all messages, and unpacks."""
        end = None if timeout is None else time.monotonic() + check_seconds("timeout", timeout)
        count = len(self.receives) + len(self.sends)
        while self.running:
            if not ended_in_time(self.running[0], end):
                raise Timeout(
                    f"a neighbour's message has not come within {timeout} s",
                    "wait again, or look why the neighbour has not started its exchange",
                )
            number = count - len(self.running)
            if number < len(self.receives):
                if self.one_by_one:
                    self.unpacks[number].start(stream=self.stream).wait()
                elif number + 1 == len(self.receives):
                    self.unpacks[0].start(stream=self.stream).wait()
            self.running.pop(0)


def joined(groups: Sequence[list[Any]]) -> list[list[Any]]:
    """Returns all members as one group."""
    return [list(itertools.chain.from_iterable(groups))]


ABANDONED: list[Any] = []
"""Requests, with their buffers, of exchanges that were dropped before they were waited for."""


def ended_in_time(request: Any, end: float | None) -> bool:
    """Waits until a request has ended; returns False if it has not at a time of the clock."""
    if end is None:
        request.Wait()
        return True
    while not request.Test():
        if time.monotonic() >= end:
            return False
        time.sleep(POLL_SECONDS)
    return True


class Field:
    """One array of a block, with its ghost cells."""

    def __init__(self, array: Any, widths: Sequence[int], what: str) -> None:
        self.array = array
        self.widths = tuple(widths)
        shape = shape_of_field(array, what)
        if len(shape) != len(self.widths):
            raise InvalidArgument(
                f"{what} has {len(shape)} dimensions, and widths={self.widths} {len(self.widths)}",
                "give one width for each dimension, 0 where there are no ghost cells",
            )
        for extent, width in zip(shape, self.widths, strict=True):
            if extent < 3 * width:
                raise InvalidArgument(
                    f"{what} has {extent} cells in a dimension, fewer than ghost cells and "
                    f"borders of {width} on both sides need",
                    "give blocks of at least `width` cells beside their ghost cells",
                )
        self.shape = shape

    def ghosts(self, direction: Direction) -> Any:
        """Returns the ghost cells in a direction."""
        return self.box(direction, 0)

    def border(self, direction: Direction) -> Any:
        """Returns the block's own cells beside the border in a direction."""
        return self.box(direction, 1)

    def box(self, direction: Direction, inwards: int) -> Any:
        """Returns the cells of one width at a border, so many widths inwards."""
        return self.array[self.slices(direction, inwards)]

    def slices(self, direction: Direction, inwards: int) -> Slices:
        """Returns where these cells lie."""
        slices = []
        for step, extent, width in zip(direction, self.shape, self.widths, strict=True):
            low, high = width, extent - width
            if step < 0:
                low = inwards * width
                high = low + width
            elif step > 0:
                high = extent - inwards * width
                low = high - width
            slices.append(slice(low, high))
        return tuple(slices)


def shape_of_field(array: Any, what: str) -> tuple[int, ...]:
    """Returns an array's shape.

    Raises:
        InvalidArgument: It has none, or more dimensions than a copy.
    """
    shape = getattr(array, "shape", None)
    if not isinstance(shape, tuple) or not all(isinstance(extent, int) for extent in shape):
        raise InvalidArgument(f"{what} is {shown(array)}, which has no shape", "give an array")
    if len(shape) > DIMENSIONS_MAX:
        raise InvalidArgument(
            f"{what} has {len(shape)} dimensions, and a copy at most {DIMENSIONS_MAX}",
            "join dimensions without ghost cells",
        )
    return shape


def all_directions(widths: Sequence[int]) -> Iterator[Direction]:
    """Yields the directions of all faces, edges and corners that have ghost cells."""
    steps = [(-1, 0, 1) if width > 0 else (0,) for width in widths]
    return (one for one in itertools.product(*steps) if any(one))


def nbytes_of(box: Any) -> int:
    """Returns the bytes of a box of cells."""
    return int(np.prod(box.shape)) * int(box.dtype.itemsize)


def parts_of(buffer: Any, boxes: Sequence[Any]) -> Iterator[Any]:
    """Yields the parts of a message, as arrays of the boxes' shapes and types."""
    begin = 0
    for box in boxes:
        end = begin + nbytes_of(box)
        yield buffer[begin:end].view(box.dtype).reshape(box.shape)
        begin = end


def plan_halo(
    engine: Any,
    arrays: Any,
    widths: SupportsIndex | Sequence[SupportsIndex],
    neighbours: Neighbours | None,
    periodic: bool | Sequence[bool],
    comm: Any,
    memory: Any,
) -> Halo:
    """Returns the exchange; see `Engine.halo`."""
    given = list(arrays) if isinstance(arrays, (list, tuple)) else [arrays]
    if not given:
        raise InvalidArgument("arrays=[] has no fields", "give at least one array")
    rank = len(shape_of_field(given[0], "field 0"))
    width = width_list(widths, rank)
    if neighbours is not None and not isinstance(neighbours, Mapping):
        raise InvalidArgument(
            f"neighbours={shown(neighbours)} is not a mapping",
            "give neighbours by direction, as in {(-1, 0): array}",
        )
    fields = [Field(array, width, f"field {k}") for k, array in enumerate(given)]
    wraps = wrap_list(periodic, rank)
    if comm is None and neighbours is None and not any(wraps):
        raise InvalidArgument(
            "the block has no neighbours, so that nothing would be exchanged",
            "give neighbours=, comm= or periodic=",
        )
    if comm is not None:
        ranks = ranks_of(comm, width) if neighbours is None else dict(neighbours)
        check_directions(ranks, width)
        for array in given:
            if not isinstance(getattr(array, "dtype", None), np.dtype):
                raise InvalidArgument(
                    f"with comm= a field has a dtype of NumPy, which a {type(array).__name__} "
                    "has not",
                    "give NumPy or CuPy arrays, or those of Engine.empty",
                )
        messages = Messages(engine, comm, fields, ranks, memory)
        return Halo([], messages)
    around = dict(neighbours or {})
    check_directions(around, width)
    # A dimension with neighbours ends at them; in the others a block, also another one, is its own.
    alone = [wrap and not any(one[k] for one in around) for k, wrap in enumerate(wraps)]
    for direction in all_directions(width):
        rest = tuple(
            0 if wraps_here else step for wraps_here, step in zip(alone, direction, strict=True)
        )
        if rest != direction:
            found = around.get(rest) if any(rest) else given
            if found is not None:
                around[direction] = found
    return Halo(direct_copies(engine, fields, around))


def direct_copies(
    engine: Any, fields: Sequence[Field], neighbours: Mapping[Direction, Any]
) -> list[Any]:
    """Returns prepared copies from the neighbours' arrays, one for each set of arrays."""
    groups: dict[tuple[int, ...], list[tuple[Any, Any]]] = {}
    for direction, given in neighbours.items():
        theirs = list(given) if isinstance(given, (list, tuple)) else [given]
        if len(theirs) != len(fields):
            raise InvalidArgument(
                f"the neighbour at {direction} has {len(theirs)} fields, and this block "
                f"{len(fields)}",
                "give as many, in the same order",
            )
        opposite = tuple(-one for one in direction)
        pairs = groups.setdefault(tuple(id(array) for array in theirs), [])
        for field, array in zip(fields, theirs, strict=True):
            other = Field(array, field.widths, f"the neighbour at {direction}")
            pairs.append((other.border(opposite), field.ghosts(direction)))
    return [engine.prepare_all(pairs) for pairs in groups.values()]


def width_list(widths: Any, rank: int) -> list[int]:
    """Returns one width for each dimension."""
    several = np.iterable(widths) and not isinstance(widths, str | bytes)
    given = list(widths) if several else [widths] * rank
    return [check_whole("widths", one, least=0) for one in given]


def wrap_list(periodic: bool | Sequence[bool], rank: int) -> list[bool]:
    """Returns for each dimension whether it is periodic."""
    several = np.iterable(periodic) and not isinstance(periodic, str | bytes)
    wraps: list[Any] = list(periodic) if several else [periodic] * rank  # type: ignore[arg-type]
    if len(wraps) != rank:
        raise InvalidArgument(
            f"periodic={shown(periodic)} has {len(wraps)} values for {rank} dimensions",
            "give one for each dimension, or one for all",
        )
    return [check_switch("periodic", one) for one in wraps]


def check_directions(neighbours: Mapping[Direction, Any], widths: Sequence[int]) -> None:
    """Refuses what is no direction of a block.

    Raises:
        InvalidArgument: A key is none.
    """
    known = set(all_directions(widths))
    for direction in neighbours:
        if not isinstance(direction, tuple) or direction not in known:
            raise InvalidArgument(
                f"{shown(direction)} is no direction of a block with widths={tuple(widths)}",
                "give -1, 0 or 1 for each dimension, not all 0, and 0 where the width is 0",
            )


def ranks_of(comm: Any, widths: Sequence[int]) -> dict[Direction, int]:
    """Returns the neighbours' ranks of a Cartesian communicator, whose dimensions are those of the
    block, or those with ghost cells.

    Raises:
        InvalidArgument: It is not Cartesian, or has other dimensions.
    """
    try:
        dims, periods, coords = comm.Get_topo()
    except (AttributeError, ValueError):
        raise InvalidArgument(
            "comm is not a Cartesian communicator", "give one of Create_cart(), or neighbours="
        ) from None
    with_ghosts = [k for k, width in enumerate(widths) if width > 0]
    axes = list(range(len(widths))) if len(dims) == len(widths) else with_ghosts
    if len(axes) != len(dims):
        raise InvalidArgument(
            f"comm has {len(dims)} dimensions, and the block {len(with_ghosts)} with ghost cells",
            "give one of Create_cart() with as many",
        )
    ranks = {}
    for direction in all_directions(widths):
        place = [coord + direction[axis] for coord, axis in zip(coords, axes, strict=True)]
        inside = all(
            wraps or 0 <= one < extent
            for one, extent, wraps in zip(place, dims, periods, strict=True)
        )
        if inside:
            ranks[direction] = comm.Get_cart_rank(
                [one % extent for one, extent in zip(place, dims, strict=True)]
            )
    return ranks
