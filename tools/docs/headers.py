"""Writes the reference of the C and C++ headers as Markdown, from their declarations and comments.

The headers keep to one style, which is all that is read here: a comment stands directly before its
declaration, `///` or `/* */`, or behind a member as `///<`; clang-format has laid out the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

INTRODUCTION = """# {title}

From the headers in `include/tranship/`, as they are installed. {flags} gives the compiler flags.
The guides have [programs](../../guides/{guide}.md).
"""
TYPE = re.compile(
    r"^(?:template\s*<.*>\s*)?(?:enum class|enum|struct|class)\s+(?:\[\[\w+\]\]\s+)?(\w+)"
)
ACCESS = re.compile(r"^\s*(public|protected|private):\s*$")
INNER = re.MULTILINE | re.DOTALL
SKIPPED = re.compile(r"^\s*(extern \"C\" \{|namespace [\w:]* ?\{|\}\s*(// namespace.*|;)?$|#)")


@dataclass
class Declaration:
    """A declaration of a header with its comment and, of a class, its public members."""

    name: str
    code: str
    text: str
    members: list[Declaration] = field(default_factory=list)


def without_comments(line: str) -> str:
    """Returns a line of code without strings and comments."""
    return re.sub(r"//.*|/\*.*?\*/", "", re.sub(r'"(\\.|[^"\\])*"', '""', line))


def comment_at(lines: list[str], start: int) -> tuple[str, int]:
    """Returns the text of the comment that begins at a line, and the number of the next line."""
    end = start
    if lines[start].lstrip().startswith("//"):
        while end < len(lines) and lines[end].lstrip().startswith("//"):
            end += 1
        text = [re.sub(r"^\s*//[/!]? ?", "", line) for line in lines[start:end]]
    else:
        while "*/" not in lines[end]:
            end += 1
        end += 1
        text = [re.sub(r"^\s*(/\*+|\*(?!/))? ?", "", line) for line in lines[start:end]]
        text[-1] = re.sub(r"\s*\*/\s*$", "", text[-1])
    return "\n".join(text).strip(), end


def declaration_at(lines: list[str], start: int) -> int:
    """Returns the number of the line behind the declaration that begins at a line."""
    depth = 0
    for number in range(start, len(lines)):
        code = without_comments(lines[number])
        depth += sum(code.count(c) for c in "({[") - sum(code.count(c) for c in ")}]")
        if depth <= 0 and re.search(r"[;}]\s*$", code.rstrip()):
            return number + 1
    return len(lines)


def name_of(code: str) -> str:
    """Returns the name that a declaration introduces."""
    plain = " ".join(without_comments(line).strip() for line in code.splitlines()).strip()
    plain = re.sub(r"^template <[^>]*> ", "", plain)
    for pattern in (r"^#define (\w+)", r"^using (\w+) =", r"^typedef .*?(\w+);$"):
        if match := re.match(pattern, plain):
            return match[1]
    if match := TYPE.match(plain):
        return match[1]
    head = re.sub(r"\[\[\w+\]\]\s*", "", plain)
    if match := re.match(r"[^(]*?(\w+) = ", head.replace("operator=", "")):
        return match[1]
    if match := re.search(r"(operator\s*(?:\(\)|[^\s(]+)|operator \w+|~?\w+)\s*\(", head):
        return match[1]
    match = re.search(r"(\w+)\s*(?:\[[^]]*\]|\{[^}]*\}|=[^;]*)?;", head)
    return match[1] if match else head[:40]


def without_body(code: str) -> str:
    """Returns a function's declaration without its body and initializers."""
    plain = "\n".join(without_comments(line) for line in code.splitlines())
    body = re.search(
        r"\)(?: const)?(?: ?&&?)?(?: noexcept)?(?: override)?(\s+:\s[^:].*| \{)", plain, re.DOTALL
    )
    return plain[: body.start(1)].rstrip() + ";" if body else code


def dedent(code: str) -> str:
    """Returns code without the indentation of its first line."""
    lines = code.splitlines()
    width = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[width:] if not line[:width].strip() else line for line in lines)


def parse(lines: list[str], public: bool = True) -> tuple[str, list[Declaration]]:
    """Returns the comment of a header or class body, and its public declarations."""
    opening, text, found = "", "", []
    number = 0
    while number < len(lines):
        line = lines[number]
        stripped = line.strip()
        if access := ACCESS.match(line):
            public, text, number = access[1] == "public", "", number + 1
        elif stripped.startswith(("///", "/*", "//")) and not stripped.startswith("///<"):
            text, number = comment_at(lines, number)
            opening = opening or (text if not found else "")
        elif re.match(r"#define \w+ \S", stripped) and "attribute" not in line:
            found.append(Declaration(name_of(stripped), stripped, text))
            text, number = "", number + 1
        elif not stripped or SKIPPED.match(line):
            text, number = "", number + 1
            while lines[number - 1].rstrip().endswith("\\"):
                number += 1
        else:
            end = declaration_at(lines, number)
            if public:
                found.append(declared(lines[number:end], text))
            text, number = "", end
    return opening, [one for one in found if one is not None]


def declared(lines: list[str], text: str) -> Declaration | None:
    """Returns one declaration, or None for what a caller has no use for."""
    code = dedent("\n".join(lines))
    if error_class := re.match(r"TRANSHIP_ERROR_CLASS\((\w+), (\w+)\);", code):
        name, error_code = error_class.groups()
        return Declaration(
            name, f"class {name} : public Error;", f"An error with `Code::{error_code}`."
        )
    if code.startswith("TRANSHIP_API "):
        code = re.sub(r"^(TRANSHIP_API | {13}(?= ))", "", code, flags=re.MULTILINE)
    code = code.replace("class TRANSHIP_API ", "class ")
    first = re.sub(
        r"\s+", " ", re.split(r"(?<=[{;])", "\n".join(map(without_comments, code.splitlines())))[0]
    )
    name = name_of(code)
    if (
        re.search(r"\bfriend\b|= delete|~\w+\(", first)
        or re.match(r"using [\w:]+;", code)
        or re.fullmatch(r"(struct|class) \w+;", code)
    ):
        return None
    match = TYPE.match(first)
    if match and "enum" not in first and "{" in first:
        begin = next(k for k, line in enumerate(lines) if "{" in without_comments(line)) + 1
        _, members = parse(lines[begin:-1], public=" class " not in f" {first}")
        if any("(" in without_comments(m.code) and "operator==" not in m.name for m in members):
            return Declaration(name, first.split("{")[0].rstrip() + ";", text, members)
    if not match and not first.startswith("typedef"):
        code = without_body(code)
    return Declaration(name, code, text)


def markdown_of(text: str) -> str:
    """Returns a comment as Markdown: its tags become words, and its indented parts code."""
    text = re.sub(r"^@(?:error|errors|throws)\s+", "**Errors:** ", text, flags=re.MULTILINE)
    text = re.sub(r"^@returns?\s+", "**Returns:** ", text, flags=re.MULTILINE)
    text = re.sub(r"^@param\s+(\w+)", r"- `\1`:", text, flags=re.MULTILINE)
    lines: list[str] = []
    for line in text.splitlines():
        before = lines[-1] if lines else ""
        if line.startswith(("**", "- `")) and before and not before.startswith("-"):
            lines.append("")
        code = line.startswith("  ") and (not before.strip() or before.startswith("    "))
        lines.append(f"    {line}" if code and not line.lstrip().startswith(("- ", "* ")) else line)
    return "\n".join(lines)


def sections(declarations: list[Declaration], level: int, language: str, scope: str = "") -> str:
    """Returns the declarations as sections: a heading for each, once for overloads of one name."""
    parts, before = [], ""
    for one in declarations:
        if one.name != before:
            parts.append(f"{'#' * level} `{scope}{one.name}`")
        before = one.name
        parts.append(f"```{language}\n{one.code}\n```")
        if one.text:
            parts.append(markdown_of(one.text))
        if one.members:
            parts.append(sections(one.members, level + 1, language, f"{one.name}::"))
    return "\n\n".join(parts)


def page(title: str, files: list[Path], language: str, flags: str, guide: str) -> str:
    """Returns the page of some headers."""
    parts = [INTRODUCTION.format(title=title, flags=flags, guide=guide)]
    for path in files:
        text = path.read_text(encoding="utf-8")
        public = re.sub(r"^namespace detail \{.*?^\}  // namespace detail$", "", text, flags=INNER)
        opening, declarations = parse(public.splitlines())
        parts += [f"## {path.name}", markdown_of(opening), sections(declarations, 3, language)]
    return "\n\n".join(parts) + "\n"


def pages(folder: Path) -> dict[str, str]:
    """Returns the place in the site and the text of each page of the reference."""
    c, cpp = sorted(folder.glob("*.h")), sorted(folder.glob("*.hpp"))
    flags = "`tranship config --cflags --libs`"
    return {
        "reference/api/c.md": page("C API", c, "c", flags, "c-and-fortran"),
        "reference/api/cpp.md": page(
            "C++ API", cpp, "cpp", f"CMake's `find_package(tranship)`, or {flags},", "cpp"
        ),
    }
