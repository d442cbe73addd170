"""Copies of pieces: lists of byte ranges, between all memories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exporters import Exporter
from gpu_support import content, filled
from memories import DEVICES, MEMORIES, PEERS, Bytes, Pieces, Places, some_pieces

import tranship as ts


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    """Yields engines with arrays of all places."""
    with ExitStack() as stack:
        yield Places(stack)


def expected(source: Bytes, target: Bytes, pieces: Pieces) -> Bytes:
    """Returns the target after a copy of each piece by NumPy."""
    result = target.copy()
    for begin, to, length in zip(*pieces, strict=True):
        result[to : to + length] = source[begin : begin + length]
    return result


@pytest.mark.parametrize("seed", range(6))
def test_pieces_land_as_numpy_would_put_them(places: Places, seed: int) -> None:
    """Between any two memories, in few bytes and in many, forwards and back."""
    generator = np.random.default_rng(seed)
    for here in MEMORIES:
        for there in MEMORIES + PEERS:
            source_bytes, target_bytes = (int(10 ** generator.uniform(1, 6.3)) for _ in range(2))
            source, target = (
                generator.integers(0, 256, size, np.uint8) for size in (source_bytes, target_bytes)
            )
            ends = (here, there) if generator.random() < 0.5 or there in MEMORIES else (there, here)
            count = int(10 ** generator.uniform(0, 3.5))
            pieces = some_pieces(generator, source_bytes, target_bytes, count)
            (read, _), (written, lies) = (
                places.put(values, place)
                for values, place in zip((source, target), ends, strict=True)
            )
            places.engine.copy_pieces(read, written, *pieces).wait(timeout=30)
            got = places.read(ends[1], lies)
            assert got.tobytes() == expected(source, target, pieces).tobytes(), ends


def test_pages_of_any_shape_pass_over_several_hops(places: Places) -> None:
    """Lists that no one channel carries, with a conversion on the way."""
    generator = np.random.default_rng(4)
    for place in ("plain", "network", "host", PEERS[-1]):
        values = generator.random((60, 40, 30))
        source = filled(places.engine, values, "device0")
        there, lies = places.put(np.zeros(values.nbytes, np.uint8), place)
        target = there.view("f8").reshape(60, 40, 30) if place == "host" else None
        if target is None:
            owner = places.far if place == "network" else places.near
            lies = filled(
                owner, np.zeros((60, 30, 40)), DEVICES[-1] if "device" in place else "host"
            )
            places.exported += 1
            owner.export(f"pages {places.exported}", lies)
            target = places.peers[owner][f"pages {places.exported}"]
            source, wanted = source.transpose(0, 2, 1), values.transpose(0, 2, 1)
        else:
            wanted = values
        read, written = generator.permutation(60)[:50], generator.permutation(60)[:50]
        places.engine.copy_pages(source, target, read, written).wait(timeout=30)
        got = np.asarray(content(places.near, lies)).view("f8").reshape(wanted.shape)
        assert np.array_equal(got[written], wanted[read])
        assert np.count_nonzero(got.any(axis=(1, 2))) == 50


def test_a_piece_longer_than_any_buffer(places: Places) -> None:
    values = np.random.default_rng(1).integers(0, 256, 30 << 20, np.uint8)
    source = filled(places.engine, values, "device0")
    there, lies = places.put(np.zeros(values.size, np.uint8), "plain")
    places.engine.copy_pieces(source, there, [5, 0], [8, 0], [values.size - 8, 3]).wait(timeout=60)
    got = places.read("plain", lies)
    assert np.array_equal(got[8:], values[5:-3]) and np.array_equal(got[:3], values[:3])
    assert not got[3:8].any()


def test_one_length_for_all_and_any_types(places: Places) -> None:
    source = np.arange(100, dtype="f4").reshape(10, 10)
    target = np.zeros((20, 10), "i2", order="F")
    event = places.engine.copy_pieces(source, target, [0, 40], [80, 0], 20)
    event.wait(timeout=20)
    raw = target.reshape(-1, order="F").view(np.uint8)
    assert raw[80:100].tobytes() == source[0, :5].tobytes()
    assert raw[:20].tobytes() == source[1, :5].tobytes()
    assert event.plan.bytes == 40


def test_neighbours_are_one_run(places: Places) -> None:
    """Pieces in order take as long as one, and say so in their plan."""
    source = filled(places.engine, np.arange(1 << 16, dtype="u1"), "device0")
    target = filled(places.engine, np.zeros(1 << 16, "u1"), DEVICES[-1])
    offsets = np.arange(0, 1 << 16, 64)
    places.engine.copy_pieces(source, target, offsets, offsets, 64).wait(timeout=20)
    assert np.array_equal(content(places.engine, target), content(places.engine, source))


def pieces_of_one_length(generator: np.random.Generator, size: int) -> tuple[Any, Any, int]:
    """Draws pieces of one length at places of one grid, which differ in the target."""
    few, many = [1, 3, 4, 16, 24, 100, 144, 256, 264, 320], [512, 1024, 1000, 4096, 4160, 65536]
    length = min(int(generator.choice(few + many)), size // 8)
    places = size // length
    count = min(int(generator.integers(1, places + 1)), 20_000)
    written = generator.permutation(places)[:count] * length
    read = generator.integers(0, places, count) * length
    if generator.random() < 0.3:  # off the grid, in the source
        read = generator.integers(0, size - length + 1, count)
    return read, written, length


def pieces_of_any_lengths(generator: np.random.Generator, size: int) -> tuple[Any, Any, Any]:
    """Draws pieces that lie apart on both sides, some of them empty, in units of 1 to 64 bytes."""
    unit = int(generator.choice([1, 4, 8, 64]))
    mean = int(generator.choice([2, 10, 100]))
    count = min(size // (unit * mean * 3), 5000)
    lengths = generator.integers(0, 2 * mean, count)
    gaps = generator.integers(0, 3, (2, count))
    read, written = (np.cumsum(lengths + gaps, axis=1) - lengths) * unit
    inside = np.maximum(read, written) + lengths * unit <= size
    order = generator.permutation(count)
    order = order[inside[order]]
    return read[order], written[order], lengths[order] * unit


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("draw", [pieces_of_one_length, pieces_of_any_lengths])
def test_long_lists_on_gpus(places: Places, draw: Callable[..., Any], seed: int) -> None:
    """In their own short form, started at once, in a stream and after another copy."""
    generator = np.random.default_rng(100 + seed)
    for there in (*DEVICES, "pinned", PEERS[-1]):
        values = generator.integers(0, 256, int(10 ** generator.uniform(4.5, 6)), np.uint8)
        source, _ = places.put(values, "device0")
        target, lies = places.put(np.zeros_like(values), there)
        wanted = np.zeros_like(values)
        for _ in range(3):
            read, written, length = draw(generator, values.size)
            lengths = np.broadcast_to(length, read.shape)
            wanted = expected(values, wanted, (read, written, lengths))
            stream = int(generator.integers(0, 3)) or None
            event = places.engine.copy_pieces(source, target, read, written, length, stream=stream)
            assert event.plan.bytes == lengths.sum()
            event.wait(timeout=30)
            if generator.random() < 0.3:
                again = places.engine.copy_pieces(
                    source, target, read, written, length, after=event
                )
                again.wait(timeout=30)
            assert np.array_equal(places.read(there, lies), wanted)


def test_pages_of_one_run_on_gpus(places: Places) -> None:
    """Whole pages, and parts of pages that are runs at other distances, forwards and backwards."""
    generator = np.random.default_rng(21)
    values = generator.integers(0, 256, (300, 2048), np.uint8)
    zeros = np.zeros_like(values)
    views: list[Callable[[Any], Any]] = [
        lambda pages: pages,
        lambda pages: pages[:, 512:1024],
        lambda pages: pages[::2, 3:700],
    ]
    for there in (*DEVICES, "pinned"):
        for view in views:
            source = filled(places.engine, values, "device0")
            target = filled(places.engine, zeros, there)
            count = len(view(values))
            read = generator.integers(0, count, count // 2)
            written = generator.permutation(count)[: count // 2]
            places.engine.copy_pages(view(source), view(target), read, written).wait(timeout=30)
            wanted = zeros.copy()
            view(wanted)[written] = view(values)[read]
            assert np.array_equal(np.asarray(content(places.engine, target)), wanted)


def test_pieces_move_within_one_array(places: Places) -> None:
    array = np.arange(100, dtype=np.uint8)
    places.engine.copy_pieces(array, array, [0, 50], [20, 70], [20, 20]).wait(timeout=20)
    assert array[20:40].tolist() == list(range(20)) and array[70:90].tolist() == list(range(50, 70))


def test_pieces_of_files(places: Places, tmp_path: Path) -> None:
    source = np.random.default_rng(2).integers(0, 256, 100_000, np.uint8)
    np.save(tmp_path / "array.npy", source * 0)
    back = np.zeros_like(source)
    with ts.File(tmp_path / "array.npy", mode="r+") as file:
        pieces = ([0, 70_000], [50_000, 0], [40_000, 30_000])
        places.engine.copy_pieces(source, file, *pieces).wait(timeout=20)
        places.engine.copy_pieces(file, back, *(pieces[k] for k in (1, 0, 2))).wait(timeout=20)
    assert back[:40_000].tobytes() == source[:40_000].tobytes()
    assert back[70_000:].tobytes() == source[70_000:].tobytes()


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        (([0], [0, 1], [1, 1]), "1 source offsets, 2 target offsets and 2 lengths"),
        (([0, 95], [0, 10], [5, 6]), "piece 1, 6 bytes at offset 95, lies outside the source"),
        (([0, 0], [0, 195], [5, 6]), "piece 1, 6 bytes at offset 195, lies outside the target"),
        (([-1], [0], [1]), "piece 0, 1 bytes at offset -1, lies outside the source"),
        (([0], [0], [-1]), "piece 0 has a length of -1 bytes"),
        (([0], [0], [1 << 62]), "piece 0, .* lies outside"),
        (([1 << 62], [0], [1 << 62]), "piece 0, .* lies outside"),
        (([0, 0, 0], [50, 0, 20], [30, 21, 5]), "pieces 1 and 2 overlap in the target"),
        (([0, 0], [3, 3], [3, 3]), "pieces 0 and 1 overlap in the target"),
        (([0.5], [0], [1]), "source_offsets is float64"),
        (([0], [0], ["a"]), "lengths is "),
        (([0], [0], [[1]]), r"lengths=\[\[1\]\] is not a list of integers"),
    ],
)
def test_bad_pieces(places: Places, offsets: Any, message: str) -> None:
    source, target = np.ones(100, np.uint8), np.zeros(200, np.uint8)
    with pytest.raises(ts.InvalidArgument, match=message):
        places.engine.copy_pieces(source, target, *offsets)
    assert not target.any()


def test_pieces_that_are_read_and_written(places: Places) -> None:
    array = np.arange(100, dtype=np.uint8)
    with pytest.raises(
        ts.InvalidArgument, match="source of piece 1 overlaps the target of piece 0"
    ):
        places.engine.copy_pieces(array, array, [0, 45], [40, 90], [10, 10])
    assert np.array_equal(array, np.arange(100))
    # Two views of one array meet as well.
    with pytest.raises(ts.InvalidArgument, match="source of piece 0 overlaps"):
        places.engine.copy_pieces(array[:60], array[10:], [15], [0], [10])


def test_overlaps_in_long_lists_are_found(places: Places) -> None:
    """By sets of bytes, and by sorting where these would be large."""
    generator = np.random.default_rng(6)
    for unit, size in ((64, 1 << 20), (1, 1 << 20), (1, 1 << 27)):
        count = min(2000, size // unit // 2)
        target = np.zeros(size, np.uint8)
        begins = generator.permutation(size // unit // 2)[:count].astype(np.int64) * 2 * unit
        source = np.ones(unit, np.uint8)
        places.engine.copy_pieces(source, target, np.zeros(count, int), begins, unit).wait(60)
        assert np.count_nonzero(target) == count * unit
        begins[count // 2] = begins[3]
        with pytest.raises(ts.InvalidArgument, match="overlap in the target"):
            places.engine.copy_pieces(source, target, np.zeros(count, int), begins, unit)


def test_arrays_with_gaps_and_empty_lists(places: Places) -> None:
    array = np.zeros((10, 10))
    for gaps in (array[:, :5], array[::2], array[::-1]):
        with pytest.raises(ts.InvalidArgument, match="do not fill one block"):
            places.engine.copy_pieces(gaps, np.zeros(1000), [0], [0], [8])
    assert places.engine.copy_pieces(array, np.ones(100), [], [], []).done
    assert places.engine.copy_pieces(array, np.ones(100), [3, 3], [9, 9], 0).done
    read_only = np.zeros(10)
    read_only.flags.writeable = False
    with pytest.raises(ts.InvalidArgument, match="read-only"):
        places.engine.copy_pieces(array, read_only, [0], [0], [8])


def test_a_closed_engine_copies_no_pieces() -> None:
    engine = ts.Engine(threads=1)
    engine.close()
    with pytest.raises(ts.Closed):
        engine.copy_pieces(np.zeros(3), np.zeros(3), [0], [0], [8])


def test_prepared_pieces(places: Places) -> None:
    """Started again with other content, and between other arrays like the first ones."""
    generator = np.random.default_rng(9)
    for ends in (("device0", "device0"), ("host", "plain"), ("device0", "network")):
        values = generator.integers(0, 256, 50_000, np.uint8)
        pieces = some_pieces(generator, values.size, values.size, 300)
        source, _ = places.put(values, ends[0])
        target, lies = places.put(values * 0, ends[1])
        copy = places.engine.prepare_pieces(source, target, *pieces)
        assert copy.nbytes == pieces[2].sum()
        copy.start().wait(timeout=30)
        assert np.array_equal(places.read(ends[1], lies), expected(values, values * 0, pieces))
        other, _ = places.put(values[::-1].copy(), ends[0])
        copy.start(source=other).wait(timeout=30)
        wanted = expected(values[::-1], values * 0, pieces)
        assert np.array_equal(places.read(ends[1], lies), wanted)
        with pytest.raises(ts.InvalidArgument, match="differs in shape"):
            copy.start(source=places.put(values[:-1], ends[0])[0])
    array = np.arange(100, dtype=np.uint8)
    copy = places.engine.prepare_pieces(array, np.zeros(100, np.uint8), [0], [30], [50])
    with pytest.raises(ts.InvalidArgument, match="overlaps the target"):
        copy.start(target=array)
    with pytest.raises(ts.InvalidArgument, match="overlap in the target"):
        places.engine.prepare_pieces(array, np.zeros(100), [0, 0], [0, 0], 8)


def test_prepared_pieces_and_pages_of_one_length_keep_their_lists(places: Places) -> None:
    generator = np.random.default_rng(13)
    values = generator.integers(0, 256, (200, 512), np.uint8)
    for there in (*DEVICES, "pinned", PEERS[-1]):
        source, _ = places.put(values.reshape(-1), "device0")
        target, lies = places.put(np.zeros_like(values).reshape(-1), there)
        read, written = generator.permutation(200)[:150], generator.permutation(200)[:150]
        from_offsets, to_offsets = read * 512, written * 512
        copy = places.engine.prepare_pieces(source, target, from_offsets, to_offsets, 512)
        wanted = np.zeros_like(values)
        wanted[written] = values[read]
        from_offsets[:] = to_offsets[:] = -1  # the caller's lists are the caller's again
        copy.start().wait(timeout=30)
        assert np.array_equal(places.read(there, lies).reshape(200, 512), wanted)
        if there not in MEMORIES:
            continue
        pages = filled(places.engine, values, "device0"), filled(places.engine, values * 0, there)
        places.engine.prepare_pages(*pages, read, written).start().wait(timeout=30)
        assert np.array_equal(content(places.engine, pages[1]), wanted)


BIG = 48 << 20


@pytest.mark.parametrize("transport", ["automatic", "network"])
@pytest.mark.parametrize("fault", ["stopped", "killed", "withdrawn"])
def test_lists_end_when_the_other_process_does_not_go_on(
    exporter: Callable[..., Exporter], fault: str, transport: str
) -> None:
    """All pieces arrive, or an error says why not, and no wait lasts."""
    other = exporter(
        "--bytes", str(BIG), TRANSHIP_TRANSPORT=transport, TRANSHIP_PEER_TIMEOUT_MS="60000"
    )
    generator = np.random.default_rng(11)
    source = generator.integers(0, 256, BIG, np.uint8)
    read, written = generator.permutation(BIG // 512) * 512, generator.permutation(BIG // 512) * 512
    with ts.Engine(threads=2, transport=transport) as engine:
        target = engine.connect(other.contact)["plain"]
        copy = engine.prepare_pieces(source, target, read, written, 512)
        events = [copy.start() for _ in range(3)]
        if fault == "stopped":
            other.stop()
            other.go_on()
        elif fault == "killed":
            other.kill()
        else:
            other.ask("withdraw plain")
        errors = []
        for event in events:
            try:
                event.wait(timeout=60)
            except ts.Error as error:
                errors.append(error)
        assert all(isinstance(error, ts.PeerLost | ts.NotFound) for error in errors)
        if fault == "stopped":
            back = np.zeros_like(source)
            engine.copy_pieces(target, back, written, read, 512).wait(timeout=60)
            assert not errors and np.array_equal(back, source)
