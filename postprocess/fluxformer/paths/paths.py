"""Attention paths: what the theory at finite width predicts, which paths it weighs, where the labels stand in its kernels, and which heads
it needs."""

from __future__ import annotations

import numpy as np
from matplotlib.ticker import MaxNLocator

from fluxformer.paths import networks, sampling
from fluxformer.paths.shared import SIGNED, THEORY, across, finite, lines_of
from fluxformer.report.data import Comparison, Study, Style, mean_and_spread
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, over, panel
from fluxformer.style import ACCENT, INK, SOFT

EXPERIMENT, GROUP = "paths_theory", "theory"
PARTS = ("#2563eb", "#0f9d78", "#8e44ad")


def _parts(comparison: Comparison) -> dict[str, np.ndarray]:
    """Accuracies of the Gaussian processes of parts of the network, [seed, temperature]; none where there are no parts."""
    if "part_accuracy" not in comparison.measures[GROUP]:
        return {}
    return dict(zip(lines_of(comparison, "parts"), np.moveaxis(comparison.numbers(GROUP, "part_accuracy"), -1, 0)))


def _accuracies(comparison: Comparison) -> Drawing:
    temperatures, widths = comparison.axis("temperature"), finite(comparison)
    shown = sorted({0, len(temperatures) // 2, len(temperatures) - 1}) if len(temperatures) > 3 else range(len(temperatures))
    accuracy = 100 * comparison.numbers(GROUP, "accuracy")
    parts = _parts(comparison)
    figure = canvas(3.9)
    panels = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
    for axes, k in zip(panels, shown):
        axes.set_xscale("log")
        over(axes, widths, accuracy[:, k, :-1], THEORY, THEORY.label)
        across(axes, accuracy[:, k, -1], ACCENT, "--", "Gaussian process (infinite width)")
        for name, colour, part in zip(parts, PARTS, parts.values()):
            across(axes, 100 * part[:, k], colour, ":", f"Gaussian process of {name} alone")
        panel(axes, f"T = {temperatures[k]:g}" if len(temperatures) > 1 else "", "width N", "test accuracy  [%]" if axes is panels[0] else "")
    legend(figure, *panels)
    dotted = "Dotted: networks that have some of the heads only, at infinite width." if parts else ""
    return Drawing("paths-accuracy", "A network of finite width beside its infinite limit",
                   f"Accuracy of the mean predictor on the test examples ({comparison.facts()['task']}, "
                   f"{comparison.facts()['train_examples']} training examples). Lines are means over seeds, bands one standard deviation. {dotted}", figure, comparison.runs)


def _orders(comparison: Comparison) -> Drawing:
    widths = comparison.axis("width")
    shown = sorted({0, len(widths) // 3, 2 * len(widths) // 3, len(widths) - 1})
    orders = comparison.numbers(GROUP, "order")[:, 0, :, 0].mean(axis=0)[shown]  # U_1 at the first temperature
    names = lines_of(comparison, "path_names")
    figure = canvas(3.4)
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    for axes, place, order in zip(panels, shown, orders):
        share = order / np.abs(order).max()
        image = axes.imshow(share, cmap=SIGNED, vmin=-1, vmax=1, interpolation="nearest")
        panel(axes, f"N = {widths[place]:g}" if np.isfinite(widths[place]) else "Gaussian process", "", "")
        axes.grid(False)
        ticks = range(len(names)) if len(names) <= 4 else ()
        axes.set_xticks(ticks, [names[k] for k in ticks], fontsize=8, rotation=40, ha="right", rotation_mode="anchor")
        axes.set_yticks(ticks, [names[k] for k in ticks] if axes is panels[0] else ["" for _ in ticks], fontsize=8)
        if not ticks:
            axes.set_xlabel("path")
            axes.set_ylabel("path" if axes is panels[0] else "")
        if len(names) <= 4:
            for (i, j), value in np.ndenumerate(order):
                axes.text(j, i, f"{value:.2f}".replace("-", "−"), ha="center", va="center", fontsize=8,
                          color="white" if abs(share[i, j]) > 0.6 else INK)
    figure.colorbar(image, ax=list(panels), label="U, over the largest entry", shrink=0.85)
    return Drawing("paths-order", "Which pairs of paths the kernel is made of",
                   "Order parameters U between paths: the kernel is the sum of the kernels between paths, weighted by them. At infinite width "
                   f"all paths have the same weight. Colours are relative to the largest entry of each matrix. Means over {len(comparison.seeds)} seed(s), T = {comparison.axis('temperature')[0]:g}.",
                   figure, comparison.runs)


def _components(comparison: Comparison) -> Drawing:
    widths, place = comparison.axis("width"), comparison.axis("component")
    overlaps = comparison.numbers(GROUP, "overlap")[:, 0]
    figure = canvas(3.6)
    left, right = figure.subplots(1, 2)
    for k, colour, marker in ((0, INK, "o"), (len(widths) // 2, "#2563eb", "^"), (len(widths) - 1, ACCENT, "s")):
        label = f"N = {widths[k]:g}" if np.isfinite(widths[k]) else "Gaussian process"
        style = Style(label, colour, marker, "-")
        over(left, place, overlaps[:, k], style, label)
        over(right, place, np.cumsum(overlaps[:, k] ** 2, axis=-1), style, label)
    panel(left, "", "principal component of the kernel", "overlap with the labels")
    panel(right, "", "components, the largest first", "share of the labels in them")
    legend(figure, left, right)
    return Drawing("paths-components", "Where the labels stand in the kernels",
                   "Left: overlap of the labels of the training examples with each principal component of the kernel. Right: share of the labels "
                   "in the first components. Lines are means over seeds, bands one standard deviation.", figure, comparison.runs)


def _heads(comparison: Comparison) -> Drawing:
    widths, layers = comparison.axis("width"), comparison.axis("layer")
    scores = comparison.numbers(GROUP, "head_score")[:, 0, 0].mean(axis=0)
    left_over = 100 * comparison.numbers(GROUP, "ablated_accuracy")[:, 0]
    whole = 100 * comparison.numbers(GROUP, "accuracy")[:, 0]
    figure = canvas(3.6)
    left, right = figure.subplots(1, 2)
    names = [f"{layer:g}.{head:g}" for layer, of_layer in zip(layers, scores) for head, score in enumerate(of_layer, 1) if np.isfinite(score)]
    left.bar(range(len(names)), scores[np.isfinite(scores)], color=INK, width=0.7)
    left.set_xticks(range(len(names)), names)
    panel(left, f"N = {widths[0]:g}", "head (layer.head)", "score, over the largest")
    removed = np.concatenate([[0], comparison.axis("removed")])
    for k, colour, marker in ((0, INK, "o"), (len(finite(comparison)) // 2, "#2563eb", "^")):
        label = f"N = {widths[k]:g}"
        values = np.concatenate([whole[:, k, None], left_over[:, k]], axis=1)
        over(right, removed, values, Style(label, colour, marker, "-"), label)
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel(right, "", "heads silenced, the least score first", "test accuracy  [%]")
    legend(figure, right)
    return Drawing("paths-heads", "Which heads count, and what is lost without the others",
                   "Left: score of each head, the sum of the order parameters of the pairs of paths through it; mean over seeds. Right: accuracy "
                   "of the theory's predictor after silencing heads in the order parameters one after another. Lines end where a layer has no "
                   "head left.", figure, comparison.runs)


def draw(study: Study) -> list[Drawing]:
    """Draws accuracies, order parameters, components and heads; none without a file of `paths_theory`."""
    comparison = study.of(EXPERIMENT)
    if comparison is None or not comparison.having("accuracy"):
        return []
    sets = [networks.draw_sets(comparison)] if "further_accuracy" in comparison.measures[GROUP] else []
    return [_accuracies(comparison), *sets, _orders(comparison), _components(comparison), _heads(comparison)]


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: accuracy by temperature and width, with the Gaussian
    processes; for the one-shot task by sets of examples."""
    if "further_accuracy" in comparison.measures[GROUP]:
        return networks.sets_table(comparison)
    accuracy, parts = comparison.numbers(GROUP, "accuracy"), _parts(comparison)
    heading = ("T", *(f"N = {width:g}" for width in finite(comparison)), "Gaussian process", *(f"Gaussian process of {name}" for name in parts))
    return [heading, *((f"{temperature:g}", *(mean_and_spread(100 * values) for values in (*accuracy[:, k].T, *(part[:, k] for part in parts.values()))))
                       for k, temperature in enumerate(comparison.axis("temperature")))]


SECTIONS = (Section(16, "paths", "Attention paths", EXPERIMENT, draw, table),
            Section(17, "paths-samples", "Attention paths: draws from the posterior", sampling.EXPERIMENT, sampling.draw, sampling.table),
            Section(18, "paths-networks", "Attention paths: trained networks", networks.TRAINING, networks.draw_training, networks.training_table),
            Section(19, "paths-pruning", "Attention paths: pruned networks", networks.PRUNING, networks.draw_pruning, networks.pruning_table),
            Section(20, "pruning", "Transformers without some of their heads", networks.TRANSFORMERS, networks.draw_transformers,
                    networks.pruning_table))
