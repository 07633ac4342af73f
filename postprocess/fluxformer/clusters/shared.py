"""Shared by the figures of clusters."""

import numpy as np

from fluxformer.report.data import Comparison

GROUP = "softmax"  # of tokens with soft-max attention, the usual one
CURVES = ("#1b1f24", "#2563eb", "#0f9d78", "#e4572e", "#8e44ad")


def attention_of(comparison: Comparison) -> str:
    """The group of tokens with one kind of attention, the first in the files: "softmax" or "unnormalised"."""
    return comparison.models[0]


def of_tokens(comparison: Comparison, name: str) -> np.ndarray:
    """A measure of the tokens of `attention_of`, the seeds first."""
    return comparison.numbers(attention_of(comparison), name)


def edges_of(middles: np.ndarray) -> np.ndarray:
    """Edges of cells around these places, which end at the first and the last."""
    return np.concatenate([middles[:1], (middles[1:] + middles[:-1]) / 2, middles[-1:]])


def counts_of_seeds(numbers: np.ndarray) -> str:
    """How often each number of clusters was found, [seed]: "2 in 8, 3 in 16"; NaN: none."""
    found = [float(count) for count in np.unique(numbers[np.isfinite(numbers)])]
    return ", ".join(f"{count:g} in {int((numbers == count).sum())} of {len(numbers)}" for count in found) or "none"
