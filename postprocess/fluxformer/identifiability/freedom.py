"""How many attention weights give the same output: counts by sample length, and other weights that do as well, beside those of the model."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from fluxformer.identifiability.measures import (EXPERIMENT, MOST_WORDS, Rows, by_length, cell, grid_of, mean_over, spread_out,
                                                 tokens_of, value_width_of, words_of)
from fluxformer.report.data import Comparison, Study, Style
from fluxformer.report.style import Drawing, canvas, legend, over, panel, plt, style_of
from fluxformer.style import ACCENT, INK, SOFT, no_data

BLUE = "#2563eb"
SIGNED = plt.get_cmap("PuOr_r")  # two hues that stay apart for colour-blind readers, white at 0
# counted, what may change, colour, line width
COUNTS = (("linear", "linear: any change of a row", SOFT, 4.0), ("simplex", "simplex: changes that keep its sum", INK, 1.6))
REACHABLE = ("reachable", "soft-max reachable: changes by another query, keys fixed", ACCENT, 1.8)
DASHES = ("-.", "--", ":")  # a line for each epsilon
MAPS = (("raw", "attention"), ("effective", "effective attention"), ("alternative", "others, same output"))


def _draw_counts(axes: Axes, comparison: Comparison, model: str, counts: tuple[tuple[str, str, str, float], ...]) -> None:
    """Draws the counts by sample length, counts over epsilon thin and light, and the length beyond which
    weights are not unique."""
    tokens, epsilons = tokens_of(comparison, model), comparison.axis("epsilon")
    for name, label, colour, width in counts:
        if (values := comparison.measure(model, f"nullity_{name}")) is None or not np.isfinite(values).any():
            continue
        line = over(axes, tokens, by_length(comparison, model, f"nullity_{name}"), Style(label, colour, "o", "-"), label)
        line.set(lw=width, alpha=0.45 if width > 3 else 1)
        if (near := comparison.measure(model, f"nullity_{name}_epsilon")) is not None:
            for k, (epsilon, dashes) in enumerate(zip(epsilons, DASHES)):
                axes.plot(tokens, mean_over(near[..., k], 0, 2, 3), dashes, color=colour, lw=1.2, alpha=0.5)
                axes.plot([], [], dashes, color=SOFT, lw=1.2, label=f"singular values below {epsilon:g} of the largest as zeros")
    if not axes.lines:
        no_data(axes, "not counted")
    elif (longest := value_width_of(comparison, model)) is not None:
        axes.axvline(longest, color=BLUE, lw=1.3, ls="--", label="n = d_v, the width of the values of a head")
        if axes.get_subplotspec().is_first_row():
            axes.annotate(f" n = {longest}", (longest, 0.93), xycoords=("data", "axes fraction"), color=BLUE, fontsize=9)
    axes.set_xlim(0, None)


def _counts(comparison: Comparison, models: list[str]) -> Drawing:
    figure = canvas(5.9)
    panels = figure.subplots(2, len(models), squeeze=False, sharex=True, sharey="row", height_ratios=[1.4, 1])
    for model, (above, below) in zip(models, panels.T):
        _draw_counts(above, comparison, model, COUNTS)
        _draw_counts(below, comparison, model, (REACHABLE,))
        first = above is panels[0, 0]
        panel(above, style_of(model).label, "", "free dimensions of a row" if first else "")
        panel(below, "", "tokens n of a sample", "that soft-max can reach" if first else "")
    for left in panels[:, 0]:  # the panels of a row share their scale
        high = max(1.0, left.get_ylim()[1])
        left.set_ylim(-0.03 * high, high)
    legend(figure, *panels.ravel())
    return Drawing("freedom-counts", "In how many directions attention weights may change without a change of the output",
                   "Dimensions of freedom of one row of weights, mean over rows, heads and layers: above 0 the weights are not unique. Lines are "
                   "means over seeds, bands one standard deviation. Thin: how much freedom there is in practice, where a small change of the "
                   "output counts as none. Right of the dashed line a sample has more tokens than a head has channels.", figure, comparison.runs)


def _token_grid(axes: Axes, values: np.ndarray, grid: tuple[int, int], query: int) -> np.ndarray:
    """The row of a token as an image; outlines the token."""
    down, right = divmod(query, grid[1])
    axes.add_patch(plt.Rectangle((right - 0.5, down - 0.5), 1, 1, fill=False, ec=ACCENT, lw=1.8))
    return values[query].reshape(grid)


def _draw_map(axes: Axes, values: np.ndarray, limit: float, words: list[str], grid: tuple[int, int] | None, query: int) -> AxesImage:
    """Draws weights times the number of tokens: of one token on the grid of an image, else of all."""
    shown = _token_grid(axes, values, grid, query) if grid else values
    image = axes.imshow(shown, cmap=SIGNED, vmin=-limit, vmax=limit, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    if grid is None:
        where = axes.get_subplotspec()
        axes.set(xlabel="key token" if where.is_last_row() else "", ylabel="query token" if where.is_first_col() else "")
        if words and where.is_last_row():
            axes.set_xticks(range(len(words)), words, rotation=90, fontsize=6.5, parse_math=False)
        if words and where.is_first_col():
            axes.set_yticks(range(len(words)), words, fontsize=6.5, parse_math=False)
    return image


def variation(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Total variation between the rows of two matrices of weights, shape (rows,)."""
    return 0.5 * np.abs(one - other).sum(axis=-1)


def _alternatives(comparison: Comparison, model: str) -> Drawing:
    maps = {name: comparison.numbers(model, f"map_{name}")[0] for name, _ in MAPS}
    real = int((maps["raw"][0].sum(axis=-1) > 0.5).sum())  # rows of padding are 0
    grid, words = grid_of(comparison, real), words_of(comparison)[:MOST_WORDS]
    count = len(words) if words and grid is None else real
    layers = spread_out(len(maps["raw"]), 3 if grid else 2)
    away = variation(maps["raw"], maps["alternative"])[:, :real]
    query = int(away[layers].mean(axis=0).argmax())
    rows = [query] if grid else list(range(count))
    shown = {name: real * values[layers][:, :real if grid else count, :real if grid else count] for name, values in maps.items()}
    limit = float(np.quantile(np.abs(np.stack([values[:, rows] for values in shown.values()])), 0.985)) or 1.0
    figure = canvas(1.75 * len(layers) + 0.5 if grid else 2.6 * len(layers) + 0.8)
    figure.set_layout_engine("compressed", h_pad=0.08, w_pad=0.12)  # square pictures side by side
    panels = figure.subplots(len(layers), len(MAPS), squeeze=False)
    head = int(comparison.facts().get("map_head", 0))
    for k, (line, layer) in enumerate(zip(panels, layers)):
        for axes, (name, title) in zip(line, MAPS):
            image = _draw_map(axes, shown[name][k], limit, words, grid, query)
            lines = [title] if k == 0 else []
            if name == "alternative":
                lines.append(f"TV {away[layer, query] if grid else away[layer].mean():.2f}")
            axes.set_title("\n".join(lines), loc="center", fontsize=10)
        line[0].annotate(f"layer {layer + 1}", (0, 0.5), xycoords="axes fraction", xytext=(-10 if grid else -62 if words else -28, 0),
                         textcoords="offset points", ha="right", va="center", fontweight="bold", color=style_of(model).colour)
    figure.colorbar(image, ax=panels, label="weight × n  (1: uniform)", aspect=30, pad=0.02, extend="both")
    what = (f"Where token {query + 1} (outlined) looks, on the grid of the image" if grid else "Rows look at columns"
            + (f"; the first {count} of {real} tokens" if count < real else ""))
    error = float(np.nanmax(comparison.numbers(model, "alternative_error")[0, :, head]))
    return Drawing(f"freedom-maps-{model}", f"{style_of(model).label}: attention, the part of it that acts, and other weights with the same output",
                   f"{what}. Head {head} of the first sample, seed {comparison.seeds[0]}. The others on the right are non-negative, have rows of sum "
                   f"1, and change the output by less than {_bound(error)} of its largest number; TV: total variation from the attention of the "
                   f"model, {away.mean():.2f} in the mean over rows and layers (1: nothing in common). Effective attention may be negative.",
                   figure, comparison.runs)


def _bound(error: float) -> str:
    """The next power of ten above a number, as text: "10⁻¹⁵"."""
    power = int(np.floor(np.log10(error))) + 1 if error > 0 else -16
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def draw_freedom(study: Study) -> list[Drawing]:
    """Draws the counts by length, and the maps of each model; none if weights were not measured."""
    comparison = study.of(EXPERIMENT)
    if comparison is None or not (models := comparison.having("nullity_linear")):
        return []
    return [_counts(comparison, models), *(_alternatives(comparison, model) for model in comparison.having("map_alternative"))]


def freedom_table(comparison: Comparison) -> Rows:
    """Rows of text, the first of them headings: counts side by side, by model and length, with what each lets
    vary; means over rows, heads and layers."""
    if not comparison.having("nullity_linear"):
        return []
    rows: Rows = [("model, tokens", "linear: any change of a row", "simplex: its sum is kept", "soft-max reachable: another query",
                   "joint: all queries and keys of the first sample", "all heads together beyond their sum: linear", "the same: simplex",
                   "uncertain ranks  [%]", "TV to others, first sample")]
    for model in comparison.having("nullity_linear"):
        tokens = tokens_of(comparison, model)
        for k, length in enumerate(tokens):
            whole = k + 1 == len(tokens)  # what is measured of whole samples alone
            first = [mean_over(comparison.numbers(model, name), 1, 2) if whole else None for name in ("nullity_joint", "alternative_distance")]
            count = [by_length(comparison, model, name)[:, k] for name in ("nullity_linear", "nullity_simplex", "nullity_reachable",
                                                                           "excess_linear", "excess_simplex", "uncertain")]
            rows.append((f"{style_of(model).label}, n = {length:.4g}", *map(cell, (*count[:3], first[0], *count[3:5], 100 * count[5], first[1]))))
    return rows
