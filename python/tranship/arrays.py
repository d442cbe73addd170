"""Arrays that a copy may name: instances with a layout, files, arrays of other processes.

NumPy arrays and everything with the buffer protocol need nothing from here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _core
from .closing import Closing
from .dtypes import dtype_fields, field_specs, numpy_dtype
from .errors import InvalidArgument, OutOfRange
from .extents import c_order, extent_specs
from .npy import new_npy, read_header

__all__ = ["File", "Instance", "RemoteArray", "to_core"]

Cut = tuple[int, int, int, bool]


class CoreArray:
    """What instances, files and remote arrays share: shape, slices, their core."""

    _core: _core.Array
    _dtype: np.dtype[Any] | None = None  # where a header says more than the fields do

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of indices in each dimension, in the order of the dimensions."""
        return tuple(extent for _, extent in self._core.extents)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names of the dimensions."""
        return tuple(name for name, _ in self._core.extents)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._core.extents)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a point: of its one field, or a structure of all."""
        return self._dtype if self._dtype is not None else numpy_dtype(self._core.fields)

    @property
    def layout(self) -> str:
        """The linearization order, fastest first."""
        return self._core.layout

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, without padding."""
        return self._core.bytes

    def __getitem__(self, key: Any) -> CoreArray:
        """A part, as NumPy writes it; it refers to the same memory.

        Raises:
            OutOfRange: an index outside its dimension. InvalidArgument: no index at all.
        """
        part = object.__new__(type(self))
        part.__dict__.update(self.__dict__)
        part._core = self._core.slice(cuts_of(key, self.shape))
        return part

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Any:
        """A NumPy array with its own copy of the elements.

        Raises:
            Error: they cannot be read.
        """
        if copy is False:
            raise ValueError(
                f"the elements of {self._core.name} are copied when NumPy reads them; leave "
                "copy=False out"
            )
        if self.dtype.subdtype is not None:
            raise TypeError(
                f"NumPy has no arrays of {self.dtype}; copy to an array of a structure with one "
                "field of that type"
            )
        out = np.empty(self.shape, self.dtype)
        self._read_into(out)
        return out if dtype is None else out.astype(dtype, copy=False)

    def _read_into(self, out: npt.NDArray[Any]) -> None:
        _core.read_into(self._core, out)

    def __repr__(self) -> str:
        extents = ", ".join(f"{name}={extent}" for name, extent in self._core.extents)
        return f"<{type(self).__name__} {self._core.name}: {extents}; {self.dtype}; {self.layout}>"


def cuts_of(key: Any, shape: tuple[int, ...]) -> list[Cut]:
    """NumPy's basic indexing as (start, count, step, drop) for each dimension."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if sum(k is Ellipsis for k in keys) > 1:
        raise InvalidArgument("an index may hold one ellipsis only")
    if Ellipsis in keys:
        at = keys.index(Ellipsis)
        keys[at : at + 1] = [slice(None)] * (len(shape) - len(keys) + 1)
    keys += [slice(None)] * (len(shape) - len(keys))
    if len(keys) > len(shape):
        raise InvalidArgument(f"{len(keys)} indices for an array of {len(shape)} dimensions")
    cuts: list[Cut] = []
    for one, extent in zip(keys, shape, strict=True):
        if isinstance(one, slice):
            start, stop, step = one.indices(extent)
            cuts.append((start, len(range(start, stop, step)), step, False))
            continue
        try:
            index = one.__index__()
        except AttributeError:
            raise InvalidArgument(
                f"{one!r} is no index; slice with numbers and ranges (start:stop:step)"
            ) from None
        if not -extent <= index < extent:
            raise OutOfRange(f"index {index} is outside a dimension of {extent} indices")
        cuts.append((index % extent, 1, 1, True))
    return cuts


class Instance(CoreArray):
    """Memory of this process, read through an index space, fields and a layout.

    Args:
        buffer: contiguous memory: a NumPy array, bytearray, mmap, or None to allocate it.
        extents: indices of each dimension, by name.
        fields: types by name, as NumPy writes them, or a dtype.
        layout: order of the terms, fastest first, such as ``"x:4, F, x, y"`` (Isometry, ICS'18,
            section 2). Default: fields fastest, then the last dimension, as C has it.
        offset: bytes from the start of `buffer` to the first element.

    Raises:
        InvalidArgument: the layout does not fit the extents, or the buffer is too small.
    """

    def __init__(
        self,
        buffer: Any = None,
        *,
        extents: Mapping[str, int],
        fields: Mapping[str, Any] | npt.DTypeLike = "f8",
        layout: str | None = None,
        offset: int = 0,
    ) -> None:
        names, _ = extent_specs(extents)
        specs = field_specs(fields)
        text = layout if layout is not None else c_order(names)
        if buffer is None:
            buffer = np.zeros(_core.layout_bytes(names, specs, text) + offset, np.uint8)
        refuse_lossy(buffer)
        self.buffer = buffer
        self._core = _core.instance(buffer, names, specs, text, offset)


class File(CoreArray, Closing):
    """A file as one end of a copy; parts of it are read and written where they lie.

    With mode "w" the file is new: it is written beside its name and takes it when it is whole, at
    `flush` or `close`, or at the end of a ``with`` statement. Until then whatever has the name
    stays as it is. After a copy into it that failed or was cancelled, nothing takes the name; nor
    if the process dies. A file into which nothing was copied replaces no other. Without any of
    these calls, the file takes its name when nobody refers to it any more, if copies of as many
    bytes as it has have ended well.

    With mode "r+" a file is changed in place, where several processes may write different parts of
    it. While one does, a .npy file is marked as not whole, and NumPy and `File` refuse to read it:
    from the first copy into it until `flush` or `close`, and for good if a copy failed or the
    process died. Raw files have no place for such a mark.

    Args:
        path: a ``.npy`` file, whose header gives extents, type and layout, or any binary file.
        extents: indices of each dimension, by name or in order. Not for an existing .npy file.
        fields: types by name, or a dtype. Not for an existing .npy file.
        layout: order of the terms, fastest first; default as C has it.
        mode: ``"r"`` reads a file that exists; ``"w"`` makes it, and replaces what has its name;
            ``"r+"`` reads and changes a file that exists.
        offset: bytes from the start of the file to the first element (of raw files).
        direct: go around the page cache for large runs, where the file system lets us.
        durable: `flush` and `close` return when the folder is on the disk, too, so that the file
            has its name even after a power failure.

    Raises:
        NotFound: no such file, or folder. InvalidArgument: a directory, a pipe, extents that do
        not fit. OutOfRange: too short. Error: no permission, a full disk (``code="io"``).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        extents: Mapping[str, int] | Sequence[int] | None = None,
        fields: Mapping[str, Any] | npt.DTypeLike = "f8",
        layout: str | None = None,
        mode: str = "r",
        offset: int = 0,
        direct: bool = True,
        durable: bool = False,
    ) -> None:
        if mode not in ("r", "w", "r+"):
            raise InvalidArgument(f'mode is "r", "w" or "r+", not {mode!r}')
        self.path = os.fspath(path)
        npy = self.path.endswith(".npy")
        head = b""
        if npy and mode == "w":
            if extents is None:
                raise InvalidArgument(
                    f"{self.path} is to be made: say its extents, fields and layout, or change the "
                    'file that is there with mode="r+"'
                )
            header, head = new_npy(self.path, extents, fields, layout)
            names, specs, text, offset, named, self._dtype = header
        elif npy:
            if extents is not None or layout is not None:
                raise InvalidArgument(
                    f"the header of {self.path} gives its extents and layout; leave them out, or "
                    'make a new file with mode="w"'
                )
            names, specs, text, offset, named, self._dtype = read_header(self.path, mode == "r+")
        else:
            if extents is None:
                raise InvalidArgument(
                    f"{self.path} is not a .npy file: say its extents, fields and layout"
                )
            names, named = extent_specs(extents)
            specs = field_specs(fields)
            text = layout if layout is not None else c_order(names)
        self._core = _core.file(
            self.path, names, specs, text, offset, mode, direct, named, durable, head, npy
        )

    def flush(self) -> None:
        """Waits until copies into the file have ended and what they wrote is on the disk.

        A new file then has its name. What is copied into it later changes it in place.

        Raises:
            Error: a copy into it failed or was cancelled, and the text says which; or the disk
                refused. The file is not whole, and a new one does not take its name.
            Closed: it was closed.
        """
        self._core.flush()

    def close(self) -> None:
        """Flushes what was written, or a new file, and ends all use of it. May be repeated.

        Raises:
            Error: as `flush`. Nothing is left of a new file.
        """
        self._core.close()

    def __exit__(self, kind: object = None, *_: object) -> None:
        """Closes; after an exception, a new file is dropped, and a mark stays."""
        if kind is None:
            self.close()
        else:
            self._core.discard()


class RemoteArray(CoreArray):
    """An array that another process exports; see `Engine.connect`."""

    def __init__(self, core: _core.Array, name: str, engine: _core.EngineCore) -> None:
        self._core = core
        self.name = name
        self._engine = engine

    def _read_into(self, out: npt.NDArray[Any]) -> None:
        self._engine.copy(self._core, out, None, 0, None, "automatic", 0, None).wait()


def to_core(array: Any, writable: bool) -> _core.Array:
    """The core's form of what has no plain buffer: structured types, DLPack, our own classes."""
    if isinstance(array, CoreArray):
        return array._core
    refuse_lossy(array)
    if isinstance(array, np.ndarray):
        return from_numpy(array)
    if (labelled := labelled_values(array)) is not None:
        return from_numpy(*labelled)
    interface = cuda_array_interface(array)
    if interface is not None:
        return from_cuda(array, interface)
    if hasattr(array, "__dlpack__"):
        return from_dlpack(array)
    if hasattr(array, "__array_interface__"):
        return from_numpy(np.asarray(array))
    verb = "written" if writable else "read"
    if hasattr(array, "__array__"):
        raise InvalidArgument(
            f"a {type(array).__name__} cannot be {verb} as an array by itself: give its values, as "
            "in x.values or np.asarray(x)"
        )
    try:
        return from_numpy(np.asarray(memoryview(array)))
    except (TypeError, ValueError, BufferError):
        pass
    raise InvalidArgument(
        f"a {type(array).__name__} cannot be {verb} as an array: give a NumPy array, anything with "
        "the buffer protocol or __dlpack__, an Instance, a File or a remote array"
    )


def refuse_lossy(array: Any) -> None:
    """Refuses arrays whose memory does not say all that they mean.

    Raises:
        InvalidArgument: it has a mask, or is a view that is conjugated or negated when it is read.
    """
    interface = getattr(array, "__array_interface__", None)
    masked = isinstance(interface, Mapping) and interface.get("mask") is not None
    if masked or isinstance(array, np.ma.MaskedArray):
        raise InvalidArgument(
            "the array has a mask, which a copy would lose; copy array.filled(), or its data "
            "(array.data) and its mask (np.ma.getmaskarray(array)) by themselves"
        )
    for flag, what in (("conj", "conjugated"), ("neg", "negated")):
        lazily = getattr(array, f"is_{flag}", None)
        if callable(lazily) and lazily():
            raise InvalidArgument(
                f"the array is {what} only when it is read, and its memory holds the values before "
                f"that; copy array.resolve_{flag}()"
            )


def labelled_values(array: Any) -> tuple[npt.NDArray[Any], list[str]] | None:
    """The values of an xarray.DataArray, where they lie, and its dimensions' names."""
    dims = getattr(array, "dims", None)
    if not isinstance(dims, tuple) or not hasattr(array, "coords"):
        return None
    values = getattr(array, "data", None)
    if not isinstance(values, np.ndarray) or not all(isinstance(name, str) for name in dims):
        return None
    refuse_lossy(values)
    return values, list(dims)


def cuda_array_interface(array: Any) -> Mapping[str, Any] | None:
    """What a GPU library says of its array; None where it has nothing to say.

    Raises:
        InvalidArgument: the library refuses (a tensor that requires a gradient, for example).
    """
    try:
        interface = getattr(array, "__cuda_array_interface__", None)
    except (BufferError, KeyError, RuntimeError, TypeError, ValueError) as error:
        if hasattr(array, "__dlpack__"):
            return None  # types that one has no name for, the other has
        raise InvalidArgument(
            f"the array cannot be read through its CUDA array interface: {error}"
        ) from error
    if interface is not None and not isinstance(interface, Mapping):
        raise InvalidArgument(
            "__cuda_array_interface__ is not a mapping; give an array, not a type"
        )
    return interface


def from_cuda(array: Any, interface: Mapping[str, Any]) -> _core.Array:
    """By the CUDA array interface, versions 2 and 3; the engine finds the GPU by the address."""
    try:
        version = int(interface["version"])
        shape = [int(extent) for extent in interface["shape"]]
        address, read_only = interface["data"]
        dtype = interface_dtype(interface)
        strides = interface.get("strides")
        steps = c_strides(shape, dtype.itemsize) if strides is None else [int(s) for s in strides]
        stream = interface.get("stream")
        address = 0 if address is None else int(address)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(
            f"the CUDA array interface is incomplete ({error!r}): it must have version, shape, "
            "typestr and data; use a newer release of the library that made the array"
        ) from error
    if version < 2:
        raise InvalidArgument(
            f"the array has version {version} of the CUDA array interface, and 2 and 3 are "
            "understood; use a newer release of the library that made it"
        )
    if interface.get("mask") is not None:
        raise InvalidArgument("the array has a mask; fill it, and copy data and mask by themselves")
    if len(steps) != len(shape) or any(extent < 0 for extent in shape):
        raise InvalidArgument(f"shape {shape} and strides {steps} do not fit each other")
    if stream is not None and (not isinstance(stream, int) or stream < 1):
        raise InvalidArgument(
            f"the array's stream is {stream!r}, which says nothing; the CUDA array interface has "
            "None, 1 and 2 (the default streams), or the address of a cudaStream_t"
        )
    core = _core.strided(array, address, shape, steps, dtype_fields(dtype), not read_only)
    # An array of nothing has no address that a driver could know.
    return core if 0 in shape else _core.placed(core, "device", -1, stream)


def interface_dtype(interface: Mapping[str, Any]) -> np.dtype[Any]:
    """The element type: `descr` says more than `typestr` for structures."""
    dtype: np.dtype[Any] = np.dtype(interface["typestr"])
    descr = interface.get("descr")
    if dtype.kind != "V" or descr is None or len(descr) < 2:
        return dtype
    structure: np.dtype[Any] = np.dtype([tuple(entry) for entry in descr])
    return structure if structure.itemsize == dtype.itemsize else dtype


def c_strides(shape: Sequence[int], item_bytes: int) -> list[int]:
    """Strides in bytes of a dense array whose last dimension is fastest."""
    strides = [item_bytes] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        strides[k] = strides[k + 1] * max(shape[k + 1], 1)
    return strides


CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
"""Devices of the DLPack standard that can be read."""


def from_dlpack(array: Any) -> _core.Array:
    """By DLPack; the library that made the array is neither imported nor asked for its type."""
    try:
        device_type = int(array.__dlpack_device__()[0])
        if device_type == CPU:
            return from_host_dlpack(array)
        if device_type not in (CUDA, CUDA_HOST, CUDA_MANAGED):
            raise InvalidArgument(
                f"the array lies on a DLPack device of type {device_type}; memory of the host and "
                "of CUDA GPUs can be read: copy it there first"
            )
        return core_of_capsule(array, device_type)
    except InvalidArgument:
        raise
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidArgument(f"the array cannot be read through DLPack: {error}") from error


def from_host_dlpack(array: Any) -> _core.Array:
    """By NumPy, or by ourselves where NumPy has no such type."""
    try:
        return from_numpy(np.from_dlpack(array))
    except (BufferError, RuntimeError, TypeError):
        try:
            capsule = array.__dlpack__(max_version=(1, 0))
        except TypeError:  # a producer from before versions were
            capsule = array.__dlpack__()
        return _core.from_dlpack(capsule)


def core_of_capsule(array: Any, device_type: int) -> _core.Array:
    """Of GPU and pinned memory. The producer makes the legacy default stream (1) wait for its
    work, and the copy starts after that stream."""
    stream = None if device_type == CUDA_HOST else 1
    try:
        capsule = array.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # a producer from before versions were
        capsule = array.__dlpack__(stream=stream)
    core = _core.from_dlpack(capsule)
    if core.where != "device" or core.bytes == 0:
        return core
    return _core.placed(core, "device", core.device, stream)


def from_numpy(array: npt.NDArray[Any], names: Sequence[str] = ()) -> _core.Array:
    """By address, shape and strides; each field of a structured type is a field."""
    address = array.__array_interface__["data"][0]
    fields = dtype_fields(array.dtype)
    return _core.strided(
        array,
        address,
        list(array.shape),
        list(array.strides),
        fields,
        array.flags.writeable,
        list(names),
    )
