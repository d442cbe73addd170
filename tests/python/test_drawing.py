"""Drawings of machines and plans: no arrow runs through a box, and no label covers another."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest

from tranship import profiles
from tranship.cli.inputs import parse_layout
from tranship.drawing import scene as scenes
from tranship.drawing.plan import arrange_lanes, draw_plan
from tranship.drawing.scene import LABEL_RADIUS, Scene, is_in_box
from tranship.drawing.topology import draw_topology
from tranship_bench.drawings.tables import FIXED, OWN, colours_of, draw_table

Figure = pytest.importorskip("matplotlib.figure").Figure


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Scene]:
    """Returns the list of the scenes that the test draws."""
    seen: list[Scene] = []
    draw = Scene.draw

    def record(self: Scene, axes: Any) -> None:
        draw(self, axes)
        seen.append(self)

    monkeypatch.setattr(scenes.Scene, "draw", record)
    return seen


def check(scene: Scene, labels_may_touch: int = 0) -> None:
    for (source, target), arrow in zip(ends_of(scene), scene.arrows, strict=True):
        others = [at for name, at in scene.boxes.items() if name not in (source, target)]
        hits = [p for p in arrow.points() for at in others if is_in_box(p, at)]
        assert not hits, (source, target)
    touching = 0
    for one, other in itertools.combinations(scene.labels, 2):
        near = min(math.dist(p, q) for p in one.points() for q in other.points())
        touching += near < LABEL_RADIUS
    assert touching <= labels_may_touch
    for label in scene.labels:
        assert not any(is_in_box(p, at) for p in label.points() for at in scene.boxes.values())


def ends_of(scene: Scene) -> list[tuple[str, str]]:
    """Returns the boxes that each arrow joins, by the positions of its two ends."""

    def nearest(point: tuple[float, float]) -> str:
        def distance(name: str) -> float:
            x, y = scene.boxes[name]
            dx = max(abs(point[0] - x) - scenes.BOX_WIDTH / 2, 0)
            return math.hypot(dx, max(abs(point[1] - y) - scenes.BOX_HEIGHT / 2, 0))

        return min(scene.boxes, key=distance)

    return [(nearest(arrow.curve[0]), nearest(arrow.curve[2])) for arrow in scene.arrows]


@pytest.mark.parametrize("machine", ["h200-1", "h200-2", None])
def test_topologies(machine: str | None, drawn: list[Scene], profile: str, tmp_path: Path) -> None:
    text = profile if machine is None else profiles.load(machine)
    draw_topology(json.loads(text), tmp_path / "machine.png")
    assert (tmp_path / "machine.png").stat().st_size > 10_000
    (scene,) = drawn
    check(scene)


@pytest.mark.parametrize("machine", ["h200-4", "h200-8", "perlmutter", "sapling"])
def test_large_topologies_are_tables(machine: str, drawn: list[Scene], tmp_path: Path) -> None:
    draw_topology(json.loads(profiles.load(machine)), tmp_path / "machine.svg")
    assert not drawn and (tmp_path / "machine.svg").stat().st_size > 10_000


PLANS = {
    "lanes": ("h200-4", "node0/pinned0", "node0/device0", {"x": 1 << 28}, 4),
    "eight lanes": ("h200-8", "node0/pinned0", "node0/device0", {"x": 1 << 28}, 8),
    "converts on the way": ("perlmutter", "node0/device0", "node1/device0", {"x": 64, "y": 64}, 1),
    "five memories": ("sapling", "node0/device0", "node1/device0", {"x": 4096, "y": 4096}, 1),
    "this machine": (None, "node0/host0", "node0/file0", {"x": 512, "y": 512}, 1),
    "in place": (None, "node0/host0", "node0/host0", {"x": 512, "y": 512}, 1),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans(name: str, drawn: list[Scene], profile: str, tmp_path: Path) -> None:
    from tranship import _core

    machine, source, target, extents, lanes = PLANS[name]
    _, content, part, _ = _core.plan_on(
        profile if machine is None else profiles.load(machine),
        (source, parse_layout("F," + ",".join(extents), extents)),
        (target, parse_layout("F," + ",".join(reversed(extents)), extents)),
        list(extents.items()),
        [("f", "f8", 8)],
        lanes=lanes,
    )
    plan = json.loads(content)
    draw_plan(json.loads(part), plan, tmp_path / "plan.png")
    (scene,) = drawn
    assert set(scene.boxes) == {hop[end] for hop in plan["hops"] for end in ("source", "target")}
    check(scene)


def test_lanes_go_from_left_to_right() -> None:
    def hop(lane: int, source: str, target: str) -> dict[str, Any]:
        return {"lane": lane, "source": source, "target": target}

    hops = [hop(0, "n/a", "n/z"), hop(1, "n/a", "n/b"), hop(1, "n/b", "n/c"), hop(1, "n/c", "n/z")]
    places = arrange_lanes(hops)
    assert [name for name, _ in sorted(places.items(), key=lambda one: one[1][0])] == [
        *("n/a", "n/b", "n/c", "n/z")
    ]
    assert places["n/a"][1] == places["n/z"][1] != places["n/b"][1] == places["n/c"][1]


def result(case: str, variant: str, gbps: float, **more: Any) -> dict[str, Any]:
    """Returns a result line as a table draws it."""
    seconds = (1 << 20) / gbps / 1e9
    line = {"bench": "gpu-process", "case": case, "variant": variant, "bytes": 1 << 20}
    return {**line, "gbps": gbps, "median_s": seconds, **more}


def test_texts_beside_bars_end_inside_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[float] = []

    def measure(figure: Figure, *_: object, **__: object) -> None:
        figure.draw_without_rendering()
        for axes in figure.axes:
            frame = axes.get_window_extent().x1
            ends.extend(text.get_window_extent().x1 - frame for text in axes.texts)

    monkeypatch.setattr(Figure, "savefig", measure)
    ratio = {"ratio": 1.0, "baseline": "cudaMemcpyPeerAsync"}
    told = {"conditions": {"predicted_s": 1e-5}}
    rows = {
        "a": {"tranship": result("a", "tranship", 390.0, **ratio)},
        "b": {"tranship": result("b", "tranship", 4.0, **ratio, **told)},
    }
    draw_table("gpu-process", "a machine", rows, tmp_path / "a.png")
    assert len(ends) == 2 and max(ends) <= 1.0


def test_tranship_has_one_colour() -> None:
    several = colours_of(["tranship", "tranship, packed", "numpy"])
    assert several["tranship"] == FIXED["tranship"]
    assert several["tranship, packed"] in OWN and several["numpy"] == FIXED["numpy"]
    assert colours_of(["mpi", "tranship-mpi"])["tranship-mpi"] == FIXED["tranship"]


def test_an_arrow_bends_around_a_box() -> None:
    scene = Scene({"a": (0.0, 0.0), "b": (4.0, 0.0), "c": (8.0, 0.0)})
    scene.connect("a", "c", "1 GB/s", "black", 2.0)
    assert not any(is_in_box(p, scene.boxes["b"]) for p in scene.arrows[0].points())
