"""The tools that check terms and names of tests, and that write the reference of the headers."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


def load(name: str) -> ModuleType:
    """Imports a tool."""
    spec = importlib.util.spec_from_file_location(Path(name).stem, TOOLS / name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("term", "found", "ignored"),
    [
        (
            "harbour",
            ["the harbour", "Harbour.", "harbour_of", "ToHarbour", "HarbourId"],
            ["harbours"],
        ),
        ("slow_boat", ["slow_boat(", "a slow_boat"], ["slow_boats", "slow boat"]),
        ("Two of us.", ["/// Two of us."], ["the two of us."]),
    ],
)
def test_retired_terms_are_whole_words(term: str, found: list[str], ignored: list[str]) -> None:
    pattern = load("tidy.py").term_pattern(term)
    assert all(pattern.search(text) for text in found)
    assert not any(pattern.search(text) for text in ignored)


SHIPYARD = [
    "src/hull/keel.hpp",
    "src/hull/parts/mast.cpp",
    "python/tranship/fleet/flag.py",
    "tests/hull/keel_test.cpp",
    "tests/hull/mast_height_test.cpp",
    "tests/hull/keels_test.cpp",
    "tests/sim/storms_test.cpp",
    "tests/python/test_flag.py",
    "tests/python/test_fleet_orders.py",
    "tests/python/test_calm.py",
    "tests/python/test_flagship.py",
]


def test_test_files_are_named_after_what_they_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SHIPYARD:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    tidy = load("tidy.py")
    monkeypatch.setattr(tidy, "ROOT", tmp_path)
    monkeypatch.setattr(tidy, "FEATURES", {"calm", "piracy"})
    monkeypatch.setattr(tidy, "UNMIRRORED", {"tests/hull/keels_test.cpp", "tests/hull/gone.cpp"})
    found = tidy.check_mirrors()
    assert [line.split(":")[0] for line in found] == [
        "tests/python/test_flagship.py",
        "tests/hull/gone.cpp",
        "tools/tidy.py",
    ]
    assert "no test is named after piracy" in found[2]


HEADER = """// Ships.
#pragma once

namespace fleet {

/// Which flag.
enum class Flag { red, green };

/// A ship.
class Ship {
 public:
  /// Builds a ship.
  /// @error InvalidArgument without a name
  explicit Ship(std::string name) : name_(std::move(name)) {}
  static constexpr int masts_max = limit(3);

  bool afloat() const { return true; }

 private:
  /// Not for readers.
  std::string name_;
};

namespace detail {
void keel();
}  // namespace detail

}  // namespace fleet
"""


def test_headers_become_pages(tmp_path: Path) -> None:
    (tmp_path / "ship.hpp").write_text(HEADER, encoding="utf-8")
    text = load("docs/headers.py").pages(tmp_path)["reference/api/cpp.md"]
    headings = [line.lstrip("# `").rstrip("`") for line in text.splitlines() if line[:3] == "###"]
    assert headings == ["Flag", "Ship", "Ship::Ship", "Ship::masts_max", "Ship::afloat"]
    assert "explicit Ship(std::string name);" in text
    assert "bool afloat() const;" in text
    assert "**Errors:** InvalidArgument without a name" in text
    assert "name_;" not in text and "keel" not in text
