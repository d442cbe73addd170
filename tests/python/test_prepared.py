"""Prepared copies (`prepare`, `prepare_all`, `prepare_pages`), started again and again."""

from __future__ import annotations

import gc
import os
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exporters import Exporter
from gpu_support import content, filled, fixed_gpu_profile, on_gpu
from hypothesis import given, settings
from hypothesis import strategies as st

import tranship as ts
from support import Slow, eventually

PLACES = ("host", "pinned", "device0", "device1")
Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def gpus() -> Iterator[ts.Engine]:
    """Yields an engine with two emulated GPUs."""
    with ts.Engine(emulated_gpus=2, threads=2, profile=fixed_gpu_profile()) as opened:
        yield opened


def drawn(seed: int, shape: tuple[int, ...], kind: str) -> Array:
    """Returns random bytes as an array."""
    raw = np.random.default_rng(seed).bytes(int(np.prod(shape)) * np.dtype(kind).itemsize)
    return np.frombuffer(raw, kind).reshape(shape)


def put(engine: ts.Engine, values: Array, array: Any) -> None:
    """Writes values into an array of any memory."""
    engine.copy(values, array).wait(timeout=20)


# -- Against NumPy --


@settings(max_examples=120)
@given(data=st.data())
def test_every_start_moves_what_the_source_holds(gpus: ts.Engine, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=4)))
    order = data.draw(st.permutations(range(len(shape))))
    kind = data.draw(st.sampled_from(["u1", "f2", "i4", "f8", "c16", "V3"]))
    seed = data.draw(st.integers(0, 999))
    places = [data.draw(st.sampled_from(PLACES)) for _ in range(2)]
    source = filled(gpus, drawn(seed, shape, kind), places[0])
    target = gpus.empty(tuple(shape[k] for k in order), kind, memory=places[1])
    turned = source.transpose(order)
    copy = gpus.prepare(turned, target, priority=data.draw(st.sampled_from([0, 3])))
    assert copy.nbytes == copy.plan.bytes == source.nbytes
    for turn in range(3):
        values = drawn(seed + turn, shape, kind)
        put(gpus, values, source)
        copy.start().wait(timeout=20)
        assert content(gpus, target).tobytes() == values.transpose(order).tobytes()
    other = filled(gpus, drawn(seed + 9, shape, kind), places[0])
    landing = gpus.empty(target.shape, kind, memory=places[1])
    before = content(gpus, target)
    copy.start(source=other.transpose(order), target=landing).wait(timeout=20)
    expected = drawn(seed + 9, shape, kind).transpose(order)
    assert content(gpus, landing).tobytes() == expected.tobytes()
    assert content(gpus, target).tobytes() == before.tobytes()


@settings(max_examples=80)
@given(data=st.data())
def test_pages_land_as_numpy_would_put_them(gpus: ts.Engine, data: st.DataObject) -> None:
    page = tuple(data.draw(st.lists(st.integers(1, 5), max_size=2)))
    counts = [data.draw(st.integers(1, 12)) for _ in range(2)]
    moved = data.draw(st.integers(0, min(counts)))
    pages = [data.draw(st.permutations(range(count)))[:moved] for count in counts]
    kind = data.draw(st.sampled_from(["u1", "f4", "c16"]))
    places = [data.draw(st.sampled_from(PLACES)) for _ in range(2)]
    arrays = [
        filled(gpus, drawn(k, (count, *page), kind), place)
        for k, (count, place) in enumerate(zip(counts, places, strict=True))
    ]
    copy = gpus.prepare_pages(*arrays, *pages)
    for seed in (2, 3):
        values, before = drawn(seed, (counts[0], *page), kind), content(gpus, arrays[1])
        put(gpus, values, arrays[0])
        copy.start().wait(timeout=20)
        before[pages[1]] = values[pages[0]]
        assert content(gpus, arrays[1]).tobytes() == before.tobytes()
    values = drawn(4, (counts[0], *page), kind)
    other = filled(gpus, values, places[0])
    before = content(gpus, arrays[1])
    copy.start(source=other).wait(timeout=20)
    before[pages[1]] = values[pages[0]]
    assert content(gpus, arrays[1]).tobytes() == before.tobytes()


@pytest.mark.parametrize("place", PLACES)
def test_a_list_of_copies_is_one_prepared_copy(gpus: ts.Engine, place: str) -> None:
    values = np.random.default_rng(1).random((6, 8, 32))
    target = filled(gpus, np.zeros((8, 6 * 32)), place)
    sources = [filled(gpus, part, place) for part in values]
    pairs = [(part, target[:, 32 * k : 32 * k + 32]) for k, part in enumerate(sources)]
    copy = gpus.prepare_all(pairs)
    assert copy.nbytes == values.nbytes
    for turn in range(3):
        for part, source in zip(values, sources, strict=True):
            put(gpus, part + turn, source)
        copy.start().wait(timeout=20)
        expected = np.concatenate(list(values + turn), axis=1)
        assert np.array_equal(content(gpus, target), expected)
    with pytest.raises(ts.InvalidArgument, match="started on its own arrays alone"):
        copy.start(source=sources[0])


def test_a_list_of_several_memories_or_of_nothing(gpus: ts.Engine) -> None:
    values = np.arange(12.0).reshape(2, 6)
    target: Any = gpus.empty(values.shape, "f8", memory="device1")
    copy = gpus.prepare_all(
        [(filled(gpus, values[0], "device0"), target[0]), (values[1], target[1])]
    )
    copy.start().wait(timeout=20)
    assert np.array_equal(content(gpus, target), values)
    nothing = gpus.prepare_all([])
    assert nothing.nbytes == 0
    assert nothing.start().done()
    nothing.start(stream=1).wait(timeout=20)


def test_a_region_is_that_of_other_arrays_too(engine: ts.Engine) -> None:
    def grid(values: Array) -> ts.Instance:
        return ts.Instance(values, extents={"x": 4, "y": 5}, fields={"v": "f8"}, layout="F, y, x")

    source, target = np.arange(20.0), np.zeros((4, 5))
    copy = engine.prepare(grid(source), target, region={"x": (1, 3), "y": (2, 5)})
    copy.start().wait(timeout=60)
    expected = np.zeros((4, 5))
    expected[1:3, 2:5] = source.reshape(4, 5)[1:3, 2:5]
    assert np.array_equal(target, expected)
    other = np.zeros((4, 5))
    copy.start(source=grid(source + 1), target=other).wait(timeout=60)
    assert np.array_equal(other, np.where(expected, expected + 1, 0))
    with pytest.raises(ts.InvalidArgument, match=r"outside|shape"):
        copy.start(target=np.zeros((3, 5)))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_arrays_without_dimensions_or_elements(any_engine: ts.Engine, shape: Any) -> None:
    source, target = np.ones(shape), np.zeros(shape)
    copy = any_engine.prepare(source, target)
    copy.start().wait(timeout=60)
    assert np.array_equal(source, target)


# -- Several hops, files and other processes --


@pytest.mark.parametrize("kibibytes", [4, 3000])
def test_copies_of_several_hops_and_to_files(
    gpus: ts.Engine, tmp_path: Path, kibibytes: int
) -> None:
    values = drawn(1, (kibibytes * 1024,), "u1")
    device = filled(gpus, values, "device0")
    with ts.File(
        tmp_path / "raw", extents={"i": values.size}, fields={"v": "u1"}, mode="w"
    ) as file:
        write = gpus.prepare(device, file)
        back = np.zeros_like(values)
        read = gpus.prepare(file, back)
        for turn in range(3):
            put(gpus, values + np.uint8(turn), device)
            written = write.start()
            read.start(after=written).wait(timeout=20)
            assert np.array_equal(back, values + np.uint8(turn))
    with pytest.raises(ts.Error, match="closed"):
        write.start().wait(timeout=20)


@pytest.mark.parametrize("transport", ["automatic", "network"])
@pytest.mark.parametrize("name", ["plain", "shared", "device"])
def test_arrays_of_a_peer_until_it_withdraws_them(
    exporter: Callable[..., Exporter], gpus: ts.Engine, transport: str, name: str
) -> None:
    count = 1 << 16
    server = exporter(
        "--gpu",
        TRANSHIP_EMULATED_GPUS="2",
        TRANSHIP_LISTEN="127.0.0.1:0",
        TRANSHIP_PEER_TIMEOUT_MS="60000",
    )
    options: dict[str, Any] = {"emulated_gpus": 2, "transport": transport, "threads": 2}
    with ts.Engine(**options) as client:
        remote = client.connect(server.contact)[name]
        here = filled(client, np.zeros(count, "u1"), "device0" if name == "device" else "host")
        read, write = client.prepare(remote, here), client.prepare(here, remote)
        read.start().wait(timeout=20)
        assert np.array_equal(content(client, here), np.resize(np.arange(256), count))
        for turn in (3, 4):
            put(client, np.full(count, turn, "u1"), here)
            write.start().wait(timeout=20)
            assert server.ask(f"sum {name}") == str(turn * count)
        assert server.ask(f"withdraw {name}") == "done"
        for copy in (read, write):
            with pytest.raises(ts.NotFound):
                copy.start().wait(timeout=20)


@pytest.mark.parametrize("name", ["plain", "shared"])
def test_arrays_of_a_peer_that_died(
    exporter: Callable[..., Exporter], engine: ts.Engine, name: str
) -> None:
    server = exporter()
    remote = engine.connect(server.contact)[name]
    copy = engine.prepare(remote, np.zeros(1 << 16, "u1"))
    copy.start().wait(timeout=20)
    server.kill()

    def lost() -> bool:
        try:
            copy.start().wait(timeout=20)
        except ts.PeerLost:
            return True
        return False

    assert eventually(lost, 20)


# -- What is refused --


def test_other_arrays_must_be_alike(gpus: ts.Engine) -> None:
    source, target = np.ones((4, 6), "f4"), np.zeros((4, 6), "f4")
    copy = gpus.prepare(source, target)
    fixed = np.zeros((4, 6), "f4")
    fixed.flags.writeable = False
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"source": np.ones((4, 7), "f4")}, r"source differs in shape.*d1=7.*d1=6"),
        ({"source": np.ones(24, "f4")}, "source differs in shape"),
        ({"target": np.zeros((4, 6), "i4")}, r"target differs in type.*i4.*f4"),
        ({"target": np.zeros((4, 6), "f8")}, r"target differs in type.*f8.*f4"),
        ({"target": np.zeros((6, 4), "f4").T}, r"target differs in layout.*4 16.*24 4"),
        ({"source": on_gpu(gpus, source)}, r"source differs in memory.*device0 instead of host"),
        ({"target": fixed}, "read-only"),
        ({"source": target}, "overlap"),
        ({"target": source}, "overlap"),
        ({"source": "text"}, "str"),
    ]
    for arrays, message in wrong:
        with pytest.raises(ts.InvalidArgument, match=message):
            copy.start(**arrays)
    assert not target.any()
    copy.start().wait(timeout=60)
    assert target.all()
    on_first = gpus.prepare(on_gpu(gpus, source), on_gpu(gpus, target))
    with pytest.raises(ts.InvalidArgument, match="device1 instead of device0"):
        on_first.start(target=on_gpu(gpus, target, 1))


def test_bad_input_is_named(engine: ts.Engine) -> None:
    array = np.zeros(4)
    bad: list[Callable[[], object]] = [
        lambda: engine.prepare(array, array),
        lambda: engine.prepare(array, array[1:]),
        lambda: engine.prepare(array, np.zeros(5)),
        lambda: engine.prepare(array, "text"),
        lambda: engine.prepare(array, np.zeros(4), priority="high"),  # type: ignore[arg-type]
        lambda: engine.prepare(array, np.zeros(4), region={"z": (0, 1)}),
        lambda: engine.prepare(array, np.zeros(4), planner="best"),  # type: ignore[arg-type]
        lambda: engine.prepare_all([1]),  # type: ignore[list-item]
        lambda: engine.prepare_all(7),  # type: ignore[arg-type]
        lambda: engine.prepare_all([(array, np.zeros(5))]),
        lambda: engine.prepare_pages(array, np.zeros(4), [0], [1, 2]),
        lambda: engine.prepare_pages(array, np.zeros(4), [0, 1], [2, 2]),
        lambda: engine.prepare_pages(array, np.zeros(4), [9], [1]),
        lambda: engine.prepare(array, np.ones(4)).start(after="noon"),
        lambda: engine.prepare(array, np.ones(4)).start(stream="fast"),
        lambda: engine.prepare_pages(array, array, [0], [1]).start(source=np.zeros(3)),
    ]
    for number, call in enumerate(bad):
        with pytest.raises((ts.InvalidArgument, ts.OutOfRange)) as caught:
            call()
        assert str(caught.value), number
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(engine.prepare(array, np.ones(4)))


def test_pages_of_one_array_stay_apart_on_other_arrays(engine: ts.Engine) -> None:
    pool = np.arange(8.0)
    copy = engine.prepare_pages(pool, pool, [0, 1], [6, 7])
    copy.start().wait(timeout=60)
    assert pool.tolist() == [0, 1, 2, 3, 4, 5, 0, 1]
    other = np.arange(10.0, 18.0)
    copy.start(source=other, target=other).wait(timeout=60)
    assert other.tolist() == [10, 11, 12, 13, 14, 15, 10, 11]
    room = np.zeros(12)
    with pytest.raises(ts.InvalidArgument, match="overlap"):
        copy.start(source=room[:8], target=room[4:])


def test_memory_that_is_pinned_no_more(gpus: ts.Engine) -> None:
    pages = np.ones(1 << 16, "u1")
    device = on_gpu(gpus, np.zeros_like(pages))
    with gpus.pin(pages):
        single = gpus.prepare(pages, device)
        several = gpus.prepare_all([(pages[:100], device[:100]), (pages[200:], device[200:])])
        for copy in (single, several):
            copy.start().wait(timeout=60)
    for copy in (single, several):
        with pytest.raises(ts.InvalidArgument, match="pinned when the copy was prepared"):
            copy.start()


# -- Order, threads and lifetimes --


def test_starts_go_after_events(queueing_engine: ts.Engine) -> None:
    slow = Slow()
    middle, end = np.zeros_like(slow.target), np.zeros_like(slow.target)
    first = queueing_engine.prepare(slow.target, middle)
    second = queueing_engine.prepare(middle, end, priority=9)
    begun = slow.start(queueing_engine)
    event = second.start(after=first.start(after=begun))
    event.wait(timeout=60)
    assert begun.done()
    assert end.all()


@pytest.mark.parametrize("place", PLACES)
def test_threads_start_it_at_the_same_time(gpus: ts.Engine, place: str) -> None:
    shape = (32, 24, 3)
    values = np.random.default_rng(5).random(shape)
    pairs = [(values[k::4], np.zeros((24, 8, 3))) for k in range(4)]
    sources = [filled(gpus, source, place) for source, _ in pairs]
    targets = [filled(gpus, target, place) for _, target in pairs]
    copy = gpus.prepare(sources[0].transpose((1, 0, 2)), targets[0])
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(50):
                source = sources[number].transpose((1, 0, 2))
                events = [copy.start(source=source, target=targets[number]), copy.start()]
                for event in events:
                    event.wait(timeout=20)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    for source, target in zip(sources, targets, strict=True):
        expected = content(gpus, source).transpose(1, 0, 2)
        assert np.array_equal(content(gpus, target), expected)


def test_two_starts_of_one_table_are_in_flight(gpus: ts.Engine) -> None:
    values = np.random.default_rng(6).integers(0, 255, (500, 96), "u1")
    order = np.random.default_rng(7).permutation(500)
    sources = [on_gpu(gpus, values), on_gpu(gpus, values[::-1].copy())]
    targets = [on_gpu(gpus, np.zeros_like(values), 1) for _ in range(2)]
    copy = gpus.prepare_pages(sources[0], targets[0], order, np.arange(500))
    events = [copy.start(), copy.start(source=sources[1], target=targets[1]), copy.start()]
    # Another list takes the tables that ended copies have left.
    gpus.copy_pages(sources[0], on_gpu(gpus, values, 1), np.arange(500), order).wait(timeout=20)
    for event in events:
        event.wait(timeout=20)
    copy.start().wait(timeout=20)
    assert np.array_equal(content(gpus, targets[0]), values[order])
    assert np.array_equal(content(gpus, targets[1]), values[::-1][order])


def test_arrays_that_are_aligned_otherwise(gpus: ts.Engine) -> None:
    values = np.random.default_rng(8).integers(0, 255, (40, 64), "u1")
    source, target = on_gpu(gpus, values), on_gpu(gpus, np.zeros_like(values), 1)
    copy = gpus.prepare(source[:, :16], target[:, 16:32])
    rows = gpus.prepare(source[:, :16].transpose(), on_gpu(gpus, np.zeros((16, 40), "u1")))
    for start in (0, 1, 3, 8, 48):
        put(gpus, 0 * values, target)
        copy.start(source=source[:, start : start + 16], target=target[:, 5:21]).wait(timeout=20)
        expected = 0 * values
        expected[:, 5:21] = values[:, start : start + 16]
        assert np.array_equal(content(gpus, target), expected)
        turned = on_gpu(gpus, np.zeros((16, 40), "u1"))
        part = source[:, start : start + 16].transpose()
        rows.start(source=part, target=turned).wait(timeout=20)
        assert np.array_equal(content(gpus, turned), values[:, start : start + 16].T)


def test_it_keeps_its_arrays(engine: ts.Engine) -> None:
    class Marked(np.ndarray[Any, Any]):
        pass

    source, target = np.ones(100).view(Marked), np.zeros(100)
    alive = weakref.ref(source)
    copy = engine.prepare(source, target)
    del source
    gc.collect()
    assert alive() is not None
    copy.start().wait(timeout=60)
    assert target.all()
    del copy
    gc.collect()
    assert alive() is None


def test_events_outlive_it(gpus: ts.Engine) -> None:
    values = np.random.default_rng(9).random((64, 64))
    source, target = on_gpu(gpus, values), on_gpu(gpus, np.zeros_like(values))
    event = gpus.prepare(source.transpose(), target).start()
    gc.collect()
    event.wait(timeout=60)
    assert np.array_equal(content(gpus, target), values.T)


@pytest.mark.parametrize("place", ["host", "device0"])
def test_a_closed_engine_starts_nothing(place: str) -> None:
    engine = ts.Engine(emulated_gpus=2, threads=2)
    values = np.ones(100)
    source, target = (filled(engine, array, place) for array in (values, 0 * values))
    copies = [
        engine.prepare(source, target),
        engine.prepare_all([(source[:3], target[:3]), (source[5:], target[5:])]),
        engine.prepare_pages(source, target, [1, 2], [3, 4]),
    ]
    engine.close()
    for copy in copies:
        with pytest.raises(ts.Closed):
            copy.start()
        with pytest.raises(ts.Closed):
            copy.start(source=source)
    for prepare in (
        lambda: engine.prepare(source, target),
        lambda: engine.prepare_all([(source, target)]),
        lambda: engine.prepare_pages(source, target, [1], [2]),
    ):
        with pytest.raises(ts.Closed):
            prepare()


@pytest.mark.parametrize("place", ["host", "device0"])
def test_a_fork_starts_nothing(gpus: ts.Engine, place: str) -> None:
    source, target = (filled(gpus, np.ones(10) * k, place) for k in (1, 0))
    copy = gpus.prepare(source, target)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            copy.start()
        except ts.Closed:
            del copy
            gc.collect()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    copy.start().wait(timeout=60)
    assert content(gpus, target).all()


def test_streams(gpus: ts.Engine) -> None:
    values = np.random.default_rng(10).random((16, 16))
    source, target = on_gpu(gpus, values), on_gpu(gpus, np.zeros_like(values))
    copy = gpus.prepare(source, target)
    for stream in (0, 1, 2):
        put(gpus, values + stream, source)
        copy.start(stream=stream).wait(timeout=60)
        assert np.array_equal(content(gpus, target), values + stream)
    with pytest.raises(ts.InvalidArgument, match="emulated GPUs have no streams"):
        copy.start(stream=7)


def test_what_it_says_of_itself(engine: ts.Engine) -> None:
    copy = engine.prepare(np.ones(4), np.zeros(4))
    assert repr(copy) == "<PreparedCopy node0/host0 > node0/host0: 32 bytes>"
    assert copy.plan.path == "node0/host0 > node0/host0"
    assert "node0/host0" in copy.plan.explain()
