"""The origin of hidden tokens (Hidden Token Attribution): by depth and distance, on one sample, and beside
other accounts of what matters."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from fluxformer.identifiability.measures import EXPERIMENT, MOST_WORDS, Rows, cell, grid_of, group_names, mean_over, shade, spread_out, words_of
from fluxformer.report.data import Comparison, Study
from fluxformer.report.style import HEAT, Drawing, canvas, legend, name_row, over, panel, plt, style_of
from fluxformer.style import ACCENT, INK

LARGEST = 3  # contributors that are marked
Pictures = tuple[Figure, AxesImage, np.ndarray]


def _hidden_token(comparison: Comparison, models: list[str], real: int) -> int:
    """The token of the first sample whose blanking changes the output of the first model most; the middle one
    if none was blanked."""
    change = comparison.measure(models[0], "blanked_change")
    known = change is not None and np.isfinite(change[0, :real]).any()
    return int(np.nanargmax(change[0, :real])) if change is not None and known else real // 2


def _outline(axes: Axes, row: float, column: float, rows: int = 1) -> None:
    axes.add_patch(plt.Rectangle((column - 0.5, row - 0.5), 1, rows, fill=False, ec=ACCENT, lw=1.8, clip_on=False))


def _mark(axes: Axes, row: int, column: int, text: str) -> None:
    axes.text(column, row, text, ha="center", va="center", fontsize=7, color="white", fontweight="bold",
              bbox={"boxstyle": "circle,pad=0.12", "fc": INK, "ec": "none", "alpha": 0.75})


def _others(row: np.ndarray, token: int) -> np.ndarray:
    """The largest contributors besides the token itself, largest first."""
    order = np.argsort(-row, kind="stable")
    return order[(order != token) & (row[order] > 0)][:LARGEST]


def _grids(comparison: Comparison, shown: dict[str, np.ndarray], grid: tuple[int, int], token: int, limit: float) -> Pictures:
    columns = spread_out(len(comparison.at_transformer_depths(next(iter(shown)))), 6)
    side = min(1.7, 9.0 / len(columns))
    figure = canvas(side * len(shown) + 0.45)
    figure.set_layout_engine("compressed", h_pad=0.08, w_pad=0.08)  # square pictures side by side
    panels = figure.subplots(len(shown), len(columns), squeeze=False)
    for line, (model, values) in zip(panels, shown.items()):
        for axes, column in zip(line, columns):
            place = comparison.at_transformer_depths(model)[column]
            image = axes.imshow(values[place].reshape(grid), cmap=HEAT, vmin=0, vmax=limit, interpolation="nearest")
            _outline(axes, *divmod(token, grid[1]))
            for k, other in enumerate(_others(values[place], token)):
                _mark(axes, *divmod(int(other), grid[1]), f"{k + 1}")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            axes.set_title((f"s = {comparison.depth(model)[place]:g}, " if axes in panels[0] else "") + f"own {100 * values[place, token]:.0f} %",
                           loc="center", fontsize=9.5)
        name_row(line[0], model)
    return figure, image, panels


def _lines(comparison: Comparison, shown: dict[str, np.ndarray], words: list[str], token: int, first: int, limit: float) -> Pictures:
    depths = {model: [comparison.at_transformer_depths(model)[k] for k in spread_out(len(comparison.at_transformer_depths(model)), 9)]
              for model in shown}
    figure = canvas(sum(0.27 * len(places) + 0.35 for places in depths.values()) + 1.3)
    panels = figure.subplots(len(shown), 1, squeeze=False, sharex=True, height_ratios=[len(places) for places in depths.values()])
    for axes, (model, values) in zip(panels[:, 0], shown.items()):
        part = values[depths[model]][:, first:first + len(words)]
        image = axes.imshow(part, cmap=HEAT, vmin=0, vmax=limit, aspect="auto", interpolation="nearest")
        _outline(axes, 0, token - first, len(part))
        for row, place in enumerate(depths[model]):
            for k, other in enumerate(_others(values[place], token)):
                if first <= other < first + len(words):
                    _mark(axes, row, int(other) - first, f"{k + 1}")
        axes.set_yticks(range(len(part)), [f"{comparison.depth(model)[place]:g}" for place in depths[model]])
        axes.set_title(style_of(model).label, fontsize=10.5, color=style_of(model).colour)
        axes.set_ylabel("depth s  [layers]")
        axes.tick_params(length=0)
    panels[-1, 0].set_xticks(range(len(words)), words, rotation=90 if len(words) > 12 else 0, fontsize=8.5, parse_math=False)
    panels[-1, 0].set_xlabel("input token")
    return figure, image, panels


def contribution_maps(comparison: Comparison, models: list[str]) -> Drawing:
    """Draws of which input tokens one hidden token of the first sample is made, by model and depth."""
    maps = {model: comparison.numbers(model, "contribution_map")[0] for model in models}
    real = int((maps[models[0]][0].sum(axis=0) > 0.5).sum())  # columns of padding are 0
    token = _hidden_token(comparison, models, real)
    shown = {model: values[:, :real, token] for model, values in maps.items()}
    others = np.concatenate([np.delete(values, token, axis=1)[1:].ravel() for values in shown.values()])
    limit = float(others.max()) if others.size and others.max() > 0 else 1.0
    grid, words = grid_of(comparison, real), words_of(comparison)[:real]
    if grid:
        figure, image, panels = _grids(comparison, shown, grid, token, limit)
        where = f"token {token + 1} (outlined)"
    else:
        first = int(np.clip(token - MOST_WORDS // 2, 0, max(real - MOST_WORDS, 0)))
        labels = (words if len(words) == real else [str(k + 1) for k in range(real)])[first:first + MOST_WORDS]
        figure, image, panels = _lines(comparison, shown, labels, token, first, limit)
        where = (f"“{words[token]}” " if len(words) == real else "") + f"(outlined; token {token + 1} of {real}" + (
            f", of which {len(labels)} are shown)" if len(labels) < real else ")")
    figure.colorbar(image, ax=panels, label="contribution", aspect=30, pad=0.01, extend="max")
    return Drawing("attribution-map", "Of which input tokens one hidden token is made",
                   f"Contributions to {where} of the first sample, seed {comparison.seeds[0]}: the token whose blanking changes the output most. The "
                   f"scale ends at the largest contribution of another token; 1, 2, 3: the largest ones of other tokens.", figure, comparison.runs)


ACCOUNTS = {"raw": "attention", "effective": "effective attention", "norm_based": "norms of weighted values", "rollout": "rollout",
            "flow": "attention flow", "contributions": "Hidden Token Attribution"}
EFFECTS = {"": "change of the output", "_drop": "fall of the largest logit"}
CONTROL = "control: how far the blanked token moves"
SIGNED = plt.get_cmap("PuOr_r")


def _by_depth(comparison: Comparison, models: list[str]) -> Drawing:
    figure = canvas(3.8)
    own, largest, half = figure.subplots(1, 3)
    for model in models:
        style, depth = style_of(model), comparison.depth(model)
        lower, upper = (mean_over(comparison.numbers(model, f"own_share_{name}"), 0) for name in ("lower", "upper"))
        own.fill_between(depth, lower, upper, color=style.colour, alpha=0.12, lw=0)
        own.plot(depth, mean_over(comparison.numbers(model, "own_share_median"), 0), ":", color=style.colour, lw=1.3)
        over(own, depth, comparison.numbers(model, "own_share"), style, style.label)
        over(largest, depth, comparison.numbers(model, "own_largest"), style, style.label)
        over(half, depth, comparison.numbers(model, "half_distance"), style, style.label)
    for axes in (own, largest):
        axes.set_ylim(0, 1.04)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    half.set_ylim(0, None)
    panel(own, "From its own input token", "depth s  [layers]", "share of a hidden token")
    panel(largest, "Own token contributes most", "depth s  [layers]", "share of the hidden tokens")
    panel(half, "Distance of half of it", "depth s  [layers]", "distance  [tokens]")
    legend(figure, own)
    return Drawing("attribution-depth", "How much of a hidden token comes from its own input, and from how far the rest",
                   "Contributions are norms of the blocks of the Jacobian of hidden tokens with respect to embedded ones, over their sum. Left: "
                   "mean over tokens, wide band: from the lower to the upper quartile of the tokens, dotted: their median. Right: distance within "
                   "which tokens contribute half of all (steps on the grid of an image). Narrow bands: one standard deviation over seeds.",
                   figure, comparison.runs)


def _by_distance(comparison: Comparison, models: list[str]) -> Drawing:
    names = group_names(comparison)
    kinds = (("contribution_by_distance", "all tokens at a distance", "linear"), ("contribution_by_pair", "one token at a distance", "log"))
    figure = canvas(5.9)
    panels = figure.subplots(len(kinds), len(models), squeeze=False, sharey="row")
    for model, column in zip(models, panels.T):
        depth = comparison.depth(model)
        places = [comparison.at_transformer_depths(model)[k] for k in spread_out(len(comparison.at_transformer_depths(model)), 6)][1:]
        for axes, (name, title, scale) in zip(column, kinds):
            values = comparison.numbers(model, name)
            values = np.where(values > 0, values, np.nan) if scale == "log" else values
            axes.set_yscale(scale)
            for k, place in enumerate(places):
                style = shade(k, len(places), f"s = {depth[place]:g}")
                over(axes, np.arange(len(names)), values[:, place], style, style.label)
            panel(axes, f"{style_of(model).label}:\n{title}", "distance in tokens" if axes is column[-1] else "",
                  "contribution" if axes.get_subplotspec().is_first_col() else "")
            axes.set_xticks(range(len(names)), names)
    panels[0, 0].set_ylim(0, None)  # the panels of a row share their scale
    legend(figure, *panels.ravel())
    return Drawing("attribution-distance", "From how far hidden tokens come",
                   "Contribution to a hidden token at the ends of layers, by distance of the input token (0: its own). Top: of all tokens of a group, "
                   "which grows with their number. Bottom: of one token, mean over those at the distance: flat where mixing does not mind "
                   "distance. Lines are means over seeds, bands one standard deviation.", figure, comparison.runs)


def agreements(comparison: Comparison, model: str, factor: str, effect: str = "") -> dict[str, np.ndarray]:
    """Rank correlations of the measured accounts with the effect of blanking tokens.

    Parameters
    ----------
    factor : str
        "" for the plain accounts, "_times_moved" for accounts times the control.
    effect : str
        A key of EFFECTS.

    Returns
    -------
    dict of ndarray, shape (seeds, layers)
        Rank correlations by the names of ACCOUNTS.
    """
    found = {name: comparison.measure(model, f"agreement_{name}{effect}{factor}") for name in ACCOUNTS}
    return {name: values for name, values in found.items() if values is not None and np.isfinite(values).any()}


def _draw_agreement(axes: Axes, comparison: Comparison, model: str, factor: str) -> AxesImage:
    """Draws the accounts by layer as a heat map with numbers, the control below; bold: more than the control
    and than 0."""
    found = agreements(comparison, model, factor)
    layers = len(comparison.axis("layer"))
    control = float(mean_over(comparison.numbers(model, "agreement_moved"), 0))
    numbers = np.stack([*(mean_over(values, 0) for values in found.values()), np.full(layers, control)])
    image = axes.imshow(numbers, cmap=SIGNED, vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    for (row, layer), value in np.ndenumerate(numbers[:-1]):
        if np.isfinite(value):
            axes.text(layer, row, f"{value:.2f}".replace("-", "−"), ha="center", va="center", fontsize=8.5 if layers <= 8 else 6.5,
                      color="white" if abs(value) > 0.75 else "black", fontweight="bold" if value > max(control, 0) else "normal")
    axes.text((layers - 1) / 2, len(found), f"{control:.2f}".replace("-", "−"), ha="center", va="center", fontsize=8.5,
              color="white" if abs(control) > 0.75 else "black")
    axes.axhline(len(found) - 0.5, color="white", lw=4)
    axes.set_yticks(range(len(found) + 1), [*(ACCOUNTS[name] for name in found), CONTROL])
    axes.set_xticks(range(layers), [f"{one:g}" for one in comparison.axis("layer")])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return image


def _agreement(comparison: Comparison, models: list[str]) -> Drawing:
    count = max(len(agreements(comparison, model, "")) for model in models) + 1
    figure = canvas(0.31 * count * len(models) + 0.45 * len(models) + 0.5)
    panels = figure.subplots(len(models), 2, squeeze=False, sharey="row")
    for model, line in zip(models, panels):
        for axes, factor, title in zip(line, ("", "_times_moved"), ("alone", "times the control")):
            image = _draw_agreement(axes, comparison, model, factor)
            axes.set_title(f"{style_of(model).label}, {title}", fontsize=10.5, color=style_of(model).colour)
            axes.set(xlabel="layer" if model == models[-1] else "", ylabel="account" if axes is line[0] else "")
            axes.tick_params(labelbottom=model == models[-1])
    figure.colorbar(image, ax=panels, label="Spearman correlation", aspect=30, pad=0.01)
    return Drawing("attribution-agreement", "Which account of what matters agrees with what happens when a token is taken away",
                   "Spearman correlation over the tokens of a sample of each account, at each layer, with the change of the output when the token is "
                   "blanked; means over samples and seeds. Control: how far the blanked token moves. Bold: more than the control and than 0. "
                   "A table gives the spread over seeds and the fall of the largest logit.", figure, comparison.runs)


def draw_attribution(study: Study) -> list[Drawing]:
    """Draws contributions by depth and distance, on one sample, and the agreement of accounts; none if they
    were not measured."""
    comparison = study.of(EXPERIMENT)
    if comparison is None or not (models := comparison.having("own_share")):
        return []
    drawings = [_by_depth(comparison, models), _by_distance(comparison, models)]
    if any(agreements(comparison, model, "") for model in models):
        drawings.append(_agreement(comparison, models))
    if mapped := comparison.having("contribution_map"):
        drawings.append(contribution_maps(comparison, mapped))
    return drawings


def attribution_table(comparison: Comparison) -> Rows:
    """Rows of text, the first of them headings: rank correlations of the accounts by model and effect, in the
    first, best and last layer, and in the last times the control; the control."""
    models = comparison.having("agreement_moved")
    if not models:
        return []
    rows: Rows = [("model: account", "first layer", "best layer", "last layer", "last layer × change",
                   *(f"{heading}, logit" for heading in ("first layer", "best layer", "last layer", "last layer × change")))]
    for model in models:
        found = [(agreements(comparison, model, "", effect), agreements(comparison, model, "_times_moved", effect)) for effect in EFFECTS]
        for name, words in ACCOUNTS.items():
            if name in found[0][0]:
                rows.append((f"{style_of(model).label}: {words}", *(text for alone, times in found for text in _cells(alone, times, name))))
        control = [cell(comparison.measure(model, f"agreement_moved{effect}")) for effect in EFFECTS]
        rows.append((f"{style_of(model).label}: {CONTROL}", "", "", control[0], "", "", "", control[1], ""))
    return rows


def _cells(alone: dict[str, np.ndarray], times: dict[str, np.ndarray], name: str) -> tuple[str, ...]:
    """Cells of a row: first, best and last layer, and the last with the factor. The best layer has the
    largest mean over seeds."""
    if name not in alone:
        return "–", "–", "–", "–"
    values = alone[name]
    best = int(np.nanargmax(mean_over(values, 0)))
    return cell(values[:, 0]), f"{cell(values[:, best])} (layer {best + 1})", cell(values[:, -1]), cell(times[name][:, -1] if name in times else None)
