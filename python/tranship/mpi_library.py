"""``libtranship-mpi.so``, which packs the messages of MPI programs that know nothing of Tranship.

It is compiled here with the compiler of the MPI library that a program uses, since the handles of
MPI libraries differ, and kept in the cache folder together with what was measured with it.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import IO

from . import __version__, profiles
from .errors import Error, InvalidArgument, NotFound
from .files import new_file
from .installed import include_folder, library_file

__all__ = ["MpiLibrary", "find_compiler"]

PACKAGE = Path(__file__).parent
COMPILERS = ("mpicxx", "mpic++", "mpiicpx", "mpiicpc")
"""Compilers of MPI libraries, in the order in which they are looked for."""
FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden")
BUILD_S = 300.0
MEASURE_S = 900.0
PIPES_S = 10.0
"""How long what a command has started may hold its pipes after its end."""
Progress = Callable[[float, str], None]
"""Is told the share that is done, 0 to 1, and what was done last."""


def find_compiler(name: str | None = None) -> str:
    """Returns the path of an MPI library's C++ compiler.

    Args:
        name: Its name or path. Default: the environment's ``MPICXX``, or the first of those that
            MPI libraries install.

    Raises:
        NotFound: There is none.
    """
    names = [name] if name else [*filter(None, [os.environ.get("MPICXX")]), *COMPILERS]
    for each in names:
        found = shutil.which(each)
        if found:
            return found
    raise NotFound(
        f"there is no compiler of an MPI library on PATH: looked for {', '.join(names)}",
        "give its path with --mpicxx, or install MPI's compiler wrappers (`pip install mpich` "
        "brings them for programs of MPICH's kind)",
    )


class MpiLibrary:
    """The library for one MPI library: built when it is first asked for.

    Args:
        compiler: The MPI library's C++ compiler, as `find_compiler` returns it.

    Raises:
        Error: The package was installed without the sources; the compiler does not run.
    """

    def __init__(self, compiler: str) -> None:
        self.compiler = compiler
        self.sources = sources_folder()
        self.folder = kept_folder() / self._key()

    def library(self, progress: Progress | None = None) -> Path:
        """Returns the path of ``libtranship-mpi.so``, which is compiled if it is not there.

        Args:
            progress: Is called after each file.

        Raises:
            Error: The compiler failed.
        """
        sources = sorted(self.sources.glob("*.cpp"))
        return self._made("libtranship-mpi.so", sources, ["-shared", "-ldl"], progress)

    def choices(self, launcher: Sequence[str], progress: Progress | None = None) -> Path:
        """Returns the path of the measured choices, which are measured if they are not there.

        Args:
            launcher: The command that starts two processes when ``-n 2`` and a program follow it.
            progress: Is called after each case.

        Raises:
            Error: Compiling, or the measurement, failed.
        """
        path = self.folder / f"choices-{os.uname().nodename}.txt"
        if path.exists():
            return path
        program = self._made("measure", sorted(self.sources.glob("measure/*.cpp")), [])
        words = [*launcher, "-n", "2", str(program)]
        outcome = run(words, MEASURE_S, measurement(progress) if progress else None)
        cases, _, lines = outcome.stdout.partition("\n")
        if outcome.returncode != 0 or not cases.startswith("cases "):
            raise Error(
                f"`{shlex.join(words)}` failed: {last_lines(outcome)}",
                "check that the launcher starts two processes here; with --pack always or "
                "--pack never nothing is measured",
            )
        with new_file(path) as file:
            file.write(lines.encode())
        return path

    def _key(self) -> str:
        """Returns a name for what a build depends on."""
        shown = run([self.compiler, "-show"], BUILD_S)  # MPICH's kind and Open MPI both know it
        version = run([self.compiler, "--version"], BUILD_S)
        if version.returncode != 0:
            raise Error(
                f"`{self.compiler} --version` failed: {last_lines(version)}",
                "give a C++ compiler of an MPI library with --mpicxx",
            )
        parts = [__version__, str(PACKAGE), self.compiler, shown.stdout, version.stdout]
        key = hashlib.sha256("\n".join(parts).encode())
        for source in sorted(self.sources.rglob("*.?pp")):
            key.update(source.read_bytes())
        library = libtranship()
        key.update(f"{library.stat().st_mtime_ns} {library.stat().st_size}".encode())
        return key.hexdigest()[:16]

    def _made(
        self,
        name: str,
        sources: Sequence[Path],
        flags: Sequence[str],
        progress: Progress | None = None,
    ) -> Path:
        """Compiles and links, unless the file is there: whole or not at all."""
        path = self.folder / name
        if path.exists():
            return path
        self.folder.mkdir(parents=True, exist_ok=True)
        includes = [f"-I{include_folder(PACKAGE)}", f"-I{self.sources.parent}"]
        library = libtranship().parent
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:

            def compiled(source: Path) -> str:
                target = Path(scratch) / f"{source.stem}.o"
                compile_ = [self.compiler, *FLAGS, *includes, "-c", str(source)]
                self._run([*compile_, "-o", str(target)])
                return str(target)

            objects = []
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                for source, each in zip(sources, threads.map(compiled, sources), strict=True):
                    objects.append(each)
                    if progress:
                        progress(len(objects) / len(sources), source.name)
            made = Path(scratch) / name
            links = [f"-L{library}", f"-Wl,-rpath,{library}", "-ltranship", *flags]
            self._run([self.compiler, *objects, *links, "-o", str(made)])
            made.replace(path)
        return path

    def _run(self, words: Sequence[str]) -> None:
        outcome = run(words, BUILD_S)
        if outcome.returncode != 0:
            raise Error(
                f"`{shlex.join(words)}` failed: {last_lines(outcome)}",
                "the compiler needs C++20 (GCC 11 or later)",
            )


def sources_folder() -> Path:
    """Returns the folder of the library's sources.

    Raises:
        NotFound: The package was installed without them.
    """
    for folder in (PACKAGE / "mpi", PACKAGE.parents[1] / "src" / "mpi"):
        if (folder / "message.cpp").exists():
            return folder
    raise NotFound(f"there are no sources in {PACKAGE / 'mpi'}", "install the package anew")


def libtranship() -> Path:
    """Returns the path of ``libtranship.so``.

    Raises:
        NotFound: The package was installed without it.
    """
    path = library_file(PACKAGE)
    if not path.exists():
        raise NotFound(f"there is no libtranship.so in {path.parent}", "install the package anew")
    return path


def kept_folder() -> Path:
    """Returns the folder that keeps what was built.

    Raises:
        InvalidArgument: There is no cache folder.
    """
    folder = profiles.cache_folder()
    if folder is None:
        raise InvalidArgument(
            "there is no folder to keep the library in",
            "set TRANSHIP_CACHE_FOLDER to one that can be written",
        )
    return folder / "mpi"


def measurement(progress: Progress) -> Callable[[str], None]:
    """Returns what takes the lines of the measurement and tells how far it is."""
    lines = 0
    total = 1

    def take(line: str) -> None:
        nonlocal lines, total
        word, _, rest = line.strip().partition(" ")
        if word == "cases":
            total = 3 * int(rest)  # each has a message, a pack and an unpack
        else:
            lines += 1
            progress(min(lines / total, 1.0), word)

    return take


def run(
    words: Sequence[str], seconds: float, take: Callable[[str], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, with a limit.

    Args:
        take: Is given each line of its output as soon as it comes.

    Raises:
        Error: It took longer, or cannot be started.
    """
    out: list[str] = []
    errors: list[str] = []

    def read(stream: IO[str], lines: list[str], each: Callable[[str], None] | None) -> None:
        for line in stream:
            lines.append(line)
            if each:
                each(line)

    try:
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
        )
    except OSError as error:
        raise Error(f"`{shlex.join(words)}` cannot be started: {error.strerror}") from None
    with process:
        assert process.stdout is not None and process.stderr is not None
        readers = [
            Thread(target=read, args=(process.stdout, out, take), daemon=True),
            Thread(target=read, args=(process.stderr, errors, None), daemon=True),
        ]
        for reader in readers:
            reader.start()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Error(f"`{shlex.join(words)}` did not end within {seconds:g} s") from None
        finally:
            process.kill()  # does nothing if it has ended
            for reader in readers:
                reader.join(PIPES_S)
    return subprocess.CompletedProcess(words, process.returncode, "".join(out), "".join(errors))


def last_lines(outcome: subprocess.CompletedProcess[str]) -> str:
    """Returns what a command said last."""
    lines = [*outcome.stdout.splitlines(), *outcome.stderr.splitlines()]
    return " / ".join(line.strip() for line in lines[-4:]) or f"exit code {outcome.returncode}"
