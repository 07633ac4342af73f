"""Attention of the report: scores by layer beside their null controls, margins, entropies, maps."""

from __future__ import annotations

import numpy as np
from matplotlib.ticker import FixedLocator

from fluxformer.report.data import Comparison, Study, number, spread
from fluxformer.report.sections import Section
from fluxformer.report.style import HEAT, Drawing, canvas, legend, name_row, over, panel, style_of, tips
from fluxformer.style import INK, SOFT, plain_numbers

SCORES = (("cosine", "cosine", 1), ("kl", "KL divergence  [nat]", -1), ("centred", "centred cosine", 1))
NULLS = (("uniform", "null: uniform rows", "_", 11), ("permuted", "null: keys permuted", "x", 6),
         ("untrained", "null: untrained PDE model", "+", 8))
DECADES = (5, 10, 20, 50, 100, 200, 500, 1000, 10000)  # ticks from the wide margin on


def best_null(comparison: Comparison, model: str, score: str, sign: int) -> tuple[np.ndarray, list[str]] | None:
    """By how much a score is better than its best null control.

    Parameters
    ----------
    score : str
        A measure of the model; its null controls are those of NULLS.
    sign : int
        1 if more is better, -1 if less is.

    Returns
    -------
    lead : ndarray, shape (seeds, layers)
    names : list of str
        By layer the null with the best mean over the seeds. None instead of both if one of them was not measured.
    """
    value = comparison.measure(model, score)
    nulls = [null for name, *_ in NULLS if (null := comparison.measure(model, f"{score}_{name}")) is not None]
    if value is None or len(nulls) < len(NULLS):
        return None
    best = np.argmax([sign * null.mean(axis=0) for null in nulls], axis=0)
    chosen = np.take_along_axis(np.array(nulls), best[None, None, :].repeat(len(value), axis=1), axis=0)[0]
    return sign * (value - chosen), [NULLS[k][0] for k in best]


def _scores(comparison: Comparison, models: list[str]) -> Drawing:
    layer = comparison.axis("layer")
    figure = canvas(2.0 * len(SCORES) + 0.4)
    panels = figure.subplots(len(SCORES), len(models), sharex=True, sharey="row", squeeze=False)
    for j, model in enumerate(models):
        style = style_of(model)
        for i, (score, name, _) in enumerate(SCORES):
            axes = panels[i, j]
            over(axes, layer, comparison.measure(model, score), style)
            for null, label, marker, size in NULLS:
                if (values := comparison.measure(model, f"{score}_{null}")) is not None:
                    line, = axes.plot(layer, values.mean(axis=0), marker, color=SOFT, ms=size, mew=1.6, ls="none", label=label)
                    tips(axes, line, [f"{label}: {number(v)}" for v in values.mean(axis=0)])
            if (ceiling := comparison.measure("transformer", f"{score}_ceiling")) is not None:
                axes.plot(layer, ceiling.mean(axis=0), color=INK, lw=1.2, ls="--", label="ceiling: another Transformer")
            panel(axes, style.label if i == 0 else "", "layer" if i + 1 == len(SCORES) else "", name if j == 0 else "")
            axes.set_xticks(layer)
            axes.set_xlim(layer[0] - 0.4, layer[-1] + 0.4)
    legend(figure, *panels[0])
    return Drawing("attention-scores", "How much attention resembles the Transformer's, layer by layer",
                   "Coloured: the model, mean over seeds with one standard deviation. Grey: what rows without any learning score "
                   "against the same Transformer; a score says something only where it is better than all three. For KL lower is "
                   "better. The centred cosine leaves out what all rows share. Dashed: the Transformer of the next seed, what an "
                   "independently trained model may reach.", figure, [comparison.run])


def _margins(comparison: Comparison, models: list[str]) -> Drawing:
    layer = comparison.axis("layer")
    figure = canvas(3.4)
    panels = figure.subplots(1, len(SCORES), sharey=True, squeeze=False)[0]
    width = 0.8 / len(models)
    for axes, (score, name, sign) in zip(panels, SCORES):
        for k, model in enumerate(models):
            lead = best_null(comparison, model, score, sign)
            if lead is None:
                continue
            with np.errstate(divide="ignore", invalid="ignore"):
                margin = lead[0].mean(axis=0) / spread(lead[0])
            place = layer + (k - (len(models) - 1) / 2) * width
            style = style_of(model)
            axes.vlines(place, 0, margin, color=style.colour, lw=1.4)
            line, = axes.plot(place, margin, style.marker, color=style.colour, ms=6, ls="none", label=style.label)
            tips(axes, line, [f"{style.label}: {number(m)} standard deviations from {null}" for m, null in zip(margin, lead[1])])
        axes.axhline(0, color=INK, lw=1)
        axes.axhline(5, color=INK, lw=1, ls=":")
        axes.set_yscale("symlog", linthresh=5, linscale=1.5)
        axes.yaxis.set_major_locator(FixedLocator([*(-k for k in DECADES), 0, *DECADES]))
        axes.yaxis.set_major_formatter(plain_numbers)
        axes.set_xticks(layer)
        panel(axes, name.split("  ")[0], "layer", "lead  [standard deviations]" if axes is panels[0] else "")
    legend(figure, panels[0])
    return Drawing("attention-margins", "Lead over the best null control",
                   "Lead of each score over the best of its three null controls, in standard deviations of that lead over seeds. Dotted: "
                   "five of them, a wide margin. Below zero a null control is more like the Transformer than the model is.", figure, [comparison.run])


def _entropies(comparison: Comparison, models: list[str]) -> Drawing:
    layer = comparison.axis("layer")
    figure = canvas(3.2)
    panels = figure.subplots(1, len(models), sharey=True, squeeze=False)[0]
    for axes, model in zip(panels, models):
        for name, of in (("entropy_transformer", "transformer"), ("entropy", model)):
            values = comparison.measure(model, name)
            style = style_of(of)
            shift = -0.08 if of == "transformer" else 0.08
            heads = np.nanmean(values, axis=0)
            axes.plot(np.repeat(layer + shift, heads.shape[1]), heads.ravel(), "o", color=style.colour, ms=3, alpha=0.35, mew=0)
            over(axes, layer + shift, np.nanmean(values, axis=2), style, style.label)
        axes.axhline(1, color=SOFT, ls=":", lw=1.2)
        axes.set(xticks=layer, ylim=(0, 1.1))
        panel(axes, style_of(model).label, "layer", "row entropy / log n" if axes is panels[0] else "")
    panels[0].annotate("uniform rows", (0.02, 1), xycoords=("axes fraction", "data"), xytext=(0, 2), textcoords="offset points",
                       fontsize=8, color=SOFT)
    legend(figure, *panels)
    return Drawing("attention-entropies", "How far attention looks",
                   "Mean entropy of the rows: 1 spreads over all tokens, 0 looks at one. Small dots: single heads, of the PDE model those "
                   "matched with the Transformer's.", figure, [comparison.run])


def _maps(comparison: Comparison, models: list[str]) -> Drawing:
    shown = ["transformer", *models]
    maps = {model: comparison.measure(model, "map")[0] for model in shown}
    layers, tokens = maps["transformer"].shape[:2]
    columns = np.unique(np.round(np.linspace(0, layers - 1, min(layers, 6))).astype(int))
    limit = max(np.quantile(tokens * values[columns], 0.995) for values in maps.values())
    side = min(1.75, 9.0 / len(columns), 5.7 / len(shown))
    figure = canvas(side * len(shown) + 0.7)
    figure.set_layout_engine("compressed", h_pad=0.08, w_pad=0.08)  # square pictures side by side
    panels = figure.subplots(len(shown), len(columns), squeeze=False)
    for i, model in enumerate(shown):
        for j, layer in enumerate(columns):
            axes = panels[i, j]
            image = axes.imshow(tokens * maps[model][layer], cmap=HEAT, vmin=0, vmax=limit, interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            axes.set_xlabel("key token" if i + 1 == len(shown) else "")
            axes.set_ylabel("query token" if j == 0 else "")
            if i == 0:
                axes.set_title(f"layer {layer + 1}", loc="center", fontsize=10)
        name_row(panels[i, 0], model, 28)
    figure.colorbar(image, ax=panels, label="attention × number of tokens  (1: uniform)", aspect=40, pad=0.01, extend="max")
    return Drawing("attention-maps", "Attention of one test sample",
                   f"Mean over the heads, seed {comparison.seeds[0]}; rows are the tokens that look, columns those that are looked at, on one "
                   "scale for all models.", figure, [comparison.run])


def draw(study: Study) -> list[Drawing]:
    """The figures of the attention experiment; none if it was not run."""
    comparison = study.of("attention")
    models = comparison.having("cosine") if comparison else []
    if not models:
        return []
    drawings = [_scores(comparison, models)]
    if len(comparison.seeds) > 1:
        drawings.append(_margins(comparison, models))
    drawings.append(_entropies(comparison, models))
    if all(comparison.measure(model, "map") is not None for model in ("transformer", *models)):
        drawings.append(_maps(comparison, models))
    return drawings


SECTIONS = (Section(4, "attention", "Attention", "attention", draw),)
