"""`Staging.offer`: arrays that stay in their producer's memory, and are read there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_support import EMULATED, content, filled
from offer_support import MIB, Produce
from staging_servers import PATIENCE, Servers

import tranship as ts
from support import SOON_S, eventually


def memory_used(staging: ts.Staging) -> int:
    return sum(int(one["memory_used"]) for one in staging.servers())


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("kind", ["pageable", "mapped"])
def test_an_offered_array_is_got_whole_and_in_parts(
    serve: Servers, produce: Produce, kind: str, servers: int
) -> None:
    contact = serve("--servers", str(servers), "--memory", "1MiB")
    producer = produce(contact)
    array = producer.make(kind, (1024, 300))  # more than the servers' memory has
    producer.do("made['offer'] = staging.offer('x', 3, made['x'], (5, -7))")
    with ts.Staging(contact) as staging:
        assert (staging.get("x", 3) == array).all()
        assert (staging.get("x", "latest", (105, 3), (905, 99)) == array[100:900, 10:106]).all()
        assert (staging["x"][3, 6, 0:3] == array[1, 7:10]).all()
        out = np.zeros((300, 1024), order="F").T
        assert (staging.get("x", 3, out=out) == array).all()
        assert memory_used(staging) == 0
        assert staging["x"].bounds(3) == ((5, -7), (1029, 293))
        with pytest.raises(ts.InvalidArgument, match="lies in the memory of the process that offe"):
            staging.get("x", 3, copy=False)
        assert (staging.get("x", 3, copy=None) == array).all()
    producer.do("assert not made['offer'].ended")
    producer.do("made['offer'].withdraw(); assert made['offer'].ended")
    producer.do("made['x'][...] = -1")
    with ts.Staging(contact) as staging, pytest.raises(ts.Timeout):
        staging.get("x", 3, (5, -7), (6, 0), timeout=0.2)


def test_offers_have_any_strides_and_types(serve: Servers, produce: Produce) -> None:
    contact = serve("--memory", "1MiB")
    producer = produce(contact)
    base = np.arange(60 * 70).reshape(60, 70)
    arrays = {
        "rows": ("np.arange(60 * 70).reshape(60, 70)[3:50:3, 5:]", base[3:50:3, 5:]),
        "turned": ("np.arange(60 * 70).reshape(60, 70).T", base.T),
        "backwards": ("np.arange(60 * 70).reshape(60, 70)[::-1, ::-2]", base[::-1, ::-2]),
        "repeated": (
            "np.broadcast_to(np.arange(70), (60, 70))",
            np.broadcast_to(np.arange(70), (60, 70)),
        ),
        "number": ("np.array(7.5)", np.array(7.5)),
        "text": ("np.array(['one', 'two'] * 9)", np.array(["one", "two"] * 9)),
        "structure": (
            "np.array([(1, 2.5)] * 12, np.dtype([('a', 'i2'), ('b', 'f8')], align=True))",
            np.array([(1, 2.5)] * 12, np.dtype([("a", "i2"), ("b", "f8")], align=True)),
        ),
    }
    with ts.Staging(contact) as staging:
        for name, (text, array) in arrays.items():
            producer.do(f"staging.offer({name!r}, 1, {text})")
            got = staging.get(name, 1)
            assert got.dtype == array.dtype
            assert (got == array).all()
        part = staging.get("backwards", 1, (3, 4), (9, 20))
        assert (part == arrays["backwards"][1][3:9, 4:20]).all()


def test_offers_and_puts_make_one_version(serve: Servers, produce: Produce) -> None:
    contact = serve("--memory", "16MiB")
    producer = produce(contact)
    array = producer.make("pageable", (64, 64))
    producer.do("made['offer'] = staging.offer('x', 1, made['x'])")
    with ts.Staging(contact) as staging:
        staging.put("x", 1, np.full((64, 64), 7.0), (64, 0))
        staging.put("x", 1, np.full((8, 8), 9.0), (4, 4))  # it hides a part of the offer
        expected = np.concatenate([array, np.full((64, 64), 7.0)])
        expected[4:12, 4:12] = 9
        assert (staging.get("x", 1) == expected).all()
        assert len(staging["x"].boxes(1)) == 3
        staging.put("x", 1, np.zeros((64, 64)))  # and now all of it
        producer.do("made['offer'].wait()")
        assert staging.get("x", 1)[:64].sum() == 0


@pytest.mark.parametrize("kind", ["pageable", "mapped"])
def test_an_offer_is_read_over_a_network(
    serve: Servers, produce: Produce, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("TRANSHIP_LISTEN", "127.0.0.1:0")
    contact = serve("--memory", "1MiB")
    producer = produce(contact, "listen=127.0.0.1:0")
    array = producer.make(kind, (700, 300))
    producer.do("made['offer'] = staging.offer('x', 1, made['x'], checksum=True)")
    with ts.Staging(contact, transport="network") as staging:
        assert (staging.get("x", 1) == array).all()
        assert (staging.get("x", 1, (100, 7), (600, 8)) == array[100:600, 7:8]).all()
    producer.do("made['offer'].withdraw()")


@pytest.mark.parametrize("kind", ["automatic", "network", "no GPUs"])
@pytest.mark.parametrize("checksum", [False, True])
def test_an_array_of_a_gpu_is_offered(
    serve: Servers, produce: Produce, monkeypatch: pytest.MonkeyPatch, kind: str, checksum: bool
) -> None:
    """GPUs are emulated, unless TRANSHIP_TEST_GPUS is "real"."""
    if EMULATED:
        monkeypatch.setenv("TRANSHIP_EMULATED_GPUS", str(EMULATED))
    monkeypatch.setenv("TRANSHIP_LISTEN", "127.0.0.1:0")
    contact = serve("--memory", "1MiB")
    producer = produce(contact, "listen=127.0.0.1:0")
    array = np.random.default_rng(3).random((300, 200))
    producer.do("made['engine'] = staging._own; made['values'] = np.random.default_rng(3)")
    producer.do("made['x'] = made['engine'].empty((300, 200), 'f8', memory='device0')")
    producer.do("made['engine'].copy(made['values'].random((300, 200)), made['x']).wait()")
    producer.do(f"made['offer'] = staging.offer('x', 1, made['x'], checksum={checksum})")
    options: dict[str, Any] = {"transport": "network"} if kind == "network" else {}
    options |= {"gpus": False, "emulated_gpus": 0} if kind == "no GPUs" else {}
    with (
        ts.Engine(**({"emulated_gpus": EMULATED, "threads": 2} | options)) as engine,
        ts.Staging(contact, engine=engine) as staging,
    ):
        assert (staging.get("x", 1) == array).all()
        assert (staging.get("x", 1, (100, 7), (250, 90)) == array[100:250, 7:90]).all()
        if kind != "no GPUs":
            out = filled(engine, np.zeros((200, 300)), "device0")
            staging.get("x", 1, out=out.T)
            assert (array == content(engine, out).T).all()
        producer.do("made['engine'].copy(np.zeros((300, 200)), made['x']).wait()")
        if checksum:
            with pytest.raises(ts.Error, match="its checksum is another"):
                staging.get("x", 1)
    producer.do("made['offer'].withdraw()")


def test_a_reader_that_cannot_reach_the_producer_is_told_which(
    serve: Servers, produce: Produce, monkeypatch: pytest.MonkeyPatch
) -> None:
    contact = serve("--memory", "1MiB")
    monkeypatch.setenv("TRANSHIP_LISTEN", "127.0.0.1:0")
    far = serve("--memory", "1MiB")
    monkeypatch.delenv("TRANSHIP_LISTEN")
    producer = produce(far)  # it listens on no network
    producer.make("pageable", (10,))
    producer.do("staging.offer('x', 1, made['x'])")
    with (
        ts.Staging(far, transport="network") as staging,
        pytest.raises(ts.Error, match=r'version 1 of "x", \(0:10\), lies in .* "the producer"'),
    ):
        staging.get("x", 1)
    with ts.Staging(contact) as staging:
        with pytest.raises(ts.InvalidArgument, match="offers=True"):
            staging.offer("x", 1, np.zeros(3))
        assert staging.ls() == []


def test_what_cannot_be_offered_is_refused(serve: Servers) -> None:
    contact = serve("--memory", "1MiB")
    with ts.Staging(contact, offers=True) as staging:
        for wrong in (3.5, [1, 2, 3], "text"):
            with pytest.raises(ts.InvalidArgument, match="is no array that others could read"):
                staging.offer("x", 1, wrong)
        with pytest.raises(ts.InvalidArgument, match="without elements"):
            staging.offer("x", 1, np.zeros((0, 3)))
        with pytest.raises(ts.InvalidArgument):
            staging.offer("x", 1.5, np.zeros(3))  # type: ignore[arg-type]
        staging.offer("x", 1, np.zeros(3))
        with pytest.raises(ts.InvalidArgument, match="elements"):
            staging.offer("x", 2, np.zeros(3, "f4"))
        with pytest.raises(ts.InvalidArgument, match="dimensions"):
            staging.offer("x", 2, np.zeros((3, 3)))
        staging.discard("x", 1)
        with pytest.raises(ts.NotFound, match="was discarded"):
            staging.offer("x", 1, np.zeros(3))
    with pytest.raises(ts.InvalidArgument, match="offers"):
        ts.Staging(contact, offers="yes")  # type: ignore[arg-type]


def test_a_client_reads_its_own_offer(serve: Servers) -> None:
    contact = serve("--memory", "1MiB")
    array = np.random.default_rng(5).random((300, 400))
    with ts.Staging(contact, offers=True) as staging:
        with staging.offer("x", 1, array) as offer:
            assert (staging.get("x", 1) == array).all()
            assert (staging.get("x", 1, (7, 8), (9, 10)) == array[7:9, 8:10]).all()
            assert repr(offer) == "<Offer of version 1 of 'x'>"
        assert offer.ended
        offer.withdraw()  # again
        offer.wait(0.0)


def test_a_limit_of_versions_ends_offers_and_the_producer_is_told(
    serve: Servers, produce: Produce
) -> None:
    contact = serve("--memory", "1MiB", "--versions", "2")
    producer = produce(contact)
    producer.do("made['all'] = [staging.offer('x', k, np.full(5000, 1.0 * k)) for k in range(4)]")
    producer.do("made['all'][0].wait(); made['all'][1].wait()")
    producer.do("assert [one.ended for one in made['all']] == [True, True, False, False]")
    answer = producer.does("made['all'][2].wait(0.1)")
    assert answer.startswith('Timeout: timed out: version 2 of "x", (0:5000), is offered')
    with ts.Staging(contact) as staging:
        assert staging.get("x", 3)[0] == 3
        staging.discard("x", 2)
        producer.do("made['all'][2].wait()")
        staging.delete("x")
        producer.do("made['all'][3].wait()")


def test_memory_of_ended_offers_is_given_back_by_the_next(serve: Servers) -> None:
    contact = serve("--memory", "1MiB", "--versions", "2")
    freed: list[int] = []

    class Tracked(np.ndarray):
        def __del__(self) -> None:
            freed.append(1)

    with ts.Staging(contact, offers=True) as staging:
        for version in range(6):
            staging.offer("x", version, np.zeros(1000).view(Tracked))
        assert eventually(lambda: len(freed) >= 3, SOON_S)


@pytest.mark.parametrize("servers", [1, 3])
def test_a_server_that_spills_leaves_offers_where_they_are(
    serve: Servers, produce: Produce, servers: int
) -> None:
    contact = serve("--servers", str(servers), "--memory", "1MiB", "--full", "spill")
    producer = produce(contact)
    array = producer.make("pageable", (256, 256))
    producer.do("made['all'] = [staging.offer('x', k, made['x'] + k) for k in range(8)]")
    with ts.Staging(contact) as staging:
        for version in range(8):
            staging.put("x", version, np.full((256, 256), 1.0 * version), (256, 0))
        for version in range(8):
            got = staging.get("x", version, timeout=PATIENCE)
            assert (got[:256] == array + version).all()
            assert (got[256:] == version).all()
    producer.do("for one in made['all']: assert not one.ended; one.withdraw()")


def test_several_clients_offer_with_one_engine(serve: Servers) -> None:
    contact = serve("--memory", "1MiB")
    with ts.Engine(contact=True) as engine, ts.Staging(contact) as reader:
        first = ts.Staging(contact, engine=engine)
        second = ts.Staging(contact, engine=engine)
        first.offer("x", 1, np.full(3000, 1.0))
        second.offer("x", 2, np.full(3000, 2.0))
        first.close()
        assert (reader.get("x", 2) == 2).all()
        with pytest.raises(ts.Timeout):
            reader.get("x", 1, (0,), (5,), timeout=0.2)
        second.close()


@pytest.mark.parametrize("kind", ["pageable", "mapped"])
def test_a_checksum_finds_an_array_that_was_changed(
    serve: Servers, produce: Produce, kind: str
) -> None:
    contact = serve("--memory", "1MiB")
    producer = produce(contact)
    array = producer.make(kind, (3000,))
    producer.do("made['offer'] = staging.offer('x', 1, made['x'], checksum=True)")
    with ts.Staging(contact) as staging:
        assert (staging.get("x", 1) == array).all()
        producer.do("made['x'][2999] = -1")
        with pytest.raises(ts.Error, match="its checksum is another"):
            staging.get("x", 1)
        assert (staging.get("x", 1, (0,), (2999,)) == array[:2999]).all()  # a part is not compared


def test_an_offer_waits_for_the_events_that_write_its_array(serve: Servers) -> None:
    contact = serve("--memory", "1MiB")
    with ts.Engine(contact=True) as engine, ts.Staging(contact, engine=engine) as staging:
        source, target = np.arange(4 * MIB, dtype="u1"), np.zeros(4 * MIB, "u1")
        event = engine.copy(source, target)
        staging.offer("x", 1, target, after=event)
        assert event.done()
        assert (staging.get("x", 1) == source).all()


@pytest.mark.parametrize("servers", [1, 3])
def test_offers_within_a_step(serve: Servers, servers: int) -> None:
    contact = serve("--servers", str(servers), "--memory", "1MiB")
    array = np.arange(40_000.0).reshape(200, 200)
    with ts.Staging(contact, offers=True) as staging, ts.Staging(contact) as reader:
        with staging.step(1) as step:
            offer = step["x"].offer(array, (3, 4))
            step["y"].put(np.ones(7))
            with pytest.raises(ts.Timeout):
                reader.get("x", 1, (3, 4), (5, 6), timeout=0.1)
        for whole in reader.steps():
            assert (whole["x"][...] == array).all()
            assert (whole["y"][...] == 1).all()
            break
        assert not offer.ended
        with pytest.raises(ValueError, match="broken"), staging.step(2) as step:
            given_up = step["x"].offer(array)
            raise ValueError("broken")
        given_up.wait()
        with pytest.raises(ts.InvalidArgument, match="has ended"):
            step["x"].offer(array)
        reader.discard_step(1)
        offer.wait()


@pytest.mark.parametrize("servers", [1, 3])
def test_a_step_of_offers_and_puts_is_got_at_once(serve: Servers, servers: int) -> None:
    contact = serve("--servers", str(servers), "--memory", "16MiB")
    arrays = {
        f"v{k}": np.random.default_rng(k).random((20 + k, 3000 // (k + 1))) for k in range(12)
    }
    with ts.Staging(contact, offers=True) as staging, ts.Staging(contact) as reader:
        with staging.step(1) as step:
            step.put_all({name: array for name, array in arrays.items() if name < "v5"})
            for name, array in arrays.items():
                if name >= "v5":
                    step[name].offer(array, checksum=name == "v6")
            step["both"].put(np.zeros(500))
            step["both"].offer(np.ones(700), (500,))
        whole = next(reader.steps(1, timeout=30))
        got = whole.get_all()
        assert set(got) == {*arrays, "both"}
        for name, array in arrays.items():
            np.testing.assert_array_equal(got[name], array)
        assert got["both"].sum() == 700
        out = {"v7": np.zeros_like(arrays["v7"], order="F")}
        again = whole.get_all(["v7", "v2"], out)
        assert again["v7"] is out["v7"]
        np.testing.assert_array_equal(again["v7"], arrays["v7"])
        np.testing.assert_array_equal(again["v2"], arrays["v2"])


@pytest.mark.parametrize("servers", [1, 3])
def test_an_offer_is_withdrawn_from_its_step_before_that_ends(serve: Servers, servers: int) -> None:
    contact = serve("--servers", str(servers), "--memory", "1MiB")
    array = np.arange(40_000.0).reshape(200, 200)
    with ts.Staging(contact, offers=True) as staging, ts.Staging(contact) as reader:
        with staging.step(1) as step:
            with step["x"].offer(array, (3, 4)) as offer:
                pass
            assert offer.ended
            step["x"].offer(-array, (3, 4))
            step["y"].put(np.ones(7))
        whole = next(reader.steps(1, timeout=PATIENCE))
        assert (whole["x"][...] == -array).all()
        assert (whole["y"][...] == 1).all()


class Cells:
    """What a get may find in each cell of a version: a slow oracle of puts, offers and withdrawals.

    An object that one later object hides whole has gone, and does not come back when that one is
    withdrawn. One that several later objects hide together may have gone, or not.
    """

    def __init__(self, side: int) -> None:
        self.side = side
        self.layers: list[tuple[float, tuple[slice, slice]]] = []
        self.doubtful: set[float] = set()

    def add(self, value: float, place: tuple[slice, slice]) -> None:
        self.layers = [one for one in self.layers if not within(one[1], place)]
        self.layers.append((value, place))
        covered = np.zeros((self.side, self.side), bool)
        for layer, its_place in reversed(self.layers):
            if covered[its_place].all():
                self.doubtful.add(layer)
            covered[its_place] = True

    def remove(self, value: float) -> None:
        self.layers = [one for one in self.layers if one[0] != value]

    def allowed(self, row: int, column: int) -> tuple[set[float], bool]:
        """Returns what may be found in a cell, and whether something must be."""
        values: set[float] = set()
        for value, (rows, columns) in reversed(self.layers):
            if not (rows.start <= row < rows.stop and columns.start <= column < columns.stop):
                continue
            values.add(value)
            if value not in self.doubtful:
                return values, True
        return values, False


def within(inner: tuple[slice, slice], outer: tuple[slice, slice]) -> bool:
    return all(b.start <= a.start and a.stop <= b.stop for a, b in zip(inner, outer, strict=True))


@pytest.mark.parametrize("servers", [1, 3])
def test_random_offers_puts_and_withdrawals_beside_numpy(
    serve: Servers, produce: Produce, servers: int
) -> None:
    contact = serve("--servers", str(servers), "--memory", "64MiB")
    producer = produce(contact)
    rng = np.random.default_rng(20260 + servers)
    side = 40
    cells = Cells(side)
    got = 0
    with ts.Staging(contact) as staging:
        for round in range(120):
            low = rng.integers(0, side - 1, 2)
            high = [int(rng.integers(a + 1, side + 1)) for a in low]
            place = (slice(int(low[0]), high[0]), slice(int(low[1]), high[1]))
            shape = (high[0] - int(low[0]), high[1] - int(low[1]))
            offered = [value for value, _ in cells.layers if value % 2 == 0]
            what = rng.integers(0, 5)
            value = float(2 * round)
            if what == 0 and offered:
                gone = offered[int(rng.integers(0, len(offered)))]
                producer.do(f"made[{gone}].withdraw(); made.pop({gone})")
                cells.remove(gone)
            elif what == 1:
                value += 1
                staging.put("x", 1, np.full(shape, value), (int(low[0]), int(low[1])))
                cells.add(value, place)
            elif what == 2:
                strided = f"np.full(({2 * shape[0]}, {3 * shape[1]}), {value})[::2, ::3]"
                producer.do(
                    f"made[{value}] = staging.offer('x', 1, {strided}, ({low[0]}, {low[1]}))"
                )
                cells.add(value, place)
            found = {
                (row, column): cells.allowed(row, column)
                for row in range(int(low[0]), high[0])
                for column in range(int(low[1]), high[1])
            }
            lower, upper = (int(low[0]), int(low[1])), (high[0], high[1])
            if all(certain for _, certain in found.values()):
                array = staging.get("x", 1, lower, upper, timeout=PATIENCE)
                got += 1
                for (row, column), (values, _) in found.items():
                    assert array[row - lower[0], column - lower[1]] in values
            elif cells.layers and not all(values for values, _ in found.values()):
                with pytest.raises(ts.Timeout):
                    staging.get("x", 1, lower, upper, timeout=0.0)
    assert got > 20


def test_offers_are_named(serve: Servers) -> None:
    contact = serve("--memory", "1MiB")
    with ts.Staging(contact, offers=True) as staging:
        staging.offer("x", 1, np.zeros((4, 5)))
        info = staging.ls()[0]
        assert info["versions"] == [{"version": 1, "objects": 1, "bytes": 160}]
        assert info["puts"]["paths"] == {"offer": 1}  # type: ignore[index]
        assert staging.statistics()["x"]["puts"]["paths"] == {"offer": 1}
