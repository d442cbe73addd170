"""Copies and computations on a simulated cluster, present or not.

The planner and the scheduler are those of the engine; channels and time are simulated, from the
machine's profile. Nothing is moved, and every time that comes out of here is a simulated one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core, profiles
from .arrays.dtypes import field_specs
from .errors import InvalidArgument

__all__ = ["Simulation"]


class Simulation:
    """A graph of tasks on a cluster: add copies and computations, run, ask when they ended.

    Args:
        machine: name or file of a machine profile (`tranship topology --machine NAME`).
        nodes: how many nodes the cluster has; default: the profile's number.
        planner: "automatic", "full", "simple", "spsl" or "spdl", for copies that do not say.
        copier_threads: copiers of each node for copies with ``whole=True``, which share channels
            regardless of priority; 0: the engine's own scheduling.
        full_from_bytes: size from which "automatic" plans fully; 0: where predicted cost says so.
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
            profiles.load(machine), nodes, planner, copier_threads, full_from_bytes
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
            source: a memory, such as "node0/device1".
            target: another, or the same.
            extents: the index space, as in ``{"x": 512, "y": 512}``.
            fields: names and types, or a dtype.
            source_layout: fastest first; default: the fields, then the dimensions as they come.
            target_layout: the same; default: the source's.
            priority: higher goes first on every channel.
            after: tasks that must have ended.
            at: virtual time in seconds before which it does not begin.
            planner: instead of the simulation's.
            through: the memories to pass, from source to target.
            whole: hop after hop with whole instances between, as engines of single hops do it.
            lanes: most paths that it may use at once.

        Raises:
            NotFound: the machine has no such memory.
            NoRoute: no chain of channels joins the two.
            InvalidArgument: anything else that cannot be; the text says what.
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
        """Adds many copies of one shape and returns their numbers; else as `copy`.

        Args:
            after: tasks that all of them follow.
            after_each: for each copy the tasks that it follows, instead of `after`.
            at: one time for all, or one for each.
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
            place: any name, such as a GPU's memory; tasks at one place run one after another.
            seconds: how long it takes, in virtual time.
            after: tasks that must have ended.
            at: virtual time in seconds before which it does not begin.
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
        """Lets virtual time pass until all tasks have ended; more may be added after that.

        Ctrl-C breaks off; another call goes on from there.
        """
        self._core.run()

    def begin_s(self, task: int) -> float:
        """Virtual time at which a task began: a copy, at which it was handed in."""
        return self._core.begin_s(self._known(task))

    def end_s(self, task: int) -> float:
        """Virtual time at which a task ended; negative if it has not."""
        return self._core.end_s(self._known(task))

    def times(self) -> npt.NDArray[np.float64]:
        """Begin and end of all tasks: an array of one row for each."""
        times = np.frombuffer(self._core.times(), dtype=np.float64)
        return np.array(times.reshape(-1, 2), dtype=np.float64)

    def plan(self, task: int) -> dict[str, Any]:
        """A copy's plan, as `tranship plan --json` has it; of a whole copy its hops."""
        content: dict[str, Any] = json.loads(self._core.plan_json(self._known(task)))
        return content

    @property
    def statistics(self) -> dict[str, Any]:
        """What the run cost and how the copies were planned.

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
                f"there is no task {task}; {self._core.tasks()} were added, counted from 0"
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
