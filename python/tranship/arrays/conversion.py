"""Arrays of other libraries, described to the core: NumPy, xarray, DLPack, CUDA."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import Error, InvalidArgument
from .core_array import CPU, CUDA, CoreArray
from .dtypes import dtype_fields
from .lossy import refuse_lossy
from .views import c_strides

__all__ = ["to_core"]

LEGACY_STREAM = 1
"""Handle of CUDA's legacy default stream."""
CUDA_HOST, CUDA_MANAGED = 3, 13
"""Further devices of the DLPack standard that can be read."""


def to_core(array: Any, writable: bool) -> _core.Array:
    """Returns the core's form of arrays without a plain buffer: structured types, DLPack, ours.

    Raises:
        InvalidArgument: The object is not an array, its memory does not hold its values, or one of
            its own methods raises.
    """
    try:
        return described(array, writable)
    except Error:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise InvalidArgument(
            f"{named(array)} cannot be read as an array: {reason}", "give a NumPy array"
        ) from error


def described(array: Any, writable: bool) -> _core.Array:
    """Returns an array's form in the core; what its own methods raise goes through."""
    if isinstance(array, CoreArray):
        return array._core
    refuse_lossy(array)
    if isinstance(array, np.ndarray):
        return from_numpy(array)
    if (labelled := labelled_values(array)) is not None:
        return from_numpy(*labelled)
    if hasattr(array, "__dlpack__"):
        try:
            return from_dlpack(array)
        except InvalidArgument:
            # The interface has structures, which DLPack lacks.
            if (interface := cuda_array_interface(array)) is None:
                raise
            return from_cuda(array, interface)
    if (interface := cuda_array_interface(array)) is not None:
        return from_cuda(array, interface)
    if hasattr(array, "__array_interface__"):
        return from_numpy(np.asarray(array))
    if not hasattr(array, "__array__"):
        try:
            return from_numpy(np.asarray(memoryview(array)))
        except (TypeError, ValueError, BufferError):
            pass
    raise refusal(array, writable)


def named(array: Any) -> str:
    """Returns what messages call an object: "a Tensor", or "None"."""
    kind = type(array).__name__
    return "None" if array is None else f"{'an' if kind[:1] in 'AEIOUaeiou' else 'a'} {kind}"


def refusal(array: Any, writable: bool) -> InvalidArgument:
    """Returns the error for an object that cannot be taken, with what to do about it."""
    what = named(array)
    library = type(array).__module__.partition(".")[0]
    lazy = library == "dask" or type(getattr(array, "data", None)).__module__.startswith("dask")
    if writable and (lazy or library in ("pandas", "polars")):
        hint = "copy into a NumPy array, and make the object of it"
    elif library == "xarray" and not hasattr(array, "dtype"):
        hint = "copy one of its variables, as in x['name']"
    elif lazy:
        hint = "compute its values first: x.compute()"
    elif hasattr(array, "to_numpy"):
        hint = "copy its values: x.to_numpy(), or x.values"
    elif hasattr(array, "__array__"):
        hint = "copy its values, as in x.values or np.asarray(x)"
    elif isinstance(array, list | tuple | int | float | complex):
        hint = "give a NumPy array" if writable else "copy np.asarray(x)"
    else:
        hint = (
            "give a NumPy array, anything with the buffer protocol or __dlpack__, an Instance, a "
            "File or an array of a peer"
        )
    verb = "written" if writable else "read"
    return InvalidArgument(f"{what} cannot be {verb} as an array", hint)


def labelled_values(array: Any) -> tuple[npt.NDArray[Any], list[str]] | None:
    """Returns values in place, and names of dimensions, of an xarray DataArray or Variable."""
    dims = getattr(array, "dims", None)
    if not isinstance(dims, tuple) or not type(array).__module__.startswith("xarray"):
        return None
    values = getattr(array, "data", None)
    if not isinstance(values, np.ndarray) or not all(isinstance(name, str) for name in dims):
        return None
    refuse_lossy(values)
    return values, list(dims)


def cuda_array_interface(array: Any) -> Mapping[str, Any] | None:
    """Returns what a GPU library says of its array; None where it has no such interface.

    Raises:
        InvalidArgument: The library refuses, as for a tensor that requires a gradient.
    """
    try:
        interface = getattr(array, "__cuda_array_interface__", None)
    except (BufferError, KeyError, RuntimeError, TypeError, ValueError) as error:
        if hasattr(array, "__dlpack__"):
            return None  # DLPack has types that the interface lacks
        raise InvalidArgument(
            f"the array cannot be read through its CUDA array interface: {error}"
        ) from error
    if interface is not None and not isinstance(interface, Mapping):
        raise InvalidArgument(
            "__cuda_array_interface__ is not a mapping", "give an array, not a type"
        )
    return interface


def few_dimensions(
    shape: Sequence[int], strides: Sequence[int], names: Sequence[str] = ()
) -> tuple[list[int], list[int], list[str]]:
    """Returns shape, strides and names without dimensions of one index, if there are more
    dimensions than the core has; such dimensions say nothing about where elements lie.
    """
    many = len(shape) > _core.DIMENSIONS_MAX
    kept = [k for k, extent in enumerate(shape) if not many or extent != 1]
    return (
        [int(shape[k]) for k in kept],
        [int(strides[k]) for k in kept],
        [names[k] for k in kept] if names else [],
    )


def from_cuda(array: Any, interface: Mapping[str, Any]) -> _core.Array:
    """Describes an array by the CUDA array interface, versions 2 and 3.

    The engine finds the GPU by the address.
    """
    try:
        version = int(interface["version"])
        shape = [int(extent) for extent in interface["shape"]]
        address, read_only = interface["data"]
        dtype = interface_dtype(interface)
        strides = interface.get("strides")
        steps = c_strides(shape, dtype.itemsize) if strides is None else [int(s) for s in strides]
        stream = interface.get("stream")
        if stream is None:
            stream = library_stream(array, -1)
        address = 0 if address is None else int(address)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(
            f"the CUDA array interface is incomplete ({error!r}): it must have version, shape, "
            "typestr and data",
            "use a newer release of the library that made the array",
        ) from error
    if version < 2:
        raise InvalidArgument(
            f"the array has version {version} of the CUDA array interface, and 2 and 3 are "
            "understood",
            "use a newer release of the library that made it",
        )
    if interface.get("mask") is not None:
        raise InvalidArgument(
            "the array has a mask", "fill it, and copy data and mask by themselves"
        )
    if len(steps) != len(shape) or any(extent < 0 for extent in shape):
        raise InvalidArgument(f"shape {shape} and strides {steps} do not fit each other")
    if stream is not None and (not isinstance(stream, int) or stream < 1):
        raise InvalidArgument(
            f"the array's stream is {stream!r}, which is not a stream",
            "the CUDA array interface allows None, 1 and 2 (the default streams), and the address "
            "of a cudaStream_t",
        )
    shape, steps, _ = few_dimensions(shape, steps)
    core = _core.strided(array, address, shape, steps, dtype_fields(dtype), not read_only)
    # An empty array has no address that the driver could place.
    return core if 0 in shape else _core.placed(core, "device", -1, stream)


def interface_dtype(interface: Mapping[str, Any]) -> np.dtype[Any]:
    """Returns the element type: `descr` says more than `typestr` for structures."""
    dtype: np.dtype[Any] = np.dtype(interface["typestr"])
    descr = interface.get("descr")
    if dtype.kind != "V" or descr is None or all(entry[0] == "" for entry in descr):
        return dtype
    structure: np.dtype[Any] = np.lib.format.descr_to_dtype(descr)
    return structure if structure.itemsize == dtype.itemsize else dtype


def from_dlpack(array: Any) -> _core.Array:
    """Describes an array by DLPack, without an import of the library that made it."""
    try:
        device_type = int(array.__dlpack_device__()[0])
        if device_type == CPU:
            return from_host_dlpack(array)
        if device_type not in (CUDA, CUDA_HOST, CUDA_MANAGED):
            raise InvalidArgument(
                f"the array lies on a DLPack device of type {device_type}; memory of the host and "
                "of CUDA GPUs can be read",
                "copy it there first",
            )
        return core_of_capsule(array, device_type)
    except InvalidArgument:
        raise
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidArgument(f"the array cannot be read through DLPack: {error}") from error


def from_host_dlpack(array: Any) -> _core.Array:
    """Describes a host array by NumPy, or by the core where NumPy has no such type."""
    try:
        return from_numpy(np.from_dlpack(array))
    except (BufferError, RuntimeError, TypeError):
        try:
            capsule = array.__dlpack__(max_version=(1, 0))
        except TypeError:  # a producer of DLPack before version 1
            capsule = array.__dlpack__()
        return _core.from_dlpack(capsule)


def core_of_capsule(array: Any, device_type: int) -> _core.Array:
    """Describes GPU and pinned memory.

    The producer is asked to make the stream that its library works in wait for the array, or, if
    the library has none, the legacy default stream (1): the copy is ordered with that stream.
    """
    stream = None
    if device_type != CUDA_HOST:
        stream = library_stream(array, int(array.__dlpack_device__()[1])) or 1
    try:
        capsule = array.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # a producer of DLPack before version 1
        capsule = array.__dlpack__(stream=stream)
    core = _core.from_dlpack(capsule)
    if core.where != "device" or core.bytes == 0:
        return core
    return _core.placed(core, "device", core.device, stream)


def library_stream(array: Any, device: int) -> int | None:
    """Returns the stream in which the array's library works now; None if it does not say.

    Args:
        array: Array of another library.
        device: The GPU's number.
    """
    library = type(array).__module__.partition(".")[0]
    module = sys.modules.get(library)
    try:
        if library == "torch" and module is not None:
            return module.cuda.current_stream(device).cuda_stream or LEGACY_STREAM
        if library == "cupy" and module is not None:
            return module.cuda.get_current_stream(device).ptr or LEGACY_STREAM
        stream = array.__cuda_array_interface__.get("stream")
    except (AttributeError, BufferError, KeyError, RuntimeError, TypeError, ValueError):
        return None
    if stream is None and library == "numba":
        return LEGACY_STREAM  # its default stream, in which it names none
    return stream if isinstance(stream, int) and stream > 0 else None


def from_numpy(array: npt.NDArray[Any], names: Sequence[str] = ()) -> _core.Array:
    """Describes a NumPy array by address, shape and strides; fields of its type are fields."""
    address = array.__array_interface__["data"][0]
    fields = dtype_fields(array.dtype)
    shape, strides, kept = few_dimensions(array.shape, array.strides, names)
    return _core.strided(array, address, shape, strides, fields, array.flags.writeable, kept)
