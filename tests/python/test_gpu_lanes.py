"""Lanes over GPUs' links, planned with the copies of other processes in sight."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tranship as ts
from support import eventually, run_script

GPUS = 4
COUNT = 64 << 20
MACHINE = Path(__file__).parents[2] / "machines" / "h200-4.json"


def wide_machine() -> str:
    """Returns the profile of four GPUs whose host memory does not limit their four links."""
    machine = json.loads(MACHINE.read_text())
    for resource in machine["resources"]:
        if "dram" in resource["name"]:
            resource["bytes_per_second"] = 1e12
    return json.dumps(machine)


@contextmanager
def opened(link_usage: object) -> Iterator[tuple[ts.Engine, Any, Any]]:
    """Yields an engine with four emulated GPUs, and a copy between pinned memory and the first."""
    profile = wide_machine()
    settings: Any = {"link_usage": link_usage}
    with ts.Engine(profile=profile, emulated_gpus=GPUS, threads=1, **settings) as engine:
        pinned = engine.empty((COUNT,), "u1", memory="pinned")
        yield engine, pinned, engine.empty((COUNT,), "u1", memory="device0")


def links_of(plan: ts.Plan) -> set[str]:
    """Returns the GPUs over whose links a plan's lanes go."""
    hops = json.loads(plan.to_json())["hops"]
    between = [hop for hop in hops if "pinned" in hop["source"] + hop["target"]]
    ends = {end for hop in between for end in (hop["source"], hop["target"])}
    return {end.removeprefix("node0/") for end in ends if "device" in end}


ALL = {f"device{k}" for k in range(GPUS)}

OTHER = """
    import pathlib, sys
    import tranship as ts

    folder, machine, device, way = sys.argv[1:]
    profile = pathlib.Path(machine).read_text()
    with ts.Engine(profile=profile, emulated_gpus=4, threads=1, link_usage=folder) as engine:
        pinned = engine.empty((8 << 20,), "u1", memory="pinned")
        on_gpu = engine.empty((8 << 20,), "u1", memory=device)
        ends = (pinned, on_gpu) if way == "up" else (on_gpu, pinned)
        print("ready", flush=True)
        for line in sys.stdin:
            engine.copy(*ends).wait(timeout=60)
            print("copied", flush=True)
"""


class Other:
    """Another process, which copies between pinned memory and a GPU when it is asked."""

    def __init__(self, folder: Path, device: str, way: str = "up") -> None:
        script = textwrap.dedent(OTHER)
        command = [sys.executable, "-c", script, str(folder), str(MACHINE), device, way]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.read() == "ready\n"

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def copy(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.read() == "copied\n"

    def copy_twice(self) -> None:
        """Copies twice: others expect more for twice the time in between, and leave the link.

        They do not where a second has passed in between, or that time afterwards.
        """
        self.copy()
        time.sleep(0.4)
        self.copy()

    def end(self, how: signal.Signals | None = None) -> None:
        if how is not None:
            self.process.send_signal(how)
        self.process.communicate(timeout=60)


def plan_beside(other: Other, engine: ts.Engine, source: Any, target: Any) -> ts.Plan:
    """Returns a plan that was made while further copies of the other process were expected."""
    plans: list[ts.Plan] = []

    def fewer_links() -> bool:
        other.copy_twice()
        plans.append(engine.plan(source, target))
        return links_of(plans[-1]) != ALL

    assert eventually(fewer_links)
    return plans[-1]


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Other]:
    process = Other(tmp_path, "device2")
    yield process
    process.end()


def test_a_link_that_another_process_uses_is_left_out_and_comes_back(
    tmp_path: Path, other: Other
) -> None:
    with opened(tmp_path) as (engine, pinned, on_gpu):
        assert links_of(engine.plan(pinned, on_gpu)) == ALL
        plan = plan_beside(other, engine, pinned, on_gpu)
        assert "device2" not in links_of(plan) and "device0" in links_of(plan)
        assert "left to other processes: node0 gpu_write pinned0 > device2" in plan.explain()
        # The other direction of the links is free.
        assert links_of(engine.plan(on_gpu, pinned)) == ALL
        assert eventually(lambda: links_of(engine.plan(pinned, on_gpu)) == ALL)
        assert "left to" not in engine.plan(pinned, on_gpu).explain()


def test_idle_links_are_shared_with_the_other_process(tmp_path: Path, other: Other) -> None:
    with opened(tmp_path) as (engine, pinned, on_gpu):
        plan = plan_beside(other, engine, pinned, on_gpu)
        assert links_of(plan) == {"device0", "device1"}


def test_the_data_arrive_whatever_the_other_process_does(tmp_path: Path, other: Other) -> None:
    values = np.random.default_rng(1).integers(0, 255, COUNT, "u1")
    with opened(tmp_path) as (engine, pinned, on_gpu):
        pinned[:] = values
        for _ in range(3):
            engine.copy(pinned, on_gpu).wait(timeout=60)
            other.copy()
        back = np.zeros_like(values)
        engine.copy(on_gpu, back).wait(timeout=60)
    assert np.array_equal(back, values)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_is_killed_or_stopped_closes_no_link_for_long(
    tmp_path: Path, how: signal.Signals
) -> None:
    other = Other(tmp_path, "device1")
    other.copy()
    other.process.send_signal(how)
    with opened(tmp_path) as (engine, pinned, on_gpu):
        assert eventually(lambda: links_of(engine.plan(pinned, on_gpu)) == ALL)
    other.process.send_signal(signal.SIGCONT)
    other.end(signal.SIGKILL)


def test_an_engine_that_is_closed_closes_no_link(tmp_path: Path) -> None:
    other = Other(tmp_path, "device1")
    with opened(tmp_path) as (engine, pinned, on_gpu):
        assert links_of(plan_beside(other, engine, pinned, on_gpu)) != ALL
        other.end()
        assert links_of(engine.plan(pinned, on_gpu)) == ALL


def test_the_engines_of_one_process_count_as_one(tmp_path: Path) -> None:
    with opened(tmp_path) as (engine, pinned, on_gpu), opened(tmp_path) as (second, source, target):
        second.copy(source, target).wait(timeout=60)
        assert links_of(engine.plan(pinned, on_gpu)) == ALL


def test_a_child_counts_as_a_process_of_its_own(tmp_path: Path) -> None:
    script = """
    import json, os, pathlib, sys, time
    import tranship as ts

    folder, machine = sys.argv[1:]
    profile = pathlib.Path(machine).read_text()

    def opened():
        return ts.Engine(profile=profile, emulated_gpus=4, threads=1, link_usage=folder)

    def ends(engine, device):
        pinned = engine.empty((64 << 20,), "u1", memory="pinned")
        return pinned, engine.empty((64 << 20,), "u1", memory=device)

    def lanes(engine, pair):
        return len(json.loads(engine.plan(*pair).to_json())["lanes"])

    parent = opened()
    pair = ends(parent, "device0")
    parent.copy(*pair).wait(timeout=60)
    reading, writing = os.pipe()
    waiting, answering = os.pipe()
    if os.fork() == 0:
        with opened() as child:
            own = ends(child, "device1")
            while os.read(waiting, 1) == b"1":
                child.copy(*own).wait(timeout=60)
                time.sleep(0.3)
                child.copy(*own).wait(timeout=60)  # such a copy comes every 0.3 s
                os.write(writing, b"copied")
        os._exit(0)
    for _ in range(20):  # on a busy machine the plan may come later than more is expected
        os.write(answering, b"1")
        assert os.read(reading, 6) == b"copied"
        fewer = lanes(parent, pair)
        if fewer == 2:
            break
    os.write(answering, b"0")
    os.wait()
    print(fewer, lanes(parent, pair))
    parent.close()
    """
    machine = tmp_path / "machine.json"
    machine.write_text(wide_machine())
    assert run_script(script, tmp_path, machine).split() == ["2", "4"]


@pytest.mark.parametrize("usage", ["off", "missing", "garbage"])
def test_without_a_table_copies_are_planned_as_if_alone(tmp_path: Path, usage: str) -> None:
    folder = tmp_path / usage
    if usage == "garbage":
        folder.mkdir()
        (folder / f"tranship-usage-{os.geteuid()}").write_bytes(b"no table")
    setting = "off" if usage == "off" else str(folder)
    other = Other(Path(setting), "device1")
    with opened(setting) as (engine, pinned, on_gpu):
        other.copy()
        assert links_of(engine.plan(pinned, on_gpu)) == ALL
    other.end()
