"""Contributions of the tokens of one sample to one hidden token, by depth: on the grid of an image, or word by word."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from fluxformer.identifiability.measures import MOST_WORDS, grid_of, spread_out, words_of
from fluxformer.report.data import Comparison
from fluxformer.report.style import HEAT, Drawing, canvas, name_row, plt, style_of
from fluxformer.style import ACCENT, INK

LARGEST = 3  # contributors that are marked
Pictures = tuple[Figure, AxesImage, np.ndarray]


def _hidden_token(comparison: Comparison, models: list[str], real: int) -> int:
    """Of the first sample and model: the token whose blanking changes the output most; the middle one if none was blanked."""
    change = comparison.measure(models[0], "blanked_change")
    known = change is not None and np.isfinite(change[0, :real]).any()
    return int(np.nanargmax(change[0, :real])) if change is not None and known else real // 2


def _outline(axes: Axes, row: float, column: float, rows: int = 1) -> None:
    axes.add_patch(plt.Rectangle((column - 0.5, row - 0.5), 1, rows, fill=False, ec=ACCENT, lw=1.8, clip_on=False))


def _mark(axes: Axes, row: int, column: int, text: str) -> None:
    axes.text(column, row, text, ha="center", va="center", fontsize=7, color="white", fontweight="bold",
              bbox={"boxstyle": "circle,pad=0.12", "fc": INK, "ec": "none", "alpha": 0.75})


def _others(row: np.ndarray, token: int) -> np.ndarray:
    """The largest contributors without the token itself, largest first."""
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
    """Of which input tokens one hidden token of the first sample is made, by model and depth."""
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
