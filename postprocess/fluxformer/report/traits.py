"""Traits of trained models, as a file fixes them before anything is measured (input/paper/traits.toml), and their numbers on a data set."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fluxformer.environment import of_environment
from fluxformer.hdf5_file import RunError, regular_file
from fluxformer.report.claims import Claim, claim_of
from fluxformer.report.data import MODELS, Study
from fluxformer.report.effects import Measured, Place
from fluxformer.statistics import Effect

MEASURED_BY = {"experiment", "quantity", "unit", "reduce", "along", "where", "levels", "start", "window", "samples", "ratio"}


class Trait(NamedTuple):
    """One number per seed of a model."""
    name: str
    family: str
    larger: str    # what a larger number means
    claim: Claim   # how it is measured: that it is larger than of another model


class Traits(NamedTuple):
    """The traits of a file, with the level of the tests and the models."""
    alpha: float
    models: list[str]  # the first is the one that others are drawn against
    traits: list[Trait]


def read_traits(path: str | os.PathLike) -> Traits:
    """Reads the traits of a file; RunError if it is not a file of traits."""
    regular_file(os.fspath(path))
    try:
        with open(path, "rb") as stream:
            content = tomllib.loads(stream.read().decode("utf-8-sig"))  # without a byte-order mark
        alpha, models, traits = float(content["alpha"]), list(content["models"]), [_trait(entry) for entry in content["trait"]]
        if not 0 < alpha < 1:
            raise ValueError("alpha lies between 0 and 1")
        if len(set(models)) < max(2, len(models)) or (unknown := [one for one in models if one not in MODELS]):
            raise ValueError(f"models are two or more of {', '.join(MODELS)}" + (f", not {', '.join(unknown)}" if set(models) - set(MODELS) else ""))
        if len({one.name for one in traits}) < len(traits):
            raise ValueError("several traits have the same name")
        return Traits(alpha, models, traits)
    except Exception as failure:  # entries of any kind, at any depth
        if of_environment(failure):
            raise
        raise RunError(f"{path}: not a file of traits ({type(failure).__name__}: {failure})") from None


def _trait(entry: dict) -> Trait:
    words = {key: entry[key] for key in ("name", "family", "larger")}
    measured = {key: value for key, value in entry.items() if key not in words}
    if unknown := set(measured) - MEASURED_BY:
        raise ValueError(f"trait '{words['name']}' has unknown keys {', '.join(sorted(unknown))}")
    claim = claim_of({**measured, "id": words["name"], "sentence": words["larger"], "source": words["family"], "quantity": [entry["quantity"]],
                      "test": "larger"})
    return Trait(**words, claim=claim)


@dataclass(frozen=True)
class Column:
    """A trait on a data set.

    Attributes
    ----------
    trait : Trait
    seeds : list of int
    numbers : dict of ndarray, shape (seeds,)
        Numbers by model, in the order of the file; in units of the trait. NaN where a seed has none.
    effects : dict of Effect
        Effects by pair of models (first, second): second minus first, seed by seed; differences of logarithms if the trait is a ratio.
    """
    trait: Trait
    seeds: list[int]
    numbers: dict[str, np.ndarray]
    effects: dict[tuple[str, str], Effect]

    @property
    def linear(self) -> dict[str, np.ndarray]:
        """The numbers as they are compared: their logarithms if the trait is a ratio."""
        with np.errstate(all="ignore"):
            return {model: np.log(values) if self.trait.claim.ratio else values for model, values in self.numbers.items()}

    @property
    def deviation(self) -> float:
        """Standard deviation over seeds of what is compared, pooled over the models; NaN without any."""
        variances = [float(np.var(finite, ddof=1)) for values in self.linear.values() if len(finite := values[np.isfinite(values)]) > 1]
        return float(np.sqrt(np.mean(variances))) if variances and max(variances) > 0 else np.nan


def column_of(trait: Trait, study: Study, models: list[str]) -> Column | None:
    """A trait on a data set, for those of the models that have it; None if none has."""
    comparison, claim = study.of(trait.claim.experiment), trait.claim
    if comparison is None:
        return None
    quantity, = claim.quantity
    there = [model for model in models if {quantity, *filter(None, [claim.start])} <= set(comparison.measures.get(model, ()))]
    if not there:
        return None
    measured, places = Measured(claim, comparison), {model: Place(model, quantity) for model in there}
    if claim.levels:
        measured.informative(*places.values())
    effects = {pair: measured.effect(places[pair[1]], places[pair[0]], 1.0) for pair in combinations(there, 2)}
    return Column(trait, comparison.seeds, {model: measured.by_seed(place) for model, place in places.items()}, effects)
