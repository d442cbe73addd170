"""Steps and attributes in C, C++ and Fortran: what Python reads of them, and they of Python's."""

from __future__ import annotations

import ctypes as c
import json
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_library import CODES, CError, CStaging, CVariable, c_array, compiled, compiler_words, load
from hypothesis import given
from hypothesis import strategies as st

import tranship as ts
from support import PATIENCE

ROOT = Path(__file__).parents[2]
STRICT = ["-O1", "-Wall", "-Wextra", "-Werror", "-pedantic"]
LEAST = -(2**63)
LABEL = 'a "label"\n\twith ä, \x01 and \\'
ENERGY = np.arange(12.0).reshape(3, 4) / 7
IDS = np.array([100, 50, 0, -50, -100], "i4")
STEPS = iter(range(10, 1 << 30, 10))
"""Iterator of numbers of steps; each test begins some from one on."""


@pytest.fixture(scope="module")
def library() -> Any:
    return load()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, profile: str) -> Iterator[ts.StagingServer]:
    contact = tmp_path_factory.mktemp("staging") / "staging.contact"
    with ts.StagingServer(contact, profile=profile, memory=64 << 20) as opened:
        yield opened


@pytest.fixture(scope="module")
def python(server: ts.StagingServer) -> Iterator[ts.Staging]:
    with ts.Staging(server.contact, threads=1) as client:
        yield client


@pytest.fixture(scope="module")
def staging(library: Any, server: ts.StagingServer) -> Iterator[CStaging]:
    with CStaging(library, server.contact) as client:
        yield client


@pytest.fixture(scope="module", params=["c", "cpp", "fortran"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of a language, built outside of the tree with the installed package."""
    flags, libs = compiler_words("--cflags"), compiler_words("--libs")
    sources = {
        "c": ["cc", "-std=c11", *STRICT, ROOT / "tests" / "c" / "steps.c", *flags],
        "cpp": ["c++", "-std=c++20", *STRICT, ROOT / "tests" / "cpp" / "steps.cpp", *flags],
        "fortran": ["gfortran", "-std=f2018", *STRICT, "-fcheck=all"],
    }
    command: list[str | Path] = sources[request.param]
    if request.param == "fortran":
        if shutil.which("gfortran") is None:
            pytest.skip("gfortran is not installed")
        command += [*compiler_words("--fortran"), ROOT / "tests" / "fortran" / "steps.f90"]
    return compiled([*command, *libs], tmp_path_factory.mktemp(request.param) / "steps")


def run(program: Path, *words: object) -> str:
    done = subprocess.run(
        [str(word) for word in (program, *words)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# Programs


def test_python_reads_the_step_of_a_program(
    program: Path, server: ts.StagingServer, python: ts.Staging
) -> None:
    number = next(STEPS)
    run(program, server.contact, "write", number)
    step = next(iter(python.steps(number)))
    assert (step.number, step.variables) == (number, ("energy", "ids"))
    energy, ids = step["energy"], step["ids"]
    assert (energy.lower, energy.upper, energy.dtype) == ((0, -2), (3, 2), "f8")
    assert len(energy.boxes) == 2
    assert energy.get().tobytes() == ENERGY.tobytes()
    assert ids.dtype == "i4" and ids.get().tobytes() == IDS.tobytes()
    assert dict(step.attributes) == {
        "time": 0.1,
        "count": LEAST,
        "label": LABEL,
        "sizes": [3, 4, {"deep": None}],
    }
    assert isinstance(step.attributes["time"], float)
    assert (dict(energy.attributes), dict(ids.attributes)) == ({"unit": "J"}, {})


def test_a_program_reads_the_step_of_python(
    program: Path, server: ts.StagingServer, python: ts.Staging
) -> None:
    number = next(STEPS)
    values = np.random.default_rng(number).standard_normal((3, 4))
    attributes = {"time": 1 / 3, "count": 2**63 - 1, "label": "ä €\U0001f600", "list": [1.5, None]}
    with python.step(number) as step:
        step.put("energy", np.asfortranarray(values[:, :1]), (0, -2))
        step.put("energy", values[:, 1:], (0, -1))
        step.put("ids", IDS[::-1])
        step["energy"].attributes["unit"] = {"name": "J"}
        step.attributes.update(attributes)
    printed = run(program, server.contact, "echo", number)
    shown, time, count, label = printed.rstrip("\n").split(" ", 3)
    assert (int(shown), float(time), int(count)) == (number, 1 / 3, 2**63 - 1)
    assert label == attributes["label"]
    assert python.get("echo of energy", number, (0, -2), (3, 2)).tobytes() == values.tobytes()
    assert python.get("echo of ids", number).tobytes() == IDS[::-1].tobytes()
    assert {key: python.attributes[key] for key in attributes} == attributes
    assert python["energy"].attributes["unit"] == {"name": "J"}


def test_a_step_that_a_program_leaves_is_passed_by(
    program: Path, server: ts.StagingServer, python: ts.Staging
) -> None:
    number = next(STEPS)
    run(program, server.contact, "leave", number)
    with python.step(number + 1) as step:
        step.put("ids", IDS)
    # Which of the two comes first at the server is not said.
    why = f"step {number} was (given up: its writer was freed before its end|lost within it)"
    with pytest.warns(ts.SkippedVersionWarning, match=why):
        assert next(iter(python.steps(number))).number == number + 1


# Steps


def begun(staging: CStaging, number: int, writers: int = 1) -> c.c_void_p:
    step = c.c_void_p()
    staging.call("step_begin", number, writers, PATIENCE, step)
    return step


def found(staging: CStaging, number: int) -> c.c_void_p:
    step = c.c_void_p()
    staging.call("step_find", number, PATIENCE, step)
    return step


def call(staging: CStaging, name: str, *arguments: Any) -> None:
    """Calls a function that does not begin with the connection; raises its failure."""
    staging.check(getattr(staging.library, f"tranship_{name}")(*arguments))


def test_several_writers_in_two_languages(
    library: Any, server: ts.StagingServer, staging: CStaging, python: ts.Staging
) -> None:
    number = next(STEPS)
    with CStaging(library, server.contact) as other:
        mine, theirs = begun(staging, number, 3), begun(other, number, 3)
        with pytest.raises(CError, match=r"invalid_argument: .* before"):
            begun(staging, number, 3)
        with pytest.raises(CError, match=r"invalid_argument: .*has 3 writers, not 2"):
            begun(other, number, 2)
        for k, step in enumerate((mine, theirs)):
            call(staging, "step_put", step, b"rows", c_array(ENERGY + k, (3 * k, 0)), PATIENCE)
            call(staging, "step_set_int64", step, None, b"same", 5)
            call(staging, "step_end", step, PATIENCE)
            library.tranship_step_writer_free(step)
            waiting = c.c_void_p(1)
            with pytest.raises(CError, match=rf"timeout: .*ended by {k + 1} of 3 writers"):
                staging.call("step_find", number, 0.05, waiting)
            assert waiting.value is None
        with python.step(number, writers=3) as step:
            step.put("rows", ENERGY + 2, (6, 0))
            step.attributes["same"] = 5
        whole = found(staging, number)
        got = np.zeros((9, 4))
        call(staging, "step_get", whole, b"rows", c_array(got), PATIENCE)
        assert got.tobytes() == np.concatenate([ENERGY, ENERGY + 1, ENERGY + 2]).tobytes()
        library.tranship_step_free(whole)


def test_two_values_of_one_attribute_break_the_step(
    library: Any, server: ts.StagingServer, staging: CStaging, python: ts.Staging
) -> None:
    number = next(STEPS)
    with CStaging(library, server.contact) as other:
        mine, theirs = begun(staging, number, 2), begun(other, number, 2)
        call(staging, "step_set_double", mine, b"", b"x", 1.0)
        call(staging, "step_set_double", theirs, b"", b"x", 2.0)
        call(staging, "step_end", mine, PATIENCE)
        with pytest.raises(CError, match=r"invalid_argument: .*\"x\".*another value"):
            call(staging, "step_end", theirs, PATIENCE)
        with pytest.raises(CError, match=r"invalid_argument: .*has ended"):
            call(staging, "step_end", theirs, PATIENCE)
        with pytest.raises(CError, match=rf"not_found: step {number} was given up"):
            found(staging, number)
        for step in (mine, theirs):
            library.tranship_step_writer_free(step)


def test_the_death_of_a_writer_breaks_the_step(
    library: Any, server: ts.StagingServer, staging: CStaging
) -> None:
    number = next(STEPS)
    with CStaging(library, server.contact) as other:
        mine, theirs = begun(staging, number, 2), begun(other, number, 2)
        call(staging, "step_put", mine, b"rows", c_array(ENERGY), PATIENCE)
    code = CODES[library.tranship_step_put(theirs, b"rows", c_array(ENERGY), PATIENCE)]
    assert code == "closed"
    with pytest.raises(CError, match="not_found"):
        call(staging, "step_end", mine, PATIENCE)
    with pytest.raises(CError, match="not_found"):
        found(staging, number)
    for step in (mine, theirs):
        library.tranship_step_writer_free(step)


def test_the_end_waits_for_asynchronous_puts_and_fails_with_them(
    library: Any, staging: CStaging, python: ts.Staging
) -> None:
    number = next(STEPS)
    step, requests = begun(staging, number), [c.c_void_p() for _ in range(8)]
    parts = [np.full((64, 256), float(k)) for k in range(8)]
    for k, request in enumerate(requests):
        array = c_array(parts[k], (64 * k, 0))
        call(staging, "step_put_async", step, b"parts", array, PATIENCE, request)
    for request in requests[::2]:
        library.tranship_request_free(request)
    call(staging, "step_end", step, PATIENCE)
    for request in requests[1::2]:
        assert library.tranship_request_wait(request, 0.0) == 0
        library.tranship_request_free(request)
    library.tranship_step_writer_free(step)
    whole = next(iter(python.steps(number)))
    assert whole["parts"].get().tobytes() == np.concatenate(parts).tobytes()

    step, request = begun(staging, number + 1), c.c_void_p()
    call(staging, "step_put_async", step, b"parts", c_array(np.zeros(3)), PATIENCE, request)
    with pytest.raises(CError, match=r"invalid_argument: .*2 dimensions"):
        call(staging, "step_end", step, PATIENCE)
    with pytest.raises(CError, match=r"not_found: step \d+ was given up: .*2 dimensions"):
        found(staging, number + 1)
    library.tranship_request_free(request)
    library.tranship_step_writer_free(step)


def test_a_step_that_was_found(library: Any, staging: CStaging, python: ts.Staging) -> None:
    number = next(STEPS)
    with python.step(number) as step:
        step.put("plate", ENERGY, (5, -1))
        step.put("nothing", np.zeros((0, 3), "f4"))
        step.put("point", np.float32(1.5))
    whole, variable, name = found(staging, number), CVariable(), c.c_char_p()
    assert library.tranship_step_number(whole) == number
    names = []
    for k in range(library.tranship_step_size(whole)):
        call(staging, "step_name", whole, k, name)
        names.append(name.value)
    assert names == [b"nothing", b"plate", b"point"]
    call(staging, "step_describe", whole, b"plate", variable)
    assert (variable.type, variable.rank, variable.producers) == (b"f8", 2, 0)
    assert (variable.lower[:2], variable.upper[:2]) == ([5, -1], [8, 3])
    call(staging, "step_describe", whole, b"nothing", variable)
    assert (variable.type, variable.rank) == (b"f4", 2)
    assert variable.lower[0] == variable.upper[0]
    call(staging, "step_describe", whole, b"point", variable)
    assert (variable.type, variable.rank) == (b"f4", 0)
    target = np.zeros((3, 4))
    with pytest.raises(
        CError, match=r'not_found: step \d+ does not have all of this box of "plate"'
    ):
        call(staging, "step_get", whole, b"plate", c_array(target, (6, 0)), PATIENCE)
    with pytest.raises(CError, match=r'not_found: .*no variable "plat"; .*"plate"'):
        call(staging, "step_describe", whole, b"plat", variable)
    for index in (3, -1, LEAST):
        with pytest.raises(CError, match=f"out_of_range: the index is {index}, and there are 3"):
            call(staging, "step_name", whole, index, name)
    staging.call("step_discard", number)
    with pytest.raises(CError, match="not_found"):
        call(staging, "step_get", whole, b"plate", c_array(target, (5, -1)), PATIENCE)
    with pytest.raises(CError, match="not_found"):
        staging.call("step_discard", number)
    library.tranship_step_free(whole)


def test_the_next_and_the_latest_step(library: Any, tmp_path: Path, profile: str) -> None:
    step = c.c_void_p()
    with ts.StagingServer(tmp_path / "contact", profile=profile) as server:
        reader = CStaging(library, server.contact)
        with CStaging(library, server.contact) as writer:
            with pytest.raises(CError, match=r"timeout: .*no step is whole yet"):
                reader.call("step_latest", 0.05, step)
            for number in (-7, 3, 8):
                part = begun(writer, number)
                call(writer, "step_set_int64", part, None, b"number", number)
                if number == 3:
                    call(writer, "step_give_up", part, b"not \xff needed" + 5000 * b"x")
                else:
                    call(writer, "step_end", part, PATIENCE)
                library.tranship_step_writer_free(part)
            seen, after = [], LEAST
            for _ in range(2):
                reader.call("step_next", after, PATIENCE, step)
                after = library.tranship_step_number(step)
                seen.append(after)
                library.tranship_step_free(step)
            assert seen == [-7, 8]
            reader.call("step_latest", PATIENCE, step)
            assert library.tranship_step_number(step) == 8
            library.tranship_step_free(step)
            with pytest.raises(CError, match=r"not_found: step 3 was given up: .*needed"):
                reader.call("step_find", 3, PATIENCE, step)
            with pytest.raises(CError, match=r"not_found: .*there is no step 4"):
                reader.call("step_find", 4, PATIENCE, step)
        with pytest.raises(CError, match="closed: all processes that wrote steps have ended"):
            reader.call("step_next", 8, PATIENCE, step)
        assert step.value is None
        reader.close()


@pytest.mark.parametrize("servers", [1, 2])
def test_a_writer_that_is_closed_within_a_step(
    library: Any, tmp_path: Path, profile: str, servers: int
) -> None:
    contact = tmp_path / "contact"
    opened = [
        ts.StagingServer(contact, servers=servers, rank=k, profile=profile) for k in range(servers)
    ]
    with CStaging(library, contact) as reader:
        writer = CStaging(library, contact)
        part, request = begun(writer, 1), c.c_void_p()
        call(writer, "step_put", part, b"v", c_array(ENERGY), PATIENCE)
        writer.close()
        calls: list[tuple[str, tuple[Any, ...]]] = [
            ("step_put", (part, b"v", c_array(ENERGY), PATIENCE)),
            ("step_put_async", (part, b"v", c_array(ENERGY), PATIENCE, request)),
            ("step_set_double", (part, None, b"x", 1.0)),
            ("step_end", (part, PATIENCE)),
        ]
        for name, arguments in calls:
            with pytest.raises(CError, match="closed: this staging client was closed"):
                call(reader, name, *arguments)
        library.tranship_step_writer_free(part)
        with pytest.raises(CError, match="not_found"):
            found(reader, 1)
    for server in reversed(opened):
        server.close()


# Attributes


def values_of(staging: CStaging, variable: bytes | None = None) -> c.c_void_p:
    attributes = c.c_void_p()
    staging.call("attributes_of", variable, attributes)
    return attributes


def text_at(staging: CStaging, attributes: c.c_void_p, key: bytes, how: str) -> bytes | None:
    text = c.c_char_p()
    call(staging, f"attributes_{how}", attributes, key, text)
    return text.value


@given(value=st.floats() | st.integers(LEAST, 2**63 - 1) | st.text(max_size=20))
def test_values_are_written_as_python_writes_them(
    python: ts.Staging, staging: CStaging, value: float | int | str
) -> None:
    """Also byte for byte: two writers of a step may set an attribute to equal values."""
    library = staging.library
    if isinstance(value, str) and "\0" in value:
        value = value.replace("\0", "\x02")
    kinds = {float: "double", int: "int64", str: "text"}
    given_value = value.encode() if isinstance(value, str) else value
    staging.call(f"set_{kinds[type(value)]}", b"values", b"x", given_value)
    attributes = values_of(staging, b"values")
    written = json.dumps(value, ensure_ascii=False)
    assert text_at(staging, attributes, b"x", "json") == written.encode()
    got = python["values"].attributes["x"]
    assert type(got) is type(value)
    if isinstance(value, str):
        assert got == value and text_at(staging, attributes, b"x", "text") == given_value
    elif isinstance(value, int):
        number = c.c_int64()
        call(staging, "attributes_int64", attributes, b"x", number)
        assert got == value == number.value
    else:
        read = c.c_double()
        call(staging, "attributes_double", attributes, b"x", read)
        assert struct.pack("d", read.value) == struct.pack("d", got)
        assert got == value or (got != got and value != value)
    library.tranship_attributes_free(attributes)


WRONG = [
    ("3", "text", 'invalid_argument: .*"x" of the run is "3", and no text'),
    ('"3"', "double", 'invalid_argument: .*"x" of the run is ""3"", and no number'),
    ('"3"', "int64", "no whole number"),
    ("3.0", "int64", 'is "3.0", and no whole number'),
    ("3e2", "int64", "no whole number"),
    ("true", "int64", "no whole number"),
    ("null", "double", "no number"),
    ("[1]", "double", "no number"),
    ("9223372036854775808", "int64", "which 64 bits cannot hold"),
    ("9007199254740993", "double", "a whole number that no double has"),
    ("100000000000000000000001", "double", "a whole number that no double has"),
    ('"a\\u0000b"', "text", "unsupported: .*has a NUL character"),
    ('"\\ud800"', "text", "no JSON value"),
    ("", "double", "no JSON value"),
    ("{", "double", "no JSON value"),
    ("1 2", "double", "no JSON value"),
    ('"\xff', "double", "no JSON value"),
    ("nan", "double", "no JSON value"),
    ("1e999", "double", "no JSON value: a number is too large"),
]


@pytest.mark.parametrize(("value", "how", "message"), WRONG, ids=[one[0] for one in WRONG])
def test_values_of_another_type_are_refused(
    staging: CStaging, value: str, how: str, message: str
) -> None:
    targets = {"double": c.c_double(), "int64": c.c_int64(), "text": c.c_char_p()}
    attributes = c.c_void_p()
    with pytest.raises(CError, match=message):
        staging.call("set_json", None, b"x", value.encode("latin-1"))
        attributes = values_of(staging)
        call(staging, f"attributes_{how}", attributes, b"x", targets[how])
    staging.library.tranship_attributes_free(attributes)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("9007199254740994", 2.0**53 + 2), ("-0", 0.0), (" 3 ", 3.0), ("1e-400", 0.0), ("1e3", 1e3)],
)
def test_whole_numbers_are_got_as_doubles(staging: CStaging, value: str, expected: float) -> None:
    got = c.c_double(7)
    staging.call("set_json", None, b"x", value.encode())
    attributes = values_of(staging)
    call(staging, "attributes_double", attributes, b"x", got)
    assert got.value == expected
    staging.library.tranship_attributes_free(attributes)


def test_names_of_attributes(staging: CStaging, python: ts.Staging) -> None:
    for variable, key in ((None, b""), (None, b"a\nb"), (b"\xff", b"x"), (None, b"x" * 1025)):
        with pytest.raises(CError, match=r"invalid_argument: .*1 to 1024 bytes"):
            staging.call("set_int64", variable, key, 1)
    with pytest.raises(CError, match=r"invalid_argument: .*is not UTF-8"):
        staging.call("set_text", b"named", b"x", b"\xc3")
    for key in (b"a", b"b"):
        staging.call("set_text", b"named", key, key)
    attributes, key, text = values_of(staging, b"named"), c.c_char_p(), c.c_char_p()
    assert staging.library.tranship_attributes_size(attributes) == 2
    call(staging, "attributes_entry", attributes, 1, key, text)
    assert (key.value, text.value) == (b"b", b'"b"')
    with pytest.raises(CError, match="out_of_range: the index is 2, and there are 2 attributes"):
        call(staging, "attributes_entry", attributes, 2, key, text)
    with pytest.raises(CError, match='not_found: "named" has no attribute "c"; it has "a", "b"'):
        text_at(staging, attributes, b"c", "json")
    staging.call("unset", b"named", b"a")
    with pytest.raises(CError, match='not_found: "named" has no attribute "a"; it has "b"'):
        staging.call("unset", b"named", b"a")
    assert dict(python["named"].attributes) == {"b": "b"}
    assert staging.library.tranship_attributes_size(attributes) == 2  # What was read stays.
    staging.library.tranship_attributes_free(attributes)


# Refused calls


def test_null_and_handles_of_other_kinds_are_refused(library: Any, staging: CStaging) -> None:
    number, got, variable = next(STEPS), c.c_void_p(), CVariable()
    writer = begun(staging, number)
    call(staging, "step_end", writer, PATIENCE)
    whole, attributes, array = found(staging, number), values_of(staging), c_array(ENERGY)
    handles = [staging.handle, writer, whole, attributes]
    calls: list[tuple[str, list[Any], list[int]]] = [
        ("step_begin", [staging.handle, number + 1, 1, 0.1, got], []),
        ("step_put", [writer, b"x", array, 0.1], []),
        ("step_put_async", [writer, b"x", array, 0.1, got], []),
        ("step_set_double", [writer, b"", b"x", 1.0], [1]),
        ("step_set_int64", [writer, b"", b"x", 1], [1]),
        ("step_set_text", [writer, b"", b"x", b"x"], [1]),
        ("step_set_json", [writer, b"", b"x", b"1"], [1]),
        ("step_end", [writer, 0.1], []),
        ("step_give_up", [writer, b"x"], [1]),
        ("step_next", [staging.handle, 0, 0.1, got], []),
        ("step_latest", [staging.handle, 0.1, got], []),
        ("step_find", [staging.handle, 0, 0.1, got], []),
        ("step_name", [whole, 0, c.c_char_p()], []),
        ("step_describe", [whole, b"x", variable], []),
        ("step_get", [whole, b"x", array, 0.1], []),
        ("step_attributes", [whole, b"", got], [1]),
        ("step_discard", [staging.handle, 0], []),
        ("set_double", [staging.handle, b"", b"x", 1.0], [1]),
        ("set_int64", [staging.handle, b"", b"x", 1], [1]),
        ("set_text", [staging.handle, b"", b"x", b"x"], [1]),
        ("set_json", [staging.handle, b"", b"x", b"1"], [1]),
        ("unset", [staging.handle, b"", b"x"], [1]),
        ("attributes_of", [staging.handle, b"", got], [1]),
        ("attributes_entry", [attributes, 0, c.c_char_p(), c.c_char_p()], []),
        ("attributes_double", [attributes, b"x", c.c_double()], []),
        ("attributes_int64", [attributes, b"x", c.c_int64()], []),
        ("attributes_text", [attributes, b"x", c.c_char_p()], []),
        ("attributes_json", [attributes, b"x", c.c_char_p()], []),
    ]
    for name, arguments, may_be_null in calls:
        function = getattr(library, f"tranship_{name}")
        for k, argument in enumerate(arguments):
            if isinstance(argument, int | float) or k in may_be_null:
                continue
            faulty = [*arguments[:k], None, *arguments[k + 1 :]]
            with pytest.raises(CError, match=r"invalid_argument: .*(is NULL|has ended)"):
                staging.check(function(*faulty))
        for other in handles:
            if other.value != arguments[0].value:
                with pytest.raises(CError, match=r"invalid_argument: .*handle of another kind"):
                    staging.check(function(other, *arguments[1:]))
    for free in ("step_writer_free", "step_free", "attributes_free"):
        getattr(library, f"tranship_{free}")(None)
    for size in ("step_number", "step_size", "attributes_size"):
        assert getattr(library, f"tranship_{size}")(None) == 0
    library.tranship_step_writer_free(writer)
    library.tranship_step_free(whole)
    library.tranship_attributes_free(attributes)


def test_a_refused_end_leaves_the_step_open(library: Any, staging: CStaging) -> None:
    step = begun(staging, next(STEPS))
    for timeout in (-1.0, float("nan")):
        with pytest.raises(CError, match="invalid_argument: the timeout is"):
            call(staging, "step_end", step, timeout)
    call(staging, "step_put", step, b"rows", c_array(ENERGY), PATIENCE)
    call(staging, "step_end", step, PATIENCE)
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("step_put", (b"rows", c_array(ENERGY), PATIENCE)),
        ("step_put_async", (b"rows", c_array(ENERGY), PATIENCE, c.c_void_p())),
        ("step_set_text", (None, b"x", b"x")),
        ("step_end", (PATIENCE,)),
        ("step_give_up", (None,)),
    ]
    for name, arguments in calls:
        with pytest.raises(CError, match=r"invalid_argument: step \d+ has ended"):
            call(staging, name, step, *arguments)
    library.tranship_step_writer_free(step)
