"""Weights linear between K knots that stand for those of S layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fluxformer.convert.gauges import aligned, canonical, distance, size
from fluxformer.convert.transformer import Layer, Structure

import numpy as np

WAYS = {"pick": "the weights at the knots' places, without least squares", "fit": "least squares, the weights as they stand",
        "permutations": "least squares after permutations of heads and hidden units",
        "full": "least squares after all changes that leave the model as it is"}
MOST_ROUNDS = 20
SETTLED = 1e-12  # of the sum of squares of the weights


@dataclass(frozen=True)
class Converted:
    """Knots for the layers of a Transformer.

    Attributes
    ----------
    knots : list of Layer
        The weights at the knots.
    missed, total : float
        Sum of squares of what weights linear between the knots miss, and of the weights in the same gauge.
    sums : list of float
        `missed` after each fit.
    clipped : int
        Numbers of kappa that came out below 0 and were set to 0.
    """
    knots: list[Layer]
    missed: float
    total: float
    sums: list[float]
    clipped: int


def hats(layers: int, knots: int) -> np.ndarray:
    """[layer, knot]: the share of each knot in the weights at s = l - 1, as in src/model/depth_weights.cpp."""
    found = np.zeros((layers, knots))
    for s in range(layers):
        # Knot k (from 0) stands at s = k (S - 1)/(K - 1).
        position = s * (knots - 1) / (layers - 1) if layers > 1 else 0.0
        lower = int(position)
        found[s, lower] = 1 - (position - lower)
        if position > lower:
            found[s, lower + 1] = position - lower
    return found


def fit(layers: int, knots: int) -> np.ndarray:
    """[knot, layer]: (P^T P)^-1 P^T with the hats P. Of full rank for K <= S (one knot gets the mean); the unit matrix, exactly, for K = S."""
    shares = hats(layers, knots)
    return np.linalg.solve(shares.T @ shares, shares.T)


def pick(layers: int, knots: int) -> np.ndarray:
    """[knot, layer]: the weights, linear between layers, at the places of the knots; a single knot is in the middle."""
    return hats(knots, layers) if knots > 1 else hats(3, layers)[1:2]


def combined(shares: np.ndarray, layers: list[Layer]) -> list[Layer]:
    """Layers that are sums of others: [new, old] numbers. A single share of 1 copies every bit."""
    def one(row: np.ndarray, name: str) -> np.ndarray:
        terms = [share * layer[name] for share, layer in zip(row, layers) if share]
        return np.sum(terms, axis=0) if len(terms) > 1 else terms[0]

    return [{name: one(row, name) for name in layers[0]} for row in shares]


def convert(layers: list[Layer], knots: int, how: str, structure: Structure) -> Converted:
    """The weights at so many knots, 1 <= K <= S.

    Parameters
    ----------
    how : str
        One of WAYS. `permutations` and `full` align each layer to the one before, then fit the knots and align the layers to the fit, in turns,
        until the sum of squares settles: neither step can raise it.
    """
    count = len(layers)
    into, back = (pick if how == "pick" else fit)(count, knots), hats(count, knots)
    members = [canonical(layer, structure) for layer in layers] if how == "full" else layers
    if how in ("pick", "fit"):
        found, clipped, missed = _knots(into, back, members)
        return Converted(found, missed, sum(map(size, members)), [missed], clipped)

    def close(layer: Layer, target: Layer) -> Layer:
        return aligned(layer, target, structure, rotate=how == "full")

    members = chained(members, close)
    total, sums = sum(map(size, members)), []
    while True:
        found, clipped, missed = _knots(into, back, members)
        sums.append(missed)
        if len(sums) > MOST_ROUNDS or (len(sums) > 1 and sums[-2] - missed < SETTLED * total):
            return Converted(found, missed, total, sums, clipped)
        members = [close(layer, target) for layer, target in zip(members, combined(back, found))]


def chained(layers: list[Layer], close: Callable[[Layer, Layer], Layer]) -> list[Layer]:
    """The layers, each brought close to the one before by `close`."""
    found = layers[:1]
    for layer in layers[1:]:
        found.append(close(layer, found[-1]))
    return found


def merged(layers: list[Layer], place: int, structure: Structure) -> list[Layer]:
    """The layers with those at `place` and behind it (from 0) as one: the mean of their aligned weights, over twice the length.

    An Euler step of twice the length is a layer that adds twice as much: W_O, b_O, W_2, b_2 and kappa are doubled.
    """
    first, second = (canonical(layer, structure) for layer in layers[place:place + 2])
    mean, = combined(np.array([[0.5, 0.5]]), [first, aligned(second, first, structure, rotate=True)])
    both = {name: array * (2 if name.removeprefix("half_") in ("W_O", "b_O", "W_2", "b_2", "kappa") else 1) for name, array in mean.items()}
    return [*layers[:place], both, *layers[place + 2:]]


def _knots(into: np.ndarray, back: np.ndarray, layers: list[Layer]) -> tuple[list[Layer], int, float]:
    """The knots, how many kappas were clipped, and the sum of squares of what they miss."""
    found = combined(into, layers)
    clipped = sum(int((knot["kappa"] < 0).sum()) for knot in found)
    if clipped:
        found = [{**knot, "kappa": np.maximum(knot["kappa"], 0)} for knot in found]
    return found, clipped, sum(distance(layer, linear) for layer, linear in zip(layers, combined(back, found)))
