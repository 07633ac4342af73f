"""The layers of a Transformer in a model file, and what its structure allows to be done to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Before h5py: it sets a variable that HDF5 reads when it is loaded.
from fluxformer.hdf5_file import RunError, reading
from fluxformer.io import plain
from fluxformer.model_file import Stored, refuse_of_today, whole
from fluxformer.published.preprocessor import Preprocessor
from fluxformer.tensors import Tensor, Unfit

import h5py
import numpy as np

Layer = dict[str, np.ndarray]  # arrays by their names in /model/layers/<l>

# Attributes of /model that may be missing in imported files (src/model/model_spec.hpp).
USUAL = {"kind": "transformer", "weights": "constant", "norm": "pre", "activation": "gelu_erf", "kernel": "dot", "normalisation": "softmax",
         "iterations": 1, "order": "sequential", "subflow": "euler", "residual": "on"}


@dataclass(frozen=True)
class Structure:
    """What decides which changes of the weights of a layer leave the model as it is (docs/model.md, section 12).

    Attributes
    ----------
    width, heads, ffn : int
    norm, activation, kernel, normalisation, subflow : str
        Words of the attributes of /model.
    iterations : int
        Sinkhorn half-steps.
    halves : tuple of str
        What stands in front of the names of each reaction: "" and, for macaron with own halves, "half_".
    final_norm : bool
        The last state is read through a LayerNorm only.
    same_kappa : bool
        Token diffusion is the same in all channels.
    """
    width: int
    heads: int
    ffn: int
    norm: str
    activation: str
    kernel: str
    normalisation: str
    iterations: int
    subflow: str
    halves: tuple[str, ...]
    final_norm: bool
    same_kappa: bool

    @property
    def folds(self) -> bool:
        """True if gain and bias of a LayerNorm stand in front of linear maps only, which can take them over."""
        return self.norm == "pre"

    @property
    def any_key_bias(self) -> bool:
        """True if b_K has no effect: q.b_K is the same for all keys, and the weights of a query are normalised."""
        return self.kernel == "dot" and self.normalisation != "linear"

    @property
    def rows_sum_to_1(self) -> bool:
        """True if the attention weights of a query sum to 1, so that b_V comes out as it is."""
        return self.normalisation == "softmax" or (self.normalisation == "sinkhorn" and self.iterations % 2 == 1)

    @property
    def blind_to_means(self) -> bool:
        """True if a constant over channels in what a sub-layer returns is lost in the next LayerNorm."""
        return self.same_kappa and ((self.norm == "pre" and self.final_norm) or (self.norm == "post" and self.subflow == "euler"))

    @property
    def norms(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The LayerNorms of a layer, and the maps that read them if norm is pre, as letters behind W_ and b_ (and what stands in front)."""
        return ("norm1_", ("{}_Q", "{}_K", "{}_V")), *((half + "norm_" if half else "norm2_", (half + "{}_1",)) for half in self.halves)

    def shapes(self) -> dict[str, tuple[int | None, ...]]:
        """The shapes of the arrays of a layer; kappa, of 1 or d numbers, is not among them."""
        d, f = self.width, self.ffn
        found: dict[str, tuple[int | None, ...]] = {f"W_{letter}": (d, d) for letter in "QKVO"}
        found |= {f"b_{letter}": (d,) for letter in "QKVO"}
        for half in self.halves:
            found |= {f"{half}W_1": (f, d), f"{half}b_1": (f,), f"{half}W_2": (d, f), f"{half}b_2": (d,)}
        return found | {norm + part: (d,) for norm, _ in self.norms for part in ("gain", "bias")}


@dataclass(frozen=True)
class Transformer:
    """A Transformer of a model file.

    Attributes
    ----------
    attributes : mapping
        Those of /model.
    layers : list of Layer
        The weights of each layer, in float64.
    around : mapping
        All other arrays of /model; their numbers are read later, from the open file.
    words : list of str
        The vocabulary, if it has one.
    pixels : Preprocessor or None
        What turns pixels into its numbers.
    """
    attributes: Mapping[str, str | int | float]
    structure: Structure
    layers: list[Layer]
    around: Mapping[str, Tensor]
    words: list[str]
    pixels: Preprocessor | None


def read_transformer(path: str, file: h5py.File) -> Transformer:
    """Reads the Transformer of an open file.

    Raises
    ------
    Unfit
        If it is not one whose layers have weights of their own and channels in common, or does not hold together.
    """
    model = file.get("model")
    if not isinstance(model, h5py.Group):
        raise RunError(f"{path}: holds no model (no group /model)")
    with reading(path, "/model"):
        attributes = {name: plain(value) for name, value in model.attrs.items()}
        said = {**USUAL, **attributes}
        if said["kind"] != "transformer" or said["weights"] != "constant":
            knots = f"weights linear between {said['knots']} knots" if "knots" in said else "weights linear between knots"
            raise Unfit(f"{path}: its model has {knots} already (kind {said['kind']}); a Transformer with weights for each layer is wanted")
        if said["residual"] != "on":
            raise Unfit(f"{path}: /model@residual is {said['residual']}: without residual connections there is no equation, "
                        "and layers have no channels in common")
        stored = Stored(path, model)
        refuse_of_today(path, said, stored, "what convert takes")
        count = whole(path, said, "layers")
        kappas = [_kappa(path, stored, number, whole(path, said, "width")) for number in range(1, count + 1)]
        if len({kappa.shape for kappa in kappas}) > 1:
            raise Unfit(f"{path}: some layers have one kappa, others one for each channel")
        structure = Structure(
            width=whole(path, said, "width"), heads=whole(path, said, "heads"), ffn=whole(path, said, "ffn"), norm=str(said["norm"]),
            activation=str(said["activation"]), kernel=str(said["kernel"]), normalisation=str(said["normalisation"]),
            iterations=whole(path, said, "iterations"), subflow=str(said["subflow"]),
            halves=("", "half_") if said["order"] == "macaron" and "layers/1/half_W_1" in stored else ("",),
            final_norm="final_norm/gain" in stored, same_kappa=all((kappa == kappa[0]).all() for kappa in kappas))
        if structure.width % structure.heads:
            raise Unfit(f"{path}: {structure.heads} heads do not divide the width {structure.width}")
        for number in range(1, count + 1):
            stored.must_be(f"layers/{number}/nu", 0, "convert takes no transport over tokens")
        layers = [{**{name: stored.take(f"layers/{number}/{name}", *shape).whole() for name, shape in structure.shapes().items()}, "kappa": kappa}
                  for number, kappa in enumerate(kappas, start=1)]
        words = _words(model) if stored.drop("embedding/vocabulary") else []
        stored.drop("edges")  # no weights
        left = stored.left()
        if strange := [name for name in left if name.startswith("layers/")]:
            raise Unfit(f"{path}: /model/{strange[0]} has no place in a Transformer of {count} layers")
        around = {name: stored.take(name, *stored.shape(name)) for name in left}
    single = {name: value for name, value in attributes.items() if not isinstance(value, list)}
    return Transformer(single, structure, layers, around, words, _pixels(path, file))


def _kappa(path: str, stored: Stored, number: int, width: int) -> np.ndarray:
    """The token diffusion of a layer in each channel; 0 if the file does not say it."""
    name = f"layers/{number}/kappa"
    if name not in stored:
        return np.zeros(1)
    kappa = stored.take(name, 1 if stored.shape(name) == (1,) else width).whole()
    if (kappa < 0).any():
        raise Unfit(f"{path}: /model/{name} holds numbers below 0")
    return kappa


def _words(model: h5py.Group) -> list[str]:
    return [one.decode() if isinstance(one, bytes) else str(one) for one in model["embedding/vocabulary"][...].tolist()]


def _pixels(path: str, file: h5py.File) -> Preprocessor | None:
    if "preprocessor" not in file:
        return None
    with reading(path, "/preprocessor"):
        group = file["preprocessor"]
        return Preprocessor(float(group.attrs["factor"]), *(tuple(map(float, group[name][...])) for name in ("mean", "deviation")))
