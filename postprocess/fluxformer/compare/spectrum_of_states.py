"""Spectra of hidden states in the report: effective rank by depth, and the singular values at both ends."""

from __future__ import annotations

from fluxformer.report.data import Comparison, Study
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, over, panel, style_of


def _spectra(comparison: Comparison) -> Drawing:
    figure = canvas(3.7)
    rank, values = figure.subplots(1, 2, width_ratios=[1, 1.2])
    values.set_yscale("log")
    for model in comparison.having("effective_rank"):
        style, depth = style_of(model), comparison.depth(model)
        over(rank, depth, comparison.numbers(model, "effective_rank"), style, style.label)
        sigma, mode = comparison.numbers(model, "singular_value"), comparison.axis("mode")
        if model == "transformer":
            over(values, mode, sigma[:, 0], style._replace(line=":"), "embedded input", markers=False, alpha=0.6)
        over(values, mode, sigma[:, -1], style, style.label, markers=False)
    values.set_ylim(1e-4, 1.2)
    rank.set_ylim(0, None)
    rank.axhline(1, color="0.6", lw=1, ls="--")
    rank.annotate("all tokens parallel", (0.02, 1), xycoords=("axes fraction", "data"), xytext=(0, 3), textcoords="offset points",
                  fontsize=9, color="0.4")
    panel(rank, "Directions that the tokens span", "depth s  [layers]", "effective rank  exp(−Σ p ln p)")
    panel(values, "At the last depth", "singular value, by size", "σ / ‖U‖")
    legend(figure, rank, values)
    return Drawing("spectrum-depth", "How many directions the tokens of a sample span",
                   "Singular values of the token-by-channel matrix U of a sample's states, p = σ/Σσ; means over the test samples. Lines are "
                   "means over seeds, bands one standard deviation.", figure, comparison.runs)


def draw(study: Study) -> list[Drawing]:
    """Draws the figure of the spectra; none if they were not measured."""
    comparison = study.of("spectrum_of_states")
    return [] if comparison is None else [_spectra(comparison)]


SECTIONS = (Section(3, "spectrum", "Spectrum of the states", "spectrum_of_states", draw),)
