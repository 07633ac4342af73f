"""The figure of all families at once: differences between models trait by trait, and which traits go together."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from fluxformer.report.data import MODELS, number
from fluxformer.report.style import Drawing, canvas, legend, plt, tips
from fluxformer.report.together import DataSet, Pair, Together
from fluxformer.style import INK, SOFT

SIGNED = plt.get_cmap("PuOr_r")  # two hues that stay apart for colour-blind readers, white at 0
MOST = 12.0  # standard deviations that are drawn; what lies farther away has an arrow


def _shown(together: Together) -> float:
    """The number of standard deviations to either side of 0 that all panels show."""
    means = [abs(one.in_deviations[0]) for data in together.sets for one in data.differences if one.first == data.models[0]]
    return min(MOST, 1.5 * max((one for one in means if math.isfinite(one)), default=2.0) + 0.5)


def _differences(axes: Axes, together: Together, data: DataSet, shown: float) -> None:
    """Draws a row for each trait, a marker with its interval for each model but the reference: filled where
    it differs."""
    others = data.models[1:]
    step = 0.5 / max(len(others), 1)
    for one in data.differences:
        mean, low, high = one.in_deviations
        if one.first != data.models[0] or not math.isfinite(mean):
            continue
        style = MODELS[one.second]
        row = together.names.index(one.column.trait.name) + step * (others.index(one.second) - (len(others) - 1) / 2)
        if math.isfinite(low):
            axes.plot(np.clip([low, high], -shown, shown), [row, row], "-", color=style.colour, lw=1.6, solid_capstyle="butt")
            for end, mark, beyond in ((-shown, "<", low < -shown), (shown, ">", high > shown)):
                if beyond:
                    axes.plot([end], [row], mark, color=style.colour, ms=4, clip_on=False)
        line, = axes.plot([np.clip(mean, -shown, shown)], [row], style.marker, color=style.colour, ms=7, mew=1.4,
                          mfc=style.colour if one.found else "white", zorder=3, clip_on=False)
        if abs(mean) > shown:  # the marker at the edge hides the arrow: the number beside it
            axes.annotate(number(mean), (math.copysign(shown, mean), row), (math.copysign(7, -mean), 0), textcoords="offset points",
                          ha="right" if mean > 0 else "left", va="center", fontsize=8, color=style.colour)
        tips(axes, line, [f"{one.column.trait.name}, {style.label} minus {MODELS[one.first].label}: {number(mean)} "
                          f"[{number(low)}, {number(high)}] standard deviations"])
    axes.axvline(0, color=SOFT, lw=1)
    for k, name in enumerate(together.names):
        if name in data.missing:
            axes.text(0, k, "not measured", ha="center", va="center", fontsize=8, color=SOFT, bbox={"fc": "white", "ec": "none", "pad": 1})
    axes.set(xlim=(-shown, shown), ylim=(len(together.names) - 0.5, -0.5))
    axes.set_title(data.study.name.replace(", ", ",\n", 1), fontsize=10.5)
    axes.set_yticks(range(len(together.names)), [f"{name}  {k}" for k, name in enumerate(together.names, 1)])
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x")
    axes.set_axisbelow(True)
    for k in range(0, len(together.names), 2):
        axes.axhspan(k - 0.5, k + 0.5, color="#f6f8fa", lw=0, zorder=0)


def _cell(axes: Axes, row: int, column: int, pair: Pair) -> None:
    """Draws r with its colour; framed and bold where it is told from 0."""
    r = pair.correlation.r
    if not math.isfinite(r):
        axes.text(column, row, "–", ha="center", va="center", color=SOFT)
        return
    axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fc=SIGNED(0.5 + r / 2), ec="white", lw=1))
    if pair.found:
        axes.add_patch(Rectangle((column - 0.45, row - 0.45), 0.9, 0.9, fill=False, ec=INK, lw=1.6, zorder=3))
    axes.text(column, row, f"{r:.2f}".replace("-", "−"), ha="center", va="center", fontsize=8, fontweight="bold" if pair.found else "normal",
              color="white" if abs(r) > 0.65 else INK)


def _matrix(axes: Axes, together: Together) -> None:
    """Draws the correlations: within models in the lower triangle, with the differences between them in the upper one."""
    names = together.names
    for pairs, flip in ((together.within, False), (together.between, True)):
        for pair in pairs:
            places = sorted((names.index(pair.first), names.index(pair.second)))
            row, column = places if flip else places[::-1]
            _cell(axes, row, column, pair)
    for k in range(len(names)):
        axes.add_patch(Rectangle((k - 0.5, k - 0.5), 1, 1, fc="#e5e7eb", ec="white", lw=1))
        axes.text(k, k, f"{k + 1}", ha="center", va="center", fontsize=8.5, color=SOFT)
    axes.set(xlim=(-0.5, len(names) - 0.5), ylim=(len(names) - 0.5, -0.5))
    axes.set_title("which traits go together: r", fontsize=10.5)
    axes.set_xticks(range(len(names)), [f"{k}  {name}" for k, name in enumerate(names, 1)], rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), [f"{k}" for k in range(1, len(names) + 1)])
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)


def draw(together: Together) -> Drawing:
    """Draws a panel of differences for each data set on the left, the correlations on the right."""
    sets, names = together.sets, together.names
    figure = canvas(0.46 * len(names) + 2.1)
    *panels, right = figure.subplots(1, len(sets) + 1, width_ratios=[*[1.0] * len(sets), max(1.3, 0.55 * (len(sets) + 1))])
    shown = _shown(together)
    for axes, data in zip(panels, sets):
        _differences(axes, together, data, shown)
        if axes is not panels[0]:
            axes.tick_params(labelleft=False)
        axes.set_xlabel(f"minus {MODELS[data.models[0]].label}\n[deviations]")
    _matrix(right, together)
    for model in together.traits.models:
        if any(one.second == model and one.first == data.models[0] for data in sets for one in data.differences):
            style = MODELS[model]
            panels[0].plot([], [], style.marker, ls="-", color=style.colour, ms=7, label=style.label)
    legend(figure, panels[0])
    runs = list(dict.fromkeys(run for data in sets for one in data.columns for run in data.study.comparisons[one.trait.claim.experiment].runs))
    return Drawing("together", "Differences in all families at once, and what goes together",
                   "Left: difference of each model from the first, paired over seeds, in standard deviations over seeds of that trait (pooled "
                   "over the models), with the interval of its verdict; filled: told from 0, all models and traits of a data set judged "
                   "together; an arrow: goes on. Right: correlations over seeds on all data sets; lower left within models (means of each "
                   "model removed), upper right with the differences between models; framed: told from 0, all pairs judged together.",
                   figure, runs)
