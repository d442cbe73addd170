"""Requests that one staging server answers, by the number of clients that send them.

``staging-questions``: 1 to 8 clients, each a process, put and get eight bytes again and again at
one server. A put or a get of so little is one request.
- `put` and `get` are what a client sees; `the server's work` is the time of all threads of the
  server on any core, over the requests: what bounds a server that many ask.
- The simulated figures of staging take the most of it that was measured as the service time of a
  question.

``staging-clients``: What many clients of one server cost.
- One client puts 8 KiB to one server and gets them back, again and again; then eight processes do,
  first as 8 clients, then as 1,000 (125 in each process, which asks for them one after the other).
  The processes do the same work in both of these cases; what differs is how many clients the server
  serves.
- A line's seconds are those of one put and one get, over all clients; `server_threads` are the
  threads of the server while all are connected.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..harness import Bench
from ..processes.peer import Child
from ..registry import measures
from .boxes import server_process
from .crew import Crew, together
from .worker import ELEMENTS

ROUNDS = 5
BYTES = 8
PROCESSES = 8
"""Processes of `staging-clients`, each with as many clients as the others."""


@measures("staging-questions", "requests a second that a staging server answers, by clients")
def staging_questions(bench: Bench) -> None:
    """Measures 1 to 8 clients."""
    counts = bench.pick((1, 2, 4, 8), (2,))
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


@measures("staging-clients", "8 KiB put and got by 1 client of one server, by 8 and by 1,000")
def staging_clients(bench: Bench) -> None:
    """Measures 8 KiB puts and gets by one client, by each of 8, and by each of 1,000."""
    with server_process(256 << 20) as (contact, pid), Crew(PROCESSES, contact) as crew:
        bench.conditions["cores"] = os.cpu_count()
        for count in bench.pick((1, 8, 1000), (1, 8, 16)):
            workers = crew.workers[:count]
            each = count // len(workers)
            first = [{"first": k * each} for k in range(len(workers))]
            together(workers, "admit", first, contact=contact, count=each)
            exchanges = bench.pick(8000, 80) // count
            seconds = []
            for turn in range(ROUNDS + 1):
                times = together(workers, "exchange", rounds=exchanges, turn=turn)
                seconds.append(max(times) / (exchanges * count))
            threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
            known = {"clients": count, "processes": len(workers), "server_threads": threads}
            case = f"8 KiB put and got, {count} client{'s' if count > 1 else ''}"
            bench.emit(case, "put and get", 16 * ELEMENTS, seconds[1:], conditions=known)
            together(workers, "dismiss")
