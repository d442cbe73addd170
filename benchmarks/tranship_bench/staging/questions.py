"""Requests that one staging server answers, by the number of clients that send them.

A put or a get of eight bytes is one request. The lines show the latency at the clients and the CPU
time of the server for each request, which is its cost under load. Simulated figures use that cost.

- What a question costs: 1 to 8 clients, each a process, put and get eight bytes again and again at
  one server. A put or a get of so little is one question.
- `put` and `get` are what a client sees; `the server's work` is the time of all threads of the
  server on any core, over the questions: what bounds a server that many ask.
- The simulated figures of staging take the most of it that was measured as the service time of a
  question.
"""

from __future__ import annotations

import os
import statistics
from pathlib import Path
from typing import Any

from ..harness import Bench, MismatchError
from ..registry import measures
from .boxes import server_process
from .crew import Crew, Member, together

ROUNDS = 5
CLIENTS = (1, 2, 4, 8)
BYTES = 8

Answers = list[dict[str, Any]]


@measures("staging-questions", "requests a second that a staging server answers, by clients")
def staging_questions(bench: Bench) -> None:
    """Measures 1 to 8 clients."""
    counts = CLIENTS if bench.full else CLIENTS[1:2]
    with server_process(64 << 20) as (contact, pid), Crew(max(counts), contact) as crew:
        bench.conditions["cores"] = os.cpu_count()
        for count in counts:
            Questions(bench, crew.workers[:count], pid).measure()


class Questions:
    """Clients that send requests to the server of process number `pid`, all at the same time."""

    def __init__(self, bench: Bench, askers: list[Member], pid: int) -> None:
        self.bench = bench
        self.askers = askers
        self.pid = pid
        self.count = bench.pick(20_000, 100)
        self.names = [{"name": f"{k} of {len(askers)}"} for k in range(len(askers))]
        self.seen: dict[str, list[float]] = {"put": [], "get": []}
        self.worked: dict[str, list[float]] = {"put": [], "get": []}

    def measure(self) -> None:
        """Reports lines for puts and gets: the latency at a client, and the work of the server."""
        for turn in range(ROUNDS + 1):
            first = turn * self.count
            self.ask("put", turn, first=first)
            got = self.ask("get", turn, version=first + self.count - 1)
            if not all(answer["same"] for answer in got):
                raise MismatchError(f"{len(self.askers)} clients: eight bytes arrived changed")
        case = f"a question, {len(self.askers)} client{'s' if len(self.askers) > 1 else ''}"
        for what, seconds in self.seen.items():
            conditions = {"clients": len(self.askers)}
            self.bench.emit(case, what, BYTES, seconds, conditions=conditions)
            self.bench.emit(
                case, f"{what}, the server's work", 0, self.worked[what], conditions=conditions
            )
            rate = len(self.askers) / statistics.median(seconds)
            work_us = 1e6 * statistics.median(self.worked[what])
            self.bench.say(f"{case}: {rate:,.0f} {what}s a second, {work_us:.2f} us of work each")

    def ask(self, what: str, turn: int, **arguments: int) -> Answers:
        """Runs one round of all clients; round 0 is not counted."""
        before = working_s(self.pid)
        do = f"{what}_small"
        answers = together(self.askers, do, self.names, count=self.count, **arguments)
        worked = working_s(self.pid) - before
        if turn > 0:
            slowest = max(answer["seconds"] for answer in answers)
            self.seen[what].append(slowest / self.count)
            self.worked[what].append(worked / (self.count * len(self.askers)))
        return answers


def working_s(pid: int) -> float:
    """Returns the CPU seconds of all threads of a process."""
    numbers = [
        int((task / "schedstat").read_text().split()[0])
        for task in Path(f"/proc/{pid}/task").iterdir()
    ]
    return sum(numbers) / 1e9
