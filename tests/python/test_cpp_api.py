"""The C++ API and the engine in C: examples built outside the tree with the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from c_library import compiled, compiler_words
from test_guides import blocks, run_shell

import tranship as ts
from support import PATIENCE
from tranship import cli
from tranship.cli import config

ROOT = Path(__file__).parents[2]
INCLUDE = ROOT / "include" / "tranship"
EXAMPLES = ROOT / "examples"
GUIDE = "cpp.md"
WARNINGS = [
    "-O1",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wno-sign-conversion",
    "-Werror",
    "-pedantic",
]
C_WARNINGS = ["-O1", "-Wall", "-Wextra", "-Werror", "-pedantic"]
COUNT = 100_000


def library_folder() -> Path:
    (folder,) = (word[2:] for word in compiler_words("--libs") if word.startswith("-L"))
    return Path(folder)


installed = pytest.mark.skipif(
    not (library_folder() / "cmake").is_dir(), reason="needs an installed package"
)


def cmake() -> str:
    """Returns the CMake program of the Python environment, or else the system's."""
    beside = Path(sys.executable).with_name("cmake")
    found = str(beside) if beside.exists() else shutil.which("cmake")
    if found is None:
        pytest.skip("needs cmake")
    return found


@pytest.fixture(autouse=True)
def quick_engines(profile: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Saves a profile for the programs, so that none of them measures the machine."""
    monkeypatch.setenv("TRANSHIP_CACHE_FOLDER", str(tmp_path / "cache"))
    kept = ts.profiles.cache_path()
    assert kept is not None
    kept.parent.mkdir(parents=True)
    kept.write_text(profile)


def expected_file() -> bytes:
    """Returns the bytes of the example's file: all positions, all masses, all ids."""
    ids = np.arange(COUNT, dtype="i4")
    fields = (0.25 * ids, (1 + ids % 7).astype("f4"), ids)
    return b"".join(field.tobytes() for field in fields)


def check_particles(program: Path, profile: str) -> None:
    """Runs the C++ example beside a server, and checks its file and its variable."""
    with ts.StagingServer(profile=profile) as server:
        done = subprocess.run(
            [program, server.contact],
            cwd=program.parent,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "node0/file0" in done.stdout and "mass of particle 500: 4" in done.stdout
        assert (program.parent / "particles.bin").read_bytes() == expected_file()
        with ts.Staging(server.contact) as reader:
            mass = (1 + np.arange(COUNT) % 7).astype("f4")
            assert reader.get("mass", 0).tobytes() == mass.tobytes()


@installed
def test_find_package(profile: str, tmp_path: Path) -> None:
    source, build = tmp_path / "source", tmp_path / "build"
    shutil.copytree(EXAMPLES / "cpp", source)
    folder = compiler_words("--cmake-dir")
    commands: list[list[str | Path]] = [
        [cmake(), "-S", source, "-B", build, f"-Dtranship_DIR={folder[0]}"],
        [cmake(), "--build", build],
    ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    check_particles(build / "particles", profile)


@installed
def test_a_newer_version_than_the_installed_one_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(p LANGUAGES C)\n"
        "find_package(tranship 99.0 REQUIRED)\n"
    )
    folder = compiler_words("--cmake-dir")[0]
    done = subprocess.run(
        [cmake(), "-S", tmp_path, "-B", tmp_path / "build", f"-Dtranship_DIR={folder}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0 and "99.0" in done.stderr


@installed
def test_pkg_config(profile: str, tmp_path: Path) -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("needs pkg-config")
    words = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "tranship"],
        env={**os.environ, "PKG_CONFIG_PATH": str(library_folder() / "pkgconfig")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    command: list[str | Path] = [
        "c++",
        "-std=c++20",
        *WARNINGS,
        EXAMPLES / "cpp" / "particles.cpp",
        *words,
    ]
    check_particles(compiled(command, tmp_path / "particles"), profile)


@installed
def test_the_example_in_c(tmp_path: Path) -> None:
    words = compiler_words("--cflags", "--libs")
    source = EXAMPLES / "c" / "convert.c"
    program = compiled(["cc", "-std=c11", *C_WARNINGS, source, *words], tmp_path / "convert")
    done = subprocess.run(
        [program], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    output = "inbox: step 0\nthe matrix arrived\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, output, "")
    matrix = np.arange(300 * 200, dtype="f8").reshape(300, 200)
    blocked = matrix.reshape(300, 50, 4).transpose(1, 0, 2)
    assert (tmp_path / "matrix.bin").read_bytes() == blocked.tobytes()


@installed
def test_every_member_of_the_face(profile: str, tmp_path: Path) -> None:
    source = ROOT / "tests" / "cpp" / "face.cpp"
    words = compiler_words("--cflags", "--libs")
    program = compiled(["c++", "-std=c++20", *WARNINGS, source, *words], tmp_path / "face")
    with ts.StagingServer(profile=profile) as server:
        done = subprocess.run(
            [program, server.contact],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, "")


@installed
def test_types_against_loops_by_hand(tmp_path: Path) -> None:
    source = ROOT / "tests" / "cpp" / "types.cpp"
    words = compiler_words("--cflags", "--libs")
    program = compiled(["c++", "-std=c++20", *WARNINGS, source, *words], tmp_path / "types")
    done = subprocess.run(
        [program], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@installed
def test_types_in_c(tmp_path: Path) -> None:
    source = ROOT / "tests" / "c" / "types.c"
    words = compiler_words("--cflags", "--libs")
    program = compiled(["cc", "-std=c11", *C_WARNINGS, source, *words], tmp_path / "types")
    done = subprocess.run(
        [program], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "out_of_range: the type of the source vector(30, 1, 20, f8) reaches from byte 0 to byte "
        "4648, and the array has 240 bytes",
        "subarray([20, 30], [1, 30], [3, 0], f8) has 240 bytes in 4800",
    ]


@installed
def test_the_guide(tmp_path: Path) -> None:
    (in_cpp,), (lists,), (in_c,) = (blocks(GUIDE, word) for word in ("cpp", "cmake", "c"))
    for name, text in (
        ("cpp/particles.cpp", in_cpp),
        ("cpp/CMakeLists.txt", lists),
        ("c/convert.c", in_c),
    ):
        assert (EXAMPLES / name).read_text(encoding="utf-8") == text
        (tmp_path / Path(name).name).write_text(text, encoding="utf-8")
    program = f'cmake() {{ "{cmake()}" "$@"; }}\n'
    with_cmake, without, engine = blocks(GUIDE, "sh")
    for commands, expected in (
        (program + with_cmake, "mass of particle 500: 4"),
        (without, "node0/file0"),
        (engine, "the matrix arrived"),
    ):
        done = run_shell(commands, tmp_path)
        assert done.returncode == 0, done.stderr
        assert expected in done.stdout
    assert (tmp_path / "particles.bin").read_bytes() == expected_file()


@installed
def test_the_programs_of_the_guide_of_types(tmp_path: Path) -> None:
    words = compiler_words("--cflags", "--libs")
    for language, compiler in (
        ("cpp", ["c++", "-std=c++20", *WARNINGS]),
        ("c", ["cc", "-std=c11", *C_WARNINGS]),
    ):
        for text in blocks("types.md", language):
            source = tmp_path / f"guide.{language}"
            source.write_text(text, encoding="utf-8")
            program = compiled([*compiler, source, *words], tmp_path / f"guide-{language}")
            done = subprocess.run([program], cwd=tmp_path, timeout=PATIENCE, check=False)
            assert done.returncode == 0, text


# Headers


@pytest.mark.parametrize("header", sorted(path.name for path in INCLUDE.glob("*.hpp")))
def test_each_header_compiles_alone(header: str, tmp_path: Path) -> None:
    source = tmp_path / "alone.cpp"
    source.write_text(f"#include <tranship/{header}>\n#include <tranship/{header}>\n")
    command: list[str | Path] = [
        "c++",
        "-std=c++20",
        *WARNINGS[1:],
        f"-I{ROOT / 'include'}",
        "-fsyntax-only",
        source,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_older_standard_is_refused_with_what_to_do(tmp_path: Path) -> None:
    source = tmp_path / "old.cpp"
    source.write_text("#include <tranship/tranship.hpp>\n")
    command: list[str | Path] = [
        "c++",
        "-std=c++17",
        f"-I{ROOT / 'include'}",
        "-fsyntax-only",
        source,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "compile with -std=c++20" in done.stderr


def test_the_core_and_the_face_do_not_include_each_other() -> None:
    sources = [path for path in (ROOT / "src").rglob("*") if path.suffix in (".hpp", ".cpp", ".cu")]
    over_the_face = ROOT / "src" / "mpi"
    core = [path for path in sources if over_the_face not in path.parents]
    assert core and len(core) < len(sources)
    for path in core:
        assert not re.search(r'#include [<"]tranship/\w+\.hpp', path.read_text()), path
    for path in over_the_face.rglob("*.?pp"):
        others = re.findall(r'#include "((?!mpi/|tranship/)[^"]+)"', path.read_text())
        assert not others, f"{path} includes the core: {others}"
    for path in INCLUDE.glob("*.h*"):
        for name in re.findall(r'#include "([^"]+)"', path.read_text()):
            assert (INCLUDE / name).exists(), f"{path}: {name} is not installed"


def test_a_package_without_cmake_files_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(config, "__file__", str(tmp_path / "tranship" / "cli" / "config.py"))
    assert cli.main(["config", "--cmake-dir"]) == 2
    assert "there is no CMake package in" in capsys.readouterr().err
