"""Compares what MPI packs with what the engine packs by the types that it decodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

import tranship as ts


def some_types() -> list[Any]:
    """Returns types of every constructor."""
    face = MPI.DOUBLE.Create_subarray([4, 5, 6], [2, 5, 1], [1, 0, 3], order=MPI.ORDER_F)
    cyclic = [MPI.DISTRIBUTE_CYCLIC, MPI.DISTRIBUTE_BLOCK]
    arguments = [2, MPI.DISTRIBUTE_DFLT_DARG]
    return [
        MPI.DOUBLE,
        MPI.BYTE,
        MPI.DOUBLE.Create_contiguous(3),
        MPI.DOUBLE.Create_vector(3, 2, 5),
        MPI.DOUBLE.Create_hvector(3, 2, 50),
        MPI.INT.Create_indexed([2, 0, 1], [7, 3, 1]),
        MPI.INT.Create_hindexed([2, 1], [30, 2]),
        MPI.INT.Create_indexed_block(2, [9, 4, 1]),
        MPI.INT.Create_hindexed_block(2, [30, 2]),
        MPI.Datatype.Create_struct([1, 2], [4, 16], [MPI.INT, MPI.DOUBLE]),
        face,
        MPI.DOUBLE.Create_darray(6, 3, [7, 9], cyclic, arguments, [2, 3]),
        face.Create_resized(-8, 1000).Create_vector(2, 1, 1),
        face.Dup(),
    ]


def compare(engine: ts.Engine, datatype: Any, source: np.ndarray[Any, Any]) -> None:
    """Packs one item by MPI and by the engine."""
    known = ts.types.from_mpi(datatype)
    assert (known.lower_bound, known.extent) == datatype.Get_extent(), known
    assert known.nbytes == datatype.Get_size(), known
    if not datatype.is_predefined:
        datatype.Commit()
    packed = np.zeros(known.nbytes, np.uint8)
    item = memoryview(source)[: datatype.extent]  # mpi4py packs as many items as fit
    datatype.Pack(item, packed, 0, MPI.COMM_SELF)
    assert engine.pack(source, known).tobytes() == packed.tobytes(), known
    if not datatype.is_predefined:
        datatype.Free()


def main() -> None:
    source = np.random.default_rng(2).integers(0, 256, 3000, np.uint8)
    made = some_types()
    with ts.Engine(threads=1) as engine:
        for datatype in made:
            compare(engine, datatype, source)
    for no_type, message in (
        ("f8", "is no MPI datatype"),
        (MPI.DATATYPE_NULL, "is no MPI datatype"),
        (MPI.DOUBLE_INT, "no type of elements that NumPy has"),
    ):
        try:
            ts.types.from_mpi(no_type)
        except ts.InvalidArgument as error:
            assert message in str(error), error
        else:
            raise AssertionError(f"{no_type} was taken")
    print(len(made), "types")


if __name__ == "__main__":
    main()
