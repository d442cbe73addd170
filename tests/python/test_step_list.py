"""The list of steps, from Python and as `tranship ls` shows it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, asdict
from pathlib import Path

import numpy as np
import pytest
from staging_servers import PATIENCE, Servers

import tranship as ts
from support import eventually
from tranship.cli import main
from tranship.staging import ListedStep

WRITER = """
import sys, numpy as np, tranship as ts
staging = ts.Staging(sys.argv[1], name="the other")
with staging.step(int(sys.argv[2])) as step:
    step["energy"].put(np.ones(1000))
    print("within", flush=True)
    sys.stdin.readline()
"""


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


def write(staging: ts.Staging, number: int, *more: str) -> None:
    with staging.step(number) as step:
        for name in ("energy", "count", *more):
            step[name].put(np.full((8, 8), float(number)), lower=(0, 8))
        step["energy"].attributes["unit"] = "J"
        step.attributes["time"] = 0.5 * number


def break_step(staging: ts.Staging, number: int, why: str = "no") -> None:
    with pytest.raises(ZeroDivisionError), staging.step(number) as step:
        step["energy"].put(np.ones((8, 8)))
        raise ZeroDivisionError(why)


def whole(number: int, *more: str) -> ListedStep:
    return ListedStep(number, "whole", tuple(sorted(("energy", "count", *more))), 2)


def broken(number: int) -> ListedStep:
    return ListedStep(number, "broken", why=f"step {number} was given up: ZeroDivisionError: no")


def open_step(number: int, ended: int, writers: int) -> ListedStep:
    why = f"step {number} has been ended by {ended} of {writers} writers"
    return ListedStep(number, "open", why=why)


def test_steps_are_listed_with_their_states(sim: ts.Staging, ana: ts.Staging) -> None:
    assert sim.list_steps() == ana.list_steps() == []
    write(sim, -3)
    break_step(sim, 0)
    write(sim, 5, "speed")
    kept = [whole(-3), broken(0), whole(5, "speed")]
    assert sim.list_steps() == kept
    with sim.step(6, writers=2) as step:
        step["energy"].put(np.ones((8, 8)))
        step.attributes["time"] = 3.0
        assert sim.list_steps() == ana.list_steps() == [*kept, open_step(6, 0, 2)]
    assert sim.list_steps() == ana.list_steps() == [*kept, open_step(6, 1, 2)]
    with ana.step(6, writers=2) as step:
        step["count"].put(np.ones((8, 8)))
    now = [*kept, ListedStep(6, "whole", ("count", "energy"), 1)]
    assert sim.list_steps() == ana.list_steps() == now


def test_a_step_that_was_freed_is_not_listed(sim: ts.Staging, ana: ts.Staging) -> None:
    for number in range(4):
        write(sim, number)
    sim.discard_step(1)
    assert sim.list_steps() == ana.list_steps() == [whole(0), whole(2), whole(3)]
    with ana.steps(group="viz", timeout=PATIENCE) as steps:
        assert next(steps).number == 0
        # A list holds nothing: the step goes with the release of the only group.
        assert len(ana.list_steps()) == 3
        assert next(steps).number == 2
        assert ana.list_steps() == [whole(2), whole(3)]
    for step in sim.list_steps():
        sim.discard_step(step.number)
    assert sim.list_steps() == ana.list_steps() == []


def test_a_variable_that_was_deleted_is_not_listed(sim: ts.Staging, ana: ts.Staging) -> None:
    write(sim, 0, "speed")
    sim.delete("speed")
    assert ana.list_steps()[0].variables == ("count", "energy")
    assert sim.list_steps() == ana.list_steps()


def test_a_broken_step_is_listed_until_it_is_written_again(sim: ts.Staging) -> None:
    write(sim, 1)
    break_step(sim, 2)
    assert sim.list_steps() == [whole(1), broken(2)]
    write(sim, 2)
    assert sim.list_steps() == [whole(1), whole(2)]


def test_the_step_of_a_writer_that_is_killed_is_listed(contact: Path, ana: ts.Staging) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(contact), "7"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "within\n"
        assert ana.list_steps() == [open_step(7, 0, 1)]
        process.kill()
    why = 'the writer "the other" of step 7 was lost within it'
    lost = [ListedStep(7, "broken", why=why)]
    assert eventually(lambda: ana.list_steps() == lost), ana.list_steps()
    # It was the only writer, and has died: readers are told, and lists go on.
    with pytest.raises(ts.PeerLost), pytest.warns(ts.SkippedVersionWarning):
        next(ana.steps(timeout=PATIENCE))
    assert ana.list_steps() == lost


def test_steps_are_listed_after_all_writers_have_closed(contact: Path, ana: ts.Staging) -> None:
    with ts.Staging(contact) as sim:
        write(sim, 0)
        break_step(sim, 1)
        assert sim.list_steps() == [whole(0), broken(1)]  # the server has received its reason
    assert eventually(lambda: ana.servers()[0]["clients"] == 1)
    assert ana.list_steps() == [whole(0), broken(1)]


def test_many_steps_and_variables_are_listed(profile: str, tmp_path: Path) -> None:
    contact = tmp_path / "contact"
    names = tuple(f"{k:03d}{'x' * 400}" for k in range(30))
    with (
        ts.StagingServer(contact, profile=profile, slot_bytes=4096),
        ts.Staging(contact, profile=profile, slot_bytes=4096) as staging,
    ):
        for number in range(12):  # One message does not list so many broken ones.
            break_step(staging, number)
        with staging.step(12) as step:  # Nor so many variables.
            for name in names:
                step[name].put(1.0)
        with staging.step(13):
            pass
        listed = staging.list_steps()
    assert listed[:12] == [broken(number) for number in range(12)]
    assert listed[12:] == [ListedStep(12, "whole", names), ListedStep(13, "whole")]


def test_a_listed_step_is_a_value() -> None:
    step = ListedStep(3, "whole", ("energy",), 1)
    with pytest.raises(FrozenInstanceError):
        step.number = 4  # type: ignore[misc]
    assert len({step, ListedStep(3, "whole", ("energy",), 1), ListedStep(4, "open")}) == 2


def test_a_list_ends_at_its_time(serve: Servers) -> None:
    contact = serve("--memory", "8MiB")
    with ts.Staging(contact) as staging:
        write(staging, 0)
        for wrong in ("soon", None):
            with pytest.raises(ts.InvalidArgument, match="timeout"):
                staging.list_steps(timeout=wrong)  # type: ignore[arg-type]
        stopped = serve.processes[-1]
        stopped.send_signal(signal.SIGSTOP)
        assert eventually(lambda: Path(f"/proc/{stopped.pid}/stat").read_text().split()[2] == "T")
        with pytest.raises(ts.Timeout):
            staging.list_steps(timeout=0.1)
        stopped.send_signal(signal.SIGCONT)
        assert staging.list_steps(timeout=PATIENCE) == [whole(0)]


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["ls", *words]) == 0
    return capsys.readouterr().out


def rows_of(text: str) -> list[str]:
    """Returns the rows of the table of steps, with one space between words."""
    lines = text.splitlines()
    (first,) = [k for k, line in enumerate(lines) if line.split()[:2] == ["steps", "state"]]
    return [" ".join(line.split()) for line in lines[first + 1 : lines.index("", first)]]


def test_ls_shows_steps(contact: Path, sim: ts.Staging, capsys: pytest.CaptureFixture[str]) -> None:
    where = str(contact)
    assert "attributes" not in shown(capsys, where)
    assert json.loads(shown(capsys, where, "--json"))["steps"] == []
    for number in (0, 5, 10):
        write(sim, number)
    write(sim, 11, "speed")
    break_step(sim, 12)
    break_step(sim, 13)
    break_step(sim, 14, "[bold]other\nwise")
    write(sim, 15)
    with sim.step(16, writers=2), sim.step(17):
        text = shown(capsys, where)
        listed = sim.list_steps()
        as_json = json.loads(shown(capsys, where, "--json"))
        watched = shown(capsys, where, "--watch", "0.01", "--looks", "1", "--json")
    assert rows_of(text) == [
        "3 (0 to 10) whole count, energy 2",
        "1 (11) whole count, energy, speed 2",
        "2 (12 to 13) broken 0 was given up: ZeroDivisionError: no",
        r'1 (14) broken 0 was given up: "ZeroDivisionError: [bold]other\x0awise"',
        "1 (15) whole count, energy 2",
        "1 (16) open 0 has been ended by 0 of 2 writers",
        "1 (17) open 0 has been ended by 0 of 1 writers",
    ]
    assert list(as_json) == ["variables", "steps", "servers"]
    assert as_json["steps"] == json.loads(json.dumps([asdict(step) for step in listed]))
    assert as_json["steps"][0] == {
        "number": 0,
        "state": "whole",
        "variables": ["count", "energy"],
        "attributes": 2,
        "why": "",
    }
    assert "steps" not in json.loads(watched)


def test_ls_names_some_of_many_variables(
    serve: Servers, capsys: pytest.CaptureFixture[str]
) -> None:
    contact = serve("--memory", "8MiB")
    with ts.Staging(contact) as staging:
        for number, count in enumerate((8, 9, 30)):
            with staging.step(number) as step:
                step.put_all({f"v{k:02d}": float(k) for k in range(count)})
        rows = rows_of(shown(capsys, str(contact)))
    some = "v00, v01, v02, v03, v04, v05, v06"
    assert rows == [
        f"1 (0) whole {some}, v07 0",
        f"1 (1) whole {some}, 2 others 0",
        f"1 (2) whole {some}, 23 others 0",
    ]
