"""Perturbations in the report: accuracy against their level, growth through depth, sensitivity."""

from __future__ import annotations

import numpy as np

from fluxformer.report.data import INDEPENDENT, MODELS, Comparison, Study, mean_and_spread
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, bars, canvas, legend, over, panel, style_of
from fluxformer.statistics import Effect
from fluxformer.style import plain_numbers

KINDS = (("noise", "noise_level", "Noise on the input", "deviation / rms of the input"),
         ("feature_noise", "feature_noise_level", "Noise on the pixels", "deviation / deviation of a pixel"),
         ("dropped", "dropped_share", "Tokens emptied", "share of the tokens"),
         ("worst", "attack_level", "Worst direction", "step / norm of the input"),
         ("fgsm", "attack_level", "One sign step (FGSM)", "largest change / rms of the input"),
         ("pgd", "attack_level", "Sign steps (PGD)", "largest change / rms of the input"),
         ("feature_fgsm", "feature_attack_level", "FGSM on the pixels", "largest change / deviation of a pixel"),
         ("feature_pgd", "feature_attack_level", "PGD on the pixels", "largest change / deviation of a pixel"))


def _accuracies(comparison: Comparison, kinds: list[tuple[str, str, str, str]]) -> Drawing:
    rows = -(-len(kinds) // 4)
    figure = canvas(2.6 * rows + 0.4)
    panels = figure.subplots(rows, min(len(kinds), 4), sharey=True, squeeze=False)
    for axes, (kind, axis, title, unit) in zip(panels.ravel(), kinds):
        levels = np.concatenate([[0], comparison.axis(axis)])
        for model in comparison.having(f"{kind}_accuracy"):
            clean, values = comparison.numbers(model, "accuracy"), comparison.numbers(model, f"{kind}_accuracy")
            over(axes, levels, 100 * np.column_stack([clean, values]), style_of(model), style_of(model).label)
        panel(axes, title, unit, "classified correctly  [%]" if axes in panels[:, 0] else "")
        axes.set_ylim(0, 102)
        axes.xaxis.label.set_fontsize(9)
        axes.xaxis.set_major_formatter(plain_numbers)
    for axes in panels.ravel()[len(kinds):]:
        axes.set_visible(False)
    legend(figure, panels[0, 0])
    return Drawing("perturbation-accuracy", "Accuracy under perturbations",
                   "The same perturbations for all models, drawn once for each test sample; level 0 is the clean input. Noise and sign steps are "
                   "those of the embedded input where pixels are not named; sign steps follow each model's own gradient.", figure, comparison.runs)


def _sensitivity(comparison: Comparison) -> Drawing:
    figure = canvas(3.5)
    panels = figure.subplots(1, 3, width_ratios=[1.2, 1.2, 1])
    panels[0].set_yscale("log")
    for model in comparison.having("growth"):
        over(panels[0], comparison.depth(model), comparison.numbers(model, "growth"), style_of(model), style_of(model).label)
    panel(panels[0], "Growth through depth", "depth s  [layers]", "‖δu(s)‖ / ‖δu(0)‖")
    for model in comparison.having("noise_sensitivity"):
        over(panels[1], comparison.axis("noise_level"), comparison.numbers(model, "noise_sensitivity"), style_of(model), style_of(model).label)
    panels[1].set_ylim(0, None)
    panel(panels[1], "Relative sensitivity to noise", "deviation / rms of the input", "(‖δz‖/‖z‖) / (‖δu(0)‖/‖u(0)‖)")
    name = "relative_singular_value"
    if models := comparison.having(name):
        bars(panels[2], comparison, name, models)
        panel(panels[2], "To the worst direction", "model", "relative sensitivity, largest")
    else:
        panels[2].set_visible(False)
    legend(figure, *panels[:2])
    return Drawing("perturbation-growth", "What becomes of small differences",
                   "Left: a small random difference of the embedded input on its way through depth. Middle and right: relative change of the "
                   "logits z over that of the input; 1 passes it on as it is.", figure, comparison.runs)


def draw(study: Study) -> list[Drawing]:
    """Draws the figures of the perturbations; none if they were not run."""
    comparison = study.of("perturbation")
    if comparison is None:
        return []
    kinds = [kind for kind in KINDS if comparison.having(f"{kind[0]}_accuracy")]
    drawings = [_accuracies(comparison, kinds)] if kinds else []
    if comparison.having("growth"):
        drawings.append(_sensitivity(comparison))
    return drawings


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: accuracy in per cent, perturbation by perturbation, and by how many points the PDE models that
    were trained on the labels alone differ from the Transformer, with its 95 % interval over seeds."""
    models = [model for model in MODELS if model in comparison.models]
    against = [model for model in INDEPENDENT if model in models and "transformer" in models]
    rows: list[tuple[str, ...]] = [("accuracy  [%]", "level", *(MODELS[model].label for model in models),
                                    *(f"{MODELS[model].label} − Transformer" for model in against))]

    def row(name: str, level: str, of_seeds: dict[str, np.ndarray]) -> tuple[str, ...]:
        return (name, level, *(mean_and_spread(100 * of_seeds[model]) if model in of_seeds else "–" for model in models),
                *(_points(Effect(100 * (of_seeds[model] - of_seeds["transformer"]))) if {model, "transformer"} <= set(of_seeds) else "–" for model in against))

    rows.append(row("Not perturbed", "", {model: comparison.numbers(model, "accuracy") for model in comparison.having("accuracy")}))
    for kind, axis, title, _ in KINDS:
        measured = {model: comparison.numbers(model, f"{kind}_accuracy") for model in comparison.having(f"{kind}_accuracy")}
        rows += [row(title, f"{level:g}", {model: values[:, k] for model, values in measured.items()})
                 for k, level in enumerate(comparison.axis(axis))] if measured else []
    return rows


def _points(difference: Effect) -> str:
    low, high = difference.interval()
    text = f"{difference.mean:+.1f}" + (f" [{low:.1f}, {high:.1f}]" if np.isfinite(low) else "")
    return text.replace("-", "−")


SECTIONS = (Section(7, "perturbation", "Perturbations", "perturbation", draw, table),)
