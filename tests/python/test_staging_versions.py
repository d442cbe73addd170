"""Versions by their own bounds: empty puts, gaps, and what `versions`, `get` and "latest" say.

Random histories of writers are compared with a model; more of them come with
`TRANSHIP_VERSION_CASES=1000 pytest tests/python/test_staging_versions.py -k random`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from staging_servers import PATIENCE, Servers, times_out

import tranship as ts

CASES = int(os.environ.get("TRANSHIP_VERSION_CASES", "24"))


@pytest.fixture(scope="module")
def engine() -> Iterator[ts.Engine]:
    with ts.Engine(threads=2) as made:
        yield made


@pytest.fixture(scope="module")
def contact(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("versions") / "contact"
    with ts.StagingServer(path, memory="64MiB"):
        yield path


def follow(reader: ts.Staging, name: str, **options: Any) -> tuple[list[int], list[str], str]:
    """Returns the versions that come, the warnings, and how it ended."""
    got: list[int] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            got.extend(reader[name].versions(timeout=PATIENCE, **options))
            end = "ended"
        except ts.Error as error:
            end = type(error).__name__
    assert all(one.category is ts.SkippedVersionWarning for one in caught)
    assert all(one.filename == __file__ for one in caught)
    return got, [str(one.message) for one in caught], end


def two(contact: Path, engine: ts.Engine) -> tuple[ts.Staging, ts.Staging, ts.Staging]:
    a, b, reader = (ts.Staging(contact, engine=engine, name=name) for name in "abr")
    return a, b, reader


def test_a_version_that_a_writer_passed_by_is_named_and_skipped(
    contact: Path, engine: ts.Engine
) -> None:
    a, b, reader = two(contact, engine)
    for version in range(4):
        a.put("passed", version, np.full(10, version), (0,))
        if version != 1:
            b.put("passed", version, np.full(10, version), (10,))
    times_out(lambda: reader.get("passed", 1, timeout=0.1), "waits for 1 of the processes")
    a.close()
    b.close()
    got, texts, end = follow(reader, "passed")
    assert got == [0, 2, 3] and end == "ended"
    assert len(texts) == 1 and 'version 1 of "passed"' in texts[0]
    got, texts, end = follow(reader, "passed", lower=(0,), upper=(20,))
    assert got == [0, 2, 3] and end == "ended" and 'version 1 of "passed"' in texts[0]
    assert follow(reader, "passed", gaps="error") == ([0], [], "NotFound")
    assert follow(reader, "passed", lower=(0,), upper=(5,)) == ([0, 1, 2, 3], [], "ended")
    with pytest.raises(ts.Closed, match='version 1 of "passed"'):
        reader.get("passed", 1)
    with pytest.raises(ts.Closed, match='version 1 of "passed"'):
        reader["passed"][1]
    assert len(reader["passed"][1, :7]) == 7  # a part is there
    assert len(reader["passed"][2, 3:]) == 17
    assert reader["passed"].bounds(1) == ((0,), (10,))
    assert reader.get("passed", "latest")[0] == 3
    with pytest.raises(ts.InvalidArgument, match="gaps='no'"):
        reader["passed"].versions(gaps="no")  # type: ignore[arg-type]
    reader.close()


@pytest.mark.filterwarnings("ignore::tranship.SkippedVersionWarning")
def test_a_subscription_agrees_with_versions(contact: Path, engine: ts.Engine) -> None:
    a, b, reader = two(contact, engine)
    sizes = [(5, 3), (0, 4), (2, 0), (7, 7), (1, 2)]
    got: dict[int, int] = {}
    a.nothing("subscribed", -1)  # both are known before the first version
    b.nothing("subscribed", -1)
    subscription = reader.subscribe("subscribed", lambda k, array: got.update({k: len(array)}))
    strict = reader.subscribe("subscribed", lambda k, array: None, gaps="error")
    for version, (left, right) in enumerate(sizes):
        a.put("subscribed", version, np.zeros(left), (0,))
        if version != 3:
            b.put("subscribed", version, np.zeros(right), (left,))
    a.close()
    b.close()
    subscription.wait(PATIENCE)
    assert got == {0: 8, 1: 4, 2: 2, 4: 3}
    with pytest.raises(ts.NotFound, match='version 3 of "subscribed"'):
        strict.wait(PATIENCE)
    reader.close()


def test_a_dead_writer_ends_a_stream_after_its_whole_versions(
    contact: Path, engine: ts.Engine
) -> None:
    script = (
        "import os, sys, numpy as np, tranship as ts\n"
        "s = ts.Staging(sys.argv[1])\n"
        "for k in (0, 2): s.put('dead', k, np.ones(3), (0,))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    _, b, reader = two(contact, engine)
    done = subprocess.run([sys.executable, "-c", script, str(contact)], timeout=PATIENCE)
    assert done.returncode == -9
    for version in range(4):
        b.put("dead", version, np.ones(3), (3,))
    b.close()
    got, texts, end = follow(reader, "dead")
    assert got == [0, 2] and end == "PeerLost"
    assert len(texts) == 2 and "version 1" in texts[0] and "version 3" in texts[1]
    _.close()
    reader.close()


def test_writers_without_data_take_part(contact: Path, engine: ts.Engine) -> None:
    clients = [ts.Staging(contact, engine=engine) for _ in range(4)]
    for one in clients:
        one.define("parts", "f8", (0,), (30,), writers=4)
    clients[3].nothing("parts", 0)  # before anything was put
    for version in (0, 1):
        for k in range(3):
            clients[k].put("parts", version, np.full(10, k + 0.5), (10 * k,))
    clients[3].put("parts", 1, np.empty(0), (30,))
    for one in clients:
        one.close()
    with ts.Staging(contact, engine=engine) as reader:
        assert follow(reader, "parts") == ([0, 1], [], "ended")


def test_versions_without_data_are_versions(contact: Path, engine: ts.Engine) -> None:
    with ts.Staging(contact, engine=engine) as writer:
        writer.put("particles", 0, np.zeros((0, 3)), lower=(10, 0))
        writer.put("particles", 1, np.ones((5, 3)), lower=(10, 0))
        writer.put("particles", 2, np.zeros((0, 3)))
        empty = writer.get("particles", 0)
        assert empty.shape == (0, 3) and empty.dtype == np.float64
        assert writer["particles"].bounds(0) == ((10, 0), (10, 3))
        assert writer["particles"].boxes(0) == []
        assert writer["particles"].bounds("latest") == ((0, 0), (0, 3))
        assert writer.get("particles", "latest").shape == (0, 3)
        assert writer.get("particles", 1).shape == (5, 3)
        assert writer["particles"][1].shape == (5, 3)
        nothing = writer.get("particles", 1, (11, 0), (11, 3))
        assert nothing.shape == (0, 3) and nothing.dtype == np.float64
        assert writer.get("particles", 1, (11, 0), (11, 3), nothing) is nothing
        with pytest.raises(ts.InvalidArgument, match="out has the shape"):
            writer.get("particles", 1, (11, 0), (11, 3), np.zeros((1, 3)))
        with pytest.raises(ts.InvalidArgument, match="is no box"):
            writer.get("particles", 1, (11, 0), (10, 3))
        with pytest.raises(ts.InvalidArgument, match="dimensions"):
            writer.put("particles", 3, np.zeros(0))
        with pytest.raises(ts.InvalidArgument, match="elements of f8"):
            writer.put("particles", 3, np.zeros((0, 3), "f4"))
        writer.put_async("particles", 3, np.zeros((0, 3))).result(PATIENCE)
        assert writer.get_async("particles", 3).result(PATIENCE).shape == (0, 3)


def test_each_version_is_as_large_as_it_was_put(contact: Path, engine: ts.Engine) -> None:
    sizes = [6194, 5675, 6300, 5675]
    writer, other, reader = two(contact, engine)
    followed: list[int] = []
    thread = threading.Thread(target=lambda: followed.extend(follow(reader, "sizes")[0]))
    thread.start()
    for version, size in enumerate(sizes):
        writer.put("sizes", version, np.full(size, version, "i8"), (100,))
    for version, size in enumerate(sizes):
        assert (other.get("sizes", version) == version).sum() == size
        assert other["sizes"].bounds(version) == ((100,), (100 + size,))
        assert other["sizes"].boxes(version) == [((100,), (100 + size,))]
        assert other["sizes"][version].shape == (size,)
    newest = other.get("sizes", "latest")
    assert newest.shape == (5675,) and newest[0] == 3
    assert other["sizes"].bounds("latest") == ((100,), (5775,))
    array = other.to_xarray("sizes", 1)
    assert array.shape == (5675,) and int(array[0]) == 1
    assert other.to_xarray("sizes", "latest").attrs["version"] == 3
    writer.close()
    thread.join(PATIENCE)
    assert followed == [0, 1, 2, 3]
    other.close()
    reader.close()


def test_boxes_of_a_refined_grid(contact: Path, engine: ts.Engine) -> None:
    with ts.Staging(contact, engine=engine) as writer:
        patches = {0: [(0, 0), (8, 8)], 1: [(2, 4)], 2: [(0, 0), (4, 4), (20, 0)]}
        for version, corners in patches.items():
            for corner in corners:
                writer.put("patches", version, np.full((4, 4), version), corner)
            expected = [(one, (one[0] + 4, one[1] + 4)) for one in corners]
            assert writer["patches"].boxes(version) == expected
        assert writer["patches"].bounds(2) == ((0, 0), (24, 8))
        assert writer.get("patches", 1).shape == (4, 4)
        times_out(lambda: writer["patches"].bounds(7, timeout=0.1), "is not there")
        with pytest.raises(ts.NotFound):
            writer.discard("patches", 0)
            writer["patches"].bounds(0)


def test_a_writer_of_several_boxes_has_finished_with_as_many_as_before(
    contact: Path, engine: ts.Engine
) -> None:
    with ts.Staging(contact, engine=engine) as writer:
        for version, size in enumerate((10, 8, 6)):
            for half in (0, 1):
                if version > 0 and half == 1:  # one box, and one is still to come
                    with pytest.raises(ts.Timeout):
                        next(writer["halves"].versions(after=version - 1, timeout=0.2))
                writer.put("halves", version, np.full(size, version), (size * half,))
            found = next(writer["halves"].versions(after=version - 1, timeout=PATIENCE))
            assert found == version
            assert writer.get("halves", version).shape == (2 * size,)
        writer.put("halves", 3, np.zeros(4, "i8"))  # fewer boxes: whole once it goes on
        writer.put("halves", 4, np.zeros(4, "i8"))
        assert next(writer["halves"].versions(after=2, timeout=PATIENCE)) == 3


def test_what_is_put_again_takes_no_more_memory(serve: Servers) -> None:
    contact = serve("--memory", "16MiB", "--servers", "2")
    with ts.Staging(contact, threads=2) as staging:
        for k in range(20):
            staging.put("state", 0, np.full(1 << 19, float(k)), timeout=PATIENCE)
            for half in (0, 1):
                lower = (half << 18,)
                staging.put("state", 0, np.full(1 << 18, k + 0.5), lower, timeout=PATIENCE)
        assert (staging.get("state", 0) == 19.5).all()
        for k in range(20):
            staging.put(f"deleted {k}", 0, np.full(1 << 19, float(k)), timeout=PATIENCE)
            staging.delete(f"deleted {k}")
            with pytest.raises(ts.Error):
                staging.put("state", 0, np.zeros((2, 1 << 18)), timeout=PATIENCE)


def test_the_commands_follow_versions(contact: Path, tmp_path: Path) -> None:
    def command(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "tranship.cli", *words, "--json"],
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    np.save(tmp_path / "a.npy", np.zeros((80, 60)))
    np.save(tmp_path / "b.npy", np.ones((30, 20)))
    command("put", str(contact), "T", "0", str(tmp_path / "a.npy"))
    command("put", str(contact), "T", "1", str(tmp_path / "b.npy"), "--lower", "5,5")
    out = str(tmp_path / "out.npy")
    newest = command("get", str(contact), "T", "latest", out)
    assert newest["shape"] == [30, 20] and np.load(out).sum() == 600
    assert newest["version"] == 1 and newest["lower"] == [5, 5]
    assert command("get", str(contact), "T", "0", out)["shape"] == [80, 60]


@dataclass
class Model:
    """What the writers of one variable did."""

    seed: int
    random: random.Random = field(init=False)
    boxes: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    """Lower, upper and value of what was put, by version, in the order of the puts."""
    parts: dict[int, set[int]] = field(default_factory=dict)
    """Versions in which each writer took part."""
    empties: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def bounds(self, version: int) -> tuple[int, int] | None:
        puts = self.boxes.get(version)
        return (min(a for a, _, _ in puts), max(b for _, b, _ in puts)) if puts else None

    def array(self, version: int) -> np.ndarray[Any, Any]:
        bounds = self.bounds(version)
        if bounds is None:
            return np.zeros(0)
        lower, upper = bounds
        array = np.full(upper - lower, -1.0)
        for a, b, value in self.boxes[version]:
            array[a - lower : b - lower] = value
        return array

    def is_whole(self, version: int) -> bool:
        """Whether it is once all writers have closed."""
        every = [self.bounds(k) for k in self.boxes]
        lowest = min((one[0] for one in every if one), default=0)
        highest = max((one[1] for one in every if one), default=0)
        complete = self.bounds(version) == (lowest, highest) or all(
            version in parts for parts in self.parts.values() if parts and min(parts) <= version
        )
        return complete and -1.0 not in self.array(version)


def act(model: Model, clients: list[ts.Staging], name: str) -> None:
    """One random put, empty put or word of a writer."""
    chance = model.random
    writer = chance.randrange(len(clients))
    version = chance.randrange(5)
    step = chance.random()
    if step < 0.1:
        clients[writer].nothing(name, version)
    elif step < 0.2:
        clients[writer].put(name, version, np.zeros(0), (chance.randrange(9),))
        model.empties.add(version)
    else:
        lower = 4 * chance.randrange(4)
        size = 4 * chance.randrange(1, 4)
        value = chance.randrange(1 << 30)
        clients[writer].put(name, version, np.full(size, float(value)), (lower,))
        model.boxes.setdefault(version, []).append((lower, lower + size, value))
    model.parts.setdefault(writer, set()).add(version)


@pytest.mark.parametrize("seed", range(CASES))
def test_random_writers_and_what_readers_get(contact: Path, engine: ts.Engine, seed: int) -> None:
    model = Model(seed)
    name = f"random {seed}"
    clients = [ts.Staging(contact, engine=engine) for _ in range(model.random.randrange(1, 4))]
    reader = ts.Staging(contact, engine=engine)
    for _ in range(model.random.randrange(1, 20)):
        act(model, clients, name)
    for one in clients:
        one.close()
    if not model.boxes and not model.empties:
        reader.close()
        return
    held = sorted({*model.boxes, *model.empties})
    whole = [version for version in held if model.is_whole(version)]
    got, texts, end = follow(reader, name)
    assert (got, end) == (whole, "ended")
    skipped = [version for version in held if version not in whole]
    assert len(texts) == len(skipped)
    for version, text in zip(skipped, texts, strict=True):
        assert f'version {version} of "{name}"' in text
    for version in held:
        bounds = model.bounds(version)
        if bounds is not None:
            assert reader[name].bounds(version) == ((bounds[0],), (bounds[1],))
        if version in whole:
            assert np.array_equal(reader.get(name, version), model.array(version))
        else:
            with pytest.raises(ts.Closed):
                reader.get(name, version)
    if whole:
        assert np.array_equal(reader.get(name, "latest"), model.array(whole[-1]))
    else:
        with pytest.raises(ts.Closed):
            reader.get(name, "latest")
    assert sum(one["objects"] for info in reader.ls() if info["name"] == name
               for one in info["versions"]) == sum(
        len(reader[name].boxes(version)) for version in held)  # fmt: skip
    reader.delete(name)
    reader.close()
