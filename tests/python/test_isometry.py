"""The simulated benchmarks run in small size; their lines say that they agree with the paper."""

from __future__ import annotations

import dataclasses
import functools
import json
import threading
from pathlib import Path

import pytest

from support import run_small
from tranship import Error, NotFound
from tranship_bench import benches, figures, registry
from tranship_bench.isometry import expectations, measured_priorities, places, simulated
from tranship_bench.isometry.applications import APPLICATIONS, VGG_LAYERS

NAMES = [
    name
    for name, entry in registry.entries().items()
    if entry.is_simulated and name.startswith("isometry-")
]


@pytest.fixture(scope="module")
def small_lines():
    """Returns a function from a benchmark's name to its lines in small size."""
    return lambda name: run_small(name)[1]


@pytest.mark.parametrize("name", NAMES)
def test_lines_have_the_one_form_and_agree_with_the_paper(name, capsys):
    code, lines = run_small(name)
    assert code == 0, capsys.readouterr().err
    for line in lines:
        assert line["bench"] == name
        assert line["checked"] is True
        assert line["simulated"] is True
        assert line["conditions"]["simulated"] is True
        assert line["median_s"] > 0
        if line["bytes"]:
            rate = line["bytes"] / line["median_s"] / 1e9
            assert line["gbps"] == pytest.approx(rate, rel=1e-4)  # a line has five digits
        assert ("ratio" in line) == ("baseline" in line)
        assert ("expected" in line) == ("within" in line)
        assert line.get("within", True)
        json.dumps(line)


def line_of(lines, case, variant):
    return next(line for line in lines if (line["case"], line["variant"]) == (case, variant))


def test_channels_reach_the_table(small_lines):
    lines = small_lines("isometry-table5")
    assert len(lines) == 31
    assert all(line["within"] for line in lines)


def test_pipelining_over_sequential_hops(small_lines):
    line = line_of(small_lines("isometry-figure7"), "FBM to FBM*", "tranship")
    assert 2.0 <= line["ratio"] <= 2.4
    assert line["bytes"] == 8 * (128 << 20)


def test_priority_cuts_the_completion_time(small_lines):
    lines = small_lines("isometry-figure8")
    cuts = {
        line["conditions"]["group"]: line["values"]["cut"]
        for line in lines
        if "largest" in line["case"]
    }
    assert cuts["direct"] >= 0.62
    assert cuts["multi-hop"] >= 0.94
    single = [line for line in lines if line["variant"] == "Realm-style, 1 thread"]
    assert all(line["values"]["normalised"] == 1 for line in single)


def test_full_planner_takes_registered_memory(small_lines):
    assert line_of(small_lines("isometry-figure9a"), "SYS to SYS*", "full")[
        "ratio"
    ] == pytest.approx(3180 / 2701, rel=0.01)
    paths = {
        line["variant"]: line["conditions"]["path"] for line in small_lines("isometry-figure10")
    }
    assert paths["simple"] == ["node0/host0", "node1/host0"]
    assert paths["full"][:2] == ["node0/host0", "node0/registered0"]


def test_bytes_of_the_applications_are_theirs(small_lines):
    assert sum(parameters for _, parameters in VGG_LAYERS) == 138_357_544
    names = {line["conditions"]["application"] for line in small_lines("isometry-figure12")}
    assert names == {application.name for application in APPLICATIONS}


def test_later_iterations_plan_nothing_new(small_lines):
    lines = small_lines("isometry-table6")
    assert lines
    assert all(line["values"]["new_after_first_iteration"] == 0 for line in lines)


def test_plans_do_not_grow_with_the_cluster(small_lines):
    lines = small_lines("isometry-scale")
    by_size = {
        line["values"]["gpus"]: line["values"]["plans"] for line in lines if "shift" in line["case"]
    }
    assert by_size[160] == by_size[16]


def test_another_machine_is_simulated_and_not_judged():
    lines = []
    assert (
        benches.run("isometry-figure10", size="small", machine="moonlight", report=lines.append)
        == 0
    )
    assert {line["machine"] for line in lines} == {"moonlight"}
    assert not any("expected" in line for line in lines)


def test_an_unknown_machine_is_named(capsys):
    assert benches.run("isometry-figure10", machine="no-such-cluster", report=print) == 1
    assert "no-such-cluster" in capsys.readouterr().err


def expectation(**changes):
    entry = {"case": "a", "measure": "ratio", "value": 2, "tolerance": 0.1, "reason": "because"}
    text = json.dumps({"source": "", "machine": "m", "expect": [{**entry, **changes}]})
    return expectations.parse(text, Path("expected.json"))[0]


def test_expectations_hold_within_their_tolerance():
    near = expectation()
    assert near.holds(1.81) and near.holds(2.19)
    assert not near.holds(1.79) and not near.holds(2.21)
    assert expectation(bound="at least").holds(99) and not expectation(bound="at least").holds(1.7)
    assert expectation(bound="at most").holds(-99) and not expectation(bound="at most").holds(2.3)


@pytest.mark.parametrize(
    "change", [{"bound": "about"}, {"size": "tiny"}, {"reason": ""}, {"value": "two"}]
)
def test_expectations_that_cannot_be_read(change):
    with pytest.raises(Error, match=r"expected\.json does not say what is expected"):
        expectation(**change)


def test_a_benchmark_without_expectations():
    with pytest.raises(
        NotFound, match=r"expected.isometry-figure99\.json.*install the package again"
    ):
        expectations.expectations_of("isometry-figure99")


def judged(entries):
    """Returns a benchmark with the expectations `entries` and one result, and its lines."""
    lines = []
    made = simulated.SimulatedBench(
        "isometry-figure10", full=False, machine="m", report=lines.append
    )
    made._expectations = entries
    made.on("m")
    made.medians["a"] = {"other": 2.5}
    made.simulated("a", "v", 8, 1.0, "other")
    return made, lines


def test_lines_that_are_off_are_reported_and_end_the_run():
    made, lines = judged([expectation()])
    assert lines[0]["within"] is False
    assert lines[0]["expected"][0]["measured"] == 2.5
    with pytest.raises(simulated.OffError, match=r"ratio is 2\.5, expected near 2"):
        made.close()


def test_an_expectation_that_no_line_meets_ends_the_run():
    made, lines = judged([expectation(case="b")])
    assert "expected" not in lines[0]
    with pytest.raises(simulated.OffError, match="no line shows ratio of b"):
        made.close()


def test_off_results_make_the_command_fail(monkeypatch, capsys):
    def body(made):
        raise simulated.OffError("a is off")

    entry = dataclasses.replace(benches.find("isometry-figure10"), body=body)
    monkeypatch.setitem(registry.KNOWN, entry.name, entry)
    assert benches.run("isometry-figure10", size="small", report=print) == 1
    assert "not as expected: a is off" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_says_what_it_does_and_why(name):
    content = json.loads((expectations.FOLDER / f"{name}.json").read_text())
    assert content["source"]
    assert all(entry["reason"] for entry in content["expect"])
    entry = benches.find(name)
    assert "simulated" in entry.words and len(entry.help) > 100


def test_realm_stages_in_host_memory_next_to_each_end():
    def path(source, target, **options):
        return places.staged_path(
            (places.memory(source), places.memory(target)), "pinned0", **options
        )

    between_gpus = ["node0/device0", "node0/pinned0", "node1/pinned0", "node1/device0"]
    assert path("FBM", "FBM*") == between_gpus
    assert path("SYS", "SYS*") == ["node0/host0", "node1/host0"]
    assert path("FBM", "DSK") == ["node0/device0", "node0/pinned0", "node0/file0"]
    assert path("SYS", "DSK*") == ["node0/host0", "node1/pinned0", "node1/file0"]
    assert path("ZCM", "FBM") == ["node0/pinned0", "node0/device0"]
    assert path("SYS", "FBM", converts=True) == ["node0/host0", "node0/host0", "node0/device0"]


def test_the_papers_instances():
    shape = places.instance_shape()
    assert shape.bytes == 128 << 20 and not shape.converts
    assert places.instance_shape(converts=True).layouts == ("F,x", "x,F")


def test_figures_are_drawn_from_the_lines(small_lines, tmp_path):
    pytest.importorskip("matplotlib")
    results = tmp_path / "results"
    results.mkdir()
    text = "".join(json.dumps(line) + "\n" for name in NAMES for line in small_lines(name))
    (results / "a.jsonl").write_text(text)
    drawn = figures.draw("isometry", tmp_path / "pictures", results=results)
    assert len(drawn) == len(NAMES) + 1  # Table 6 is about two machines
    assert all(path.stat().st_size > 5000 for path in drawn)
    assert {path.stem.split("-")[1] for path in drawn} == {name.split("-")[1] for name in NAMES}


# Measured figures, with emulated GPUs and with a second process as the other node

MEASURED = [name for name, _ in benches.list_benches() if name.endswith("-measured")]


@functools.cache
def run_measured(name):
    """Runs a measured figure in small size with two emulated GPUs; returns status and lines."""
    lines = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRANSHIP_EMULATED_GPUS", "2")
        patch.setenv("TRANSHIP_PEER_TIMEOUT_MS", "60000")
        code = benches.run(name, size="small", machine="here", report=lines.append)
    return code, lines


@pytest.mark.parametrize("name", MEASURED)
def test_measured_figures_say_that_they_are_and_on_what(name, capsys):
    code, lines = run_measured(name)
    assert code == 0 and "left out" not in capsys.readouterr().err
    for line in lines:
        assert "simulated" not in line and line["checked"] is True
        assert line["conditions"]["emulated"] is True
        assert line["conditions"]["gpus"] == "2 x emulated GPU"
        assert line["conditions"]["other_node"] == "another process of this machine"
    assert not benches.is_simulated(name)


def test_measured_cases_are_those_of_the_simulated_figures(small_lines):
    for name in ("isometry-figure9a", "isometry-figure9b"):
        measured = {(line["case"], line["variant"]) for line in run_measured(f"{name}-measured")[1]}
        assert {(line["case"], line["variant"]) for line in small_lines(name)} <= measured
    cases = {line["case"] for line in run_measured("isometry-figure7-measured")[1]}
    simulated_cases = {line["case"] for line in small_lines("isometry-figure7")}
    assert {case for case in simulated_cases if "bandwidth" not in case} <= cases


def test_what_is_not_here_is_left_out_and_said(monkeypatch, capsys):
    monkeypatch.setenv("TRANSHIP_GPUS", "0")
    lines = []
    assert benches.run("isometry-figure7-measured", size="small", report=lines.append) == 0
    assert {line["case"] for line in lines if "bandwidth" not in line["case"]} == {
        "network (shared memory): SYS to SHM*",
        "SYS to SYS*",
        "SYS to DSK*",
    }
    text = capsys.readouterr().err
    assert "FBM to FBM* left out: FBM is memory of a GPU: the setting gpus is 0" in text
    lines.clear()
    assert benches.run("isometry-figure11-measured", size="small", report=lines.append) == 0
    assert lines == [] and "skipped: none of its memories are here" in capsys.readouterr().err


def test_measured_figures_are_drawn_below_the_simulated_ones(small_lines, tmp_path):
    pytest.importorskip("matplotlib")
    image = pytest.importorskip("matplotlib.image")
    heights = {}
    for kept in ("measured", "both"):
        results = tmp_path / kept
        results.mkdir()
        rows = [line for name in MEASURED for line in run_measured(name)[1]]
        if kept == "both":
            names = {name.removesuffix("-measured") for name in MEASURED} & set(NAMES)
            rows += [line for name in names for line in small_lines(name)]
        (results / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rows))
        for name in MEASURED:
            (path,) = figures.draw(name, tmp_path / f"{kept}-pictures", results=results)
            heights[kept, name] = image.imread(path).shape[0]
    for name in MEASURED:
        alone = "figure11" in name or "figure8" in name
        assert (heights["both", name] > heights["measured", name]) != alone


def test_copiers_take_the_highest_priority_and_end_what_they_began():
    order = []
    begun, go_on = threading.Event(), threading.Event()

    def first():
        begun.set()
        assert go_on.wait(60)
        order.append("first")

    copiers = measured_priorities.Copiers(threads=1, slots=3)
    ends = [copiers.submit(lambda slot: [first, lambda: order.append("first again")])]
    assert begun.wait(60)
    ends.append(copiers.submit(lambda slot: [lambda: order.append("low")]))
    ends.append(copiers.submit(lambda slot: [lambda: order.append("high")], priority=1))
    ends.append(copiers.submit(lambda slot: [lambda: 1 / 0]))
    go_on.set()
    for end in ends[:3]:
        end.result(timeout=60)
    with pytest.raises(ZeroDivisionError):
        ends[3].result(timeout=60)
    copiers.close()
    assert order == ["first", "high", "first again", "low"]


def test_copiers_wait_for_memory_in_the_order_of_submission():
    order, slots = [], []
    copiers = measured_priorities.Copiers(threads=2, slots=1)

    def hops(name):
        def of(slot):
            slots.append(slot)
            return [lambda: order.append(name), lambda: order.append(name)]

        return of

    ends = [copiers.submit(hops(k), priority=k) for k in range(3)]
    for end in ends:
        end.result(timeout=60)
    copiers.close()
    assert order == [0, 0, 1, 1, 2, 2] and slots == [0, 0, 0]
