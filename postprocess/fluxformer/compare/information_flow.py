"""Hidden states in the report: size and spread by depth, alignment with the states of the Transformer, what
the tokens hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import NullFormatter

from fluxformer.report.data import Comparison, Study, first_and_last, mean_and_spread
from fluxformer.report.sections import Section
from fluxformer.report.style import HEAT, Drawing, canvas, legend, name_row, over, panel, plt, style_of
from fluxformer.style import INK, SOFT, decades, plain_numbers

TOKENS = plt.get_cmap("PuOr_r")  # two hues that stay apart for colour-blind readers, white in the middle
PADDING = "#c4c9d1"
BY_DEPTH = (("norm", "Size of the state", "‖u‖  (rms)"),
            ("token_variance", "Spread over the tokens", "⟨|u − ⟨u⟩|²⟩ per number"),
            ("dirichlet_energy", "Roughness over the tokens", "½ ⟨|∇ₓu|²⟩ per channel"))
BY_LAYER = (("correlation", "With the layer before", "Pearson correlation"),
            ("drift", "Away from the embedding", "drift  1 − cos(u(s), u(0))"),
            ("step_change", "Change in a layer", "‖u(s) − u(s−1)‖ / ‖u(s−1)‖"))
Pictures = tuple[Figure, AxesImage, np.ndarray]  # a figure, one of its pictures (for the scale), the panels


def _profiles(comparison: Comparison) -> Drawing:
    figure = canvas(6.0)
    panels = figure.subplots(2, 3)
    for axes, (name, title, unit) in zip(panels.ravel(), BY_DEPTH + BY_LAYER):
        for model in comparison.having(name):
            values = comparison.numbers(model, name)
            by_depth = (name, title, unit) in BY_DEPTH
            place = comparison.depth(model) if by_depth else comparison.axis("layer_end")[1:]
            style = style_of(model)
            over(axes, place, values if by_depth else values[:, 1:], style, style.label)
        if (name, title, unit) in BY_DEPTH:
            if decades(np.concatenate([line.get_ydata() for line in axes.lines])) > 1:
                axes.set_yscale("log")
        else:
            axes.set_xticks(comparison.axis("layer_end"))
            axes.set_ylim(0, None)
        panel(axes, title, "depth s  [layers]", unit)
    legend(figure, *panels.ravel())
    return Drawing("flow-profiles", "Hidden states through depth",
                   "Means over the test samples; lines are means over seeds, bands one standard deviation. Top: at every depth cell. Bottom: "
                   "from layer end to layer end, so that models with other steps compare.", figure, comparison.runs)


def _alignment(comparison: Comparison, models: list[str]) -> Drawing:
    figure = canvas(3.7)
    panels = figure.subplots(1, len(models) + 1, squeeze=False, width_ratios=[1] * len(models) + [1.25])[0]
    for axes in panels[1:-1]:
        axes.sharey(panels[0])
        axes.tick_params(labelleft=False)
    theirs = comparison.depth("transformer")
    for axes, model in zip(panels, models):
        mean = comparison.numbers(model, "cka").mean(axis=0)
        mine = comparison.depth(model)
        image = axes.pcolormesh(mine, theirs, mean, vmin=0, vmax=1, cmap=HEAT, shading="nearest", rasterized=True)
        axes.set_title(style_of(model).label, fontsize=10.5, color=style_of(model).colour)
        axes.set(xlabel="its depth s  [layers]", ylabel="depth of the Transformer  [layers]" if axes is panels[0] else "",
                 yticks=theirs)
    figure.colorbar(image, ax=list(panels[:-1]), label="linear CKA", pad=0.01, aspect=25)
    last = panels[-1]
    for model in models:
        style = style_of(model)
        over(last, theirs, _at_equal_depth(comparison, model, comparison.numbers(model, "cka")), style, style.label)
    for model in models:
        if (unrelated := comparison.measure(model, "cka_unrelated")) is not None:
            last.plot(theirs, _at_equal_depth(comparison, model, unrelated).mean(axis=0), "x", color=SOFT, ms=6, mew=1.6, label="null: other samples")
    if (ceiling := comparison.measure("transformer", "cka_ceiling")) is not None:
        last.plot(theirs, np.nanmean(ceiling, axis=0).diagonal(), color=INK, lw=1.2, ls="--", label="ceiling: another Transformer")
    last.set_ylim(0, 1.05)
    panel(last, "At equal depth", "depth s  [layers]", "linear CKA")
    legend(figure, last)
    return Drawing("flow-alignment", "Which depth of the models is like which of the Transformer",
                   "Linear CKA of the states, mean over seeds: 1 is the same up to rotation and scale. Crosses: the same with the samples of "
                   "one model exchanged, which have nothing in common but their statistics. Dashed: the Transformer of the next seed.", figure, comparison.runs)


def _at_equal_depth(comparison: Comparison, model: str, values: np.ndarray) -> np.ndarray:
    """A measure over both depths, taken where the two are equal: [seed, depth of the Transformer]."""
    theirs, mine = comparison.depth("transformer"), comparison.depth(model)
    return np.stack([values[:, k, np.argmin(np.abs(mine - depth))] for k, depth in enumerate(theirs)], axis=1)


def _token_maps(comparison: Comparison, models: list[str]) -> Drawing | None:
    """Draws one example, token by token: on the grid of the image, or as lines of tokens over depth; None
    without a finite number."""
    facts = comparison.facts()
    grid = int(facts.get("tokens_y", 1)), int(facts.get("tokens_x", 1))
    shown = {model: comparison.numbers(model, "example_norm")[0] for model in models}  # [example, depth, token]
    label = [text for text in str(facts.get("example_labels", "")).split()[:1] if float(text) >= 0]  # -1: no label
    sentence = (f"Norm over the channels of each token of one test sample{', class ' + label[0] if label else ''}, seed {comparison.seeds[0]}, "
                "over the mean of all its tokens at that depth: where tokens grow alike the colours fade to one.")
    if any(np.isnan(values).any() for values in shown.values()):
        sentence += " Grey: padding."
    relative = {model: values[0] / np.nanmean(values[0], axis=1, keepdims=True) for model, values in shown.items()}
    if not any(np.isfinite(values).any() for values in relative.values()):
        return None
    limit = max(max(np.nanquantile(values, 0.99), 1 / np.nanquantile(values, 0.01)) for values in relative.values())
    norm = LogNorm(1 / max(limit, 1.1), max(limit, 1.1))
    figure, image, panels = (_grids if min(grid) > 1 else _lines)(comparison, relative, grid, norm)
    bar = figure.colorbar(image, ax=panels, label="‖u‖ of the token over the mean of all", aspect=40, pad=0.01, extend="both")
    ticks = [tick for tick in (0.1, 0.2, 0.5, 0.8, 1, 1.25, 2, 5, 10) if norm.vmin <= tick <= norm.vmax]
    bar.set_ticks(ticks, minor=False)
    bar.ax.yaxis.set_major_formatter(plain_numbers)
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    return Drawing("flow-tokens", "What the tokens hold", sentence, figure, comparison.runs)


def _grids(comparison: Comparison, shown: dict[str, np.ndarray], grid: tuple[int, int], norm: LogNorm) -> Pictures:
    deepest = comparison.depth("transformer")[-1]
    depths = np.unique(np.round(np.linspace(0, deepest, min(7, int(deepest) + 1))))
    side = min(1.5, 9.0 / len(depths))
    figure = canvas(side * len(shown) + 0.4)
    figure.set_layout_engine("compressed", h_pad=0.08, w_pad=0.08)  # square pictures side by side
    panels = figure.subplots(len(shown), len(depths), squeeze=False)
    for i, (model, values) in enumerate(shown.items()):
        for axes, depth in zip(panels[i], depths):
            row = np.argmin(np.abs(comparison.depth(model) - depth))
            image = axes.imshow(values[row].reshape(grid), cmap=TOKENS, norm=norm, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            if i == 0:
                axes.set_title(f"s = {depth:g}", loc="center", fontsize=10)
        name_row(panels[i, 0], model)
    return figure, image, panels


def _lines(comparison: Comparison, shown: dict[str, np.ndarray], _: tuple[int, int], norm: LogNorm) -> Pictures:
    figure = canvas(3.4)
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, (model, values) in zip(panels, shown.items()):
        image = axes.pcolormesh(comparison.depth(model), np.arange(values.shape[-1]), values.T, cmap=TOKENS, norm=norm,
                                shading="nearest", rasterized=True)
        axes.set_title(style_of(model).label, fontsize=10.5, color=style_of(model).colour)
        axes.set(xlabel="depth s  [layers]", ylabel="token" if axes is panels[0] else "", facecolor=PADDING)
    panels[0].invert_yaxis()
    return figure, image, panels


def draw(study: Study) -> list[Drawing]:
    """Draws the figures of the information flow; none if it was not run."""
    comparison = study.of("information_flow")
    if comparison is None:
        return []
    drawings = [_profiles(comparison)]
    if aligned := comparison.having("cka"):
        drawings.append(_alignment(comparison, aligned))
    examples = comparison.having("example_norm")
    if "transformer" in examples and comparison.numbers("transformer", "example_norm").shape[1] > 0:
        drawings += filter(None, [_token_maps(comparison, examples)])
    return drawings


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: what becomes of the states of each model, and how similar
    they are to those of the Transformer."""
    def change(name: str) -> Callable[[str], str | None]:
        return lambda model: None if (values := comparison.measure(model, name)) is None else first_and_last(values)

    def alike(model: str) -> str | None:
        values = comparison.measure(model, "cka")
        return None if values is None or model == "transformer" else mean_and_spread(_at_equal_depth(comparison, model, values).mean(axis=1))

    return comparison.table({"‖u‖ (rms), first depth → last": change("norm"), "variance over tokens": change("token_variance"),
                             "CKA with the Transformer, mean over equal depths": alike})


SECTIONS = (Section(3, "flow", "Information flow", "information_flow", draw, table),)
