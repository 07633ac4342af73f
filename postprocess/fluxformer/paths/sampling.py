"""Draws from the posterior of networks of attention paths: what they predict, how far the theory is from them, and whether their chains
agree."""

from __future__ import annotations

import numpy as np

from fluxformer.paths.shared import SIGNED, THEORY, across, finite, lines_of
from fluxformer.report.data import MODELS, Comparison, Study, mean_and_spread
from fluxformer.report.style import Drawing, canvas, legend, over, panel
from fluxformer.style import ACCENT, INK, SOFT

EXPERIMENT = "paths_sample"
SAMPLERS = ("wishart", "hmc")
SHOWN = (0, 1, 2)  # quantities whose chains are drawn: u_a, tr U_1, E


def samplers_of(comparison: Comparison) -> list[str]:
    """The samplers that the files have."""
    return [one for one in SAMPLERS if one in comparison.having("trace")]


def _sampled(comparison: Comparison, sampler: str) -> np.ndarray:
    """Places of the widths that were sampled."""
    return np.flatnonzero(np.isfinite(comparison.numbers(sampler, "accuracy")).all(axis=(0, 1)))


def _agreement(comparison: Comparison) -> Drawing:
    """Draws the agreement with the theory at the first temperature."""
    widths = comparison.axis("width")
    paths = len(comparison.axis("path"))
    figure = canvas(3.9)
    left, middle, right = figure.subplots(1, 3)
    for axes in (left, middle, right):
        axes.set_xscale("log")
    for axes in (middle, right):
        axes.set_yscale("log")
    accuracy = 100 * comparison.numbers("theory", "accuracy")[:, 0]
    over(left, finite(comparison), accuracy[:, :-1], THEORY, THEORY.label)
    across(left, accuracy[:, -1], ACCENT, "--", "Gaussian process (infinite width)")
    for sampler in samplers_of(comparison):
        style, at = MODELS[sampler], _sampled(comparison, sampler)
        mean = 100 * comparison.numbers(sampler, "accuracy")[:, 0, at]
        left.errorbar(widths[at], mean.mean(axis=0), mean.std(axis=0, ddof=1) if len(mean) > 1 else None, color=style.colour, marker=style.marker,
                      ms=7, mfc="none", mew=1.6, ls="", capsize=3, label=style.label)
        for axes, name in ((middle, "order_difference"), (right, "mean_difference")):
            over(axes, widths[at], comparison.numbers(sampler, name)[:, 0, at], style._replace(line="-"), style.label)
        error = comparison.numbers(sampler, "order_error")[:, 0, at]
        if np.isfinite(error).all():
            middle.plot(widths[at], error.mean(axis=0), color=style.colour, ls=":", lw=1.4)
    bound = widths[_sampled(comparison, samplers_of(comparison)[0])]
    middle.plot(bound, paths / (2 * bound), color=SOFT, ls="--", lw=1.4, label="half the paths over the width")
    limit = comparison.numbers(samplers_of(comparison)[0], "limit_difference")[:, 0, _sampled(comparison, samplers_of(comparison)[0])]
    right.plot(bound, limit.mean(axis=0), color=ACCENT, ls="--", lw=1.4, label="of the Gaussian process")
    panel(left, "accuracy", "width N", "test accuracy  [%]")
    panel(middle, "order parameters", "width N", "distance of the theory's U, over U")
    panel(right, "predictor", "width N", "mean distance of the theory's")
    legend(figure, left, middle, right)
    return Drawing("paths-agreement", "Theory and draws from the posterior",
                   "Left: accuracy of the mean predictor; bars and bands are one standard deviation over seeds. Middle: Frobenius distance between "
                   "the theory's order parameters and the mean of the draws, and, dotted, the Monte-Carlo error of that mean: the theory's error "
                   "falls as the number of paths over the width. Right: mean distance of the predictors on test examples, whose targets are ±1.",
                   figure, comparison.runs)


def _chains(comparison: Comparison) -> Drawing:
    """Draws the chains of the first seed at the smallest width that was sampled."""
    names, samplers = lines_of(comparison, "quantities"), samplers_of(comparison)
    figure = canvas(1.9 * len(SHOWN) + 0.6)
    grid = figure.subplots(len(SHOWN), len(samplers), squeeze=False, sharex=True, sharey="row")
    for column, sampler in enumerate(samplers):
        at = _sampled(comparison, sampler)[0]
        trace = comparison.numbers(sampler, "trace")[0, 0, at]  # [chain, quantity, draw]
        r_hat, effective = (comparison.numbers(sampler, name)[0, 0, at] for name in ("r_hat", "effective_draws"))
        for row, quantity in enumerate(SHOWN):
            axes = grid[row, column]
            for k, chain in enumerate(trace[:, quantity]):
                axes.plot(comparison.axis("draw"), chain, lw=0.6, color=(INK, "#e4572e", "#2563eb", "#0f9d78")[k % 4], alpha=0.75)
            title = f"split R̂ {r_hat[quantity]:.3f}, {effective[quantity]:.0f} effective draws of {trace.shape[0] * trace.shape[2]}"
            panel(axes, f"{MODELS[sampler].label}, N = {comparison.axis('width')[at]:g}\n{title}" if row == 0 else title,
                  "draw" if row == len(SHOWN) - 1 else "", names[quantity] if column == 0 else "")
    return Drawing("paths-chains", "Chains of the posterior",
                   f"Quantities that do not depend on the rotations weights are free in, along {trace.shape[0]} chain(s) in colours, for the first seed. "
                   "Split R̂ near 1: the chains have forgotten where they began. E is what the data cost under the kernel of the drawn "
                   "order parameters.", figure, comparison.runs)


def _orders(comparison: Comparison) -> Drawing:
    """Draws order parameters at the smallest width that was sampled."""
    samplers, names = samplers_of(comparison), lines_of(comparison, "path_names")
    at = _sampled(comparison, samplers[0])[0]
    groups = [("theory", "theory"), *((one, MODELS[one].label) for one in samplers if at in _sampled(comparison, one))]
    orders = [comparison.numbers(group, "order")[:, 0, at, 0].mean(axis=0) for group, _ in groups]
    largest = max(np.abs(order).max() for order in orders)
    few = len(names) <= 4
    figure = canvas(3.4)
    panels = figure.subplots(1, len(groups), squeeze=False)[0]
    for axes, (_, label), order in zip(panels, groups, orders):
        image = axes.imshow(order, cmap=SIGNED, vmin=-largest, vmax=largest, interpolation="nearest")
        panel(axes, label, "" if few else "path", "")
        axes.grid(False)
        axes.set_xticks(range(len(names)) if few else (), names if few else (), fontsize=8, rotation=40, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(names)) if few else (), (names if axes is panels[0] else [""] * len(names)) if few else (), fontsize=8)
        for (i, j), value in np.ndenumerate(order if few else np.empty((0, 0))):
            axes.text(j, i, f"{value:.2f}".replace("-", "−"), ha="center", va="center", fontsize=8,
                      color="white" if abs(value) > 0.6 * largest else INK)
    figure.colorbar(image, ax=list(panels), label="U", shrink=0.85)
    return Drawing("paths-sampled-order", "Order parameters of the theory and of draws",
                   f"Order parameters U between paths at N = {comparison.axis('width')[at]:g}, T = {comparison.axis('temperature')[0]:g}; means over "
                   f"{len(comparison.seeds)} seed(s).", figure, comparison.runs)


def draw(study: Study) -> list[Drawing]:
    """Draws agreement with the theory, chains and order parameters; none without a file of `paths_sample`."""
    comparison = study.of(EXPERIMENT)
    if comparison is None or not samplers_of(comparison):
        return []
    return [_agreement(comparison), _orders(comparison), _chains(comparison)]


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: measures by sampler and width, at the first temperature."""
    heads = ("sampler", "N", "accuracy", "theory", "distance of U", "Monte-Carlo error", "distance of the predictor", "largest split R̂")
    rows: list[tuple[str, ...]] = [heads]
    for sampler in samplers_of(comparison):
        for at in _sampled(comparison, sampler):
            def told(name: str, factor: float = 1, group: str = sampler) -> str:
                return mean_and_spread(factor * comparison.numbers(group, name)[:, 0, at])
            rows.append((MODELS[sampler].label, f"{comparison.axis('width')[at]:g}", told("accuracy", 100), told("accuracy", 100, "theory"),
                         told("order_difference"), told("order_error"), told("mean_difference"),
                         f"{comparison.numbers(sampler, 'r_hat')[:, 0, at].max():.3f}"))
    return rows
