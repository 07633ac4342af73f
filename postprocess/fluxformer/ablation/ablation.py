"""The ablation in the report: what residual connection and normalisation do to states and to the training."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fluxformer.report.data import Comparison, Study, Style, mean_and_spread
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, over, panel
from fluxformer.style import SMOOTHED, SOFT, means

NORMS = {"none": ("no normalisation", "#e4572e", "s"), "pre": ("LayerNorm before", "#1b1f24", "o"),
         "post": ("LayerNorm after", "#2563eb", "^")}
KINDS = {"transformer": "Transformer", "pde": "PDE model"}
MEASURES = (("drift", "drift  1 − cos(u(s), u(0))"), ("norm", "‖u‖  (rms)"), ("step_change", "‖u(s) − u(s−1)‖ / ‖u(s−1)‖"))


class Variant(NamedTuple):
    """A model of the ablation."""
    name: str
    kind: str      # a key of KINDS
    residual: str  # on or off
    norm: str      # a key of NORMS

    @property
    def style(self) -> Style:
        """Look of a variant: colour and marker by the norm, line by the residual connection."""
        label, colour, marker = NORMS.get(self.norm, (self.norm, SOFT, "D"))
        return Style(f"{label}, residual {self.residual}", colour, marker, "-" if self.residual == "on" else "--")


def _variants(comparison: Comparison) -> list[Variant]:
    """The variants of an ablation, in a fixed order."""
    found = [Variant(name, *(str(comparison.facts(name).get(fact)) for fact in ("kind", "residual", "norm"))) for name in comparison.models]
    order = list(NORMS)
    return sorted(found, key=lambda one: (one.kind != "transformer", one.residual != "on",
                                          order.index(one.norm) if one.norm in order else len(order)))


def _states(comparison: Comparison, variants: list[Variant], kinds: list[str]) -> Drawing:
    figure = canvas(2.5 * len(kinds) + 0.4)
    panels = figure.subplots(len(kinds), len(MEASURES), squeeze=False, sharex=True)
    depth = comparison.axis("depth")
    for i, kind in enumerate(kinds):
        for axes, (name, unit) in zip(panels[i], MEASURES):
            if name != "drift":
                axes.set_yscale("log")
            first = 1 if name == "step_change" else 0
            for variant in variants:
                values = comparison.measure(variant.name, name)
                if variant.kind == kind and values is not None:
                    over(axes, depth[first:], values[:, first:], variant.style, variant.style.label)
            panel(axes, KINDS[kind] if axes is panels[i, 0] else "", "depth s  [layers]" if i + 1 == len(kinds) else "", unit)
    legend(figure, *panels.ravel())
    return Drawing("ablation-states", "Hidden states with and without residual connection and normalisation",
                   "After the training, on test samples; of a training that diverged with its last finite weights. Means over seeds with one "
                   "standard deviation. Drift 0 is the embedded input, 1 has no direction in common with it.", figure, comparison.runs)


def _losses(comparison: Comparison, variants: list[Variant], kinds: list[str]) -> Drawing:
    figure = canvas(3.3)
    panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    step = comparison.axis("step")
    window = max(1, len(step) // SMOOTHED)
    place = means(step, window)
    for axes, kind in zip(panels, kinds):
        axes.set_yscale("log")
        for variant in variants:
            losses, style = comparison.measure(variant.name, "loss"), variant.style
            if variant.kind != kind or losses is None:
                continue
            for k, line in enumerate(means(losses, window)):
                axes.plot(place, line, style.line, color=style.colour, lw=1.2, alpha=0.8, label=style.label if k == 0 else None)
                ended = np.flatnonzero(np.isfinite(line))
                if len(ended) and ended[-1] + 1 < len(line):
                    axes.plot(place[ended[-1]], line[ended[-1]], "X", color=style.colour, ms=8, mec="white")
        limit = comparison.facts().get("loss_limit")
        if limit is not None:
            axes.axhline(limit, color=SOFT, ls=":", lw=1.2)
        panel(axes, KINDS[kind], "step of the training", "loss  [nat]" if axes is panels[0] else "")
    legend(figure, *panels)
    return Drawing("ablation-losses", "Which trainings hold",
                   f"Loss of every seed, means over {window} steps; a cross ends a training that diverged: a loss or gradient that is not finite, or "
                   "losses above the dotted limit to the end.", figure, comparison.runs)


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: variant, diverged runs, test accuracy, drift and norm at the end."""
    seeds = len(comparison.seeds)
    rows: list[tuple[str, ...]] = [("variant", "diverged", "test accuracy  [%]", "drift at the end", "‖u‖ at the end")]
    for variant in _variants(comparison):
        step = comparison.measure(variant.name, "diverged_step")
        last = [comparison.measure(variant.name, key) for key in ("drift", "norm")]
        accuracy = comparison.measure(variant.name, "test_accuracy")
        rows.append((f"{KINDS.get(variant.kind, variant.kind)}, {variant.style.label}",
                     "–" if step is None else f"{int(np.isfinite(step).sum())} of {seeds}",
                     "–" if accuracy is None else mean_and_spread(100 * accuracy),
                     *("–" if values is None else mean_and_spread(values[:, -1]) for values in last)))
    return rows


def draw(study: Study) -> list[Drawing]:
    """Draws the figures of the ablation; none if it was not run."""
    comparison = study.of("ablation")
    if comparison is None:
        return []
    variants = _variants(comparison)
    kinds = [kind for kind in KINDS if any(variant.kind == kind for variant in variants)]
    drawings = [_states(comparison, variants, kinds)] if comparison.having("drift") else []
    if comparison.having("loss"):
        drawings.append(_losses(comparison, variants, kinds))
    return drawings


SECTIONS = (Section(8, "ablation", "Ablation", "ablation", draw, table),)
