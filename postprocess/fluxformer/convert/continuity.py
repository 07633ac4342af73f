"""Are the weights of neighbouring layers more alike than those of layers far from each other?"""

from __future__ import annotations

import itertools
import math

import numpy as np

MOST_LAYERS = 8  # whose orders are all looked at: 40 320
RANDOM_ORDERS = 10_000
TIES = 1e-12  # an order and its reverse are as smooth, but for round-off


def orders(layers: int) -> np.ndarray:
    """[order, place]: all orders of up to 8 layers, else 10 000 random ones, the same each time."""
    if layers <= MOST_LAYERS:
        return np.array(list(itertools.permutations(range(layers))))
    generator = np.random.Generator(np.random.Philox(key=layers))
    return generator.permuted(np.tile(np.arange(layers), (RANDOM_ORDERS, 1)), axis=1)


def roughness(distances: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The mean square distance of neighbours over that of all pairs, NaN if that is 0. Over all orders its mean is 1; with weights linear
    in depth it is 6/(S(S+1)).

    Parameters
    ----------
    distances : array, [layer, layer]
        Square distances.
    order : array, [..., place]
        The layers in the order in which they are neighbours.
    """
    layers = len(distances)
    mean = distances.sum() / (layers * (layers - 1))
    with np.errstate(invalid="ignore"):
        return distances[order[..., :-1], order[..., 1:]].mean(axis=-1) / mean


def share_as_smooth(distances: np.ndarray) -> float:
    """p: the share of the orders of the layers that are as smooth as theirs or smoother. Of random orders, theirs counts as one more."""
    layers = len(distances)
    own, all_of_them = roughness(distances, np.arange(layers)), roughness(distances, orders(layers))
    smooth = int((all_of_them <= own * (1 + TIES)).sum())
    return smooth / len(all_of_them) if layers <= MOST_LAYERS else (smooth + 1) / (len(all_of_them) + 1)


def least_share(layers: int) -> float:
    """The least p: one order and its reverse of S!, or none of the random orders."""
    return 2 / math.factorial(layers) if layers <= MOST_LAYERS else 1 / (RANDOM_ORDERS + 1)
