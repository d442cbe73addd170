"""Several short copies inside a GPU in one call, from Python, beside PyTorch's copies."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tranship.engine import Engine

from ..harness import Bench, Bytes, as_bytes, nothing, random_bytes, require, same, waited
from ..registry import measures
from .copies import Side, find_library, gpu_engine

PAIRS = 1000
PAIR_BYTES = 1024

Pairs = list[tuple[Any, Any]]


@measures("gpu-calls", "several short copies inside a GPU in one call, beside PyTorch")
def gpu_calls(bench: Bench) -> None:
    """Measures three faces of fields and a thousand pairs, each call waited for."""
    with gpu_engine(bench) as engine:
        torch = find_library(engine, "torch")
        for side in (bench.pick(64, 8), bench.pick(256, 16)):
            for width in (1, 2):
                faces(bench, engine, torch, side, width)
        for pair_bytes in (PAIR_BYTES, 32 * PAIR_BYTES):
            pairs(bench, engine, torch, pair_bytes)
        transposes(bench, engine, torch)
        if torch is not None:
            other_pairs(bench, engine, torch)


def ways_of(engine: Engine, torch: Any, given: Pairs) -> dict[str, Callable[[], object]]:
    """Returns the ways to carry all pairs: of PyTorch's tensors where it is there, and waited for
    by the caller; else of the engine's arrays.
    """
    if torch is None:
        prepared = engine.prepare_all(given)
        together = partial(engine.copy_all, given)
        return {"copy_all": waited(together), "prepared": waited(prepared.start)}
    tensors = [[torch.as_tensor(end, device="cuda") for end in pair] for pair in given]
    sources, targets = (list(some) for some in zip(*tensors, strict=True))
    moves = list(zip(sources, targets, strict=True))
    prepared = engine.prepare_all(moves)
    stream = torch.cuda.current_stream()

    def by_copies() -> None:
        for source, target in moves:
            target.copy_(source)

    return {
        "copy_all": lambda: engine.copy_all(moves, stream=stream),
        "prepared": lambda: prepared.start(stream=stream),
        "PyTorch, copy_": by_copies,
        "PyTorch, _foreach_copy_": lambda: torch._foreach_copy_(targets, sources),
    }


def measure(
    bench: Bench,
    engine: Engine,
    torch: Any,
    case: str,
    given: Pairs,
    targets: list[Side],
    wanted: Bytes,
    rounds: int,
) -> None:
    """Checks each way, and reports the seconds of each; the ways take turns."""
    wait = nothing if torch is None else torch.cuda.synchronize
    works = ways_of(engine, torch, given)
    for name, work in works.items():  # what is made once, and whether it is right
        for side in targets:
            side.spoil()
        for _ in range(3):
            work()
        wait()
        require(same(np.concatenate([side.read() for side in targets]), wanted), f"{case}, {name}")
    bench.measure_calls(case, works, wanted.size, 1, rounds, wait)


def faces(bench: Bench, engine: Engine, torch: Any, side: int, width: int) -> None:
    """Measures the first layers along each dimension of a field, each packed into an array."""
    shape = (side, side, side)
    field = Side(engine, "device0", shape, "f4")
    data = random_bytes(field.nbytes)
    field.write(data)
    values = data.view("f4").reshape(shape)
    some, every = slice(width), slice(None)
    boxes = [(some, every, every), (every, some, every), (every, every, some)]
    targets = [Side(engine, "device0", values[box].shape, "f4") for box in boxes]
    given = [(field.array[box], one.array) for box, one in zip(boxes, targets, strict=True)]
    wanted = as_bytes(np.concatenate([values[box].reshape(-1) for box in boxes]))
    case = f"three faces, {width} wide, of a field of {side} x {side} x {side}"
    measure(bench, engine, torch, case, given, targets, wanted, bench.pick(300, 3))


def pairs(bench: Bench, engine: Engine, torch: Any, pair_bytes: int) -> None:
    """Measures rows of two arrays, which are arrays of their own for the call."""
    shape = (bench.pick(PAIRS, 20), pair_bytes // 4)
    source, target = (Side(engine, "device0", shape, "f4") for _ in range(2))
    data = random_bytes(source.nbytes)
    source.write(data)
    given = [(source.array[k], target.array[k]) for k in range(shape[0])]
    case = f"{shape[0]} pairs of {pair_bytes} B"
    measure(bench, engine, torch, case, given, [target], data, bench.pick(60, 2))


def transposes(bench: Bench, engine: Engine, torch: Any) -> None:
    """Measures matrices of 48 KiB, each of which is transposed."""
    count, rows, columns = bench.pick(PAIRS, 20), 96, 128
    source = Side(engine, "device0", (count, rows, columns), "f4")
    target = Side(engine, "device0", (count, columns, rows), "f4")
    data = random_bytes(source.nbytes)
    source.write(data)
    matrices = data.view("f4").reshape(count, rows, columns)
    wanted = as_bytes(np.ascontiguousarray(matrices.transpose(0, 2, 1)))
    given = [(source.array[k].T, target.array[k]) for k in range(count)]
    case = f"{count} transposes of {rows} x {columns}"
    measure(bench, engine, torch, case, given, [target], wanted, bench.pick(30, 2))


def other_pairs(bench: Bench, engine: Engine, torch: Any) -> None:
    """Measures lists of a thousand pairs of which none comes twice: the targets change places."""
    count, rounds = bench.pick(PAIRS, 20), bench.pick(60, 2)
    shape = (count, PAIR_BYTES // 4)
    source, target = (torch.empty(shape, device="cuda") for _ in range(2))
    source.copy_(torch.rand(shape))
    sources, targets = list(source), list(target)
    stream = torch.cuda.current_stream()
    seconds: dict[str, list[float]] = {"copy_all": [], "PyTorch, _foreach_copy_": []}
    random = np.random.default_rng(1)
    for _ in range(rounds):
        order = random.permutation(count)
        there = [targets[k] for k in order]
        given = list(zip(sources, there, strict=True))
        for name, work in (
            ("copy_all", partial(engine.copy_all, given, stream=stream)),
            ("PyTorch, _foreach_copy_", partial(torch._foreach_copy_, there, sources)),
        ):
            target.zero_()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            work()
            torch.cuda.synchronize()
            seconds[name].append(time.perf_counter() - begin)
            arrived = target[torch.as_tensor(order, device="cuda")]
            require(torch.equal(arrived, source), f"other pairs, {name}")
    case = f"{count} other pairs of {PAIR_BYTES} B each time"
    bench.report(case, seconds, count * PAIR_BYTES, conditions={"timed": "python"})
