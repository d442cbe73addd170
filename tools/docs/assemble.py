#!/usr/bin/env python3
"""Gathers the pages of the documentation site: tools/docs/assemble.py FOLDER.

The documents are written for a reader of the repository, with links relative to their own place in
it. This script writes FOLDER/pages, in which each has its place in the site and its links are
rewritten, together with the C and C++ reference, which headers.py takes from the headers; and
FOLDER/mkdocs.yml, which inherits the project's and has the navigation without globs. Files of the
project that are no pages, such as sources, become part of the site when a page links to them.

Fails, with the file and the line, on a link to something that does not exist, and on the name of a
file of the project that does not exist. Anchors are checked by the site's generator.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import headers
import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
LINK = re.compile(r"(\]\()([^)\s]+)(\))|(src=\")([^\"]+)(\")")
FOLDERS = "src|include|python|tests|tools|docs|benchmarks|machines|examples|cmake"
SOURCE_PATH = re.compile(rf"`((?:{FOLDERS})/[\w/.-]+)`")
FENCE = re.compile(r"^\s*(```|~~~)")
LIST_ITEM = re.compile(r"^\s*([-*]|\d+\.) ")


def outside_pages() -> dict[str, str]:
    """Returns the pages that lie outside docs/: path in the repository, and place in the site."""
    places = {"README.md": "index.md"}
    places |= {name: f"project/{name.lower()}" for name in PROJECT}
    for folder in ("examples", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("README.md")):
            name = path.relative_to(ROOT).as_posix()
            places[name] = name.replace("README.md", "index.md")
    return places


PLACES = outside_pages()


def place_of(name: str) -> str | None:
    """Returns the place in the site of a file or folder of the repository, or None.

    A folder of documents stands for its first one.
    """
    if name in PLACES:
        return PLACES[name]
    if f"{name}/README.md" in PLACES:
        return PLACES[f"{name}/README.md"]
    path = ROOT / name
    if name.startswith("docs/"):
        first = min(path.glob("*.md"), default=None) if path.is_dir() else path
        exists = first is not None and first.is_file()
        return str(first.relative_to(ROOT / "docs")) if first and exists else None
    return f"source/{name}.txt" if path.is_file() else None


def split_code(markdown: str) -> list[tuple[bool, str]]:
    """Returns the lines of a page, each with whether it belongs to a block of code."""
    lines, fenced = [], False
    for line in markdown.splitlines():
        fence = FENCE.match(line) is not None
        lines.append((fenced or fence, line))
        fenced ^= fence
    return lines


def linked(markdown: str) -> list[str]:
    """Returns the targets of the links of a page."""
    text = "\n".join(line for code, line in split_code(markdown) if not code)
    return [match[2] or match[5] for match in LINK.finditer(text)]


def resolve(name: str, target: str) -> str | None:
    """Returns the file or folder of the repository to which a link of the page `name` points."""
    path = target.split("#")[0]
    if not path or re.match(r"[a-z]+:|/", path):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))


def rewrite(name: str, target: str) -> str:
    """Returns the link of the page `name` as it is in the site."""
    path = resolve(name, target)
    place = place_of(path) if path is not None else None
    here = place_of(name)
    if place is None or here is None:
        return target
    anchor = target[target.index("#") :] if "#" in target else ""
    return posixpath.relpath(place, posixpath.dirname(here) or ".") + anchor


def rewrite_line(name: str, line: str) -> str:
    """Returns a line of the page `name` with the links of the site."""

    def replaced(match: re.Match[str]) -> str:
        before, target, after = match.groups()[:3] if match[1] else match.groups()[3:]
        return f"{before}{rewrite(name, target)}{after}"

    return LINK.sub(replaced, in_table(line))


def in_table(line: str) -> str:
    """Returns a row of a table as the site's generator reads it: GitHub asks for a backslash before
    a bar in code, which the generator would show."""
    if not line.startswith("|"):
        return line
    return re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), line)


def title_of(text: str) -> str | None:
    """Returns the first heading of a page, for the navigation."""
    match = re.search(r"^# (.+)$", text, re.MULTILINE)
    return match[1].replace("`", "") if match else None


def expand(entries: list[Any], taken: set[str], titles: dict[str, str]) -> list[Any]:
    """Returns the navigation with each "folder/*" replaced by the pages that nothing else names."""
    expanded: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            (title, value), *_ = entry.items()
            inner = expand(value, taken, titles) if isinstance(value, list) else value
            if inner:
                expanded.append({title: inner})
        elif entry.endswith("/*"):
            found = [p for p in sorted(titles) if p.startswith(entry[:-1]) and p not in taken]
            taken.update(found)
            expanded += [{titles[p]: p} for p in found]
        else:
            expanded.append(entry)
    return expanded


def named_in(entries: Any) -> set[str]:
    """Returns the pages that a navigation names."""
    if isinstance(entries, str):
        return {entries}
    values = entries.values() if isinstance(entries, dict) else entries
    return {name for value in values for name in named_in(value)}


def navigation() -> list[Any]:
    """Returns the navigation of mkdocs.yml, whose other parts only its generator can read."""

    class Loader(yaml.SafeLoader):
        """A YAML loader that reads Python objects as None."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, tag, node: None)
    return yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)["nav"]


def missing_paths(name: str, line: str) -> list[str]:
    """Returns the paths of the project that a line names and that do not exist.

    A path may leave out the suffix. Decisions and the changelog name what existed at their time.
    """
    if name.startswith("docs/decisions/") or name == "CHANGELOG.md":
        return []
    named = [match.rstrip("/") for match in SOURCE_PATH.findall(line)]
    return [path for path in named if not (ROOT / path).exists() and not beginnings(path)]


def beginnings(path: str) -> list[Path]:
    """Returns the files and folders whose path begins with this string."""
    parent, name = (ROOT / path).parent, Path(path).name
    return [p for p in parent.glob("*") if p.name.startswith((f"{name}.", f"{name}_"))]


def page_of(name: str, broken: list[str]) -> tuple[str, set[str]]:
    """Returns a page as the site has it, and the files of the repository to which it links.

    Lists begin as CommonMark has it, without an empty line before them.
    """
    lines: list[str] = []
    files: set[str] = set()
    text = (ROOT / name).read_text(encoding="utf-8")
    for number, (code, line) in enumerate(split_code(text), 1):
        for target in [] if code else linked(line):
            path = resolve(name, target)
            if path is not None and place_of(path) is None:
                broken.append(f"{name}:{number}: the link {target} leads nowhere")
            elif path is not None:
                files.add(path)
        broken += [f"{name}:{number}: {path} does not exist" for path in missing_paths(name, line)]
        before = lines[-1] if lines else ""
        begins = not code and LIST_ITEM.match(line)
        if begins and re.match(r"\S", before) and not LIST_ITEM.match(before):
            lines.append("")
        lines.append(line if code else rewrite_line(name, line))
    return "\n".join(lines) + "\n", files


def assemble(folder: Path) -> list[str]:
    """Writes the pages and the configuration; returns what is wrong with links."""
    pages = folder / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages)
    broken: list[str] = []
    texts = headers.pages(ROOT / "include" / "tranship")
    files: set[str] = set()
    documents = [p.relative_to(ROOT).as_posix() for p in sorted((ROOT / "docs").rglob("*.md"))]
    for name in [*PLACES, *documents]:
        text, linked_files = page_of(name, broken)
        texts[str(place_of(name))] = text
        files |= linked_files
    for name in files:
        place = str(place_of(name))
        if place.startswith("source/"):
            (pages / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, pages / place)
    for place, text in texts.items():
        (pages / place).parent.mkdir(parents=True, exist_ok=True)
        (pages / place).write_text(text, encoding="utf-8")
    titles = {place: title_of(text) or place for place, text in texts.items()}
    entries = navigation()
    settings = {
        "INHERIT": str(ROOT / "mkdocs.yml"),
        "docs_dir": "pages",
        "site_dir": "site",
        "nav": expand(entries, named_in(entries), titles),
    }
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    return broken


def main() -> int:
    """Assembles the site's pages; returns 1 if a link leads nowhere."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    broken = assemble(folder)
    print("\n".join(broken), file=sys.stderr, end="\n" if broken else "")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
