"""The Hessian in the report: spectra, heterogeneity and sharpness of trained models; entries and growth of one attention layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fluxformer.hessian.figures import (density_scale, density_sentence, draw_block_ends, draw_density, draw_heterogeneity, draw_sharpness,
                                        with_sharpness)
from fluxformer.hessian.layers import (QUERY, VALUE, WEIGHTS, curves, draw_entries, draw_growth, growth_sentence, numbers, slope,
                                       with_growth)
from fluxformer.hessian.spectra import EXACT, PARTS, PARTS_OF_MODELS, Spectra
from fluxformer.report.data import MODELS, Comparison, Study, mean_and_spread
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend

Rows = list[tuple[str, ...]]


def _density(data: Spectra) -> Drawing:
    models, scale = data.with_density(), density_scale(data)
    across = 2 if len(models) > 1 else 1
    down = -(-len(models) // across)
    figure = canvas(2.6 * down + 0.5)
    panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    for axes, model in zip(panels, models):
        draw_density(axes, data, model, scale)
        axes.set_ylabel(axes.get_ylabel() if axes.get_subplotspec().is_first_col() else "")
    for axes in panels[len(models):]:
        axes.set_axis_off()
    for k, axes in enumerate(panels[:len(models)]):
        if k + across >= len(models):
            axes.set_xlabel("eigenvalue λ  [nat]")
            axes.tick_params(labelbottom=True)
    legend(figure, *panels)
    return Drawing("hessian-density", "How the eigenvalues are distributed",
                   f"{density_sentence(scale)}. Mean over seeds and probes.", figure, data.comparison.runs)


def _heterogeneity(data: Spectra) -> Drawing:
    parts = [part for part in PARTS_OF_MODELS if any(data.has(model, part, "heterogeneity") for model in data.models)]
    figure = canvas(3.6)
    panels = figure.subplots(1, len(parts), squeeze=False, sharey=True)[0]
    for axes, part in zip(panels, parts):
        draw_heterogeneity(axes, data, part)
        axes.set_ylabel(axes.get_ylabel() if axes is panels[0] else "")
    high = panels[0].get_ylim()[1]
    panels[0].set_ylim(-0.03 * high, high)
    return Drawing("hessian-heterogeneity", "How much the blocks differ from each other",
                   "Mean Jensen-Shannon distance between the spectral densities of the diagonal blocks (Q, K, V, O, W_1, W_G, W_2 of each layer, "
                   "embedding, head), each in units of its rms eigenvalue; estimated distances within twice the noise of the probes count as 0. "
                   "Dots are seeds, bars their means.", figure, data.comparison.runs)


def _block_ends(data: Spectra, models: list[str]) -> Drawing:
    figure = canvas(0.6 + 0.125 * max(len(data.block_names(model)) for model in models) + 0.9)
    panels = figure.subplots(1, len(models), squeeze=False, sharex=True)[0]
    for axes, model in zip(panels, models):
        draw_block_ends(axes, data, model)
        axes.set_title(MODELS[model].label, fontsize=10.5)
        axes.set_ylabel("block" if axes is panels[0] else "")
    legend(figure, *panels)
    return Drawing("hessian-blocks", "The largest eigenvalue of each block",
                   "Largest absolute eigenvalue of the diagonal blocks. Dots are seeds, bars their means.", figure, data.comparison.runs)


def _sharpness(data: Spectra, eigenvalues: list[str]) -> Drawing:
    figure = canvas(3.6)
    for axes, eigenvalue in zip(figure.subplots(1, len(eigenvalues), squeeze=False)[0], eigenvalues):
        draw_sharpness(axes, data, eigenvalue)
    legend(figure, *figure.axes)
    return Drawing("hessian-sharpness", "Sharpness over the training",
                   "Learning rate times the largest eigenvalue, of H and of D⁻½ H D⁻½ (D: root of the optimiser's second moments), after some "
                   "epochs. With full batches the optimiser is unstable above the dashed line. Lines are means over seeds, dots are seeds.",
                   figure, data.comparison.runs)


def draw(study: Study) -> list[Drawing]:
    """Draws the figures of trained models; none if their Hessians were not measured."""
    comparison = study.of("hessian_spectrum")
    if comparison is None:
        return []
    data = Spectra(comparison)
    drawings = [_density(data)] if data.with_density() else []
    if data.having("heterogeneity"):
        drawings.append(_heterogeneity(data))
    if models := data.having("block_largest_eigenvalue"):
        drawings.append(_block_ends(data, models))
    if sharp := with_sharpness(data):
        drawings.append(_sharpness(data, sharp))
    return drawings


# heading, measure, how the numbers of a seed become one
COLUMNS: tuple[tuple[str, str, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("largest λ  [nat]", "largest_eigenvalue", lambda values: values[:, 0]),
    ("smallest λ  [nat]", "smallest_eigenvalue", lambda values: values[:, 0]),
    ("trace  [nat]", "trace", lambda values: values),
    ("heterogeneity", "heterogeneity", lambda values: values))


def table(comparison: Comparison) -> Rows:
    """Rows of text, the first of them headings: ends, trace and heterogeneity by model, of H and of its
    parts; heterogeneity of all blocks, and of the blocks of layers alone."""
    data = Spectra(comparison)
    rows: Rows = [("model, part", *(heading for heading, _, _ in COLUMNS), "within layers")]
    for model in data.models:
        for part, name in PARTS_OF_MODELS.items():
            measures = ["eigenvalue" if part == EXACT and measure == "largest_eigenvalue" else measure for _, measure, _ in COLUMNS]
            cells = [mean_and_spread(of_seed(data.numbers(model, part, measure))) if data.has(model, part, measure) else "–"
                     for measure, (_, _, of_seed) in zip(measures, COLUMNS)]
            inner = data.has(model, part, "block_distance") and data.has(model, part, "block_norm")
            cells.append(mean_and_spread(data.layer_heterogeneity(model, part)) if inner else "–")
            if set(cells) != {"–"}:
                rows.append((f"{MODELS[model].label}: {name}", *cells))
    return rows


def draw_entries_study(study: Study) -> list[Drawing]:
    """Draws the histograms of one layer; none if they were not made."""
    comparison = study.of("hessian_blocks")
    if comparison is None or not (kinds := comparison.having("entry_share")):
        return []
    figure = canvas(3.7)
    panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    for axes, kind in zip(panels, kinds):
        draw_entries(axes, comparison, kind)
        axes.set_ylabel(axes.get_ylabel() if axes is panels[0] else "")
    legend(figure, *panels)
    return [Drawing("hessian-entries", "How large the entries of the diagonal blocks are",
                    "One attention layer of a decoder with random weights that adds numbers. Lines are means over seeds; dashed: medians.",
                    figure, comparison.runs)]


def entries_table(comparison: Comparison) -> Rows:
    """Rows of text, the first of them headings: medians of the sizes of entries, and how far the medians of
    query lie below those of value."""
    rows: Rows = [("layer, part", *(f"median log₁₀ |entry|, {name}" for name, _, _ in WEIGHTS), "V over Q  [decades]")]
    for kind in comparison.having("median_entry"):
        for part, name in PARTS.items():
            if (part == "hessian" or f"{part}_median_entry" in comparison.measures[kind]):
                medians = numbers(comparison, kind, part, "median_entry")
                medians = np.where(np.isfinite(medians), medians, np.nan)
                rows.append((f"{MODELS[kind].label}: {name}", *(mean_and_spread(medians[:, one]) for one in range(len(WEIGHTS))),
                             mean_and_spread(medians[:, VALUE] - medians[:, QUERY])))
    return rows


def draw_growth_study(study: Study) -> list[Drawing]:
    """Draws the growth of the norms of one layer, a figure for each kind of attention; none if it was not measured."""
    comparison = study.of("hessian_scaling")
    if comparison is None:
        return []
    layers, drawings = len(comparison.axis("layer")), []
    for kind in with_growth(comparison):
        figure = canvas(2.7 * layers + 0.4)
        panels = figure.subplots(layers, len(PARTS), squeeze=False, sharex=True, sharey="row")
        for layer, line in enumerate(panels):
            for axes, part in zip(line, PARTS):
                draw_growth(axes, comparison, kind, part, layer)
                axes.set_title(f"layer {layer + 1}: {PARTS[part]}" if layers > 1 else PARTS[part], fontsize=10.5)
            line[0].set_ylabel("Frobenius norm  [nat]")
        for axes in panels[-1]:
            axes.set_xlabel("σ of the embeddings")
        drawings.append(Drawing(f"hessian-growth-{kind}", MODELS[kind].label,
                                f"{growth_sentence()}.", figure, comparison.runs))
    return drawings


def growth_table(comparison: Comparison) -> Rows:
    """Rows of text, the first of them headings: exponents between the two smallest sigma, by kind and layer;
    the exponents of the matrices of a linear network stand in the first column."""
    rows: Rows = [("layer, part", *(f"exponent, {name}" for name, _, _ in WEIGHTS))]
    for kind in with_growth(comparison):
        for part, name in PARTS.items():
            for layer in range(len(comparison.axis("layer"))):
                found = [(label, mean_and_spread(slope(comparison.axis("sigma"), norms)))
                         for (label, _, _), norms in curves(comparison, kind, part, layer)]
                cells = [text if len(found) == len(WEIGHTS) else f"{label}: {text}" for label, text in found]
                rows.append((f"{MODELS[kind].label}, layer {layer + 1}: {name}", *cells, *[""] * (len(WEIGHTS) - len(cells))))
    return rows


SECTIONS = (Section(9, "hessian", "Hessian of the loss", "hessian_spectrum", draw, table),
            Section(10, "hessian-entries", "Hessian of one attention layer, entries", "hessian_blocks", draw_entries_study, entries_table),
            Section(11, "hessian-growth", "Hessian of one attention layer, growth", "hessian_scaling", draw_growth_study, growth_table))
