"""`tranship demo`: a blast wave on four processes, analysed by two others while it runs.

The simulation puts its fields into two staging servers; the analyses get them from there, one of
them from the beginning, the other one later. Starts all of them, prints a line for each sampled
step, compares the result with the exact solution, and leaves figures, a trace and a report in the
output folder.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import textwrap
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import tranship as ts
from tranship.demo import profiles
from tranship.demo.arrays import usable_gpus
from tranship.demo.crew import Crew, CrewError
from tranship.demo.exact import SedovSolution
from tranship.demo.settings import (
    ANALYSES,
    FIELDS,
    LATE_AFTER,
    SERVERS,
    SIMULATIONS,
    Options,
    Settings,
)
from tranship.files import write_text
from tranship.tracing import MergedTrace, merge_traces

# The folders of a run inside the output folder; a new run empties them.
FOLDERS = ("contacts", "logs", "traces", "reference", "compressed", "fields")
DRIFT_MAX = 1e-10
RADIUS_ERROR_MAX = 0.05
# The radius is judged where the shock is at least this many cells from the origin.
JUDGED_FROM_CELLS = 24
UNJUDGED = "too few cells to judge"
HEADER = " step    time      MB   put ms   get ms  differing     shock    exact   error"
COLUMNS = 80
"""Width of what is printed."""


def run(options: Options) -> int:
    """Runs the demo and returns the exit code (1 if a process failed or a check did not hold)."""
    begin = time.monotonic()
    exact = SedovSolution.solve(gamma=1.4)
    settings = Settings.choose(options, exact, usable_gpus())
    prepare(Path(settings.out))
    report: dict[str, Any] = {"settings": asdict(settings), "hardware": hardware(settings)}
    introduce(settings, report["hardware"])
    collected = Collected(settings, exact)
    try:
        # Measures the machine if nobody has: six processes at once would disturb each other.
        ts.Engine().close()
        with Crew(Path(settings.out) / "logs") as crew:
            follow(crew, settings, collected)
            crew.finish(settings.timeout_s)
    except (CrewError, ts.Error) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; all its processes have ended", file=sys.stderr)
        return 130
    shutil.rmtree(Path(settings.out) / "reference")
    report["steps"] = collected.rows
    report["totals"] = collected.totals()
    report["checks"] = collected.checks()
    report["seconds"] = time.monotonic() - begin
    written = write_results(settings, exact, collected, options.figures, report)
    conclude(report, written)
    return 0 if all(check["holds"] for check in report["checks"]) else 1


def follow(crew: Crew, settings: Settings, collected: Collected) -> None:
    """Starts the processes and collects their reports until all have finished.

    Steps that all analyses have seen are discarded: the servers have room for the next ones.
    """
    path = settings.save()
    for role, count in (("server", SERVERS), ("simulation", SIMULATIONS), ("analysis", 1)):
        for rank in range(count):
            crew.start(role, rank, path)
    late = list(range(1, ANALYSES))
    with ts.Staging(settings.staging, name="demo", timeout=settings.timeout_s) as staging:
        for name, line in crew.messages(silence_s=settings.timeout_s + 30.0):
            seen = collected.take(line)
            if seen is not None:
                staging.discard_step(seen)
            first = name == "analysis-0"
            if first and late and (line["kind"] == "done" or collected.looks(0) == LATE_AFTER):
                print(f"       analysis-{late[0]} joins, and begins with what is still held")
                crew.start("analysis", late.pop(0), path)


def prepare(out: Path) -> None:
    """Makes the output folder and empties its subfolders."""
    for folder in FOLDERS:
        shutil.rmtree(out / folder, ignore_errors=True)
        (out / folder).mkdir(parents=True)


def hardware(settings: Settings) -> dict[str, Any]:
    """Returns the processor, cores, system and GPUs of this run."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    try:
        usable = len(os.sched_getaffinity(0))
    except AttributeError:
        usable = os.cpu_count() or 1
    return {
        "cpu": model,
        "cores": usable,
        "system": f"{platform.system()} {platform.release()}",
        "gpu": (
            f"{settings.gpus} used, with CuPy"
            if settings.gpus
            else "none used: everything ran in host memory, and no hardware was simulated"
        ),
    }


def introduce(settings: Settings, machine: dict[str, Any]) -> None:
    """Prints the problem, the processes and the machine, and the table's head."""
    print_filled(
        f"A point explosion (Sedov 1946) in an octant of {settings.cells}^3 cells, on "
        f"{SIMULATIONS} simulation processes. Every {settings.every} steps each of them puts its "
        f"block of {', '.join(FIELDS[:-1])} and {FIELDS[-1]} (z fastest) to {SERVERS} staging "
        f"servers. {ANALYSES} analyses get halves of the whole (x fastest): one call gathers a "
        "half from all four blocks and transposes it. Every byte is compared with what the "
        "simulation held, and the shock with the exact solution."
    )
    print_filled(f"Machine: {machine['cpu']}, {machine['cores']} cores; GPU: {machine['gpu']}.")
    print(f"\n{HEADER}", flush=True)


def print_filled(text: str, indent: str = "") -> None:
    """Prints a paragraph in lines that end between words."""
    print(textwrap.fill(text, COLUMNS, subsequent_indent=indent, break_on_hyphens=False,
                        break_long_words=False))  # fmt: skip


class Collected:
    """The reports of the children by step; prints each step once complete."""

    def __init__(self, settings: Settings, exact: SedovSolution) -> None:
        self.settings = settings
        self.exact = exact
        self.states: dict[int, list[dict[str, Any]]] = {}
        self.samples: dict[int, list[dict[str, Any]]] = {}
        self.rows: list[dict[str, Any]] = []
        cells, box = settings.cells, profiles.whole(settings.cells)
        shell = profiles.shells(cells, box)
        self.shell_cells = profiles.shell_sums(np.ones(shell.shape), shell, cells)
        distances = profiles.shell_sums(profiles.radii(cells, box), shell, cells)
        self.shell_radii = distances / self.shell_cells * settings.blast.spacing

    def looks(self, rank: int) -> int:
        """Returns how many steps an analysis has seen."""
        return sum(sample["rank"] == rank for step in self.samples.values() for sample in step)

    def take(self, line: dict[str, Any]) -> int | None:
        """Stores one line; if its step is complete now, prints its row and returns the step."""
        if line["kind"] == "done":
            return None
        target = self.states if line["kind"] == "state" else self.samples
        target.setdefault(line["step"], []).append(line)
        step = line["step"]
        states, samples = self.states.get(step, []), self.samples.get(step, [])
        if len(states) == SIMULATIONS and len(samples) == ANALYSES:
            self.rows.append(self.row(step, states, samples))
            print(format_row(self.rows[-1]), flush=True)
            return int(step)
        return None

    def row(
        self, step: int, states: list[dict[str, Any]], samples: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Returns one step's numbers.

        The simulations put at the same time, so their seconds do not add; the analyses need not.
        """
        moment = samples[0]["time"]
        count = sum(sample["bytes"] for sample in samples)
        seconds = {
            "put": max(state["seconds"] for state in states),
            "get": sum(sample["seconds"] for sample in samples) / ANALYSES,
        }
        rates = {
            "put": count / seconds["put"] / 1e9,
            "get": count / ANALYSES / seconds["get"] / 1e9,
        }
        sums = np.sum([sample["density_sums"] for sample in samples], axis=0)
        ahead = self.settings.blast.density
        radius = profiles.shock_radius(self.shell_radii, sums / self.shell_cells, ahead)
        exact = self.exact.radius(moment)
        compressed = [part for sample in samples for part in sample["compression"].values()]
        return {
            "step": step,
            "time": moment,
            "bytes": count,
            "seconds": seconds,
            "gbps": rates,
            "verified": all(sample["verified"] for sample in samples),
            "differing_bytes": sum(sample["differing_bytes"] for sample in samples),
            "compressed_bytes": sum(part["compressed_bytes"] for part in compressed),
            "within_bound": all(part["within"] for part in compressed),
            "compression_error": max(part["error"] for part in compressed),
            "mass": sum(state["mass"] for state in states),
            "energy": sum(state["energy"] for state in states),
            # There is no shock to speak of before it has left the deposit behind.
            "shock_radius": radius if exact > 2 * self.deposit_radius() else None,
            "exact_radius": exact,
        }

    def deposit_radius(self) -> float:
        """Returns the radius inside which the energy started."""
        return self.settings.blast.deposit_cells * self.settings.blast.spacing

    def totals(self) -> dict[str, Any]:
        """Returns the sums and medians over all sampled steps."""
        count = sum(row["bytes"] for row in self.rows)
        return {
            "sampled_steps": len(self.rows),
            "steps": self.rows[-1]["step"],
            "bytes": count,
            "median_gbps": {
                way: statistics.median(row["gbps"][way] for row in self.rows)
                for way in ("put", "get")
            },
            "median_seconds": {
                way: statistics.median(row["seconds"][way] for row in self.rows)
                for way in ("put", "get")
            },
            "compression_ratio": count / sum(row["compressed_bytes"] for row in self.rows),
        }

    def checks(self) -> list[dict[str, Any]]:
        """Returns the checks of the run, each with its value and its limit."""
        first, last = self.rows[0], self.rows[-1]
        differing = sum(row["differing_bytes"] for row in self.rows)
        error = max(row["compression_error"] for row in self.rows)
        within = all(row["within_bound"] for row in self.rows)
        checks = [
            check("bytes that differ from what the simulation held", differing, 0, differing == 0),
            check("largest compression error / field maximum", error, "zfp's bound", within),
        ]
        for name in ("mass", "energy"):
            drift = abs(last[name] / first[name] - 1.0)
            checks.append(check(f"relative drift of {name}", drift, DRIFT_MAX, drift < DRIFT_MAX))
        if last["shock_radius"] is not None:
            error = abs(last["shock_radius"] / last["exact_radius"] - 1.0)
            judged = last["exact_radius"] * self.settings.cells >= JUDGED_FROM_CELLS
            name = "shock radius against the exact one, relative error"
            limit = RADIUS_ERROR_MAX if judged else UNJUDGED
            checks.append(check(name, error, limit, not judged or error < RADIUS_ERROR_MAX))
        return checks


def check(name: str, value: float, limit: float | str, holds: bool) -> dict[str, Any]:
    """Returns one entry of the report's checks."""
    return {"name": name, "value": value, "limit": limit, "holds": bool(holds)}


def format_row(row: dict[str, Any]) -> str:
    """Returns a step's line of the table."""
    text = (
        f"{row['step']:5d}  {row['time']:.4f}  {row['bytes'] / 1e6:6.2f}  "
        f"{row['seconds']['put'] * 1e3:7.1f}  {row['seconds']['get'] * 1e3:7.1f}  "
        f"{row['differing_bytes']:9d}"
    )
    radius, exact = row["shock_radius"], row["exact_radius"]
    if radius is None:
        return text
    return f"{text}    {radius:.4f}   {exact:.4f}  {radius / exact - 1.0:+6.1%}"


def write_results(
    settings: Settings,
    exact: SedovSolution,
    collected: Collected,
    figures: bool,
    report: dict[str, Any],
) -> list[str]:
    """Writes the trace, the figures and the report, and returns their names."""
    out = Path(settings.out)
    written = []
    trace: MergedTrace | None = None
    if settings.trace:
        trace = merge_traces([settings.trace_folder], out / "trace.json")
        written.append("trace.json")
    if figures:
        # Imported late: a run without figures needs no matplotlib.
        from tranship.demo.figures import draw_shock, draw_timeline

        fields = assemble(settings)
        draw_shock(settings, exact, fields, collected.rows[-1], out / "sedov.png")
        written.append("sedov.png")
        if trace is not None:
            draw_timeline(trace, out / "timeline.png")
            written.append("timeline.png")
    write_text(out / "report.json", json.dumps(report, indent=2) + "\n")
    written.append("report.json")
    return written


def assemble(settings: Settings) -> dict[str, Any]:
    """Returns the final fields of the whole grid, from what the analyses received."""
    folder = Path(settings.out) / "fields"
    boxes = [np.load(folder / f"analysis-{rank}.npz") for rank in range(ANALYSES)]
    return {name: np.concatenate([box[name] for box in boxes], axis=2) for name in FIELDS}


def conclude(report: dict[str, Any], written: list[str]) -> None:
    """Prints the checks, then what to remember, and the paths of the results."""
    totals, cores = report["totals"], report["hardware"]["cores"]
    print()
    for entry in report["checks"]:
        verdict = "ok    " if entry["holds"] else "FAILED"
        judged = entry["limit"] != UNJUDGED
        limit = f"<= {entry['limit']}" if judged else entry["limit"]
        text = f"{entry['name']}: {entry['value']:.3g} ({limit})"
        print_filled(f"  {verdict} {text}", " " * 9)
    bytes_a_step = totals["bytes"] / totals["sampled_steps"] / 1e6
    median_ms = {way: 1e3 * seconds for way, seconds in totals["median_seconds"].items()}
    print()
    print_filled(
        f"{totals['steps']} steps, {totals['sampled_steps']} of them analysed by both analyses, "
        f"though one joined late: {totals['bytes'] / 1e6:.0f} MB went from four processes through "
        "two servers to two others, without a file and without code that knows both sides."
    )
    print_filled(
        f"A step of {bytes_a_step:.1f} MB took {median_ms['put']:.1f} ms to put and "
        f"{median_ms['get']:.1f} ms to get (medians). These are small blocks, and eight processes "
        f"share {cores} cores: the README has the rates of large ones."
    )
    print_filled(
        f"{report['seconds']:.0f} s. In {report['settings']['out']}: {', '.join(written)}."
    )


def main(arguments: list[str] | None = None) -> int:
    """Parses the command line and runs the demo."""
    defaults = Options()
    parser = argparse.ArgumentParser(prog="tranship demo", description=__doc__)
    parser.add_argument("--out", default=defaults.out, help="output folder (default: %(default)s)")
    parser.add_argument("--cells", type=int, default=defaults.cells, help="cells along each axis")
    parser.add_argument("--steps", type=int, help="end after this many steps")
    parser.add_argument("--time", type=float, help="end at this time of the blast")
    parser.add_argument("--every", type=int, default=defaults.every, help="steps between samples")
    parser.add_argument("--no-figures", dest="figures", action="store_false")
    parser.add_argument("--no-trace", dest="trace", action="store_false")
    return run(Options(**vars(parser.parse_args(arguments))))


if __name__ == "__main__":
    sys.exit(main())
