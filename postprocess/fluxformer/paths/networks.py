"""Trained networks of attention paths: how they learned to classify from one example of each class, what theory and Gaussian process make of
their queries and keys, and what is lost without some of their heads."""

from __future__ import annotations

import numpy as np
from matplotlib.ticker import MaxNLocator

from fluxformer.paths.shared import THEORY, across, finite, lines_of
from fluxformer.report.data import Comparison, Study, Style, mean_and_spread
from fluxformer.report.style import Drawing, canvas, legend, over, panel
from fluxformer.style import INK, SOFT

TRAINING, PRUNING, TRANSFORMERS = "paths_train", "paths_prune", "pruning"
NETWORK = "network"
SETS, SHORT = (INK, "#2563eb", "#e4572e"), ("test", "validation", "foreign")
RANDOM = "random"
ORDERS = {"theory, rising": Style("theory, least score first", INK, "o", "-"), "theory, falling": Style("theory, largest first", "#e4572e", "v", "--"),
          "entropy, most diffuse first": Style("most diffuse attention first", "#0f9d78", "s", "-."),
          "first order, rising": Style("least first-order sensitivity first", "#2563eb", "^", ":")}


def _course(comparison: Comparison) -> Drawing:
    steps, names = comparison.axis("judged_step"), lines_of(comparison, "judged_sets")
    figure = canvas(3.6)
    left, middle, right = figure.subplots(1, 3)
    over(left, steps, comparison.numbers(NETWORK, "loss"), Style("training", SOFT, "", "-"), "training batches")
    over(left, steps, comparison.numbers(NETWORK, "validation_loss"), Style("validation", SETS[1], "o", "-"), names[1])
    over(middle, steps, 100 * comparison.numbers(NETWORK, "validation_accuracy"), Style("validation", SETS[1], "o", "-"), names[1])
    accuracy = 100 * comparison.numbers(NETWORK, "judged_accuracy")
    for k, (name, colour) in enumerate(zip(names, SETS)):
        right.errorbar(k, accuracy[:, k].mean(), accuracy[:, k].std(ddof=1) if len(accuracy) > 1 else None, fmt="o", color=colour, capsize=4, ms=8)
        right.annotate(f"{accuracy[:, k].mean():.1f}", (k, accuracy[:, k].mean()), xytext=(8, 4), textcoords="offset points")
    right.set_xticks(range(len(names)), SHORT)
    right.set_xlim(-0.5, len(names) - 0.3)
    right.margins(y=0.2)
    panel(left, "", "steps", "mean of (f − y)²")
    panel(middle, "", "steps", "validation accuracy  [%]")
    panel(right, "", "", "accuracy  [%]")
    legend(figure, left)
    return Drawing("paths-training", "A network of attention paths learns from one example of each class",
                   "Left and middle: loss and accuracy while all of its weights are trained, on new examples in each step. Right: accuracy of the "
                   f"weights whose validation loss was least: {names[0]}; {names[1]}; foreign images, {names[2]}. Half of the examples would be "
                   "right by chance. Means over seeds, bars and bands one standard deviation.", figure, comparison.runs)


def draw_training(study: Study) -> list[Drawing]:
    """Draws how networks learned; None without a file of `paths_train`."""
    comparison = study.of(TRAINING)
    return [_course(comparison)] if comparison is not None else []


def training_table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: accuracy on each set of examples."""
    accuracy = 100 * comparison.numbers(NETWORK, "judged_accuracy")
    return [("examples", "accuracy, %"), *((name, mean_and_spread(accuracy[:, k])) for k, name in enumerate(lines_of(comparison, "judged_sets")))]


def chosen(by: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Numbers [seed, width] at the temperature at which `by` is largest, from numbers [seed, temperature, width]."""
    return np.take_along_axis(of, by.argmax(axis=1)[:, None], axis=1)[:, 0]


def draw_sets(comparison: Comparison) -> Drawing:
    """Draws what theory and Gaussian process predict for each set of examples; the temperature is chosen on
    validation examples."""
    test, further = (100 * comparison.numbers("theory", name) for name in ("accuracy", "further_accuracy"))
    names = lines_of(comparison, "further_sets")
    figure = canvas(3.8)
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        axes.set_xscale("log")
    choices = (("chosen on validation examples", further[..., 0], THEORY), ("chosen on the test examples: optimistic", test, Style("", SOFT, "s", "--")))
    for label, by, style in choices:
        accuracy = chosen(by, test)
        over(left, finite(comparison), accuracy[:, :-1], style._replace(label=label), f"T {label}")
        across(left, accuracy[:, -1], style.colour, "--" if style is THEORY else ":", f"Gaussian process, T {label.split(':')[0]}")
    for name, values, colour, marker in zip(("test", *names), (test, *np.moveaxis(further, -1, 0)), SETS, "o^s"):
        accuracy = chosen(further[..., 0], values)
        over(right, finite(comparison), accuracy[:, :-1], Style(name, colour, marker, "-"), name)
        across(right, accuracy[:, -1], colour, "--", "")
    panel(left, "test examples", "width N", "accuracy  [%]")
    panel(right, "T chosen on validation examples", "width N", "")
    legend(figure, left, right)
    return Drawing("paths-sets", "One-shot classification at finite width",
                   f"Accuracy of the theory's predictor ({comparison.facts()['task']}) by width; dashed: the Gaussian process of infinite width. For "
                   "each width and seed the temperature is the best one for validation examples; choosing it on the test examples themselves "
                   "would flatter. Means over seeds, bands one standard deviation.", figure, comparison.runs)


def sets_table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: predictions by width, at the temperature chosen on validation
    examples."""
    test, further = (100 * comparison.numbers("theory", name) for name in ("accuracy", "further_accuracy"))
    by = further[..., 0]
    sets = [("test", chosen(by, test)), ("test, T chosen on it", chosen(test, test)),
            *((name, chosen(by, further[..., k])) for k, name in enumerate(lines_of(comparison, "further_sets")))]
    heading = ("examples", *(f"N = {width:g}" for width in finite(comparison)), "Gaussian process")
    return [heading, *((name, *(mean_and_spread(column) for column in values.T)) for name, values in sets)]


def _pruned(comparison: Comparison, model: str) -> Drawing:
    accuracy = 100 * comparison.numbers(model, "pruned_accuracy")
    names, lost = lines_of(comparison, "pruning_orders"), comparison.axis("silenced")
    figure = canvas(3.9)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    random = [k for k, name in enumerate(names) if name.startswith(RANDOM)]
    if random:
        over(left, lost, accuracy[:, random].mean(axis=1), Style(RANDOM, SOFT, "", "-"), f"mean of {len(random)} random orders")
    for name, style in ORDERS.items():
        over(left, lost, accuracy[:, names.index(name)], style, style.label)
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel(left, "", "heads silenced", "test accuracy  [%]")
    scores, layers = comparison.numbers(model, "rule_score").mean(axis=0), comparison.axis("layer")
    rules = lines_of(comparison, "pruning_rules")
    labels = [f"{layer:g}.{head}" for layer, of_layer in zip(layers, scores[0]) for head, score in enumerate(of_layer, 1) if np.isfinite(score)]
    for k, (rule, colour) in enumerate(zip(rules, (INK, "#0f9d78", "#2563eb"))):
        right.bar(np.arange(len(labels)) + 0.27 * (k - 1), np.abs(scores[k][np.isfinite(scores[k])]), width=0.25, color=colour, label=rule)
    right.set_xticks(range(len(labels)), labels)
    panel(right, "", "head (layer.head)", "score, over the largest")
    legend(figure, left)
    right.set_ylim(0, 1.2)
    right.legend(fontsize=8, frameon=False, loc="upper center", ncols=3)
    facts = comparison.facts()
    of_paths = model == NETWORK
    return Drawing("paths-pruning" if of_paths else "pruning-transformers", "What is lost without some of the heads",
                   f"Left: accuracy of the trained {'networks of attention paths' if of_paths else 'Transformers'}, whose heads are silenced one after another and which are not trained again; a line "
                   f"ends where a layer has no head left, that of random orders where one of them has none. The theory's scores are those of N = {facts['pruning_width']:g} at "
                   f"T = {facts['pruning_temperature']:g}. Right: the scores; of entropy the most focused head has the smallest. Means over seeds, bands one standard "
                   "deviation.", figure, comparison.runs)


def draw_pruning(study: Study) -> list[Drawing]:
    """Draws what networks lose without some heads; None without a file of `paths_prune`."""
    comparison = study.of(PRUNING)
    return [_pruned(comparison, NETWORK)] if comparison is not None else []


def draw_transformers(study: Study) -> list[Drawing]:
    """Draws what Transformers lose without some heads; None without a file of `pruning`."""
    comparison = study.of(TRANSFORMERS)
    return [_pruned(comparison, "transformer")] if comparison is not None else []


def pruning_table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: accuracy after none, one, two, ... heads by each order."""
    model = next(iter(comparison.having("pruned_accuracy")))
    accuracy, names = 100 * comparison.numbers(model, "pruned_accuracy"), lines_of(comparison, "pruning_orders")
    random = [k for k, name in enumerate(names) if name.startswith(RANDOM)]
    rows = [(style.label, accuracy[:, names.index(name)]) for name, style in ORDERS.items()]
    if random:
        rows.append(("random, mean", accuracy[:, random].mean(axis=1)))
    return [("order", *(f"{lost:g} silenced" for lost in comparison.axis("silenced"))),
            *((label, *(mean_and_spread(column) for column in values.T)) for label, values in rows)]
