"""Every benchmark runs in small size, verifies its data and reports the one result form."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tranship
from tranship import Error, NotFound
from tranship.cli import main
from tranship_bench import benches, figures, harness, registry, targets
from tranship_bench.drawings import ranks, tables
from tranship_bench.host.random_shapes import BASE_BYTES_MAX, BROADCAST, CLASSES, random_shapes
from tranship_bench.processes.nixl import adapter_path
from tranship_bench.staging import boxes, coupling_worker, steps

KEYS = {
    "bench": str,
    "case": str,
    "variant": str,
    "machine": str,
    "commit": str,
    "bytes": int,
    "median_s": float,
    "quartiles_s": list,
    "count": int,
    "gbps": float,
    "checked": bool,
}

NAMES = [name for name, _ in benches.list_benches() if not benches.is_simulated(name)]


LOAD_MPI = ("ddtbench", "types")
"""Benchmarks that load an MPI library, whose UCX would be that of later tests of this process."""


def run_small(name):
    lines = []
    if name in LOAD_MPI:
        return run_apart(name)
    code = benches.run(name, size="small", machine="a machine", report=lines.append)
    return code, lines


def run_apart(name):
    script = (
        "import json, sys; from tranship_bench import benches;"
        "line = lambda one: print(json.dumps(one));"
        f"sys.exit(benches.run({name!r}, size='small', machine='a machine', report=line))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, timeout=280, check=False
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def check_line(line, name):
    for key, kind in KEYS.items():
        assert isinstance(line[key], kind), key
    assert line["bench"] == name
    assert line["machine"] == "a machine"
    assert line["checked"] is True
    first, third = line["quartiles_s"]
    assert first <= line["median_s"] <= third and line["count"] >= 1
    assert ("ratio" in line) == ("baseline" in line)
    assert set(line) <= {*KEYS, "ratio", "baseline", "conditions"}
    assert os.sep not in line["machine"] + line["commit"]
    if line["bytes"]:
        assert line["median_s"] > 0
        rate = line["bytes"] / line["median_s"] / 1e9
        assert line["gbps"] == pytest.approx(rate, rel=1e-4)  # a line has five digits


@pytest.mark.parametrize("name", NAMES)
def test_runs_small(name, monkeypatch):
    if "gpu" in name or name.endswith("-measured"):
        monkeypatch.setenv("TRANSHIP_EMULATED_GPUS", "2")
    code, lines = run_small(name)
    assert code == 0
    assert lines
    for line in lines:
        check_line(line, name)
        json.dumps(line)


def test_random_shapes_come_from_their_seed():
    shapes = list(random_shapes(7, 30, (1,)))
    assert shapes == list(random_shapes(7, 40, (1,)))[:30]
    assert shapes != list(random_shapes(8, 30, (1,)))
    assert {shape.kind for shape in shapes} == set(CLASSES)
    for shape in shapes:
        base = np.zeros(shape.base, shape.view_type)
        assert shape.view(base).shape == shape.shape
        assert base.nbytes == shape.base_bytes <= BASE_BYTES_MAX * shape.payload_bytes
        assert 0.4 * 2**20 < shape.payload_bytes < 2 * 2**20
        assert all(extent % 16 == 0 for extent in shape.base) or shape.kind != "round"
        assert all(extent % 2 == 1 for extent in shape.base) or shape.kind == "round"


def test_random_shapes_are_the_same_on_every_machine():
    names = [shape.name for shape in random_shapes(1, 3)]
    assert names == [
        "round 0: u1 [29792, 2192] by 10",
        "odd 1: u2 [39, 13, 17, 4693] by 0132 to the view",
        "sliced 2: f4 [37867, 17, 29] [547:36965, 3:17, 4:29] by 201",
    ]


def test_broadcast_shapes_repeat_a_dimension_at_least():
    for shape in random_shapes(5, 40, (1,), (BROADCAST,)):
        view = shape.view(np.zeros(shape.base, shape.view_type))
        assert view.shape == shape.shape
        assert 0 in view.strides
        assert not shape.scatters


def test_options_of_shapes(capsys):
    lines = []
    options = {"seed": 3, "cases": 2, "sizes": (1, 2)}
    assert benches.run("shapes", size="small", report=lines.append, options=options) == 0
    cases = [line["case"] for line in lines if line["variant"] == "numpy"]
    assert cases == [shape.name for shape in random_shapes(3, 2, (1, 2))]
    options = {"cases": 2, "classes": (BROADCAST,)}
    assert benches.run("shapes", size="small", report=lines.append, options=options) == 0
    assert lines[-1]["checked"]
    assert benches.run("shapes", size="small", report=print, options={"sides": 3}) == 1
    assert "there is no option 'sides'" in capsys.readouterr().err


def test_staging_beside_adios2():
    pytest.importorskip("adios2")
    code, lines = run_small("staging")
    assert code == 0
    theirs = [line for line in lines if line["variant"].startswith("adios2-sst")]
    cases = {line["case"] for line in theirs}
    assert cases == {line["case"] for line in lines} and len(cases) == 6
    for line in theirs:
        assert line["conditions"]["version"] and line["conditions"]["settings"]["QueueLimit"]
        assert (line.get("ratio") is None) == ("8 KiB" in line["case"])


def test_staging_says_that_adios2_is_left_out(monkeypatch, capsys):
    monkeypatch.setattr("tranship_bench.staging.sst.installed", lambda module: False)
    code, lines = run_small("staging")
    assert code == 0
    assert not any("adios2" in line["variant"] for line in lines)
    assert "not beside ADIOS2's SST: it is not installed (pip install adios2)" in (
        capsys.readouterr().err
    )


def test_a_changed_step_of_adios2_is_not_reported(monkeypatch, capsys):
    pytest.importorskip("adios2")
    monkeypatch.setattr("tranship_bench.staging.sst.Sst.arrived", lambda self: False)
    code, lines = run_small("staging")
    assert code == 1
    assert not any("adios2" in line["variant"] for line in lines)
    assert "adios2-sst" in capsys.readouterr().err


def test_steps_from_writers_to_readers_beside_adios2():
    pytest.importorskip("adios2")
    code, lines = run_small("staging-sst")
    assert code == 0
    of = {}
    for line in lines:
        of.setdefault(line["case"], {})[line["variant"]] = line
    both = {"adios2-sst, 4 streams", "adios2-sst, one stream"}
    assert {case: set(ways) - {"tranship"} for case, ways in of.items()} == {
        "1 x 1": {"adios2-sst"},
        "4 x 2": both,
        "4 x 2, crosswise": both,
    }
    for ways in of.values():
        theirs = [line for name, line in ways.items() if name != "tranship"]
        fastest = min(theirs, key=lambda line: line["median_s"])
        assert ways["tranship"]["baseline"] == fastest["variant"]
        assert all(line["conditions"]["settings"]["QueueLimit"] == "2" for line in theirs)


def test_steps_from_writers_to_readers_without_adios2(monkeypatch, capsys):
    monkeypatch.setattr("tranship_bench.staging.coupling.installed", lambda module: False)
    code, lines = run_small("staging-sst")
    assert code == 0
    assert [line["variant"] for line in lines] == ["tranship"] * 3
    assert not any("ratio" in line for line in lines)
    assert "not beside ADIOS2's SST: it is not installed (pip install adios2)" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("changed", ["nothing", "an element", "the number"])
def test_a_step_that_arrives_changed_is_noticed(changed):
    shape, box = (4, 6, 8), ((0, 2, 0), (4, 6, 8))
    with (
        boxes.server_process(64 << 20, options=("--versions", "0")) as (contact, _),
        tranship.Engine() as engine,
    ):
        writer, reader = (coupling_worker.CouplingWorker(engine) for _ in range(2))
        for side in (writer, reader):
            side.join(contact, "a process")
        writer.write_steps("data", shape, box, 1)
        reader.read_steps("data", shape, box, "a group")
        assert writer.block[1, 2, 3] == (1 * 6 + 4) * 8 + 3
        if changed == "an element":
            writer.block[-1, -1, -1] += 1
        writer.run(3, 5 if changed == "the number" else 0, False)
        assert reader.run(3, 0, True)["right"] == (changed == "nothing")
        for side in (writer, reader):
            side.leave()


@pytest.mark.parametrize("changed", ["nothing", "an element", "the number"])
def test_a_step_of_adios2_that_arrives_changed_is_noticed(changed):
    pytest.importorskip("adios2")
    path = adapter_path("adios2_coupling.py")
    spec = importlib.util.spec_from_file_location("adios2_coupling", path)
    adapter = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(adapter)
    shape, box = (4, 6, 8), ((0, 2, 0), (4, 6, 8))
    block = adapter.contents(shape, *box)
    assert np.array_equal(block, coupling_worker.contents(shape, box))
    reader = adapter.Reader.__new__(adapter.Reader)
    reader.expected = [[block.copy()]]
    adapter.stamp(block, 7 if changed == "the number" else 6)
    if changed == "an element":
        block[-1, -1, -1] += 1
    reader.boxes = [(None, None, [(box[0], block)])]
    assert reader.arrived(6) == (changed == "nothing")
    assert reader.numbered(6) == (changed != "the number")


def test_random_mixes_come_from_their_seed():
    mixes = list(steps.random_mixes(3, 40))
    assert mixes == list(steps.random_mixes(3, 60))[:40]
    assert mixes != list(steps.random_mixes(4, 40))
    assert {len(shape) for mix in mixes for shape in mix.shapes} == {1, 2, 3}
    for mix in mixes:
        assert 1 <= len(mix.shapes) <= steps.VARIABLES_MAX
        assert mix.nbytes <= steps.MIX_BYTES_MAX
        assert all(8 <= 8 * np.prod(shape) <= steps.BYTES_MAX for shape in mix.shapes)
    names = [mix.name for mix in mixes]
    assert names[:2] == ["mix 0: 12 variables, 19.7 MiB", "mix 1: 2 variables, 3.3 KiB"]


def test_calls_for_all_variables_of_a_step_are_measured_where_there_are_some(monkeypatch):
    def put_all(step, arrays):
        for name, array in arrays.items():
            step.put(name, array)

    def get_all(step, names=None, out=None):
        return {name: step[name].get(out=out and out[name]) for name in names or out or step}

    monkeypatch.setattr(steps.StepWriter, "put_all", put_all, raising=False)
    monkeypatch.setattr(steps.Step, "get_all", get_all, raising=False)
    code, lines = run_small("staging-steps")
    assert code == 0
    of = {}
    for line in lines:
        of.setdefault(line["case"], []).append(line["variant"])
    assert of["put 5 x 1 KiB"] == ["one variable", "one by one", "begun together", "put_all"]
    assert of["get 5 x 1 KiB"] == ["one variable", "one by one", "get_all"]
    assert of["get 5 x 1 KiB, new arrays"] == ["one variable", "one by one", "get_all"]
    # Reported worst first, which depends on the times.
    assert sorted(of["least of puts of mixes"]) == ["one by one", "put_all"]
    assert sorted(of["least of gets of mixes"]) == ["get_all", "one by one"]


def test_a_step_with_a_changed_variable_is_not_reported(monkeypatch, capsys):
    def put_changed(step, arrays):
        for number, (name, array) in enumerate(arrays.items()):
            step.put(name, array + 1 if number == 4 else array)
        return arrays

    monkeypatch.setattr(steps, "put_begun", put_changed)
    code, lines = run_small("staging-steps")
    assert code == 1 and not lines
    assert "put 5 x 1 KiB, begun together" in capsys.readouterr().err


def test_list_has_every_group():
    assert set(NAMES) >= {
        "contiguous",
        "conversions",
        "process",
        "pieces",
        "lists",
        "file",
        "three-hops",
        "small",
        "priority",
    }
    assert all(description for _, description in benches.list_benches())


def test_list_says_what_a_benchmark_does_and_its_options(capsys):
    assert main(["bench", "list", "shapes"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("shapes: conversions of random shapes")
    assert "--classes LIST" in text and "multiples of 16" in text
    assert all(entry.help for entry in registry.entries().values())
    assert main(["bench", "list", "shape"]) == 2
    assert "there is no benchmark 'shape'" in capsys.readouterr().err


def test_options_of_a_benchmark_follow_its_name(capsys):
    words = ["--seed", "7", "--cases", "1", "--size", "small", "--json", "-"]
    assert main(["bench", "shapes", *words]) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[0])
    assert line["case"] == next(random_shapes(7, 1, (1,))).name
    assert main(["bench", "shapes", "--cases", "0"]) == 1
    assert "cases is 0; it is at least 1" in capsys.readouterr().err
    assert main(["bench", "small", "--seed", "7"]) == 2
    assert "small has no option --seed" in capsys.readouterr().err
    assert main(["bench", "--seed", "7", "shapes"]) == 2
    assert "--seed stands before the name of a benchmark" in capsys.readouterr().err


def test_unknown_name_and_size():
    with pytest.raises(NotFound, match="contiguous"):
        benches.run("contigous", report=print)
    with pytest.raises(Error, match='"small" or "full"'):
        benches.run("contiguous", size="large", report=print)


def make_variant(name, holds):
    return harness.Variant(name, lambda: 1.0, lambda: next(holds), lambda: None)


def test_a_mismatch_reports_nothing(monkeypatch, capsys):
    lines = []

    def body(made):
        good, bad = iter([True] * 9), iter([True, False])
        variants = [make_variant("good", good), make_variant("bad", bad)]
        made.measure("case", variants, 8, repetitions=3)

    monkeypatch.setitem(registry.KNOWN, "broken", registry.Entry("broken", "breaks", body))
    assert benches.run("broken", size="small", report=lines.append) == 1
    assert lines == []
    assert "case, bad" in capsys.readouterr().err


def test_ratio_is_speed_over_the_baseline():
    lines = []
    made = harness.Bench("made", full=False, machine="m", report=lines.append)
    slow = harness.Variant("slow", lambda: 2.0, lambda: True, lambda: None)
    fast = harness.Variant("fast", lambda: 0.5, lambda: True, lambda: None)
    medians = made.measure("case", [slow, fast], 8, repetitions=2, baseline="slow")
    assert medians == {"slow": 2.0, "fast": 0.5}
    assert "ratio" not in lines[0]
    assert lines[1]["ratio"] == 4.0
    assert lines[1]["quartiles_s"] == [0.5, 0.5] and lines[1]["count"] == 1


def test_same_finds_one_changed_byte():
    one = harness.random_bytes((2 << 20) + 5)
    other = one.copy()
    assert harness.same(one, other)
    other[-1] ^= 1
    assert not harness.same(one, other)
    assert not harness.same(one, one[:-1])


def result_line(**changes):
    line = {
        "bench": "contiguous",
        "case": "8 MiB",
        "variant": "tranship",
        "machine": "a machine",
        "commit": "",
        "bytes": 8,
        "median_s": 1.0,
        "quartiles_s": [1.0, 1.0],
        "count": 1,
        "gbps": 8e-9,
        "checked": True,
        "ratio": 1.5,
        "baseline": "memcpy",
    }
    return {**line, **changes}


def test_verdicts():
    lines = [
        result_line(),
        result_line(ratio=1.2),
        result_line(bench="file", case="file to memory, f4", variant="transposed", ratio=0.5),
        result_line(conditions={"size": "small"}),
    ]
    verdicts = list(targets.judge(lines))
    assert [verdict.met for verdict in verdicts] == [True, False, False]
    assert verdicts[2].value == 2.0


def test_figures(tmp_path):
    pytest.importorskip("matplotlib")
    results, pictures = tmp_path / "results", tmp_path / "pictures"
    with pytest.raises(NotFound, match="no file or folder"):
        figures.draw(None, pictures, results=results)
    results.mkdir()
    with pytest.raises(NotFound, match="tranship bench"):
        figures.draw("contiguous", pictures, results=results)
    lines = [
        result_line(),
        result_line(variant="memcpy"),
        result_line(bench="small", case="8 B", median_s=2e-6),
    ]
    (results / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    drawn = figures.draw(None, pictures, results=results)
    assert sorted(path.name for path in drawn) == [
        "contiguous-a-machine.png",
        "small-a-machine.png",
    ]
    assert all(path.stat().st_size > 5000 for path in drawn)
    assert len(figures.draw("small", pictures, results=results)) == 1


def test_figures_of_random_shapes(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    curves = []
    monkeypatch.setattr(
        ranks, "draw_class", lambda axes, title, cases: curves.append((title, len(cases)))
    )
    lines = []
    for case, width, fields in [
        ("round 0: u1", 1, 0),
        ("odd 1: f8", 8, 0),
        ("odd 4: {u1 f8}", 9, 2),
    ]:
        conditions = {
            "class": case.split()[0],
            "element_bytes": width,
            "fields": fields,
            "seed": 7,
        }
        shared = {"bench": "shapes", "case": case, "ratio": 0.5, "baseline": "memcpy"}
        lines.append(result_line(**shared, conditions=conditions))
        lines.append(result_line(**shared, variant="numpy"))
    lines.append(result_line(bench="shapes", case="least of all", ratio=0.5))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    drawn = figures.draw("shapes", tmp_path / "drawn", results=tmp_path)
    assert [path.name for path in drawn] == ["shapes-a-machine.png"]
    assert [count for _, count in curves] == [1, 0, 0, 0, 1, 0, 0, 1, 0]
    assert curves[0][0] == "multiples of 16: 1 shapes"


def test_figures_of_a_file_from_any_folder(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    lines = [
        result_line(bench="planning", variant="full", bytes=0, gbps=0.0, median_s=2e-5),
        result_line(bench="planning", variant="cached", bytes=0, gbps=0.0, median_s=5e-8),
        result_line(bench="prediction", case="predictions within 20%", bytes=0, median_s=0.68),
        result_line(bench="prediction", case="host, 1 MiB"),
    ]
    Path("mine.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["figures", "mine.jsonl", "--output", "drawn"]) == 0
    assert capsys.readouterr().out.split() == [
        "drawn/planning-a-machine.png",
        "drawn/prediction-a-machine.png",
    ]
    assert main(["figures", "planning", "mine.jsonl", "--output", "drawn"]) == 0
    assert capsys.readouterr().out.split() == ["drawn/planning-a-machine.png"]
    assert main(["figures", "other.jsonl"]) == 1
    assert "no file or folder other.jsonl" in capsys.readouterr().err


def test_many_cases_are_drawn_on_one_page(tmp_path):
    pytest.importorskip("matplotlib")
    from matplotlib.image import imread

    lines = [
        result_line(bench="kernels", case=f"{name} of {k} B", fraction=k / 100)
        for k in range(1, 100)
        for name in ("transpose", "permutation")
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path,) = figures.draw(None, tmp_path, results=tmp_path)
    assert imread(path).shape[0] < 1000


def test_times_and_rates_are_told_apart():
    rows = {
        "64 MiB": {"tranship": result_line(bytes=64 << 20)},
        "8 B": {"tranship": result_line()},
        "start": {"tranship": result_line(bytes=0, gbps=0.0)},
    }
    rates, times = tables.parts_of("made", rows)
    assert list(rates) == ["64 MiB"] and list(times) == ["8 B", "start"]
    assert tables.unit_of(2.5e-6)[1] == "us"
    assert tables.value_text(result_line(median_s=6e-8), True).startswith("60 ns  (1.50 x memcpy)")


def test_a_variant_has_one_colour_in_every_chart():
    few = tables.colours_of(["tranship", "file alone"])
    many = tables.colours_of(["tranship", "memcpy", "numpy", "file alone"])
    assert few == {name: many[name] for name in few}
    assert len(set(tables.colours_of([f"variant {k}" for k in range(16)]).values())) == 16


def test_emulated_gpus_are_named_on_every_printed_line(monkeypatch, capsys):
    monkeypatch.setenv("TRANSHIP_EMULATED_GPUS", "2")
    assert main(["bench", "gpu-link", "--size", "small"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines and all(line.endswith("emulated GPUs") for line in lines)


def test_figures_of_messages_show_the_improvement(tmp_path, monkeypatch):
    axes = pytest.importorskip("matplotlib.axes")
    drawn = {}

    def plot(self, x, y, label, **how):
        drawn[label] = list(y)

    monkeypatch.setattr(axes.Axes, "plot", plot)
    times = {"latency-oriented": (3e-5, 2e-5), "tranship": (1e-5, 1e-5)}
    lines = [
        result_line(bench="gpu-messages", case=f"case {k}", variant=variant, median_s=seconds)
        for variant, both in times.items()
        for k, seconds in enumerate(both)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path,) = figures.draw("gpu-messages", tmp_path / "drawn", results=tmp_path)
    assert path.stat().st_size > 5000
    assert drawn == {"messages: 2": [pytest.approx(2), pytest.approx(3)]}


def test_figures_refuse_lines_that_were_not_checked(tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "a.jsonl").write_text(json.dumps(result_line(checked=False)) + "\n")
    with pytest.raises(Error, match="no result line"):
        figures.draw(None, tmp_path, results=tmp_path)


def test_without_the_benchmarks_the_command_says_how_to_install_them(monkeypatch, capsys):
    monkeypatch.setattr("tranship.cli.extensions.entry_points", lambda group: [])
    for words in (["bench", "small", "--size", "small"], ["figures"]):
        assert main(words) == 2
        text = capsys.readouterr().err
        assert "needs the package tranship-bench" in text and "pip install ./benchmarks" in text


def test_benchmarks_that_cannot_be_loaded_are_an_error_of_their_command(monkeypatch, capsys):
    class Broken:
        name = "bench"

        def load(self):
            raise ImportError("no module named numpy")

    monkeypatch.setattr("tranship.cli.extensions.entry_points", lambda group: [Broken()])
    assert main(["bench", "list"]) == 2
    assert "cannot be loaded: no module named numpy" in capsys.readouterr().err
    assert main(["--version"]) == 0
