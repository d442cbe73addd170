"""Real GPUs only: streams, graphs, arrays of other libraries, and refusals of the driver."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from exporters import Exporter
from gpu_support import (
    copy_a_turned_slice,
    copy_an_array_that_is_pinned_in_part,
    copy_neighbours_that_are_pinned_apart,
    on_gpu,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import tranship as ts
from support import run_script
from tranship.hardware import hardware

found = hardware()["gpus"]
pytestmark = pytest.mark.skipif(not found, reason="this machine has no GPU")

ROWS, COLUMNS = 1024, 768
BUSY_CYCLES = 200_000_000
"""GPU cycles of a kernel that keeps a stream busy for about 0.1 s."""


@pytest.fixture(scope="module")
def engine() -> Iterator[ts.Engine]:
    """Yields an engine with the GPUs of this machine."""
    with ts.Engine() as opened:
        yield opened


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy")


def numbers(factor: float = 1) -> np.ndarray[Any, Any]:
    """Returns a matrix of which no two elements are equal."""
    return (np.arange(ROWS * COLUMNS, dtype="f4") * factor).reshape(ROWS, COLUMNS)


def pinned(engine: ts.Engine, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns an array in pinned memory with these values."""
    array = engine.empty(values.shape, values.dtype, memory="pinned")
    array[:] = values
    return array


@settings(max_examples=300)
@given(data=st.data())
def test_any_slice_of_any_transpose(engine: ts.Engine, data: st.DataObject) -> None:
    devices = tuple(f"device{k}" for k in range(min(len(found), 2)))
    copy_a_turned_slice(engine, data, ("host", "pinned", *devices))


def filled_late(torch: Any) -> tuple[Any, Any]:
    """Returns a tensor of zeros and a stream that fills it after BUSY_CYCLES of other work."""
    tensor = torch.zeros(ROWS, COLUMNS, device="cuda")
    filled = torch.from_numpy(numbers()).cuda()
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(BUSY_CYCLES)
        tensor.copy_(filled)
    filled.record_stream(stream)  # PyTorch would give its memory to the next tensor
    return tensor, stream


def test_a_copy_starts_after_its_stream(engine: ts.Engine, torch: Any) -> None:
    target = engine.empty((COLUMNS, ROWS), "f4", memory="pinned")
    tensor, stream = filled_late(torch)
    engine.copy(tensor.t(), target, stream=stream).wait(timeout=20)
    assert np.array_equal(target, numbers().T)


def test_a_stream_goes_on_after_its_copy(engine: ts.Engine, torch: Any) -> None:
    source = pinned(engine, numbers())
    tensor = torch.zeros(COLUMNS, ROWS, device="cuda")
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(BUSY_CYCLES)
    event = engine.copy(source, tensor.t(), stream=stream)
    assert not event.done()  # The call did not wait for the stream.
    with torch.cuda.stream(stream):
        doubled = tensor * 2
    stream.synchronize()
    assert np.array_equal(doubled.cpu().numpy(), numbers(2).T)
    event.wait(timeout=20)


def test_after_takes_a_stream(engine: ts.Engine, torch: Any) -> None:
    tensor, stream = filled_late(torch)
    pageable = np.zeros((ROWS, COLUMNS), "f4")
    engine.copy(tensor, pageable, after=stream).wait(timeout=20)
    assert np.array_equal(pageable, numbers())


@pytest.mark.parametrize("turned", [False, True])
def test_a_graph_holds_copies(engine: ts.Engine, torch: Any, turned: bool) -> None:
    """A CUDA graph holds copies of one hop: from pinned memory, and inside the GPU."""
    host = pinned(engine, numbers())
    first = torch.zeros(ROWS, COLUMNS, device="cuda")
    second = torch.zeros((COLUMNS, ROWS) if turned else (ROWS, COLUMNS), device="cuda")
    into = second.t() if turned else second
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stream = torch.cuda.current_stream()
        engine.copy(host, first, stream=stream)
        engine.copy(first, into, stream=stream)
    assert not second.any()  # The copies were captured, not run.
    for factor in (1, 3):
        host[:] = numbers(factor)
        graph.replay()
        torch.cuda.synchronize()
        assert np.array_equal(into.cpu().numpy(), numbers(factor))


@pytest.mark.parametrize("turned", [False, True])
def test_a_graph_holds_prepared_copies(engine: ts.Engine, torch: Any, turned: bool) -> None:
    """Starts are captured; the table of pages that they read outlives the prepared copy."""
    host = pinned(engine, numbers())
    first = torch.zeros(ROWS, COLUMNS, device="cuda")
    second = torch.zeros((COLUMNS, ROWS) if turned else (ROWS, COLUMNS), device="cuda")
    pages = torch.zeros(ROWS, COLUMNS, device="cuda")
    order = np.random.default_rng(1).permutation(ROWS)
    copies = [
        engine.prepare(host, first),
        engine.prepare(first, second.t() if turned else second),
        engine.prepare_pages(first, pages, order, np.arange(ROWS)),
    ]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for copy in copies:
            copy.start(stream=torch.cuda.current_stream())
    del copies, copy
    engine.copy_pages(first, first.clone(), order[::-1], order).wait(timeout=20)
    assert not second.any()
    for factor in (1, 3):
        host[:] = numbers(factor)
        graph.replay()
        torch.cuda.synchronize()
        assert np.array_equal((second.t() if turned else second).cpu().numpy(), numbers(factor))
        assert np.array_equal(pages.cpu().numpy(), numbers(factor)[order])


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int16"])
@pytest.mark.parametrize("where", ["default stream", "own stream", "graph"])
def test_copies_that_come_again(engine: ts.Engine, torch: Any, where: str, kind: str) -> None:
    """The engine knows them from the third time on: faces of a field, and one pair."""
    field = torch.zeros(24, 20, 16, device="cuda", dtype=getattr(torch, kind))
    faces = [field[:2], field[:, -1:], field[:, :, 3:5]]
    packed = [torch.zeros(face.shape, device="cuda", dtype=field.dtype) for face in faces]
    again = [torch.zeros_like(field) for _ in range(2)]
    pairs = list(zip(faces, packed, strict=True))
    stream = torch.cuda.default_stream() if where == "default stream" else torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph() if where == "graph" else None

    def start() -> None:
        stream = torch.cuda.current_stream()
        engine.copy_all(pairs, stream=stream)
        engine.copy(field, again[0], stream=stream)
        engine.copy(again[0], again[1], stream=stream)

    for turn in range(8):
        with torch.cuda.stream(stream):
            for one in [*packed, *again]:
                one.zero_()
            torch.cuda._sleep(1_000_000)
            field.copy_(torch.arange(field.numel(), device="cuda").reshape(field.shape) % 97 + turn)
        if graph is None or turn < 5:
            with torch.cuda.stream(stream):
                start()
        torch.cuda.synchronize()
        if graph is not None and turn == 5:
            with torch.cuda.graph(graph):
                start()
        if graph is not None and turn >= 5:
            graph.replay()
        torch.cuda.synchronize()
        assert all(torch.equal(face, copy) for face, copy in zip(faces, packed, strict=True))
        assert torch.equal(field, again[0]) and torch.equal(field, again[1])


def test_prepared_starts_go_in_their_stream(engine: ts.Engine, torch: Any) -> None:
    tensor, stream = filled_late(torch)
    halves = [torch.zeros(ROWS, COLUMNS, device="cuda") for _ in range(2)]
    copy = engine.prepare(tensor, halves[0])
    with torch.cuda.stream(stream):
        for half in halves:
            copy.start(target=half, stream=stream)
        sums = [half.sum() for half in halves]
    torch.cuda.synchronize()
    assert sums[0] == sums[1] == tensor.sum()
    assert np.array_equal(halves[1].cpu().numpy(), numbers())


def test_what_a_busy_stream_copies_is_kept(engine: ts.Engine, torch: Any) -> None:
    """Short copies in other streams end, and tell nothing of those in this one."""
    busy, other = torch.cuda.Stream(), torch.cuda.Stream()
    values = torch.arange(1000, dtype=torch.float32, device="cuda")
    targets = [torch.zeros(1000, device="cuda") for _ in range(2)]
    sources = [values.clone() for _ in range(100)]
    gone = [weakref.ref(source) for source in sources]
    torch.cuda.synchronize()
    with torch.cuda.stream(busy):
        torch.cuda._sleep(BUSY_CYCLES)
    for source in sources:
        engine.copy(source, targets[0], stream=busy)
    del source
    sources.clear()
    for _ in range(300):
        engine.copy(values, targets[1], stream=other)
    assert all(one() is not None for one in gone)
    torch.cuda.synchronize()
    for _ in range(300):
        engine.copy(values, targets[1], stream=busy)
    torch.cuda.synchronize()
    engine.copy(values, targets[1]).wait(timeout=20)
    assert sum(one() is not None for one in gone) < 100
    assert torch.equal(targets[0], values) and torch.equal(targets[1], values)


def test_tensors_of_torch(engine: ts.Engine, torch: Any) -> None:
    tensor = torch.from_numpy(numbers()).cuda()
    torch.cuda.synchronize()
    back = torch.zeros(COLUMNS, ROWS, pin_memory=True)
    event = engine.copy(tensor.permute(1, 0), back)
    event.wait(timeout=20)
    assert str(event.plan).endswith("node0/pinned0")
    assert np.array_equal(back.numpy(), numbers().T)
    half = torch.arange(1000, dtype=torch.bfloat16, device="cuda")
    torch.cuda.synchronize()
    other = torch.zeros(1000, dtype=torch.bfloat16, device="cuda")
    torch.cuda.synchronize()
    engine.copy(half, other).wait(timeout=20)
    assert torch.equal(half, other)


def test_an_array_of_cupy_names_its_stream(engine: ts.Engine, cupy: Any) -> None:
    target = np.zeros((ROWS, COLUMNS), "f4")
    with cupy.cuda.Stream(non_blocking=True):
        array = cupy.zeros((ROWS, COLUMNS), "f4")
        for _ in range(200):  # The additions keep the stream busy.
            array += 1
        engine.copy(array, target).wait(timeout=20)
    assert (target == 200).all()


def test_managed_memory(engine: ts.Engine, cupy: Any) -> None:
    memory = cupy.cuda.malloc_managed(ROWS * COLUMNS * 4)
    array = cupy.ndarray((ROWS, COLUMNS), "f4", memory)
    engine.copy(numbers(), array).wait(timeout=20)
    assert np.array_equal(array.get(), numbers())
    back = np.zeros((COLUMNS, ROWS), "f4")
    engine.copy(array.T, back).wait(timeout=20)
    assert np.array_equal(back, numbers().T)


def test_memory_that_cuda_pinned(engine: ts.Engine, cupy: Any) -> None:
    memory = cupy.cuda.alloc_pinned_memory(ROWS * COLUMNS * 4)
    host = np.frombuffer(memory, "f4", ROWS * COLUMNS).reshape(ROWS, COLUMNS)
    host[:] = numbers()
    device = on_gpu(engine, np.zeros((ROWS, COLUMNS), "f4"))
    event = engine.copy(host, device)
    event.wait(timeout=20)
    assert str(event.plan).startswith("node0/pinned0")
    assert np.array_equal(device.numpy(), numbers())


def test_an_array_is_pinned_where_it_lies(engine: ts.Engine) -> None:
    values = numbers()
    device = on_gpu(engine, np.zeros((COLUMNS, ROWS), "f4"))
    with engine.pin(values):
        event = engine.copy(values.T, device)
        event.wait(timeout=20)
        assert str(event.plan) == "node0/pinned0 > node0/device0"
    assert str(engine.plan(values.T, device)).startswith("node0/host0")
    assert np.array_equal(device.numpy(), values.T)


@pytest.mark.parametrize("bytes_of_each", [4096, 65536, 262144])
def test_neighbours_that_are_pinned_apart(engine: ts.Engine, bytes_of_each: int) -> None:
    copy_neighbours_that_are_pinned_apart(engine, bytes_of_each)


def test_an_array_that_is_pinned_in_part(engine: ts.Engine) -> None:
    copy_an_array_that_is_pinned_in_part(engine)


def test_an_array_of_jax_is_a_source(engine: ts.Engine) -> None:
    jax = pytest.importorskip("jax")
    array = jax.numpy.arange(1000, dtype="float32")
    array.block_until_ready()
    target = np.zeros(1000, "f4")
    engine.copy(array, target).wait(timeout=20)
    assert np.array_equal(target, np.arange(1000, dtype="f4"))


def test_too_much_memory_is_refused_and_nothing_is_lost(engine: ts.Engine) -> None:
    values = numbers()
    device = on_gpu(engine, values)
    with pytest.raises((ts.Error, MemoryError), match="memory"):
        engine.empty(1 << 46, "u1", memory="device0")
    assert np.array_equal(device.numpy(), values)
    back = on_gpu(engine, np.zeros_like(values))
    engine.copy(device, back).wait(timeout=20)
    assert np.array_equal(back.numpy(), values)


@pytest.mark.skipif(len(found) < 2, reason="needs two GPUs")
def test_a_gpu_that_this_process_does_not_see(exporter: Any) -> None:
    """The process sees one GPU, as job schedulers arrange; the array lies on another one."""
    server: Exporter = exporter("--gpu", "--bytes", str(1 << 20))
    printed = run_script(
        """
        import os, sys
        os.environ["CUDA_VISIBLE_DEVICES"] = "0"
        import numpy as np, tranship as ts
        with ts.Engine() as engine:
            remote = engine.connect(sys.argv[1])["device"]
            target = np.zeros(1 << 20, "u1")
            engine.copy(remote, target).wait(timeout=20)
            engine.copy(np.ones(1 << 20, "u1"), remote).wait(timeout=20)
            print(int(target.sum(dtype="i8")))
        """,
        server.contact,
    )
    assert int(printed) == int(np.resize(np.arange(256, dtype="u1"), 1 << 20).sum(dtype="i8"))
    assert server.ask("sum device") == str(1 << 20)


def test_a_driver_that_hides_all_gpus() -> None:
    printed = run_script(
        """
        import os
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        import numpy as np, tranship as ts
        with ts.Engine() as engine:
            target = np.zeros(1000)
            engine.copy(np.ones(1000), target).wait(timeout=20)
            try:
                engine.empty(1000, memory="device0")
            except ts.Error as error:
                print(int(target.sum()), error)
        """
    )
    assert printed.startswith("1000 ") and "GPU" in printed
