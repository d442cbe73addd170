"""NIXL as a peer: writes pieces into the memory of another process, and compares them there.

Usage: nixl.py PIECES PIECE_BYTES STRIDE_BYTES. Requests come as lines of JSON: ``{"do": "run",
"operations": N}``, ``{"do": "spoil"}`` and ``{"do": "check"}``; each is answered with a line. It
starts the process that it writes to by itself and keeps clear of Tranship: two copies of UCX in one
process do not get along.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import time

import numpy as np

PATTERN = 0xA5


def load_nixl():
    """The module and its version, whatever it is called here."""
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    for name in ("nixl", "nixl_cu13", "nixl_cu12"):
        with contextlib.suppress(ImportError):
            api = importlib.import_module(f"{name}._api")
            return api, importlib.metadata.version(name.replace("_", "-"))
    raise SystemExit("NIXL is not installed: pip install --no-deps nixl-cu13 numpy")


def say(answer):
    """Answers with one line."""
    print(json.dumps({"result": answer}), flush=True)


def requests():
    """Requests until the input ends."""
    for line in sys.stdin:
        yield json.loads(line)


class Side:
    """An agent and its registered memory: `count` pieces, `stride` bytes apart."""

    def __init__(self, name, count, piece, stride):
        api, self.version = load_nixl()
        self.agent = api.nixl_agent(name, api.nixl_agent_config(backends=["UCX"]))
        self.count, self.piece, self.stride = count, piece, stride
        self.memory = np.empty(count * stride, np.uint8)
        self.memory.fill(PATTERN)
        self.table = self.memory.reshape(count, stride)[:, :piece]
        self.address = self.memory.__array_interface__["data"][0]
        region = [(self.address, self.memory.nbytes, 0, "")]
        self.registered = self.agent.register_memory(region, "DRAM")

    def pieces(self, address):
        """Descriptors of the pieces of a memory that begins at `address`."""
        return [(address + k * self.stride, self.piece, 0) for k in range(self.count)]


def contents(count, piece):
    """What is sent."""
    return np.random.default_rng(1).integers(0, 256, (count, piece), dtype=np.uint8)


def receive(count, piece, stride):
    """The process that is written to."""
    side = Side("receiver", count, piece, stride)
    metadata = base64.b64encode(side.agent.get_agent_metadata()).decode()
    say({"metadata": metadata, "address": side.address})
    expected = contents(count, piece)
    for request in requests():
        if request["do"] == "spoil":
            side.memory.fill(PATTERN)
            say({})
        else:
            say({"same": bool(np.array_equal(side.table, expected))})


class Receiver:
    """The other process, as the sender sees it."""

    def __init__(self, sizes):
        command = [sys.executable, os.path.abspath(__file__), "--receive", *map(str, sizes)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def answer(self):
        """Its next answer; it may talk in between."""
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit("the receiving process of NIXL has ended")
            if line.startswith("{"):
                return json.loads(line)["result"]

    def ask(self, request):
        """Passes a request on."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.answer()


def send(count, piece, stride):
    """Prepares the transfer once and posts it as often as asked."""
    receiver = Receiver((count, piece, stride))
    there = receiver.answer()
    side = Side("sender", count, piece, stride)
    agent = side.agent
    side.table[...] = contents(count, piece)
    peer = agent.add_remote_agent(base64.b64decode(there["metadata"]))
    peer = peer.decode() if isinstance(peer, bytes) else peer
    local = agent.prep_xfer_dlist("NIXL_INIT_AGENT", side.pieces(side.address), "DRAM")
    remote = agent.prep_xfer_dlist(peer, side.pieces(there["address"]), "DRAM")
    indices = np.arange(count, dtype=np.int32)
    transfer = agent.make_prepped_xfer("WRITE", local, indices, remote, indices)
    say({"version": side.version})
    for request in requests():
        if request["do"] != "run":
            say(receiver.ask(request))
            continue
        begin = time.perf_counter()
        for _ in range(request["operations"]):
            state = agent.transfer(transfer)
            while state == "PROC":
                state = agent.check_xfer_state(transfer)
            if state != "DONE":
                raise SystemExit(f"NIXL's transfer ended as {state}")
        say({"seconds": (time.perf_counter() - begin) / request["operations"]})
    receiver.process.stdin.close()
    receiver.process.wait(10)


if __name__ == "__main__":
    if sys.argv[1] == "--receive":
        receive(*map(int, sys.argv[2:5]))
    else:
        send(*map(int, sys.argv[1:4]))
