"""How the numbers of one seed become one: means, falls through depth, areas under a curve, powers.

Each reduction takes `values`, shape (..., places), and `places`, shape (places,), where on the last axis the numbers stand (a depth, a level;
0, 1, 2, ... if they have no place), and returns shape (...). A reduction that cannot be formed is NaN.
"""

from __future__ import annotations

from typing import Callable, NamedTuple

import numpy as np


def _half_fall(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The place where half of the fall from the first to the last place is first reached, as a share of the
    way; NaN without a fall."""
    way = (places - places[0]) / (places[-1] - places[0])
    rows = values.reshape(-1, values.shape[-1])
    found = np.full(len(rows), np.nan)
    for k, row in enumerate(rows):
        if row[0] > row[-1]:
            left = (row - row[-1]) / (row[0] - row[-1])
            below = np.argmax(left <= 0.5)
            found[k] = np.interp(0.5, [left[below], left[below - 1]], [way[below], way[below - 1]])
    return found.reshape(values.shape[:-1])


def _later_fall(values: np.ndarray, _: np.ndarray) -> np.ndarray:
    """Second place minus last: the first place, which is fixed by definition, is left out; NaN for fewer than
    three places."""
    return values[..., 1] - values[..., -1] if values.shape[-1] > 2 else np.full(values.shape[:-1], np.nan)


def _area(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Mean height of the curve: the area under straight lines between its points, over the length of the axis."""
    # By hand: numpy's own is called trapz in its versions 1 and trapezoid from 2 on.
    return (np.diff(places) * (values[..., 1:] + values[..., :-1]) / 2).sum(axis=-1) / (places[-1] - places[0])


def _largest(values: np.ndarray, _: np.ndarray) -> np.ndarray:
    """The largest number of the places that have one; NaN if none has."""
    found = np.max(np.where(np.isnan(values), -np.inf, values), axis=-1)
    return np.where(np.isneginf(found), np.nan, found)


def _smallest(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The smallest number of the places that have one; NaN if none has."""
    return -_largest(-values, places)


def _exponent(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The exponent n of the power law place^n: the slope of the logarithms by least squares; NaN for a number
    that is not above 0."""
    way = np.log(places) - np.log(places).mean()
    return np.log(np.where(values > 0, values, np.nan)) @ way / (way @ way)


class Reduction(NamedTuple):
    """A reduction and its name in words."""
    of: Callable[[np.ndarray, np.ndarray], np.ndarray]
    words: str


REDUCTIONS = {
    "mean": Reduction(lambda values, _: np.mean(values, axis=-1), "mean"),
    "first": Reduction(lambda values, _: values[..., 0], "at the first place"),
    "last": Reduction(lambda values, _: values[..., -1], "at the end"),
    "fall": Reduction(lambda values, _: values[..., 0] - values[..., -1], "first depth minus last"),
    "later_fall": Reduction(_later_fall, "end of the first layer minus last depth"),
    "half_fall": Reduction(_half_fall, "share of the depth after which half of the fall is done"),
    "largest": Reduction(_largest, "the largest"),
    "smallest": Reduction(_smallest, "the smallest"),
    "disparity": Reduction(lambda values, _: np.max(values, axis=-1) / np.min(values, axis=-1), "largest over smallest"),
    "gap": Reduction(lambda values, _: values[..., 0] - values[..., 1], "first minus second: of the weights value minus query"),
    "exponent": Reduction(_exponent, "exponent of a power law"),
    "area": Reduction(_area, "mean height of the curve from the clean input to where accuracy is chance"),
}


def reduce(name: str, values: np.ndarray, places: np.ndarray | None = None) -> np.ndarray:
    """Reduces `values`, shape (rows, ...), to one number per row; all but the last axis are averaged first."""
    values = np.asarray(values, dtype=float)
    while values.ndim > 2:
        values = values.mean(axis=1)
    if not values.size:
        return np.full(len(values), np.nan)
    values = values.reshape(len(values), -1)
    places = np.arange(values.shape[1], dtype=float) if places is None else np.asarray(places, dtype=float)
    with np.errstate(all="ignore"):
        return REDUCTIONS[name].of(values, places)
