"""Copies and computations on a simulated cluster.

The planner and the scheduler are those of the engine; channels and time are simulated from the
machine's profile. No data is moved, and all times are simulated times.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core, profiles
from .arguments import check_path, check_text, check_whole
from .arrays.dtypes import field_specs
from .errors import InvalidArgument

__all__ = ["Simulation"]


class Simulation:
    """A graph of tasks on a cluster: add copies and computations, run them, and read their times.

    Args:
        machine: Name or file of a machine profile (`tranship topology --machine NAME`).
        nodes: Number of nodes of the cluster. Default: the profile's.
        planner: "automatic", "full", "simple", "spsl" or "spdl", for copies that name none.
        copier_threads: Copiers of each node for copies with ``whole=True``, which share channels
            regardless of priority; 0: the engine's own scheduling.
        full_from_bytes: Size from which "automatic" plans fully; 0: decided by predicted cost.
    """

    def __init__(
        self,
        machine: str | os.PathLike[str],
        nodes: int | None = None,
        planner: str = "automatic",
        copier_threads: int = 0,
        *,
        full_from_bytes: int = 0,
    ) -> None:
        self._core = _core.open_simulation(
            profiles.load(check_path("machine", machine)),
            None if nodes is None else check_whole("nodes", nodes, bits=32),
            check_text("planner", planner),
            check_whole("copier_threads", copier_threads, bits=32),
            check_whole("full_from_bytes", full_from_bytes),
        )

    def copy(
        self,
        source: str,
        target: str,
        *,
        extents: Mapping[str, int],
        fields: Mapping[str, Any] | npt.DTypeLike = "f8",
        source_layout: str | None = None,
        target_layout: str | None = None,
        priority: int = 0,
        after: Iterable[int] = (),
        at: float = 0.0,
        planner: str | None = None,
        through: Sequence[str] | None = None,
        whole: bool = False,
        lanes: int = 1,
    ) -> int:
        """Adds one copy and returns its number.

        Args:
            source: Memory, such as "node0/device1".
            target: Another memory, or the same.
            extents: Index space, as in ``{"x": 512, "y": 512}``.
            fields: Names and types, or a dtype.
            source_layout: Terms, fastest first. Default: the fields, then the dimensions in order.
            target_layout: Terms, fastest first. Default: the source's.
            priority: Copies of higher priority go first on every channel.
            after: Tasks that must have ended before.
            at: Virtual time in seconds before which the copy does not begin.
            planner: Planner of this copy. Default: the simulation's.
            through: Memories to pass, from source to target.
            whole: Whether each hop waits for the whole one before, as in engines of single hops.
            lanes: Most paths that the copy may use at once.

        Raises:
            NotFound: The machine has no such memory.
            NoRoute: No chain of channels joins the two memories.
            InvalidArgument: Any other argument that cannot be used.
        """
        return self._copies(
            [source],
            [target],
            extents,
            fields,
            (source_layout, target_layout),
            (priority, planner, lanes, through, whole),
            ([[int(task) for task in after]], [float(at)]),
        )[0]

    def copies(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        extents: Mapping[str, int],
        fields: Mapping[str, Any] | npt.DTypeLike = "f8",
        source_layout: str | None = None,
        target_layout: str | None = None,
        priority: int = 0,
        after: Iterable[int] = (),
        after_each: Sequence[Iterable[int]] | npt.NDArray[np.int64] | None = None,
        at: float | Sequence[float] = 0.0,
        planner: str | None = None,
        through: Sequence[str] | None = None,
        whole: bool = False,
        lanes: int = 1,
    ) -> npt.NDArray[np.int64]:
        """Adds many copies of one shape and returns their numbers; arguments as for `copy`.

        Args:
            after: Tasks that must have ended before any of the copies.
            after_each: Tasks that must have ended, for each copy, instead of `after`.
            at: One time for all copies, or one for each.
        """
        return np.array(
            self._copies(
                [str(name) for name in sources],
                [str(name) for name in targets],
                extents,
                fields,
                (source_layout, target_layout),
                (priority, planner, lanes, through, whole),
                _times(len(sources), after, after_each, at),
            ),
            dtype=np.int64,
        )

    def _copies(
        self,
        sources: list[str],
        targets: list[str],
        extents: Mapping[str, int],
        fields: Mapping[str, Any] | npt.DTypeLike,
        layouts: tuple[str | None, str | None],
        options: tuple[int, str | None, int, Sequence[str] | None, bool],
        times: tuple[list[list[int]], list[float]],
    ) -> list[int]:
        if len(sources) != len(targets):
            raise InvalidArgument(
                f"{len(sources)} sources and {len(targets)} targets", "give as many of each"
            )
        source_layout = layouts[0] or ",".join(["F", *extents])
        priority, planner, lanes, through, whole = options
        check_whole("priority", priority, bits=32)
        check_whole("lanes", lanes, bits=32)
        if planner is not None:
            check_text("planner", planner)
        for name, layout in (("source_layout", layouts[0]), ("target_layout", layouts[1])):
            if layout is not None:
                check_text(name, layout)
        return self._core.copies(
            sources,
            targets,
            [(name, int(extent)) for name, extent in extents.items()],
            field_specs(fields),
            (source_layout, layouts[1] or source_layout),
            priority,
            planner,
            lanes,
            list(through or ()),
            whole,
            *times,
        )

    def compute(
        self, place: str, seconds: float, *, after: Iterable[int] = (), at: float = 0.0
    ) -> int:
        """Adds a computation and returns its number.

        Args:
            place: Any name, such as a GPU's memory; tasks at one place run one after another.
            seconds: Duration in virtual time.
            after: Tasks that must have ended before.
            at: Virtual time in seconds before which the computation does not begin.
        """
        tasks = [int(task) for task in after]
        return self._core.computes([place], [float(seconds)], [tasks], [float(at)])[0]

    def computes(
        self,
        places: Sequence[str],
        seconds: float | Sequence[float],
        *,
        after: Iterable[int] = (),
        after_each: Sequence[Iterable[int]] | npt.NDArray[np.int64] | None = None,
        at: float | Sequence[float] = 0.0,
    ) -> npt.NDArray[np.int64]:
        """Adds many computations and returns their numbers; `seconds` for all, or one for each."""
        durations = _spread(len(places), seconds, "durations")
        times = _times(len(places), after, after_each, at)
        return np.array(
            self._core.computes([str(name) for name in places], durations, *times), dtype=np.int64
        )

    def run(self) -> None:
        """Advances virtual time until all tasks have ended; more tasks may be added after that.

        Ctrl-C interrupts the run; another call continues it.
        """
        self._core.run()

    def begin_s(self, task: int) -> float:
        """Returns the virtual time at which a task began; of a copy, at which it was submitted."""
        return self._core.begin_s(self._known(task))

    def end_s(self, task: int) -> float:
        """Returns the virtual time at which a task ended; negative if it has not ended."""
        return self._core.end_s(self._known(task))

    def times(self) -> npt.NDArray[np.float64]:
        """Returns begin and end of all tasks, a row for each."""
        times = np.frombuffer(self._core.times(), dtype=np.float64)
        return np.array(times.reshape(-1, 2), dtype=np.float64)

    def plan(self, task: int) -> dict[str, Any]:
        """Returns a copy's plan, as `tranship plan --json` prints it; of a whole copy, its hops."""
        content: dict[str, Any] = json.loads(self._core.plan_json(self._known(task)))
        return content

    @property
    def statistics(self) -> dict[str, Any]:
        """Counters of the run and of the planning.

        ``events`` are ends of requests on channels, ``run_s`` and ``planning_s`` wall time,
        ``peak_rss_bytes`` the memory of this whole process. ``planned_by_node`` counts the plans
        that each node would have made with a cache of its own, ends and shape being the key.
        """
        values: dict[str, Any] = self._core.statistics()
        values["events_per_second"] = values["events"] / max(values["run_s"], 1e-9)
        return values

    def _known(self, task: int) -> int:
        if not 0 <= task < self._core.tasks():
            raise InvalidArgument(
                f"there is no task {task}", f"{self._core.tasks()} tasks were added, from 0 on"
            )
        return int(task)


def _spread(count: int, values: float | Sequence[float], what: str) -> list[float]:
    """One value for all, or one for each of `count` tasks."""
    spread = [float(value) for value in np.atleast_1d(np.asarray(values, dtype=np.float64))]
    if len(spread) not in (1, count):
        raise InvalidArgument(
            f"{len(spread)} {what} for {count} tasks", "give one, or one for each"
        )
    return spread


def _times(
    count: int,
    after: Iterable[int],
    after_each: Sequence[Iterable[int]] | npt.NDArray[np.int64] | None,
    at: float | Sequence[float],
) -> tuple[list[list[int]], list[float]]:
    if after_each is None:
        follows = [[int(task) for task in after]]
    else:
        follows = [[int(task) for task in tasks] for tasks in after_each]
        if len(follows) != count:
            raise InvalidArgument(
                f"after_each has {len(follows)} entries for {count} tasks", "give one for each"
            )
    return follows, _spread(count, at, "times")
