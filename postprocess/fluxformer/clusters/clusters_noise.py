"""Tokens on the circle with noise that rises and falls: where their cluster melts, and where it forms again."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from fluxformer.clusters.shared import CURVES, attention_of
from fluxformer.report.data import Comparison, Study, mean_and_spread
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, panel
from fluxformer.style import ACCENT, INK, SOFT

EXPERIMENT = "clusters_noise"
WAYS = (("up", CURVES[3], "^", "noise rises"), ("down", CURVES[1], "v", "noise falls"))


def even_cloud(ratio: np.ndarray, tokens: int) -> np.ndarray:
    """Mean |M_1| of an even cloud of so many tokens, by linear theory, at noises over the critical one; NaN up to 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(ratio > 1, np.sqrt(np.pi / (4 * tokens * (1 - 1 / ratio))), np.nan)


def _theory(axes: Axes, comparison: Comparison, last: float) -> None:
    """Stationary clusters and even clouds of infinitely many tokens up to the noise `last`, stable ones solid, and even clouds of so many tokens."""
    order = np.concatenate([[0.0], comparison.axis("branch_order")])
    ratio = np.concatenate([[1.0], comparison.numbers(attention_of(comparison), "branch_ratio")[0]])
    fold = int(ratio.argmax())
    axes.plot(ratio[fold:], order[fold:], color=INK, lw=1.4, label="theory, stable")
    axes.plot(ratio[:fold + 1], order[:fold + 1], color=INK, lw=1.2, ls="--", label="theory, unstable" if fold > 0 else None)
    axes.plot([1, last], [0, 0], color=INK, lw=1.4)
    axes.plot([0, 1], [0, 0], color=INK, lw=1.2, ls="--")
    above = np.linspace(1, last, 200)[1:] if last > 1 else np.array([])
    axes.plot(above, np.minimum(1, even_cloud(above, int(comparison.facts()["tokens"]))), color=SOFT, ls=":", lw=1.4, label="even cloud of so many tokens")


def draw(study: Study) -> list[Drawing]:
    """Draws M_1 and N_2 over the noise, on the way up and down; none without a file of `clusters_noise`."""
    comparison = study.of(EXPERIMENT)
    if comparison is None:
        return []
    facts, ratio, attention = comparison.facts(), comparison.axis("noise_ratio"), attention_of(comparison)
    figure = canvas(3.9)
    left, right = figure.subplots(1, 2, width_ratios=(1.6, 1))
    last = 1.05 * max(1.0, float(ratio[-1]))
    _theory(left, comparison, last)
    for way, colour, marker, label in WAYS:
        orders, errors, numbers = (comparison.numbers(attention, name) for name in (f"order_{way}", f"order_{way}_error", f"number_2_{way}"))
        for seed in range(len(orders)):
            left.errorbar(ratio, orders[seed], errors[seed], color=colour, marker=marker, ms=5, lw=0, elinewidth=1, label=label if seed == 0 else None)
            right.plot(ratio, numbers[seed], color=colour, marker=marker, ms=5, lw=1, alpha=max(0.3, 1 / len(orders)))
    for axes in (left, right):
        axes.axvline(float(facts["critical_ratio_of_steps"]), color=SOFT, ls="-.", lw=1, label="onset for steps of this length" if axes is left else None)
    if (survival := float(facts["survival_ratio"])) > 1:
        left.axvline(float(facts["equal_ratio"]), color=ACCENT, ls=":", lw=1.2, label="equal free energy")
        fold = int(comparison.numbers(attention, "branch_ratio")[0].argmax())
        left.annotate(f"{survival:.4g}", (survival, float(comparison.axis("branch_order")[fold])), xytext=(4, -3), textcoords="offset points", fontsize=8,
                      color=INK)
    left.set_xlim(min(0.95, 0.95 * float(ratio[0])), last)
    left.set_ylim(-0.03, 1)
    panel(left, "Does noise melt the cluster?", "noise κ / κ_c", "|M₁| = |mean e^(iθ)|")
    panel(right, "Soft number of clusters", "noise κ / κ_c", "N₂")
    legend(figure, left)
    return [Drawing("clusters-noise", "Noise melts clusters of tokens",
                    f"{facts['tokens']:,} tokens on the circle, {attention} attention, β = {facts['beta']:g}, κ_c = {facts['critical_noise']:.4g}, "
                    f"{len(comparison.seeds)} seed(s). The noise rises, then falls; at each value the mean over a time of {facts['averaged']:g} behind one of "
                    f"{facts['settle']:g}. Lines: stationary states of infinitely many tokens. Below κ_c an even cloud of tokens gathers.", figure,
                    comparison.runs)]


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: for each noise |M_1| on both ways beside theory, and the waves that grow fastest."""
    attention = attention_of(comparison)
    numbers = {name: comparison.numbers(attention, name) for name in ("order_up", "order_down", "order_up_theory", "order_down_theory", "fastest_wave")}
    return [("noise / critical", "|M₁|, noise rises", "theory", "|M₁|, noise falls", "theory", "fastest wave"),
            *((f"{ratio:g}", mean_and_spread(numbers["order_up"][:, k]), f"{numbers['order_up_theory'][0, k]:.5f}",
               mean_and_spread(numbers["order_down"][:, k]), f"{numbers['order_down_theory'][0, k]:.5f}", f"{numbers['fastest_wave'][0, k]:g}")
              for k, ratio in enumerate(comparison.axis("noise_ratio")))]


SECTIONS = (Section(22, "clusters-noise", "Noise melts clusters of tokens", EXPERIMENT, draw, table),)
