"""Parts that simulated benchmarks share: verified runs, and lines compared with the paper."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tranship.simulation import Simulation

from ..harness import Bench, MismatchError, Report
from ..results import Line, make_line, rounded
from .expectations import Expectation, expectations_of, measure_of
from .places import Shape, staged_path


class OffError(Exception):
    """A simulated result differs from the paper's or the design's value; all lines are reported."""


@dataclass(frozen=True)
class Style:
    """A way to make copies.

    Attributes:
        name: Name in result lines.
        planner: Planner that chooses the path, unless `stage` is set.
        stage: Host memory next to each end that the path goes through, as with Legion.
        whole: Whether each hop is a transfer of its own that starts when the previous one has
            ended, through instances as large as the array.
        copier_threads: Most hops in progress on a node, over all channels; 0: no limit.
        held: Number of copies that memory has room for: as the host runtime makes whole instances
            in the order of the program, a copy starts when all but `held - 1` before it have
            ended; 0: no limit.
        full_from_bytes: Size from which "automatic" plans fully; 0: by predicted cost.
    """

    name: str
    planner: str = "automatic"
    stage: str = ""
    whole: bool = False
    copier_threads: int = 0
    held: int = 0
    full_from_bytes: int = 0

    @classmethod
    def realm(
        cls, name: str = "Realm-style", *, threads: int = 1, stage: str = "host0", held: int = 0
    ) -> Style:
        """Returns sequential hops of whole instances, moved by copier threads (5.1, 6.1)."""
        return cls(name, "simple", stage, whole=True, copier_threads=threads, held=held)


TRANSHIP = Style("tranship")


class Run:
    """One simulated run of one style, which counts the copies and verifies them."""

    def __init__(self, machine: str, style: Style, *, nodes: int | None = None) -> None:
        self.style = style
        self.simulation = Simulation(
            machine,
            # A profile describes a node and its neighbour: one of the two may stay idle.
            nodes=None if nodes is None else max(nodes, 2),
            planner=style.planner,
            copier_threads=style.copier_threads,
            full_from_bytes=style.full_from_bytes,
        )
        self.bytes = 0
        self.count = 0
        self.copies: dict[int, tuple[tuple[str, str], Shape]] = {}

    def copy(
        self,
        ends: tuple[str, str],
        shape: Shape,
        *,
        priority: int = 0,
        after: Sequence[int] = (),
        at: float = 0.0,
        through: list[str] | None = None,
        lanes: int = 1,
    ) -> int:
        """Adds a copy from `ends[0]` to `ends[1]` and returns its number.

        `through` forces the path; `lanes` is the largest number of paths in use at once.
        """
        if through is None and self.style.stage:
            through = staged_path(ends, self.style.stage, converts=shape.converts)
        source_layout, target_layout = shape.layouts
        how: dict[str, Any] = {
            "extents": shape.extents,
            "fields": shape.fields,
            "source_layout": source_layout,
            "target_layout": target_layout,
            "priority": priority,
            "after": list(after),
            "at": at,
            "through": through,
            "whole": self.style.whole,
            "lanes": lanes,
        }
        self.bytes += shape.bytes
        self.count += 1
        task = int(self.simulation.copy(*ends, **how))
        self.copies[task] = (ends, shape)
        return task

    def compute(
        self, place: str, seconds: float, *, after: Sequence[int] = (), at: float = 0.0
    ) -> int:
        """Adds a task of `seconds` at a place and returns its number."""
        self.count += 1
        return int(self.simulation.compute(place, seconds, after=list(after), at=at))

    def batch(self, ends: tuple[str, str], shape: Shape, number: int) -> list[int]:
        """Adds `number` copies of one kind, as many at once as the style allows."""
        tasks: list[int] = []
        for _ in range(number):
            tasks.append(self.copy(ends, shape, after=self.room_after(tasks)))
        return tasks

    def room_after(self, tasks: Sequence[int]) -> list[int]:
        """Returns the tasks that free memory for a copy that comes after `tasks`."""
        held = self.style.held
        return [tasks[-held]] if 0 < held <= len(tasks) else []

    def finish(self) -> float:
        """Simulates to the end, verifies, and returns when the last task ended.

        Raises:
            MismatchError: a task did not end, or not all bytes arrived.
        """
        self.simulation.run()
        times = np.asarray(self.simulation.times())
        ended = len(times) == self.count and bool(np.isfinite(times).all())
        if not ended or bool((times[:, 1] < times[:, 0]).any()):
            raise MismatchError(f"{self.style.name}: a simulated task did not end")
        moved = int(self.simulation.statistics["bytes"])
        if moved != self.bytes:
            raise MismatchError(
                f"{self.style.name}: {self.bytes} bytes were to be moved, the simulation says "
                f"{moved}"
            )
        return float(times[:, 1].max())

    def end_s(self, task: int) -> float:
        """Returns the time at which a task ended."""
        return float(self.simulation.end_s(task))

    def plans_made(self) -> int:
        """Returns the number of plans by all planners."""
        found = self.simulation.statistics
        names = ("planned_full", "planned_simple", "planned_other")
        return sum(int(found[name]) for name in names)

    def path_of(self, task: int) -> list[str]:
        """Returns the memories that a copy passed through."""
        hops = self.simulation.plan(task)["hops"]
        return [hops[0]["source"], *(hop["target"] for hop in hops)]


class SimulatedBench(Bench):
    """One run of one simulated benchmark, whose lines are compared with the paper's numbers.

    Attributes:
        chosen_machine: Profile that the user asked for, if any.
        size: "full" or "small".
        medians: Median seconds of the lines that were reported, by case and variant.
    """

    def __init__(self, name: str, *, full: bool, machine: str | None, report: Report) -> None:
        super().__init__(name, full=full, machine=machine, report=report)
        self.chosen_machine = machine
        self.size = "full" if full else "small"
        self.medians: dict[str, dict[str, float]] = {}
        self._expectations = expectations_of(name)
        self._met: set[Expectation] = set()
        self._machines: set[str] = set()
        self._off: list[str] = []

    def on(self, paper: str) -> str:
        """Sets the profile that is simulated, the user's or else the paper's, and returns it."""
        self.machine = self.chosen_machine or paper
        self._machines.add(self.machine)
        return self.machine

    def simulated(
        self,
        case: str,
        variant: str,
        count: int,
        seconds: float | Sequence[float],
        baseline: str = "",
        values: dict[str, float] | None = None,
        **conditions: Any,
    ) -> Line:
        """Reports a line of runs that ended and whose bytes add up, and checks the expected values.

        Args:
            case: Description of the data that were moved.
            variant: Name of the style or design.
            count: Bytes moved; 0 where the line is not about a rate.
            seconds: Simulated seconds, unless the conditions say otherwise.
            baseline: Variant whose line of this case came before, which the others are beside.
            values: Further numbers.
            conditions: Conditions of the line.
        """
        times = [seconds] if isinstance(seconds, float) else list(seconds)
        line = make_line(self.name, case, variant, self.machine, self.commit, count, times)
        line["simulated"] = True
        medians = self.medians.setdefault(case, {})
        medians[variant] = statistics.median(times)
        if baseline not in ("", variant):
            ratio = medians[baseline] / medians[variant]
            line |= {"ratio": rounded(ratio), "baseline": baseline}
        if values:
            line["values"] = values
        small = {} if self.full else {"size": "small"}
        line["conditions"] = {**small, "simulated": True, **conditions}
        self.judge(line)
        self._report(line)
        return line

    def judge(self, line: Line) -> None:
        """Writes into the line what was expected of it, and whether the line agrees."""
        verdicts: list[dict[str, Any]] = []
        for each in self._expectations:
            measured = measure_of(line, each.measure)
            if measured is None or not each.concerns(line, self.size):
                continue
            self._met.add(each)
            within = each.holds(measured)
            verdicts.append({**each.as_line(), "measured": measured, "within": within})
            if not within:
                self._off.append(each.text(line, measured))
        if verdicts:
            line["expected"] = verdicts
            line["within"] = all(verdict["within"] for verdict in verdicts)

    def close(self) -> None:
        """Ends the benchmark.

        Raises:
            OffError: A line was off, or an expectation applied to no line.
        """
        missing = [
            f"no line shows {each.measure} of {each.case or 'any case'}, {each.variant or 'any'}"
            for each in self._expectations
            if each not in self._met
            and each.machine in self._machines
            and each.size in ("any", self.size)
        ]
        if self._off or missing:
            raise OffError("; ".join(self._off + missing))
