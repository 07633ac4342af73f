"""Layers left out, in the report: the loss by number of layers kept for each rule, against the best subsets and simple controls."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from fluxformer.report.data import Comparison, Study, Style, mean_and_spread, number
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, over, panel, style_of, tips
from fluxformer.style import INK, SOFT

BEST = Style("best subset", INK, "o", "-")
# Controls stand out; distances between states are green, slopes blue, and what measures the loss is violet.
RULES = {
    "influence": Style("influence", "#0f9d78", "^", "-"), "angle": Style("angle", "#34b27b", "v", "-"),
    "change": Style("relative change", "#7fc8a9", "<", "-"), "dual": Style("slope (dual)", "#c2338f", "X", "-."),
    "dual_abs": Style("size of the slope", "#2563eb", "P", "-"), "dual_mean": Style("mean of two slopes", "#60a5fa", "p", "-"),
    "taylor": Style("slopes of the weights", "#1e3a8a", "h", "-"), "removal": Style("loss without it", "#8e44ad", "D", "-"),
    "greedy": Style("greedy", "#b98acb", "d", "-"), "deepest_first": Style("deepest first", "#e4572e", "s", "--"),
    "random": Style("random", SOFT, "", ":"),
}


def _rules(comparison: Comparison) -> list[str]:
    return str(comparison.facts()["rule_names"]).split()


def _curves(comparison: Comparison, model: str, axes: Axes) -> None:
    """Means over seeds: bands of a dozen lines would hide them."""
    kept, losses = comparison.axis(f"{model}_kept"), comparison.numbers(model, "loss").mean(axis=0)
    if (best := comparison.measure(model, "best_loss")) is not None:
        over(axes, kept, best.mean(axis=0), BEST, BEST.label).set(linewidth=6, alpha=0.35, solid_capstyle="round")  # seen below the others
    for k, rule in enumerate(_rules(comparison)):
        if np.isfinite(losses[k]).all():
            over(axes, kept, losses[k], RULES[rule], RULES[rule].label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.invert_xaxis()
    panel(axes, style_of(model).label, "layers kept" if model == "transformer" else "cells kept", "loss")


def _regrets(comparison: Comparison, model: str, axes: Axes) -> None:
    """One mark for each rule, the best on top."""
    regret = comparison.numbers(model, "regret")
    known = [k for k in range(regret.shape[1]) if np.isfinite(regret[:, k]).all()]
    known.sort(key=lambda k: -regret[:, k].mean())
    for place, k in enumerate(known):
        style, values = RULES[_rules(comparison)[k]], regret[:, k]
        axes.plot([0, values.mean()], [place, place], color=style.colour, lw=2.4, alpha=0.5)
        line, = axes.plot(values, np.full(len(values), place), style.marker or "o", color=style.colour, ms=6, mec="white", ls="")
        tips(axes, line, [f"{style.label}: {number(value)}" for value in values])
    axes.set_yticks(range(len(known)), [RULES[_rules(comparison)[k]].label for k in known])
    if not known:
        axes.text(0.5, 0.5, "subsets were not tried", ha="center", transform=axes.transAxes, color=SOFT)
    panel(axes, "Above the best subsets", "loss above the best, mean over 1 to S − 1 kept", "")
    axes.grid(True, axis="x")


def draw(study: Study) -> list[Drawing]:
    """Draws the figure of layers left out; none if it was not run."""
    comparison = study.of("removal")
    if comparison is None:
        return []
    models = comparison.having("loss")
    figure = canvas(0.4 + 3.6 * len(models))
    rows = figure.subplots(len(models), 2, squeeze=False, width_ratios=(1.5, 1))
    for model, (left, right) in zip(models, rows):
        _curves(comparison, model, left)
        _regrets(comparison, model, right)
    legend(figure, *rows[:, 0])
    return [Drawing("removal", "Which layers can go",
                    "Left: mean loss of test samples and seeds against the number of layers kept, of PDE models depth cells, when they are left "
                    "out in the order of each rule. No rule can be better than the best subset; deepest first is the control that takes no "
                    "measurement. Right: the loss above that of the best subset, mean over all numbers of layers but none and all; a mark for each seed.",
                    figure, comparison.runs)]


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: the loss of the whole model, and the regret of each rule."""
    rules = _rules(comparison)

    def of_rule(k: int, model: str) -> str | None:
        values = comparison.numbers(model, "regret")[:, k]
        return mean_and_spread(values) if np.isfinite(values).all() else None

    deepest = rules.index("deepest_first")
    columns = {RULES[rule].label: lambda model, k=k: of_rule(k, model) for k, rule in enumerate(rules)}
    return comparison.table({"loss, all layers": lambda model: mean_and_spread(comparison.numbers(model, "loss")[:, deepest, -1]),
                             "one layer less": lambda model: mean_and_spread(comparison.numbers(model, "loss")[:, deepest, -2]), **columns})


SECTIONS = (Section(7, "removal", "Layers that can go", "removal", draw, table),)
