"""`tranship plan` for other machines, by their profiles, and the cost query of an engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tranship as ts
from tranship.cli import main

EXAMPLE = [
    "plan",
    "--machine",
    "sapling",
    "--source",
    "node0/device0",
    "--target",
    "node1/device0",
    "--extents",
    "x=4096,y=4096",
    "--fields",
    "f:16",
    "--source-layout",
    "F,x,y",
    "--target-layout",
    "F,y,x",
]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Runs a command; returns its exit code, stdout and stderr."""
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """Runs a command with `--json`; returns the plan that it prints."""
    code, out, err = run(capsys, *words, "--json")
    assert code == 0, err
    plan: dict[str, Any] = json.loads(out)
    return plan


def test_the_worked_example_of_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, *EXAMPLE, "--planner", "full")
    assert plan["path"] == (
        "node0/device0 > node0/pinned0 > node0/registered0 > node1/registered0 > node1/device0"
    )
    assert plan["throughput_gbps"] == pytest.approx(3.18, rel=0.01)
    assert plan["hops"][0]["blocking"] == {"x": 2048, "y": 1024}
    assert plan["tile_bytes"] == 32 << 20
    assert [hop["converts"] for hop in plan["hops"]] == [False, True, False, False]
    assert all(other["time_s"] >= plan["time_s"] for other in plan["alternatives"])


def test_any_two_nodes_of_a_cluster_have_the_same_plan(
    capsys: pytest.CaptureFixture[str],
) -> None:
    near = planned(capsys, *EXAMPLE)
    words = [w.replace("node0", "node3").replace("node1", "node2") for w in EXAMPLE]
    far = planned(capsys, *words)
    assert far["time_s"] == near["time_s"] and far["hops"][0]["source"] == "node3/device0"


def test_four_links_carry_more_than_one(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "plan",
        "--machine",
        "h200-4",
        "--source",
        "node0/pinned0",
        "--target",
        "node0/device0",
        "--extents",
        "x=268435456",
        "--fields",
        "f:f4",
    ]
    alone = planned(capsys, *words)
    together = planned(capsys, *words, "--lanes", "4")
    assert len(alone["lanes"]) == 1 and len(together["lanes"]) >= 3
    assert together["throughput_gbps"] == pytest.approx(150, rel=0.01)
    assert together["binding"] == "node0/dram read"


def test_a_path_may_be_forced(capsys: pytest.CaptureFixture[str]) -> None:
    words = "plan --machine sapling --source node0/host0 --target node1/host0 --extents x=4194304"
    free = planned(capsys, *words.split(), "--planner", "full")
    forced = planned(capsys, *words.split(), "--planner", "full", "--through", "")
    assert free["path"].startswith("node0/host0 > node0/registered0 > node1/")
    assert forced["path"] == "node0/host0 > node1/host0"
    assert forced["time_s"] > free["time_s"]


def test_what_waits_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    words = "plan --machine sapling --source node0/host0 --target node1/host0 --extents x=4194304"
    free = planned(capsys, *words.split(), "--planner", "full")
    busy = free["hops"][0]["channel"] + "=1.0"
    around = planned(capsys, *words.split(), "--planner", "full", "--waiting", busy)
    assert around["path"] != free["path"] and around["time_s"] > free["time_s"]


def test_a_plan_is_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = run(capsys, *EXAMPLE, "--draw", str(tmp_path / "plan.png"))
    assert code == 0 and "drawn into" in err
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--source", "node9/device0"), "node0 to node3, each with"),
        (("--waiting", "nope=1"), 'no channel "nope"'),
        (("--waiting", "x"), "cannot read --waiting"),
        (("--through", "node0/host7"), 'no memory "node0/host7"'),
        (("--planner", "spsl", "--through", "node0/host0"), "use the planner full"),
    ],
)
def test_what_cannot_be_planned(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    code, out, err = run(capsys, *EXAMPLE, *words)
    assert code != 0 and out == "" and message in err


def test_an_engine_tells_what_a_copy_would_cost() -> None:
    with ts.Engine() as engine:
        source = np.zeros(1 << 20)
        target = np.empty_like(source)
        plan = engine.plan(source, target, priority=3)
        assert 0 < plan.seconds < 60 and plan.binding
        assert np.all(source == 0)
