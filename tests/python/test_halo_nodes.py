"""The simulated halo exchange of a weather model: its messages, and what the designs differ in."""

from __future__ import annotations

import pytest

from tranship_bench import benches
from tranship_bench.halo import nodes as halo_nodes


@pytest.mark.parametrize("nodes", halo_nodes.NODES)
def test_every_message_has_its_counterpart(nodes: int) -> None:
    messages = halo_nodes.messages_of(nodes)
    sides = halo_nodes.sides_of(nodes)
    assert sides[0] * sides[1] == nodes == len(messages)
    sent = sorted((m.source, m.target, m.cells) for own in messages for m in own)
    received = sorted((m.target, m.source, m.cells) for own in messages for m in own)
    assert sent == received
    # The first dimension ends, the second one is a ring.
    at_the_end = sum(1 for own in messages if len(own) == 5)
    assert at_the_end == (2 * sides[1] if sides[0] > 1 else 0)
    assert all(len(own) in ((2,) if sides[0] == 1 else (5, 8)) for own in messages)


def test_faces_have_the_cells_of_the_blocks() -> None:
    rows, columns = halo_nodes.sides_of(8)
    block = (-(-520 // rows), -(-350 // columns))
    cells = {message.cells for message in halo_nodes.messages_of(8)[0]}
    assert cells == {2 * block[0] * 60 * 3, 2 * block[1] * 60 * 3, 2 * 2 * 60 * 3}


def test_one_launch_and_no_waits_take_less_time() -> None:
    lines: list[dict[str, object]] = []
    assert benches.run("halo-nodes", size="full", report=lines.append) == 0
    assert [line["case"] for line in lines[::2]] == [
        "1 node",
        *(f"{n} nodes" for n in halo_nodes.NODES[1:]),
    ]
    assert all(line["simulated"] and line["machine"] == "perlmutter" for line in lines)
    ratios = [float(str(line["ratio"])) for line in lines[1::2]]
    assert min(ratios) > 1 and ratios[-1] > 1.49
