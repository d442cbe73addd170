"""Random sequences of calls between arrays in all memories, beside the same steps in NumPy.

Copies, lists of copies, pages and pieces, and prepared copies, of two engines, follow each other by
events alone or are waited for; many come again, as in a simulation's loop, after the caller has
changed the data. Some move nothing, and are followed all the same. Some calls are refused, which
must change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_support import content, filled
from memories import MEMORIES, PEERS, Places, some_pieces

import tranship as ts
from support import Slow

Array = np.ndarray[Any, Any]

TYPES = ("u1", "i2", "f4", "f8", "c16", "V3")
CALLS = 60
WAIT_S = 60.0


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    """Yields engines with arrays of all places."""
    with ExitStack() as stack:
        yield Places(stack)


@dataclass(eq=False)
class Held:
    """An array of one memory, and what it has to hold.

    Attributes:
        place: name of the memory.
        array: as the engine under test sees it.
        lies: as its owner sees it.
        values: what it holds once the calls so far have ended.
        events: of the calls so far that read or write it.
    """

    place: str
    array: Any
    lies: Any
    values: Array
    events: list[ts.Event] = field(default_factory=list)

    @property
    def in_host_memory(self) -> bool:
        return isinstance(self.array, np.ndarray)


@dataclass(eq=False)
class Part:
    """A part of an array: indices, and an order of the dimensions that are left."""

    held: Held
    key: tuple[Any, ...]
    order: tuple[int, ...]

    def of(self, array: Any) -> Any:
        part = array[self.key]
        in_order = self.order == tuple(range(len(self.order)))
        return part if in_order else part.transpose(self.order)

    @property
    def array(self) -> Any:
        return self.of(self.held.array)

    @property
    def values(self) -> Array:
        values: Array = self.of(self.held.values)
        return values


@dataclass(eq=False)
class Call:
    """A call that may come again: how to make it, and the same on the expected values."""

    arrays: list[Held]
    start: Callable[..., ts.Event]
    expect: Callable[[], None]


class Run:
    """The arrays of one sequence, and the calls on them."""

    def __init__(self, places: Places, folder: Path, seed: int) -> None:
        self.places = places
        self.engine = places.engine
        self.folder = folder
        self.random = np.random.default_rng(seed)
        self.type = np.dtype(TYPES[int(self.random.integers(len(TYPES)))])
        self.arrays = [self.held(place) for place in (*MEMORIES, *PEERS, "host", "file")]
        self.calls: list[Call] = []

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def fresh(self, shape: Sequence[int]) -> Array:
        count = int(np.prod(shape)) * self.type.itemsize
        values: Array = self.random.integers(0, 256, count, np.uint8)
        return values.view(self.type).reshape(shape)

    def held(self, place: str) -> Held:
        rank = int(self.random.integers(1, 4))
        most = 10 ** self.random.uniform(1, 5.3)
        sides = most ** (1 / rank) * self.random.uniform(0.5, 1.5, rank)
        values = self.fresh([max(2, int(side)) for side in sides])
        if place == "file":
            return self.file(values)
        array, lies = self.places.put(values, place)
        return Held(place, array, lies, values)

    def file(self, values: Array) -> Held:
        path = self.folder / "values.bin"
        path.write_bytes(values.tobytes())
        array = ts.File(path, extents=values.shape, fields=self.type.str, mode="r+")
        return Held("file", array, path, values)

    def two(self) -> tuple[Held, Held]:
        source, target = self.random.permutation(len(self.arrays))[:2]
        return self.arrays[source], self.arrays[target]

    # --- parts of arrays ---

    def along(self, extent: int, count: int, backwards: bool) -> slice:
        """Draws a range of `count` indices of a dimension."""
        step_most = (extent - 1) // max(count - 1, 1)
        step = int(self.random.integers(1, step_most + 1)) if self.chance(0.3) and step_most else 1
        reach = max(count - 1, 0) * step
        first = int(self.random.integers(0, extent - reach))
        if count == 0:
            return slice(first, first)
        if backwards and first > 0:
            return slice(first + reach, first - 1, -step)
        return slice(first, first + reach + 1, step)

    def part(self, held: Held, axes: list[int], counts: list[int]) -> Part:
        """Draws a part of so many indices along these dimensions, and one index of the others."""
        shape = held.values.shape
        key: list[Any] = [int(self.random.integers(extent)) for extent in shape]
        for axis, count in zip(axes, counts, strict=True):
            backwards = held.in_host_memory and self.chance(0.1)
            key[axis] = self.along(shape[axis], count, backwards)
        left = sorted(axes)
        return Part(held, tuple(key), tuple(left.index(axis) for axis in axes))

    def equal_parts(self, *arrays: Held) -> list[Part]:
        """Draws parts of the same shape; arrays of other processes keep their dimensions' order."""
        rank = min(held.values.ndim for held in arrays)
        axes = []
        for held in arrays:
            own = list(range(held.values.ndim))
            if held.place in MEMORIES and self.chance(0.4):
                self.random.shuffle(own)
            axes.append(own[:rank])
        counts = []
        for k in range(rank):
            most = min(held.values.shape[own[k]] for held, own in zip(arrays, axes, strict=True))
            counts.append(0 if self.chance(0.03) else int(self.random.integers(1, most + 1)))
        return [self.part(held, own, counts) for held, own in zip(arrays, axes, strict=True)]

    # --- calls ---

    def copies(self) -> Call:
        """One copy or several, at once or prepared."""
        count = 0 if self.chance(0.05) else int(self.random.integers(1, 4))
        drawn = self.random.permutation(len(self.arrays))[: 2 * count]
        arrays = [self.arrays[k] for k in drawn] if count else list(self.two())
        pairs = [self.equal_parts(*arrays[k : k + 2]) for k in range(0, 2 * count, 2)]
        kept = [tuple(part.array for part in pair) for pair in pairs]
        engine, priority = self.engine, int(self.random.integers(3))
        if all(held.place in ("host", "pinned", "file") for held in arrays) and self.chance(0.5):
            engine = self.places.near
        start: Callable[..., ts.Event]
        if self.chance(0.5):
            ready = engine.prepare_all(kept) if count != 1 else engine.prepare(*kept[0])
            start = ready.start
        elif count != 1:
            start = partial(engine.copy_all, kept, priority=priority)
        else:
            start = partial(engine.copy, *kept[0], priority=priority)
        return Call(arrays, start, lambda: self.expect_copies(pairs))

    def expect_copies(self, pairs: list[list[Part]]) -> None:
        for source, target in pairs:
            target.values[...] = source.values

    def pages(self) -> Call:
        """Pages of equal parts, in any order."""
        arrays = self.two()
        source, target = self.equal_parts(*arrays)
        most = len(source.values)
        count = int(self.random.integers(most + 1))
        read = self.random.integers(0, most, count) if count else np.zeros(0, int)
        written = self.random.permutation(most)[:count]
        ends = source.array, target.array
        start: Callable[..., ts.Event]
        if self.chance(0.5):
            ready = self.engine.prepare_pages(*ends, read, written)
            start = ready.start
        else:
            start = partial(self.engine.copy_pages, *ends, read, written)

        def expect() -> None:
            target.values[written] = source.values[read]

        return Call(list(arrays), start, expect)

    def pieces(self) -> Call:
        """Ranges of bytes of whole arrays."""
        source, target = self.two()
        sizes = source.values.nbytes, target.values.nbytes
        lists = some_pieces(self.random, *sizes, int(10 ** self.random.uniform(0, 3)))
        ends = source.array, target.array
        start: Callable[..., ts.Event]
        if self.chance(0.3):
            ready = self.engine.prepare_pieces(*ends, *lists)
            start = ready.start
        else:
            start = partial(self.engine.copy_pieces, *ends, *lists)

        def expect() -> None:
            read = source.values.reshape(-1).view("u1")
            written = target.values.reshape(-1).view("u1")
            for begin, to, length in zip(*lists, strict=True):
                written[to : to + length] = read[begin : begin + length]

        return Call([source, target], start, expect)

    # --- the sequence ---

    def make(self, call: Call) -> None:
        before = list({id(event): event for held in call.arrays for event in held.events}.values())
        if self.chance(0.2):
            for event in before:
                event.wait(timeout=WAIT_S)
            before = []
        event = call.start(after=before)
        call.expect()
        for held in call.arrays:
            held.events = [event] if self.chance(0.5) else [*held.events[-3:], event]

    def change(self) -> None:
        """New values by the caller: in place, or from an array that is gone after the call."""
        held = self.arrays[int(self.random.integers(len(self.arrays)))]
        values = self.fresh(held.values.shape)
        held.values[...] = values
        if held.in_host_memory:
            self.wait(held)
            held.array[...] = values
        else:
            held.events = [self.engine.copy(values.copy(), held.array, after=held.events)]

    def refused(self) -> None:
        """A call that must not move anything."""
        source, target = self.two()
        ends = source.array, target.array
        end = min(source.values.nbytes, target.values.nbytes)
        with pytest.raises((ts.InvalidArgument, ts.OutOfRange)):
            kind = int(self.random.integers(4))
            if kind == 0:
                self.engine.copy_pieces(*ends, [0, end // 2], [0, target.values.nbytes], [1, 1])
            elif kind == 1:
                self.engine.copy_pieces(*ends, [0, 0], [0, end // 2], [end // 2 + 1, 1])
            elif kind == 2:
                self.engine.copy(target.array[:2], source.array[:1])
            elif len(target.values) > 2:
                self.engine.copy(target.array[:-1], target.array[1:])
            else:
                self.engine.copy_pieces(target.array, target.array, [0], [0], [1])

    def wait(self, held: Held) -> None:
        while held.events:
            held.events.pop().wait(timeout=WAIT_S)

    def content(self, held: Held) -> Array:
        if held.place == "file":
            held.array.flush()
            return np.fromfile(held.lies, "u1")
        return self.places.read(held.place, held.lies)

    def check(self, held: Held) -> None:
        self.wait(held)
        got = held.array if held.in_host_memory else self.content(held)
        assert got.tobytes() == held.values.tobytes(), held.place

    def go(self) -> None:
        kinds = (self.copies, self.copies, self.pages, self.pieces)
        for _ in range(CALLS):
            if not self.calls or self.chance(0.5):
                self.calls.append(kinds[int(self.random.integers(len(kinds)))]())
            for _ in range(int(self.random.integers(1, 4))):
                self.make(self.calls[-1 - int(self.random.integers(min(len(self.calls), 6)))])
            if self.chance(0.2):
                self.change()
            if self.chance(0.1):
                self.refused()
            if self.chance(0.1):
                self.check(self.arrays[int(self.random.integers(len(self.arrays)))])
        for held in self.arrays:
            self.check(held)


@pytest.mark.parametrize("seed", range(8))
def test_sequences_of_calls_do_what_numpy_does(places: Places, tmp_path: Path, seed: int) -> None:
    Run(places, tmp_path, seed).go()


EMPTY, ROOM, ONES, ZEROS = np.zeros((0, 3)), np.zeros((0, 3)), np.ones((4, 2)), np.zeros((4, 2))
NO_BYTES = ts.types.contiguous(0, "f8"), None

COPIES_OF_NOTHING: dict[str, Callable[..., ts.Event]] = {
    "copy": lambda engine, **order: engine.copy(EMPTY, ROOM, **order),
    "copy_all": lambda engine, **order: engine.copy_all([], **order),
    "pairs": lambda engine, **order: engine.copy_all([(EMPTY, ROOM)] * 2, **order),
    "pages": lambda engine, **order: engine.copy_pages(ONES, ZEROS, [], [], **order),
    "pieces": lambda engine, **order: engine.copy_pieces(ONES, ZEROS, [0, 8], [8, 0], 0, **order),
    "types": lambda engine, **order: engine.copy(ONES, ZEROS, types=NO_BYTES, **order),
    "prepare": lambda engine, **order: engine.prepare(EMPTY, ROOM).start(**order),
    "prepare_all": lambda engine, **order: engine.prepare_all([]).start(**order),
    "prepare_pieces": lambda engine, **order: engine.prepare_pieces(
        ONES, ZEROS, [0], [8], [0]
    ).start(**order),
}


@pytest.mark.parametrize("stream", [None, 1])
@pytest.mark.parametrize("call", COPIES_OF_NOTHING.values(), ids=COPIES_OF_NOTHING)
def test_a_copy_of_nothing_ends_after_those_that_it_follows(
    places: Places, call: Callable[..., ts.Event], stream: int | None
) -> None:
    """And fails if they fail."""
    engine = places.engine
    slow = Slow()
    first = slow.start(engine)
    call(engine, after=first, stream=stream).wait(timeout=WAIT_S)
    assert first.done() and slow.done
    *_, first = Slow().start_many(engine)
    nothing = [] if stream else [call(engine, after=[first])]  # a stream's copy waits in the call
    first.cancel()
    for event in nothing:
        with pytest.raises(ts.Cancelled):
            event.wait(timeout=WAIT_S)
    with pytest.raises(ts.Cancelled):
        first.wait(timeout=WAIT_S)
    with pytest.raises(ts.Cancelled):
        call(engine, after=first, stream=stream).wait(timeout=WAIT_S)
    assert not ZEROS.any()


def test_a_copy_of_nothing_can_be_cancelled_by_itself(places: Places) -> None:
    slow = Slow()
    *_, first = slow.start_many(places.engine)
    nothing = places.engine.copy(EMPTY, ROOM, after=first)
    nothing.cancel()
    with pytest.raises(ts.Cancelled):
        nothing.wait(timeout=WAIT_S)
    first.wait(timeout=WAIT_S)
    assert slow.done


@pytest.mark.parametrize("prepared", [False, True])
def test_lists_on_a_gpu_do_not_hold_the_caller_up(places: Places, prepared: bool) -> None:
    """They may follow a copy that no GPU's stream can wait for."""
    engine = places.engine
    values = np.random.default_rng(5).random((3, 40, 50))
    arrays = [(filled(engine, one, "device0"), filled(engine, one, "device0")) for one in values]
    ready = engine.prepare_all(arrays)
    for _ in range(20):  # on a busy machine the first copy may end before the call does
        for _, target in arrays:
            engine.copy(np.zeros((40, 50)), target).wait(timeout=WAIT_S)
        first = Slow().start(engine)
        last = ready.start(after=first) if prepared else engine.copy_all(arrays, after=first)
        at_once = not first.done()
        last.wait(timeout=WAIT_S)
        assert first.done()
        for one, (_, target) in zip(values, arrays, strict=True):
            assert np.array_equal(content(engine, target), one)
        if at_once:
            break
    else:
        pytest.fail("all calls waited for the copy that they were to follow")
