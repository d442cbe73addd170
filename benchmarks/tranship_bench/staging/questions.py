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
from pathlib import Path

from ..harness import Bench
from ..processes.peer import Child
from ..registry import measures
from .boxes import server_process
from .crew import Crew, together

ROUNDS = 5
CLIENTS = (1, 2, 4, 8)
BYTES = 8


@measures("staging-questions", "requests a second that a staging server answers, by clients")
def staging_questions(bench: Bench) -> None:
    """Measures 1 to 8 clients."""
    counts = CLIENTS if bench.full else CLIENTS[1:2]
    with server_process(64 << 20) as (contact, pid), Crew(max(counts), contact) as crew:
        bench.conditions["cores"] = os.cpu_count()
        for count in counts:
            measure(bench, crew.workers[:count], pid)


def measure(bench: Bench, clients: list[Child], pid: int) -> None:
    """Reports lines for puts and gets: the latency at a client, and the work of the server."""
    number, count = len(clients), bench.pick(20_000, 100)
    names = [{"name": f"{k} of {number}"} for k in range(number)]
    case = f"a question, {number} client{'s' if number > 1 else ''}"
    seen: dict[str, list[float]] = {"put": [], "get": []}
    worked: dict[str, list[float]] = {"put": [], "get": []}
    for turn in range(ROUNDS + 1):
        first = turn * count
        for what, version in (("put", {"first": first}), ("get", {"version": first + count - 1})):
            before = working_s(pid)
            times = together(clients, f"{what}_small", names, count=count, **version)
            work_s = working_s(pid) - before
            if turn > 0:
                seen[what].append(max(times) / count)
                worked[what].append(work_s / (count * number))
    for what, seconds in seen.items():
        known = {"clients": number}
        bench.emit(case, what, BYTES, seconds, conditions=known)
        bench.emit(case, f"{what}, the server's work", 0, worked[what], conditions=known)


def working_s(pid: int) -> float:
    """Returns the CPU seconds of all threads of a process."""
    numbers = [
        int((task / "schedstat").read_text().split()[0])
        for task in Path(f"/proc/{pid}/task").iterdir()
    ]
    return sum(numbers) / 1e9
