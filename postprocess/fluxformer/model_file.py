"""Writes model files (`model.file` of a deck) one array at a time, so that large models take little memory."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Mapping, Sequence

# Before h5py: it sets a variable that HDF5 reads when it is loaded.
from fluxformer.part_file import writing
from fluxformer.published.preprocessor import Preprocessor
from fluxformer.tensors import Tensor, held

import h5py
import numpy as np

SCHEMA_VERSION = 1


def write_model(path: str, attributes: Mapping[str, str | int | float], arrays: Mapping[str, Tensor | np.ndarray],
                words: Sequence[str] = (), pixels: Preprocessor | None = None) -> None:
    """Writes a model file: `path`.part, renamed when complete.

    Parameters
    ----------
    path : str
    attributes : mapping
        Attributes of /model.
    arrays : mapping
        Arrays by their path below /model; stored in float64.
    words : sequence of str
        The words of embedding/vocabulary, if any.
    pixels : Preprocessor, optional
        What turns pixels into the numbers of the model: group /preprocessor.

    Raises
    ------
    OSError
        If the file cannot be written; nothing is left behind then.
    Unfit
        If an array holds numbers that are not real and finite.
    """
    with writing(path) as part, h5py.File(part, "w") as file:
        file.attrs["schema_version"] = SCHEMA_VERSION
        file.attrs["experiment"] = "import_weights"
        file.attrs["created"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        file.attrs["command_line"] = " ".join(sys.argv)
        file.attrs["status"] = "done"
        model = file.create_group("model")
        for name, value in attributes.items():
            model.attrs[name] = value
        for name, array in arrays.items():
            _write(model, name, array if isinstance(array, Tensor) else held(name, array))
            part.check()
        if words:
            model.create_dataset("embedding/vocabulary", data=list(words), dtype=h5py.string_dtype())
        if pixels is not None:
            group = file.create_group("preprocessor")
            group.attrs["factor"] = pixels.factor
            group["mean"], group["deviation"] = np.array(pixels.mean), np.array(pixels.deviation)


def _write(group: h5py.Group, name: str, array: Tensor) -> None:
    stored = group.create_dataset(name, array.shape, np.float64)
    row = 0
    for piece in array.pieces():
        stored[row:row + len(piece)] = piece
        row += len(piece)
