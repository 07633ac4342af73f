"""Clusters among the tokens of trained models: soft numbers by depth beside their nulls, what depth does to them, Transformer against PDE model
layer by layer, and the hypotheses of theory head by head.

The effective rank is that of Roy and Vetterli (EUSIPCO 2007, 606): exp of the entropy of the singular values over their sum, of the matrix of a
sample's tokens, scaled to length 1. The energy of a layer is that of theory in the kernel of each of its heads; what is shown is the change of its
logarithm from the beginning of the layer to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from fluxformer.io import RunError
from fluxformer.judging import Judged, Question, Verdict, judge
from fluxformer.report.data import COUPLINGS, Comparison, Study, first_and_last, mean_and_spread, number
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, over, panel, style_of
from fluxformer.statistics import Effect
from fluxformer.style import SOFT

EXPERIMENT = "clusters_models"
CENTRED = 1  # index of the axis centring
ENOUGH = 5   # seeds; from fewer no difference of models is decided
NULLS = (("number_2_normal", "null: normal tokens", "#2563eb", "--"), ("number_2_across", "null: one token of each sample", "#0f9d78", "-."),
         ("number_2_untrained", "null: untrained model", SOFT, ":"))  # measure, label, colour, line


def _shown(comparison: Comparison) -> int:
    """The index of the beta that is drawn: the one nearest to 8."""
    return int(np.abs(np.log(np.maximum(comparison.axis("beta"), 1e-6) / 8)).argmin())


def _by_depth(comparison: Comparison) -> Drawing:
    """A panel for each model, so that each line stands beside its own nulls."""
    at, models = _shown(comparison), comparison.having("number_2")
    columns = min(3, len(models))
    rows = -(-len(models) // columns)
    figure = canvas(0.6 + 2.7 * rows)
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    panels[0].set_yscale("log")
    for axes, model in zip(panels, models):
        style, depth = style_of(model), comparison.depth(model)
        for name, label, colour, line in NULLS:
            if (values := comparison.measure(model, name)) is not None:
                over(axes, depth, values[:, :, CENTRED, at], style._replace(colour=colour, line=line), label, markers=False, alpha=0.8)
        if (values := comparison.measure(model, "number_2_uniform")) is not None:
            axes.axhline(values[:, at].mean(), color=SOFT, lw=0.8, label="null: tokens spread evenly")
        over(axes, depth, comparison.numbers(model, "number_2")[:, :, CENTRED, at], style, "tokens of a sample" if model == models[0] else None)
        panel(axes, style.label, "depth s  [layers]", "N₂ of centred tokens" if axes in panels[::columns] else "")
        axes.title.set_color(style.colour)
    for axes in panels[len(models):]:
        axes.remove()
    legend(figure, *panels[:len(models)])
    return Drawing("clusters-models", f"Do the tokens of trained models cluster with depth? (β = {comparison.axis('beta')[at]:g})",
                   "Soft number of clusters N₂ of a sample's tokens, as points on the sphere, less the mean of all tokens at that depth. Normal tokens have "
                   "its mean and covariance: below them tokens cluster beyond what these say. Below the sets of one token of each sample they cluster "
                   "within a sample, not only by what all samples have in common. Lines are means over seeds, bands one standard deviation.",
                   figure, comparison.runs)


def _of_heads(comparison: Comparison, model: str, name: str) -> np.ndarray:
    """[seed, layer], the mean over the heads and layers that the model has."""
    values = comparison.at(model, name, {})
    assert values is not None
    return values[:, ~np.isnan(values).all(axis=(0, 2))].mean(axis=2)


def _courses(comparison: Comparison) -> Drawing:
    figure = canvas(6.4)
    (energy, rank), (angle, cosines) = figure.subplots(2, 2)
    for model in comparison.having("energy_change"):
        style, depth = style_of(model), comparison.depth(model)
        untrained = style._replace(line=":")
        change, change_untrained = (_of_heads(comparison, model, name) for name in ("energy_change", "energy_change_untrained"))
        layer = 1 + np.arange(change.shape[1])
        over(energy, layer, change, style, style.label)
        over(energy, layer, change_untrained, untrained, markers=False, alpha=0.7)
        over(rank, depth, comparison.numbers(model, "effective_rank")[:, :, CENTRED], style, style.label)
        over(rank, depth, comparison.numbers(model, "effective_rank_untrained")[:, :, CENTRED], untrained, markers=False, alpha=0.7)
        over(angle, depth, comparison.numbers(model, "leader_angle")[:, :, CENTRED], style, style.label)
        over(cosines, depth, comparison.numbers(model, "cosine_within")[:, :, 0], style, style.label)
        over(cosines, depth, comparison.numbers(model, "cosine_between")[:, :, 0], style._replace(line="--"), markers=False)
    for line, label in ((":", "untrained model"), ("--", "tokens of different samples")):
        cosines.plot([], [], line, color=SOFT, label=label)
    for axes in (energy, cosines):
        axes.axhline(0, color=SOFT, lw=0.8)
    energy.annotate("theory: above 0", (0.02, 0), xycoords=("axes fraction", "data"), xytext=(0, 3), textcoords="offset points", fontsize=9, color=SOFT)
    energy.xaxis.set_major_locator(MaxNLocator(integer=True))
    rank.set_ylim(0, None)
    angle.set_ylim(0, None)
    panel(energy, "Does the energy rise in each layer?", "layer", "change of log E, mean over heads")
    panel(rank, "Directions that the tokens of a sample span", "depth s  [layers]", "effective rank")
    panel(angle, "How far are tokens from their leaders?", "depth s  [layers]", "angle to the nearest leader")
    panel(cosines, "Do tokens point the same way?", "depth s  [layers]", "mean cosine of two tokens")
    legend(figure, energy, rank, angle, cosines)
    return Drawing("clusters-courses", "Energy, rank, leaders and cosines by depth",
                   "Energy of the tokens in the kernels of a layer's own heads, at its end less at its beginning: below 0 it falls, against theory. Rank and "
                   "leaders are of centred tokens, cosines of tokens as they are. Lines are means over seeds, bands one standard deviation.",
                   figure, comparison.runs)


class LayerDifference(NamedTuple):
    """A PDE model against the Transformer at the end of a layer."""
    model: str
    depth: float
    numbers: tuple[np.ndarray, np.ndarray]  # N_2 of the Transformer and of the model, per seed
    judged: Judged                          # of the difference of logarithms, model less Transformer


def by_layer(comparison: Comparison) -> list[LayerDifference]:
    """N_2 of each PDE model against the Transformer's at each depth where a layer ends; the depths of a model are judged together, two-sided. From
    fewer than ENOUGH seeds nothing is decided. Without models whose depth cells end elsewhere; empty without Transformer."""
    models = comparison.having("number_2")
    if "transformer" not in models:
        return []
    at, found = _shown(comparison), []
    reference = comparison.numbers("transformer", "number_2")[:, :, CENTRED, at]
    for model in (one for one in models if one in COUPLINGS):
        try:
            places = comparison.at_transformer_depths(model)
        except RunError:  # its cells end elsewhere
            continue
        own = comparison.numbers(model, "number_2")[:, places, CENTRED, at]
        effects = [Effect(np.log(mine) - np.log(theirs)) for mine, theirs in zip(own.T, reference.T)]
        for place, (effect, judged) in enumerate(zip(effects, judge([Question((effect,)) for effect in effects]))):
            if effect.count < ENOUGH and judged.verdict is not Verdict.NO_DATA:
                judged = Judged(Verdict.UNDECIDED, effect, judged.p, judged.alpha, judged.interval)
            found.append(LayerDifference(model, float(comparison.depth("transformer")[place]), (reference[:, place], own[:, place]), judged))
    return found


def _against(comparison: Comparison, differences: Sequence[LayerDifference]) -> Drawing:
    figure = canvas(3.4)
    axes = figure.subplots()
    models = list(dict.fromkeys(one.model for one in differences))
    for place, model in enumerate(models):
        style, own = style_of(model), [one for one in differences if one.model == model]
        depth = np.array([one.depth for one in own]) + 0.08 * (place - (len(models) - 1) / 2)
        mean = np.array([one.judged.effect.mean for one in own])
        ends = np.array([one.judged.interval for one in own]).T
        if np.isfinite(ends).any():
            axes.errorbar(depth, np.exp(mean), np.abs(np.exp(ends) - np.exp(mean)), color=style.colour, ls="", capsize=3, lw=1.4)
        decided = np.array([one.judged.verdict in (Verdict.HOLDS, Verdict.OPPOSITE) for one in own])
        for some, face, label in ((decided, style.colour, style.label), (~decided, "white", None if decided.any() else style.label)):
            axes.plot(depth[some], np.exp(mean[some]), style.marker, color=style.colour, mfc=face, ms=6, label=label)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.axhline(1, color=SOFT, lw=0.8)
    panel(axes, "N₂ of the PDE model over that of the Transformer", "depth s  [layers]", "ratio of N₂")
    legend(figure, axes)
    return Drawing("clusters-against", "Transformer against PDE model, layer by layer",
                   "Below 1 tokens of the PDE model cluster more. Bars are intervals over seeds at the level that Holm's procedure leaves for each depth of a "
                   f"model; open markers: undecided (from fewer than {ENOUGH} seeds always).", figure, comparison.runs)


def _hypotheses(comparison: Comparison) -> Drawing:
    figure = canvas(3.6)
    left, right = figure.subplots(1, 2)
    for model in comparison.having("value_mismatch"):
        style = style_of(model)
        names = ("antisymmetry", "value_mismatch", "least_eigenvalue", "value_scale")
        antisymmetry, mismatch, least, scale = (comparison.numbers(model, name).ravel() for name in names)
        left.plot(antisymmetry, mismatch, color=style.colour, marker="o", ms=4, ls="", alpha=0.6, label=style.label)
        right.plot(least, np.sign(scale) * np.sqrt(np.maximum(0, 1 - mismatch**2)), color=style.colour, marker="o", ms=4, ls="", alpha=0.6)
    left.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.04))
    left.plot([0], [0], color=SOFT, marker="*", ms=13, ls="", label="theory")
    right.plot([0], [1], color=SOFT, marker="*", ms=13, ls="")
    right.set_ylim(-1.05, 1.05)
    panel(left, "Heads: one symmetric matrix?", "antisymmetry of W_QᵀW_K", "mismatch of W_O W_V")
    panel(right, "Heads: semi-definite, aligned values?", "least eigenvalue over the largest in size", "cosine of W_O W_V and W_QᵀW_K")
    legend(figure, left, right)
    return Drawing("clusters-heads", "Do heads satisfy the hypotheses of cluster theory?",
                   "One dot for each head, layer and seed. Theory, in which the energy of tokens never falls, has W_O W_V = s W_QᵀW_K with s > 0, symmetric "
                   "and positive semi-definite: the star.", figure, comparison.runs)


def draw(study: Study) -> list[Drawing]:
    """Draws numbers and courses by depth; none without a file of `clusters_models`."""
    comparison = study.of(EXPERIMENT)
    return [] if comparison is None else [_by_depth(comparison), _courses(comparison)]


def draw_heads(study: Study) -> list[Drawing]:
    """Draws the hypotheses of theory, head by head; none without a file of `clusters_models`."""
    comparison = study.of(EXPERIMENT)
    return [] if comparison is None else [_hypotheses(comparison)]


def draw_against(study: Study) -> list[Drawing]:
    """Draws PDE models over the Transformer; none without both."""
    comparison = study.of(EXPERIMENT)
    differences = [] if comparison is None else by_layer(comparison)
    return [_against(comparison, differences)] if comparison is not None and differences else []


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: for each model N_2 of centred tokens first and last with nulls, effective rank, escape, plateaus, and
    the share of heads and layers in which the energy rises."""
    at = _shown(comparison)
    delta = int(np.abs(comparison.axis("token_delta") - 0.3).argmin())
    rows: list[tuple[str, ...]] = [("model", "N₂, embedded", "N₂, last", "normal tokens", "one of each sample", "untrained", "effective rank", "escape",
                                    "untrained", f"N(δ = {comparison.axis('token_delta')[delta]:g}) stays over 3 layers", "untrained",
                                    "heads and layers in which the energy rises")]
    for model in comparison.having("number_2"):
        own, normal, across, fresh = (comparison.numbers(model, name)[:, :, CENTRED, at]
                                      for name in ("number_2", "number_2_normal", "number_2_across", "number_2_untrained"))
        escape, escape_fresh = (comparison.numbers(model, name)[:, CENTRED, at] for name in ("escape", "escape_untrained"))
        stays, stays_fresh = (comparison.numbers(model, name)[:, CENTRED, delta] for name in ("plateau_share", "plateau_share_untrained"))
        change = comparison.numbers(model, "energy_change")
        there = np.isfinite(change)
        rows.append((style_of(model).label, *map(mean_and_spread, (own[:, 0], own[:, -1], normal[:, -1], across[:, -1], fresh[:, -1])),
                     first_and_last(comparison.numbers(model, "effective_rank")[:, :, CENTRED]),
                     *map(mean_and_spread, (escape, escape_fresh, stays, stays_fresh)),
                     f"{(change[there] > 0).sum() / len(change):.3g} of {there.sum() / len(change):.3g}"))
    return rows


def table_energies(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: for each layer of each model where the energy falls, beside what its heads lack of the hypotheses."""
    rows: list[tuple[str, ...]] = [("model", "layer", "change of log E", "untrained", "samples in which it falls", "antisymmetry", "mismatch of W_O W_V",
                                    "least eigenvalue")]
    names = ("energy_change", "energy_change_untrained", "energy_falls", "antisymmetry", "value_mismatch", "least_eigenvalue")
    for model in comparison.having("energy_change"):
        columns = [_of_heads(comparison, model, name) for name in names]
        rows += [(style_of(model).label, f"{layer + 1}", *(mean_and_spread(values[:, layer]) for values in columns)) for layer in range(columns[0].shape[1])]
    return rows


def table_against(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: each PDE model at each depth where a layer ends."""
    rows: list[tuple[str, ...]] = [("model", "depth", "N₂, Transformer", "N₂, PDE model", "ratio [interval]", "verdict")]
    for one in by_layer(comparison):
        ends = np.exp(one.judged.interval)
        interval = f" [{number(ends[0])}, {number(ends[1])}]" if np.isfinite(ends).all() and not one.judged.effect.deterministic else ""
        said = {Verdict.HOLDS: "larger", Verdict.OPPOSITE: "smaller"}.get(one.judged.verdict, one.judged.verdict.value)
        rows.append((style_of(one.model).label, f"{one.depth:g}", *map(mean_and_spread, one.numbers), number(np.exp(one.judged.effect.mean)) + interval, said))
    return rows


SECTIONS = (Section(22, "clusters-models", "Do the tokens of trained models cluster?", EXPERIMENT, draw, table,
                    controls=(("uniform", "tokens spread evenly"), ("permuted", "permuted channels"))),
            Section(23, "clusters-heads", "Where does the energy fall, and which hypothesis of theory fails there?", EXPERIMENT, draw_heads, table_energies),
            Section(24, "clusters-against", "Do tokens of PDE models cluster as those of Transformers do?", EXPERIMENT, draw_against, table_against))
