"""What a first put costs: the server's pages are allocated, and mapped here, before it."""

import re
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from staging_servers import times_out

from support import PATIENCE, eventually
from tranship.errors import InvalidArgument
from tranship.staging import Staging, StagingServer

PAGE = resource.getpagesize()
MIB = 1 << 20


def shared_bytes():
    """Returns the bytes of files and shared memory that this process has mapped pages of."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[2]) * PAGE


def await_growth(before, wanted):
    """Waits until so many bytes more are mapped."""
    mapped = eventually(lambda: shared_bytes() - before >= wanted)
    assert mapped, f"only {(shared_bytes() - before) >> 20} MiB were mapped"


def minor_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def test_the_first_put_meets_pages_that_are_there(tmp_path):
    array = np.random.default_rng(1).integers(0, 255, 32 * MIB, dtype=np.uint8)
    target = np.ones_like(array)
    before = shared_bytes()
    with StagingServer(tmp_path / "contact", memory="64MiB"):
        await_growth(before, 63 * MIB)
        with Staging(tmp_path / "contact") as staging:
            await_growth(before, 126 * MIB)
            faults = minor_faults()
            staging.put("v", 0, array)
            assert minor_faults() - faults < 32 * MIB // PAGE // 8
            staging.get("v", 0, out=target)
    assert np.array_equal(target, array)


def test_puts_do_not_wait_for_preallocation(tmp_path):
    # Wherever the part lies that is being allocated, one array fits on each side of it.
    array = np.random.default_rng(2).integers(0, 255, 160 * MIB, dtype=np.uint8)
    contact = tmp_path / "contact"
    with StagingServer(contact, memory="512MiB") as server, Staging(contact) as staging:
        for version in range(2):
            staging.put("v", version, array)
        assert server.memory_used == 2 * array.nbytes
        for version in range(2):
            assert np.array_equal(staging.get("v", version), array)


def test_an_object_may_be_as_large_as_the_memory(tmp_path):
    array = np.random.default_rng(3).integers(0, 255, 128 * MIB, dtype=np.uint8)
    contact = tmp_path / "contact"
    with StagingServer(contact, memory=array.nbytes), Staging(contact) as staging:
        staging.put("v", 0, array)
        assert np.array_equal(staging.get("v", 0), array)


def test_an_object_that_fits_neither_what_is_preallocated_nor_the_rest_fits_the_whole(tmp_path):
    array = np.random.default_rng(5).integers(0, 255, 112 * MIB, dtype=np.uint8)
    contact = tmp_path / "contact"
    with (
        StagingServer(contact, memory="128MiB", preallocate="80MiB") as server,
        Staging(contact) as staging,
    ):
        for version in range(2):
            staging.put("small", version, array[: 40 * MIB])
            assert np.array_equal(staging.get("small", version), array[: 40 * MIB])
        times_out(lambda: staging.put("large", 0, array, timeout=0.2), "is full")
        for version in range(2):
            staging.discard("small", version)
        staging.put("large", 0, array)
        assert server.memory_used == array.nbytes
        assert np.array_equal(staging.get("large", 0), array)
        staging.discard("large", 0)
        staging.put("small", 2, array[: 40 * MIB])
        assert np.array_equal(staging.get("small", 2), array[: 40 * MIB])


@pytest.mark.parametrize("size", [0, "16MiB"])
def test_less_is_preallocated_on_request(tmp_path, size):
    before = shared_bytes()
    array = np.random.default_rng(4).integers(0, 255, 48 * MIB, dtype=np.uint8)
    with StagingServer(tmp_path / "contact", memory="128MiB", preallocate=size):
        if size:
            await_growth(before, 15 * MIB)
        time.sleep(0.2)
        assert shared_bytes() - before < 32 * MIB
        with Staging(tmp_path / "contact") as staging:
            staging.put("v", 0, array)
            assert np.array_equal(staging.get("v", 0), array)


def serve_within(kib, tmp_path, *options):
    """Starts a server that has so little address space, in KiB; returns its process."""
    command = [sys.executable, "-m", "tranship.cli", "serve", "--memory", "64GiB"]
    command += ["--contact", str(tmp_path / "contact"), *options]
    return subprocess.Popen(
        ["sh", "-c", f'ulimit -v {kib}; exec "$@"', "sh", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_server_that_cannot_preallocate_starts_unless_it_is_told_to(tmp_path):
    free_kib = int(re.search(r"MemAvailable: +(\d+)", Path("/proc/meminfo").read_text())[1])
    # Less than would be preallocated, if the machine has more than that free.
    kib = min(max(free_kib // 8 - 4096, 3 << 19), 8 << 20)
    server = serve_within(kib, tmp_path)
    try:
        assert server.stdout.readline()
        with Staging(tmp_path / "contact") as staging:
            staging.put("v", 0, np.arange(1000.0))
            assert np.array_equal(staging.get("v", 0), np.arange(1000.0))
    finally:
        server.terminate()
        server.communicate(timeout=PATIENCE)
    refused = serve_within(kib, tmp_path, "--preallocate", f"{2 * kib}KiB")
    _, message = refused.communicate(timeout=PATIENCE)
    assert refused.returncode == 1
    assert "no address space" in message


def test_a_size_is_one(tmp_path):
    with pytest.raises(InvalidArgument, match="preallocate"):
        StagingServer(tmp_path / "contact", preallocate="much")
