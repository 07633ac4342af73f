"""Attention in the report: scores by layer beside null controls and ceiling, entropies, maps, and how far heads look along a line of tokens."""

from __future__ import annotations

import numpy as np
from matplotlib.ticker import NullLocator

from fluxformer.report.data import Comparison, Study, mean_and_spread, number
from fluxformer.report.sections import Section
from fluxformer.report.style import HEAT, Drawing, canvas, legend, name_row, over, panel, style_of, tips
from fluxformer.statistics import Effect
from fluxformer.style import INK, SOFT, plain_numbers

SCORES = (("cosine", "cosine", 1), ("kl", "KL divergence  [nat]", -1), ("centred", "centred cosine", 1))
NULLS = (("uniform", "null: uniform rows", "_", 11), ("permuted", "null: keys permuted", "x", 6),
         ("untrained", "null: untrained PDE model", "+", 8))


def _scores(comparison: Comparison, models: list[str]) -> Drawing:
    layer = comparison.axis("layer")
    figure = canvas(2.0 * len(SCORES) + 0.4)
    panels = figure.subplots(len(SCORES), len(models), sharex=True, sharey="row", squeeze=False)
    for j, model in enumerate(models):
        style = style_of(model)
        for i, (score, name, _) in enumerate(SCORES):
            axes = panels[i, j]
            over(axes, layer, comparison.numbers(model, score), style)
            for null, label, marker, size in NULLS:
                if (values := comparison.measure(model, f"{score}_{null}")) is not None:
                    line, = axes.plot(layer, values.mean(axis=0), marker, color=SOFT, ms=size, mew=1.6, ls="none", label=label)
                    tips(axes, line, [f"{label}: {number(v)}" for v in values.mean(axis=0)])
            if (ceiling := comparison.measure("transformer", f"{score}_ceiling")) is not None:
                axes.plot(layer, np.nanmean(ceiling, axis=0), color=INK, lw=1.2, ls="--", label="ceiling: another Transformer")
            panel(axes, style.label if i == 0 else "", "layer" if i + 1 == len(SCORES) else "", name if j == 0 else "")
            axes.set_xticks(layer)
            axes.set_xlim(layer[0] - 0.4, layer[-1] + 0.4)
    legend(figure, *panels[0])
    return Drawing("attention-scores", "How much attention resembles the Transformer's, layer by layer",
                   "Coloured: the model, mean over seeds with one standard deviation. Grey: what rows without any learning score "
                   "against the same Transformer; a score says something only where it is better than all three. For KL lower is "
                   "better. The centred cosine leaves out what all rows share. Dashed: the Transformer of the next seed, what an "
                   "independently trained model may reach.", figure, comparison.runs)


def place_between(comparison: Comparison, model: str, score: str, sign: int) -> np.ndarray | None:
    """The place of a model's score between its best null control (0) and two Transformers (1).

    Parameters
    ----------
    score : str
        A measure of the model, with null controls NULLS and a ceiling; means over layers are taken.
    sign : int
        1 if more is better, -1 if less is.

    Returns
    -------
    ndarray, shape (seeds,), or None
        The place by the null control with the best mean over seeds. None if a control was not measured, or if two Transformers are
        no more alike than without learning.
    """
    value = comparison.measure(model, score)
    nulls = [values for null in NULLS if (values := comparison.measure(model, f"{score}_{null[0]}")) is not None]
    ceiling = comparison.measure("transformer", f"{score}_ceiling")
    if value is None or ceiling is None or len(nulls) < len(NULLS):
        return None
    value, ceiling, *nulls = (one.mean(axis=1) for one in (value, ceiling, *nulls))
    null = max(nulls, key=lambda one: sign * np.nanmean(one))
    width = np.nanmean(ceiling) - np.nanmean(null)
    return (value - null) / width if sign * width > 0 else None


def _places(comparison: Comparison, models: list[str]) -> Drawing | None:
    found = [(name, model, place) for score, name, sign in SCORES for model in models
             if (place := place_between(comparison, model, score, sign)) is not None]
    if not found:
        return None
    scores = list(dict.fromkeys(name for name, _, _ in found))
    figure = canvas(1.5 + 0.55 * len(scores))
    axes = figure.subplots()
    for name, model, place in found:
        style, effect = style_of(model), Effect(place)
        row = scores.index(name) - (models.index(model) - (len(models) - 1) / 2) * 0.22
        low, high = effect.interval()
        axes.plot([low, high], [row, row], color=style.colour, lw=2)
        line, = axes.plot(effect.mean, row, style.marker, color=style.colour, ms=7, ls="none",
                          label=style.label if name == scores[0] else None)
        tips(axes, line, [f"{style.label}: {number(effect.mean)} [{number(low)}, {number(high)}]"])
    for place, label in ((0, "best null"), (1, "two Transformers")):
        axes.axvline(place, color=INK, lw=1.2, ls="--" if place else "-")
        axes.annotate(label, (place, len(scores) - 0.5), xytext=(4, 2), textcoords="offset points", fontsize=8, color=SOFT)
    axes.set(yticks=range(len(scores)), yticklabels=[name.split("  ")[0] for name in scores], ylim=(-0.6, len(scores) - 0.2))
    panel(axes, "", "(score − best null) / (two Transformers − best null)", "score")
    axes.grid(True, axis="x")
    legend(figure, axes)
    return Drawing("attention-places", "Between null control and ceiling",
                   "Each score, mean over layers, where 0 is the best of its null controls and 1 what two Transformers from different seeds "
                   "reach with each other; mean over seeds with its 95 % interval (Student's t over seeds; null and ceiling at their means). "
                   "Scores in which two Transformers are no more alike than a null control are left out: they cannot tell.", figure, comparison.runs)


def _entropies(comparison: Comparison, models: list[str]) -> Drawing:
    layer = comparison.axis("layer")
    figure = canvas(3.2)
    panels = figure.subplots(1, len(models), sharey=True, squeeze=False)[0]
    for axes, model in zip(panels, models):
        alone = model == "transformer"
        for name, of in (*(() if alone else (("entropy_transformer", "transformer"),)), ("entropy", model)):
            values = comparison.numbers(model, name)
            style = style_of(of)
            shift = 0.0 if alone else -0.08 if of == "transformer" else 0.08
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
                   "Mean entropy of the rows: 1 spreads over all tokens that it sees, 0 looks at one. Small dots: single heads, of the PDE model those "
                   "matched with the Transformer's.", figure, comparison.runs)


def _some(layers: int) -> np.ndarray:
    """Places of up to six layers from the first to the last."""
    return np.unique(np.round(np.linspace(0, layers - 1, min(layers, 6))).astype(int))


def _maps(comparison: Comparison, models: list[str]) -> Drawing:
    shown = ["transformer", *models]
    maps = {model: comparison.numbers(model, "map")[0] for model in shown}
    layers, tokens = maps["transformer"].shape[:2]
    columns = _some(layers)
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
    label = "attention × number of tokens" + ("\n" if len(shown) == 1 else "  ") + "(1: uniform over all)"
    figure.colorbar(image, ax=panels, label=label, aspect=40, pad=0.01, extend="max")
    return Drawing("attention-maps", "Attention of one test sample",
                   f"Mean over the heads, seed {comparison.seeds[0]}; rows are the tokens that look, columns those that are looked at, on one "
                   "scale for all models.", figure, comparison.runs)


def _by_distance(comparison: Comparison, model: str, layer: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distances of the keys that a layer sees, the weights there of each head that is one, and of uniform rows; means over seeds.

    Returns
    -------
    distance : ndarray, shape (distances,)
    heads : ndarray, shape (heads, distances)
    uniform : ndarray, shape (distances,)
    """
    weights, uniform, pairs = (comparison.numbers(model, name)[:, layer]
                               for name in ("weight_by_distance", "weight_by_distance_uniform", "pairs_by_distance"))
    seen = (pairs > 0).all(axis=0)
    heads = weights[..., seen].mean(axis=0)
    return comparison.axis("distance")[seen], heads[~np.isnan(heads).any(axis=1)], uniform[:, seen].mean(axis=0)


def _distances(comparison: Comparison, models: list[str]) -> Drawing:
    columns = _some(len(comparison.axis("layer")))
    figure = canvas(2.1 * len(models) + 0.7)
    panels = figure.subplots(len(models), len(columns), sharex=True, sharey=True, squeeze=False)
    lowest, longest = 1.0, 1.0
    for i, model in enumerate(models):
        style = style_of(model)
        for j, layer in enumerate(columns):
            axes = panels[i, j]
            distance, heads, uniform = _by_distance(comparison, model, layer)
            for head in heads:
                axes.plot(distance, head, color=style.colour, lw=0.7, alpha=0.45, label="single heads")
            axes.plot(distance, heads.mean(axis=0), color=style.colour, lw=2.2, label=f"{style.label}: mean over heads")
            axes.plot(distance, uniform, color=SOFT, lw=1.4, ls="--", label="null: uniform rows")
            lowest = min([lowest, *(values[values > 0].min() for values in (heads.mean(axis=0), uniform))])
            longest = max(longest, distance[-1])
    decades = np.outer(10 ** np.arange(6), (1, 2, 5) if longest < 200 else (1,)).ravel()
    for i, model in enumerate(models):
        for j, layer in enumerate(columns):
            axes = panels[i, j]
            axes.set_xscale("symlog", linthresh=1, linscale=0.5)
            axes.set_yscale("log")
            axes.set(xlim=(0, longest), ylim=(lowest / 3, 1.5), xticks=[0, *decades[decades <= longest]])
            axes.xaxis.set_major_formatter(plain_numbers)
            axes.xaxis.set_minor_locator(NullLocator())
            panel(axes, f"layer {layer + 1}" if i == 0 else "", "distance  [token]" if i + 1 == len(models) else "", "mean weight" if j == 0 else "")
    legend(figure, *panels[:, 0])
    return Drawing("attention-distances", "Attention by distance",
                   "The weight that a token gives to one that lies so many tokens away (in a causal model: before it); 0 is the token itself. Mean over "
                   "all such pairs in all samples. Thin: single heads, of PDE models those matched with the Transformer's; thick: their mean. Dashed: a "
                   "head that spreads its weight evenly over all tokens that it may see, which falls with distance where only tokens that share their "
                   "weight among many can look so far. A head above it at short distances looks at its neighbours. Lines end where a window or the "
                   "longest sample does, and the last points are of few pairs. Both axes are logarithmic, but for the first token.",
                   figure, comparison.runs)


def _mean_distances(comparison: Comparison, models: list[str]) -> Drawing:
    layer = comparison.axis("layer")
    figure = canvas(3.2)
    axes = figure.subplots()
    for place, model in enumerate(models):
        style, shift = style_of(model), 0.16 * (place - (len(models) - 1) / 2)
        values = comparison.numbers(model, "mean_distance")  # [seed, layer, head], NaN for a head without a partner
        values = values[..., ~np.isnan(values).all(axis=(0, 1))]
        heads = np.nanmean(values, axis=0)
        axes.plot(np.repeat(layer + shift, heads.shape[1]), heads.ravel(), "o", color=style.colour, ms=3, alpha=0.35, mew=0)
        over(axes, layer + shift, np.nanmean(values, axis=2), style, style.label)
    axes.plot(layer, comparison.numbers(models[0], "mean_distance_uniform").mean(axis=0), color=SOFT, ls="--", lw=1.4, label="null: uniform rows")
    axes.set(xticks=layer, ylim=(0, 1.05 * axes.get_ylim()[1]))
    panel(axes, "", "layer", "mean distance  [token]")
    legend(figure, axes)
    return Drawing("attention-mean-distances", "How many tokens away heads look",
                   "The distance between the token that looks and those that are looked at, weighted by attention; mean over all tokens of all samples. Small "
                   "dots: single heads. Dashed: rows that spread over all visible tokens. Where it is lower in some layers, these have windows.",
                   figure, comparison.runs)


def draw(study: Study) -> list[Drawing]:
    """Draws the figures of the attention experiment; none if it was not run."""
    comparison = study.of("attention")
    if comparison is None:
        return []
    drawings = []
    if models := comparison.having("cosine"):
        drawings.append(_scores(comparison, models))
        if len(comparison.seeds) > 1:
            drawings += filter(None, [_places(comparison, models)])
        drawings.append(_entropies(comparison, models))
    elif comparison.measure("transformer", "entropy") is not None:
        drawings.append(_entropies(comparison, ["transformer"]))
    if all(comparison.measure(model, "map") is not None for model in ("transformer", *models)):
        drawings.append(_maps(comparison, models))
    if along := comparison.having("weight_by_distance"):
        drawings += [_distances(comparison, along), _mean_distances(comparison, along)]
    return drawings


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: mean scores over layers of each model, of the null controls of the first, and of two Transformers;
    and mean distances over layers and heads, where tokens are a line."""
    columns = [(score, name) for score, name, _ in SCORES]
    if along := comparison.having("mean_distance"):
        columns.append(("mean_distance", "mean distance  [token]"))

    def row(name: str, model: str, end: str = "") -> tuple[str, ...]:
        measured = [comparison.measure(model, column + end) for column, _ in columns]
        # Of heads, those without a partner are left out.
        return name, *("–" if values is None else mean_and_spread((np.nanmean if values.ndim > 2 else np.mean)(values.reshape(len(values), -1), axis=1))
                       for values in measured)

    models = comparison.having("cosine")
    rows = [("compared with the Transformer", *(name for _, name in columns)),
            *(row(style_of(model).label, model) for model in dict.fromkeys((*along, *models)))]
    rows += [row(label, model, f"_{null}") for null, label, _, _ in NULLS for model in (models or along)[:1]]
    rows.append(row("ceiling: two Transformers", "transformer", "_ceiling"))
    rows = [one for one in rows if set(one[1:]) != {"–"}]
    measured = [place for place, column in enumerate(zip(*rows)) if set(column[1:]) != {"–"}]
    return [tuple(one[place] for place in measured) for one in rows]


SECTIONS = (Section(4, "attention", "Attention", "attention", draw, table),)
