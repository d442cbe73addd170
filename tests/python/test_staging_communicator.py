"""Clients that open and close together, as the processes of an MPI program do."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from staging_servers import PATIENCE

import tranship as ts

SIZE = 3


class Group:
    """The state that the members of a communicator share; the members are threads."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(SIZE, timeout=PATIENCE)
        self.told: Any = None
        self.all: list[Any] = [None] * SIZE


class Member:
    """One member of a communicator, with the method names of mpi4py."""

    def __init__(self, group: Group, rank: int) -> None:
        self.group = group
        self.rank = rank
        self.barriers = 0

    def Get_rank(self) -> int:  # noqa: N802
        return self.rank

    def Get_size(self) -> int:  # noqa: N802
        return SIZE

    def bcast(self, obj: Any, root: int = 0) -> Any:
        if self.rank == root:
            self.group.told = obj
        self.group.barrier.wait()
        told = self.group.told
        self.group.barrier.wait()
        return told

    def allgather(self, sendobj: Any) -> list[Any]:
        self.group.all[self.rank] = sendobj
        self.group.barrier.wait()
        told = list(self.group.all)
        self.group.barrier.wait()
        return told

    def barrier(self) -> None:
        self.barriers += 1
        self.group.barrier.wait()


def on_all(work: Callable[[Member], Any]) -> list[Any]:
    """Runs `work` on each rank; returns its results or exceptions, by rank."""
    group = Group()
    with ThreadPoolExecutor(SIZE) as threads:
        futures = [threads.submit(work, Member(group, rank)) for rank in range(SIZE)]
    return [future.exception() or future.result() for future in futures]


@pytest.fixture
def contact(profile: str, tmp_path: Path) -> Iterator[Path]:
    with ts.StagingServer(tmp_path / "staging.contact", profile=profile) as server:
        assert server.contact
        yield tmp_path / "staging.contact"


def test_the_first_finds_the_server_for_all(contact: Path, tmp_path: Path) -> None:
    late = tmp_path / "late.contact"
    threading.Timer(0.3, lambda: os.link(contact, late)).start()

    def work(comm: Member) -> int:
        # Only rank 0 sees the contact file.
        path = late if comm.rank == 0 else tmp_path / "nowhere"
        with ts.Staging(path, comm=comm, timeout=PATIENCE, threads=1) as staging:
            staging.define("field", "f8", (0,), (4 * SIZE,))
            staging.put("field", 1, np.full(4, float(comm.rank)), (4 * comm.rank,))
            total = staging.get("field", 1).sum()
        assert comm.barriers == 1
        staging.close()  # One rank alone may repeat it.
        return int(total)

    assert on_all(work) == [12] * SIZE


def test_a_variable_ends_with_the_last_of_its_writers(contact: Path) -> None:
    with ts.Staging(contact) as reader:
        seen = reader.get_async("field", 2, (0,), (1,), timeout=PATIENCE)

        def work(comm: Member) -> None:
            staging = ts.Staging(contact, comm=comm, threads=1)
            staging.define("field", "f8", (0,), (SIZE,))
            staging.put("field", 1, np.zeros(1), (comm.rank,))
            if comm.rank == SIZE - 1:
                time.sleep(0.3)
                assert not seen.done()  # The other ranks wait in close().
            staging.close()

        assert on_all(work) == [None] * SIZE
        with pytest.raises(ts.Closed, match="all processes that put to it have ended"):
            seen.result(PATIENCE)


def test_all_hear_why_the_first_one_failed(profile: str, tmp_path: Path) -> None:
    def work(comm: Member) -> None:
        ts.Staging(tmp_path / "nothing", comm=comm, timeout=0.2)

    first, *others = on_all(work)
    assert isinstance(first, ts.NotFound)
    for other in others:
        assert isinstance(other, ts.NotFound)
        assert str(other) == f"rank 0 of the communicator: {first}"


def test_all_hear_of_a_setting_that_there_is_not(contact: Path) -> None:
    raised = on_all(lambda comm: ts.Staging(contact, comm=comm, no_such_setting=1))
    assert all(isinstance(one, ts.InvalidArgument) for one in raised)


def test_all_hear_why_a_later_one_failed(contact: Path) -> None:
    def work(comm: Member) -> None:
        settings = {"no_such_setting": 1} if comm.rank == 1 else {"threads": 1}
        ts.Staging(contact, comm=comm, **settings)

    first, failed, last = on_all(work)
    assert isinstance(failed, ts.InvalidArgument)
    for other in (first, last):
        assert isinstance(other, ts.InvalidArgument)
        assert str(other) == f"rank 1 of the communicator: {failed}"
    with ts.Staging(contact, threads=1) as staging:
        assert staging.servers()[0]["clients"] == 1  # Clients of other ranks are closed.


def test_who_fails_does_not_wait_for_the_others(contact: Path) -> None:
    def work(comm: Member) -> None:
        with ts.Staging(contact, comm=comm, threads=1):
            raise ValueError(f"rank {comm.rank}")

    assert [str(raised) for raised in on_all(work)] == [f"rank {rank}" for rank in range(SIZE)]
