"""Arrays that may be larger than the memory is meant to hold: a shape, and their numbers in pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from fluxformer.hdf5_file import RunError

import numpy as np

PIECE = 1 << 20  # numbers
# A half of a float32 that NumPy does not know; a record, so that views of it stay known as such.
BFLOAT16 = np.dtype([("bfloat16", "<u2")])


class Unfit(RunError):
    """The state dict, the options and the model format do not fit together."""


def sizes(shape: tuple[int | None, ...]) -> str:
    """A shape as text, 3 x 4; None is any size."""
    return " x ".join("any" if size is None else str(size) for size in shape) or "a single number"


def as_float64(name: str, block: np.ndarray) -> np.ndarray:
    """Numbers in float64. Unfit, with the name, if they are no finite floating-point numbers."""
    if block.dtype == BFLOAT16:
        block = (block["bfloat16"].astype(np.uint32) << 16).view(np.float32)
    if block.dtype.kind != "f":
        raise Unfit(f"{name} holds {block.dtype}, not real numbers")
    with np.errstate(over="ignore", invalid="ignore"):  # numbers beyond float64 become infinite
        block = block.astype(np.float64, copy=False)
    if not np.isfinite(block).all():
        raise Unfit(f"{name} holds numbers that are not finite")
    return block


class Tensor:
    """An array with a name; its numbers are read when they are asked for.

    Attributes
    ----------
    name : str
        Name of the array in messages.
    shape : tuple of int
    """

    def __init__(self, name: str, shape: tuple[int, ...], read: Callable[[], np.ndarray]) -> None:
        self.name, self.shape, self._read = name, shape, read

    @property
    def size(self) -> int:
        """Number of numbers."""
        return math.prod(self.shape)

    def rows(self, start: int, stop: int) -> Tensor:
        """The rows of the first axis from `start` to before `stop`."""
        return Tensor(self.name, (stop - start, *self.shape[1:]), lambda: self._read()[start:stop])

    def rows_of_blocks(self, blocks: int, start: int, stop: int) -> Tensor:
        """Of each of so many blocks of rows of the first axis the rows from `start` to before `stop`, one below the other."""
        rest = self.shape[1:]

        def read() -> np.ndarray:
            array = self._read()
            return array.reshape(blocks, array.shape[0] // blocks, *rest)[:, start:stop].reshape(-1, *rest)

        return Tensor(self.name, (blocks * (stop - start), *rest), read)

    def transposed(self) -> Tensor:
        """The array with its axes in reverse order."""
        return Tensor(self.name, self.shape[::-1], lambda: self._read().T)

    def reshaped(self, *shape: int) -> Tensor:
        """The array in another shape, with its numbers in the same order."""
        return Tensor(self.name, shape, lambda: self._read().reshape(shape))

    def pieces(self) -> Iterator[np.ndarray]:
        """The numbers in pieces of some rows of the first axis, in float64. Unfit if they are not real and finite."""
        array = self._read()
        many = max(1, PIECE // max(1, math.prod(self.shape[1:])))
        for start in range(0, self.shape[0], many):
            yield as_float64(self.name, array[start:start + many])

    def whole(self) -> np.ndarray:
        """All numbers, in float64. Unfit if they are not real and finite."""
        return as_float64(self.name, self._read())

    def equals(self, other: Tensor) -> bool:
        """True if the other array has the same shape and numbers."""
        return self.shape == other.shape and all(np.array_equal(one, two) for one, two in zip(self.pieces(), other.pieces()))


def held(name: str, array: np.ndarray) -> Tensor:
    """An array that is in memory."""
    return Tensor(name, array.shape, lambda: array)
