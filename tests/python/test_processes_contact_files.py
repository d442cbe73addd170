"""A contact file belongs to the process that wrote it, as long as that process runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from staging_servers import PATIENCE, Servers

import tranship as ts

OWNER = """
    import sys
    import tranship as ts
    kind, contact = sys.argv[1:]
    if kind == "engine":
        owner = ts.Engine(contact=contact)
    else:
        owner = ts.StagingServer(contact)
    print("open", flush=True)
    sys.stdin.readline()
    owner.close()
"""

KINDS = ["engine", "server"]


def open_owner(kind: str, contact: Path) -> Any:
    """Opens an engine or a staging server in this process."""
    return ts.Engine(contact=contact) if kind == "engine" else ts.StagingServer(contact)


@pytest.fixture
def start(tmp_path: Path) -> Any:
    """Returns a function that starts the owner of a contact file; owners end with the test."""
    processes: list[subprocess.Popen[str]] = []

    def begin(kind: str, contact: Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(OWNER), kind, str(contact)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None and process.stdout.readline() == "open\n"
        return process

    yield begin
    for process in processes:
        process.kill()
        process.wait(PATIENCE)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


Start = Callable[[str, Path], "subprocess.Popen[str]"]


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_a_live_contact_file_is_not_taken_over(
    start: Start, tmp_path: Path, first: str, second: str
) -> None:
    contact = tmp_path / "owner.contact"
    owner = start(first, contact)
    before = contact.read_bytes()
    with pytest.raises(ts.Error, match=rf"owner\.contact.*{owner.pid}"):
        open_owner(second, contact).close()
    assert contact.read_bytes() == before


def test_a_second_serve_is_refused_and_the_first_goes_on(serve: Servers) -> None:
    contact = serve("--memory", "64MiB")
    first = serve.processes[-1]
    second = serve.start("--contact", str(contact), "--memory", "64MiB")
    serve.processes.remove(second)
    try:
        _, err = second.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        second.kill()
        pytest.fail("the second server serves")
    assert second.returncode in (1, 2) and str(first.pid) in err and "hint:" in err, err
    with ts.Staging(contact) as client:
        client.put("x", 0, np.ones(3))
        assert client.get("x", 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_two_of_one_process(tmp_path: Path, kind: str) -> None:
    contact = tmp_path / "owner.contact"
    with open_owner(kind, contact):
        with pytest.raises(ts.Error, match=rf"owner\.contact.*{os.getpid()}"):
            open_owner(kind, contact).close()
        assert contact.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_of_a_dead_process_is_replaced(start: Start, tmp_path: Path, kind: str) -> None:
    contact = tmp_path / "owner.contact"
    owner = start(kind, contact)
    owner.send_signal(signal.SIGKILL)
    owner.wait(PATIENCE)
    assert contact.exists()
    before = contact.read_bytes()
    with open_owner(kind, contact):
        assert contact.read_bytes() != before
    assert not contact.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_removes_its_own_file_only(start: Start, tmp_path: Path, kind: str) -> None:
    contact, kept = tmp_path / "owner.contact", tmp_path / "kept.contact"
    owner = start(kind, contact)
    contact.rename(kept)
    with open_owner(kind, contact):
        now = contact.read_bytes()
        owner.communicate("end\n", timeout=PATIENCE)
        assert owner.returncode == 0
        assert contact.read_bytes() == now
    assert not contact.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_no_contact_file_is_kept(tmp_path: Path, kind: str) -> None:
    contact = tmp_path / "notes.txt"
    contact.write_text("what somebody wrote\n")
    with pytest.raises(ts.Error, match=r"notes\.txt"):
        open_owner(kind, contact).close()
    assert contact.read_text() == "what somebody wrote\n"
