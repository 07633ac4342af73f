"""Reads and writes model files (`model.file` of a deck) one array at a time, so that large models take little memory."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Mapping, Sequence

# Before h5py: it sets a variable that HDF5 reads when it is loaded.
from fluxformer.hdf5_file import reading
from fluxformer.io import Value, parse_settings, plain
from fluxformer.part_file import writing
from fluxformer.published.preprocessor import Preprocessor
from fluxformer.tensors import Tensor, Unfit, held, sizes

import h5py
import numpy as np

SCHEMA_VERSION = 1
# Attributes of /model that language models of today bring, and what they are if they are missing.
OF_TODAY = {"norm_map": "layer", "biases": "all", "gated": "off", "rotary_layout": "none", "first_norm": "on"}
LAYER_MAP = "1fe"  # of adjoint.method: one layer map for each depth cell


class Stored:
    """The arrays of /model; each is taken once."""

    def __init__(self, path: str, model: h5py.Group) -> None:
        self.path = path
        self._arrays: dict[str, h5py.Dataset] = {}
        model.visititems(lambda name, item: self._arrays.update({name: item}) if isinstance(item, h5py.Dataset) else None)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def left(self) -> list[str]:
        """Names of the arrays that were not taken."""
        return sorted(self._arrays)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an array that is there."""
        return self._arrays[name].shape or ()

    def take(self, name: str, *shape: int | None) -> Tensor:
        """Takes the array of this name and shape, in which None is any size from 1 on. Unfit if it is not
        there or has another shape."""
        if name not in self._arrays:
            raise Unfit(f"{self.path}: /model/{name} is missing")
        stored = self._arrays.pop(name)
        found = stored.shape or ()
        if len(found) != len(shape) or any(size < 1 or want not in (None, size) for want, size in zip(shape, found)):
            raise Unfit(f"{self.path}: /model/{name} is {sizes(found)} where {sizes(shape)} is expected")
        return Tensor(f"{self.path}: /model/{name}", found, lambda: self._read(stored))

    def _read(self, stored: h5py.Dataset) -> np.ndarray:
        with reading(self.path, stored.name):
            return np.asarray(stored[...])

    def drop(self, name: str) -> bool:
        """Leaves an array out; returns whether it was there."""
        return self._arrays.pop(name, None) is not None

    def must_be(self, name: str, wanted: float, what: str) -> None:
        """Takes an array; Unfit, saying `what`, unless all its numbers, if it is there, are `wanted`."""
        if name in self._arrays:
            values = self._read(self._arrays.pop(name))
            if values.dtype.kind != "f" or not (values == wanted).all():
                raise Unfit(f"{self.path}: /model/{name} is not {wanted:g}: {what}")


def whole(path: str, attributes: Mapping[str, object], name: str) -> int:
    """An attribute that is a whole number from 1 on."""
    value = attributes.get(name)
    if not isinstance(value, int) or value < 1:
        raise Unfit(f"{path}: /model@{name} is {value!r}, not a whole number from 1 on")
    return value


def refuse_of_today(path: str, attributes: Mapping[str, object], stored: Stored, taker: str) -> None:
    """Unfit if layers have what `taker` does not know: RMSNorm, gated networks, rotary positions, groups of keys, windows, missing biases."""
    for name, usual in OF_TODAY.items():
        if (found := attributes.get(name, usual)) != usual:
            raise Unfit(f"{path}: /model@{name} is {found}: {taker} is {usual} only")
    width, heads = whole(path, attributes, "width"), whole(path, attributes, "heads")
    for name, every in (("groups", heads), ("head_width", width // heads)):
        if (found := attributes.get(name) or every) != every:
            raise Unfit(f"{path}: /model@{name} is {found}: {taker} is {every} only")
    stored.must_be("window", 0, f"{taker} sees all tokens")


def march_of(settings: Mapping[str, Value]) -> str:
    """The method by which the model of these settings was trained: LAYER_MAP, or a name of adjoint.method."""
    return str(settings.get("adjoint.method")) if settings.get("train.gradient") == "adjoint" else LAYER_MAP


def require_one_step_a_layer(path: str, attributes: Mapping[str, object], model: h5py.Group, taker: str) -> None:
    """Unfit if the layers of a Transformer were trained by another march than a layer map for each, which `taker` would take them for."""
    layers = attributes["layers"]
    settings = parse_settings(str(plain(model.file.attrs.get("settings", ""))))
    if (method := march_of(settings)) != LAYER_MAP:
        raise Unfit(f"{path}: was trained with adjoint.method = {method}; {taker} takes the layer map for each layer")
    if (cells := attributes.get("cells") or layers) != layers or "edges" in model:
        raise Unfit(f"{path}: its weights are those of {cells} depth cells in {layers} layers; {taker} takes one step for each layer")


def write_model(path: str, attributes: Mapping[str, str | int | float], arrays: Mapping[str, Tensor | np.ndarray],
                words: Sequence[str] = (), pixels: Preprocessor | None = None, origin: Mapping[str, str | int | float] | None = None,
                store: str = "float64") -> None:
    """Writes a model file: `path`.part, renamed when complete.

    Parameters
    ----------
    path : str
    attributes : mapping
        Attributes of /model.
    arrays : mapping
        Arrays by their path below /model. Whole numbers are stored as such, real numbers in float64 or as `store` says.
    words : sequence of str
        The words of embedding/vocabulary, if any.
    pixels : Preprocessor, optional
        What turns pixels into the numbers of the model: group /preprocessor.
    origin : mapping, optional
        Attributes of the file that say where the model comes from, such as another name of the experiment than import_weights.
    store : str
        float32: tensors that are read from a file are stored in 32 bits; what was computed from them is not.

    Raises
    ------
    OSError
        If the file cannot be written; nothing is left behind then.
    Unfit
        If an array holds numbers that are not real and finite, or that 32 bits do not hold as they are.
    """
    with writing(path) as part, h5py.File(part, "w") as file:
        file.attrs["schema_version"] = SCHEMA_VERSION
        file.attrs["experiment"] = "import_weights"
        file.attrs["created"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        file.attrs["command_line"] = " ".join(sys.argv)
        file.attrs["status"] = "done"
        for name, value in (origin or {}).items():
            file.attrs[name] = value
        model = file.create_group("model")
        for name, value in attributes.items():
            model.attrs[name] = value
        for name, array in arrays.items():
            if isinstance(array, Tensor):
                _write(model, name, array, np.dtype(store))
            elif array.dtype.kind == "i":
                model[name] = array
            else:
                _write(model, name, held(name, array), np.dtype(np.float64))
            part.check()
        if words:
            model.create_dataset("embedding/vocabulary", data=list(words), dtype=h5py.string_dtype())
        if pixels is not None:
            group = file.create_group("preprocessor")
            group.attrs["factor"] = pixels.factor
            group["mean"], group["deviation"] = np.array(pixels.mean), np.array(pixels.deviation)


def _write(group: h5py.Group, name: str, array: Tensor, kind: np.dtype) -> None:
    stored = group.create_dataset(name, array.shape, kind)
    row = 0
    for piece in array.pieces():
        with np.errstate(over="ignore"):
            if kind.itemsize < piece.itemsize and not np.array_equal(piece.astype(kind), piece):
                raise Unfit(f"{array.name} holds numbers that {kind.name} does not hold as they are: leave out --store {kind.name}")
        stored[row:row + len(piece)] = piece
        row += len(piece)
