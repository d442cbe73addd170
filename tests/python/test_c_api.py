"""The staging client in C and Fortran: arrays between it and Python, both ways; its errors."""

from __future__ import annotations

import ctypes as c
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_library import (
    CODES,
    CArray,
    CEntry,
    CError,
    CStaging,
    CVariable,
    c_array,
    compiled,
    compiler_words,
    last_error,
    load,
)
from hypothesis import given
from hypothesis import strategies as st
from staging_servers import times_out

import tranship as ts
from support import PATIENCE, SOON_S
from tranship import cli, profiles
from tranship.cli import config
from tranship.hardware import hardware
from tranship.tracing import merge_traces

ROOT = Path(__file__).parents[2]
STRICT = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic"]
TYPES = ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "f16", "c8", "c16"]
FIRST = -(2**63)
HEADERS = sorted((ROOT / "include" / "tranship").glob("*.h"))

needs_fortran = pytest.mark.skipif(
    shutil.which("gfortran") is None, reason="gfortran is not installed"
)


@pytest.fixture(scope="module")
def library() -> Any:
    return load()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("staging")


@pytest.fixture(scope="module")
def server(folder: Path, profile: str) -> Iterator[ts.StagingServer]:
    with ts.StagingServer(folder / "staging.contact", profile=profile, memory=64 << 20) as opened:
        yield opened


@pytest.fixture(scope="module")
def python(server: ts.StagingServer) -> Iterator[ts.Staging]:
    with ts.Staging(server.contact, threads=1) as client:
        yield client


@pytest.fixture(scope="module")
def staging(library: Any, server: ts.StagingServer) -> Iterator[CStaging]:
    with CStaging(library, server.contact) as client:
        yield client


def random_values(shape: tuple[int, ...], kind: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """Returns elements of random bytes; booleans are 0 or 1."""
    random = np.random.default_rng(seed)
    if kind == "b1":
        return random.integers(0, 2, shape).astype("b1")
    count = int(np.prod(shape)) * np.dtype(kind).itemsize
    return np.frombuffer(bytearray(random.bytes(count)), kind).reshape(shape)


# Compilers


@pytest.mark.parametrize("language", ["c11", "c17", "c++11", "c++20"])
def test_the_header_alone_compiles(language: str, tmp_path: Path) -> None:
    plus = "++" in language
    source = tmp_path / ("alone.cpp" if plus else "alone.c")
    source.write_text(
        "#include <tranship/tranship.h>\nint main(void) { return tranship_close(0); }\n"
    )
    command = ["g++" if plus else "cc", f"-std={language}", *STRICT[1:], source]
    program = compiled([*command, *compiler_words("--cflags", "--libs")], tmp_path / "alone")
    assert subprocess.run([program], check=False).returncode == 0


def test_pkg_config_gives_the_same_flags(tmp_path: Path) -> None:
    (folder,) = (word[2:] for word in compiler_words("--libs") if word.startswith("-L"))
    if shutil.which("pkg-config") is None or not Path(folder, "pkgconfig").is_dir():
        pytest.skip("needs pkg-config and an installed package")
    source = tmp_path / "alone.c"
    source.write_text("#include <tranship/tranship.h>\nint main(void) { return TRANSHIP_OK; }\n")
    words = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "tranship"],
        env={**os.environ, "PKG_CONFIG_PATH": f"{folder}/pkgconfig"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    program = compiled(["cc", *STRICT, source, *words], tmp_path / "alone")
    assert subprocess.run([program], check=False).returncode == 0


def test_a_package_without_the_library_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(config, "__file__", str(tmp_path / "tranship" / "cli" / "config.py"))
    assert cli.main(["config", "--libs"]) == 2
    assert "there is no libtranship.so in" in capsys.readouterr().err


def test_the_library_exports_only_what_the_headers_declare(library: Any) -> None:
    text = "".join(header.read_text() for header in HEADERS)
    declared = set(re.findall(r"TRANSHIP_API [\w* ]*?\*?(tranship_\w+)\(", text))
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", library._name], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert "tranship_put" in declared
    assert {line.split()[-1] for line in lines} == declared


def test_the_codes_are_the_same_in_every_language(library: Any) -> None:
    folder = ROOT / "include" / "tranship"
    header = (folder / "error.h").read_text() + (folder / "array.h").read_text()
    module = (ROOT / "include" / "tranship" / "tranship.f90").read_text()
    codes = re.findall(r"  TRANSHIP_(\w+) = (\d+)", header)
    assert codes[:13] == [(name.upper(), str(k)) for k, name in enumerate(CODES)]
    assert re.findall(r"enumerator :: TRANSHIP_(\w+) = (\d+)", module) == codes
    names = [library.tranship_error_name(k).decode() for k in range(14)]
    assert names == [*CODES, "unknown"]
    assert library.tranship_error_name(-1) == b"unknown"


# Programs


def plates(side: int, steps: int) -> list[np.ndarray[Any, Any]]:
    """Returns the plate after each step, as the examples compute it, from one process."""
    field = np.zeros((side, side))
    field[0] = 100.0
    found = [field]
    for _ in range(steps):
        old = np.pad(field, 1, mode="edge")
        around = old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
        field = field + 0.2 * (around - 4 * field)
        found.append(field)
    return found


def run_simulation(program: Path, analysis: Path, profile: str) -> None:
    """Runs three processes of a simulation and an analysis, and checks what each side reads."""
    expected = plates(256, 20)
    cwd = program.parent
    with ts.StagingServer(cwd / "staging.contact", profile=profile) as server:
        parts = [subprocess.Popen([program, str(rank), "3"], cwd=cwd) for rank in range(3)]
        done = subprocess.run(
            [analysis], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
        )
        assert [part.wait(PATIENCE) for part in parts] == [0, 0, 0]
        assert done.returncode == 0, done.stderr
        lines = [line.split() for line in done.stdout.splitlines()]
        assert [int(step) for step, _ in lines] == list(range(21))
        assert np.allclose([float(s) for _, s in lines], [p.sum() for p in expected], rtol=1e-12)
        with ts.Staging(server.contact) as reader:
            for step, plate in enumerate(expected):
                assert np.allclose(reader.get("heat", step), plate, rtol=1e-12, atol=0)


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("analysis") / "analysis"
    source = ROOT / "examples" / "c" / "analysis.c"
    return compiled(["cc", *STRICT, source, *compiler_words("--cflags", "--libs")], program)


def test_the_example_in_c(analysis: Path, tmp_path: Path, profile: str) -> None:
    source = ROOT / "examples" / "c" / "simulation.c"
    words = compiler_words("--cflags", "--libs")
    program = compiled(["cc", *STRICT, source, *words], tmp_path / "simulation")
    run_simulation(program, analysis, profile)


@needs_fortran
def test_the_example_in_fortran(analysis: Path, tmp_path: Path, profile: str) -> None:
    source = ROOT / "examples" / "fortran" / "simulation.f90"
    command = ["gfortran", "-std=f2018", *STRICT[1:], *compiler_words("--fortran"), source]
    program = compiled([*command, *compiler_words("--libs")], tmp_path / "simulation")
    run_simulation(program, analysis, profile)


@needs_fortran
@pytest.mark.parametrize("checks", [["-O0", "-fcheck=all"], ["-O3"]])
def test_arrays_of_fortran(checks: list[str], tmp_path: Path, profile: str) -> None:
    source = ROOT / "tests" / "fortran" / "arrays.f90"
    command = ["gfortran", "-std=f2018", *STRICT[2:], *checks, *compiler_words("--fortran")]
    program = compiled([*command, source, *compiler_words("--libs")], tmp_path / "arrays")
    with (
        ts.StagingServer(tmp_path / "staging.contact", profile=profile) as server,
        ts.Staging(server.contact) as python,
    ):
        python.put("from python", 7, np.arange(60.0).reshape(3, 4, 5), (-1, 2, 0))
        done = subprocess.run(
            [program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        i, j, k = np.meshgrid(*map(np.arange, (3, 4, 5)), indexing="ij")
        whole = (i + 1) + 10 * (j + 1) + 100 * (k + 1)
        for kind in ("f4", "f8", "i4", "i8"):
            for version, expected in (
                (1, whole[:, 0, 0]),
                (2, whole[:, :, 0]),
                (3, whole),
                (4, whole[::2, 3:0:-1, 1:4]),
            ):
                name = kind if expected.ndim == 3 else f"{kind}{expected.ndim}"
                got = python.get(name, version, (0,) * expected.ndim, expected.shape)
                assert got.dtype == kind and np.array_equal(got, expected), (kind, version)
        assert [v["lower"] for v in python.ls() if v["name"] == "placed"] == [[-5, 7]]
        assert np.array_equal(python.get("placed", 0), whole[:, :, 0])
        assert np.array_equal(python.get("four", 0)[:, :, :, 0], whole)
        own = whole[::2, :, 0]
        assert np.array_equal(python.get("own c8", 0), own - 1j * own)
        assert python.get("own c8", 0).dtype == "c8"
        assert np.array_equal(python.get("own c16", 0), own + 2j * own)
        assert [v["lower"] for v in python.ls() if v["name"] == "own f8"] == [[-1, 2]]
        numbers = np.arange(1, 649, dtype="i4").reshape((3, 2, 3, 2, 3, 2, 3), order="F")
        sections = numbers[::2, :, ::-1, :, ::2, :, 1:3]
        assert np.array_equal(python.get("seven", 0), sections)
        assert np.array_equal(python.get("six", 0), sections[0])
        assert np.array_equal(python.get("five", 0), sections[0, 1])
        assert np.array_equal(python.get("four of seven", 0), sections[0, 1, 0])


# Arrays


numbers = iter(range(1, 1 << 30))
"""Iterator of versions that no test has used yet."""


@given(data=st.data())
def test_any_array_goes_both_ways(
    python: ts.Staging, staging: CStaging, data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from(TYPES))
    shape = tuple(data.draw(st.lists(st.integers(1, 5), max_size=8)))
    steps = tuple(slice(None, None, data.draw(st.sampled_from([1, 2, -1]))) for _ in shape)
    order = data.draw(st.permutations(range(len(shape))))
    values, target = (
        np.asarray(random_values(shape, kind, seed)[steps]).transpose(order) for seed in (0, 1)
    )
    lower = tuple(data.draw(st.integers(-100, 100)) for _ in shape)
    upper = tuple(a + n for a, n in zip(lower, values.shape, strict=True))
    name, version = f"{kind} in {len(shape)} dimensions", next(numbers)
    staging.call("put", name.encode(), version, c_array(values, lower), PATIENCE)
    assert python.get(name, version, lower, upper).tobytes() == values.tobytes()
    staging.call("get", name.encode(), version, c_array(target, lower), PATIENCE)
    assert target.tobytes() == values.tobytes()
    python.discard(name, version)


@pytest.mark.parametrize("shape", [(3, 4, 5), (120, 200)])
@pytest.mark.parametrize("order", "CF")
def test_dense_arrays_need_no_strides(
    python: ts.Staging, staging: CStaging, shape: tuple[int, ...], order: Any
) -> None:
    values = np.asarray(np.arange(float(np.prod(shape))).reshape(shape), order=order)
    array = c_array(values)
    array.strides[:] = [0] * len(array.strides)
    array.order = 1 if order == "F" else 0
    name = f"dense {order} {len(shape)}"
    staging.call("put", name.encode(), 1, array, PATIENCE)
    assert np.array_equal(python.get(name, 1), values)  # Indices mean the same in all languages.
    expected, values[:] = values.copy(), 0
    staging.call("get", name.encode(), 1, array, PATIENCE)
    assert np.array_equal(values, expected)


def test_large_boxes_of_many_objects(python: ts.Staging, staging: CStaging) -> None:
    values = np.random.default_rng(3).random((600, 500))
    for k in range(6):
        staging.call("put", b"large", 1, c_array(values[100 * k :][:100], (100 * k, 0)), PATIENCE)
    part = np.zeros((500, 123)).T
    staging.call("get", b"large", 1, c_array(part, (7, 0)), PATIENCE)
    assert np.array_equal(part, values[7:130])
    assert np.array_equal(python.get("large", 1), values)


def test_several_servers(library: Any, tmp_path: Path, profile: str) -> None:
    contact = tmp_path / "staging.contact"
    values = np.random.default_rng(5).random((256, 256))
    with (
        ts.StagingServer(contact, servers=2, profile=profile) as first,
        ts.StagingServer(contact, servers=2, rank=1, profile=profile) as second,
        CStaging(library, contact) as staging,
    ):
        for k in range(16):
            block = np.ascontiguousarray(values[64 * (k // 4) :][:64, 64 * (k % 4) :][:, :64])
            corner = (64 * (k // 4), 64 * (k % 4))
            staging.call("put", b"shared", 1, c_array(block, corner), PATIENCE)
        got = np.zeros((256, 256))
        staging.call("get", b"shared", 1, c_array(got), PATIENCE)
        assert np.array_equal(got, values)
        assert first.memory_used > 0 and second.memory_used > 0


@pytest.mark.skipif(not hardware()["gpus"], reason="this machine has no GPU")
def test_arrays_on_real_gpus(python: ts.Staging, staging: CStaging) -> None:
    values = np.random.default_rng(4).random((300, 200))
    with ts.Engine() as engine:
        for name, rows in (("on a GPU", 300), ("small on a GPU", 4)):
            device = engine.empty((rows, 200), memory="device0")
            engine.copy(values[:rows], device).wait(timeout=PATIENCE)
            array = c_array(values[:rows])
            array.data = device.__cuda_array_interface__["data"][0]
            staging.call("put", name.encode(), 1, array, PATIENCE)
            assert np.array_equal(python.get(name, 1), values[:rows])
            python.put(name, 2, 2 * values[:rows])
            staging.call("get", name.encode(), 2, array, PATIENCE)
            assert np.array_equal(device.numpy(), 2 * values[:rows])


# Versions and variables


def test_versions_in_order_the_latest_and_the_end(library: Any, server: ts.StagingServer) -> None:
    values = np.zeros((4, 6))
    version = c.c_int64(99)
    with CStaging(library, server.contact) as reader:
        with CStaging(library, server.contact) as writer:
            for step in (-3, 5, 8):
                writer.call("put", b"steps", step, c_array(values + step), PATIENCE)
            found = []
            after = FIRST
            for _ in range(3):
                reader.call("get_next", b"steps", after, c_array(values), PATIENCE, version)
                assert (values == version.value).all()
                found.append(after := version.value)
            assert found == [-3, 5, 8]
            box = CArray(rank=2, extents=c_array(values).extents)
            reader.call("wait_next", b"steps", -3, box, PATIENCE, version)
            assert version.value == 5
            reader.call("get_latest", b"steps", c_array(values), PATIENCE, version)
            assert version.value == 8 and (values == 8).all()
            later = threading.Timer(
                0.2, lambda: writer.call("put", b"steps", 9, c_array(values + 1), PATIENCE)
            )
            later.start()
            reader.call("wait_next", b"steps", 8, box, PATIENCE, version)
            later.join()
            assert version.value == 9
            times_out(
                lambda: reader.call("wait_next", b"steps", 9, box, 0.1, version),
                'timeout: .*no version of "steps" after 9',
                CError,
            )
            assert version.value == 9
            reader.call("discard", b"steps", 5)
            with pytest.raises(CError, match=r"not_found: .*was discarded"):
                reader.call("get", b"steps", 5, c_array(values), PATIENCE)
        with pytest.raises(CError, match=r"closed: .*all processes that put to it have ended"):
            reader.call("get_next", b"steps", 9, c_array(values), PATIENCE, version)


def test_the_trace_of_a_program_in_c(
    library: Any, profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "traces"
    with ts.StagingServer(profile=profile) as server:
        monkeypatch.setenv("TRANSHIP_TRACE_FOLDER", str(folder))
        with CStaging(library, server.contact) as staging:
            staging.call("put", b"traced", 1, c_array(np.zeros(3)), PATIENCE)
        trace = merge_traces([folder])
        assert list(trace.processes.values()) == ["a test"]
        assert "put traced" in {event["name"] for event in trace.events}
        unwritten = CStaging(library, server.contact)
        shutil.rmtree(folder)
        with pytest.raises(CError, match="io: the trace cannot be written to"):
            unwritten.close()


def test_variables_are_described_and_listed(library: Any, profile: str) -> None:
    with (
        ts.StagingServer(profile=profile) as server,
        CStaging(library, server.contact) as staging,
        ts.Staging(server.contact) as python,
    ):
        python.put("b", 4, np.zeros((4, 5), "c8"), (-1, 10))
        python.put("b", 9, np.zeros((2, 5), "c8"), (0, 10))
        python.put("b", 9, np.zeros((2, 5), "c8"), (2, 10))
        python.put("ä", 1, np.float32(3))
        python.get("b", 4, (-1, 10), (3, 15))
        variable = CVariable()
        staging.call("describe", b"b", PATIENCE, variable)
        assert (variable.type, variable.rank, variable.producers) == (b"c8", 2, 1)
        assert (variable.lower[:2], variable.upper[:2]) == ([-1, 10], [4, 15])
        listing, entry = c.c_void_p(), CEntry()
        staging.call("ls", listing)
        assert library.tranship_listing_size(listing) == 2
        names = []
        for k in range(2):
            staging.check(library.tranship_listing_entry(listing, k, entry))
            names.append(entry.name.decode())
            if k == 0:
                assert (entry.versions, entry.version_first, entry.version_last) == (2, 4, 9)
                assert (entry.objects, entry.bytes, entry.variable.type) == (3, 3 * 256, b"c8")
                assert (entry.puts, entry.put_bytes) == (3, 40 * 8)
                assert (entry.gets, entry.get_bytes) == (1, 20 * 8)
        assert names == ["b", "ä"]
        assert (entry.variable.rank, entry.variable.type, entry.objects) == (0, b"f4", 1)
        for index in (2, -1):
            with pytest.raises(CError, match=f"out_of_range: the index is {index}"):
                staging.check(library.tranship_listing_entry(listing, index, entry))
        library.tranship_listing_free(listing)
        times_out(
            lambda: staging.call("describe", b"never", 0.1, variable),
            "timeout: .*nothing has been put",
            CError,
        )


# Asynchronous puts and gets


def test_requests_end_in_any_order(python: ts.Staging, staging: CStaging) -> None:
    library = staging.library
    steps = [np.full((256, 64), float(step)) for step in range(12)]
    puts = [c.c_void_p() for _ in steps]
    later, target, ended = c.c_void_p(), np.zeros((256, 64)), c.c_int()
    staging.call("get_async", b"requests", 12, c_array(target), PATIENCE, later)
    for step, (values, request) in enumerate(zip(steps, puts, strict=True)):
        staging.call("put_async", b"requests", step, c_array(values), PATIENCE, request)
    for request in puts:
        staging.check(library.tranship_request_wait(request, PATIENCE))
        staging.check(library.tranship_request_test(request, ended))
        assert ended.value == 1
        library.tranship_request_free(request)
    for step, values in enumerate(steps):
        assert np.array_equal(python.get("requests", step), values)
    staging.check(library.tranship_request_test(later, ended))
    assert ended.value == 0
    with pytest.raises(CError, match="timeout: the request has not ended"):
        staging.check(library.tranship_request_wait(later, 0.05))
    python.put("requests", 12, steps[3])
    staging.check(library.tranship_request_wait(later, PATIENCE))
    library.tranship_request_free(later)
    assert np.array_equal(target, steps[3])


def test_a_request_returns_what_it_failed_with(staging: CStaging) -> None:
    request = c.c_void_p()
    staging.call("put", b"plane", 1, c_array(np.zeros((2, 2))), PATIENCE)
    staging.call("put_async", b"plane", 2, c_array(np.zeros(3)), PATIENCE, request)
    for _ in range(2):
        with pytest.raises(CError, match=r"invalid_argument: .*2 dimensions"):
            staging.check(staging.library.tranship_request_wait(request, PATIENCE))
    staging.library.tranship_request_free(request)
    begin = time.monotonic()
    staging.call("get_async", b"plane", 7, c_array(np.zeros((2, 2))), 0.3, request)
    staging.library.tranship_request_free(request)  # Freeing a request waits for its end.
    assert 0.25 < time.monotonic() - begin < PATIENCE


def test_close_waits_for_requests(library: Any, server: ts.StagingServer) -> None:
    values = [np.full((512, 512), float(step)) for step in range(8)]
    requests = [c.c_void_p() for _ in values]
    with CStaging(library, server.contact) as writer:
        for step, request in enumerate(requests):
            writer.call("put_async", b"last", step, c_array(values[step]), PATIENCE, request)
    for request in requests:
        assert library.tranship_request_wait(request, 0.0) == 0
        library.tranship_request_free(request)
    with ts.Staging(server.contact) as reader:
        for step in range(8):
            assert (reader.get("last", step) == step).all()
            reader.discard("last", step)


def test_threads_share_a_connection(python: ts.Staging, staging: CStaging) -> None:
    failures: list[str] = []

    def work(k: int) -> None:
        values, target = np.full(3000 * (k + 1), float(k)), np.zeros(3000 * (k + 1))
        for version in range(10):
            staging.call("put", b"thread %d" % k, version, c_array(values + version), PATIENCE)
            staging.call("get", b"thread %d" % k, version, c_array(target), PATIENCE)
            if not (target == k + version).all():
                failures.append(f"{k} {version}")
            code = staging.library.tranship_get(None, b"", 0, None, 0.0)  # This thread's error.
            if CODES[code] != "invalid_argument":
                failures.append(CODES[code])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


# Refused calls


def changed(**changes: Any) -> CArray:
    """Returns the struct of a correct array with the given members changed."""
    array = c_array(np.zeros((2, 3)))
    array.strides[:] = [0] * len(array.strides)
    for name, value in changes.items():
        if isinstance(value, tuple):
            getattr(array, name)[: len(value)] = value
        else:
            setattr(array, name, value)
    return array


FAULTS = [
    ({"data": None}, "data is NULL"),
    ({"type": None}, "type is NULL"),
    ({"type": b"double"}, 'type is "double"; use one of b1 i1 .* c16'),
    ({"type": b""}, 'type is ""'),
    ({"rank": 17}, "rank is 17; give a rank from 0 to 16"),
    ({"rank": -1}, "rank is -1"),
    ({"order": 2}, "order is 2"),
    ({"extents": (2, -3)}, "dimension 1 has extent -3"),
    ({"extents": (0, 3)}, "dimension 0 has extent 0"),
    ({"extents": (1 << 40, 1 << 40)}, "more points than 63 bits count"),
    ({"extents": (1 << 31, 1 << 31)}, "more than any memory"),
    ({"lower": ((1 << 63) - 2, 0)}, "indices that fit 64 bits"),
    ({"strides": (1 << 62, 8)}, "reaches further than any memory"),
    ({"strides": (-(1 << 63), 8)}, "reaches further than any memory"),
]


@pytest.mark.parametrize(("changes", "text"), FAULTS, ids=[text for _, text in FAULTS])
def test_faulty_arrays_are_refused(staging: CStaging, changes: dict[str, Any], text: str) -> None:
    array, handle, version = changed(**changes), c.c_void_p(), c.c_int64()
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("put", (b"faulty", 1, array, 0.1)),
        ("get", (b"faulty", 1, array, 0.1)),
        ("get_next", (b"faulty", 1, array, 0.1, version)),
        ("get_latest", (b"faulty", array, 0.1, version)),
        ("put_async", (b"faulty", 1, array, 0.1, handle)),
        ("get_async", (b"faulty", 1, array, 0.1, handle)),
    ]
    for name, arguments in calls:
        with pytest.raises(CError, match="invalid_argument: .*" + text):
            staging.call(name, *arguments)
    assert handle.value is None


def test_a_definition(library: Any, server: ts.StagingServer, python: ts.Staging) -> None:
    values = np.ones((4, 6))
    with CStaging(library, server.contact) as one, CStaging(library, server.contact) as other:
        domain = c_array(np.zeros((8, 6)), (-4, 0))
        for staging in (one, other):
            staging.call("define", b"plate", b"f8", domain, 2)
        one.call("put", b"plate", 1, c_array(values, (-4, 0)), PATIENCE)
        with pytest.raises(CError, match=r"invalid_argument: .*is not within the domain"):
            one.call("put", b"plate", 1, c_array(values, (1, 0)), PATIENCE)
        with pytest.raises(CError, match=r"invalid_argument: .*elements of f8, not of i4"):
            one.call("define", b"plate", b"i4", domain, 2)
        with pytest.raises(CError, match=r"invalid_argument: .*type is \"x9\""):
            one.call("define", b"plate", b"x9", domain, 2)
        one.close()
        whole = python.get_async("plate", 1, timeout=PATIENCE)  # It waits for the whole domain.
        other.call("put", b"plate", 1, c_array(values, (0, 0)), PATIENCE)
        assert np.array_equal(whole.result(PATIENCE), np.ones((8, 6)))


def test_null_is_refused_everywhere(library: Any, staging: CStaging) -> None:
    handle, version, ended = c.c_void_p(), c.c_int64(), c.c_int()
    good: dict[str, list[Any]] = {
        "open": [b"nowhere", b"me", 0.1, handle],
        "put": [staging.handle, b"x", 0, changed(), 0.1],
        "get": [staging.handle, b"x", 0, changed(), 0.1],
        "get_next": [staging.handle, b"x", 0, changed(), 0.1, version],
        "get_latest": [staging.handle, b"x", changed(), 0.1, version],
        "wait_next": [staging.handle, b"x", 0, changed(), 0.1, version],
        "define": [staging.handle, b"x", b"f8", changed(), 1],
        "discard": [staging.handle, b"x", 0],
        "describe": [staging.handle, b"x", 0.1, CVariable()],
        "put_async": [staging.handle, b"x", 0, changed(), 0.1, handle],
        "get_async": [staging.handle, b"x", 0, changed(), 0.1, handle],
        "request_wait": [staging.handle, 0.1],
        "request_test": [staging.handle, ended],
        "ls": [staging.handle, handle],
        "listing_entry": [staging.handle, 0, CEntry()],
    }
    for name, arguments in good.items():
        for k, argument in enumerate(arguments):
            if isinstance(argument, int | float) or (name == "open" and k == 1):
                continue
            faulty = [*arguments[:k], None, *arguments[k + 1 :]]
            assert CODES[getattr(library, f"tranship_{name}")(*faulty)] == "invalid_argument"
            assert re.fullmatch(r"the argument `\w+` is NULL; pass an address", last_error(library))
    assert library.tranship_close(None) == 0
    assert library.tranship_listing_size(None) == 0
    library.tranship_request_free(None)
    library.tranship_listing_free(None)


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), float("-inf")])
def test_timeouts_are_seconds_from_0_on(staging: CStaging, timeout: float) -> None:
    version = c.c_int64()
    for name, arguments in (
        ("put", (b"x", 0, changed(), timeout)),
        ("describe", (b"x", timeout, CVariable())),
        ("wait_next", (b"x", 0, changed(), timeout, version)),
    ):
        with pytest.raises(CError, match="invalid_argument: the timeout is"):
            staging.call(name, *arguments)


def test_arrays_that_do_not_fit_the_variable_are_refused(staging: CStaging) -> None:
    staging.call("put", b"fits", 1, c_array(np.zeros((4, 4))), PATIENCE)
    with pytest.raises(CError, match="elements of f8, not of f4"):
        staging.call("put", b"fits", 2, c_array(np.zeros((4, 4), "f4")), PATIENCE)
    with pytest.raises(CError, match="elements of f8, and the target of i8"):
        staging.call("get", b"fits", 1, c_array(np.zeros((4, 4), "i8")), PATIENCE)
    with pytest.raises(CError, match="2 dimensions"):
        staging.call("get", b"fits", 1, c_array(np.zeros(4)), PATIENCE)
    with pytest.raises(CError, match="same place"):
        staging.call("get", b"fits", 1, changed(extents=(4, 4), strides=(0, 8)), PATIENCE)
    times_out(
        lambda: staging.call("get", b"fits", 1, c_array(np.zeros((5, 4))), 0.1),
        r"timeout: .*lacks \(4:5, 0:4\)",
        CError,
    )


def test_no_server_and_no_settings(
    library: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = c.c_void_p(1)
    begin = time.monotonic()
    nowhere = str(folder / "nowhere").encode()
    assert CODES[library.tranship_open(nowhere, None, 0.5, handle)] == "not_found"
    assert 0.4 < time.monotonic() - begin < PATIENCE and handle.value is None
    assert CODES[library.tranship_open(nowhere, None, -1.0, handle)] == "invalid_argument"
    monkeypatch.setenv("TRANSHIP_THREADS", "many")
    assert CODES[library.tranship_open(nowhere, None, 0.5, handle)] == "invalid_argument"
    assert "TRANSHIP_THREADS" in last_error(library)


# Processes that end or die


def test_the_end_of_the_server(library: Any, profile: str) -> None:
    request = c.c_void_p()
    with ts.StagingServer(profile=profile) as server, CStaging(library, server.contact) as staging:
        staging.call("put", b"x", 1, changed(), PATIENCE)
        staging.call("get_async", b"x", 2, changed(), PATIENCE, request)
        server.close()
        begin = time.monotonic()
        code = CODES[library.tranship_request_wait(request, PATIENCE)]
        assert code in ("peer_lost", "closed") and time.monotonic() - begin < SOON_S
        library.tranship_request_free(request)
        with pytest.raises(CError, match=r"peer_lost|closed"):
            staging.call("put", b"x", 3, changed(), PATIENCE)


@pytest.mark.parametrize(("how", "code"), [("close", "closed"), ("end", "peer_lost")])
def test_a_process_that_ends_without_close_counts_as_dead(
    library: Any, tmp_path: Path, server: ts.StagingServer, how: str, code: str
) -> None:
    name = f"program {how}"
    words = compiler_words("--cflags", "--libs")
    source = ROOT / "tests" / "c" / "program.c"
    program = compiled(["cc", *STRICT, source, *words], tmp_path / "program")
    for _ in range(5):  # The server must see a close even if the process exits at once.
        subprocess.run([program, server.contact, name, how], check=True, timeout=PATIENCE)
        with CStaging(library, server.contact) as reader:
            with pytest.raises(CError) as caught:
                reader.call("get", name.encode(), 2, changed(type=b"i4", extents=(2, 2)), PATIENCE)
            assert caught.value.code == code


def test_a_fork_refuses_and_ends(tmp_path: Path, server: ts.StagingServer) -> None:
    source = ROOT / "tests" / "c" / "program.c"
    words = compiler_words("--cflags", "--libs")
    program = compiled(["cc", *STRICT, source, *words], tmp_path / "program")
    done = subprocess.run(
        [program, server.contact, "forked", "fork"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "closed: this process was forked" in done.stdout


def test_c_and_python_share_the_kept_profile(
    tmp_path: Path, server: ts.StagingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process measures the machine; C and Python keep the profile in the same file."""
    source = ROOT / "tests" / "c" / "program.c"
    words = compiler_words("--cflags", "--libs")
    program = compiled(["cc", *STRICT, source, *words], tmp_path / "program")
    monkeypatch.setenv("TRANSHIP_CACHE_FOLDER", str(tmp_path / "new" / "cache"))
    path = profiles.cache_path()
    assert path is not None and not path.exists()
    command = [program, server.contact, "profiled", "close"]
    subprocess.run(command, check=True, timeout=130)
    measured = path.read_text()
    assert profiles.of_this_machine() == profiles.load(path)
    subprocess.run(command, check=True, timeout=130)
    assert path.read_text() == measured
    path.write_text(measured[:100])  # A truncated file: the machine is measured again.
    subprocess.run(command, check=True, timeout=130)
    assert profiles.load(path) != measured
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
