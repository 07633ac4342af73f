"""The information bottleneck in the report: what states know of input and label, by depth, by estimator, over
training."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from fluxformer.report.data import MODELS, Comparison, Study, first_and_last
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, over, panel, plt, style_of
from fluxformer.style import SOFT

ESTIMATORS = {"binning": "binning", "kde": "kernel density", "ksg": "nearest neighbours (KSG)", "gaussian": "Gaussian"}
ABOUT = {"input": ("input", "I(X; T)  [nat]", "ceiling", "ceiling ln N"), "label": ("label", "I(T; Y)  [nat]", "label_entropy", "H(Y)")}


def _parameters(comparison: Comparison) -> str:
    """The parameters of the estimators, in words."""
    settings = comparison.runs[0].settings
    facts = comparison.facts()
    get = lambda name: settings.get("bottleneck." + name, "?")  # noqa: E731
    return (f"N = {facts.get('samples', '?')} samples; binning: {get('bins')} bins on each of {get('components')} principal components; KSG: "
            f"k = {get('neighbours')} on the same; noise σ = {get('noise')} deviations for kernel density, KSG and Gaussian.")


def _draw_limit(axes: Axes, limit: float, label: str) -> None:
    """Draws the line that no estimate should cross; the axis shows it whole, and from zero where nothing is below."""
    numbers = np.concatenate([line.get_ydata() for line in axes.lines]) if axes.lines else np.array([limit])
    low, high = min(np.nanmin(numbers), 0), max(np.nanmax(numbers), limit)
    axes.axhline(limit, color=SOFT, ls="--", lw=1.3, label=label)
    axes.set_ylim(low - (0.05 * (high - low) if low < 0 else 0), high + 0.06 * (high - low))


def _by_depth(comparison: Comparison, about: str, estimators: list[str]) -> Drawing:
    what, unit, limit_name, limit_label = ABOUT[about]
    limit = comparison.facts().get(limit_name)
    figure = canvas(3.5)
    panels = figure.subplots(1, len(estimators), squeeze=False)[0]
    for axes, estimator in zip(panels, estimators):
        for model in comparison.having(f"{about}_{estimator}"):
            style = style_of(model)
            over(axes, comparison.depth(model), comparison.numbers(model, f"{about}_{estimator}"), style, style.label)
        panel(axes, ESTIMATORS[estimator], "depth s  [layers]", unit)
        if limit is not None:
            _draw_limit(axes, limit, f"{limit_label} = {limit:.2f}")
    legend(figure, *panels)
    reading = {"input": "No estimate from N samples can vouch for more than ln N (dashed), and without noise a layer that loses nothing has "
                        "exactly ln N: a fall says as much about the resolution of the estimator as about the network.",
               "label": "What the states know of the class; the entropy of the labels (dashed) is the most there is to know."}[about]
    return Drawing(f"information-{about}", f"Information about the {what}, by four estimators" if len(estimators) == 4 else
                   f"Information about the {what}", f"{reading} {_parameters(comparison)}", figure, comparison.runs)


def _over_epochs(comparison: Comparison, about: str, estimator: str, models: list[str]) -> Drawing:
    unit = ABOUT[about][1]
    epochs = comparison.axis("copied_epoch")
    figure = canvas(3.3)
    panels = figure.subplots(1, len(models), sharey=True, squeeze=False)[0]
    colours = plt.get_cmap("viridis", len(epochs) + 1)
    for axes, model in zip(panels, models):
        values = comparison.numbers(model, f"epoch_{about}_{estimator}")
        for k, epoch in enumerate(epochs):
            own = style_of(model)._replace(colour=colours(k), line="-", label=f"epoch {epoch:g}")
            over(axes, comparison.depth(model), values[:, k], own, own.label, alpha=0.9)
        panel(axes, style_of(model).label, "depth s  [layers]", unit if axes is panels[0] else "")
    legend(figure, panels[0])
    return Drawing(f"information-epochs-{about}", f"Information about the {ABOUT[about][0]} while training",
                   f"From the untrained model (epoch 0, dark) to the last copy (light); estimator: {ESTIMATORS[estimator]}. What the untrained "
                   "model does already was not learnt.", figure, comparison.runs)


def _telling(comparison: Comparison, about: str, estimators: list[str]) -> str | None:
    """The estimator that is not at its limit and sees the largest differences, relative to its mean; None if
    there is none."""
    limit = comparison.facts().get(ABOUT[about][2], np.inf)

    def range_of(name: str) -> float:
        values = np.concatenate([comparison.numbers(model, f"{about}_{name}").mean(axis=0) for model in comparison.having(f"{about}_{name}")])
        return float(np.ptp(values) / abs(values.mean())) if values.mean() < limit else 0.0

    return max(estimators, key=range_of) if estimators else None


def draw(study: Study) -> list[Drawing]:
    """Draws the figures of the bottleneck; none if it was not run."""
    comparison = study.of("bottleneck")
    if comparison is None:
        return []
    drawings = []
    for about in ABOUT:
        estimators = [name for name in ESTIMATORS if comparison.having(f"{about}_{name}")]
        if estimators:
            drawings.append(_by_depth(comparison, about, estimators))
        shown = _telling(comparison, about, [name for name in estimators if comparison.having(f"epoch_{about}_{name}")])
        if shown:
            models = [model for model in comparison.having(f"epoch_{about}_{shown}")
                      if np.size(comparison.numbers(model, f"epoch_{about}_{shown}"))]
            drawings.append(_over_epochs(comparison, about, shown, models))
    return drawings


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: every estimate at the first and at the last depth."""
    models = [model for model in MODELS if model in comparison.models]
    rows: list[tuple[str, ...]] = [("first depth → last", "estimator", *(MODELS[model].label for model in models))]
    for about, (_, unit, _, _) in ABOUT.items():
        for estimator, name in ESTIMATORS.items():
            measured = [comparison.measure(model, f"{about}_{estimator}") for model in models]
            if any(values is not None for values in measured):
                rows.append((unit, name, *("–" if values is None else first_and_last(values) for values in measured)))
    return rows


SECTIONS = (Section(5, "bottleneck", "Information bottleneck", "bottleneck", draw, table),)
