"""The benchmarks: each moves data, compares what arrived, and only then reports a line.

Those of `SIMULATED` move nothing: they are papers' figures on the papers' clusters, simulated, and
say so in every line.

``tranship bench`` runs them by name; `figures` draws what they wrote. A result line is::

    {"bench", "case", "variant", "machine", "commit", "bytes", "seconds": [...], "median_s",
     "gbps", "checked": true}

and, where they apply, ``ratio`` (how many times as fast as ``baseline``) and ``conditions``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal

from tranship.errors import Error, InvalidArgument, NotFound

from . import (
    dataspaces,
    disk,
    gpu,
    gpu_file,
    gpu_process,
    gpu_reassembly,
    gpu_staging,
    gpu_staging_designs,
    halo_nodes,
    host,
    isometry,
    latency,
    lists,
    network,
    remote,
)
from .ddtbench import ddtbench
from .file_parts import file_parts
from .gpu_calls import gpu_calls
from .gpu_collective import gpu_collective
from .gpu_faces import gpu_faces
from .gpu_halo import gpu_halo
from .gpu_lanes_processes import gpu_lanes_processes
from .gpu_messages import gpu_messages
from .gpu_order import gpu_order
from .gpu_random_lists import gpu_random_lists
from .gpu_shapes import gpu_peer_shapes, gpu_shapes
from .gpu_types import gpu_types
from .halo import halo
from .harness import Bench, MismatchError, Report, SkippedError
from .isometry import measured, measured_priorities
from .mpi_messages import gpu_mpi, mpi_messages
from .peer_death import peer_death
from .planning import planning
from .prediction import prediction
from .random_types import random_types
from .remote_gpu import remote_gpu
from .shapes import shapes
from .staging import staging
from .staging_clients import staging_clients
from .staging_first_use import gpu_staging_first_use, staging_first_use
from .staging_questions import staging_questions
from .staging_shock import staging_shock
from .staging_workflow import staging_workflow

__all__ = ["is_simulated", "list_benches", "run"]

Body = Callable[[Bench], None]
Simulate = Callable[..., None]

BENCHES: dict[str, tuple[str, Body]] = {
    "contiguous": ("plain copies of 8 to 256 MiB, beside memcpy and NumPy", host.contiguous),
    "conversions": ("layouts converted on the way, beside memcpy and NumPy", host.conversions),
    "shapes": ("conversions of random shapes, beside memcpy and NumPy", shapes),
    "process": ("256 MiB to and from another process, in the same layout or not", remote.process),
    "network": ("256 MiB and 8 B to another process over TCP, beside a socket", network.network),
    "peer-death": ("from the kill of a process to the error in its peer", peer_death),
    "pieces": ("8 MiB as 16,384 pieces to another process, beside NIXL", remote.pieces),
    "lists": ("64 MiB in scattered pieces, within a process and to another one", lists.lists),
    "ddtbench": ("DDTBench: messages of applications packed and unpacked, beside MPI", ddtbench),
    "types": ("random types packed and unpacked, beside MPI", random_types),
    "halo": ("halo exchanges between two MPI processes, beside MPI types and NumPy", halo),
    "mpi-messages": (
        "DDTBench's messages between two MPI processes, packed by libtranship-mpi.so",
        mpi_messages,
    ),
    "file": ("files read and written, in the same layout or transposed", disk.file),
    "file-parts": (
        "random parts of files, beside memory maps and reads of their pages",
        file_parts,
    ),
    "three-hops": ("file to host to another process to its file", disk.three_hops),
    "small": ("4 KiB in a process, 8 B to another one", latency.small),
    "priority": ("1 MiB at high priority behind six large copies", latency.priority),
    "plan-cache": ("a plan that was made before", latency.plan_cache),
    "planning": ("what a plan costs to make, on profiles of clusters", planning),
    "prediction": ("what plans predict beside what copies take, 1 to 256 MiB", prediction),
    "gpu-link": ("host memory to a GPU and back, pinned and pageable", gpu.link),
    "gpu-launch": ("what a start costs beyond the driver's call", gpu.launch),
    "gpu-order": ("plain calls in the order of the arrays' streams, beside PyTorch", gpu_order),
    "gpu-calls": ("several short copies inside a GPU in one call, beside PyTorch", gpu_calls),
    "gpu-conversion": ("layouts converted inside a GPU, beside its copy", gpu.conversion),
    "gpu-shapes": ("conversions of random shapes inside a GPU, beside PyTorch", gpu_shapes),
    "gpu-peer-shapes": (
        "conversions of random shapes from one GPU to another, beside PyTorch",
        gpu_peer_shapes,
    ),
    "gpu-faces": (
        "thin slabs packed and unpacked on a GPU, beside what the sectors they touch cost",
        gpu_faces,
    ),
    "gpu-types": (
        "DDTBench's and random types packed and unpacked on a GPU, beside its copy and PyTorch",
        gpu_types,
    ),
    "gpu-messages": (
        "DDTBench's messages from a GPU to another process's GPU and back, by several designs",
        gpu_messages,
    ),
    "gpu-mpi": (
        "strided messages between GPUs by MPI with libtranship-mpi.so, and packed by hand",
        gpu_mpi,
    ),
    "gpu-halo": ("halo exchanges between the GPUs of 1 to 8 processes, by two designs", gpu_halo),
    "gpu-peer": ("a GPU to its neighbour, in the same layout or transposed", gpu.peer),
    "gpu-process": ("a GPU to and from another process's memories", gpu_process.process),
    "gpu-lists": (
        "64 MiB of a GPU in scattered pieces, within it and to another process",
        lists.gpu_lists,
    ),
    "gpu-random-lists": (
        "random lists of pieces and pages inside a GPU, beside one piece and PyTorch",
        gpu_random_lists,
    ),
    "gpu-lanes": ("host memory to one GPU over the links of all", gpu.lanes),
    "gpu-lanes-processes": (
        "the host to the GPUs of 1 to 8 processes at once, beside fixed numbers of lanes",
        gpu_lanes_processes,
    ),
    "gpu-collective": (
        "boxes of GPUs to all other GPUs: broadcast, scatter, all to all",
        gpu_collective,
    ),
    "gpu-images": ("NHWC in pageable memory to NCHW on a GPU, and back", gpu.images),
    "gpu-file": ("files read and written from a GPU, beside the file alone", gpu_file.gpu_file),
    "gpu-reassembly": (
        "objects of a GPU put together to one array on it, in one launch",
        gpu_reassembly.gpu_reassembly,
    ),
    "gpu-staging": ("a GPU's arrays through a staging server", gpu_staging.gpu_staging),
    "gpu-staging-first-use": (
        "the first puts of a GPU's array to a fresh server, beside later ones",
        gpu_staging_first_use,
    ),
    "gpu-staging-designs": (
        "DataSpaces-GPU's designs for puts and gets of a GPU's arrays, beside each other",
        gpu_staging_designs.gpu_staging_designs,
    ),
    "gpu-priority": ("1 MiB at high priority behind large copies to a GPU", gpu.urgent),
    "isometry-figure7-measured": (
        "pipelined hops beside sequential hops of whole instances, on this machine",
        measured.figure7,
    ),
    "isometry-figure8-measured": (
        "a transfer of high priority beside others, on this machine",
        measured_priorities.figure8,
    ),
    "isometry-figure9a-measured": ("full and simple paths, on this machine", measured.figure9a),
    "isometry-figure9b-measured": (
        "full, simple, SPSL and SPDL paths with a conversion, on this machine",
        measured.figure9b,
    ),
    "isometry-figure11-measured": (
        "GPU to GPU of another process, beside sending by hand",
        measured.figure11,
    ),
    "remote-gpu": ("vectors to a remote GPU, summed there, and back: CERN's", remote_gpu),
    "staging": ("boxes put to and got from a staging server, beside the engine's copy", staging),
    "staging-clients": (
        "8 KiB put and got by 8 clients of one server, and by 1,000",
        staging_clients,
    ),
    "staging-questions": (
        "requests a second that a staging server answers, by clients",
        staging_questions,
    ),
    "staging-first-use": (
        "first puts to a fresh staging server, beside later ones",
        staging_first_use,
    ),
    "staging-workflow": (
        "writers and readers of a staging service, processes, by DataSpaces-GPU's designs",
        staging_workflow,
    ),
    "staging-shock": (
        "the demo's blast and its analyses, 1 to 4 processes each, by the same designs",
        staging_shock,
    ),
    "scaling": ("copies and transposes on 1 to all cores", host.scaling),
}

SIMULATED: dict[str, tuple[str, Simulate]] = {
    name: (words, paper.run)
    for paper in (isometry, dataspaces, halo_nodes)
    for name, (words, _) in paper.BENCHES.items()
}

TAKE_OPTIONS = (
    "shapes",
    "types",
    "gpu-shapes",
    "gpu-peer-shapes",
    "gpu-faces",
    "file-parts",
    "gpu-types",
    "gpu-random-lists",
    "remote-gpu",
    "staging-workflow",
    "staging-shock",
)
"""Benchmarks with options of their own."""


def list_benches() -> list[tuple[str, str]]:
    """Returns names and descriptions, in the order in which `run-all` runs them."""
    measured = [(name, description) for name, (description, _) in BENCHES.items()]
    return measured + [(name, words) for name, (words, _) in SIMULATED.items()]


def is_simulated(name: str) -> bool:
    """Returns whether a benchmark simulates a machine profile, and measures nothing."""
    return name in SIMULATED


def run(
    name: str,
    *,
    size: Literal["small", "full"] = "full",
    machine: str | None = None,
    report: Report,
    options: Mapping[str, Any] | None = None,
) -> int:
    """Runs one benchmark and hands each result line to `report`.

    Args:
        name: Name from `list_benches`.
        size: "small" takes a second or two and is for tests; its times mean little.
        machine: Name of this machine in the lines; None: its cores and processor. For a simulated
            benchmark: machine profile; None: the paper's.
        report: Function that is called with each line as soon as it is measured.
        options: Options of a benchmark in `TAKE_OPTIONS`: see `shapes`,
            `remote_gpu_options` and `staging_workflow`.

    Returns:
        0, or 1 if data arrived changed, a copy failed, or a simulated result is not what is
        expected of it; the reason is on stderr.

    Raises:
        NotFound: There is no such benchmark.
        InvalidArgument: The benchmark has no such option.
    """
    if name not in BENCHES and not is_simulated(name):
        names = ", ".join(known for known, _ in list_benches())
        raise NotFound(f"there is no benchmark {name!r}; there are {names}")
    if size not in ("small", "full"):
        raise Error(f'size is "small" or "full", not {size!r}')
    if options and name not in TAKE_OPTIONS:
        raise InvalidArgument(
            f"the benchmark {name} has no option {', '.join(options)}",
            f"leave it out, or take {', '.join(TAKE_OPTIONS[:-1])} or {TAKE_OPTIONS[-1]}",
        )
    if is_simulated(name):
        return run_simulated(name, size, machine, report)
    bench = Bench(name, full=size == "full", machine=machine, report=report, options=options)
    try:
        BENCHES[name][1](bench)
    except SkippedError as reason:
        bench.say(f"skipped: {reason}")
    except (Error, MismatchError, OSError) as error:
        print(f"bench {name}: {error}", file=sys.stderr)
        return 1
    return 0


def run_simulated(
    name: str, size: Literal["small", "full"], machine: str | None, report: Report
) -> int:
    """Runs a simulated benchmark, as `run` does."""
    try:
        SIMULATED[name][1](name, size=size, machine=machine, report=report)
    except isometry.OffError as error:
        print(f"bench {name}: not as expected: {error}", file=sys.stderr)
        return 1
    except (Error, isometry.IncompleteError) as error:
        print(f"bench {name}: {error}", file=sys.stderr)
        return 1
    return 0
