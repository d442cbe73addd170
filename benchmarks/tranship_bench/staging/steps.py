"""Many variables in one step of a staging server, beside one variable of as many bytes.

- 100 variables of 64 KiB, 64 of 4 MiB, and random mixes: 1 to 200 variables of 8 B to 16 MiB, 256
  MiB at most in all. `--seed N` and `--cases N` say which mixes, the same on every machine.
- A put is a whole step, from its begin to its end. A get is that of a reader: the question for the
  step, and all its variables, into arrays that are there, or, `new arrays`, into new ones.
- `one by one` puts and gets each variable by a call of its own, `begun together` with `put_async`,
  and `put_all` and `get_all` all of them by one call, where steps have these.
- `staging-steps` has NumPy's arrays, `gpu-staging-steps` those of a GPU; one client, one server,
  which keeps objects in host memory.
- The ratio is to `one variable`, put and got within a step, too. After each repetition, every
  variable is compared, outside the time.
"""

from __future__ import annotations

import inspect
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tranship.engine import Engine
from tranship.staging import Staging
from tranship.staging.step_writer import StepWriter
from tranship.staging.steps import Step

from ..gpu.copies import MiB, Side, gpu_engine
from ..harness import Bench, Bytes, Variant, as_bytes, random_bytes, same, timed
from ..quantiles import Outcome, report_quantiles
from ..registry import SeedOptions, measures
from .boxes import server_process

ONE = "one variable"
KEPT = 3
"""Steps that the server keeps: gets read the last one with one variable, and with many."""
VARIABLES_MAX = 200
MANY = 20
"""Variables from which on a mix has many."""
BYTES_LEAST, BYTES_MAX = 8, 16 * MiB
"""Sizes of the variables of random mixes."""
MIX_BYTES_MAX = 256 * MiB

Arrays = Mapping[str, Any]
Way = Callable[[Any, Arrays], Arrays]
"""Puts arrays by their names, which it returns; or gets them into arrays, or new ones."""


@dataclass(frozen=True)
class Mix:
    """The variables of a step.

    Attributes:
        name: Name of the case.
        shapes: Extents of each, of float64.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]

    @property
    def nbytes(self) -> int:
        """Returns the bytes of all."""
        return sum(8 * math.prod(shape) for shape in self.shapes)


def alike(count: int, shape: tuple[int, ...]) -> Mix:
    """Returns a mix of variables of one size."""
    return Mix(f"{count} x {size_text(8 * math.prod(shape))}", (shape,) * count)


def size_text(count: int) -> str:
    """Returns a number of bytes with a unit."""
    for unit, name in ((MiB, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.{0 if count % unit == 0 or count >= 100 * unit else 1}f} {name}"
    return f"{count} B"


def random_mixes(seed: int, count: int, bytes_max: int = MIX_BYTES_MAX) -> Iterator[Mix]:
    """Yields mixes; a seed gives the same ones everywhere.

    Half of the mixes have 50 variables at most, and each power of two is as likely a size as any
    other. A mix ends with the variable that makes it as large as it may be.
    """
    draw = random.Random(seed)
    for number in range(count):
        variables = 1 + int(VARIABLES_MAX * draw.random() ** 2)
        shapes: list[tuple[int, ...]] = []
        left = bytes_max
        while len(shapes) < variables and left >= BYTES_LEAST:
            power = int((BYTES_MAX // BYTES_LEAST).bit_length() * draw.random())
            size = int((BYTES_LEAST << power) * (1 + draw.random()) / 2)
            shape = drawn_shape(draw, max(min(size, left) // 8, 1))
            shapes.append(shape)
            left -= 8 * math.prod(shape)
        ending = "" if len(shapes) == 1 else "s"
        name = f"mix {number}: {len(shapes)} variable{ending}, {size_text(bytes_max - left)}"
        yield Mix(name, tuple(shapes))


def drawn_shape(draw: random.Random, elements: int) -> tuple[int, ...]:
    """Returns extents of one to three dimensions, with so many elements or a few less."""
    shape = []
    for left in range(1 + int(3 * draw.random()), 1, -1):
        shape.append(1 << (elements.bit_length() - 1) // left)
        elements //= shape[-1]
    return (*shape, elements)


def put_each(step: Any, arrays: Arrays) -> Arrays:
    """Puts variables one by one."""
    for name, array in arrays.items():
        step.put(name, array)
    return arrays


def put_begun(step: Any, arrays: Arrays) -> Arrays:
    """Begins to put all variables; the end of the step waits for them."""
    for name, array in arrays.items():
        step.put_async(name, array)
    return arrays


def put_all(step: Any, arrays: Arrays) -> Arrays:
    """Puts all variables by one call."""
    step.put_all(arrays)
    return arrays


def get_each(step: Any, arrays: Arrays) -> Arrays:
    """Gets variables one by one into arrays."""
    return {name: step[name].get(out=array) for name, array in arrays.items()}


def get_each_new(step: Any, arrays: Arrays) -> Arrays:
    """Gets variables one by one into new arrays."""
    return {name: step[name].get() for name in arrays}


def get_all(step: Any, arrays: Arrays) -> Arrays:
    """Gets all variables by one call into arrays."""
    found: Arrays = step.get_all(out=arrays)
    return found


def get_all_new(step: Any, arrays: Arrays) -> Arrays:
    """Gets all variables by one call into new arrays."""
    found: Arrays = step.get_all(list(arrays))
    return found


def put_ways() -> dict[str, Way]:
    """Returns the ways to put variables that steps have."""
    ways: dict[str, Way] = {"one by one": put_each, "begun together": put_begun}
    return ways | ({"put_all": put_all} if hasattr(StepWriter, "put_all") else {})


def get_ways(*, new: bool) -> dict[str, Way]:
    """Returns the ways to get variables that steps have, into new arrays or others."""
    ways: dict[str, Way] = {"one by one": get_each_new if new else get_each}
    found = getattr(Step, "get_all", None)
    if found and (new or "out" in inspect.signature(found).parameters):
        ways["get_all"] = get_all_new if new else get_all
    return ways


class Load:
    """The variables of a mix, or one variable of as many bytes: sources, targets, and last step.

    Args:
        session: Client and memory.
        prefix: What the variables' names begin with.
        shapes: Extents of the variables, of float64.
    """

    def __init__(self, session: Session, prefix: str, shapes: Sequence[tuple[int, ...]]) -> None:
        self._session = session
        self._sources: dict[str, Side] = {}
        self._targets: dict[str, Side] = {}
        self._expected: dict[str, Bytes] = {}
        begin = 0
        for number, shape in enumerate(shapes):
            name, count = f"{prefix}{number}", 8 * math.prod(shape)
            self._sources[name] = Side(session.engine, session.memory, shape, "f8")
            self._targets[name] = Side(session.engine, session.memory, shape, "f8")
            self._expected[name] = session.data[begin : begin + count]
            self._sources[name].write(self._expected[name])
            begin += count
        self._puts = {name: side.array for name, side in self._sources.items()}
        self._gets = {name: side.array for name, side in self._targets.items()}
        self._number = 0
        self._got: Arrays = {}

    def put(self, way: Way) -> None:
        """Writes a step."""
        self._number = next(self._session.numbers)
        with self._session.client.step(self._number) as step:
            way(step, self._puts)

    def get(self, way: Way) -> None:
        """Reads the last step."""
        with self._session.client.steps(start=self._number, timeout=60) as steps:
            self._got = way(next(steps), self._gets)

    def spoil(self) -> None:
        """Spoils the targets."""
        self._got = {}
        for side in self._targets.values():
            side.spoil()

    def arrived(self) -> bool:
        """Returns whether all that was got is what was put."""
        if self._got.keys() != self._expected.keys():
            return False
        return all(
            self._targets[name].holds(wanted)
            if self._got[name] is self._gets[name]
            else same(as_bytes(self._got[name]), wanted)
            for name, wanted in self._expected.items()
        )

    def putting(self, name: str, way: Way) -> Variant:
        """Returns the variant that writes a step; it is read and compared afterwards."""

        def check() -> bool:
            self.spoil()
            self.get(get_each)
            return self.arrived()

        return Variant(name, timed(lambda: self.put(way)), check)

    def getting(self, name: str, way: Way) -> Variant:
        """Returns the variant that reads the last step."""
        return Variant(name, timed(lambda: self.get(way)), self.arrived, self.spoil)


class Session:
    """A client of a server that keeps `KEPT` steps, and the bytes that are put.

    Args:
        bench: Benchmark that reports.
        client: The client.
        engine: Its engine.
        memory: Memory of the arrays: "pageable" or "device0".
        bytes_max: Largest size of a step.
    """

    def __init__(
        self, bench: Bench, client: Staging, engine: Engine, memory: str, bytes_max: int
    ) -> None:
        self.bench = bench
        self.client = client
        self.engine = engine
        self.memory = memory
        self.data = random_bytes(bytes_max)
        self.numbers = itertools.count()
        self._loads = itertools.count()
        client.define_steps(queue=KEPT, full="drop-oldest")
        touched = Load(self, "touched", [(bytes_max // 8,)])
        for _ in range(KEPT + 2):
            touched.put(put_each)

    def loads(self, mix: Mix) -> tuple[Load, Load]:
        """Returns one variable of as many bytes, and the variables of a mix."""
        number = next(self._loads)
        whole = [(mix.nbytes // 8,)]
        return Load(self, f"whole {number}.", whole), Load(self, f"part {number}.", mix.shapes)

    def measure_puts(
        self, mix: Mix, loads: tuple[Load, Load], ways: Mapping[str, Way], rounds: int
    ) -> dict[str, float]:
        """Measures the puts of a mix; returns the median seconds by way."""
        one, many = loads
        variants = [one.putting(ONE, put_each)]
        variants += [many.putting(name, way) for name, way in ways.items()]
        return self.bench.measure(f"put {mix.name}", variants, mix.nbytes, rounds, ONE)

    def measure_gets(
        self, mix: Mix, loads: tuple[Load, Load], rounds: int, *, new: bool = False
    ) -> dict[str, float]:
        """Measures the gets of a mix, into new arrays or others; returns the seconds by way."""
        one, many = loads
        for load in loads:
            load.put(put_each)
        variants = [one.getting(ONE, get_each_new if new else get_each)]
        variants += [many.getting(name, way) for name, way in get_ways(new=new).items()]
        case = f"get {mix.name}, new arrays" if new else f"get {mix.name}"
        return self.bench.measure(case, variants, mix.nbytes, rounds, ONE)


@measures("staging-steps", "many variables in a step, beside one of as many bytes", SeedOptions)
def staging_steps(bench: Bench) -> None:
    """Measures NumPy's arrays."""
    with Engine() as engine:
        measure_steps(bench, engine, "pageable")


@measures(
    "gpu-staging-steps", "a GPU's variables in a step, beside one of as many bytes", SeedOptions
)
def gpu_staging_steps(bench: Bench) -> None:
    """Measures arrays of a GPU."""
    with gpu_engine(bench) as engine:
        measure_steps(bench, engine, "device0")


def measure_steps(bench: Bench, engine: Engine, memory: str) -> None:
    """Measures variables of one size, and random mixes, in one memory."""
    count, bytes_max = bench.draw_count(20, 2), bench.pick(MIX_BYTES_MAX, MiB)
    room = (KEPT + 3) * bytes_max + 64 * MiB
    with (
        server_process(room, options=("--versions", "0")) as (contact, _),
        Staging(contact, engine=engine) as client,
    ):
        session = Session(bench, client, engine, memory, bytes_max)
        full, small = [(100, (128, 64)), (64, (1024, 512))], [(5, (16, 8))]
        for variables, shape in bench.pick(full, small):
            mix = alike(variables, shape)
            loads = session.loads(mix)
            session.measure_puts(mix, loads, put_ways(), 15)
            session.measure_gets(mix, loads, 15)
            if memory == "pageable":
                session.measure_gets(mix, loads, 15, new=True)
        mixed(bench, session, random_mixes(bench.options.seed, count, bytes_max))


def mixed(bench: Bench, session: Session, mixes: Iterable[Mix]) -> None:
    """Measures random mixes, and reports quantiles of the rates over those of one variable."""
    found: dict[str, dict[str, list[Outcome]]] = {}
    for mix in mixes:
        loads = session.loads(mix)
        ways = {name: way for name, way in put_ways().items() if way is not put_begun}
        puts = session.measure_puts(mix, loads, ways, 5)
        gets = session.measure_gets(mix, loads, 5)
        for kind, medians in (("puts", puts), ("gets", gets)):
            for name in medians.keys() - {ONE}:
                outcome = Outcome.of(
                    f"{kind}, {mix.name}", kind, mix.nbytes, medians, name, ONE, ""
                )
                groups = found.setdefault(name, {})
                groups.setdefault(f"{kind} of mixes", []).append(outcome)
                if len(mix.shapes) >= MANY:
                    groups.setdefault(f"{kind} of mixes of {MANY} or more", []).append(outcome)
    for name, groups in found.items():
        report_quantiles(bench, groups, ONE, variant=name)
