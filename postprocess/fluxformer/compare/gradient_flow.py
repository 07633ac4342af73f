"""Gradient flow in the report: gradients by depth and block, Jacobians of the layers, Lyapunov exponents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes

from fluxformer.report.data import Comparison, Study, mean_and_spread, number, spread
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, bars, canvas, legend, over, panel, style_of, tips
from fluxformer.style import SOFT

BLOCKS = (("embedding_gradient", "embedding"), ("knot_gradient", "weights {}"), ("final_norm_gradient", "final norm"),
          ("head_gradient", "head"), ("equation_gradient", "α, ρ"))


def _by_depth(comparison: Comparison) -> Drawing:
    figure = canvas(3.5)
    panels = figure.subplots(1, 4, width_ratios=[1.2, 1.2, 1.2, 0.8])
    for axes, name, title, unit in ((panels[0], "gradient_norm", "Gradient through depth", "‖∂loss/∂u(s)‖"),
                                    (panels[1], "gradient_size", "Relative to the state", "‖u(s)‖ ‖∂loss/∂u(s)‖")):
        axes.set_yscale("log")
        for model in comparison.having(name):
            over(axes, comparison.depth(model), comparison.numbers(model, name), style_of(model), style_of(model).label)
        axes.set_visible(bool(comparison.having(name)))
        panel(axes, title, "depth s  [layers]", unit)
    for model in comparison.having("gradient_ratio"):
        ratio = comparison.numbers(model, "gradient_ratio")
        if ratio.shape[1] > 1:
            over(panels[2], comparison.axis("layer_end")[:-1] + 0.5, ratio[:, :-1], style_of(model), style_of(model).label)
    panels[2].axhline(1, color=SOFT, ls=":", lw=1.2)
    panels[2].set_xticks(comparison.axis("layer_end"))
    panel(panels[2], "Growth on the way back", "depth s  [layers]", "‖∂loss/∂u‖ before / behind a layer")
    bars(panels[3], comparison, "disparity", comparison.having("disparity"))
    panel(panels[3], "Disparity", "model", "‖∂loss/∂u‖ largest / smallest")
    legend(figure, panels[0])
    return Drawing("gradients-depth", "Gradients on the way back through depth",
                   "Gradient of the cross entropy of a sample with respect to the state, root mean square over samples; times the norm of the "
                   "state it does not depend on the scale of u. A ratio above one grows towards the input. The disparity compares ends of layers; 1 is the same gradient everywhere.", figure, comparison.runs)


def _blocks(comparison: Comparison, models: list[str]) -> tuple[list[str], dict[str, np.ndarray]]:
    """Columns of the blocks of parameters: their names and, by model, numbers [seed, block]."""
    names: list[str] = []
    columns: dict[str, list[np.ndarray]] = {model: [] for model in models}
    most = max((comparison.numbers(model, "knot_gradient").shape[1] for model in comparison.having("knot_gradient")), default=0)
    for measure, label in BLOCKS:
        count = most if measure == "knot_gradient" else 1
        # The alpha and rho of a Transformer are 1.
        known = [None if model == "transformer" and measure == "equation_gradient" else comparison.measure(model, measure) for model in models]
        if all(values is None or not np.nan_to_num(values).any() for values in known):
            continue
        names += [label.format(k + 1) for k in range(count)]
        for model, values in zip(models, known):
            values = np.full((len(comparison.seeds), count), np.nan) if values is None else values.reshape(len(values), -1)
            columns[model].append(values)
    return names, {model: np.concatenate(parts, axis=1) for model, parts in columns.items() if parts}


def _parameters(comparison: Comparison) -> Drawing:
    models = comparison.having("embedding_gradient")
    names, columns = _blocks(comparison, models)
    figure = canvas(3.4)
    axes = figure.subplots()
    axes.set_yscale("log")
    for k, (model, values) in enumerate(columns.items()):
        style, place = style_of(model), np.arange(len(names)) + 0.16 * (k - (len(columns) - 1) / 2)
        with np.errstate(all="ignore"):
            mean, deviation = values.mean(axis=0), spread(values)
        mean = np.where(mean > 0, mean, np.nan)
        axes.errorbar(place, mean, np.minimum(deviation, 0.9 * mean), fmt="none", color=style.colour, lw=1.4, capsize=3)
        line, = axes.plot(place, mean, style.marker, color=style.colour, ms=6, mec="white", label=style.label)
        tips(axes, line, [f"{style.label}, {name}: {number(m)} ± {number(d)}" for name, m, d in zip(names, mean, deviation)])
    axes.set_xticks(range(len(names)), names)
    panel(axes, "", "block of parameters", "‖∂ mean loss / ∂ parameters‖")
    legend(figure, axes)
    return Drawing("gradients-blocks", "Gradients by block of parameters",
                   "Euclidean norm of the gradient of the mean cross entropy with respect to all numbers of a block, the models as trained; sets "
                   "of weights are counted from the input, and a PDE model has fewer of them.", figure, comparison.runs)


def _error(comparison: Comparison, models: list[str]) -> str:
    """How well the singular values are known, in words."""
    errors = {which: max(np.nanmax(values) for model in models
                         if (values := comparison.measure(model, f"{which}_singular_error")) is not None)
              for which in ("largest", "smallest")}
    return (f" The largest are known to within {number(errors['largest'])}; the smallest are bounds from above, and within "
            f"{number(errors['smallest'])} of them lies a singular value.")


def _settled(comparison: Comparison) -> str:
    """How far the exponents have converged, in words."""
    errors = [comparison.numbers(model, "lyapunov_error") for model in comparison.having("lyapunov_error")]
    if not errors or not all(np.isfinite(error).all() for error in errors):
        return ""
    sweeps = max(comparison.numbers(model, "lyapunov_sweeps").max() for model in comparison.having("lyapunov_sweeps"))
    return (f" Error bars of the exponents: the largest change of a sample in its last sweep, at most "
            f"{number(max(error.max() for error in errors))} per layer after up to {number(sweeps)} sweeps.")


def _jacobians(comparison: Comparison) -> Drawing:
    models = comparison.having("largest_singular_value")
    figure = canvas(3.5)
    panels = figure.subplots(1, 3)
    layer = comparison.axis("layer")
    for model in models:
        style = style_of(model)
        for axes, which in zip(panels, ("largest", "smallest")):
            axes.set_yscale("log")
            over(axes, layer, comparison.numbers(model, f"{which}_singular_value"), style, style.label)
        exponents = comparison.measure(model, "lyapunov")
        if exponents is not None:
            over(panels[2], comparison.axis("exponent"), exponents, style, style.label)
            panels[2].set_xticks(comparison.axis("exponent"))
            unsettled = comparison.measure(model, "lyapunov_error")
            if unsettled is not None and np.isfinite(unsettled).all():
                panels[2].errorbar(comparison.axis("exponent"), exponents.mean(axis=0), unsettled.max(axis=0), fmt="none",
                                   color=style.colour, lw=1.2, capsize=3)
    for axes, title in zip(panels, ("Largest singular value", "Smallest singular value")):
        axes.axhline(1, color=SOFT, ls=":", lw=1.2)
        axes.set_xticks(layer)
        panel(axes, title, "layer", "singular value of ∂u(s+1)/∂u(s)")
    panels[2].axhline(0, color=SOFT, ls=":", lw=1.2)
    panel(panels[2], "Lyapunov exponents", "exponent, largest first", "growth rate  [1/layer]")
    legend(figure, *panels)
    return Drawing("gradients-jacobians", "What a layer does to small differences",
                   f"Means over {comparison.facts().get('jacobian_samples', 'some')} samples. Above the dotted lines differences grow in "
                   f"some direction, below them some direction is lost.{_error(comparison, models)}{_settled(comparison)}", figure,
                   comparison.runs)


def _over_epochs(comparison: Comparison, models: list[str]) -> Drawing:
    epochs = comparison.axis("copied_epoch")
    figure = canvas(3.2)
    panels = figure.subplots(1, 2)
    for model in models:
        style = style_of(model)
        over(panels[0], epochs, comparison.numbers(model, "epoch_disparity"), style, style.label)
        norms = comparison.measure(model, "epoch_gradient_norm")
        if norms is not None:
            panels[1].set_yscale("log")
            over(panels[1], epochs, norms.mean(axis=2), style, style.label)
    for axes in panels:
        axes.set_xticks(epochs)
    panels[0].set_ylim(0, None)
    panel(panels[0], "Disparity", "epochs done", "‖∂loss/∂u‖ largest / smallest")
    panel(panels[1], "Gradient, mean over depth", "epochs done", "‖∂loss/∂u(s)‖")
    legend(figure, *panels)
    return Drawing("gradients-epochs", "Gradients while training", "From the untrained models (0) on.", figure, comparison.runs)


def draw(study: Study) -> list[Drawing]:
    """Draws the figures of the gradient flow; none if it was not run."""
    comparison = study.of("gradient_flow")
    if comparison is None or not comparison.having("gradient_norm"):
        return []
    drawings = [_by_depth(comparison)]
    if comparison.having("largest_singular_value"):
        drawings.append(_jacobians(comparison))
    if comparison.having("embedding_gradient"):
        drawings.append(_parameters(comparison))
    if courses := comparison.having("epoch_disparity"):
        drawings.append(_over_epochs(comparison, courses))
    return drawings


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: gradients and Jacobians of each model."""
    def text(name: str, of_seed: Callable[[np.ndarray], np.ndarray]) -> Callable[[str], str | None]:
        def of_model(model: str) -> str | None:
            values = comparison.measure(model, name)
            return None if values is None else mean_and_spread(of_seed(values))
        return of_model

    return comparison.table({
        "largest / smallest ‖∂loss/∂u‖": text("disparity", np.ravel),
        "‖∂loss/∂u(0)‖": text("gradient_norm", lambda values: values[:, 0]),
        "‖u‖ ‖∂loss/∂u‖, mean over depth": text("gradient_size", lambda values: values.mean(axis=1)),
        "largest singular value of a layer": text("largest_singular_value", lambda values: np.nanmax(values, axis=1)),
        "Lyapunov exponent, largest": text("lyapunov", lambda values: values[:, 0])})


SECTIONS = (Section(6, "gradients", "Gradient flow", "gradient_flow", draw, table),)
