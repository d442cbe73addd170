"""Objects of the staging service behave as their types suggest; errors name wrong arguments."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from staging_servers import times_out

import tranship as ts
from tranship.staging.communicator import agree_on_failure, broadcast_contact, receive_contact


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ts.StagingServer]:
    contact = tmp_path_factory.mktemp("staging") / "contact"
    with ts.StagingServer(contact, memory="64MiB") as one:
        yield one


@pytest.fixture(scope="module")
def staging(server: ts.StagingServer) -> Iterator[ts.Staging]:
    with ts.Staging(server.contact, threads=2) as client:
        client.put("grid", 0, np.arange(16.0).reshape(4, 4))
        yield client


BLOCK = np.ones((4, 4))
Call = Callable[[Any], object]

WRONG: dict[str, tuple[Call, str]] = {
    "a version with a fraction": (lambda s: s.put("grid", 1.5, BLOCK), "1.5 is no version"),
    "no version": (lambda s: s.discard("grid", None), "None is no version"),
    "no array": (lambda s: s.put("grid", 1, None), "None cannot be read as an array"),
    "rows of several lengths": (lambda s: s.put("grid", 1, [[1.0], []]), "is no array"),
    "no timeout": (lambda s: s.put("grid", 1, BLOCK, timeout=None), "timeout=None"),
    "a text as timeout": (lambda s: s.get("grid", 0, timeout="3"), "timeout='3'"),
    "no number as timeout": (lambda s: s.get("grid", 0, timeout=float("nan")), "timeout=nan"),
    "a number as name": (lambda s: s.put(3, 1, BLOCK), "name=3"),
    "no name": (lambda s: s.get(None, 1), "name=None"),
    "no name to delete": (lambda s: s.delete(3), "name=3"),
    "no name to discard": (lambda s: s.discard(3, 1), "name=3"),
    "no name to follow": (lambda s: s.subscribe(3, print), "name=3"),
    "an index by number": (lambda s: s[3], "3 is no name of a variable"),
    "a fraction in a corner": (lambda s: s.put("grid", 1, BLOCK, (0.5, 1)), r"lower=\(0.5, 1\)"),
    "a number as corner": (lambda s: s.put("grid", 1, BLOCK, 3), "lower=3"),
    "a text as corner": (lambda s: s.get("grid", 0, "ab", (4, 4)), "lower='ab'"),
    "a large corner": (lambda s: s.put("grid", 1, BLOCK, (2**70, 0)), "an index that is too large"),
    "no target": (lambda s: s.get("grid", 0, (0, 0), (4, 4), 3), "cannot be written as an array"),
    "no truth value": (lambda s: s.put("grid", 1, BLOCK, checksum=None), "checksum=None"),
    "no event": (lambda s: s.put("grid", 1, BLOCK, after=3), "after"),
    "no type": (lambda s: s.define("other", "nonsense", (0,), (4,)), "dtype='nonsense'"),
    "no corner": (lambda s: s.define("other", "f8", None, (4,)), "lower=None"),
    "writers": (lambda s: s.define("other", "f8", (0,), (4,), writers=1.5), "writers=1.5"),
    "no function": (lambda s: s.subscribe("grid", 3), "callback=3"),
    "after a fraction": (lambda s: s.subscribe("grid", print, after=1.5), "1.5 is no version"),
    "versions for no time": (lambda s: s["grid"].versions(timeout=None), "timeout=None"),
    "versions after a text": (lambda s: s["grid"].versions(after="a"), "'a' is no version"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_client_names_the_argument_that_is_wrong(staging: ts.Staging, name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(ts.InvalidArgument, match=message) as raised:
        call(staging)
    assert "incompatible function arguments" not in str(raised.value)


SERVERS: dict[str, tuple[dict[str, Any], str]] = {
    "no memory": ({"memory": None}, "memory=None is not a size"),
    "a text": ({"memory": "lots"}, "memory='lots' is not a size"),
    "more than 63 bits": ({"memory": 2**70}, "is not a size"),
    "versions": ({"versions": 1.5}, "versions=1.5"),
    "many versions": ({"versions": 2**40}, "is too large"),
    "rank": ({"rank": "0"}, "rank='0'"),
    "servers": ({"servers": None}, "servers=None"),
    "kind": ({"memory_kind": 3}, "memory_kind=3"),
    "policy": ({"full": None}, "full=None"),
    "spill": ({"spill": "folder"}, "nothing is spilled unless"),
    "contact": ({"contact": 3}, "contact=3"),
    "another server": ({"rank": 1, "servers": 2}, "through the first server"),
}


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_names_the_argument_that_is_wrong(name: str) -> None:
    arguments, message = SERVERS[name]
    with pytest.raises(ts.InvalidArgument, match=message) as raised:
        ts.StagingServer(**arguments)
    assert raised.value.hint


CLIENTS: dict[str, tuple[dict[str, Any], str]] = {
    "contact": ({"contact": 3}, "contact=3"),
    "name": ({"contact": "x", "name": 3}, "name=3"),
    "timeout": ({"contact": "x", "timeout": None}, "timeout=None"),
    "engine": ({"contact": "x", "engine": 3}, "engine=3 is not an engine"),
    "communicator": ({"contact": "x", "comm": 3}, "comm=3 is not a communicator"),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_opening_a_client_names_the_argument_that_is_wrong(name: str) -> None:
    arguments, message = CLIENTS[name]
    with pytest.raises(ts.InvalidArgument, match=message) as raised:
        ts.Staging(**arguments)
    assert raised.value.hint


def test_numpy_integers_and_lists_are_taken(staging: ts.Staging) -> None:
    block = np.arange(4.0).reshape(2, 2)
    staging.put("whole", np.int64(7), block, [np.int64(2), 4])
    staging.put("whole", 7, block, np.array([4, 4]))
    assert np.array_equal(staging.get("whole", np.uint8(7), [2, 4], np.array([4, 6])), block)
    assert staging.get("whole", 7, timeout=np.float32(5)).shape == (4, 2)
    staging.define("whole", "f8", [0, 0], [np.int32(8), 8], writers=np.int64(1))
    assert np.int64(7) in staging["whole"]
    assert next(staging["whole"].versions(np.int8(0), lower=[2, 4], upper=[6, 6])) == 7
    assert staging.to_xarray("whole", np.int64(7), [2, 4], [np.int64(4), 6]).shape == (2, 2)
    staging.discard("whole", np.int64(7))


def test_a_get_of_an_unknown_variable_lists_those_that_exist(staging: ts.Staging) -> None:
    out = np.empty(4)
    calls: list[Callable[[], object]] = [
        lambda: staging.get("gird", 0, timeout=0.1),
        lambda: staging.get("gird", 0, (0,), (4,), out, timeout=0.1),
    ]
    for call in calls:
        error = times_out(call, 'nothing has been put to "gird"')
        assert "the variables are" in error.hint
        assert "grid" in error.hint
        assert "the variables are" not in error.message
    with pytest.raises(ts.Timeout) as raised:  # Only the version is missing.
        staging.get("grid", 99, (0, 0), (4, 4), timeout=0.1)
    assert "the variables are" not in str(raised.value)


def test_a_variable_has_shape_and_type(staging: ts.Staging) -> None:
    grid = staging["grid"]
    assert grid.shape == (4, 4)
    assert grid.ndim == 2
    assert grid.dtype == np.dtype("f8")
    staging.define("defined", "i4", (-2, 0, 0), (2, 8, 16))
    staging.put("defined", 1, np.zeros((2, 2, 2), "i4"))
    assert staging["defined"].shape == (4, 8, 16)
    assert staging["defined"].dtype == np.dtype("i4")


def test_what_a_variable_is_not_is_refused_in_words(staging: ts.Staging) -> None:
    grid = staging["grid"]
    assert grid
    assert "0" not in grid
    with pytest.raises(TypeError, match=r"versions\(\)"):
        iter(grid)
    with pytest.raises(TypeError, match="no length"):
        len(grid)
    with pytest.raises(TypeError, match="has versions"):
        np.asarray(grid)


def test_nothing_of_a_process_is_pickled(server: ts.StagingServer, staging: ts.Staging) -> None:
    with staging.subscribe("grid", lambda version, array: None) as subscription:
        for one in (server, staging, staging["grid"], subscription):
            with pytest.raises(TypeError, match=f"{type(one).__name__} cannot be pickled: .* open"):
                pickle.dumps(one)


def test_representations_say_what_there_is(tmp_path: Path) -> None:
    server = ts.StagingServer(tmp_path / "contact", memory="16MiB")
    staging = ts.Staging(server.contact, threads=2)
    staging.put("grid", 3, BLOCK)
    assert repr(staging) == f"<Staging at {server.contact}>"
    assert repr(staging["grid"]) == f"<Variable 'grid' of <Staging at {server.contact}>>"
    assert repr(server).startswith(f"<StagingServer at {server.contact}: ")
    assert repr(server).endswith("clients=1>")
    subscription = staging.subscribe("grid", lambda version, array: None)
    assert repr(subscription).startswith("<Subscription to 'grid': running, last version ")
    subscription.close()
    assert repr(subscription).startswith("<Subscription to 'grid': ended, last version ")
    staging.close()
    assert repr(staging) == "<Staging closed>"
    assert repr(staging["grid"]) == "<Variable 'grid' of <Staging closed>>"
    server.close()
    assert repr(server).endswith(": closed>")


class Alone:
    """A communicator of two processes, of which the test plays the other one."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.sent: Any = None

    def Get_rank(self) -> int:  # noqa: N802
        return self.rank

    def Get_size(self) -> int:  # noqa: N802
        return 2

    def bcast(self, obj: Any, root: int = 0) -> Any:
        if self.rank == root:
            self.sent = obj
        return self.sent

    def allgather(self, sendobj: Any) -> list[Any]:
        return [sendobj, self.sent]

    def barrier(self) -> None:
        return None


def test_a_failure_crosses_a_communicator_with_its_message_and_hint() -> None:
    first, other = Alone(0), Alone(1)
    broadcast_contact(first, "", ts.NotFound("no such contact file", "start a server"))
    other.sent = first.sent
    with pytest.raises(ts.NotFound) as raised:
        receive_contact(other)
    assert raised.value.message == "rank 0 of the communicator: no such contact file"
    assert raised.value.hint == "start a server"
    broadcast_contact(first, "host:1", None)
    other.sent = first.sent
    assert receive_contact(other) == "host:1"
    first.sent = ("timeout", "rank 1 of the communicator: nothing answers", "wait longer")
    with pytest.raises(ts.Timeout, match=r"rank 1 .* nothing answers") as late:
        agree_on_failure(first, None)
    assert late.value.hint == "wait longer"
    first.sent = ("", "", "")
    agree_on_failure(first, None)
