#!/usr/bin/env python3
"""Writes the first inputs of tests/fuzz/corpus: well-formed words, one kind in each file.

Fuzzers find the rest from here. Run it again when a message changes its form. Those of the staging
service are written by staging_corpus_test.cpp, from its protocol.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"
FRAME = struct.Struct("<IIIIQQQIIIIII")
FRAME_MAGIC = 0x32534E54
HELLO_MAGIC = 0x3150494853524E54
CLIENT_MAGIC = 0x3148434E41525454
PROTOCOL = 9


def text(value: bytes) -> bytes:
    """A length, and as many bytes."""
    return struct.pack("<I", len(value)) + value


def frame(kind: int, body: bytes = b"", bulk: bytes = b"", slot: int = 0) -> bytes:
    """A whole frame as it goes over a socket."""
    lengths = (len(bulk), len(body))
    return FRAME.pack(FRAME_MAGIC, kind, slot, 0, 1, 0, 0, *lengths, 0, 0, 0, 0) + body + bulk


def greeting() -> bytes:
    """What both greetings begin with."""
    return struct.pack("<QI", HELLO_MAGIC, PROTOCOL) + text(b"0.1.0")


def identity() -> bytes:
    """A process of another machine."""
    return struct.pack("<qQ", 17, 4711) + text(b"boot") + text(b"pid:[1]") + text(b"node")


def command(operation: int, words: list[int], size: int, export: int = 1 << 16) -> bytes:
    """A command as it lies in a slot."""
    return header_of(operation, 1, words, size, export) + struct.pack(f"<{len(words)}q", *words)


def header_of(operation: int, nests: int, words: list[int], size: int, export: int) -> bytes:
    """The fixed part of a command."""
    return struct.pack("<QQIIIIq", 1, export, operation, 0, nests, len(words), size)


def command_of_runs(operation: int, words: list[int], size: int, export: int = 1 << 16) -> bytes:
    """A command whose words are runs."""
    return header_of(operation, 0, words, size, export) + struct.pack(f"<{len(words)}q", *words)


NESTS = {
    "run": ([100, 8, 0], 100),
    "rows": ([8, 16, 1, 10, 32], 80),
    "backwards": ([4, 400, 2, 10, -8, 3, 80], 120),
    "single": ([4, 0, 1, 1, 1 << 40], 4),
}


def I64(value: int) -> bytes:  # noqa: N802
    """Eight bytes."""
    return struct.pack("<q", value)


def U32(value: int) -> bytes:  # noqa: N802
    """Four bytes."""
    return struct.pack("<I", value)


def frames() -> dict[str, bytes]:
    """Whole frames, one after the other, in pieces."""
    return {
        "empty": b"\x10" + frame(10),
        "body": b"\x00" + frame(1, greeting() + identity() + U32(1)),
        "bulk": b"\x04" + frame(11, b"abc", b"x" * 300) + frame(12, b"", b"y" * 20),
        "many": b"\xff" + b"".join(frame(k, b"z" * k) for k in range(1, 15)),
    }


def messages() -> dict[str, bytes]:
    """The body of each message."""
    success = U32(0) + text(b"") + text(b"")
    welcome = greeting() + success + identity() + U32(1)
    welcome += struct.pack("<iqqqiQQ", 8, 65536, 8192, 1 << 20, 3, 4096, 99)
    welcome += text(b"kind") + text(b"address")
    reply = success + struct.pack("<QiqII", 65536, 0, 100, 1, 1)
    reply += text(b"{}") + struct.pack("<Qqq", 0, 4096, 0) + text(b"")
    reply += text(b"key") + struct.pack("<Q", 4096)
    submitted = text(command(1, *NESTS["run"])) + text(b"a" * 100)
    return {
        "hello": b"\x00\x00" + greeting() + identity() + U32(1),
        "welcome": b"\x01\x00" + welcome,
        "ready": b"\x02\x00" + U32(1) + U32(0),
        "accepted": b"\x03\x00" + U32(3) + text(b"no room") + text(b"raise the limit"),
        "lookup": b"\x04\x00" + reply,
        "greeting": b"\x05\x00" + greeting(),
        "submitted": b"\x06\x01" + submitted,
        "answered": b"\x07\x02" + U32(0) + U32(12) + text(b"") + text(b"b" * 12),
    }


def framed(kind: int, body: bytes, slot: int = 0) -> bytes:
    """A frame as next_frame() in link_targets.cpp reads it off an input."""
    return struct.pack("<BBH", kind, slot, len(body)) + body


def talk(first: int, *parts: bytes) -> bytes:
    """Frames behind the byte that link_targets.cpp reads before each."""
    return bytes([first]) + b"".join(b"\x00" + part for part in parts)


def sockets() -> dict[str, bytes]:
    """A stranger's bytes, and a peer's frames."""
    hello = struct.pack("<QII", CLIENT_MAGIC, 2, 1) + b"n" * 32
    tls = b"\x16\x03\x01\x00\x50\x01\x00\x00\x4c\x03\x03" + b"r" * 74
    return {
        "http": b"\x00" + bytes([40]) + b"GET / HTTP/1.1\r\nHost: somebody\r\n\r\n and more",
        "hello": b"\x00" + bytes([len(hello) - 1]) + hello + bytes([100]) + b"p" * 60,
        "encrypted": b"\x08" + bytes([len(tls) - 1]) + tls + bytes([30]) + b"s" * 31,
        "tls": b"\x00" + bytes([len(tls) - 1]) + tls,
        "frames": talk(1, framed(1, greeting()), framed(5, text(b"w")), framed(10, b"")),
        "resumed": talk(5, framed(1, greeting())),
        "bulk": talk(1, struct.pack("<BBHH", 16 + 11, 0, 3, 20) + b"abc" + b"d" * 20),
    }


def links() -> dict[str, bytes]:
    """All that a requester says, on either way."""
    ready = {0: U32(1), 1: U32(2)}
    submitted = text(command(1, *NESTS["run"])) + text(b"a" * 100)
    question = struct.pack("<QQIIIIq", 1, 0, 3, 0, 0, 0, 20)
    made = {}
    for way in (0, 1):
        made[f"requester{way}"] = talk(
            way,
            framed(3, ready[way]),
            framed(5, text(b"w")),
            framed(7, b""),
            framed(11, submitted),
            framed(11, text(question) + text(b"q" * 20), slot=1),
            framed(10, b""),
        )
        made[f"nobody{way}"] = talk(way + 2, framed(3, ready[way]), framed(5, text(b"w")))
    return made


def commands() -> dict[str, bytes]:
    """Commands for arrays of two sizes."""
    made = {}
    for name, (words, size) in NESTS.items():
        for operation in (1, 2):
            body = command(operation, words, size)
            made[f"{name}{operation}"] = b"\x00" + struct.pack("<Q", 8000) + body
            made[f"{name}{operation}large"] = b"\x02" + struct.pack("<Q", 1 << 62) + body
    for operation in (1, 2):
        body = command_of_runs(operation, [100, 8, 7, 20], 28)
        made[f"runs{operation}"] = b"\x00" + struct.pack("<Q", 8000) + body
        made[f"runs{operation}large"] = b"\x02" + struct.pack("<Q", 1 << 62) + body
    return made


def scribble(where: int, offset: int, data: bytes) -> bytes:
    """As scribble() in command_targets.cpp reads it."""
    return struct.pack("<BHB", where, offset, len(data)) + data


def slots() -> dict[str, bytes]:
    """Commands that a peer writes and submits."""
    made = {}
    for name, (words, size) in NESTS.items():
        for operation in (1, 2):
            body = scribble(0, 0, command(operation, words, size))
            # 72 % 3 is slot 0; its two highest bits choose the export.
            made[f"{name}{operation}"] = b"".join(
                bytes([0]) + body + bytes([which]) for which in (6, 78, 132, 252)
            )
    call = struct.pack("<QQIIIIq", 1, 0, 3, 0, 0, 0, 20)
    for size in (24, 4099, 70000):
        long = struct.pack("<QQIIIIq", 1, 0, 3, 0, 0, 0, size)
        made[f"call{size}"] = bytes([0]) + scribble(0, 0, long) + bytes([3, 15, 31])
    made["call"] = bytes([0]) + scribble(0, 0, call) + bytes([3, 15, 31])
    for written in (0, 1, 2):
        body = struct.pack("<I", written) + text(b"step 7")
        notice = struct.pack("<QQIIIIq", 1, 0, 4, 0, 0, 0, len(body))
        words = scribble(0, 0, notice) + bytes([0]) + scribble(6, 0, body)
        made[f"notice{written}"] = bytes([0]) + words + bytes([6])
    return made


def requesters() -> dict[str, bytes]:
    """Requests and answers."""
    return {
        "answered": bytes([0, 4, 20, 36, 4, 20, 36]),
        "write": bytes([5, 4, 4, 20]),
        "told": bytes([1, 4, 1, 20, 2]) + scribble(8, 0, b"text") + b"\x03" * 9 + bytes([4]),
    }


def placed() -> dict[str, bytes]:
    """Of both sides: the target makes commands of any bytes."""
    draw = random.Random(1)
    sides = {"exporting": b"\0", "requesting": b"\1"}
    made = {}
    for side, first in sides.items():
        for k in range(6):
            made[f"{side}{k}"] = first + draw.randbytes(400)
    return made


def contacts() -> dict[str, bytes]:
    """Contact files and texts."""
    file = b"tranship-contact 2\naddress unix:@name,tcp:localhost:4711\npid 1\nstart 2\nboot b\n"
    file += b"namespace pid:[1]\nhost h\nkey " + b"ab" * 32 + b"\n"
    return {
        "file": b"\x00" + file,
        "old": b"\x00" + file.replace(b"contact 2", b"contact 1"),
        "local": b"\x01unix:@name",
        "network": b"\x01tcp:[::1]:4711",
        "both": b"\x01unix:@name,tcp:host:1",
        "plain": b"\x01host:80",
    }


def main() -> None:
    """Writes all of them."""
    kinds = {
        "frames": frames,
        "messages": messages,
        "socket": sockets,
        "link": links,
        "commands": commands,
        "slots": slots,
        "requester": requesters,
        "placed": placed,
        "contacts": contacts,
    }
    for target, make in kinds.items():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in make().items():
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
