"""Statistics of each variable: counts, bytes, rates and paths of puts and gets."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from staging_servers import Servers

import tranship as ts
from tranship.cli import main
from tranship.cli.staging import Order, looks_at, ordered, show_rates

PUT_PATH = "node0/host0 > node0/shared0"
GET_PATH = "node0/shared0 > node0/host0"


def move_some(staging: ts.Staging) -> None:
    """Puts ten small versions and a large one of two objects, and gets some of each."""
    for k in range(10):
        staging.put("few", k, np.full(4, 1.0 * k))
    for _ in range(3):
        staging.get("few", 9)
    for k in range(2):
        staging.put("many", 1, np.ones((200, 300)), (200 * k, 0))
    staging.get("many", 1)
    staging.get("many", 1, (150, 0), (250, 300))
    with pytest.raises(ts.Timeout):
        staging.get("many", 2, (0, 0), (400, 300), timeout=0.1)


@pytest.mark.parametrize("count", [1, 3])
def test_clients_and_servers_count_the_same(serve: Servers, count: int) -> None:
    contact = serve("--servers", str(count))
    with ts.Staging(contact) as staging:
        move_some(staging)
        own = staging.statistics()
        listed = {one["name"]: one for one in staging.ls()}
    assert own["few"]["puts"]["count"] == 10 and own["few"]["puts"]["bytes"] == 10 * 32
    assert own["few"]["gets"]["count"] == 3 and own["few"]["gets"]["bytes"] == 3 * 32
    assert own["few"]["puts"]["paths"] == {"message": 10}
    assert own["many"]["puts"]["paths"] == {PUT_PATH: 2}
    assert own["many"]["puts"]["bytes"] == 2 * 200 * 300 * 8
    assert own["many"]["gets"]["count"] == 2
    assert own["many"]["gets"]["bytes"] == (400 + 100) * 300 * 8
    assert own["many"]["gets"]["paths"] == {GET_PATH: 2}
    assert all(one[way]["seconds"] > 0 for one in own.values() for way in ("puts", "gets"))
    for name, one in own.items():
        for way in ("puts", "gets"):
            assert listed[name][way] == {k: v for k, v in one[way].items() if k != "seconds"}


def test_all_clients_are_counted_together_and_after_their_end(serve: Servers) -> None:
    contact = serve()
    for _ in range(2):
        with ts.Staging(contact) as staging:
            move_some(staging)
            assert staging.statistics()["few"]["puts"]["count"] == 10
    with ts.Staging(contact) as staging:
        assert staging.statistics() == {}
        few, many = staging.ls()
    assert (few["puts"]["count"], many["gets"]["count"]) == (20, 4)


def test_gets_of_boxes_on_several_servers_are_counted(serve: Servers) -> None:
    names = [f"v{k}" for k in range(12)]
    with ts.Staging(serve("--servers", "3")) as staging:
        for name in names:
            staging.put(name, 1, np.ones((64, 200)), (0, 0))  # This put sets the size of cells.
            staging.put(name, 2, np.ones((64, 200)), (32, 100))  # This box meets four cells.
            staging.get(name, 2, (32, 100), (96, 300))
        listed = {one["name"]: one["gets"] for one in staging.ls()}
    assert {name: listed[name]["count"] for name in names} == dict.fromkeys(names, 1)
    assert all(listed[name]["bytes"] == 64 * 200 * 8 for name in names)


def test_another_transport_has_another_path(
    serve: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSHIP_LISTEN", "127.0.0.1:0")
    contact = serve()
    with ts.Staging(contact, transport="network") as staging:
        staging.put("far", 1, np.ones(100_000))
        (path,) = staging.statistics()["far"]["puts"]["paths"]
        assert path == "node0/host0 > node1/host0"
        assert staging.ls()[0]["puts"]["paths"] == {path: 1}


def test_many_variables_and_paths_still_fit_the_messages(profile: str, tmp_path: Path) -> None:
    contact = tmp_path / "contact"
    names = [f"{k:04d}{'x' * 1020}" for k in range(40)]
    with (
        ts.StagingServer(contact, profile=profile, slot_bytes=4096),
        ts.Staging(contact, profile=profile, slot_bytes=4096) as staging,
    ):
        for name in names:
            for version in range(120):  # One message does not list so many.
                staging.put(name, version, np.ones(2))
        listed = staging.ls()
    assert [one["name"] for one in listed] == names
    assert {one["puts"]["count"] for one in listed} == {120}
    assert {len(one["versions"]) for one in listed} == {120}


def test_ls_shows_what_was_moved(serve: Servers, capsys: pytest.CaptureFixture[str]) -> None:
    contact = str(serve())
    with ts.Staging(contact) as staging:
        move_some(staging)
        staging.ls()  # The server has then received the releases of this client's gets, too.
        assert main(["ls", contact, "--paths"]) == 0
        shown = capsys.readouterr().out
        assert "10, 320 B" in shown and "2, 937.5 KiB" in shown and "put rate" not in shown
        assert any(line.split() == ["few", "puts", "message", "10"] for line in shown.splitlines())
        assert PUT_PATH in shown
        assert main(["ls", contact, "--json"]) == 0
        listed = json.loads(capsys.readouterr().out)["variables"]
        assert listed[0]["gets"] == {"count": 3, "bytes": 96, "paths": {"message": 3}}
        assert main(["ls", contact, "--looks", "1"]) == 2
        assert "say how often" in capsys.readouterr().err


def test_rates_are_those_since_the_last_look(serve: Servers) -> None:
    pause_s = 0.1
    with ts.Staging(serve()) as staging:
        staging.put("steady", 0, np.ones(1000))
        looks = looks_at(staging, pause_s, 3)
        begin = time.monotonic()
        next(looks)
        for versions in (range(1, 6), range(0)):
            for version in versions:
                staging.put("steady", version, np.ones(1000))
            (variable,) = next(looks)
            grown, most_s = 8000 * len(versions), time.monotonic() - begin
            assert grown / most_s <= variable["puts"]["bytes_per_second"] <= grown / pause_s
            assert variable["gets"]["bytes_per_second"] == 0


def test_ls_shows_rates_at_each_look(serve: Servers, capsys: pytest.CaptureFixture[str]) -> None:
    contact = str(serve())
    with ts.Staging(contact) as staging:
        staging.put("steady", 0, np.ones(1000))
        words = ["ls", contact, "--watch", "0.05", "--looks", "2"]
        assert main(words) == 0
        shown = capsys.readouterr().out
        assert shown.count("put rate") == 2 and "B/s" in shown
        assert main([*words, "--json"]) == 0
        for line in capsys.readouterr().out.splitlines():
            (variable,) = json.loads(line)["variables"]
            assert all(variable[way]["bytes_per_second"] == 0 for way in ("puts", "gets"))


def variables_of(rates: dict[str, int]) -> list[dict[str, Any]]:
    """Returns variables as a look shows them, with these rates of their puts."""
    none = {"count": 0, "bytes": 0, "paths": {}, "bytes_per_second": 0.0}
    return [
        {
            "name": name,
            "versions": [{"version": 3, "objects": 1, "bytes": 1 << 20}],
            "puts": {"count": 2, "bytes": 2 << 20, "paths": {}, "bytes_per_second": float(rate)},
            "gets": none,
        }
        for name, rate in rates.items()
    ]


def test_a_screen_holds_the_busiest_and_the_sums(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = {f"name[{k}]": (7 * k % 30) << 20 for k in range(30)}
    listed = ordered(variables_of(rates), Order.rate)
    monkeypatch.setattr("tranship.cli.staging.lines_of_terminal", lambda: 24)
    show_rates(listed, [], paths=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 23 and "put rate" in lines[0]
    assert re.match(r"name\[17\] +1 \(3\) +1 MiB +2, 2 MiB +0, 0 B +29 MiB/s +0 B/s", lines[1])
    shown = sum(line.startswith("name[") for line in lines)
    others, total = lines[1 + shown], lines[2 + shown]
    assert others.startswith(f"{30 - shown} others") and f"{30 - shown} MiB" in others
    assert re.match(r"\(all\) +30 MiB +60, 60 MiB +0, 0 B +435 MiB/s", total)
    assert [one["name"] for one in ordered(listed, Order.name)] == sorted(rates)
