#!/usr/bin/env python3
"""Runs the linters: tools/lint.py [--fix]. Needs what requirements-lint.txt names."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
BUILD = ROOT / "build" / "python"
CLANG_TIDY = [str(BIN / "clang-tidy"), "--quiet"]
UNITED = ROOT / "build" / "lint"
"""Sources that include a folder's files, for clang-tidy; below ROOT, where .clang-tidy lies."""
INCLUSION = '// NOLINTNEXTLINE(bugprone-suspicious-include)\n#include "{}"\n'


def cpp_files() -> list[str]:
    """Returns the C++ and C sources and headers of the project."""
    folders = ["include", "src", "python", "tests", "benchmarks", "examples"]
    files = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.is_file()]
    return sorted(str(p) for p in files if p.suffix in (".cpp", ".hpp", ".c", ".h"))


def clang_tidy_commands() -> list[list[str]]:
    """Returns commands that run clang-tidy over the core, one for each folder.

    Most of its time goes into headers, and into those of the standard library above all: a folder's
    files are read as one, so that each header is read once. Files that nvcc compiles are left out.
    """
    folders: dict[tuple[Path, str], list[Path]] = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        file = Path(entry["file"])
        if file.suffix == ".cpp" and ROOT / "src" in file.parents:
            folders.setdefault((file.parent, clang_flags(entry["command"])), []).append(file)
    shutil.rmtree(UNITED, ignore_errors=True)
    UNITED.mkdir(parents=True)
    made = []
    longest_first = sorted(folders.items(), key=lambda item: -len(item[1]))
    for number, ((_, flags), files) in enumerate(longest_first):
        united = UNITED / f"{number}.cpp"
        united.write_text("".join(INCLUSION.format(file) for file in sorted(files)))
        made.append([*CLANG_TIDY, str(united), "--", *shlex.split(flags)])
    return made


def mpi_commands() -> list[list[str]]:
    """Returns the commands for src/mpi, which CMake does not build; mpi.h comes with the tests."""
    flags = [
        "-std=c++20",
        f"-I{ROOT}/include",
        f"-I{ROOT}/src",
        "-isystem",
        f"{BIN.parent}/include",
    ]
    files = sorted((ROOT / "src" / "mpi").rglob("*.cpp"))
    return [[*CLANG_TIDY, str(file), "--", *flags] for file in files]


def clang_flags(command: str) -> str:
    """Returns the flags of a compiler's command, without its files and precompiled headers."""
    pattern = r" -(Winvalid-pch|include \S+cmake_pch\.hxx|o \S+|c \S+)"
    return re.sub(pattern, "", command).partition(" ")[2]


def commands(fix: bool) -> list[tuple[str, list[str]]]:
    """Returns the commands, each with its linter's name."""
    format_mode = ["-i"] if fix else ["--dry-run", "--Werror"]
    ruff_fix = ["--fix"] if fix else []
    ruff_format = [] if fix else ["--check"]
    lints = [
        ("clang-format", [str(BIN / "clang-format"), *format_mode, *cpp_files()]),
        ("ruff", [str(BIN / "ruff"), "check", "--no-cache", *ruff_fix, "."]),
        ("ruff format", [str(BIN / "ruff"), "format", *ruff_format, "."]),
        ("mypy", [str(BIN / "mypy")]),
        ("tidy", [sys.executable, str(ROOT / "tools" / "tidy.py")]),
    ]
    if not fix:
        lints += [("clang-tidy", command) for command in clang_tidy_commands() + mpi_commands()]
    return lints


def take_stub() -> None:
    """Copies the types of the compiled module, which the build writes, for mypy."""
    built = BUILD / "python" / "_core.pyi"
    if built.exists():
        shutil.copy(built, ROOT / "python" / "tranship" / "_core.pyi")


def main() -> int:
    """Runs all linters; returns 1 if any complains."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fix", action="store_true", help="correct what the linters can correct")
    options = parser.parse_args()
    take_stub()
    failed: set[str] = set()
    seen: set[str] = set()

    def run(lint: tuple[str, list[str]]) -> tuple[str, subprocess.CompletedProcess[str]]:
        name, command = lint
        return name, subprocess.run(
            command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    # Only one at a time changes files.
    with ThreadPoolExecutor(1 if options.fix else os.cpu_count()) as pool:
        for name, done in pool.map(run, commands(options.fix)):
            if name not in seen:
                print(f"-- {name}", flush=True)
            seen.add(name)
            print(re.sub(r"^\d+ warnings? generated\.\n", "", done.stdout), end="", flush=True)
            if done.returncode != 0:
                failed.add(name)
    complain = ", ".join(sorted(failed))
    print(f"linters that complain: {complain}" if failed else "linters: nothing to mend")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
