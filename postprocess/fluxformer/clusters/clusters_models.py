"""Clusters among the tokens of trained models: soft numbers by depth beside their nulls, cosines, and the hypotheses of theory head by head."""

from __future__ import annotations

import numpy as np

from fluxformer.report.data import Comparison, Study, mean_and_spread
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, over, panel, style_of
from fluxformer.style import SOFT

EXPERIMENT = "clusters_models"
CENTRED = 1  # index of the axis centring


def _shown(comparison: Comparison) -> int:
    """The index of the beta that is drawn: the one nearest to 8."""
    return int(np.abs(np.log(np.maximum(comparison.axis("beta"), 1e-6) / 8)).argmin())


def _by_depth(comparison: Comparison) -> Drawing:
    at = _shown(comparison)
    figure = canvas(3.8)
    numbers, cosines = figure.subplots(1, 2)
    for model in comparison.having("number_2"):
        style, depth = style_of(model), comparison.depth(model)
        over(numbers, depth, comparison.numbers(model, "number_2")[:, :, CENTRED, at], style, style.label)
        for name, line, label in (("number_2_normal", "--", "null: normal tokens"), ("number_2_untrained", ":", "null: untrained")):
            over(numbers, depth, comparison.numbers(model, name)[:, :, CENTRED, at], style._replace(line=line), f"{style.label}, {label}", markers=False,
                 alpha=0.7)
        over(cosines, depth, comparison.numbers(model, "cosine_within")[:, :, 0], style, f"{style.label}, within a sample")
        over(cosines, depth, comparison.numbers(model, "cosine_between")[:, :, 0], style._replace(line="--"), f"{style.label}, between samples",
             markers=False)
    numbers.set_yscale("log")
    numbers.yaxis.set_major_formatter("{x:g}")
    cosines.axhline(0, color=SOFT, lw=0.8)
    panel(numbers, f"Soft number of clusters, β = {comparison.axis('beta')[at]:g}", "depth s  [layers]", "N₂ of centred tokens")
    panel(cosines, "Do tokens point the same way?", "depth s  [layers]", "mean cosine of two tokens")
    legend(figure, numbers, cosines)
    return Drawing("clusters-models", "Do the tokens of trained models cluster with depth?",
                   "Left: N₂ of the tokens of a sample, as points on the sphere, less the mean of all tokens at that depth. Normal tokens have its mean "
                   "and covariance: below them tokens cluster beyond what these say. Right: tokens as they are. Lines are means over seeds, bands one "
                   "standard deviation.", figure, comparison.runs)


def _hypotheses(comparison: Comparison) -> Drawing:
    figure = canvas(3.6)
    left, right = figure.subplots(1, 2)
    for model in comparison.having("value_mismatch"):
        style = style_of(model)
        names = ("antisymmetry", "value_mismatch", "least_eigenvalue", "value_scale")
        antisymmetry, mismatch, least, scale = (comparison.numbers(model, name).ravel() for name in names)
        left.plot(antisymmetry, mismatch, color=style.colour, marker="o", ms=4, ls="", alpha=0.6, label=style.label)
        right.plot(least, np.sign(scale) * np.sqrt(np.maximum(0, 1 - mismatch**2)), color=style.colour, marker="o", ms=4, ls="", alpha=0.6)
    left.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.04))
    left.plot([0], [0], color=SOFT, marker="*", ms=13, ls="", label="theory")
    right.plot([0], [1], color=SOFT, marker="*", ms=13, ls="")
    right.set_ylim(-1.05, 1.05)
    panel(left, "Heads: one symmetric matrix?", "antisymmetry of W_QᵀW_K", "mismatch of W_O W_V")
    panel(right, "Heads: semi-definite, aligned values?", "least eigenvalue over the largest in size", "cosine of W_O W_V and W_QᵀW_K")
    legend(figure, left, right)
    return Drawing("clusters-heads", "Do heads satisfy the hypotheses of cluster theory?",
                   "One dot for each head, layer and seed. Theory, in which the energy of tokens never falls, has W_O W_V = s W_QᵀW_K with s > 0, symmetric "
                   "and positive semi-definite: the star.", figure, comparison.runs)


def draw(study: Study) -> list[Drawing]:
    """Draws numbers and cosines by depth, and the heads; none without a file of `clusters_models`."""
    comparison = study.of(EXPERIMENT)
    return [] if comparison is None else [_by_depth(comparison), _hypotheses(comparison)]


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: for each model N_2 of centred tokens first and last with nulls, escape, and in how many
    cells it falls."""
    at = _shown(comparison)
    rows: list[tuple[str, ...]] = [("model", "N₂, embedded", "N₂, last", "normal tokens", "untrained", "escape", "untrained", "depth cells in which N₂ falls")]
    for model in comparison.having("number_2"):
        number, normal, fresh = (comparison.numbers(model, name)[:, :, CENTRED, at] for name in ("number_2", "number_2_normal", "number_2_untrained"))
        escape, escape_fresh = (comparison.numbers(model, name)[:, CENTRED, at] for name in ("escape", "escape_untrained"))
        falls = (np.diff(number, axis=1) < 0).sum(axis=1)
        rows.append((style_of(model).label, *map(mean_and_spread, (number[:, 0], number[:, -1], normal[:, -1], fresh[:, -1], escape, escape_fresh)),
                     f"{falls.mean():.3g} of {number.shape[1] - 1}"))
    return rows


SECTIONS = (Section(22, "clusters-models", "Do the tokens of trained models cluster?", EXPERIMENT, draw, table),)
