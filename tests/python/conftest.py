"""Fixtures of the Python tests: a profile measured once, engines, and exporting processes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from exporters import Exporter
from hypothesis import HealthCheck, settings
from offer_support import Produce, Producer
from staging_servers import Servers

import tranship as ts
from tranship import profiles

settings.register_profile(
    "tranship",
    deadline=None,
    database=None,
    derandomize="CI" in os.environ,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("tranship")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "large: needs gigabytes or many seconds; -m 'not large'")


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Sets Python's handler of SIGINT, so that Ctrl-C interrupts this process and its children.

    A shell that runs the tests in the background ignores SIGINT, and children inherit that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of this run's profiles; the user's profiles are not read or changed."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["TRANSHIP_CACHE_FOLDER"] = str(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def link_usage(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keeps this run's plans apart from the copies of other programs of the user."""
    os.environ["TRANSHIP_LINK_USAGE"] = str(tmp_path_factory.mktemp("links"))


@pytest.fixture(scope="session")
def profile(cache_folder: Path) -> str:
    """Returns this machine's profile, measured with small samples and saved as the default one.

    Its hand-off, its latencies and the time of a plan are fixed: on a busy machine measured ones
    may be as long as a copy of MiB, and tests look at paths, and at which thread carries a copy.
    """
    content = json.loads(profiles.calibrate(sample_bytes=1 << 20))
    content["handoff_s"] = content["planning_s"] = 20e-6
    for channel in content["channels"]:
        channel["latency_s"] = content["handoff_s"]
    measured = json.dumps(content)
    path = profiles.cache_path()
    assert path is not None and path.parent == cache_folder
    assert profiles.save(measured, path)
    return measured


@pytest.fixture(scope="session")
def queueing_profile(profile: str) -> str:
    """Returns the profile with a hand-off of 0 s: no copy runs on the caller's thread."""
    content = json.loads(profile)
    content["handoff_s"] = 0.0
    return json.dumps(content)


@pytest.fixture(scope="session", autouse=True)
def measured(profile: str) -> None:
    """Measures the profile before the first test, for all tests and the processes they start."""


@pytest.fixture(scope="session")
def engine(profile: str) -> Iterator[ts.Engine]:
    """Yields an engine with a usual hand-off: small copies run on the caller's thread."""
    with ts.Engine(contact=True, profile=profile, threads=2) as opened:
        yield opened


@pytest.fixture(scope="session")
def queueing_engine(queueing_profile: str) -> Iterator[ts.Engine]:
    """Yields an engine that hands every copy to its workers, however small."""
    with ts.Engine(contact=True, profile=queueing_profile, threads=2) as opened:
        yield opened


@pytest.fixture(params=["direct", "queued"])
def any_engine(request: pytest.FixtureRequest) -> ts.Engine:
    """Returns `engine` or `queueing_engine`: a test runs once with each."""
    name = "engine" if request.param == "direct" else "queueing_engine"
    opened: ts.Engine = request.getfixturevalue(name)
    return opened


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[Callable[..., Exporter]]:
    """Starts exporting processes: ``exporter("--bytes", "800", TRANSHIP_TRANSPORT="network")``."""
    started: list[Exporter] = []

    def start(*arguments: str, **environment: str) -> Exporter:
        contact = tmp_path / f"contact-{len(started)}"
        reachable = {"TRANSHIP_LISTEN": "127.0.0.1:0"}  # The exporter also listens on TCP.
        started.append(Exporter(contact, list(arguments), reachable | environment))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.fixture
def serve(profile: str, tmp_path: Path) -> Iterator[Servers]:
    """Yields a `Servers`, whose staging servers end with the test."""
    servers = Servers(tmp_path)
    yield servers
    servers.end()


@pytest.fixture
def produce() -> Iterator[Produce]:
    """Yields a function that starts a `Producer`, which ends with the test."""
    started: list[Producer] = []

    def start(contact: Path, *settings: str) -> Producer:
        started.append(Producer(contact, *settings))
        return started[-1]

    yield start
    for producer in started:
        producer.end()


@pytest.fixture
def contacts(profile: str, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Yields the contact files of two servers in this process."""
    paths = tmp_path / "first.contact", tmp_path / "second.contact"
    with ExitStack() as stack:
        for path in paths:
            made = ts.StagingServer(path, memory="64MiB", preallocate=0, profile=profile)
            stack.enter_context(made)
        yield paths
