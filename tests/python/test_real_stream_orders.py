"""Real GPUs only: random programs of PyTorch, CuPy and JAX, and of copies between their arrays.

Kernels, copies, frees, streams and events, of all GPUs; the same steps in NumPy say what each array
has to hold. `TRANSHIP_TEST_SECONDS=600` tries programs for ten minutes.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import tranship as ts
from support import PATIENCE
from tranship.hardware import hardware

found = hardware()["gpus"]
pytestmark = pytest.mark.skipif(not found, reason="this machine has no GPU")

SECONDS = float(os.environ.get("TRANSHIP_TEST_SECONDS", "10"))
FIRST_SEED = int(os.environ.get("TRANSHIP_TEST_FIRST_SEED", "1"))
STEPS = 60
BUSY_CYCLES = 3_000_000
"""Most GPU cycles of a kernel before another one: some 2 ms."""
SHAPES = ((7, 5), (64, 48), (257, 129), (1024, 768))


@pytest.fixture(scope="module")
def engine() -> Iterator[ts.Engine]:
    with ts.Engine() as opened:
        yield opened


class Torch:
    """PyTorch: its tensors, and a current stream on each GPU."""

    def __init__(self, stack: ExitStack) -> None:
        self.torch = pytest.importorskip("torch")
        self.streams = [
            [
                self.torch.cuda.default_stream(d),
                self.torch.cuda.Stream(d),
                self.torch.cuda.Stream(d),
            ]
            for d in range(len(found))
        ]
        self.current = [streams[0] for streams in self.streams]
        stack.callback(lambda: [self.torch.cuda.set_stream(one[0]) for one in self.streams])

    def switch(self, pick: random.Random) -> None:
        """Goes on in another stream of each GPU, behind the one so far."""
        for device, streams in enumerate(self.streams):
            chosen = pick.choice(streams)
            chosen.wait_stream(self.current[device])
            for other, current in enumerate(self.current):
                if other != device:
                    chosen.wait_stream(current)
            self.torch.cuda.set_stream(chosen)
            self.current[device] = chosen

    def busy(self, device: int, cycles: int) -> None:
        with self.torch.cuda.device(device):
            self.torch.cuda._sleep(cycles)

    def make(self, shape: tuple[int, ...], device: int, value: int) -> Any:
        return self.torch.full(shape, float(value), device=f"cuda:{device}")

    def fill(self, array: Any, value: int) -> None:
        array.fill_(float(value))

    def read(self, array: Any) -> Any:
        return array.cpu().numpy()

    def synchronize(self) -> None:
        for device in range(len(found)):
            self.torch.cuda.synchronize(device)


class Cupy:
    """CuPy: its arrays, and a current stream on each GPU."""

    def __init__(self, stack: ExitStack) -> None:
        self.cupy = pytest.importorskip("cupy")
        self.streams = []
        self.spin = self.cupy.RawKernel(
            'extern "C" __global__ void spin(long long n)'
            "{ long long b = clock64(); while (clock64() - b < n) {} }",
            "spin",
        )
        for device in range(len(found)):
            with self.cupy.cuda.Device(device):
                self.streams.append(
                    [self.cupy.cuda.Stream.null, self.cupy.cuda.Stream(non_blocking=True)]
                )
        self.current = [streams[0] for streams in self.streams]

    def on(self, device: int) -> ExitStack:
        stack = ExitStack()
        stack.enter_context(self.cupy.cuda.Device(device))
        return stack

    def switch(self, pick: random.Random) -> None:
        for device, streams in enumerate(self.streams):
            with self.on(device):
                chosen = pick.choice(streams)
                chosen.wait_event(self.current[device].record())
                chosen.use()
                self.current[device] = chosen

    def busy(self, device: int, cycles: int) -> None:
        with self.on(device):
            self.spin((1,), (1,), (np.int64(cycles),))

    def make(self, shape: tuple[int, ...], device: int, value: int) -> Any:
        with self.on(device):
            return self.cupy.full(shape, value, "f4")

    def fill(self, array: Any, value: int) -> None:
        with self.on(array.device.id):
            array.fill(value)

    def read(self, array: Any) -> Any:
        with self.on(array.device.id):
            return self.cupy.asnumpy(array)

    def synchronize(self) -> None:
        for device in range(len(found)):
            with self.on(device):
                self.cupy.cuda.Device(device).synchronize()


CALLS: dict[str, Callable[[ts.Engine, Any, Any], ts.Event]] = {
    "copy": lambda engine, a, b: engine.copy(a, b),
    "copy_all": lambda engine, a, b: engine.copy_all([(a[:1], b[:1]), (a[1:], b[1:])]),
    "copy_pages": lambda engine, a, b: engine.copy_pages(
        a, b, list(range(a.shape[0])), list(range(a.shape[0]))
    ),
    "copy_pieces": lambda engine, a, b: engine.copy_pieces(
        a, b, [0], [0], [4 * int(np.prod(a.shape))]
    ),
    "types": lambda engine, a, b: engine.copy(
        a, b, types=(ts.types.contiguous(int(np.prod(a.shape)), "f4"),) * 2
    ),
    "prepared": lambda engine, a, b: engine.prepare(a, b).start(),
}


class Story:
    """A random program, and what each array has to hold after it.

    Attributes:
        arrays: Arrays of the libraries, each with its library and its value.
        hosts: NumPy arrays, pageable and pinned, with their values.
    """

    def __init__(self, engine: ts.Engine, libraries: list[Any], seed: int) -> None:
        self.engine, self.libraries, self.pick = engine, libraries, random.Random(seed)
        self.shape = self.pick.choice(SHAPES)
        self.arrays = [self.new_array() for _ in range(6)]
        self.hosts: list[list[Any]] = [[np.zeros(self.shape, "f4"), 0] for _ in range(2)]
        for _ in range(2):
            pinned = engine.empty(self.shape, "f4", memory="pinned")
            pinned[:] = 0
            self.hosts.append([pinned, 0])
        self.events: list[ts.Event] = []
        self.prepared: dict[tuple[int, int], Any] = {}
        self.calls = 0

    def new_array(self) -> list[Any]:
        library = self.pick.choice(self.libraries)
        value = self.pick.randrange(1, 1000)
        return [library.make(self.shape, self.pick.randrange(len(found)), value), value, library]

    def settle(self) -> None:
        for event in self.events:
            event.wait(timeout=PATIENCE)
        self.events.clear()

    def step(self) -> None:
        chance = self.pick.random()
        entry = self.pick.choice(self.arrays)
        if chance < 0.2:
            cycles = self.pick.randrange(BUSY_CYCLES)
            entry[2].busy(self.pick.randrange(len(found)), cycles)
        elif chance < 0.4:
            entry[1] = self.pick.randrange(1, 1000)
            entry[2].fill(entry[0], entry[1])
        elif chance < 0.45:
            self.pick.choice(self.libraries).switch(self.pick)
        elif chance < 0.55:  # frees one: its memory may be the next one's
            self.prepared.clear()
            self.arrays = [other for other in self.arrays if other is not entry]
            del entry
            self.arrays.append(self.new_array())
        elif chance < 0.6:
            self.settle()
            host = self.pick.choice(self.hosts)
            host[1] = self.pick.randrange(1, 1000)
            host[0][:] = host[1]
        else:
            self.copy()

    def copy(self) -> None:
        source, target = self.pick.sample([*self.arrays, *self.arrays, *self.hosts], 2)
        if source is target:
            return
        if len(source) == 2 or len(target) == 2:
            self.settle()  # a host array is the caller's, who waits before the next use
        name = self.pick.choice(list(CALLS))
        self.calls += 1
        if name == "prepared" and self.pick.random() < 0.7:
            key = (id(source), id(target))
            if key not in self.prepared:
                self.prepared[key] = self.engine.prepare(source[0], target[0])
            event = self.prepared[key].start()
        else:
            event = CALLS[name](self.engine, source[0], target[0])
        self.events.append(event)
        target[1] = source[1]

    def check(self, seed: int) -> None:
        self.settle()
        for entry in self.arrays:
            held = entry[2].read(entry[0])
            assert (held == entry[1]).all(), f"seed {seed}: {held.flat[0]}, not {entry[1]}"
        for host, value in self.hosts:
            assert (host == value).all(), f"seed {seed}: {host.flat[0]}, not {value}"


@pytest.mark.timeout(SECONDS + 240)
def test_random_programs(engine: ts.Engine) -> None:
    with ExitStack() as stack:
        libraries = [kind(stack) for kind in (Torch, Cupy)]
        end = time.monotonic() + SECONDS
        calls = 0
        for seed in itertools.count(FIRST_SEED):
            story = Story(engine, libraries, seed)
            for _ in range(STEPS):
                story.step()
            story.check(seed)
            calls += story.calls
            if time.monotonic() > end:
                break
        for library in libraries:
            library.synchronize()
        print(f"{seed - FIRST_SEED + 1} programs, {calls} copies")


def test_arrays_of_jax_are_computed_before_they_are_copied(engine: ts.Engine) -> None:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    torch = pytest.importorskip("torch")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX was built without CUDA")
    rows = jax.numpy.arange(2048.0, dtype="float32")

    @jax.jit
    def slow(factor: float) -> Any:
        value = jax.numpy.outer(rows, rows) / 1e6
        for _ in range(10):
            value = value @ jax.numpy.eye(2048, dtype="float32")
        return jax.numpy.full((1024, 512), factor) + 0 * value[:1024, :512]

    for turn in range(10):
        made = slow(float(turn))
        tensor = torch.zeros((1024, 512), device="cuda")
        host = np.zeros((1024, 512), "f4")
        engine.copy(made, tensor)
        assert bool((tensor == turn).all())
        engine.copy(slow(float(turn)), host).wait(timeout=PATIENCE)
        assert (host == turn).all()


def test_a_tensor_that_another_thread_s_stream_writes(engine: ts.Engine) -> None:
    """The current stream is the calling thread's."""
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream()
    source, target = (torch.zeros(1 << 20, device="cuda") for _ in range(2))
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        source.fill_(3)
        engine.copy(source, target)
    stream.synchronize()
    assert bool((target == 3).all())


def test_a_captured_copy_needs_no_stream(engine: ts.Engine) -> None:
    torch = pytest.importorskip("torch")
    source, target = (torch.zeros(1 << 16, device="cuda") for _ in range(2))
    host = np.zeros(1 << 16, "f4")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        engine.copy(source, target)
    with (
        pytest.raises(ts.InvalidArgument, match="captured"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        engine.copy(host, target)
    torch.cuda.synchronize()
    for value in (4, 5):
        source.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert bool((target == value).all())
