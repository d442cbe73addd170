"""Traces of several processes on one timeline: the steps and waits of puts and gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from staging_servers import PATIENCE, Servers

import tranship as ts
from support import eventually
from tranship.cli import main
from tranship.tracing import MergedTrace, merge_traces

READER = """
import sys
import numpy as np
import tranship as ts
with ts.Staging(sys.argv[1], name="reader") as staging:
    out = np.empty((300, 200))
    print("ready", flush=True)
    staging.get("energy", 1, (0, 0), (300, 200), out, timeout=60)
    staging.get("few", 1, timeout=60)
"""
ROUNDED_US = 0.002
"""Rounding of times, in microseconds: traces have nanoseconds, as fractions."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder to which each engine of the test and its processes writes its trace."""
    folder = tmp_path / "traces"
    monkeypatch.setenv("TRANSHIP_TRACE_FOLDER", str(folder))
    return folder


def start_reader(contact: Path) -> subprocess.Popen[str]:
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(contact)], stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout is not None and reader.stdout.readline() == "ready\n"
    return reader


def sleeps(pid: int) -> bool:
    """Returns whether a process's main thread waits, instead of running or being about to run."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S"


def until_shown(
    folder: Path, run: Callable[[], None], shown: Callable[[MergedTrace], bool]
) -> None:
    """Repeats a run until its trace shows a wait: on a busy machine a process may come too late."""
    for _ in range(20):
        run()
        if shown(merge_traces([folder])):
            return
        for file in folder.iterdir():
            file.unlink()
    pytest.fail("no trace shows the wait")


def reader_waits(trace: MergedTrace) -> bool:
    """Returns whether the reader waited before the writer's first put."""
    waits = [span for span in spans_of(trace, "reader") if span["name"] == "wait for a notice"]
    puts = [span for span in spans_of(trace, "writer") if span["name"] == "put energy"]
    return bool(waits) and waits[0]["ts"] < puts[0]["ts"]


def run_workflow(serve: Servers, servers: int, folder: Path) -> None:
    """Runs a reader that waits for a version of two objects, and for a small one, of a writer."""
    until_shown(folder, lambda: run_workflow_once(serve, servers), reader_waits)


def run_workflow_once(serve: Servers, servers: int) -> None:
    contact = serve("--servers", str(servers))
    reader = start_reader(contact)
    with ts.Staging(contact, name="writer") as writer:
        assert eventually(lambda: sleeps(reader.pid))
        time.sleep(0.3)
        writer.put("energy", 1, np.ones((150, 200)), (0, 0))
        writer.put("energy", 1, np.ones((150, 200)), (150, 0))
        writer.put("few", 1, np.ones(3))
        writer.put("few", 2, np.ones(3))
        writer.discard("few", 2)
        assert reader.wait(PATIENCE) == 0
    serve.end()


def spans_of(trace: MergedTrace, process: str) -> list[dict[str, Any]]:
    number = next(n for n, name in trace.processes.items() if name == process)
    return [event for event in trace.events if event["pid"] == number and event["ph"] == "X"]


def end(span: dict[str, Any]) -> float:
    return float(span["ts"]) + float(span["dur"])


def inside(spans: list[dict[str, Any]], outer: dict[str, Any]) -> list[str]:
    """Returns the names of the spans inside a span."""
    return [
        span["name"]
        for span in spans
        if span is not outer
        and span["tid"] == outer["tid"]
        and span["ts"] >= outer["ts"] - ROUNDED_US
        and end(span) <= end(outer) + ROUNDED_US
    ]


def assert_nested(spans: list[dict[str, Any]]) -> None:
    """Checks that two spans of a thread are disjoint, or one inside the other."""
    open_ends: dict[int, list[float]] = {}
    for span in sorted(spans, key=lambda span: (span["ts"], -span["dur"])):
        ends = open_ends.setdefault(span["tid"], [])
        while ends and ends[-1] <= span["ts"] + ROUNDED_US:
            ends.pop()
        assert not ends or end(span) <= ends[-1] + ROUNDED_US, span
        ends.append(end(span))


@pytest.mark.parametrize("servers", [1, 2])
def test_processes_are_shown_on_one_clock(serve: Servers, folder: Path, servers: int) -> None:
    run_workflow(serve, servers, folder)
    target = folder.parent / "merged.json"
    trace = merge_traces([folder], target)
    assert set(trace.processes.values()) == {"reader", "writer"} | {
        f"server {rank}" for rank in range(servers)
    }
    content = json.loads(target.read_text())
    assert [event for event in content["traceEvents"] if "ts" in event] == trace.events
    assert trace.dropped == 0 and len(trace.hosts) == 1
    writer, reader = spans_of(trace, "writer"), spans_of(trace, "reader")
    for name in trace.processes.values():
        assert_nested(spans_of(trace, name))
    puts = [span for span in writer if span["name"] == "put energy"]
    assert [span["args"]["box"] for span in puts] == ["(0:150, 0:200)", "(150:300, 0:200)"]
    assert all(span["args"]["bytes"] == 150 * 200 * 8 for span in puts)
    for put in puts:
        assert {"ask begin", "copy", "ask commit"} <= set(inside(writer, put))
    (get,) = (span for span in reader if span["name"] == "get energy")
    assert "copy" in inside(reader, get)
    assert any(span["name"] == "wait for a notice" for span in reader)
    assert get["args"]["version"] == "1" and get["args"]["bytes"] == 300 * 200 * 8
    # The reader waited before the first put, and its get ended after the last commit had begun,
    # which shows only if the clocks are aligned.
    commits = [span["ts"] for span in writer if span["name"] == "ask commit"]
    waits = [span["ts"] for span in reader if span["name"] == "wait for a notice"]
    assert min(waits) < puts[0]["ts"] and len(commits) == 2 and max(commits) < end(get)
    answers = [span for name in trace.processes.values() for span in spans_of(trace, name)]
    questions = [span for span in writer + reader if span["name"] == "ask commit"]
    for question in questions:
        assert any(
            answer["name"] == "answer commit"
            and question["ts"] < answer["ts"]
            and end(answer) < end(question)
            for answer in answers
        )
    assert any(span["name"] == "discard few" for span in answers)


def trips_of(spans: list[dict[str, Any]], put: dict[str, Any]) -> list[str]:
    """Returns the requests that a put waits for one after another, beside its copy.

    Requests during the copy, or during other requests, are not counted.
    """
    parts = [
        span
        for span in spans
        if span["tid"] == put["tid"]
        and span["ts"] >= put["ts"] - ROUNDED_US
        and end(span) <= end(put) + ROUNDED_US
        and (span["name"].startswith("ask ") or span["name"] == "copy")
    ]

    def holds(outer: dict[str, Any], span: dict[str, Any]) -> bool:
        return outer is not span and outer["ts"] <= span["ts"] and end(span) <= end(outer)

    (copy,) = (part for part in parts if part["name"] == "copy")
    outer = [part for part in parts if not any(holds(other, part) for other in parts)]
    return [part["name"] for part in outer if part is not copy and not holds(part, copy)]


@pytest.mark.parametrize("transport", ["automatic", "network"])
@pytest.mark.parametrize("servers", [1, 3])
def test_a_large_put_makes_at_most_three_round_trips(
    serve: Servers, folder: Path, monkeypatch: pytest.MonkeyPatch, servers: int, transport: str
) -> None:
    monkeypatch.setenv("TRANSHIP_TRANSPORT", transport)
    contact = serve("--servers", str(servers))
    with ts.Staging(contact, name="writer") as writer:
        writer.put("energy", 0, np.ones((256, 256)))  # its box gives the cells
        for version in range(1, 4):
            writer.put("energy", version, np.full((600, 600), float(version)), (20, 20))
            writer.discard("energy", version - 1)
        out = np.zeros((600, 600))
        writer.get("energy", 3, (20, 20), (620, 620), out)
        assert (out == 3).all()
    serve.end()
    spans = spans_of(merge_traces([folder]), "writer")
    spans = [span for span in spans if span["cat"] == "staging"]
    assert_nested(spans)
    puts = [span for span in spans if span["name"] == "put energy"][2:]
    assert len(puts) == 2
    for put in puts:
        names = inside(spans, put)
        assert names.count("ask index") == names.count("ask confirm") == servers - 1
        expected = ["ask begin", "ask commit"] + ["ask confirm"] * (servers > 1)
        assert trips_of(spans, put) == expected


def test_arrows_lead_from_puts_to_the_gets_that_read_them(serve: Servers, folder: Path) -> None:
    run_workflow(serve, 1, folder)
    trace = merge_traces([folder])
    assert trace.arrows == 3  # Two objects of one get, one of the other.
    numbers = {name: number for number, name in trace.processes.items()}
    heads = [event for event in trace.events if event["ph"] == "f"]
    tails = {event["id"]: event for event in trace.events if event["ph"] == "s"}
    gets = [span for span in spans_of(trace, "reader") if span["args"].get("call") == "get"]
    puts = [span for span in spans_of(trace, "writer") if span["args"].get("call") == "put"]
    for head in heads:
        tail = tails[head["id"]]
        assert (tail["pid"], head["pid"]) == (numbers["writer"], numbers["reader"])
        assert tail["ts"] <= head["ts"]
        for event, spans in ((head, gets), (tail, puts)):
            assert any(
                span["name"].endswith(event["name"])
                and span["tid"] == event["tid"]
                and span["ts"] <= event["ts"] <= end(span)
                for span in spans
            )


def waits_for_memory(trace: MergedTrace) -> list[dict[str, Any]]:
    return [event for event in trace.events if event["name"] == "wait for memory"]


def is_of_the_second(wait: dict[str, Any]) -> bool:
    """Returns whether a wait is that of version 2: version 1 may wait until memory is allocated."""
    return bool(wait.get("args", {}).get("object") == "large 2 (0:100000)")


def test_a_wait_for_memory_is_shown(serve: Servers, folder: Path) -> None:
    def run() -> None:
        contact = serve("--memory", "1MiB")
        with ts.Staging(contact, name="writer") as writer:
            writer.put("large", 1, np.zeros(100_000))
            begun = writer.put_async("large", 2, np.zeros(100_000))
            time.sleep(0.3)  # Its first request, which finds no memory, comes meanwhile.
            writer.discard("large", 1)
            begun.result()
            with pytest.raises(ts.Timeout):
                writer.put("large", 3, np.zeros(100_000), timeout=0.1)
        serve.end()

    until_shown(folder, run, lambda trace: any(map(is_of_the_second, waits_for_memory(trace))))
    trace = merge_traces([folder])
    waits = waits_for_memory(trace)
    begin = next(filter(is_of_the_second, waits))
    finish = next(e for e in waits if e["ph"] == "e" and e["id2"] == begin["id2"])
    freed = next(e for e in trace.events if e["name"] == "discard large" and "ts" in e)
    assert begin["ts"] < freed["ts"] < finish["ts"]
    assert begin["args"]["client"] == "writer"
    failed = [s for s in spans_of(trace, "writer") if "failed" in s["args"]]
    assert [s["args"]["version"] for s in failed if s["name"] == "put large"] == ["3"]
    assert "memory" in failed[0]["args"]["failed"]


def test_a_program_shows_what_it_does_besides(profile: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    with ts.Engine(profile=profile, trace=file) as engine, engine.span("compute", 8):
        engine.copy(np.zeros(100), np.zeros(100)).wait()
    (process,) = merge_traces([file]).processes.values()
    assert process.endswith(f" {os.getpid()}")
    spans = spans_of(merge_traces([file]), process)
    (compute,) = (span for span in spans if span["name"] == "compute")
    assert inside(spans, compute) == ["node0/host0 > node0/host0"]
    with ts.Engine(profile=profile) as silent, silent.span("nothing is written"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace.json"]


def one_span(name: str, host: str, wall_ns: int, begin_us: float) -> str:
    """Returns a trace of one span, as an engine of some machine writes it."""
    process = {"number": 7, "program": name, "host": host, "boot": f"boot of {host}"}
    return json.dumps(
        {
            "traceEvents": [
                {"name": "process_name", "ph": "M", "pid": 7, "args": {"name": name}},
                {"name": "work", "ph": "X", "ts": begin_us, "dur": 1, "pid": 7, "tid": 0},
            ],
            "dropped_spans": 2,
            "process": {**process, "wall_minus_clock_ns": wall_ns},
        }
    )


def test_machines_are_brought_together_by_the_time_of_day(tmp_path: Path) -> None:
    # At noon the first machine had run for 5 s, the second for 1000 s; the spans begin 3 s apart.
    noon = 43_200 * 10**9
    (tmp_path / "a.json").write_text(one_span("first", "a", noon - 5 * 10**9, 6e6))
    (tmp_path / "b.json").write_text(one_span("second", "b", noon - 1000 * 10**9, 1004e6))
    trace = merge_traces([tmp_path])
    assert trace.hosts == ["a", "b"] and trace.dropped == 4
    begins = {trace.processes[event["pid"]]: event["ts"] for event in trace.events}
    assert begins == {"first": 0.0, "second": 3e6}


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text(one_span("first", "a", 0, 0.0))
    (tmp_path / "b.json").write_text(one_span("second", "b", 0, 1.0))
    target = tmp_path / "out" / "merged.json"
    target.parent.mkdir()
    assert main(["trace", str(tmp_path), "-o", str(target)]) == 0
    captured = capsys.readouterr()
    assert "second" in captured.out and "4 spans had no room" in captured.err
    assert "of several machines" in captured.err
    assert len(json.loads(target.read_text())["traceEvents"]) == 4
    assert main(["trace", str(tmp_path / "a.json"), "-o", str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["processes"] == [{"process": "first", "spans": 1}]
    assert main(["trace", str(tmp_path / "out"), "-o", str(target)]) == 2
    assert "is not the trace of an engine\nhint: name files" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["trace", str(tmp_path / "empty")]) == 2
    assert "engines write their traces when they close" in capsys.readouterr().err


def test_a_trace_that_cannot_be_written_is_said_so(profile: str, tmp_path: Path) -> None:
    with pytest.raises(ts.Error, match=r"trace cannot be written to .*; name a folder that exists"):
        ts.Engine(profile=profile, trace=tmp_path / "none" / "trace.json")
    with pytest.raises(ts.Error, match="it is a folder"):
        ts.Engine(profile=profile, trace=tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ts.Error, match="trace cannot be written to"):
        ts.Engine(profile=profile, trace_folder=tmp_path / "file")
    engine = ts.Engine(profile=profile, trace_folder=tmp_path / "later")
    (tmp_path / "later").rmdir()
    with pytest.raises(ts.Error, match="trace cannot be written to"):
        engine.close()
    assert engine.closed
