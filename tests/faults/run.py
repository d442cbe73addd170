"""Lets every call of a kind fail once, in processes that copy, export and stage.

    python tests/faults/run.py                            all of it, an hour or so
    python tests/faults/run.py --scenario client --class descriptors --nth 7 --mode once

For each scenario and each class of calls the n-th one fails, for n = 1, 2, 3, … until there is no
n-th one; then the n-th and all later ones. A process may succeed, with right data, or raise an
error of Tranship's with a text. An abort, a signal, a standstill, wrong data, or an error in a
process that is none of the victim's business is a failure, and its command is printed.

The trials are forks of this process, which has opened nothing itself.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

CLASSES = [
    *("threads", "memory", "descriptors", "memfd", "reset", "buffers", "interrupts", "partial"),
    *("full", "broken", "advice", "direct", "random", "polling", "options"),
]
MODES = ("once", "lasting")
TRIAL_SECONDS = 100.0
EVERY = 40
"""Up to here every n is tried, and from there on about each tenth."""


@dataclass(frozen=True)
class Trial:
    """One run of a scenario."""

    scenario: str
    kind: str
    nth: int
    mode: str

    def command(self) -> str:
        """What replays it."""
        return (
            f"{sys.executable} tests/faults/run.py --scenario {self.scenario} "
            f"--class {self.kind} --nth {self.nth} --mode {self.mode}"
        )


@dataclass
class Outcome:
    """What became of a trial."""

    fired: str = ""
    problems: tuple[str, ...] = ()
    ends: str = ""


class Library:
    """The preloaded library."""

    def __init__(self) -> None:
        self.calls = ctypes.CDLL(None)
        self.calls.fail_nth_fired.restype = ctypes.c_char_p
        self.calls.fail_nth_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int]

    def arm(self, trial: Trial) -> None:
        ranges = self.calls.fail_nth_arm(trial.kind.encode(), trial.nth, trial.mode == "lasting")
        assert ranges > 0, "nothing of Tranship is loaded, or there is no such class"

    def disarm(self) -> None:
        self.calls.fail_nth_disarm()

    def fired(self) -> str:
        return str(self.calls.fail_nth_fired().decode())


def built_library() -> Path:
    """The library that CMake, or this program, has made of fail_nth.cpp."""
    root = Path(__file__).resolve().parents[2]
    built = root / "build/python/tests/libfail_nth.so"
    if built.exists():
        return built
    made = Path(tempfile.mkdtemp()) / "libfail_nth.so"
    source = Path(__file__).with_name("fail_nth.cpp")
    command = ["c++", "-std=c++20", "-O1", "-shared", "-fPIC", "-fvisibility=hidden"]
    subprocess.run([*command, str(source), "-o", str(made)], check=True)
    return made


def play(trial: Trial, role: str, folder: Path) -> None:
    """One role of a trial, in a process of its own."""
    import scenarios

    import tranship as ts

    for public in ts.__all__:  # a module is imported when it is used: before calls begin to fail
        getattr(ts, public)
    scenario = scenarios.SCENARIOS[trial.scenario]
    library = Library()
    armed = role == scenario.victim
    world = scenarios.World(
        folder,
        role,
        scenario.victim,
        (lambda: library.arm(trial)) if armed else (lambda: None),
        library.disarm,
    )
    result = {"end": "ok", "text": "", "fired": ""}
    try:
        scenario.roles[role](world)
    except (ts.Error, MemoryError) as error:
        result.update(end="error", text=f"{type(error).__name__}: {error}")
        if not str(error).strip():
            result.update(
                end="failure",
                text=f"no text: {traceback.format_exc()}",
            )
    except BaseException:
        result.update(end="failure", text=traceback.format_exc())
    library.disarm()
    result["fired"] = library.fired() if armed else ""
    (folder / f"result-{role}").write_text(json.dumps(result))


def start(trial: Trial, role: str, folder: Path, environment: dict[str, str]) -> int:
    """Forks the process of a role."""
    child = os.fork()
    if child != 0:
        return child
    status = 1
    try:
        os.setpgid(0, 0)
        log = os.open(folder / f"log-{role}", os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.update(environment)
        play(trial, role, folder)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


class Running:
    """A trial on its way."""

    def __init__(self, trial: Trial) -> None:
        import scenarios

        self.trial = trial
        self.scenario = scenarios.SCENARIOS[trial.scenario]
        self.folder = Path(tempfile.mkdtemp(prefix="tranship-faults-"))
        self.end = time.monotonic() + TRIAL_SECONDS
        self.problems: list[str] = []
        self.roles = {
            start(trial, role, self.folder, self.scenario.environment): role
            for role in self.scenario.roles
        }

    def done(self) -> bool:
        """Collects who has ended, and ends who takes too long."""
        for child, role in list(self.roles.items()):
            found, status = os.waitpid(child, os.WNOHANG)
            if found == 0:
                continue
            del self.roles[child]
            if os.WIFSIGNALED(status):
                number = signal.Signals(os.WTERMSIG(status)).name
                self.problems.append(f"{role} was ended by {number}")
                (self.folder / f"died-{role}").touch()
        if self.roles and time.monotonic() > self.end:
            for child, role in self.roles.items():
                self.problems.append(f"{role} stands still: {where(child)}")
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            self.roles.clear()
        return not self.roles

    def outcome(self) -> Outcome:
        outcome = Outcome()
        ends = []
        for role in self.scenario.roles:
            path = self.folder / f"result-{role}"
            if not path.exists():
                if not any(problem.startswith(role) for problem in self.problems):
                    self.problems.append(f"{role} left no result")
                self.problems.append((self.folder / f"log-{role}").read_text()[-2000:])
                continue
            result = json.loads(path.read_text())
            outcome.fired = outcome.fired or result["fired"]
            ends.append(f"{role} {result['end']} {result['text'][:160]}")
            harmed = result["end"] == "error" and role in self.scenario.unharmed
            if result["end"] == "failure" or harmed:
                self.problems.append(f"{role}: {result['text']}")
        outcome.problems = tuple(self.problems)
        outcome.ends = "; ".join(ends)
        shutil.rmtree(self.folder, ignore_errors=True)
        return outcome


def where(process: int) -> str:
    """What the threads of a process wait for."""
    try:
        tasks = Path(f"/proc/{process}/task").iterdir()
        return ", ".join((task / "wchan").read_text() for task in tasks)
    except OSError:
        return "it is gone"


def run_one(trial: Trial) -> Outcome:
    running = Running(trial)
    while not running.done():
        time.sleep(0.01)
    return running.outcome()


def next_number(nth: int, step: int) -> int:
    return nth + max(step, nth // 10 if nth >= EVERY else 1)


class Series:
    """The trials of a scenario, a class and a mode: n rises until nothing fails any more."""

    def __init__(self, scenario: str, kind: str, mode: str, limits: argparse.Namespace) -> None:
        self.trial = Trial(scenario, kind, limits.first, mode)
        self.limits = limits
        self.running: Running | None = None
        self.count = 0
        self.failed: list[str] = []

    def advance(self) -> bool:
        """Goes on; whether there is more to do."""
        if self.running is None:
            self.running = Running(self.trial)
        if not self.running.done():
            return True
        outcome = self.running.outcome()
        self.running = None
        self.count += 1
        if outcome.problems:
            text = "\n  ".join(outcome.problems)
            self.failed.append(f"{self.trial.command()}\n  {outcome.fired}: {text}")
            print("FAILED", self.failed[-1], "\n ", outcome.ends, flush=True)
        elif self.limits.verbose:
            print(self.trial, outcome.fired, outcome.ends, flush=True)
        over = not outcome.fired and not outcome.problems
        following = next_number(self.trial.nth, self.limits.step)
        self.trial = Trial(self.trial.scenario, self.trial.kind, following, self.trial.mode)
        return not over and following <= self.limits.at_most and len(self.failed) < 3

    def report(self) -> None:
        trial = self.trial
        print(f"{trial.scenario:18} {trial.kind:12} {trial.mode:8} {self.count:4} runs"
              f" {len(self.failed)} failed", flush=True)  # fmt: skip


def run_all(
    names: list[str], kinds: list[str], modes: list[str], limits: argparse.Namespace
) -> int:
    # A process that is interrupted for ever is no failure of the world.
    waiting = [
        Series(name, kind, mode, limits)
        for name in names
        for kind in kinds
        for mode in modes
        if (kind, mode) != ("interrupts", "lasting")
    ]
    active: list[Series] = []
    failed = 0
    end = time.monotonic() + limits.seconds if limits.seconds else float("inf")
    while waiting or active:
        if time.monotonic() > end:
            waiting.clear()
        while waiting and len(active) < limits.jobs:
            active.append(waiting.pop(0))
        for series in list(active):
            more = series.advance()
            if more and (series.running is not None or time.monotonic() < end):
                continue
            series.report()
            failed += len(series.failed)
            active.remove(series)
        time.sleep(0.005)
    print(f"{failed} failed", flush=True)
    return 1 if failed else 0


def prepare() -> None:
    """Has the library loaded, and a profile of this machine that all trials find."""
    if "libfail_nth" not in os.environ.get("LD_PRELOAD", ""):
        os.environ["LD_PRELOAD"] = str(built_library())
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    if "TRANSHIP_CACHE_FOLDER" not in os.environ:
        os.environ["TRANSHIP_CACHE_FOLDER"] = tempfile.mkdtemp(prefix="tranship-faults-cache-")
    text = (
        "from tranship import profiles; path = profiles.cache_path()\n"
        "path.exists() or profiles.save(profiles.calibrate(sample_bytes=1 << 20), path)"
    )
    text += "\nprint(path)"
    done = subprocess.run([sys.executable, "-c", text], check=True, stdout=subprocess.PIPE)
    os.environ["TRANSHIP_FAULTS_PROFILE"] = done.stdout.decode().split()[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", action="append", help="of scenarios.py; default: all")
    parser.add_argument("--class", dest="kinds", action="append", choices=CLASSES)
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--nth", type=int, help="this one alone")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--step", type=int, default=1, help="try each so-manieth n")
    parser.add_argument("--at-most", type=int, default=2000)
    parser.add_argument("--seconds", type=float, help="begin nothing new after so long")
    parser.add_argument("--jobs", type=int, default=4, help="trials at once")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    prepare()
    import scenarios

    names = options.scenario or list(scenarios.SCENARIOS)
    modes = options.mode or list(MODES)
    if options.nth:
        trial = Trial(names[0], (options.kinds or CLASSES)[0], options.nth, modes[0])
        outcome = run_one(trial)
        print(outcome.fired, outcome.ends, *outcome.problems, sep="\n")
        return 1 if outcome.problems else 0
    return run_all(names, options.kinds or CLASSES, modes, options)


if __name__ == "__main__":
    sys.exit(main())
