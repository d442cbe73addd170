"""Steps: many variables and attributes that readers see whole or not at all.

More random histories come with `TRANSHIP_STEP_CASES=300 pytest tests/python/test_steps.py`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from staging_servers import PATIENCE, Servers, times_out

import tranship as ts
from support import eventually

CASES = int(os.environ.get("TRANSHIP_STEP_CASES", "12"))


@pytest.fixture(params=[1, 3])
def contact(request: pytest.FixtureRequest, serve: Servers) -> Path:
    return serve("--servers", str(request.param), "--memory", "32MiB")


@pytest.fixture
def sim(contact: Path) -> Iterator[ts.Staging]:
    with ts.Staging(contact, name="simulation") as made:
        yield made


@pytest.fixture
def ana(contact: Path) -> Iterator[ts.Staging]:
    with ts.Staging(contact, name="analysis") as made:
        yield made


def write(staging: ts.Staging, number: int, **options: Any) -> None:
    with staging.step(number, **options) as step:
        step["energy"].put(np.full((8, 8), float(number)), lower=(0, 8))
        step["count"].put(3 * number)
        step.attributes["time"] = 0.5 * number


def numbers(steps: Iterator[ts.Step], count: int) -> list[int]:
    return [next(steps).number for _ in range(count)]


def test_a_step_is_seen_with_all_that_it_has(sim: ts.Staging, ana: ts.Staging) -> None:
    big = np.random.default_rng(1).random((300, 400))
    with sim.step(5) as step:
        step["big"].put(big)
        begun = step.put_async("begun", np.arange(5))
        step["name"].put("a text")
        step["none"].put(np.zeros((0, 3)))
        step["big"].attributes["unit"] = "J"
        step.attributes["dt"] = np.float32(0.5)
        step.attributes.update(
            labels=["a", "ö"], shape=np.arange(3), nothing=None, deep={"k": True}
        )
        begun.result(timeout=PATIENCE)
        assert not [info for info in ana.ls() if info["versions"]]
        times_out(lambda: ana.get("big", 5, timeout=0.05), "is not there|been put")
        times_out(lambda: next(ana.steps(timeout=0.05)), "0 of 1 writers")
    found = next(ana.steps(timeout=PATIENCE))
    assert found.number == 5
    assert found.variables == ("begun", "big", "name", "none")
    assert dict(found.attributes) == {
        "dt": 0.5,
        "labels": ["a", "ö"],
        "shape": [0, 1, 2],
        "nothing": None,
        "deep": {"k": True},
    }
    assert dict(found["big"].attributes) == {"unit": "J"}
    assert (found["big"].shape, found["big"].dtype, found["big"].ndim) == ((300, 400), "f8", 2)
    assert found["big"].boxes == [((0, 0), (300, 400))]
    np.testing.assert_array_equal(found["big"], big)
    np.testing.assert_array_equal(found["big"][3:7, -2], big[3:7, -2])
    np.testing.assert_array_equal(found["begun"].get((1,), (3,)), [1, 2])
    assert found["name"][()] == "a text"
    assert found["none"].get().shape == (0, 3)
    np.testing.assert_array_equal(ana.get("big", 5), big)  # as a version of a variable
    with pytest.raises(ts.NotFound, match="no variable 'x'; it has begun, big"):
        found["x"]
    assert "x" not in found
    assert found.get("x") is None


def test_an_exception_in_a_step_leaves_nothing(sim: ts.Staging, ana: ts.Staging) -> None:
    write(sim, 1)
    with pytest.raises(ZeroDivisionError), sim.step(2) as step:
        step["energy"].put(np.ones((500, 500)))
        step["other"].put(7)
        raise ZeroDivisionError("no")
    write(sim, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert numbers(ana.steps(timeout=PATIENCE), 2) == [1, 3]
    assert [one.category for one in caught] == [ts.SkippedVersionWarning]
    assert "step 2 was given up: ZeroDivisionError: no" in str(caught[0].message)
    assert caught[0].filename == __file__
    with pytest.raises(ts.NotFound, match="step 2 was given up"):
        numbers(ana.steps(timeout=PATIENCE, gaps="error"), 2)
    held = {info["name"]: [one["version"] for one in info["versions"]] for info in ana.ls()}
    assert held["energy"] == [1, 3]
    assert not held.get("other")
    versions = ana["energy"].versions(timeout=PATIENCE)
    assert [next(versions), next(versions)] == [1, 3]


def test_a_broken_step_may_be_written_again_while_it_is_the_highest(sim: ts.Staging) -> None:
    with sim.step(4) as step:
        step["x"].put(np.ones(3))
        step.give_up("bad numbers")
    with sim.step(4) as step:
        step["x"].put(np.full(3, 2.0))
    assert next(sim.steps())["x"][0] == 2.0
    for number in (4, 3):
        with pytest.raises(ts.InvalidArgument, match=r"is whole|steps rise"), sim.step(number):
            pass
    with sim.step(5) as step, pytest.raises(ts.InvalidArgument, match="steps rise"), sim.step(4):
        pass


def test_a_step_of_several_writers_waits_for_all(contact: Path, ana: ts.Staging) -> None:
    with ts.Staging(contact) as first, ts.Staging(contact) as second:
        writers = first, second
        for number in range(3):
            for rank, staging in enumerate(writers):
                with staging.step(number, writers=2) as step:
                    step["energy"].put(np.full((4, 4), 10 * number + rank), lower=(0, 4 * rank))
                    step.attributes["dt"] = 0.1
                    step.attributes[f"rank {rank}"] = rank
                if rank == 0:
                    reason = "1 of 2 writers"
                    times_out(lambda n=number: next(ana.steps(n, timeout=0.05)), reason)
            step = next(ana.steps(number, timeout=PATIENCE))
            assert step["energy"].shape == (4, 8)
            assert step["energy"].boxes == [((0, 0), (4, 4)), ((0, 4), (4, 8))]
            np.testing.assert_array_equal(
                step["energy"][0, ::1][3:5], [10 * number, 10 * number + 1]
            )
            assert dict(step.attributes) == {"dt": 0.1, "rank 0": 0, "rank 1": 1}
        with first.step(7, writers=2):
            with pytest.raises(ts.InvalidArgument, match="has 2 writers, not 1"), second.step(7):
                pass
            with pytest.raises(ts.InvalidArgument, match="begun step 7 before"):
                first.step(7, writers=2).__enter__()
            with second.step(7, writers=2) as step:
                step.attributes["dt"] = 0.2
            with ts.Staging(contact) as third, pytest.raises(ts.InvalidArgument, match="its 2 wri"):
                third.step(7, writers=2).__enter__()


def test_writers_that_contradict_each_other_break_their_step(contact: Path) -> None:
    with ts.Staging(contact) as first, ts.Staging(contact) as second:
        with first.step(1, writers=2) as step:
            step.attributes["dt"] = 0.1
        why = pytest.raises(ts.InvalidArgument, match='"dt" of step 1 has another value')
        with why, second.step(1, writers=2) as step:
            step.attributes["dt"] = 0.2
        # Readers wait: it may be written again.
        times_out(lambda: next(first.steps(1, timeout=0.1)), "given up.*may be begun again")
        write(first, 2)
        steps = first.steps(1, gaps="error", timeout=PATIENCE)
        with pytest.raises(ts.NotFound, match="given up"):
            next(steps)
        assert next(steps).number == 2  # what came behind is not lost


def test_a_group_that_goes_on_without_a_step_breaks_it(contact: Path, ana: ts.Staging) -> None:
    with ts.Staging(contact) as first, ts.Staging(contact) as second:
        with first.step(1, writers=2) as step:
            step["x"].put(np.ones(4))
        with first.step(2, writers=2) as step:
            step["x"].put(np.ones(4))
        with second.step(2, writers=2) as step:
            step["x"].put(np.ones(4), lower=(4,))
        with pytest.warns(ts.SkippedVersionWarning, match="gone on to step 2"):
            assert next(ana.steps(timeout=PATIENCE)).number == 2


WRITER = """
import sys, time
import numpy as np
import tranship as ts
staging = ts.Staging(sys.argv[1], name="the other")
with staging.step(int(sys.argv[2]), writers=int(sys.argv[3])) as step:
    step["x"].put(np.full(1000, 7.0), lower=(1000,))
    step["y"].put(1)
    print("within", flush=True)
    sys.stdin.readline()
    step["z"].put(np.arange(10))
print("ended", flush=True)
time.sleep(60)
"""


def other_writer(contact: Path, number: int, writers: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(contact), str(number), str(writers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "within\n"
    return process


def test_a_writer_that_is_killed_within_a_step_leaves_nothing(
    contact: Path, sim: ts.Staging, ana: ts.Staging
) -> None:
    why = pytest.raises(ts.NotFound, match='"the other" of step 1 was lost')
    with why, sim.step(1, writers=2) as step:
        step["x"].put(np.ones(1000))
        with other_writer(contact, 1, 2) as process:
            process.kill()
        assert eventually(lambda: ana.servers()[0]["clients"] == 2)
    write(sim, 2)
    with pytest.warns(ts.SkippedVersionWarning, match="was lost within it"):
        assert next(ana.steps(timeout=PATIENCE)).number == 2
    assert not [info for info in ana.ls() if info["name"] in "xyz" and info["versions"]]
    # Its memory is free again.
    assert eventually(lambda: sum(one["memory_used"] for one in ana.servers()) < 8192)


def test_a_step_outlives_a_writer_that_is_killed_after_its_end(
    contact: Path, sim: ts.Staging, ana: ts.Staging
) -> None:
    with other_writer(contact, 1, 2) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ended\n"
        process.kill()
    assert eventually(lambda: ana.servers()[0]["clients"] == 2)
    with sim.step(1, writers=2) as step:
        step["x"].put(np.ones(1000))
    found = next(ana.steps(timeout=PATIENCE))
    np.testing.assert_array_equal(found["x"][998:1002], [1, 1, 7, 7])
    assert found.variables == ("x", "y", "z")


def test_a_writer_that_stands_still_is_not_dead(
    contact: Path, sim: ts.Staging, ana: ts.Staging
) -> None:
    with other_writer(contact, 1, 2) as process:
        process.send_signal(signal.SIGSTOP)
        with sim.step(1, writers=2) as step:
            step["x"].put(np.ones(1000))
        times_out(lambda: next(ana.steps(timeout=0.5)), "1 of 2 writers")
        process.send_signal(signal.SIGCONT)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert len(next(ana.steps(timeout=PATIENCE))["x"]) == 2000
        process.kill()


def test_a_fork_within_a_step_does_not_end_it(sim: ts.Staging, ana: ts.Staging) -> None:
    with sim.step(1) as step:
        step["x"].put(np.ones(4))
        child = os.fork()
        if child == 0:
            try:
                step["x"].put(np.zeros(4))
            except ts.Closed:
                try:
                    step.end()
                except ts.Closed:
                    os._exit(3)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert next(ana.steps(timeout=PATIENCE))["x"][0] == 1


def test_closing_within_a_step_gives_it_up(contact: Path, ana: ts.Staging) -> None:
    staging = ts.Staging(contact)
    step = staging.step(1)
    with step:
        step["x"].put(np.ones(4))
        staging.close()
        with pytest.raises(ts.Closed):
            step.end()
    with pytest.warns(ts.SkippedVersionWarning, match="was lost|given up"):
        assert list(ana.steps(timeout=PATIENCE)) == []


def test_where_a_reader_begins(sim: ts.Staging, ana: ts.Staging) -> None:
    fresh = ana.steps("latest", timeout=PATIENCE)
    for number in (10, 20, 30, 40):
        write(sim, number)
    assert numbers(fresh, 2) == [10, 20]
    assert numbers(ana.steps(timeout=PATIENCE), 4) == [10, 20, 30, 40]
    assert numbers(ana.steps("latest", timeout=PATIENCE), 1) == [40]
    assert numbers(ana.steps(20, timeout=PATIENCE), 3) == [20, 30, 40]
    assert numbers(ana.steps(11, every=2, timeout=PATIENCE), 2) == [20, 40]
    later = ana.steps("next", timeout=PATIENCE)
    write(sim, 50)
    assert numbers(later, 1) == [50]
    sim.close()
    assert list(later) == []
    assert [step.number for step in ana.steps(30)] == [30, 40, 50]


def test_coroutines_follow_steps(sim: ts.Staging, ana: ts.Staging) -> None:
    async def follow() -> list[int]:
        return [step.number async for step in ana.steps(timeout=PATIENCE)]

    def produce() -> None:
        for number in range(3):
            write(sim, number)
        sim.close()

    thread = threading.Thread(target=produce)
    thread.start()
    assert asyncio.run(follow()) == [0, 1, 2]
    thread.join()


def test_a_discarded_step_goes_with_all_its_variables(sim: ts.Staging, ana: ts.Staging) -> None:
    for number in range(3):
        write(sim, number)
    ana.discard_step(1)
    assert numbers(ana.steps(timeout=PATIENCE), 2) == [0, 2]
    for name in ("energy", "count"):
        with pytest.raises(ts.NotFound, match="was discarded"):
            ana.get(name, 1)
    with pytest.raises(ts.NotFound, match="step 1"):
        ana.discard_step(1)
    with pytest.raises(ts.InvalidArgument, match="steps rise"), sim.step(1):
        pass
    ana.discard("count", 0)  # the step goes on without it
    found = next(ana.steps(timeout=PATIENCE))
    assert (found.number, found.variables) == (0, ("energy",))
    with sim.step(3) as step:
        step["energy"].put(np.ones(4).reshape(2, 2))
        step["count"].put(3)
        ana.delete("count")
    assert ana["energy"].shape
    assert next(ana.steps(3, timeout=PATIENCE)).variables == ("energy",)
    found = next(ana.steps(2, timeout=PATIENCE))
    assert (found.number, found.variables) == (2, ("energy",))
    np.testing.assert_array_equal(found["energy"], np.full((8, 8), 2.0))


def test_attributes_of_a_run_and_of_variables(sim: ts.Staging, ana: ts.Staging) -> None:
    sim.attributes["code"] = "LBM 3.1"
    sim["energy"].attributes.update(unit="J", missing=float("nan"), range=(0, np.int8(9)))
    assert dict(ana.attributes) == {"code": "LBM 3.1"}
    assert ana["energy"].attributes["range"] == [0, 9]
    assert np.isnan(ana["energy"].attributes["missing"])
    ana.attributes["code"] = ["other"]
    assert sim.attributes.get("code") == ["other"]
    assert sim.attributes.get("x", 3) == 3
    del sim.attributes["code"]
    assert "code" not in ana.attributes
    with pytest.raises(ts.NotFound, match="the run has no attribute 'code'"):
        ana.attributes["code"]
    sim.put("energy", 0, np.ones(3))
    sim.delete("energy")
    assert eventually(lambda: len(ana["energy"].attributes) == 0)
    for value in (np.ones, {1, 2}, b"bytes", 1j, np.datetime64("2020-01-01")):
        with pytest.raises(ts.InvalidArgument, match="the attribute 'k' cannot be"):
            sim.attributes["k"] = value
        with pytest.raises(ts.InvalidArgument), sim.step(0) as step:
            step.attributes["k"] = value
    with pytest.raises(ts.InvalidArgument, match="put it as a variable"):
        sim.attributes["k"] = "x" * 300_000


def test_attributes_have_a_limit(serve: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRANSHIP_STAGING_ATTRIBUTE_BYTES", "1000")
    contact = serve("--memory", "8MiB")
    with ts.Staging(contact) as staging:
        for k in range(9):
            staging.attributes[f"k{k}"] = "x" * 100
        with pytest.raises(ts.Error, match="staging_attribute_bytes"):
            staging.attributes["more"] = "x" * 100
        assert len(staging.attributes) == 9
        with pytest.raises(ts.Error, match="staging_attribute_bytes"), staging.step(0) as step:
            step["x"].put(1)
            step.attributes["text"] = "x" * 2000
        times_out(lambda: next(staging.steps(timeout=0.05)), "given up")


def test_many_variables_and_attributes_need_several_messages(
    sim: ts.Staging, ana: ts.Staging
) -> None:
    count = 2000
    with sim.step(0) as step:
        for k in range(count):
            step.attributes[f"a{k}"] = "x" * 400
        for k in range(50):
            step[f"v{k}" + "y" * 900].put(np.full(3, k))
    found = next(ana.steps(timeout=PATIENCE))
    assert len(found.attributes) == count
    assert len(found) == 50
    assert all(found[name][1] == int(name[1 : name.index("y")]) for name in found)


def test_a_group_shares_steps_and_frees_them(contact: Path, sim: ts.Staging) -> None:
    with ts.Staging(contact) as a, ts.Staging(contact) as b, ts.Staging(contact) as c:
        first = a.steps(group="viz", timeout=PATIENCE)
        second = b.steps(group="viz", timeout=PATIENCE)
        alone = c.steps(group="log", timeout=PATIENCE)
        for number in range(6):
            write(sim, number)
        one, two = next(first), next(second)
        assert [one.number, two.number] == [0, 1]
        assert one["energy"][0, 8] == 0.0
        assert next(first).number == 2  # which releases step 0
        assert numbers(alone, 2) == [0, 1]
        assert eventually(lambda: 0 not in sim["energy"])
        assert 1 in sim["energy"]
        two.release()
        alone.close()
        assert eventually(lambda: sim["energy"]._held() == [2, 3, 4, 5])
        b.close()
        with first:
            assert numbers(first, 3) == [3, 4, 5]
        assert eventually(lambda: sim["energy"]._held() == [])


def test_what_a_dead_reader_held_goes_to_another(contact: Path, sim: ts.Staging) -> None:
    script = (
        "import sys, time, tranship as ts\n"
        "staging = ts.Staging(sys.argv[1])\n"
        "print(next(staging.steps(group='viz')).number, flush=True)\n"
        "time.sleep(60)\n"
    )
    write(sim, 0)
    write(sim, 1)
    with ts.Staging(contact) as reader:
        steps = reader.steps(group="viz", timeout=PATIENCE)
        with subprocess.Popen(
            [sys.executable, "-c", script, str(contact)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "0\n"
            process.kill()
        assert eventually(lambda: sim.servers()[0]["clients"] == 2)
        assert numbers(steps, 2) == [0, 1]


def test_round_robin_gives_steps_in_turn(contact: Path, sim: ts.Staging) -> None:
    with ts.Staging(contact) as a, ts.Staging(contact) as b:
        first = a.steps(group="viz", share="round-robin", timeout=PATIENCE)
        second = b.steps(group="viz", share="round-robin", timeout=PATIENCE)
        for number in range(4):
            write(sim, number)
        assert numbers(first, 2) == [0, 2]
        assert numbers(second, 2) == [1, 3]
        with pytest.raises(ts.InvalidArgument, match="shares steps in another way"):
            sim.steps(group="viz")
        with pytest.raises(ts.InvalidArgument, match="is a reader of the group"):
            a.steps(group="viz", share="round-robin")


def test_a_full_queue_holds_writers_back(contact: Path, sim: ts.Staging) -> None:
    sim.define_steps(queue=2)
    write(sim, 0)
    write(sim, 1)
    why = "2 steps are kept.*no reader is registered"
    times_out(lambda: sim.step(2, timeout=0.05).__enter__(), why)
    with ts.Staging(contact) as reader:
        steps = reader.steps(group="slow", timeout=PATIENCE)
        times_out(lambda: sim.step(2, timeout=0.05).__enter__(), '"slow" have not released step 0')
        ended: list[float] = []

        def produce() -> None:
            write(sim, 2, timeout=PATIENCE)
            ended.append(time.monotonic())

        thread = threading.Thread(target=produce)
        thread.start()
        held = next(steps)
        time.sleep(0.2)
        assert not ended
        held.release()
        thread.join(PATIENCE)
        assert ended
        assert numbers(steps, 2) == [1, 2]


def test_a_full_queue_drops_the_oldest_or_the_newest(contact: Path, sim: ts.Staging) -> None:
    sim.define_steps(queue=2, full="drop-oldest", keep_first=True)
    for number in range(5):
        write(sim, number)
    with ts.Staging(contact) as reader:
        assert numbers(reader.steps(timeout=PATIENCE), 3) == [0, 3, 4]
        steps = reader.steps(1, group="viz", timeout=PATIENCE)
        assert next(steps).number == 3  # held: it stays
        write(sim, 5)
        assert numbers(reader.steps(timeout=PATIENCE), 3) == [0, 3, 5]
        sim.define_steps(queue=2, full="drop-newest")
        with sim.step(6) as step:
            assert step.dropped
            step["energy"].put(np.ones((8, 8)))
        times_out(
            lambda: next(reader.steps(6, timeout=0.2)), "step 6 was dropped: 3 steps are kept"
        )
        assert 6 not in reader["energy"]
        with pytest.raises(ts.InvalidArgument, match="--full spill"):
            sim.define_steps(queue=2, full="spill")


def test_the_first_step_waits_for_readers(contact: Path, sim: ts.Staging) -> None:
    sim.define_steps(readers=2)
    times_out(lambda: sim.step(0, timeout=0.05).__enter__(), "0 of 2 readers have registered")
    with ts.Staging(contact) as a, ts.Staging(contact) as b:
        first, second = a.steps(group="a"), b.steps(group="b")
        write(sim, 0)
        assert numbers(first, 1) == numbers(second, 1) == [0]


@pytest.mark.parametrize("seed", range(CASES))
def test_random_steps_are_whole(contact: Path, seed: int) -> None:
    """Writers that give steps up at random, and readers in threads beside them."""
    chance = random.Random(seed)
    writers, count = chance.randint(1, 3), chance.randint(2, 8)
    names = [f"v{seed}.{k}" for k in range(chance.randint(1, 5))]
    first = 100 * seed
    clients = [ts.Staging(contact) for _ in range(writers)]
    broken = {number for number in range(first, first + count) if chance.random() < 0.25}
    sizes = {name: chance.choice([1, 10, 5000, 40000]) for name in names}
    seen: dict[int, list[int]] = {0: [], 1: []}
    wrong: list[str] = []

    def write_all(rank: int) -> None:
        staging = clients[rank]
        for number in range(first, first + count):
            try:
                with staging.step(number, writers=writers, timeout=PATIENCE) as step:
                    arrays = {name: np.full(sizes[name], number + 0.5) for name in names}
                    lower = {name: (rank * sizes[name],) for name in names}
                    if number % 2 == 0:
                        step.put_all(arrays, lower)
                    else:
                        for name, array in arrays.items():
                            step[name].put(array, lower[name])
                    if number in broken and rank == 0:
                        raise KeyError(number)
            except (KeyError, ts.NotFound, ts.InvalidArgument):
                if number not in broken:
                    wrong.append(f"step {number} broke")
        staging.close()

    def follow(k: int) -> None:
        with ts.Staging(contact) as reader:
            for step in reader.steps(first, timeout=PATIENCE):
                seen[k].append(step.number)
                together = step.get_all(names) if k == 0 else {}
                for name in names:
                    got = together[name] if k == 0 else step[name].get()
                    if got.shape != (writers * sizes[name],) or (got != step.number + 0.5).any():
                        wrong.append(f"step {step.number} has wrong values of {name}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ts.SkippedVersionWarning)
        threads = [threading.Thread(target=write_all, args=(rank,)) for rank in range(writers)]
        threads += [threading.Thread(target=follow, args=(k,)) for k in seen]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * PATIENCE)
    assert not wrong
    whole = [number for number in range(first, first + count) if number not in broken]
    assert seen[0] == seen[1] == whole


def test_a_reader_that_waits_gets_a_step_that_is_written_again(
    sim: ts.Staging, ana: ts.Staging
) -> None:
    with sim.step(3) as step:
        step.give_up("bad numbers")
    got: list[int] = []
    thread = threading.Thread(
        target=lambda: got.extend(numbers(ana.steps(timeout=PATIENCE), 2)), daemon=True
    )
    thread.start()
    time.sleep(0.1)
    write(sim, 3)
    write(sim, 4)
    thread.join(PATIENCE)
    assert got == [3, 4]


def test_a_step_whose_begin_was_not_answered_is_broken(serve: Servers) -> None:
    contact = serve("--memory", "8MiB")
    with ts.Staging(contact) as sim, ts.Staging(contact) as ana:
        write(sim, 0)
        stopped = serve.processes[-1]
        stopped.send_signal(signal.SIGSTOP)
        assert eventually(lambda: Path(f"/proc/{stopped.pid}/stat").read_text().split()[2] == "T")
        with pytest.raises(ts.Timeout):
            sim.step(1, timeout=0.1).__enter__()
        stopped.send_signal(signal.SIGCONT)
        write(sim, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ts.SkippedVersionWarning)
            assert numbers(ana.steps(timeout=PATIENCE), 2) == [0, 2]


def test_a_group_that_begins_behind_kept_steps_frees_them(contact: Path, sim: ts.Staging) -> None:
    sim.define_steps(queue=2)
    write(sim, 0)
    write(sim, 1)
    with ts.Staging(contact) as reader:
        steps = reader.steps("next", group="viz", timeout=PATIENCE)
        write(sim, 2, timeout=PATIENCE)
        assert numbers(steps, 1) == [2]


def test_a_queue_does_not_wait_for_a_step_that_a_writer_leaves_out(contact: Path) -> None:
    with ts.Staging(contact) as first, ts.Staging(contact) as second:
        first.define_steps(queue=1)
        with first.step(0, writers=2) as step:
            step["x"].put(1)
        with first.step(1, writers=2, timeout=PATIENCE) as step:
            step["x"].put(1)
        with second.step(1, writers=2, timeout=PATIENCE) as step:
            step["y"].put(1)
        with pytest.warns(ts.SkippedVersionWarning, match="gone on to step 1"):
            assert next(first.steps(timeout=PATIENCE)).variables == ("x", "y")


def test_a_loop_that_is_left_leaves_the_group(contact: Path, sim: ts.Staging) -> None:
    sim.define_steps(queue=1)
    write(sim, 0)

    def look(reader: ts.Staging) -> float:
        for step in reader.steps(group="viz", timeout=PATIENCE):
            return float(step["energy"][0, 8])
        raise AssertionError("there is a step")

    with ts.Staging(contact) as reader:
        assert look(reader) == 0.0
        gc.collect()
        write(sim, 1, timeout=PATIENCE)
        assert numbers(reader.steps(group="viz", timeout=PATIENCE), 1) == [1]


def test_what_others_hold_may_come_when_writers_have_ended(contact: Path, sim: ts.Staging) -> None:
    write(sim, 0)
    with ts.Staging(contact) as a, ts.Staging(contact) as b:
        first = a.steps(group="viz", timeout=PATIENCE)
        second = b.steps(group="viz", timeout=PATIENCE)
        assert numbers(first, 1) == [0]
        sim.close()
        first.close()
        assert numbers(second, 1) == [0]


def test_a_put_beside_an_end_is_listed_or_refused(contact: Path, ana: ts.Staging) -> None:
    with ts.Staging(contact) as sim:
        for number in range(20):
            step = sim.step(number)
            step.__enter__()
            put: list[bool] = []

            def beside(step: Any = step, put: list[bool] = put) -> None:
                try:
                    step.put("x", np.ones(30_000))
                    put.append(True)
                except (ts.NotFound, ts.InvalidArgument):
                    pass

            thread = threading.Thread(target=beside)
            thread.start()
            step.end()
            thread.join(PATIENCE)
            found = next(ana.steps(number, timeout=PATIENCE))
            assert bool(put) == ("x" in found)


def test_an_exception_without_a_text_breaks_its_step(sim: ts.Staging) -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    with pytest.raises(Silent), sim.step(1):
        raise Silent
    times_out(lambda: next(sim.steps(timeout=0.1)), "step 1 was given up: Silent")
    with pytest.raises(ts.InvalidArgument, match="cannot be"):
        sim.attributes["k"] = "\ud800"
