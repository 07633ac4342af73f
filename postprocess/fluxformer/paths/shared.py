"""What the figures of attention paths have in common."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from fluxformer.report.data import Comparison, Style
from fluxformer.report.style import plt
from fluxformer.style import INK

SIGNED = plt.get_cmap("PuOr_r")  # two hues that stay apart for colour-blind readers, white at 0
THEORY = Style("theory at width N", INK, "o", "-")


def lines_of(comparison: Comparison, fact: str) -> list[str]:
    """The lines of an attribute that has a line for each name."""
    return str(comparison.facts()[fact]).removesuffix("\n").split("\n")


def finite(comparison: Comparison) -> np.ndarray:
    """The finite widths: all but the last, which is infinite."""
    return comparison.axis("width")[:-1]


def across(axes: Axes, values: np.ndarray, colour: str, line: str, label: str) -> None:
    """Draws a number per seed that does not depend on the width: mean as a line, one standard deviation as a band."""
    axes.axhline(values.mean(), color=colour, ls=line, lw=1.6, label=label)
    if len(values) > 1:
        axes.axhspan(values.mean() - values.std(ddof=1), values.mean() + values.std(ddof=1), color=colour, alpha=0.08, lw=0)
