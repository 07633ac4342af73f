"""The ablation of the report: what residual connection and normalisation do to states and to the training."""

import numpy as np

from fluxformer.style import SOFT
from fluxformer.report.data import Style, mean_and_spread
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, over, panel

NORMS = {"none": ("no normalisation", "#e4572e", "s"), "pre": ("LayerNorm before", "#1b1f24", "o"),
         "post": ("LayerNorm after", "#2563eb", "^")}
KINDS = {"transformer": "Transformer", "pde": "PDE model"}
MEASURES = (("drift", "drift  1 − cos(u(s), u(0))"), ("norm", "‖u‖  (rms)"), ("step_change", "‖u(s) − u(s−1)‖ / ‖u(s−1)‖"))


def _variants(comparison):
    """(name, kind, residual on or off, norm) in a fixed order."""
    found = [(name, facts.get("kind"), facts.get("residual"), facts.get("norm"))
             for name, facts in ((name, comparison.facts(name)) for name in comparison.models)]
    order = list(NORMS)
    return sorted(found, key=lambda one: (one[1] != "transformer", one[2] != "on", order.index(one[3]) if one[3] in order else 9))


def _style(residual, norm):
    label, colour, marker = NORMS.get(norm, (norm, SOFT, "D"))
    return Style(f"{label}, residual {residual}", colour, marker, "-" if residual == "on" else "--")


def _states(comparison, variants, kinds):
    figure = canvas(2.5 * len(kinds) + 0.4)
    panels = figure.subplots(len(kinds), len(MEASURES), squeeze=False, sharex=True)
    depth = comparison.axis("depth")
    for i, kind in enumerate(kinds):
        for axes, (name, unit) in zip(panels[i], MEASURES):
            if name != "drift":
                axes.set_yscale("log")
            first = 1 if name == "step_change" else 0
            for variant, of, residual, norm in variants:
                values = comparison.measure(variant, name)
                if of == kind and values is not None:
                    style = _style(residual, norm)
                    over(axes, depth[first:], values[:, first:], style, style.label)
            panel(axes, KINDS[kind] if axes is panels[i, 0] else "", "depth s  [layers]" if i + 1 == len(kinds) else "", unit)
    legend(figure, *panels.ravel())
    return Drawing("ablation-states", "Hidden states with and without residual connection and normalisation",
                   "After the training, on test samples; of a training that diverged with its last finite weights. Means over seeds with one "
                   "standard deviation. Drift 0 is the embedded input, 1 has no direction in common with it.", figure, comparison.runs)


def _losses(comparison, variants, kinds):
    figure = canvas(3.3)
    panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    step = comparison.axis("step")
    window = max(1, len(step) // 60)
    count = len(step) // window * window
    for axes, kind in zip(panels, kinds):
        axes.set_yscale("log")
        for variant, of, residual, norm in variants:
            losses = comparison.measure(variant, "loss")
            if of != kind or losses is None:
                continue
            style = _style(residual, norm)
            smooth = losses[:, :count].reshape(len(losses), -1, window).mean(axis=2)
            place = step[:count].reshape(-1, window).mean(axis=1)
            for k, line in enumerate(smooth):
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


def table(comparison):
    """Rows of text: variant, diverged runs, test accuracy."""
    seeds = len(comparison.seeds)
    rows = [("variant", "diverged", "test accuracy  [%]", "drift at the end", "‖u‖ at the end")]
    for name, kind, residual, norm in _variants(comparison):
        step = comparison.measure(name, "diverged_step")
        last = {key: comparison.measure(name, key) for key in ("drift", "norm")}
        accuracy = comparison.measure(name, "test_accuracy")
        rows.append((f"{KINDS.get(kind, kind)}, {_style(residual, norm).label}",
                     "–" if step is None else f"{int(np.isfinite(step).sum())} of {seeds}",
                     "–" if accuracy is None else mean_and_spread(100 * accuracy),
                     *("–" if values is None else mean_and_spread(values[:, -1]) for values in last.values())))
    return rows


def draw(study):
    """The figures of the ablation; none if it was not run."""
    comparison = study.of("ablation")
    if comparison is None:
        return []
    variants = _variants(comparison)
    kinds = [kind for kind in KINDS if any(variant[1] == kind for variant in variants)]
    drawings = [_states(comparison, variants, kinds)] if comparison.having("drift") else []
    if comparison.having("loss"):
        drawings.append(_losses(comparison, variants, kinds))
    return drawings


SECTIONS = (Section(8, "ablation", "Ablation", "ablation", draw, table),)
