"""Growth of small displacements of evenly spread tokens: measured rates beside closed forms."""

from __future__ import annotations

import numpy as np
from matplotlib.ticker import MaxNLocator

from fluxformer.clusters.shared import CURVES, GROUP
from fluxformer.report.data import Comparison, Study
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, panel
from fluxformer.style import INK, SOFT

EXPERIMENT = "clusters_growth"


def _shown(count: int) -> list[int]:
    """At most as many of the values of beta as there are colours, the first and the last among them."""
    return sorted(set(np.linspace(0, count - 1, min(count, len(CURVES))).round().astype(int).tolist()))


def _fastest(rates: np.ndarray) -> np.ndarray:
    """The degree of the largest rate of each beta, [beta]; NaN where none grows."""
    return np.where(rates.max(axis=-1) > 0, rates.argmax(axis=-1) + 1.0, np.nan)


def draw(study: Study) -> list[Drawing]:
    """Draws rates over the degree, and the degree that grows fastest over beta; none without a file of `clusters_growth`."""
    comparison = study.of(EXPERIMENT)
    if comparison is None:
        return []
    betas, degrees = comparison.axis("beta"), comparison.axis("degree")
    rates, theory = comparison.numbers(GROUP, "rate")[0], comparison.numbers(GROUP, "rate_theory")[0]
    figure = canvas(3.8)
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    for colour, k in zip(CURVES, _shown(len(betas))):
        left.plot(degrees, theory[k], color=colour, lw=1.4)
        left.plot(degrees, rates[k], color=colour, marker="o", ms=5, ls="", label=f"β = {betas[k]:g}")
    left.axhline(0, color=SOFT, lw=0.8)
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel(left, "How fast a displacement grows", "degree of the harmonic", "rate  [1/time]")
    right.plot(betas, np.sqrt(2 * betas), color=SOFT, ls=":", label="√(2β)")
    right.plot(betas, _fastest(theory), color=INK, lw=1.4, label="closed form")
    right.plot(betas, _fastest(rates), color=INK, marker="o", ms=5, ls="", label="attention")
    right.set_xscale("symlog", linthresh=1)
    right.xaxis.set_major_formatter("{x:g}")
    panel(right, "The fastest degree", "β", "degree")
    legend(figure, left, right)
    facts = comparison.facts()
    return [Drawing("clusters-growth", "How tokens begin to cluster",
                    f"{facts['tokens']} tokens ({facts['start']}, d = {facts['dimension']}), displaced by harmonics of each degree. Dots: rates of the "
                    "program's attention at these tokens, by its derivative. Lines: closed forms for infinitely many tokens. The displacement that "
                    "grows fastest sets the pattern of clusters that appears first.", figure, comparison.runs)]


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: for each beta the fastest degree and its rate, in time and in a layer."""
    betas = comparison.axis("beta")
    rates, theory = comparison.numbers(GROUP, "rate")[0], comparison.numbers(GROUP, "rate_theory")[0]
    layers, layers_theory = comparison.numbers(GROUP, "layer_growth")[0], comparison.numbers(GROUP, "layer_growth_theory")[0]
    rows: list[tuple[str, ...]] = [("beta", "fastest degree", "rate", "closed form", "factor of a layer", "closed form")]
    for k, beta in enumerate(betas):
        best = int(rates[k].argmax())
        rows.append((f"{beta:g}", f"{best + 1}" if rates[k, best] > 0 else "none", *(f"{numbers[k, best]:.6f}".replace("-", "−")
                                                                                       for numbers in (rates, theory, layers, layers_theory))))
    return rows


SECTIONS = (Section(22, "clusters-growth", "How tokens begin to cluster", EXPERIMENT, draw, table),)
