"""Files in the format safetensors: the length of a header (8 bytes, the lowest first), the header (JSON: kind, shape and place of each
tensor), and the numbers as they are in memory. A file that does not hold together is refused with the name of the tensor.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from fluxformer.hdf5_file import RunError, regular_file
from fluxformer.part_file import writing
from fluxformer.text import once
from fluxformer.tensors import BFLOAT16, Tensor, Unfit, sizes

import numpy as np

LONGEST_HEADER = 100_000_000  # bytes, as in the library that defines the format
# Bytes of a number, and NumPy's kind of those that it knows.
WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
          "F8_E4M3": 1, "F8_E5M2": 1}
KINDS: dict[str, np.dtype] = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": BFLOAT16,
                               "I64": np.dtype("<i8"), "I32": np.dtype("<i4"), "I16": np.dtype("<i2"), "I8": np.dtype("i1"),
                               "U64": np.dtype("<u8"), "U32": np.dtype("<u4"), "U16": np.dtype("<u2"), "U8": np.dtype("u1"),
                               "BOOL": np.dtype("?")}
METADATA = "__metadata__"
POINTER = b"version "  # begins what git leaves in place of a large file where git-lfs is not installed


@dataclass(frozen=True)
class Place:
    """The place of a tensor in its file, its kind and its shape."""
    kind: str
    shape: tuple[int, ...]
    begin: int  # in the file
    end: int


def _whole_numbers(value: object) -> tuple[int, ...] | None:
    """A list of whole numbers from 0 on; None for anything else."""
    if isinstance(value, list) and all(type(one) is int and one >= 0 for one in value):
        return tuple(value)
    return None


def _place(path: str, name: str, entry: object, begin: int, size: int) -> Place:
    """What the header says of a tensor, if it can be true; the numbers begin at byte `begin` of a file of
    `size` bytes."""
    def refuse(why: str) -> Unfit:
        return Unfit(f"{path}: {name}: {why}")

    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise refuse("its entry in the header is not dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], _whole_numbers(entry["shape"]), _whole_numbers(entry["data_offsets"])
    if not isinstance(kind, str) or kind not in WIDTHS:
        raise refuse(f"dtype {kind!r} is not one of {', '.join(WIDTHS)}")
    if shape is None:
        raise refuse("its shape is not a list of whole numbers")
    if offsets is None or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise refuse("its data_offsets are not two whole numbers, the smaller one first")
    if offsets[1] > size - begin:
        raise refuse(f"its numbers are said to end at byte {offsets[1]} of {size - begin}: is the file cut?")
    if math.prod(shape) * WIDTHS[kind] != offsets[1] - offsets[0]:
        raise refuse(f"{offsets[1] - offsets[0]} bytes are no {sizes(shape)} numbers of {WIDTHS[kind]} bytes ({kind})")
    return Place(kind, shape, begin + offsets[0], begin + offsets[1])


class SafeTensors:
    """A file in the format safetensors; its numbers are read when they are asked for.

    Attributes
    ----------
    path : str
    metadata : dict
        Texts of the header by name.
    places : dict
        Places of the tensors by name.

    Raises
    ------
    RunError
        If the file cannot be read.
    Unfit
        If its header does not hold together, with the name of the tensor.
    """

    def __init__(self, path: str) -> None:
        regular_file(path)
        self.path = path
        size = os.path.getsize(path)
        try:
            with open(path, "rb") as stream:
                begin = stream.read(8)
                if begin == POINTER:
                    raise Unfit(f"{path}: a pointer of Git LFS, not the file itself: install git-lfs, then `git lfs pull` in its folder")
                length = int.from_bytes(begin, "little")
                if size < 8 or length > min(size - 8, LONGEST_HEADER):
                    raise Unfit(f"{path}: not a safetensors file: its first 8 bytes announce a header of {length} bytes, and it has {size} in all")
                text = stream.read(length)
        except OSError as failure:
            raise RunError(f"{path}: {failure.strerror}") from None
        try:
            if not text.startswith(b"{"):
                raise ValueError("it does not begin with {")
            header = json.loads(text.decode("utf-8"), object_pairs_hook=once)
        except (ValueError, RecursionError) as failure:
            raise Unfit(f"{path}: not a safetensors file: its header is no JSON object ({failure})") from None
        metadata = header.pop(METADATA, {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise Unfit(f"{path}: {METADATA} holds more than texts")
        self.metadata: dict[str, str] = metadata
        self.places = {name: _place(path, name, entry, 8 + length, size) for name, entry in header.items()}
        self._refuse_gaps(8 + length, size)

    def _refuse_gaps(self, begin: int, size: int) -> None:
        """Unfit unless each byte belongs to one tensor."""
        before = "the header"
        for name, place in sorted(self.places.items(), key=lambda item: (item[1].begin, item[1].end)):
            if place.begin != begin:
                what = "overlaps" if place.begin < begin else "leaves unused bytes behind"
                raise Unfit(f"{self.path}: {name} {what} {before}")
            begin, before = place.end, name
        if begin != size:
            raise Unfit(f"{self.path}: {size - begin} bytes behind {before} belong to no tensor")

    def read(self, name: str) -> np.ndarray:
        """One tensor, mapped into memory. Unfit if NumPy has no such numbers."""
        place = self.places[name]
        if place.kind not in KINDS:
            raise Unfit(f"{self.path}: {name} holds {place.kind}, not real numbers of 16, 32 or 64 bits")
        if place.begin == place.end:
            return np.empty(place.shape, KINDS[place.kind])
        return np.memmap(self.path, KINDS[place.kind], "r", place.begin, place.shape)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name; messages name the file too."""
        return {name: Tensor(f"{self.path}: {name}", place.shape, partial(self.read, name)) for name, place in self.places.items()}


def write_safetensors(path: str, tensors: Mapping[str, Tensor], kind: str, metadata: Mapping[str, str]) -> None:
    """Writes `path`.part, renamed when complete. OSError if it cannot be written, Unfit if numbers do not fit.

    Parameters
    ----------
    path : str
    tensors : mapping
        Tensors by name.
    kind : str
        Kind of all numbers, F64 or F32.
    metadata : mapping
        Texts of the header by name.
    """
    header: dict[str, object] = {METADATA: dict(metadata)}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.size * WIDTHS[kind]
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode("utf-8")
    text += b" " * (-len(text) % 8)  # the numbers begin at a multiple of 8 bytes
    with writing(path) as part:
        part.write(len(text).to_bytes(8, "little") + text)
        for name, tensor in tensors.items():
            for piece in tensor.pieces():
                with np.errstate(over="ignore"):
                    numbers = piece.astype(KINDS[kind])
                if not np.isfinite(numbers).all():
                    raise Unfit(f"{name} holds numbers that are too large for {kind}")
                part.write(numbers.tobytes())
                part.check()
