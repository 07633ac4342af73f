"""How long a token is recognised: rates by depth of the maps back to the embedded tokens, beside chance and controls."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from fluxformer.identifiability.measures import EXPERIMENT, Rows, cell, mean_over, shade
from fluxformer.report.data import COUPLINGS, Comparison, Study, Style, number
from fluxformer.report.style import Drawing, canvas, legend, over, panel, style_of
from fluxformer.statistics import Effect
from fluxformer.style import ACCENT, INK, SOFT

BLUE, GREEN = "#2563eb", "#0f9d78"
MAPS = {"identity": Style("the state itself", INK, "o", "-"), "linear": Style("linear map", ACCENT, "s", "-"),
        "mlp": Style("map with a hidden layer", BLUE, "^", "-")}
DISTANCES = {"cosine": "nearest by angle", "l2": "nearest by distance"}
PARTS = (("linear_l2", "linear map, all of the state", ACCENT, "s", "-"), ("linear_angle", "linear map, its direction", ACCENT, "s", "--"),
         ("linear_norm", "linear map, its norm", ACCENT, "s", ":"), ("mlp_l2", "hidden layer, all of the state", BLUE, "^", "-"),
         ("mlp_angle", "hidden layer, its direction", BLUE, "^", "--"))


def _rate(comparison: Comparison, model: str, name: str) -> np.ndarray | None:
    """The share of the tokens that are found, shape (seeds, ...); None for a map that was not fitted."""
    values = comparison.measure(model, f"rate_{name}")
    return values if values is not None and np.isfinite(values).any() else None


def _chance(axes: Axes, comparison: Comparison, model: str) -> None:
    chance = float(mean_over(comparison.numbers(model, "chance"), 0))
    axes.axhline(chance, color=SOFT, lw=1.3, ls=":", label=f"chance, {100 * chance:.2g} %")


def _set_share(axes: Axes, title: str, last: bool, label: str = "tokens that are found") -> None:
    axes.set_ylim(0, 1.04)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    panel(axes, title, "depth s  [layers]" if last else "", label if axes.get_subplotspec().is_first_col() else "")


def _rates(comparison: Comparison, models: list[str]) -> Drawing:
    figure = canvas(6.2)
    panels = figure.subplots(len(DISTANCES), len(models), squeeze=False, sharey=True)
    for model, column in zip(models, panels.T):
        depth = comparison.depth(model)
        for axes, (distance, words) in zip(column, DISTANCES.items()):
            for name, style in MAPS.items():
                if (values := _rate(comparison, model, f"{name}_{distance}")) is not None:
                    over(axes, depth, values, style, style.label)
                if (values := _rate(comparison, model, f"{name}_{distance}_untrained")) is not None:
                    axes.plot(depth, mean_over(values, 0), "--", color=style.colour, lw=1.2, alpha=0.7,
                              label=f"{style.label}, untrained model")
            if distance == "cosine" and (values := _rate(comparison, model, "shuffled")) is not None:
                axes.plot(depth, mean_over(values, 0), "x", color=SOFT, ms=5, mew=1.4, label="null: tokens shuffled")
            _chance(axes, comparison, model)
            _set_share(axes, f"{style_of(model).label}:\n{words}", axes is column[-1])
    legend(figure, *panels.ravel())
    tokens, same = (float(mean_over(comparison.numbers(models[0], name), 0)) for name in ("sample_tokens", "identical"))
    return Drawing("identity-rates", "How many tokens are still recognised, by depth",
                   f"Share of the tokens of test samples whose state, or a map of it, is nearest to their own embedded input among those of the "
                   f"same sample ({number(tokens)} tokens in the mean; {100 * same:.2g} % of the tokens have an identical one, with "
                   "which they share the credit). One map for each depth, fitted on other samples. Lines are means over seeds, bands one standard deviation. Recognised by a map is more than "
                   "different: states may differ and yet be taken for each other.", figure, comparison.runs)


def _by_model(comparison: Comparison, models: list[str]) -> Drawing:
    shown = [name for name in MAPS if any(_rate(comparison, model, f"{name}_cosine") is not None for model in models)]
    figure = canvas(3.7)
    *panels, last = figure.subplots(1, len(shown) + 1)
    for axes, name in zip(panels, shown):
        for model in models:
            if (values := _rate(comparison, model, f"{name}_cosine")) is not None:
                over(axes, comparison.depth(model), values, style_of(model), style_of(model).label)
        _chance(axes, comparison, models[0])
        _set_share(axes, MAPS[name].label, True)
        axes.tick_params(labelleft=axes is panels[0])
    for model in comparison.having("smallest_distance"):
        over(last, comparison.depth(model), comparison.numbers(model, "smallest_distance"), style_of(model), style_of(model).label)
    last.set_yscale("log")
    panel(last, "Nearest two tokens", "depth s  [layers]", "‖uᵢ − uⱼ‖ / rms ‖u‖")
    legend(figure, *panels)
    return Drawing("identity-models", "Does continuous depth keep identity longer?",
                   "The same rates (nearest by angle), model beside model on the axis of depth. Right: the smallest distance of two tokens' states "
                   "of any sample; only where it came to 0 would two tokens have met. Lines are means over seeds, bands one standard deviation.",
                   figure, comparison.runs)


def _parts(comparison: Comparison, models: list[str]) -> Drawing:
    figure = canvas(3.7)
    panels = figure.subplots(1, len(models), squeeze=False, sharey=True)[0]
    for model, axes in zip(models, panels):
        for name, label, colour, marker, line in PARTS:
            if (values := _rate(comparison, model, name)) is not None:
                over(axes, comparison.depth(model), values, Style(label, colour, marker, line), label)
        _chance(axes, comparison, model)
        _set_share(axes, style_of(model).label, True)
    legend(figure, *panels)
    return Drawing("identity-parts", "Whether identity sits in the direction of a state or in its norm",
                   "Rates of maps that see all of a state, its direction alone (state and embedded token scaled to length 1) or its norm alone; "
                   "nearest by distance.", figure, comparison.runs)


def _over_epochs(comparison: Comparison, models: list[str]) -> Drawing:
    names = [name for name in ("identity", "linear") if any(_followed(comparison, model, name) for model in models)]
    epochs = comparison.axis("copied_epoch")
    figure = canvas(2.95 * len(names) + 0.5)
    panels = figure.subplots(len(names), len(models), squeeze=False, sharey=True)
    for model, column in zip(models, panels.T):
        for axes, name in zip(column, names):
            if _followed(comparison, model, name):
                values = comparison.numbers(model, f"epoch_rate_{name}_cosine")
                for k, epoch in enumerate(epochs):
                    style = shade(k, len(epochs), f"epoch {epoch:g}")
                    over(axes, comparison.depth(model), values[:, k], style, style.label)
            _chance(axes, comparison, model)
            _set_share(axes, f"{style_of(model).label}:\n{MAPS[name].label}", axes is column[-1])
    legend(figure, *panels.ravel())
    return Drawing("identity-epochs", "What training does to the identity of tokens",
                   "Rates (nearest by angle) of copies of the weights after some epochs, from the untrained model (dark) to the last copy (light).",
                   figure, comparison.runs)


def draw_identity(study: Study) -> list[Drawing]:
    """Draws rates by depth, by model, of directions and norms, over epochs; none if they were not measured."""
    comparison = study.of(EXPERIMENT)
    if comparison is None or not (models := comparison.having("rate_identity_cosine")):
        return []
    drawings = [_rates(comparison, models), _by_model(comparison, models)]
    if any(_rate(comparison, model, name) is not None for model in models for name, *_ in PARTS):
        drawings.append(_parts(comparison, models))
    if followed := [model for model in models if _followed(comparison, model, "identity")]:
        drawings.append(_over_epochs(comparison, followed))
    return drawings


def _followed(comparison: Comparison, model: str, name: str) -> bool:
    """True if the rate of a map is known over the training."""
    values = comparison.measure(model, f"epoch_rate_{name}_cosine")
    return values is not None and np.isfinite(values).any()


GUESSES = (("the state itself, angle", "identity_cosine"), ("the state itself, distance", "identity_l2"), ("linear map, angle", "linear_cosine"),
           ("linear map, distance", "linear_l2"), ("linear map, direction alone", "linear_angle"), ("linear map, norm alone", "linear_norm"),
           ("hidden layer, angle", "mlp_cosine"), ("hidden layer, distance", "mlp_l2"), ("hidden layer, direction alone", "mlp_angle"),
           ("untrained: the state itself, angle", "identity_cosine_untrained"), ("untrained: linear map, angle", "linear_cosine_untrained"),
           ("null: tokens shuffled", "shuffled"))


def identity_table(comparison: Comparison) -> Rows:
    """Rows of text, the first of them headings: rates at the ends of layers by model and map, beside chance;
    then PDE model minus Transformer, seed by seed, with the 95 % interval of the mean."""
    models = comparison.having("rate_identity_cosine")
    if not models:
        return []
    ends = comparison.at_transformer_depths(models[0])
    rows: Rows = [("found  [%]", "by chance", *(f"s = {comparison.depth(models[0])[end]:g}" for end in ends))]
    for model in models:
        places, chance = comparison.at_transformer_depths(model), cell(100 * comparison.numbers(model, "chance"))
        rows += [(f"{style_of(model).label}: {words}", chance, *(cell(100 * values[:, place]) for place in places))
                 for words, name in GUESSES if (values := _rate(comparison, model, name)) is not None]
    for model in models if "transformer" in models else []:
        if model in COUPLINGS:
            rows += [(f"{style_of(model).label} − Transformer: {words}", "", *_differences(mine[:, comparison.at_transformer_depths(model)] - theirs))
                     for words, name in GUESSES[:9] if name.endswith("cosine") and (mine := _rate(comparison, model, name)) is not None
                     and (theirs := _rate(comparison, "transformer", name)) is not None]
    return rows


def _differences(values: np.ndarray) -> list[str]:
    """Differences of shares, shape (seeds, depths), as text in percentage points."""
    found = []
    for column in 100 * values.T:
        effect = Effect(column)
        low, high = effect.interval()
        text = f"{effect.mean:+.1f}" + (f" [{low:.1f}, {high:.1f}]" if np.isfinite(low) and not effect.deterministic else "")
        found.append(text.replace("-", "−") if effect.count else "–")
    return found
