"""Types in the sense of MPI: elements, and the bytes at which they lie.

A type says which bytes of an array are moved, and in which order (MPI-4.1, chapter 5). Two types
with the same elements are the ends of a copy, wherever their elements lie::

    import tranship as ts

    column = ts.types.vector(512, 1, 512, "f8")          # one column of a 512 x 512 array
    face = ts.types.subarray((64, 64, 64), (64, 64, 1), (0, 0, 0), "f8")
    packed = engine.pack(field, face)                     # the elements one behind the other
    engine.unpack(packed, other, face)
    engine.copy(matrix, row, types=(column, ts.types.contiguous(512, "f8")))

`base` is a type, or anything that NumPy takes for a dtype; a structured dtype becomes a struct.
Displacements and strides count extents of the base, except in `hvector`, `hindexed`,
`hindexed_block` and `struct`, where they are bytes. Counts have 64 bits, and strides and
displacements may be negative.
"""

from __future__ import annotations

from typing import Any

from ._core import Datatype
from .arguments import guard
from .mpi_types import decode
from .type_constructors import (
    as_type,
    contiguous,
    darray,
    dup,
    hindexed,
    hindexed_block,
    hvector,
    indexed,
    indexed_block,
    resized,
    struct,
    subarray,
    vector,
)

__all__ = [
    "Datatype",
    "as_type",
    "contiguous",
    "darray",
    "dup",
    "from_mpi",
    "hindexed",
    "hindexed_block",
    "hvector",
    "indexed",
    "indexed_block",
    "resized",
    "struct",
    "subarray",
    "vector",
]


@guard
def from_mpi(datatype: Any) -> Datatype:
    """Returns the type of an ``mpi4py.MPI.Datatype``; it need not be committed.

    Args:
        datatype: A predefined or derived type, of any nesting.

    Raises:
        InvalidArgument: It is no such object, the null type, or of elements that NumPy does not
            have, such as pairs for MINLOC.
    """
    return decode(datatype)
