"""The Python API of simulated clusters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tranship as ts
from tranship.simulation import Simulation

MB = 1_000_000


def channel(name: str, kind: str, ends: tuple[str, str], rate: float) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "source": ends[0],
        "target": ends[1],
        "resources": ["node0/card"] if kind == "remote_write" else [],
        "samples": [[4096, 4096, rate]],
    }


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Writes a profile of four equal nodes with a host and a GPU; its rates are round numbers."""
    memories = [
        {"name": f"node{node}/{memory}0", "kind": memory, "buffer_bytes_max": 1 << 30}
        for node in range(2)
        for memory in ("host", "device")
    ]
    profile = {
        "format": "tranship-profile-1",
        "host": "made up",
        "date": "2026-01-01",
        "nodes": 4,
        "memories": memories,
        "resources": [{"name": "node0/card", "bytes_per_second": 1e9}],
        "channels": [
            channel("read node0", "gpu_read", ("node0/device0", "node0/host0"), 4e9),
            channel("write node0", "gpu_write", ("node0/host0", "node0/device0"), 4e9),
            channel("memcpy node0", "memcpy", ("node0/host0", "node0/host0"), 8e9),
            channel("wire node0 to node1", "remote_write", ("node0/host0", "node1/host0"), 1e9),
        ],
    }
    path = tmp_path / "four.json"
    path.write_text(json.dumps(profile))
    return path


def test_a_copy_takes_its_slowest_channels_time(machine: Path) -> None:
    simulation = Simulation(machine)
    copy = simulation.copy("node2/device0", "node3/device0", extents={"x": 25 * MB}, fields="f4")
    assert copy == 0
    assert simulation.end_s(copy) < 0
    simulation.run()
    assert simulation.begin_s(copy) == 0
    assert simulation.end_s(copy) == pytest.approx(0.1, rel=0.1)
    plan = simulation.plan(copy)
    assert plan["path"] == "node2/device0 > node2/host0 > node3/host0 > node3/device0"
    assert plan["hops"][0]["source"] == "node2/device0"
    statistics = simulation.statistics
    assert statistics["bytes"] == 100 * MB
    assert statistics["tasks"] == 1
    assert statistics["events"] >= 3
    assert statistics["events_per_second"] > 0
    assert statistics["peak_rss_bytes"] > MB
    planned = {name: statistics[f"planned_{name}"] for name in ("full", "simple", "other")}
    assert sum(planned.values()) == 1
    assert statistics["planned_by_node"] == {2: planned}


def test_whole_copies_go_hop_after_hop(machine: Path) -> None:
    simulation = Simulation(machine, copier_threads=1)
    task = simulation.copy(
        "node0/device0", "node1/device0", extents={"x": 100 * MB}, fields="u1", whole=True
    )
    simulation.run()
    assert simulation.end_s(task) == pytest.approx(0.025 + 0.1 + 0.025, rel=0.02)
    plan = simulation.plan(task)
    assert plan["whole"] is True
    assert len(plan["hops"]) == 3
    assert plan["path"].startswith("node0/device0 > node0/host0 > node1/host0")


def test_many_at_once_and_what_follows_them(machine: Path) -> None:
    simulation = Simulation(machine, nodes=100)
    sources = [f"node{k}/host0" for k in range(100)]
    targets = [f"node{(k + 1) % 100}/host0" for k in range(100)]
    first = simulation.copies(sources, targets, extents={"x": 10 * MB}, fields="u1")
    work = simulation.computes(targets, 0.5, after_each=first.reshape(-1, 1))
    last = simulation.copies(
        sources, targets, extents={"x": 10 * MB}, fields="u1", after=[int(work[7])], at=0.75
    )
    end = simulation.compute("anywhere", 0.25, after=last)
    simulation.run()
    times = simulation.times()
    assert times.shape == (301, 2)
    np.testing.assert_allclose(times[first, 1], 0.01, rtol=0.1)
    np.testing.assert_allclose(times[work, 1] - times[work, 0], 0.5)
    np.testing.assert_allclose(times[work, 0], times[first, 1])
    np.testing.assert_allclose(times[last, 0], 0.75)
    assert simulation.begin_s(end) == pytest.approx(times[last, 1].max())
    assert simulation.statistics["cached"] == 199
    assert len(simulation.statistics["planned_by_node"]) == 100


def test_planners_layouts_paths_and_lanes_are_heard(machine: Path) -> None:
    simulation = Simulation(machine, planner="simple")
    path = ["node0/device0", "node0/host0", "node0/host0"]
    task = simulation.copy(
        "node0/device0",
        "node0/host0",
        extents={"x": 1000, "y": 1000},
        fields={"re": "f4", "im": "f4"},
        source_layout="F,x,y",
        target_layout="y,x,F",
        planner="full",
        through=path,
        lanes=2,
        priority=3,
    )
    simulation.run()
    plan = simulation.plan(task)
    assert plan["planner"] == "full"
    assert plan["path"] == " > ".join(path)
    assert any(hop["converts"] for hop in plan["hops"])


def test_a_second_run_goes_on(machine: Path) -> None:
    simulation = Simulation(machine)
    first = simulation.compute("node0/device0", 1.0)
    simulation.run()
    second = simulation.compute("node0/device0", 1.0, after=[first])
    simulation.run()
    assert simulation.end_s(second) == 2.0


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda s: s.copy("node0/tape0", "node1/host0", extents={"x": 1}), ts.NotFound, "tape0"),
        (lambda s: s.copy("node9/host0", "node1/host0", extents={"x": 1}), ts.Error, "node0 to"),
        (lambda s: s.copy("node0/host0", "node1/host0", extents={"x": 0}), ts.Error, "nothing"),
        (
            lambda s: s.copy("node0/host0", "node1/host0", extents={"x": 1}, planner="best"),
            ts.InvalidArgument,
            "no planner",
        ),
        (
            lambda s: s.copy("node0/host0", "node1/host0", extents={"x": 1}, after=[5]),
            ts.InvalidArgument,
            "no task 5",
        ),
        (lambda s: s.compute("a", -1.0), ts.InvalidArgument, "seconds"),
        (lambda s: s.computes(["a", "b"], [1.0, 2.0, 3.0]), ts.InvalidArgument, "one for each"),
        (
            lambda s: s.computes(["a", "b"], 1.0, after_each=[[]]),
            ts.InvalidArgument,
            "1 entries for 2 tasks",
        ),
        (
            lambda s: s.copies(["node0/host0"], [], extents={"x": 1}),
            ts.InvalidArgument,
            "as many of each",
        ),
        (lambda s: s.end_s(0), ts.InvalidArgument, "no task 0"),
    ],
)
def test_what_cannot_be_is_refused(machine: Path, call: Any, kind: type, text: str) -> None:
    with pytest.raises(kind, match=text):
        call(Simulation(machine))


def test_unusable_clusters_are_refused(machine: Path) -> None:
    with pytest.raises(ts.InvalidArgument, match="at least one node"):
        Simulation(machine, nodes=0)
    with pytest.raises(ts.InvalidArgument, match="negative"):
        Simulation(machine, copier_threads=-1)
    with pytest.raises(ts.NotFound, match="no machine profile"):
        Simulation("no-such-machine")
    listed = json.loads(machine.read_text())
    del listed["nodes"]
    machine.write_text(json.dumps(listed))
    with pytest.raises(ts.InvalidArgument, match="one by one"):
        Simulation(machine, nodes=8)
