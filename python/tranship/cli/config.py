"""`tranship config`: every setting, where it came from, and what is installed."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import __version__, _core, profiles
from ..hardware import hardware, nvcc, ucx
from ..installed import include_folder, library_file
from ..topology import gpu_rdma_text, storage_line
from ..units import bytes_text
from .inputs import JsonOption
from .talk import CommandError, print_json, print_table, table_of

__all__ = ["EXAMPLES", "config"]

EXAMPLES = """
tranship config
tranship config --json
TRANSHIP_THREADS=4 tranship config
cc simulation.c $(tranship config --cflags --libs) -o simulation
c++ -std=c++20 particles.cpp $(tranship config --cflags --libs) \\
  -o particles
cmake -S . -B build -D tranship_DIR="$(tranship config --cmake-dir)"
gfortran $(tranship config --fortran) simulation.f90 \\
  $(tranship config --libs) -o simulation
"""


def config(
    as_json: JsonOption = False,
    cflags: Annotated[
        bool, typer.Option("--cflags", help="Print the compiler flags that find the headers.")
    ] = False,
    cmake_dir: Annotated[
        bool, typer.Option("--cmake-dir", help="Print the folder for CMake's tranship_DIR.")
    ] = False,
    fortran: Annotated[
        bool, typer.Option("--fortran", help="Print the path of the Fortran module's source.")
    ] = False,
    libs: Annotated[
        bool, typer.Option("--libs", help="Print the linker flags for libtranship.so.")
    ] = False,
) -> None:
    """Print every setting with its value and source, versions, and where things are kept."""
    if cflags or fortran or libs or cmake_dir:
        folders = [cmake_folder()] if cmake_dir else []
        print(" ".join([*compiler_words(cflags, fortran, libs), *folders]))
        return
    settings = [
        {
            "name": name,
            "value": value,
            "source": source,
            "variable": f"TRANSHIP_{name.upper()}",
            "help": help_text,
        }
        for name, value, source, help_text in _core.describe_config({})
    ]
    values = {entry["name"]: entry["value"] for entry in settings}
    content = {
        "settings": settings,
        "versions": versions(),
        "gpu": gpu(),
        "ucx": ucx(values["ucx"], values["ucx_library"]),
        "paths": paths(),
    }
    if as_json:
        print_json(content)
    else:
        print_config(content)


def compiler_words(cflags: bool, fortran: bool, libs: bool) -> list[str]:
    """Returns the flags that compile and link a program with the library."""
    package = Path(__file__).parents[1]
    include = include_folder(package)
    library = library_file(package).parent
    if libs and not library_file(package).exists():
        raise CommandError(f"there is no libtranship.so in {library}", "install the package anew")
    words = [f"-I{include}"] if cflags else []
    words += [str(include / "tranship" / "tranship.f90")] if fortran else []
    words += [f"-L{library}", f"-Wl,-rpath,{library}", "-ltranship"] if libs else []
    return words


def cmake_folder() -> str:
    """The folder of the CMake package.

    Raises:
        CommandError: The package was installed without it.
    """
    folder = Path(__file__).parents[1] / "lib" / "cmake" / "tranship"
    if not (folder / "tranship-config.cmake").exists():
        raise CommandError(f"there is no CMake package in {folder}", "install the package anew")
    return str(folder)


def versions() -> dict[str, str | None]:
    """Returns the versions that the results of a run depend on."""
    return {
        "tranship": __version__,
        "python": platform.python_version(),
        "numpy": importlib.metadata.version("numpy"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def gpu() -> dict[str, Any]:
    """Returns what this build can do with GPUs, and what the machine has for them."""
    present = hardware()
    names = dict.fromkeys(str(row["name"]) for row in present["gpus"])
    cards = Path("/proc/driver/nvidia/gpus")
    return {
        **present["cuda"],
        "usable": len(present["gpus"]),
        "names": list(names),
        "emulated": any(row["emulated"] for row in present["gpus"]),
        "unusable_because": present["no_gpus_because"],
        "present": len(list(cards.iterdir())) if cards.is_dir() else 0,
        "nvcc": nvcc(),
        "gpu_direct_storage": present["gpu_direct_storage"],
        "rdma": present["rdma"],
    }


def paths() -> dict[str, Any]:
    """Where things are kept."""
    folder = profiles.cache_folder()
    profile = profiles.cache_path()
    return {
        "package": str(Path(__file__).parents[1]),
        "cache_folder": str(folder) if folder else None,
        "profile": str(profile) if profile else None,
        "profile_exists": profile is not None and profile.exists(),
        "profile_busy": profile is not None and is_busy(profile),
        "machines": profiles.machine_names(),
    }


def is_busy(profile: Path) -> bool:
    """Whether a kept profile was measured while other processes kept the machine busy."""
    try:
        return bool(profiles.busy_text(profile.read_text(encoding="utf-8")))
    except (OSError, ValueError):  # none yet, or one that will be measured again
        return False


def gpu_rows(card: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns rows on GPUs for the table."""
    build = "not in this build"
    if card["built_in"]:
        build = f"CUDA {card['version']}, kernels for {', '.join(card['architectures'])}"
    used = f"none: {card['unusable_because']}"
    if card["usable"]:
        used = f"{card['usable']} x {' and '.join(card['names'])}"
        used += " (in host memory)" if card["emulated"] else ""
    storage = storage_line(card["gpu_direct_storage"]).partition(": ")[2]
    cards = [entry["name"] for entry in card["rdma"]["cards"]]
    rdma = f"{', '.join(cards)}; GPU memory: {gpu_rdma_text(card['rdma'])}" if cards else "none"
    return [
        ("GPU support", build),
        ("NVIDIA driver", card["driver"] or "none"),
        ("GPUs used", used),
        ("GPUs present", str(card["present"])),
        ("nvcc", card["nvcc"] or "none"),
        ("GPUDirect Storage", storage),
        ("RDMA cards", rdma),
    ]


def ucx_text(found: dict[str, Any]) -> str:
    """Returns which UCX would be loaded and what it reaches, for people."""
    if found["library"] is None:
        return (
            "none: pip install 'libucx-cu12>=1.22,<1.23', or set TRANSHIP_UCX to the folder of one"
        )
    reached = ", ".join(found["reaches"]) or "processes of this machine"
    return f"{found['library']} ({found['from']}); reaches {reached}"


def value_text(entry: dict[str, Any]) -> str:
    """Returns a setting's value; sizes in their unit, which is read as well."""
    size = entry["name"].endswith("_bytes") and entry["value"].isdecimal()
    return bytes_text(int(entry["value"])) if size else str(entry["value"])


def print_config(content: dict[str, Any]) -> None:
    """Prints settings, versions and folders as tables."""
    settings = table_of("setting", "~value", "source", "~meaning")
    for entry in content["settings"]:
        source = "default" if entry["source"] == "default" else "environment"
        settings.add_row(entry["name"], value_text(entry), source, entry["help"])
    facts = table_of("installed", "~")
    for name, value in content["versions"].items():
        facts.add_row(name.replace("_", " "), value or "none")
    card = content["gpu"]
    for name, value in gpu_rows(card):
        facts.add_row(name, value)
    facts.add_row("UCX", ucx_text(content["ucx"]))
    places = table_of("kept in", "~")
    where = content["paths"]
    places.add_row("package", where["package"])
    places.add_row("cache folder", where["cache_folder"] or "none")
    note = "" if where["profile_exists"] else " (not measured yet: `tranship calibrate`)"
    if where["profile_busy"]:
        note = " (measured on a busy machine: `tranship calibrate`)"
    places.add_row("profile", (where["profile"] or "none") + note)
    places.add_row("machines", ", ".join(where["machines"]) or "none")
    print_table(settings)
    print("Set them as ts.Engine(threads=4), or in the environment as TRANSHIP_THREADS=4.")
    for table in (facts, places):
        print()
        print_table(table)
