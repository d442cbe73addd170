"""What arrays of this package, and selections of their elements, have in common with NumPy's."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self, SupportsIndex

import numpy as np
import numpy.typing as npt

from .. import _core
from ..arguments import guard_methods

if TYPE_CHECKING:
    from .points import Points

__all__ = ["Elements"]


@guard_methods
class Elements(ABC):
    """Elements that lie in some memory, with a shape and a type.

    Nothing is read before it is asked for: `numpy`, `copy`, ``np.asarray`` and `item` read, and
    ``array[key] = value`` and `fill` write. All of them wait for the end.
    """

    _engine: _core.EngineCore | None = None
    """What carries copies; None: the elements lie in host memory or in a file."""
    _bound = False
    """Whether no engine but `_engine` reaches the elements."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Number of indices in each dimension."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of an element."""

    @property
    @abstractmethod
    def device(self) -> int | str:
        """Where the elements lie: the number of a GPU, "cpu" for host memory, or "file".

        For an array of another process it is the number of that process.
        """

    @abstractmethod
    def __getitem__(self, key: Any) -> Any:
        """Returns a part, which refers to the same memory."""

    @abstractmethod
    def transpose(self, *order: SupportsIndex | Sequence[SupportsIndex] | None) -> Self:
        """Returns the same memory with its dimensions in another order."""

    @abstractmethod
    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> Self:
        """Returns the same memory in another shape, in C order."""

    @abstractmethod
    def _points(self) -> Points:
        """Returns the places of the elements."""

    @abstractmethod
    def _read_into(self, out: npt.NDArray[Any]) -> None:
        """Copies the elements into an array of their shape and type."""

    @abstractmethod
    def _write(self, value: Any) -> None:
        """Assigns a value, which is broadcast."""

    @property
    @abstractmethod
    def _writable(self) -> bool:
        """Whether the elements may be written."""

    @property
    @abstractmethod
    def _where(self) -> str:
        """What messages call the memory of the elements."""

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element, with the padding of its type."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements: `size` times `itemsize`."""
        return self.size * self.itemsize

    @property
    def T(self) -> Self:  # noqa: N802
        """The same memory with its dimensions reversed."""
        return self.transpose()

    def __setitem__(self, key: Any, value: Any) -> None:
        """Copies `value` to a part, and waits for the end, as NumPy assigns: by position.

        Args:
            key: As for indexing.
            value: Array on any memory, a scalar, or what NumPy makes an array of. It broadcasts to
                the part. Values of another type are converted as NumPy does it, in host memory.
                It may overlap the part: then a copy of it is made first.

        Raises:
            OutOfRange: An index lies outside its dimension.
            InvalidArgument: The shapes do not broadcast, the array is read-only, or the values do
                not convert. Nothing has moved.
        """
        self[key]._write(value)

    def fill(self, value: Any) -> None:
        """Sets all elements to one value, and waits for the end.

        Args:
            value: A scalar, which is converted to the type of the array.

        Raises:
            InvalidArgument: It is not a scalar of that type, or the array is read-only.
        """
        scalar = np.empty((), self.dtype)
        scalar[()] = value
        self._write(scalar)

    def numpy(self) -> npt.NDArray[Any]:
        """Returns a copy in host memory.

        Raises:
            Error: The elements cannot be read.
        """
        if self.dtype.subdtype is not None:
            raise TypeError(
                f"NumPy has no arrays of {self.dtype}; copy to an array of a structure with one "
                "field of that type"
            )
        out = np.empty(self.shape, self.dtype)
        if out.size:
            self._read_into(out)
        return out

    def copy(self) -> Any:
        """Returns a dense copy: on the same GPU for a `DeviceArray`, else a NumPy array."""
        return self.numpy()

    def item(self) -> Any:
        """Returns the only element as a Python number.

        Raises:
            ValueError: There are several, or none.
        """
        if self.size != 1:
            raise ValueError(f"an array of {self.size} elements is not one number")
        return self.numpy().item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Any:
        """Returns a NumPy array with a copy of the elements.

        Raises:
            Error: The elements cannot be read.
        """
        if copy is False:
            raise ValueError(
                f"the elements of {self._where} are copied when NumPy reads them; leave "
                "copy=False out"
            )
        out = self.numpy()
        return out if dtype is None else out.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __bool__(self) -> bool:
        """Refused, as NumPy refuses it for arrays of several elements."""
        raise TypeError(
            f"the truth value of {type(self).__name__} is ambiguous; look at .shape or .nbytes"
        )

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __contains__(self, value: object) -> bool:
        """Whether an element has that value; reads all elements, as NumPy does."""
        return value in self.numpy()

    # Two names of one array are equal by `is`: a comparison of elements would read all of them.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> NoReturn:
        self._refuse_comparison("==")

    def __ne__(self, other: object) -> NoReturn:
        self._refuse_comparison("!=")

    def __lt__(self, other: object) -> NoReturn:
        self._refuse_comparison("<")

    def __le__(self, other: object) -> NoReturn:
        self._refuse_comparison("<=")

    def __gt__(self, other: object) -> NoReturn:
        self._refuse_comparison(">")

    def __ge__(self, other: object) -> NoReturn:
        self._refuse_comparison(">=")

    def _refuse_comparison(self, operator: str) -> NoReturn:
        """Refuses a comparison of elements, which would have to read them.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            f"'{operator}' would read all elements of {self._where}; compare a copy, as in "
            f"array.numpy() {operator} value, or the names of two arrays by 'is'"
        )
