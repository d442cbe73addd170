#!/usr/bin/env python3
"""Checks the rules of CONTRIBUTING.md that no linter checks.

Layers point down only, functions and files stay short, lines fit, only one file reads the
environment, no bandwidth is a literal, no large file is part of the project, no term is used that
tools/retired.toml lists, and each test file is named after what it tests. The lists of exceptions
may only shrink.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LAYERS = [
    "base",
    "os",
    "data",
    "datatypes",
    "machine",
    "plan",
    "runtime",
    "gpu",
    "fabric",
    "channels",
    "simulator",
    "engine",
    "calibration",
    "staging",
    "c",
    "mpi",
]
# Folders of a layer, the lowest first; folders of one row do not include each other.
ROOMS = {
    "fabric": [["messages"], ["wires"], ["links"], ["sessions"]],
    "staging": [["model"], ["protocol"], ["client", "server"]],
}
LINES_MAX = dict.fromkeys([".hpp", ".cpp", ".py", ".h", ".c", ".f90", ".inc"], 800)
PUBLIC_HEADER_LINES_MAX = 300
COLUMNS_MAX = 100
TRACKED_BYTES_MAX = 512 * 1024
FUNCTION_LINES_MAX = 70

TEXT_SUFFIXES = {*LINES_MAX, ".cu", ".md", ".toml", ".sh"}

# Maps paths to the reason why they may break a rule; a line goes with its reason.
EXCEPTIONS: dict[str, str] = {}

# Maps path:function to the reason why it may be longer. The table may only shrink.
LONG_FUNCTIONS: dict[str, str] = dict.fromkeys(
    [
        "python/tranship/cli/plan.py:plan",
        "python/tranship/cli/serve.py:serve",
    ],
    "its parameters are the options of a command",
)

# Folders of C++ tests that run many sources together, so that their files mirror none.
SUITES = {"conformance", "fuzz", "sim"}

# Features that Python tests are named after where no module or folder has the feature's name.
FEATURES = {
    "aliases",
    "array_manners",
    "bad_arguments",
    "bench",
    "broadcasts",
    "c_api",
    "call_orders",
    "casts",
    "copies",
    "cpp_api",
    "datatypes",
    "dimensions",
    "encryption",
    "failing_calls",
    "gpu",
    "guides",
    "histories",
    "interrupts",
    "isometry",
    "large",
    "layouts",
    "lifetimes",
    "long_chains",
    "manners",
    "measured_machines",
    "network_namespaces",
    "pages",
    "pieces",
    "plain_copies",
    "plans",
    "prepared",
    "processes",
    "real_gpus",
    "real_stream_orders",
    "recipes",
    "several_gpus",
    "slips",
    "soak",
    "stopped_peers",
    "stream_orders",
    "tensor_copies",
    "typing",
    "ucx",
}

# Test files that mirror nothing. The table may only shrink.
UNMIRRORED: set[str] = set()

CPP_FUNCTION = re.compile(r"^(?!namespace|struct|class|enum|extern|union)\S.*\)[^;={]*\{$")
# The pattern leaves out specializations and forward declarations.
CPP_TYPE = re.compile(
    r"\s*(?:struct|class|enum class|enum)\s+(?:alignas\([^)]*\)\s*)?(\w+)\b(?!<|::)[^;]*$"
)
RATE_LITERAL = re.compile(r"(?:GB/s|bytes_per_second\s*=\s*[1-9]\d{6,}|=\s*[1-9][\d.]*e9\b)")


def sources() -> list[Path]:
    """Returns all source files of the project."""
    folders = ["include", "src", "python", "tests", "benchmarks", "tools", "examples"]
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in LINES_MAX and "__pycache__" not in path.parts
    ]
    return sorted(path for path in files if path.is_file() and not path.is_symlink())


def layer_of(path: Path) -> str | None:
    """Returns the layer of a file under src/, or None."""
    parts = path.relative_to(ROOT).parts
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def check_includes(path: Path, lines: list[str]) -> list[str]:
    """Checks that includes point down only (I1)."""
    layer = layer_of(path)
    if layer is None:
        return []
    if layer not in LAYERS:
        return [f"{path}:1: the folder src/{layer} is no layer; add it to LAYERS in order"]
    found = []
    room = path.relative_to(ROOT).parts[2]
    for number, line in enumerate(lines, 1):
        match = re.match(r'#include "(\w+)/(\w+)/?', line)
        if match is None or match[1] not in LAYERS:
            continue
        if LAYERS.index(match[1]) > LAYERS.index(layer):
            found.append(f"{path}:{number}: {layer} includes {match[1]}, which is above it")
        elif match[1] == layer and not is_below(layer, match[2], room):
            found.append(f"{path}:{number}: {layer}/{room} includes {match[2]}, which is above it")
    return found


def is_below(layer: str, included: str, room: str) -> bool:
    """Returns whether one folder of a layer may include another: itself, or a lower one."""
    floors = ROOMS.get(layer, [])
    floor = {name: k for k, names in enumerate(floors) for name in names}
    if included not in floor or room not in floor or included == room:
        return True
    return floor[included] < floor[room]


def check_sizes(path: Path, lines: list[str]) -> list[str]:
    """Checks that files and lines keep their limits."""
    public = path.is_relative_to(ROOT / "include") and path.suffix in (".h", ".hpp")
    limit = PUBLIC_HEADER_LINES_MAX if public else LINES_MAX[path.suffix]
    found = []
    if len(lines) > limit:
        found.append(f"{path}:1: {len(lines)} lines; a file has at most {limit}")
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX:
            found.append(f"{path}:{number}: {len(line)} columns; a line has at most {COLUMNS_MAX}")
    return found


def check_cpp_functions(path: Path, lines: list[str]) -> list[str]:
    """Checks the length of C++ functions; a body ends at the brace in the function's column."""
    found = []
    for number, line in enumerate(lines):
        stripped = line.lstrip()
        indent = len(line) - len(stripped)
        if indent > 2 or not CPP_FUNCTION.match(stripped):
            continue
        for end in range(number + 1, len(lines)):
            if lines[end].startswith(" " * indent + "}"):
                if end - number - 1 > FUNCTION_LINES_MAX:
                    found.append(f"{path}:{number + 1}: a function of {end - number - 1} lines")
                break
    return found


def check_python_functions(path: Path, lines: list[str]) -> list[str]:
    """Checks the length of Python functions, without docstrings and decorators."""
    import ast

    found = []
    for node in ast.walk(ast.parse("\n".join(lines))):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        docstring = node.body[0] if ast.get_docstring(node) is not None else None
        length = (node.end_lineno or 0) - node.lineno + 1
        if docstring is not None:
            length -= (docstring.end_lineno or 0) - docstring.lineno + 1
        name = f"{path.relative_to(ROOT)}:{node.name}"
        if length > FUNCTION_LINES_MAX and name not in LONG_FUNCTIONS:
            found.append(f"{path}:{node.lineno}: function {node.name} has {length} lines")
    return found


def types_of(path: Path, lines: list[str]) -> dict[str, int]:
    """Returns the types that a C++ file defines in namespaces: qualified names, and their lines.

    A type of an anonymous namespace has the name that it would have outside it, followed by the
    file: two files may use the same name there, unless the enclosing namespace has it, too.
    """
    found: dict[str, int] = {}
    scopes: list[tuple[int, str]] = []  # Depth of the brace; namespace or type.
    depth = 0
    for number, line in enumerate(lines, 1):
        code = re.sub(r"//.*|\"(?:\\.|[^\"])*\"|'(?:\\.|[^'])'", "", line)
        namespace = re.match(r"\s*namespace\s*([\w:]*)\s*\{", code)
        defined = CPP_TYPE.match(code)
        if namespace:
            scopes.append((depth, namespace[1]))
        elif defined and "{" in code:
            if all(scope != "type" for _, scope in scopes):
                names = [scope for _, scope in scopes if scope]
                local = f" ({path.relative_to(ROOT)})" if any(not s for _, s in scopes) else ""
                found["::".join([*names, defined[1]]) + local] = number
            scopes.append((depth, "type"))
        depth += code.count("{") - code.count("}")
        while scopes and depth <= scopes[-1][0]:
            scopes.pop()
    return found


def check_types(folder: str) -> list[str]:
    """Checks that no two types of a folder have the same name in one namespace."""
    seen: dict[str, str] = {}
    local: list[tuple[str, str]] = []
    found = []
    for path in sources():
        if path.suffix not in (".hpp", ".cpp") or not path.is_relative_to(ROOT / folder):
            continue
        for name, number in types_of(path, path.read_text(encoding="utf-8").splitlines()).items():
            place = f"{path.relative_to(ROOT)}:{number}"
            if name.endswith(")"):
                local.append((name.split(" ")[0], place))
            elif name in seen:
                found.append(f"{place}: {seen[name]} defines {name} as well")
            else:
                seen[name] = place
    return found + [
        f"{place}: {seen[name]} defines {name} as well" for name, place in local if name in seen
    ]


def check_environment(path: Path, lines: list[str]) -> list[str]:
    """Checks that only the configuration reads the environment; src/mpi is a program's own part."""
    if layer_of(path) in (None, "mpi") or path.name == "config.cpp":
        return []
    return [
        f"{path}:{number}: the environment is read in base/config.cpp only"
        for number, line in enumerate(lines, 1)
        if re.search(r"\bgetenv\(", line)
    ]


def check_rates(path: Path, lines: list[str]) -> list[str]:
    """Checks that no bandwidth is a literal in src/ (I4); comments and messages may name units."""
    if layer_of(path) is None:
        return []
    return [
        f"{path}:{number}: a bandwidth is a literal; rates come from profiles (I4)"
        for number, line in enumerate(lines, 1)
        if RATE_LITERAL.search(re.sub(r'//.*|"[^"]*"', "", line))
    ]


def check_tracked() -> list[str]:
    """Checks that no large file, such as a downloaded package, is part of the project."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [
        f"{path}: {path.stat().st_size} bytes; leave it out, or raise TRACKED_BYTES_MAX"
        for path in paths
        if path.is_file() and path.stat().st_size > TRACKED_BYTES_MAX
    ]


def is_named_after(name: str, names: set[str]) -> bool:
    """Returns whether a name is one of several, or begins with one and says an aspect behind it."""
    words = name.split("_")
    return any("_".join(words[:count]) in names for count in range(1, len(words) + 1))


def mirrors(path: Path) -> bool:
    """Returns whether a test file, relative to the root, is named after what it tests.

    `tests/FOLDER/NAME_test.cpp` tests `src/FOLDER/**/NAME.*`, and `tests/python/test_NAME.py` a
    module or folder of the package, a folder of the project, or a feature. `_ASPECT` may follow
    NAME.
    """
    if path.suffix == ".cpp":
        folder = ROOT / "src" / path.parent.relative_to("tests")
        sources = {file.stem for file in folder.rglob("*") if file.suffix in (".cpp", ".hpp")}
        return path.parts[1] in SUITES or is_named_after(path.stem.removesuffix("_test"), sources)
    modules = {file.stem for file in (ROOT / "python" / "tranship").rglob("*")}
    folders = {file.name for file in ROOT.iterdir() if file.is_dir()}
    return is_named_after(path.stem.removeprefix("test_"), modules | folders | FEATURES)


def check_mirrors() -> list[str]:
    """Checks that test files are named after what they test, and that the lists above are used."""
    tests = [path.relative_to(ROOT) for path in sorted((ROOT / "tests").rglob("*_test.cpp"))]
    tests += [path.relative_to(ROOT) for path in sorted((ROOT / "tests/python").glob("test_*.py"))]
    unmirrored = {str(path) for path in tests if not mirrors(path)}
    found = [
        f"{name}: it is named after no source, module or feature; CONTRIBUTING.md says how"
        for name in sorted(unmirrored - UNMIRRORED)
    ]
    found += [
        f"{name}: it is gone, or named after what it tests; remove it from UNMIRRORED"
        for name in sorted(UNMIRRORED - unmirrored)
    ]
    names = [path.stem.removeprefix("test_") for path in tests if path.suffix == ".py"]
    return found + [
        f"tools/tidy.py: no test is named after {feature}; remove it from FEATURES"
        for feature in sorted(FEATURES)
        if not any(is_named_after(name, {feature}) for name in names)
    ]


def term_pattern(term: str) -> re.Pattern[str]:
    """Returns the pattern that finds a retired term.

    Words of a name end at `_` or a capital. A term with a capital is matched as it is written, any
    other in every case.
    """
    word = re.escape(term) + (r"(?![A-Za-z])" if term[-1].isalpha() else "")
    if term != term.lower():
        return re.compile(r"(?<![A-Za-z])" + word)
    capital = re.escape(term[0].upper() + term[1:])
    return re.compile(
        rf"(?<![A-Za-z])(?i:{word})|(?:(?<=[a-z])|\b){capital}(?=[A-Z])|"
        rf"(?<=[a-z]){capital}(?![a-z])"
    )


def texts(searched: list[str]) -> Iterator[Path]:
    """Yields the files of text among the searched files and folders."""
    for name in searched:
        top = ROOT / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.suffix in TEXT_SUFFIXES and path.is_file() and "__pycache__" not in path.parts:
                yield path


def check_terms() -> list[str]:
    """Checks that only the files that tools/retired.toml excepts use retired terms.

    Prints which of these use none any more: their exceptions can go.
    """
    table = tomllib.loads((ROOT / "tools" / "retired.toml").read_text(encoding="utf-8"))
    remaining = set(table["remaining"]["paths"])
    found = []
    for path in texts(table["searched"]):
        lines = lines_with_terms(path, table["terms"])
        name = str(path.relative_to(ROOT))
        if name not in remaining:
            found += lines
        elif lines:
            remaining.discard(name)
    for name in sorted(remaining):
        print(f"tools/retired.toml: {name} uses no retired term any more; remove its exception")
    return found


def lines_with_terms(path: Path, entries: list[dict[str, Any]]) -> list[str]:
    """Returns a complaint for each line of a file that uses one of the retired terms."""
    name = str(path.relative_to(ROOT))
    text = path.read_text(encoding="utf-8")
    found = []
    for entry in entries:
        terms = [term for term in entry["terms"] if term.lower() in text.lower()]
        if not terms or name.startswith(tuple(entry.get("allowed", ()))):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := next((m for t in terms if (m := term_pattern(t).search(line))), None):
                found.append(f'{path}:{number}: "{match[0]}" is retired; use: {entry["use"]}')
    return found


def check(path: Path) -> list[str]:
    """Returns everything that is wrong with one file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = check_includes(path, lines) + check_sizes(path, lines)
    found += check_environment(path, lines) + check_rates(path, lines)
    if path.suffix == ".py":
        return found + check_python_functions(path, lines)
    return found if path.suffix in (".f90", ".inc") else found + check_cpp_functions(path, lines)


def main() -> int:
    """Prints what is wrong, one line for each complaint; returns 1 if there is any."""
    found = []
    for path in sources():
        name = str(path.relative_to(ROOT))
        if name not in EXCEPTIONS:
            found += [text.replace(str(ROOT) + "/", "") for text in check(path)]
    found += [text.replace(str(ROOT) + "/", "") for text in check_tracked() + check_terms()]
    found += check_mirrors()
    # src and include are checked apart: the headers of include/ use the C API, not src/.
    found += check_types("src") + check_types("include")
    excepted = [*EXCEPTIONS, *(name.split(":")[0] for name in LONG_FUNCTIONS)]
    stale = [name for name in excepted if not (ROOT / name).exists()]
    found += [f"{name}: an exception for a file that is gone" for name in stale]
    print("\n".join(found) if found else f"tidy: {len(sources())} files, nothing to mend")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
