"""The part of attention that acts on the output, by sample length: how far it departs from the raw weights, beside what a random value
space would give."""

from __future__ import annotations

import numpy as np

from fluxformer.identifiability.measures import EXPERIMENT, Rows, by_length, cell, mean_over, shade, tokens_of, value_width_of
from fluxformer.report.data import Comparison, Study
from fluxformer.report.style import Drawing, canvas, legend, over, panel, style_of
from fluxformer.style import SOFT

LINES = (("correlation", "correlation with the weights"), ("row_sum", "sum of a row"))


def _by_length(comparison: Comparison, models: list[str]) -> Drawing:
    figure = canvas(5.9)
    panels = figure.subplots(len(LINES), len(models), squeeze=False, sharex=True, sharey="row")
    layers = comparison.axis("layer")
    for model, column in zip(models, panels.T):
        tokens = tokens_of(comparison, model)
        for axes, (name, title) in zip(column, LINES):
            for k, layer in enumerate(layers):
                style = shade(k, len(layers), f"layer {layer:g}")
                over(axes, tokens, mean_over(comparison.numbers(model, name)[:, :, k], 2), style, style.label)
            for k in range(len(layers)):
                axes.plot(tokens, mean_over(comparison.numbers(model, f"{name}_null")[:, :, k], 0, 2), "--", lw=1.2,
                          color=shade(k, len(layers), "").colour, alpha=0.75)
            axes.plot([], [], "--", color=SOFT, lw=1.2, label="null: random value space of the same rank, layer by layer")
            if (width := value_width_of(comparison, model)) is not None:
                axes.axvline(width, color=SOFT, lw=1, ls=":", label="n = d_v, the width of the values of a head")
            axes.set_ylim(min(0, axes.get_ylim()[0]), 1.05)
            axes.set_xlim(0, None)
            panel(axes, style_of(model).label if axes is column[0] else "", "tokens n of a sample" if axes is column[-1] else "",
                  title if axes.get_subplotspec().is_first_col() else "")
    legend(figure, *panels.ravel())
    return Drawing("effective-length", "How far the part of attention that acts departs from the weights, as samples grow",
                   "Effective attention is the part of the weights that changes the output of a head. Top: Pearson correlation of all its entries "
                   "with the raw weights. Bottom: mean sum of its rows; those of the weights have 1. Means over heads and samples; lines are "
                   "means over seeds, bands one standard deviation. Above its dashed line a layer has attention that is aligned with the space "
                   "of the values, at it the departure is a matter of sizes alone.", figure, comparison.runs)


def draw_effective(study: Study) -> list[Drawing]:
    """Draws the figure of effective attention by length; none if it was not measured."""
    comparison = study.of(EXPERIMENT)
    if comparison is None or not (models := comparison.having("correlation")):
        return []
    return [_by_length(comparison, models)]


COLUMNS = (("correlation", "correlation"), ("null", "correlation_null"), ("row sum", "row_sum"), ("null", "row_sum_null"),
           ("norm kept", "kept_norm"), ("negative", "negative_share"), ("entropy  [nat]", "entropy"), ("effective", "effective_entropy"),
           ("arg-max moves", "moved_share"), ("on frequent words", "frequent_raw"), ("effective", "frequent_effective"),
           ("on punctuation", "punctuation_raw"), ("effective", "punctuation_effective"))
SIMPLEX = {"correlation", "correlation_null", "kept_norm", "negative_share", "moved_share"}  # measures that exist for rows of sum 1, too


def effective_table(comparison: Comparison) -> Rows:
    """Rows of text, the first of them headings: raw beside effective attention, by model and length, means
    over heads and layers; below, for whole samples, the variant with rows of sum 1. Columns without a number
    (words of images) are left out."""
    if not comparison.having("correlation"):
        return []
    names: list[str] = []
    found: list[list[str]] = []
    for model in comparison.having("correlation"):
        tokens = tokens_of(comparison, model)
        for k, length in enumerate(tokens):
            names.append(f"{style_of(model).label}, n = {length:.4g}")
            found.append([cell(by_length(comparison, model, name)[:, k]) for _, name in COLUMNS])
        names.append(f"{style_of(model).label}, n = {tokens[-1]:.4g}, sums kept")
        found.append([_with_sums(comparison, model, name) for _, name in COLUMNS])
    kept = [k for k in range(len(COLUMNS)) if any(row[k] != "–" for row in found)]
    return [("model, tokens", *(COLUMNS[k][0] for k in kept)), *((name, *(row[k] for k in kept)) for name, row in zip(names, found))]


def _with_sums(comparison: Comparison, model: str, name: str) -> str:
    """Rows of the variant whose rows of attention keep their sum, for whole samples."""
    other = "correlation_simplex_null" if name == "correlation_null" else f"{name}_simplex"
    if name in SIMPLEX:
        return cell(by_length(comparison, model, other)[:, -1])
    return cell(np.ones(len(comparison.seeds))) if name == "row_sum" else "–"
