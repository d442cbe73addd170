"""Types of mpi4py as types of `tranship.types`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import type_constructors as types
from ._core import Datatype
from .errors import InvalidArgument

__all__ = ["decode"]

DISTRIBUTIONS = {
    "DISTRIBUTE_NONE": "none",
    "DISTRIBUTE_BLOCK": "block",
    "DISTRIBUTE_CYCLIC": "cyclic",
}


def decode(datatype: Any) -> Datatype:
    """Returns the type of an ``mpi4py.MPI.Datatype``.

    Raises:
        InvalidArgument: As for `tranship.types.from_mpi`.
    """
    from mpi4py import MPI

    if not isinstance(datatype, MPI.Datatype) or datatype == MPI.DATATYPE_NULL:
        raise InvalidArgument(
            f"{datatype!r} is no MPI datatype", "give an mpi4py.MPI.Datatype that was not freed"
        )
    if datatype.is_predefined:
        return predefined(MPI, datatype)
    base, combiner, parameters = datatype.decode()
    inner = parameters.pop("datatypes", [base])
    try:
        bases = [decode(one) for one in inner]
    finally:
        for one in inner:
            if not one.is_predefined:
                one.Free()
    made = constructor(MPI, combiner)(bases, parameters)
    lower_bound, extent = datatype.Get_extent()
    if (made.lower_bound, made.extent) != (lower_bound, extent):
        return types.resized(made, lower_bound, extent)
    return made


def predefined(mpi: Any, datatype: Any) -> Datatype:
    """Returns the type of one element."""
    if datatype in (mpi.BYTE, mpi.PACKED):
        return types.as_type("V1")
    try:
        dtype = np.dtype(datatype.tocode())
    except (ValueError, TypeError):
        dtype = None
    if dtype is None or dtype.itemsize != datatype.Get_size():
        raise InvalidArgument(
            f"{datatype.Get_name()} is no type of elements that NumPy has",
            "build the type of other elements, such as MPI.DOUBLE or MPI.BYTE",
        )
    return types.as_type(dtype)


Builder = Callable[[list[Datatype], dict[str, Any]], Datatype]


def constructor(mpi: Any, combiner: str) -> Builder:
    """Returns what builds a type of its bases and of the parameters that mpi4py decodes."""

    def order_of(order: int) -> types.Order:
        return "C" if order == mpi.ORDER_C else "F"

    def darray(bases: list[Datatype], of: dict[str, Any]) -> Datatype:
        names = {getattr(mpi, name): kind for name, kind in DISTRIBUTIONS.items()}
        default = mpi.DISTRIBUTE_DFLT_DARG
        given: Any = [
            (names[kind], 0 if argument == default else argument)
            for kind, argument in zip(of["distribs"], of["dargs"], strict=True)
        ]
        order = order_of(of["order"])
        return types.darray(of["rank"], of["gsizes"], given, of["psizes"], bases[0], order=order)

    builders: dict[str, Builder] = {
        "DUP": lambda bases, of: bases[0],
        "CONTIGUOUS": lambda bases, of: types.contiguous(of["count"], bases[0]),
        "VECTOR": lambda bases, of: types.vector(
            of["count"], of["blocklength"], of["stride"], bases[0]
        ),
        "HVECTOR": lambda bases, of: types.hvector(
            of["count"], of["blocklength"], of["stride"], bases[0]
        ),
        "INDEXED": lambda bases, of: types.indexed(
            of["blocklengths"], of["displacements"], bases[0]
        ),
        "HINDEXED": lambda bases, of: types.hindexed(
            of["blocklengths"], of["displacements"], bases[0]
        ),
        "INDEXED_BLOCK": lambda bases, of: types.indexed_block(
            of["blocklength"], of["displacements"], bases[0]
        ),
        "HINDEXED_BLOCK": lambda bases, of: types.hindexed_block(
            of["blocklength"], of["displacements"], bases[0]
        ),
        "STRUCT": lambda bases, of: types.struct(of["blocklengths"], of["displacements"], bases),
        "SUBARRAY": lambda bases, of: types.subarray(
            of["sizes"], of["subsizes"], of["starts"], bases[0], order=order_of(of["order"])
        ),
        "DARRAY": darray,
        "RESIZED": lambda bases, of: types.resized(bases[0], of["lb"], of["extent"]),
    }
    if combiner not in builders:
        raise InvalidArgument(
            f"types of the combiner {combiner} are not known here", "build it of other types"
        )
    return builders[combiner]
