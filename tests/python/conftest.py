"""What the Python tests share: a profile measured once, engines, and processes that export."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from exporters import Exporter
from hypothesis import HealthCheck, settings
from staging_servers import Servers

import tranship as ts
from tranship import profiles

settings.register_profile(
    "tranship",
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("tranship")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "large: needs gigabytes or many seconds; -m 'not large'")


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Ctrl-C is heard here and in every process that a test starts; a shell that runs the tests in
    the background has it ignored, and that is inherited."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this run keeps profiles, so that it neither uses nor changes the user's."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["TRANSHIP_CACHE_FOLDER"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def profile(cache_folder: Path) -> str:
    """This machine's profile from small samples; engines opened without one find it, too."""
    measured = profiles.calibrate(sample_bytes=1 << 20)
    path = profiles.cache_path()
    assert path is not None and path.parent == cache_folder
    assert profiles.save(measured, path)
    return measured


@pytest.fixture(scope="session")
def queueing_profile(profile: str) -> str:
    """The same, with a hand-off that takes no time: no copy runs on the caller's thread."""
    content = json.loads(profile)
    content["handoff_s"] = 0.0
    return json.dumps(content)


@pytest.fixture(scope="session", autouse=True)
def measured(profile: str) -> None:
    """Every test finds a profile, and so does every process that a test starts."""


@pytest.fixture(scope="session")
def engine(profile: str) -> Iterator[ts.Engine]:
    """An engine that plans as usual: small copies run on the caller's thread."""
    with ts.Engine(contact=True, profile=profile, threads=2) as opened:
        yield opened


@pytest.fixture(scope="session")
def queueing_engine(queueing_profile: str) -> Iterator[ts.Engine]:
    """An engine that hands every copy to its workers, however small."""
    with ts.Engine(contact=True, profile=queueing_profile, threads=2) as opened:
        yield opened


@pytest.fixture(params=["direct", "queued"])
def any_engine(request: pytest.FixtureRequest) -> ts.Engine:
    """Both, one after the other."""
    name = "engine" if request.param == "direct" else "queueing_engine"
    opened: ts.Engine = request.getfixturevalue(name)
    return opened


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[Callable[..., Exporter]]:
    """Starts exporting processes: ``exporter("--bytes", "800", TRANSHIP_TRANSPORT="network")``."""
    started: list[Exporter] = []

    def start(*arguments: str, **environment: str) -> Exporter:
        contact = tmp_path / f"contact-{len(started)}"
        reachable = {"TRANSHIP_LISTEN": "127.0.0.1:0"}  # over a network, too
        started.append(Exporter(contact, list(arguments), reachable | environment))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.fixture
def serve(profile: str, tmp_path: Path) -> Iterator[Servers]:
    """Starts staging servers, which end with the test."""
    servers = Servers(tmp_path)
    yield servers
    servers.end()
