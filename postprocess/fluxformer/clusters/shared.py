"""What the figures of clusters have in common."""

import numpy as np

GROUP = "softmax"
CURVES = ("#1b1f24", "#2563eb", "#0f9d78", "#e4572e", "#8e44ad")


def edges_of(middles: np.ndarray) -> np.ndarray:
    """Edges of cells around these places, which end at the first and the last."""
    return np.concatenate([middles[:1], (middles[1:] + middles[:-1]) / 2, middles[-1:]])


def counts_of_seeds(numbers: np.ndarray) -> str:
    """How often each number of clusters was found, [seed]: "2 in 8, 3 in 16"; NaN: none."""
    found = [float(count) for count in np.unique(numbers[np.isfinite(numbers)])]
    return ", ".join(f"{count:g} in {int((numbers == count).sum())} of {len(numbers)}" for count in found) or "none"
