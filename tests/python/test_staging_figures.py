"""DataSpaces-GPU's evaluation in small size: workflows simulated, and of real processes."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from staging_servers import Servers

import tranship as ts
from support import run_small
from tranship import InvalidArgument, NotFound, _core
from tranship_bench import benches, figures, registry
from tranship_bench.dataspaces import transfers, workflows
from tranship_bench.dataspaces.grids import Box, Grid, cube_of, prime_factors
from tranship_bench.dataspaces.machine import SERVICE_S, Channels, Cluster
from tranship_bench.harness import MismatchError, require
from tranship_bench.isometry import expectations
from tranship_bench.isometry.simulated import TRANSHIP as STYLE
from tranship_bench.isometry.simulated import Run
from tranship_bench.staging.designs import RECEIVERS, SENDERS
from tranship_bench.staging.worker import Worker

NAMES = [name for name in registry.entries() if name.startswith("staging-figure")]


# Grids


@pytest.mark.parametrize("count", [1, 2, 8, 27, 30, 64, 128, 16384])
def test_a_cube_has_as_many_parts_as_asked_for(count):
    assert math.prod(cube_of(count)) == math.prod(prime_factors(count)) == count
    assert cube_of(count) == tuple(sorted(cube_of(count), reverse=True))


@pytest.mark.parametrize(
    ("cells", "parts"), [((6, 6, 6), (2, 3, 1)), ((7, 5), (3, 2)), ((9,), (4,)), ((8, 8), (1, 1))]
)
def test_boxes_of_a_grid_cover_its_domain_once(cells, parts):
    grid = Grid(cells, parts)
    covered = np.zeros(cells, int)
    for rank, box in enumerate(grid.boxes()):
        assert box == grid.box(rank)
        covered[tuple(map(slice, box.lower, box.upper))] += 1
    assert (covered == 1).all() and len(grid.boxes()) == grid.count


@pytest.mark.parametrize("parts", [(1, 1), (2, 3), (3, 5), (7, 5)])
def test_what_a_box_meets_is_what_a_walk_over_all_boxes_finds(parts):
    grid = Grid((7, 5), parts)
    for corners in itertools.product(range(7), range(5), range(1, 8), range(1, 6)):
        box = Box(corners[:2], corners[2:])
        if not all(a < b for a, b in zip(box.lower, box.upper, strict=True)):
            continue
        walked = [(rank, one.common(box)) for rank, one in enumerate(grid.boxes())]
        assert grid.meeting(box) == [(rank, common) for rank, common in walked if common]


@pytest.mark.parametrize("count", [8, 27, 64, 16384])
def test_readers_cut_the_domain_otherwise_and_take_whole_slabs(count):
    parts = cube_of(count)
    grid = Grid(tuple(16 * part for part in parts), parts)
    readers = grid.otherwise()
    assert readers.count == count and readers.parts != parts
    met = grid.meeting(readers.box(0))
    assert len(met) > 1
    for rank, common in met:
        # The common box is the whole object in all dimensions but the first.
        assert common.shape[1:] == grid.box(rank).shape[1:]


# Placement


@pytest.mark.parametrize("defined", [False, True])
def test_objects_lie_where_python_is_told(profile, tmp_path, defined):
    serve = Servers(tmp_path)
    grid = Grid((160, 160, 96), (5, 5, 3))
    domain = ([0, 0, 0], list(grid.cells))
    try:
        contact = serve("--servers", "3", "--memory", "64MiB")
        with ts.Staging(contact) as staging:
            if defined:
                staging.define("energy", "f8", *domain)
            for box in grid.boxes():
                staging.put("energy", 1, np.zeros(box.shape), box.lower)
            held = [row["memory_used"] for row in staging._core.servers()]
    finally:
        serve.end()
    boxes = [box.corners for box in grid.boxes()]
    known = domain if defined else None
    places = _core.staging_places("energy", 3, 8, boxes[0], boxes, known)
    primaries = [primary for primary, *_ in places]
    each = grid.box(0).cells * 8
    assert held == [each * primaries.count(server) for server in range(3)]
    assert not defined or held == [each * 25] * 3


def test_boxes_over_several_cells_have_further_owners():
    cell = ([0, 0], [128, 128])
    wide = ([0, 0], [256, 256])
    ((home, *others),) = _core.staging_places("a", 64, 8, cell, [wide])
    corners = [([x, y], [x + 128, y + 128]) for x in (0, 128) for y in (0, 128)]
    owners = [one for (one,) in _core.staging_places("a", 64, 8, cell, corners)]
    assert home == owners[0] and sorted([home, *others]) == sorted(owners)


def test_placement_needs_a_server_and_boxes():
    with pytest.raises(InvalidArgument, match="at least one server"):
        _core.staging_places("a", 0, 8, ([0], [1]), [])
    with pytest.raises(InvalidArgument):
        _core.staging_places("a", 1, 8, ([0], [0]), [])


# Simulated workflows

MACHINE = workflows.MACHINE
CELLS = (16, 256, 256)


def simulated(sender, receiver, *, gpus=1, servers=1):
    """Returns the simulated seconds of the slowest process for one put and for one get."""
    grid = Grid((gpus * CELLS[0], *CELLS[1:]), (gpus, 1, 1))
    load = workflows.Workload(MACHINE, gpus, servers, grid, ("energy",), 1)
    found = workflows.simulate(load, workflows.Pair(sender, receiver))
    return found.slowest_s("put"), found.slowest_s("get")


def copied(*pairs):
    """Returns the simulated seconds of copies one after another, without the staging service."""
    run = Run(MACHINE, STYLE, nodes=3)
    before = []
    for pair in pairs:
        shape = transfers.vector(math.prod(CELLS))
        before = [run.copy(pair, shape, after=before, through=list(pair))]
    return run.finish()


def test_a_put_is_its_bytes_and_two_questions():
    question_s = 2 * Channels(MACHINE).message_s() + SERVICE_S
    put, _ = simulated("direct", "direct")
    expected = copied(("node0/device0", "node2/pinned0")) + 2 * question_s
    assert put == pytest.approx(expected, abs=1e-8)


def test_a_get_is_its_bytes_two_questions_and_a_launch():
    question_s = 2 * Channels(MACHINE).message_s() + SERVICE_S
    _, get = simulated("direct", "direct")
    hops = (("node2/pinned0", "node1/device0"), ("node1/device0", "node1/device0"))
    assert get == pytest.approx(copied(*hops) + 2 * question_s, abs=1e-8)


def test_questions_wait_for_each_other_at_a_server():
    alone, _ = simulated("direct", "direct", gpus=1)
    four, _ = simulated("direct", "direct", gpus=4, servers=1)
    bytes_alone = alone - 2 * SERVICE_S
    assert four > bytes_alone + 4 * SERVICE_S


def test_designs_are_as_fast_as_what_they_pass():
    puts = {name: simulated(name, "direct")[0] for name in ("baseline", "pipeline", "direct")}
    puts |= {name: simulated(name, "direct")[0] for name in ("strong baseline", "tranship")}
    assert puts["baseline"] > puts["pipeline"] > puts["strong baseline"] > puts["direct"]
    assert puts["tranship"] <= puts["direct"] * 1.001
    gets = {name: simulated("direct", name)[1] for name in ("baseline", "strong baseline")}
    gets |= {name: simulated("direct", name)[1] for name in ("hybrid", "direct", "tranship")}
    assert gets["baseline"] > gets["strong baseline"] > gets["hybrid"] > gets["direct"]
    assert gets["tranship"] <= gets["direct"] * 1.001


def test_iterations_take_the_same_virtual_time():
    grid = Grid(CELLS, (1, 1, 1))
    load = workflows.Workload(MACHINE, 1, 1, grid, ("energy", "mass"), 3)
    found = workflows.simulate(load, workflows.OWN)
    assert found.slowest["put"] == pytest.approx([found.slowest_s("put")] * 3, abs=1e-8)
    assert found.mean["get"] == pytest.approx([found.mean_s("get")] * 3, abs=1e-8)


def test_processes_of_their_own_keep_to_one_path():
    assert Cluster(8, 4, apart=True).lanes == 1
    assert Cluster(8, 4, apart=False).lanes > 1
    assert Channels("perlmutter-processes").apart and not Channels("perlmutter").apart
    shared, own = Cluster(8, 4, apart=False), Cluster(8, 4, apart=True)
    assert shared.reader(5).pinned == "node3/pinned0" and own.reader(5).pinned == "node3/pinned1"
    assert own.server(3).pinned == "node4/pinned3" and own.nodes == 5


@pytest.mark.parametrize("name", NAMES)
def test_simulated_lines_say_so_and_agree(name, capsys):
    code, lines = run_small(name)
    assert code == 0, capsys.readouterr().err
    assert benches.is_simulated(name)
    for line in lines:
        assert line["bench"] == name
        assert line["checked"] is True and line["simulated"] is True
        assert line["conditions"]["simulated"] is True
        assert line["median_s"] > 0 and line.get("within", True)
        json.dumps(line)


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_says_what_is_simulated(name):
    content = json.loads((expectations.FOLDER / f"{name}.json").read_text())
    assert content["source"] and all(entry["reason"] for entry in content["expect"])
    entry = benches.find(name)
    assert "simulated" in entry.words and len(entry.help) > 100


def test_one_launch_needs_one_launch():
    lines = run_small("staging-figure9b")[1]
    seconds = {line["variant"]: line["median_s"] for line in lines if "8 MiB" in line["case"]}
    assert seconds["one launch"] <= seconds["a launch an object, at once"] * 1.001
    assert seconds["a launch an object, at once"] < seconds["a launch an object, one by one"]
    assert seconds["host, line by line"] > 40 * seconds["one launch"]


def test_simulated_figures_are_drawn_from_the_lines(tmp_path):
    pytest.importorskip("matplotlib")
    text = "".join(json.dumps(line) + "\n" for name in NAMES for line in run_small(name)[1])
    (tmp_path / "a.jsonl").write_text(text)
    drawn = figures.draw("staging", tmp_path / "pictures", results=tmp_path)
    assert {path.stem.split("-")[1] for path in drawn} == {"figure9a", "figure9b", "figure10"}
    assert all(path.stat().st_size > 5000 for path in drawn)


# Real processes


@pytest.mark.parametrize("name", ["staging-workflow", "staging-shock"])
def test_workflows_run_on_gpus(name, monkeypatch):
    monkeypatch.setenv("TRANSHIP_EMULATED_GPUS", "2")
    lines = []
    options = {"iterations": 1}
    assert benches.run(name, size="small", report=lines.append, options=options) == 0
    for way, designs in (("put", 4), ("get", 4)):
        assert len({line["variant"] for line in lines if line["case"].startswith(way)}) == designs
    for line in lines:
        assert line["checked"] is True and "simulated" not in line
        assert line["conditions"]["gpus"] == "2 x emulated GPU"
        assert line["conditions"]["slowest_process_s"] >= 0


def test_a_workflow_of_other_processes_and_sizes():
    lines = []
    options = {"processes": (2, 3, 2), "sizes": (1,), "iterations": 1}
    code = benches.run("staging-workflow", size="small", report=lines.append, options=options)
    assert code == 0
    conditions = lines[0]["conditions"]
    assert (conditions["writers"], conditions["readers"], conditions["servers"]) == (2, 3, 2)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"fast": True}, "no option 'fast'; there are quick"),
        ({"processes": (1, 2)}, "writers, readers and servers, each from 1 to 64"),
        ({"processes": (0, 1, 1)}, "writers, readers and servers, each from 1 to 64"),
        ({"sizes": (0,)}, "MiB of each writer, from 1 on"),
        ({"iterations": -1}, "not negative"),
    ],
)
def test_options_that_cannot_be(given, words):
    with pytest.raises(InvalidArgument, match=words):
        benches.find("staging-workflow").options_of(given)


def test_shock_has_its_own_sizes(capsys):
    code = benches.run("staging-shock", size="small", report=print, options={"sizes": (8,)})
    assert code == 1
    text = capsys.readouterr().err
    assert "no option 'sizes'; there are quick, iterations" in text


def test_options_on_the_command_line():
    workflow = benches.find("staging-workflow")
    words = ["--processes", "4,4,2", "--quick", "--sizes=8,64"]
    assert registry.parse_options(workflow, words) == {
        "processes": (4, 4, 2),
        "quick": True,
        "sizes": (8, 64),
    }
    for words, text in (
        (["--sizes", "8,x"], "--sizes 8,x is not understood"),
        (["--sizes"], "--sizes is not understood"),
        (["--seed", "7"], "staging-workflow has no option --seed"),
        (["8"], "staging-workflow has no option 8"),
    ):
        with pytest.raises(InvalidArgument, match=text):
            registry.parse_options(workflow, words)
    remote = benches.find("remote-gpu")
    given = registry.parse_options(remote, ["--limit", "28M", "--transports", "tcp,ipc"])
    assert given == {"limit": 28_000_000, "transports": ("tcp", "ipc")}
    with pytest.raises(InvalidArgument, match="--limit none is not understood"):
        registry.parse_options(remote, ["--limit", "none"])


def test_a_machine_without_a_network_is_refused():
    with pytest.raises(NotFound, match=r"no remote_write .*--machine perlmutter-processes"):
        Channels("h200-4").message_s()


def test_a_reader_tells_what_was_not_put(profile, tmp_path):
    serve = Servers(tmp_path)
    box = ((0, 0), (4, 4))
    try:
        contact = serve("--memory", "16MiB")
        with ts.Engine() as engine:
            worker = Worker(engine)
            worker.join(str(contact), "one")
            worker.write_box("a", "host", box, 1)
            worker.read_box("a", "host", box, [(box, box, 1)])
            senders = itertools.cycle(SENDERS)
            for design in RECEIVERS:
                worker.fill("a", 7)
                worker.put(["a"], 7, (0, 0), next(senders))
                worker.clear(["a"])
                assert not worker.verify(["a"], 7)
                worker.get(["a"], 7, design)
                assert worker.verify(["a"], 7) and not worker.verify(["a"], 8)
            worker.leave()
    finally:
        serve.end()


def test_what_differs_ends_the_run():
    with pytest.raises(MismatchError, match="8 MiB, direct: what arrived differs from what"):
        require(False, "8 MiB, direct")
