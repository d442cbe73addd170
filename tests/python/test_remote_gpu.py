"""The remote-GPU experiment on emulated GPUs: its results, and its failures."""

from __future__ import annotations

import contextlib
import ctypes
import json
import signal
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from support import SOON_S
from tranship import Engine, Error, InvalidArgument, Timeout
from tranship_bench import benches, figures, targets
from tranship_bench.harness import Bench, MismatchError
from tranship_bench.remote_gpu import experiment, server, ways
from tranship_bench.remote_gpu import sum as remote_gpu_sum
from tranship_bench.remote_gpu.experiment import (
    FULL_SIZES,
    Options,
    elements_text,
    fitting_elements,
    rdma_kind,
    ucx_has_verbs,
)

NEAR = {"part 1, shared memory", "part 2, shared memory", "part 3, emulated CUDA IPC"}
TCP = {"part 1, TCP", "part 2, TCP", "part 3, TCP"}
LOCAL = {"local", "local, two copies"}


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    monkeypatch.setenv("TRANSHIP_EMULATED_GPUS", "1")


def run(size="small", **options):
    lines = []
    code = benches.run(
        "remote-gpu", size=size, machine="a machine", report=lines.append, options=options
    )
    return code, lines


def test_every_part_over_every_transport():
    code, lines = run(limit=1000)
    assert code == 0
    found = {(line["case"], line["variant"]) for line in lines}
    cases = ("emulated GPU: 10 elements", "emulated GPU: 1k elements")
    assert found == {(case, variant) for case in cases for variant in LOCAL | NEAR | TCP}
    for line in lines:
        own = line["conditions"]
        assert line["checked"] is True
        assert line["bytes"] == 12 * own["elements"]
        phases_s = own["input_s"] + own["operations_s"] + own["output_s"] - own["gpu_s"]
        assert phases_s == pytest.approx(own["mean_s"])
        assert own["gpu_s"] > 0
        assert "emulated" in own["computed_by"]
        assert line.get("baseline") == (None if line["variant"] == "local" else "local")
    paths = {line["variant"]: line["conditions"]["path"] for line in lines}
    assert "device" in paths["part 3, emulated CUDA IPC"]
    assert "node1" in paths["part 3, TCP"]


def test_transports_can_be_chosen(capsys):
    code, lines = run(limit=10, transports=("ipc", "rdma"))
    assert code == 0
    assert {line["variant"] for line in lines} == LOCAL | {"part 3, emulated CUDA IPC"}
    assert "left out: " in capsys.readouterr().err


@pytest.fixture
def sums(monkeypatch):
    """Returns the lengths of the sums that emulated GPUs of this process compute."""
    lengths = []
    numpy_add = np.add

    def add(left, right, out):
        lengths.append(len(out))
        return numpy_add(left, right, out=out)

    monkeypatch.setattr(np, "add", add)
    return lengths


def test_the_sum_is_repeated(sums):
    _, once = run(limit=10_000, transports=())
    computed_once = sums.count(10_000)
    _, often = run(limit=10_000, transports=(), repeats=500)
    assert sums.count(10_000) - computed_once == 500 * computed_once > 0
    assert once[-1]["conditions"]["repeats"] == 1
    assert often[-1]["conditions"]["repeats"] == 500


class FakeEvent:
    """A GPU event of a library; each event is 2 ms after the one recorded before it."""

    recorded = 0

    def __init__(self, enable_timing=True):
        assert enable_timing
        self.order = None

    def record(self):
        FakeEvent.recorded += 1
        self.order = FakeEvent.recorded

    def synchronize(self):
        assert self.order is not None

    def elapsed_time(self, other):
        return 2.0 * (other.order - self.order)


class FakeView:
    """A library's view of a DeviceArray; with a `shift` of the address it poses as a copy."""

    shift = 0

    def __init__(self, array):
        address = array.__cuda_array_interface__["data"][0]
        self.data = SimpleNamespace(ptr=address + self.shift)
        values = (ctypes.c_float * array.shape[0]).from_address(address)
        self.values = np.ctypeslib.as_array(values)

    def data_ptr(self):
        return self.data.ptr


def fake_add(left, right, out):
    np.add(left.values, right.values, out=out.values)


def fake_library(name):
    """Returns a module with the names of CuPy or PyTorch that are used, on top of NumPy."""
    events = {"Event": FakeEvent}
    if name == "cupy":
        elapsed = {"get_elapsed_time": lambda begin, end: begin.elapsed_time(end)}
        cuda = SimpleNamespace(Device=contextlib.nullcontext, **events, **elapsed)
        made = {"asarray": FakeView}
    else:
        cuda = SimpleNamespace(device=contextlib.nullcontext, **events)
        made = {"as_tensor": lambda array, device: FakeView(array)}
    return SimpleNamespace(cuda=cuda, add=fake_add, __version__="1.2", **made)


@pytest.fixture
def real_gpus(monkeypatch):
    """Makes emulated GPUs pass for real ones, so that a library computes on them."""
    gpu = {"emulated": False, "name": "a GPU", "memory_bytes": 1 << 32}
    monkeypatch.setattr(remote_gpu_sum, "first_gpu", lambda engine: gpu)
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    remote_gpu_sum.library_for.cache_clear()
    yield
    remote_gpu_sum.library_for.cache_clear()


@pytest.mark.parametrize(("module", "words"), [("cupy", "CuPy 1.2"), ("torch", "PyTorch 1.2")])
def test_libraries_compute_where_the_arrays_lie(real_gpus, monkeypatch, module, words):
    monkeypatch.setitem(sys.modules, module, fake_library(module))
    with Engine() as engine:
        assert remote_gpu_sum.computed_by(engine) == words
        arrays = remote_gpu_sum.device_triple(engine, 50)
        for array, value in zip(arrays, (1, 2, 0), strict=True):
            engine.copy(np.full(50, value, "f4"), array).wait(timeout=10)
        assert remote_gpu_sum.prepare(engine, arrays)(3) == pytest.approx(0.002)
        assert np.array_equal(arrays[2].numpy(), np.full(50, 3, "f4"))
        monkeypatch.setattr(FakeView, "shift", 4)
        with pytest.raises(Error, match="copied the arrays instead of taking them"):
            remote_gpu_sum.prepare(engine, arrays)


def test_without_a_library_the_error_says_what_to_install(real_gpus):
    with Engine() as engine, pytest.raises(Error, match=r"needs CuPy or PyTorch.*pip install"):
        remote_gpu_sum.computed_by(engine)


def test_without_a_gpu_it_is_skipped(monkeypatch, capsys):
    monkeypatch.setenv("TRANSHIP_EMULATED_GPUS", "0")
    monkeypatch.setenv("TRANSHIP_GPUS", "0")
    assert run() == (0, [])
    assert "skipped: there is no GPU" in capsys.readouterr().err


def test_a_wrong_sum_is_found(monkeypatch, capsys):
    monkeypatch.setattr(ways, "prepare", lambda engine, arrays: lambda repeats: 1e-9)
    code, lines = run(limit=10, transports=())
    assert (code, lines) == (1, [])
    assert "element 0 of 10 is not the sum" in capsys.readouterr().err


@pytest.mark.parametrize("index", [0, 1 << 20, (1 << 20) + 6])
def test_verify_finds_one_element(index):
    left = np.random.default_rng(1).random((1 << 20) + 7, "f4")
    right = left[::-1].copy()
    total = left + right
    ways.verify(left, right, total, "a part")
    total[index] = np.nextafter(total[index], np.float32(9))
    with pytest.raises(MismatchError, match=f"a part: element {index} of"):
        ways.verify(left, right, total, "a part")


def test_experiments_never_take_the_same_elements_twice_in_a_row():
    vectors = ways.Vectors(10)
    left, right, total = vectors.turn(10)
    total[:] = left + right
    for _ in range(60):
        left, right, fresh = vectors.turn(10)
        assert not np.array_equal(left + right, total)
        assert fresh.size == 10


def test_a_part_that_fails_is_said_and_the_rest_goes_on(monkeypatch, capsys):
    ask = ways.ServerProgram.ask

    def refuse(self, do, **arguments):
        if do == "make_part" and arguments["part"] == 3:
            return ask(self, do, part=1, elements=10**18)
        return ask(self, do, **arguments)

    monkeypatch.setattr(ways.ServerProgram, "ask", refuse)
    code, lines = run(limit=10, transports=("shared", "ipc"))
    assert code == 1
    assert {line["variant"] for line in lines} == LOCAL | NEAR - {"part 3, emulated CUDA IPC"}
    assert "part 3, emulated CUDA IPC FAILED: the server: make_part: " in capsys.readouterr().err


def test_a_server_that_dies_is_an_error_at_once(monkeypatch, capsys):
    send = ways.ServerProgram.send

    def kill(self, do, **arguments):
        send(self, do, **arguments)
        self._process.send_signal(signal.SIGKILL)

    monkeypatch.setattr(ways.ServerProgram, "send", kill)
    begin = time.monotonic()
    code, lines = run(limit=10, transports=("shared",))
    assert code == 1
    assert {line["variant"] for line in lines} == LOCAL
    assert time.monotonic() - begin < SOON_S
    assert "shared memory FAILED: the server" in capsys.readouterr().err


def test_waiting_has_an_end(monkeypatch):
    monkeypatch.setattr(server, "WAIT_SECONDS_MAX", 0.02)
    with pytest.raises(Timeout, match=r"the answer did not come.*--limit"):
        server.wait_for(np.zeros(1, "i8"), 1, "the answer")


def test_what_a_wait_checks_ends_it():
    def check():
        raise Error("it is gone")

    with pytest.raises(Error, match="it is gone"):
        server.wait_for(np.zeros(1, "i8"), 1, "the answer", check)


def test_runs_end_with_their_share_of_the_time(monkeypatch):
    monkeypatch.setattr(experiment, "SECONDS", 0.0)
    code, lines = run("full", limit=10, transports=())
    assert code == 0
    assert [line["conditions"]["runs"] for line in lines] == [1, 1]
    assert all(line["count"] == 6 for line in lines)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fast": True}, "no option 'fast'; there are quick"),
        ({"transports": ("udp",)}, "no transport 'udp'; there are shared"),
        ({"repeats": 0}, "repeats is at least 1"),
        ({"launch": "ssh gpu2"}, "both its --launch and --addresses"),
        ({"addresses": "a,b"}, "both its --launch and --addresses"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(InvalidArgument, match=words):
        benches.find("remote-gpu").options_of(options)


def test_other_benchmarks_have_no_options(capsys):
    assert benches.run("contiguous", report=print, options={"quick": True}) == 1
    assert "no option 'quick'; contiguous has none" in capsys.readouterr().err


def made(full=True):
    return Bench("remote-gpu", full=full, machine="m", report=print)


def test_the_papers_procedure(capsys):
    paper = Options().sizes(made(), 10**9)
    assert paper == list(FULL_SIZES) and (experiment.MEASUREMENTS, experiment.RUNS) == (6, 10)
    assert (paper[0], paper[-1]) == (10, 400_000_000)
    assert Options(quick=True, limit=28_000_000).sizes(made(), 10**9)[-1] == 28_000_000
    assert capsys.readouterr().err == ""
    assert Options().sizes(made(), 20_000_000)[-1] == 10_000_000
    assert "memory for 20M elements" in capsys.readouterr().err
    assert Options(limit=7).sizes(made(), 10**9) == [7]


def test_sizes_fit_the_gpu():
    assert fitting_elements({"memory_bytes": 12_000_000, "emulated": False}) == 800_000


def test_numbers_of_elements_as_people_write_them():
    counts = [10, 100, 1_000, 28_000_000, 1_500, 1_234, 400_000_000]
    assert [elements_text(count) for count in counts] == [
        *("10", "100", "1k", "28M", "1.5k", "1234", "400M")
    ]


def test_rdma_is_found_by_its_port(tmp_path):
    assert rdma_kind(tmp_path / "nothing") is None
    port = tmp_path / "mlx5_0" / "ports" / "1"
    port.mkdir(parents=True)
    (port / "state").write_text("1: DOWN\n")
    (port / "link_layer").write_text("Ethernet\n")
    assert rdma_kind(tmp_path) is None
    (port / "state").write_text("4: ACTIVE\n")
    assert rdma_kind(tmp_path) == "RoCE"
    (port / "link_layer").write_text("InfiniBand\n")
    assert rdma_kind(tmp_path) == "InfiniBand"


def test_verbs_are_a_part_of_ucx(tmp_path):
    maps = tmp_path / "maps"
    library = tmp_path / "lib" / "libuct.so.0"
    maps.write_text(f"7f00-7f10 r-xp 00000000 08:01 42 {library}\n7f20-7f30 rw-p 0 00:00 0\n")
    assert not ucx_has_verbs(maps)
    (tmp_path / "lib" / "ucx").mkdir(parents=True)
    (tmp_path / "lib" / "ucx" / "libuct_ib.so.0").touch()
    assert ucx_has_verbs(maps)


def test_tcp_between_namespaces():
    code, lines = run("full", quick=True, limit=1000, transports=("tcp",))
    assert code == 0
    links = {line["conditions"]["link"] for line in lines if "TCP" in line["variant"]}
    assert len(links) == 1
    assert links.pop().startswith(("veth between two network namespaces", "loopback ("))


def test_a_server_started_by_other_words(tmp_path, capsys):
    script = tmp_path / "there"
    script.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')  # ssh joins words for a shell, too.
    script.chmod(0o755)
    there = {"launch": f"{script} machine", "addresses": "127.0.0.1,127.0.0.1"}
    code, lines = run(limit=10, **there)
    assert code == 0
    assert {line["variant"] for line in lines} == LOCAL | TCP
    assert lines[-1]["conditions"]["link"] == "two machines: 127.0.0.1 and 127.0.0.1"
    assert "shared memory and CUDA IPC are left out: the server is on" in capsys.readouterr().err


def line_of(variant, elements=100_000_000, median_s=0.1, local_s=0.1, **changes):
    part = 0 if variant.startswith("local") else int(variant[5])
    own = {"elements": elements, "part": part, "transport": variant.partition(", ")[2] or "none"}
    line = {
        "bench": "remote-gpu",
        "case": f"{elements_text(elements)} elements",
        "variant": variant,
        "machine": "a machine",
        "commit": "",
        "bytes": 12 * elements,
        "median_s": median_s,
        "quartiles_s": [median_s, median_s],
        "count": 1,
        "gbps": 12e-9 * elements / median_s,
        "checked": True,
        "conditions": own | {"mean_s": median_s, "deviation_s": 0.01 * median_s},
    }
    if variant != "local":
        line |= {"baseline": "local", "ratio": local_s / median_s}
    return line | changes


def lines_of_a_run(direct_s=0.104):
    return [
        line_of("local"),
        line_of("part 1, shared memory", median_s=0.4),
        line_of("part 2, shared memory", median_s=0.2),
        line_of("part 3, CUDA IPC", median_s=direct_s),
        line_of("part 1, TCP", median_s=0.8),
        line_of("part 2, TCP", median_s=0.9),
        line_of("part 3, TCP", median_s=0.7),
        line_of("local", 10, 1e-5),
    ]


def test_targets():
    for direct_s, met in ((0.104, True), (0.106, False)):
        verdicts = list(targets.judge(lines_of_a_run(direct_s)))
        assert [verdict.met for verdict in verdicts] == [met]


def test_emulated_gpus_reach_no_target():
    line = line_of("part 3, emulated CUDA IPC", case="emulated GPU: 100M elements")
    assert list(targets.judge([line])) == []


def test_figures(tmp_path):
    pytest.importorskip("matplotlib")
    lines = [*lines_of_a_run(), line_of("part 3, RoCE", median_s=0.3)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    drawn = figures.draw("remote-gpus", tmp_path / "drawn", results=tmp_path)
    assert [path.name for path in drawn] == ["remote-gpu-a-machine.png"]
    assert all(path.stat().st_size > 10_000 for path in drawn)
    assert figures.draw("remote-gpu", tmp_path / "drawn", results=tmp_path) == drawn
