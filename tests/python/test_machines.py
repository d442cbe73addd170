"""The package's profiles: they load, match the data they are fitted to, and can be drawn."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tranship as ts
from tranship import profiles, topology

NAMES = [
    "cern-a10-ethernet",
    "cern-a10-infiniband",
    "cern-t4-ethernet",
    "cern-t4-infiniband",
    "h200-1",
    "h200-2",
    "h200-4",
    "h200-8",
    "moonlight",
    "perlmutter",
    "perlmutter-processes",
    "sapling",
    "xstream",
]
SCRIPT = Path(__file__).resolve().parents[2] / "machines" / "make.py"
NETWORK = 3180e6
ELEMENT = 16
THRESHOLD = 32 << 20


@pytest.fixture(scope="module")
def make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("machines_make", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # `dataclasses` looks the module up.
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sapling() -> dict[str, Any]:
    return profiles.summary(profiles.load("sapling"))


def channel(profile: dict[str, Any], source: str, target: str) -> dict[str, Any]:
    found = [
        one
        for one in profile["channels"]
        if (one["source"], one["target"]) == (f"node0/{source}", target)
    ]
    assert len(found) == 1
    return found[0]


def peak(profile: dict[str, Any], source: str, target: str) -> float:
    return max(rate for _, _, rate in channel(profile, source, target)["samples"])


def rate_at(one: dict[str, Any], run: int) -> float:
    """Returns the rate of a channel at a sampled length of runs, for any size of request."""
    return next(rate for _, length, rate in one["samples"] if length == run)


def run_for(one: dict[str, Any], rate: float) -> int:
    """Returns the shortest run, in bytes, that reaches the rate, from the fixed cost of a run."""
    best = max(r for _, _, r in one["samples"])
    _, run, at_run = one["samples"][0]
    overhead_s = run * (1 / at_run - 1 / best)
    return int(overhead_s / (1 / rate - 1 / best))


def test_every_profile_is_here_and_can_be_read() -> None:
    assert profiles.machine_names() == NAMES
    for name in NAMES:
        profile = profiles.summary(profiles.load(name))
        assert profile["comment"] and profile["host"] and profile["date"]
        text = profile["comment"]
        assert "easured" in text and ("ssumed" in text or "xtrapolated" in text), name


def test_the_files_are_what_the_script_makes(make: ModuleType) -> None:
    made = {machine.name: make.text_of(machine.profile) for machine in make.machines()}
    assert sorted(made) == NAMES
    for name, text in made.items():
        assert (SCRIPT.parent / f"{name}.json").read_text(encoding="utf-8") == text, name


def test_numbers_of_nodes() -> None:
    nodes = {name: json.loads(profiles.load(name)).get("nodes", 0) for name in NAMES}
    clusters = {"sapling": 4, "xstream": 16, "moonlight": 308, "perlmutter": 1536, "h200-8": 64}
    clusters["perlmutter-processes"] = clusters["perlmutter"]
    assert nodes == dict.fromkeys(NAMES, 0) | clusters


def test_peaks_of_sapling_are_table_5(sapling: dict[str, Any]) -> None:
    hosts = ("host0", "pinned0", "registered0")
    for source in hosts:
        for target in hosts:
            assert peak(sapling, source, f"node0/{target}") == 7740e6
            remote = 3180e6 if source == "registered0" else 2701e6
            assert peak(sapling, source, f"node1/{target}") == remote
        assert peak(sapling, source, "node0/file0") == 270e6
        assert peak(sapling, "file0", f"node0/{source}") == 280e6
        for device in ("device0", "device1"):
            write, read = (5941e6, 6418e6) if source == "pinned0" else (5139e6, 4502e6)
            assert peak(sapling, source, f"node0/{device}") == write
            assert peak(sapling, device, f"node0/{source}") == read
    assert peak(sapling, "device0", "node0/device0") == 55366e6
    assert len(sapling["channels"]) == 9 + 12 + 2 + 6 + 9


def test_the_worked_example_of_isometry_comes_out(sapling: dict[str, Any]) -> None:
    """Isometry, section 4.3: x_in = 2K and y_in = 1K of 16-byte elements, which fill 32 MB."""
    read = channel(sapling, "device0", "node0/pinned0")
    write = channel(sapling, "registered0", "node0/device0")
    for one, factor in ((read, 2048), (write, 1024)):
        made = rate_at(one, factor * ELEMENT)
        assert NETWORK <= made < 1.005 * NETWORK
        assert 0.99 * factor < run_for(one, NETWORK) / ELEMENT < factor
    assert 2048 * 1024 * ELEMENT == THRESHOLD
    converting = channel(sapling, "pinned0", "node0/registered0")
    assert rate_at(converting, ELEMENT) > 1.5 * NETWORK
    assert rate_at(converting, 4) == pytest.approx(7740e6 / 2)


def test_other_ways_of_the_worked_example_need_larger_buffers(sapling: dict[str, Any]) -> None:
    factor = run_for(channel(sapling, "registered0", "node0/device0"), NETWORK) / ELEMENT
    for through in ("registered0", "host0"):
        read = channel(sapling, "device0", f"node0/{through}")
        assert run_for(read, NETWORK) * factor > 1.5 * THRESHOLD
    read_run = run_for(channel(sapling, "device0", "node0/pinned0"), NETWORK)
    for through in ("pinned0", "host0"):
        write = channel(sapling, through, "node0/device0")
        assert read_run * run_for(write, NETWORK) / ELEMENT > 1.2 * THRESHOLD
    for source, target in (("device0", "node0/device0"), ("registered0", "node1/registered0")):
        assert rate_at(channel(sapling, source, target), ELEMENT) < 0.1 * NETWORK


@pytest.mark.parametrize("name", NAMES)
def test_topologies_read_well(name: str) -> None:
    text = topology.describe(profiles.load(name))
    assert "GB/s" in text and "nan" not in text
    profile = profiles.summary(profiles.load(name))
    nodes = profile.get("nodes", 0)
    assert (f"{nodes} equal nodes" in text) == (nodes > 0)


@pytest.mark.parametrize("name", ["h200-1", "sapling", "h200-8"])
def test_topologies_can_be_drawn(name: str, tmp_path: Path) -> None:
    """A topology is a graph where its arrows can be told apart, and else a table."""
    from tranship.drawing.topology import draw_topology

    path = tmp_path / "machine.svg"
    draw_topology(profiles.summary(profiles.load(name)), path)
    text = path.read_text(encoding="utf-8")
    assert text.count("<path") > 20
    assert ("GB/s from" in text) == (name != "h200-1")


def test_h200_figures_are_those_measured() -> None:
    profile = profiles.summary(profiles.load("h200-4"))
    write = channel(profile, "pinned0", "node0/device0")
    whole = {size: rate for size, run, rate in write["samples"] if run == 256}
    for size, gbps in ((4 << 10, 1.5), (64 << 10, 17), (1 << 20, 48), (4 << 20, 53)):
        assert whole[size] == pytest.approx(gbps * 1e9, rel=0.03)
    assert whole[64 << 20] == 55.4e9
    rates = {one["name"]: one["bytes_per_second"] for one in profile["resources"]}
    assert rates["node0/dram"] == 179e9
    assert (rates["node0/dram read"], rates["node0/dram written"]) == (150e9, 124e9)
    assert peak(profile, "device0", "node0/device3") == 385e9


def test_an_unknown_machine_is_refused_with_the_names() -> None:
    with pytest.raises(ts.NotFound, match=r"no machine profile saplings.*h200-8, moonlight"):
        profiles.load("saplings")


def test_little_memory_for_buffers_costs_no_channel() -> None:
    """The samples between processes take one hop, and so need no intermediate buffers."""
    little = {"TRANSHIP_BUFFER_BYTES": "1MiB"}
    measured = json.loads(profiles.calibrate(sample_bytes=16 << 20, overrides=little))
    names = {one["name"] for one in measured["channels"]}
    ways = {f"remote_{way} node{node}" for way in ("read", "write") for node in (0, 1)}
    assert ways <= names
