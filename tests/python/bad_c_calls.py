"""Calls every function of the C headers with bad numbers and pointers: each returns a code.

    python tests/python/bad_c_calls.py [SEED [CALLS]]

Functions, structs and their members are read from the headers, so that none is left out. Pointers
are null or lead to memory that is there, counts are negative, small or beyond any memory: what lies
behind a pointer C cannot check. The exit status is 1 if a call returned no code, or
`TRANSHIP_OK` for a negative count, a null output or a handle of another kind; a crash ends the
program by its signal.
"""

from __future__ import annotations

import ctypes as c
import faulthandler
import os
import random
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from c_library import RANK_MAX

import tranship

PACKAGE = Path(tranship.__file__).parent
HEADERS = PACKAGE / "include" / "tranship"
CODES = range(13)
NUMBERS = {"int": c.c_int, "int64_t": c.c_int64, "size_t": c.c_size_t, "double": c.c_double}
ROOM = 1 << 20
HANGS_S = 60.0
HANDLES_MAX = 8
TOLD_APART = ("tranship_staging", "tranship_step_writer", "tranship_step", "tranship_attributes")
"""Kinds of handles that begin with what they are: one of another kind is refused."""

Parameter = tuple[str, str]
"""Type and name, such as ("const tranship_instance*", "source")."""


def declarations() -> tuple[dict[str, tuple[str, list[Parameter]]], dict[str, list[Parameter]]]:
    """Returns all functions, with results and parameters, and all structs, with members."""
    text = "\n".join(path.read_text() for path in sorted(HEADERS.glob("*.h")))
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    functions = {}
    for result, name, given in re.findall(r"TRANSHIP_API\s+([^;(]*?)(\w+)\(([^)]*)\)\s*;", text):
        parameters = [] if given.strip() == "void" else [split(one) for one in given.split(",")]
        functions[name] = (clean(result), parameters)
    structs = {}
    for name, body in re.findall(r"typedef struct (\w+) \{([^}]*)\}", text):
        structs[name] = [split(one) for one in body.split(";") if one.strip()]
    return functions, structs


def clean(kind: str) -> str:
    """Returns a C type without needless spaces."""
    return re.sub(r"\s*\*\s*", "*", " ".join(kind.split())).replace("*const*", "**")


def split(declared: str) -> Parameter:
    """Returns type and name of a parameter or member; an array is its type and its length."""
    found = re.match(r"(.*?)(\w+)(\[\w+\])?$", " ".join(declared.split()))
    assert found is not None, declared
    return clean(found[1]) + ("[]" if found[3] else ""), found[2]


class Caller:
    """The library, handles of each kind, and memory that pointers lead to."""

    def __init__(self, chance: random.Random, folder: str, staging: str) -> None:
        self.chance = chance
        self.staging = staging
        self.folder = folder.encode()
        self.library = c.CDLL(str(PACKAGE / "lib" / "libtranship.so"))
        self.functions, self.structs = declarations()
        self.layouts = {name: self.structure(name) for name in self.structs}
        self.memory = c.create_string_buffer(ROOM)
        self.middle = c.addressof(self.memory) + ROOM // 2
        self.handles: dict[str, list[c.c_void_p]] = {}
        self.kept: list[Any] = []
        self.negative = self.no_output = self.other_kind = False
        for name, (result, _) in self.functions.items():
            function = getattr(self.library, name)
            pointers = {"const char*": c.c_char_p, "void*": c.c_void_p, "void": None}
            function.restype = pointers[result] if result in pointers else NUMBERS.get(result)
            if result == "tranship_code":
                function.restype = c.c_int
        self.open()
        self.open_staging()

    def structure(self, name: str) -> type[c.Structure]:
        members: list[Any] = []
        for kind, member in self.structs[name]:
            if kind == "char[]":
                members.append((member, c.c_char * 16))
            elif kind.endswith("[]"):
                members.append((member, NUMBERS[kind[:-2]] * RANK_MAX))
            elif kind in self.structs:
                members.append((member, self.structure(kind)))
            else:
                members.append((member, NUMBERS.get(kind, c.c_void_p)))
        return type(name, (c.Structure,), {"_fields_": members})

    def open(self) -> None:
        """Opens what most calls need."""
        engine = self.open_engine()
        self.handles["tranship_engine"] = [engine]
        for kind in (b"f8", b"i4", b"V1"):
            made = c.c_void_p()
            assert self.library.tranship_type_element(kind, c.byref(made)) == 0
            self.handles.setdefault("tranship_type", []).append(made)
        for extents in ((4, 4), (4, 4), (2, 3)):
            array = self.layouts["tranship_array"]()
            array.data, array.rank = self.middle + 4096 * len(self.handles), 2
            array.type = c.cast(c.c_char_p(b"f8"), c.c_void_p).value
            array.extents[:2] = extents
            made = c.c_void_p()
            code = self.library.tranship_instance_of_array(engine, c.byref(array), c.byref(made))
            assert code == 0
            self.handles.setdefault("tranship_instance", []).append(made)
        self.open_peer()

    def open_staging(self) -> None:
        """Connects to a server, and makes steps: an open one, and two that were ended."""
        call, ten = self.library, c.c_double(10)
        staging, found, attributes = c.c_void_p(), c.c_void_p(), c.c_void_p()
        contact = self.staging.encode()
        assert call.tranship_open(contact, None, ten, c.byref(staging)) == 0
        array = self.layouts["tranship_array"]()
        array.data, array.rank = self.middle, 1
        array.type = c.cast(c.c_char_p(b"f8"), c.c_void_p).value
        array.extents[0] = 8
        writers = [c.c_void_p() for _ in range(3)]
        for number, writer in zip((-6, -5, -4), writers, strict=True):
            begun = (staging, c.c_int64(number), 1, ten, c.byref(writer))
            assert call.tranship_step_begin(*begun) == 0
            assert call.tranship_step_put(writer, b"d0", c.byref(array), ten) == 0
            assert call.tranship_step_set_text(writer, None, b"x", b"x") == 0
        for writer in writers[:2]:
            assert call.tranship_step_end(writer, ten) == 0
        assert call.tranship_step_latest(staging, ten, c.byref(found)) == 0
        assert call.tranship_set_int64(staging, None, b"x", c.c_int64(1)) == 0
        assert call.tranship_attributes_of(staging, None, c.byref(attributes)) == 0
        self.handles["tranship_staging"] = [staging]
        self.handles["tranship_step_writer"] = writers
        self.handles["tranship_step"] = [found]
        self.handles["tranship_attributes"] = [attributes]

    def open_engine(self) -> c.c_void_p:
        """Opens an engine that accepts connections."""
        options, engine = self.layouts["tranship_engine_options"](), c.c_void_p()
        options.size, options.accept = c.sizeof(options), 1
        assert self.library.tranship_engine_open(c.byref(options), c.byref(engine)) == 0
        return engine

    def open_peer(self) -> None:
        """Connects to an engine that exports an array, and takes a notice of it."""
        call, ten = self.library, c.c_double(10)
        engine, owner = self.handles["tranship_engine"][0], self.open_engine()
        contact = c.c_char_p()
        peer, remote, event = c.c_void_p(), c.c_void_p(), c.c_void_p()
        exported = self.layouts["tranship_export_options"]()
        exported.size, exported.notices = c.sizeof(exported), 1
        first, second = self.handles["tranship_instance"][:2]
        assert call.tranship_export_with(owner, b"inbox", second, c.byref(exported)) == 0
        assert call.tranship_engine_contact(owner, c.byref(contact)) == 0
        assert call.tranship_connect(engine, contact, ten, c.byref(peer)) == 0
        assert call.tranship_peer_lookup(peer, b"inbox", ten, c.byref(remote)) == 0
        options, notices = self.layouts["tranship_copy_options"](), c.c_void_p()
        options.size = c.sizeof(options)
        options.notify = c.cast(c.c_char_p(b"x"), c.c_void_p).value
        assert call.tranship_copy(engine, first, remote, c.byref(options), c.byref(event)) == 0
        assert call.tranship_event_wait(event, ten) == 0
        assert call.tranship_engine_notices(owner, ten, c.byref(notices)) == 0
        assert call.tranship_notices_size(notices) == 1
        self.handles["tranship_engine"].append(owner)
        self.handles["tranship_peer"] = [peer]
        self.handles["tranship_notices"] = [notices]
        self.handles["tranship_instance"].insert(0, remote)  # the first three are kept

    def number(self, kind: str, name: str) -> Any:
        """Returns a number for a parameter of that name."""
        pick = self.chance.choice
        if kind == "double":
            return pick((-1.0, float("nan"), 0.0, 0.01, -float("inf")))
        if kind == "size_t":
            return pick((0, 1, 8, 7, 2**64 - 1, 10**6))
        small = (-1, 0, 1, 2, 3, 4, -7)
        if name in ("bytes", "nbytes"):
            return pick((-1, 0, 8, 128, -(2**63)))
        if kind == "int":
            huge = (-(2**31),) if name.endswith(("count", "rank")) else (-(2**31), 2**31 - 1)
            number = pick((*small, *huge))
        else:
            number = pick((*small, -(2**63), 2**63 - 1, 2**62, -(2**62)))
        if name.endswith("count") and number < 0:
            self.negative = True
        return number

    def list_of(self, kind: str) -> int:
        """Returns the address of sixteen members, which more than any small count needs."""
        base = kind.removeprefix("const ")[:-1]
        if base in NUMBERS:
            numbers = [self.number("int", "") if base != "double" else 0.0 for _ in range(16)]
            array: Any = (NUMBERS[base] * 16)(*numbers)
        elif base in self.structs:
            first = self.filled(base)
            negative = self.negative  # the others may not be read
            array = (self.layouts[base] * 16)(first, *(self.filled(base) for _ in range(15)))
            self.negative = negative
        else:
            other_kind = self.other_kind  # what the memory of an output holds is not read
            array = (c.c_void_p * 16)(*(self.handle(base.rstrip("*")) for _ in range(16)))
            self.other_kind = other_kind
        self.kept.append(array)
        return c.addressof(array)

    def filled(self, name: str) -> c.Structure:
        """Returns a struct with members of any kind."""
        made = self.layouts[name]()
        negative = self.negative
        sound = self.chance.random() < 0.5
        for kind, member in self.structs[name]:
            if member == "size" and kind == "size_t":
                made.size = c.sizeof(made) if sound else self.number(kind, member)
            elif kind == "char[]" or kind in self.structs:
                continue
            elif kind.endswith("[]"):
                numbers = [self.number("int", "") for _ in range(RANK_MAX)]
                getattr(made, member)[:] = numbers
            elif sound and self.chance.random() < 0.5 and member not in ("data", "type"):
                continue  # the default
            else:
                setattr(made, member, self.value(kind, member))
        if name == "tranship_array" and self.reach(made) > ROOM // 2:
            made.data = None
        if "size" in dict(made._fields_) and made.size != c.sizeof(made):
            self.negative = negative  # it is not read
        return made

    def reach(self, array: Any) -> int:
        """Returns how far from its first element an array reaches at most, in bytes."""
        extents = [max(abs(n), 1) for n in array.extents[: max(array.rank, 0)]]
        dense = 16
        for n in extents:
            dense *= n
        strides = zip(extents, array.strides, strict=False)
        return max(dense, 16 + sum((n - 1) * abs(stride) for n, stride in strides))

    def handle(self, kind: str) -> int | None:
        """Returns a handle, or null."""
        kind = kind.removeprefix("const ")
        held = self.handles.get(kind, [])
        if kind in TOLD_APART and self.chance.random() < 0.1:
            held = self.handles[self.chance.choice([k for k in TOLD_APART if k != kind])]
            self.other_kind = True
        return self.chance.choice(held).value if held and self.chance.random() < 0.9 else None

    def text(self, name: str) -> int | None:
        words = [b"", b"x", b"d0", b"f8", b"i4", b"V1", b"\xff", b"e" * 5000, b"F, x", b"r", b"w"]
        words += [
            b"threads",
            b"1",
            b"1000000000",
            b"shared",
            b"device0",
            b"device99999999999",
            b"%s",
        ]
        paths = ("path", "contact", "contact_file", "trace_file", "profile")
        if name in paths:
            words = [self.folder + b"/none", self.folder, b"", self.folder + b"/\xff"]
        word = c.c_char_p(self.chance.choice(words))
        self.kept.append(word)
        return c.cast(word, c.c_void_p).value if self.chance.random() < 0.9 else None

    def value(self, kind: str, name: str) -> Any:
        """Returns any value of a type."""
        if kind in NUMBERS:
            return self.number(kind, name)
        if kind == "tranship_code":
            return self.chance.choice((0, 1, 12, 13, -1, 2**31 - 1, -(2**31)))
        if kind == "const char*":
            return self.text(name)
        if self.chance.random() < 0.1:
            return None
        if kind in ("void*", "const void*"):
            return self.middle
        base = kind.removeprefix("const ").rstrip("*")
        if kind.endswith("**") or (base in NUMBERS or base in self.structs):
            return self.list_of(kind)
        return self.handle(base)

    def call(self, name: str) -> str:
        """Calls a function once; returns what is wrong with what came back."""
        result, parameters = self.functions[name]
        self.kept.clear()
        self.negative = self.no_output = self.other_kind = False
        outputs: list[tuple[str, c.c_void_p]] = []
        arguments: list[Any] = []
        ends = name.endswith(("_free", "_close")) and name != "tranship_file_close"
        for kind, parameter in parameters:
            if ends:
                arguments.append(None)  # only null may be freed twice
            elif kind.endswith("**") and not kind.startswith("const"):
                if parameter in ("after",) or self.chance.random() < 0.9:
                    outputs.append((kind.rstrip("*"), c.c_void_p()))
                    arguments.append(c.byref(outputs[-1][1]))
                else:
                    self.no_output = True
                    arguments.append(None)
            else:
                made = self.value(kind, parameter)
                arguments.append(self.argument(kind, made))
        code = getattr(self.library, name)(*arguments)
        if result != "tranship_code":
            return ""
        for kind, handle in outputs:
            if code == 0 and handle.value:
                self.keep(kind, handle)
        if code not in CODES:
            return f"{name} returned {code}"
        wrong = "a negative count" if self.negative else "a null output" if self.no_output else ""
        wrong = wrong or ("a handle of another kind" if self.other_kind else "")
        return f"{name} took {wrong}" if code == 0 and wrong else ""

    def argument(self, kind: str, value: Any) -> Any:
        if kind in NUMBERS:
            return NUMBERS[kind](value)
        return c.c_int(value) if kind == "tranship_code" else c.c_void_p(value)

    def keep(self, kind: str, handle: c.c_void_p) -> None:
        """Keeps a handle for later calls, in place of an older one, which is freed."""
        free = getattr(self.library, f"{kind}_free", None)
        if kind == "tranship_engine":
            self.library.tranship_engine_close(handle)
            return
        if free is None:
            return
        if kind in ("tranship_type", "tranship_packer") and not self.near(kind, handle):
            free(handle)
            return
        held = self.handles.setdefault(kind, [])
        held.append(handle)
        if len(held) > HANDLES_MAX:
            free(held.pop(self.chance.randrange(3, HANDLES_MAX)))

    def near(self, kind: str, handle: c.c_void_p) -> bool:
        """Returns whether the places of a type lie in the memory that is there."""
        if kind == "tranship_packer":
            return True
        low = self.library.tranship_type_true_lower_bound(handle)
        high = self.library.tranship_type_true_upper_bound(handle)
        sizes = (
            self.library.tranship_type_bytes(handle),
            self.library.tranship_type_extent(handle),
        )
        return low > -4096 and high < 4096 and all(abs(size) < 4096 for size in sizes)


def main() -> int:
    """Makes calls, and prints what must not come back."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 5000
    chance = random.Random(seed)
    bad: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        server = tranship.StagingServer(memory=1 << 20)
        caller = Caller(chance, folder, server.contact)
        names = sorted(caller.functions)
        for k in range(count):
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
            name = names[k] if k < len(names) else chance.choice(names)
            if os.environ.get("TRACE"):
                print(k, name, flush=True)
            if wrong := caller.call(name):
                bad.add(wrong)
        faulthandler.cancel_dump_traceback_later()
        server.close()
        os.chdir("/")
    for wrong in sorted(bad):
        print(wrong)
    print(f"{count} calls of {len(names)} functions, seed {seed}: {len(bad)} returned badly")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
