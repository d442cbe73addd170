#!/usr/bin/env python3
"""Runs the linters: tools/lint.py [--fix]. Needs what requirements-lint.txt names."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
BUILD = ROOT / "build" / "python"
PLAIN_BUILD = ROOT / "build" / "lint"


def cpp_files() -> list[str]:
    """Returns the C++ and C sources and headers of the project."""
    folders = ["include", "src", "python", "tests", "benchmarks", "examples"]
    files = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.is_file()]
    return sorted(str(p) for p in files if p.suffix in (".cpp", ".hpp", ".c", ".h"))


def clang_tidy_commands() -> list[list[str]]:
    """Returns commands that run clang-tidy over the core, an equal share of the files for each one.

    Files that nvcc compiles are left out.
    """
    database = json.loads((BUILD / "compile_commands.json").read_text())
    # clang cannot read the precompiled headers of other compilers.
    for entry in database:
        command = entry["command"]
        entry["command"] = re.sub(r"-(Winvalid-pch|include \S+cmake_pch\.hxx)", "", command)
    PLAIN_BUILD.mkdir(parents=True, exist_ok=True)
    (PLAIN_BUILD / "compile_commands.json").write_text(json.dumps(database))
    built = {Path(entry["file"]) for entry in database}
    files = sorted(str(f) for f in built if f.suffix == ".cpp" and ROOT / "src" in f.parents)
    cores = os.cpu_count() or 1
    shares = [files[k::cores] for k in range(cores)]
    tidy = [str(BIN / "clang-tidy"), "--quiet"]
    return [[*tidy, "-p", str(PLAIN_BUILD), *s] for s in shares if s] + mpi_commands(tidy)


def mpi_commands(tidy: list[str]) -> list[list[str]]:
    """Returns the command for src/mpi, which CMake does not build; mpi.h comes with the tests."""
    headers = BIN.parent / "include"
    files = sorted(map(str, (ROOT / "src" / "mpi").rglob("*.cpp")))
    flags = ["-std=c++20", f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}", "-isystem", str(headers)]
    return [[*tidy, *files, "--", *flags]]


def commands(fix: bool) -> list[tuple[str, list[list[str]]]]:
    """Returns each linter's name and its commands, which run at the same time."""
    format_mode = ["-i"] if fix else ["--dry-run", "--Werror"]
    ruff_fix = ["--fix"] if fix else []
    ruff_format = [] if fix else ["--check"]
    lints = [
        ("clang-format", [[str(BIN / "clang-format"), *format_mode, *cpp_files()]]),
        ("ruff", [[str(BIN / "ruff"), "check", "--no-cache", *ruff_fix, "."]]),
        ("ruff format", [[str(BIN / "ruff"), "format", *ruff_format, "."]]),
        ("mypy", [[str(BIN / "mypy")]]),
        ("tidy", [[sys.executable, str(ROOT / "tools" / "tidy.py")]]),
    ]
    if not fix:
        lints.append(("clang-tidy", clang_tidy_commands()))
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
    failed = []
    for name, parts in commands(options.fix):
        print(f"-- {name}", flush=True)
        running = [subprocess.Popen(part, cwd=ROOT) for part in parts]
        if any([process.wait() != 0 for process in running]):
            failed.append(name)
    print(f"linters that complain: {', '.join(failed)}" if failed else "linters: nothing to mend")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
