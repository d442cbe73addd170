"""Predicted times of plans beside measured times of copies, on this machine's own channels.

- What plans predict beside what the copies take on this machine's channels: in memory, eight
  fields, from and to files, to another process; with and without conversion; 1 to 256 MiB. Caches
  are cold and clean, cores awake.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tranship.arrays import Instance
from tranship.engine import Engine

from ..files.disk import FileSide, bench_folder, both_of, write_file
from ..harness import Array, Bench, Variant, blank_array, same, seeded, spoil, timed
from ..processes.peer import Other
from ..registry import measures

SIZES_MIB = (1, 4, 16, 64, 256)
AWAKE_SECONDS = 0.01
SMALL_COUNT = 1 << 17
WITHIN = 0.2
"""Largest error of a good prediction, as a fraction of the measured time."""


@measures("prediction", "what plans predict beside what copies take, 1 to 256 MiB")
def prediction(bench: Bench) -> None:
    """Measures each case at each size; the last line says how many were within 20 %."""
    bench.cold = False
    found: list[tuple[str, float]] = []
    sizes = SIZES_MIB if bench.full else (1,)
    with bench_folder() as folder, Engine() as engine, Other(engine) as other:
        for size in sizes:
            cases = Cases(bench, engine, other, Path(folder), size)
            for make in (cases.host, cases.fields, cases.reading, cases.writing, cases.process):
                for converts in (False, True):
                    found.append(cases.measure(make, converts))
    near = [name for name, ratio in found if abs(ratio - 1) <= WITHIN]
    far = sorted(f"{name} ({ratio:.2f})" for name, ratio in found if name not in near)
    share = len(near) / len(found)
    conditions = {"near": len(near), "of": len(found), "off": far, "statistic": "share"}
    case = f"predictions within {WITHIN:.0%} of the measured time"
    bench.emit(case, "tranship", 0, [share], conditions=conditions)


Made = tuple[str, Any, Any, Callable[[], bool], Callable[[], None]]


class Cases:
    """The cases of one size: square matrices of f4, and eight fields of f4."""

    def __init__(
        self, bench: Bench, engine: Engine, other: Other, folder: Path, size_mib: int
    ) -> None:
        self.bench = bench
        self.engine = engine
        self.other = other
        self.folder = folder
        self.count = size_mib << 20
        side = math.isqrt(self.count // 4)
        self.shape = (side, self.count // 4 // side)
        self.label = f"{size_mib} MiB"
        self.source = seeded(self.shape, "f4")
        self.small = (np.zeros(SMALL_COUNT), np.zeros(SMALL_COUNT))
        self.there = other.array(f"small {size_mib}", "plain", (SMALL_COUNT,), "f8")

    def measure(self, make: Callable[[bool], Made], converts: bool) -> tuple[str, float]:
        """Reports a case; returns its name and the predicted over the measured time."""
        name, source, target, check, prepare = make(converts)
        case = f"{name}{', converted' if converts else ''}, {self.label}"
        plan = self.engine.plan(source, target)

        def prepare_clean() -> None:
            prepare()
            # The caches hold none of the copy's data and no data that are still to be written.
            self.bench.read_through_caches()
            self.wake()

        run = timed(lambda: self.engine.copy(source, target).wait())
        conditions = {"predicted_s": plan.seconds, "path": plan.path}
        way = Variant("tranship", run, check, prepare_clean, conditions)
        medians = self.bench.measure(case, [way], self.count, 9)
        return case, plan.seconds / medians["tranship"]

    def wake(self) -> None:
        """Makes small copies for some milliseconds: idle cores of a VM take long to wake."""
        begin = time.perf_counter()
        while self.bench.full and time.perf_counter() - begin < AWAKE_SECONDS:
            for target in (self.small[1], self.there):
                self.engine.copy(self.small[0], target).wait()

    def laid(self, converts: bool) -> Array:
        """Returns the source, or its transpose in memory order."""
        return np.ascontiguousarray(self.source.T) if converts else self.source

    def host(self, converts: bool) -> Made:
        """Returns the case in this process: the same layout, or transposed."""
        target = blank_array(self.shape, "f4")
        view = target.T if converts else target
        source = self.laid(converts)
        return "host", source, view, lambda: same(target, self.source), lambda: spoil(target)

    def fields(self, converts: bool) -> Made:
        """Returns the case of eight fields of f4: records to records, or to one array a field."""
        how: dict[str, Any] = {
            "extents": {"x": self.count // 32},
            "fields": {f"f{k}": "f4" for k in range(8)},
        }
        records = self.source.reshape(-1)[: self.count // 4]
        wanted = records.reshape(-1, 8)
        wanted = np.ascontiguousarray(wanted.T) if converts else wanted
        target = blank_array((self.count,), "u1")
        source = Instance(records, layout="F, x", **how)
        into = Instance(target, layout="x, F" if converts else "F, x", **how)
        return "eight fields", source, into, lambda: same(target, wanted), lambda: spoil(target)

    def reading(self, converts: bool) -> Made:
        """Returns the case from a file that is not in the page cache."""
        path = self.folder / "in.bin"
        write_file(path, self.source, self.source.nbytes)
        wanted = self.laid(converts)
        target = blank_array(wanted.shape, "f4")
        source = FileSide(path, extents=self.shape, fields="f4")
        view = target.T if converts else target
        prepare = both_of(lambda: spoil(target), source.forget)
        return "file to memory", source.array, view, lambda: same(target, wanted), prepare

    def writing(self, converts: bool) -> Made:
        """Returns the case to a file whose blocks are allocated."""
        path = self.folder / "out.bin"
        write_file(path, None, self.source.nbytes)
        view = self.source.T if converts else self.source
        wanted = self.laid(converts)
        target = FileSide(path, extents=view.shape, fields="f4")
        return "memory to file", view, target.array, lambda: target.holds(wanted), target.spoil

    def process(self, converts: bool) -> Made:
        """Returns the case to a plain array of another process."""
        name = f"{'transposed' if converts else 'plain'} {self.label}"
        view = self.source.T if converts else self.source
        there = self.other.array(name, "plain", view.shape, "f4")
        check = self.other.checking(name, converts)
        return "another process", view, there, check, self.other.preparing(name)
