"""Figures 7, 9 and 11 of Isometry (ICS'18, sections 6.1, 6.3 and 6.4) measured on this machine:
real files, processes and GPUs of this engine, with every byte compared.

- Cases are named as in the simulated figures (`isometry-figure7` and so on). Another process of
  this machine stands for the other node (a star), so data that the paper sends over InfiniBand
  cross the memory of one machine here, or NVLink (CUDA IPC) between GPUs; there is no card with
  RDMA. Cases whose memories are missing are left out; a note on stderr names each and the reason.
- Instances have 2 Mi points with 8 integers and are submitted at once: 8 of them (512 MiB) in
  Figures 7 and 11, 4 (256 MiB) in Figures 9a and 9b.

``isometry-figure7-measured``: pipelined hops beside sequential ones: each hop is a copy of a whole
instance by this engine, waited for before the next hop; instances on the way lie in pinned memory
here and in shared memory between the processes. "An instance at a time" has room for one, "two
instances overlap" for two.

``isometry-figure9a-measured``, ``isometry-figure9b-measured``: the planners, in one layout, and
from an array of structures to a structure of arrays. A transfer that is predicted to take more than
a second (small runs to a disk) is measured with fewer points; rates compare, and the line's `bytes`
says how many were moved.

``isometry-figure11-measured``: a GPU to the GPU, or the host memory, of another process. The paper
compares with MVAPICH2-GPU (as fast in the same layout, some 4 times slower with a conversion). No
MPI is used here: the other bar is what a program does by hand, whole instances through pinned
memory and shared memory, one hop after the other; to convert, one strided copy for each field packs
the instance on its way to pinned memory. The copies are this engine's.
"""

from __future__ import annotations

import functools
import itertools
import json
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..harness import Bench, SkippedError, Variant, take_turns, timed
from ..registry import measures
from .pipelining import SCENARIOS
from .planners import ALL_PLANNERS, PAIRS, PLAIN_PLANNERS, baseline_of
from .real_places import SHARED, FarStores, Form, LackingError, Stores, World, open_world

FULL_POINTS, SMALL_POINTS = 2 << 20, 1 << 12
FULL_NUMBER, SMALL_NUMBER = 8, 2
WAIT_S = 120.0
OUTER = ("FBM", "DSK")
"""Memories that a network does not reach in the paper."""

IN_TURN = "whole hops, an instance at a time"
OVERLAPPED = "whole hops, two instances overlap"

BANDWIDTHS = (
    ("network (shared memory)", "SYS", f"{SHARED}*"),
    ("disk bandwidth, writing", "SYS", "DSK"),
    ("disk bandwidth, reading", "DSK", "SYS"),
)

SLOW_S = 1.0
"""A transfer that is predicted to take longer is measured with fewer points."""

Ends = tuple[str, str]


def form_of(bench: Bench) -> Form:
    """Returns the form of an instance: 64 MiB in full size, half of the paper's."""
    return Form(bench.pick(FULL_POINTS, SMALL_POINTS))


@dataclass
class Batch:
    """Instances that are transferred at once, from one memory to another."""

    world: World
    ends: Ends
    source: Stores
    target: Stores | FarStores

    @classmethod
    def make(cls, world: World, ends: Ends, forms: tuple[Form, Form], number: int) -> Batch:
        """Returns a batch whose sources are filled.

        Raises:
            LackingError: A memory is missing.
        """
        world.need(*ends)
        source = world.here(ends[0], forms[0], number)
        try:
            source.fill()
            return cls(world, ends, source, world.group(ends[1], forms[1], number))
        except LackingError:
            source.close()
            raise

    @property
    def bytes(self) -> int:
        """Returns the bytes of all instances."""
        return len(self.source.views) * self.source.form.bytes

    def prepare(self) -> None:
        """Spoils the target and drops source files from the cache, before each repetition."""
        self.target.each("spoil")
        self.source.each("forget")

    def transfer(self, planner: Any = "automatic") -> None:
        """Copies all instances at once and waits until the last has reached its target."""
        copy = functools.partial(self.world.engine.copy, planner=planner)
        for event in [*map(copy, self.source.views, self.target.views)]:
            event.wait(timeout=WAIT_S)
        self.target.each("flush")

    def plan(self, planner: Any = "automatic") -> Any:
        """Returns the plan of each transfer."""
        return self.world.engine.plan(self.source.views[0], self.target.views[0], planner=planner)

    def variant(self, name: str, work: Callable[[], object], **conditions: Any) -> Variant:
        """Returns a variant that carries the batch by `work`."""
        facts = {"instances": len(self.source.views), **conditions}
        return Variant(name, timed(work), self.target.holds, self.prepare, facts)

    def ours(self, name: str = "tranship") -> Variant:
        """Returns the variant that carries the batch by this engine."""
        return self.variant(name, self.transfer, path=str(self.plan()))

    def close(self) -> None:
        """Releases files and exports."""
        self.source.close()
        self.target.close()


class WholeHops:
    """Sequential hops of whole instances, as Legion makes them with Realm (6.1).

    Next to GPUs and files, instances as large as the transferred one are made in host memory:
    `slots` of them on each side, in the source's form or another one. A hop starts when the one
    before has ended.
    """

    def __init__(self, batch: Batch, slots: int, form: Form | None = None) -> None:
        self.batch = batch
        self.slots = slots
        source, target = batch.ends
        remote = target.endswith("*")
        world, form = batch.world, form or batch.source.form
        outer_target = target.rstrip("*") in OUTER
        self.near: Stores | None = None
        self.far: FarStores | None = None
        if source in OUTER and (remote or outer_target):
            self.near = world.here(world.stage, form, slots)
        if remote and outer_target:
            self.far = world.there(SHARED, form, slots)

    @property
    def path(self) -> str:
        """Returns the names of the memories that an instance passes through."""
        source, target = self.batch.ends
        near = [self.batch.world.stage] if self.near else []
        far = [f"{SHARED}*"] if self.far else []
        return " > ".join([source, *near, *far, target])

    def hops(self, number: int, slot: int) -> list[Callable[[], object]]:
        """Returns the hops of one instance through the buffers of a slot."""
        views = [self.batch.source.views[number]]
        views += [self.near.views[slot]] if self.near else []
        views += [self.far.views[slot]] if self.far else [self.batch.target.views[number]]
        hops: list[Callable[[], object]] = [
            functools.partial(self.hop, *pair) for pair in itertools.pairwise(views)
        ]
        if self.far:
            far, target = self.far, self.batch.target
            assert isinstance(target, FarStores)
            hops.append(lambda: far.move(slot, target, number))
        return hops

    def hop(self, source: Any, target: Any) -> None:
        """Copies one whole instance."""
        self.batch.world.engine.copy(source, target).wait(timeout=WAIT_S)

    def transfer(self) -> None:
        """Transfers all instances, as many at a time as there are slots."""
        free = list(range(self.slots))

        def carry(number: int) -> None:
            slot = free.pop()
            for hop in self.hops(number, slot):
                hop()
            free.append(slot)

        with ThreadPoolExecutor(self.slots) as pool:
            for future in [pool.submit(carry, k) for k in range(len(self.batch.source.views))]:
                future.result()
        self.batch.target.each("flush")

    def close(self) -> None:
        """Releases the intermediate instances."""
        for stage in (self.near, self.far):
            if stage is not None:
                stage.close()


def each_case(bench: Bench, cases: list[Ends], measure: Callable[[Ends], None]) -> None:
    """Measures the possible cases; a note names each other case and the reason.

    Raises:
        SkippedError: No case can be measured.
    """
    missing = 0
    for ends in cases:
        try:
            measure(ends)
        except LackingError as reason:
            missing += 1
            bench.say(f"{ends[0]} to {ends[1]} left out: {reason}")
    if missing == len(cases):
        raise SkippedError("none of its memories are here")


@measures(
    "isometry-figure7-measured",
    "pipelined hops beside sequential hops of whole instances, on this machine",
)
def figure7(bench: Bench) -> None:
    """Measures several hops at once, beside sequential hops of whole instances."""
    number = bench.pick(FULL_NUMBER, SMALL_NUMBER)
    form = form_of(bench)
    with open_world(bench) as world:
        for name, *ends in BANDWIDTHS:
            batch = Batch.make(world, (ends[0], ends[1]), (form, form), number)
            case = f"{name}: {ends[0]} to {ends[1]}"
            bench.measure(case, [batch.ours("direct copy")], batch.bytes, 3)
            batch.close()

        def measure(ends: Ends) -> None:
            batch = Batch.make(world, ends, (form, form), number)
            hops = {IN_TURN: WholeHops(batch, 1), OVERLAPPED: WholeHops(batch, 2)}
            ways = [batch.variant(name, one.transfer, path=one.path) for name, one in hops.items()]
            case = f"{ends[0]} to {ends[1]}"
            bench.measure(case, [*ways, batch.ours()], batch.bytes, 3, IN_TURN)
            for whole in hops.values():
                whole.close()
            batch.close()

        each_case(bench, list(SCENARIOS), measure)


@measures("isometry-figure9a-measured", "full and simple paths, on this machine")
def figure9a(bench: Bench) -> None:
    """Measures the planners in one layout."""
    compare_planners(bench, PLAIN_PLANNERS, soa=False)


@measures(
    "isometry-figure9b-measured",
    "full, simple, SPSL and SPDL paths with a conversion, on this machine",
)
def figure9b(bench: Bench) -> None:
    """Measures the planners with a conversion from AOS to SOA."""
    compare_planners(bench, ALL_PLANNERS, soa=True)


def compare_planners(bench: Bench, planners: tuple[str, ...], *, soa: bool) -> None:
    """Measures all pairs of memories: full beside simple, the other planners beside full."""
    with open_world(bench) as world:

        def measure(ends: Ends) -> None:
            batches: dict[int, Batch] = {}
            ways: list[tuple[Batch, Variant]] = []
            for planner in planners:
                batch = batch_for(bench, world, ends, planner, batches, soa)
                plan = batch.plan(planner)
                work = functools.partial(batch.transfer, planner)
                facts = {"path": str(plan), "predicted_s": predicted_s(plan)}
                ways.append((batch, batch.variant(planner, work, **facts)))
            measure_rates(bench, f"{ends[0]} to {ends[1]}", ways)
            for batch in batches.values():
                batch.close()

        each_case(bench, list(PAIRS), measure)


def predicted_s(plan: Any) -> float:
    """Returns the predicted seconds of one transfer alone."""
    return float(json.loads(plan.to_json())["time_s"])


def batch_for(
    bench: Bench, world: World, ends: Ends, planner: str, batches: dict[int, Batch], soa: bool
) -> Batch:
    """Returns a batch of as many points as keep a planner's transfer within the time limit."""
    points = form_of(bench).points
    while True:
        if points not in batches:
            forms = (Form(points), Form(points, soa))
            batches[points] = Batch.make(world, ends, forms, bench.pick(4, SMALL_NUMBER))
        batch = batches[points]
        if predicted_s(batch.plan(planner)) <= SLOW_S or points <= SMALL_POINTS:
            return batch
        points //= 8


def measure_rates(bench: Bench, case: str, ways: list[tuple[Batch, Variant]]) -> None:
    """Repeats variants of unequal numbers of bytes in turns; ratios are of rates."""
    works = {way.name: functools.partial(bench.repeat_once, case, way) for _, way in ways}
    seconds = take_turns(works, bench.pick(2, 1))
    rates = {way.name: batch.bytes / statistics.median(seconds[way.name]) for batch, way in ways}
    for batch, way in ways:
        other = baseline_of(way.name)
        ratio = rates[way.name] / rates[other] if other else None
        bench.emit(case, way.name, batch.bytes, seconds[way.name], other, ratio, way.conditions)


BY_HAND = "by hand: whole, fields packed one by one"


@measures("isometry-figure11-measured", "GPU to GPU of another process, beside sending by hand")
def figure11(bench: Bench) -> None:
    """Measures a GPU to the other process, in one layout and converted, beside copies by hand."""
    form, number = form_of(bench), bench.pick(FULL_NUMBER, SMALL_NUMBER)
    with open_world(bench) as world:

        def measure(ends: Ends) -> None:
            for soa, words in ((False, "same layout"), (True, "AOS to SOA")):
                batch = Batch.make(world, ends, (form, Form(form.points, soa)), number)
                packed = PackedHops(batch, soa)
                by_hand = batch.variant(BY_HAND, packed.transfer, path=packed.path)
                case = f"{ends[0]} to {ends[1]}, {words}"
                bench.measure(case, [by_hand, batch.ours()], batch.bytes, 3, BY_HAND)
                packed.close()
                batch.close()

        each_case(bench, [("FBM", "FBM*"), ("FBM", "SYS*")], measure)


class PackedHops(WholeHops):
    """Whole hops of which the first packs the fields one by one, if the layouts differ."""

    def __init__(self, batch: Batch, soa: bool) -> None:
        self.soa = soa
        super().__init__(batch, 1, Form(batch.source.form.points, soa))

    def hop(self, source: Any, target: Any) -> None:
        """Copies field by field if the hop packs into the pinned instance; else all at once."""
        if not self.soa or self.near is None or target is not self.near.views[0]:
            super().hop(source, target)
            return
        for field in range(source.shape[1]):
            super().hop(source[:, field], target[:, field])
