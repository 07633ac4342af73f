"""Tokens on the circle: where they are in time, how many clusters there are, how fast waves grow, and how long clusters live."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fluxformer.clusters.frames import Scene, beads, strip
from fluxformer.clusters.shared import CURVES, GROUP, attention_of, counts_of_seeds, edges_of, of_tokens
from fluxformer.report.data import Comparison, Study, mean_and_spread
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, panel
from fluxformer.style import ACCENT, INK, SOFT

EXPERIMENT = "clusters_circle"
DENSE = LinearSegmentedColormap.from_list("dense", ("#9ca3af", ACCENT))


def draw(study: Study) -> list[Drawing]:
    """Draws tokens by angle and time, numbers of clusters and moments of the first seed, also as a strip of frames, and mergers of all seeds;
    none without a file of `clusters_circle`."""
    comparison = study.of(EXPERIMENT)
    if comparison is None:
        return []
    facts, time = comparison.facts(), comparison.axis("time")
    attention = "" if attention_of(comparison) == GROUP else f", {attention_of(comparison)} attention"
    figure = canvas(6.6)
    grid = figure.add_gridspec(2, 2)
    wide, left, right = (figure.add_subplot(place) for place in (grid[0, :], grid[1, 0], grid[1, 1]))
    _places(figure, wide, time, of_tokens(comparison, "density")[0])
    _counts(left, comparison)
    _waves(right, comparison)
    if _stretched(time):
        for axes in (wide, left, right):
            axes.set_xscale("log")
            axes.set_xlim(time[1], time[-1])
    legend(figure, left, right)
    if "tokens" in facts:
        what = f"{facts['tokens']:,} tokens, β = {facts['beta']:g}{attention}, seed {comparison.seeds[0]}"
        counts = f", and components of tokens at most {facts['delta']:.2g} apart where nearly all tokens are in compact ones"
    else:
        what, counts = f"A density of infinitely many tokens, β = {facts['beta']:g}{attention}", ""
    drawings = [Drawing("clusters-circle", "Tokens on the circle gather",
                        f"{what}. Above: tokens by angle and time. Below: N₂ and N₁, numbers of clusters without a threshold{counts}; moments of the "
                        "angles, with the rate of linear theory.", figure, comparison.runs),
                strip(scene(comparison))]
    merged = comparison.measure(attention_of(comparison), "merged_by")
    return drawings if merged is None or not np.isfinite(merged).any() else [*drawings, _mergers(comparison)]


def scene(comparison: Comparison) -> Scene:
    """The tokens of the first seed around the circle."""
    facts, time, density = comparison.facts(), comparison.axis("time"), of_tokens(comparison, "density")[0]
    number = comparison.measure(attention_of(comparison), "number")
    what = f"{facts['tokens']:,} tokens, seed {comparison.seeds[0]}" if "tokens" in facts else "A density of infinitely many tokens"

    def paint(axes: Axes, at: int) -> None:
        there = density[at] > 0
        angle, share = 2 * np.pi * comparison.axis("angle")[there], density[at][there]
        # From an even circle to all tokens in one bin.
        beads(axes, np.column_stack([np.cos(angle), np.sin(angle)]), share, DENSE(np.log(np.maximum(share * len(there), 1)) / np.log(len(there))))

    return Scene(comparison, "clusters-circle-frames", "Tokens draw together in drops",
                 f"{what}, β = {facts['beta']:g}. Each bead on the circle has the area of the share of the tokens in its bin of angles. "
                 "Below: the number of clusters, once nearly all tokens are in compact components, and N₂.",
                 time, of_tokens(comparison, "number_2")[0], np.full(len(time), np.nan) if number is None else number[0], paint)


def _stretched(time: np.ndarray) -> bool:
    """Whether intervals between stored times grow so much that a logarithmic axis shows more."""
    return len(time) > 3 and time[-2] - time[-3] > 2 * (time[1] - time[0])


def _places(figure: Figure, axes: Axes, time: np.ndarray, density: np.ndarray) -> None:
    """Tokens by angle [bin] and time, density[time, bin]."""
    even = 1 / density.shape[1]
    image = axes.pcolormesh(edges_of(time), np.linspace(0, 360, density.shape[1] + 1), density.T / even, cmap="magma", vmin=0,
                            vmax=min(20, np.nanmax(density) / even), rasterized=True)
    figure.colorbar(image, ax=axes, label="tokens, over an even circle", extend="max")
    axes.set_yticks(range(0, 361, 90))
    panel(axes, "Where tokens are", "time", "angle  [degrees]")
    axes.grid(False)


def _counts(axes: Axes, comparison: Comparison) -> None:
    """Numbers of clusters of the first seed."""
    time = comparison.axis("time")
    axes.plot(time, of_tokens(comparison, "number_2")[0], color=INK, label="N₂")
    axes.plot(time, of_tokens(comparison, "number_1")[0], color=SOFT, ls="--", label="N₁")
    if (number := comparison.measure(attention_of(comparison), "number")) is not None:
        axes.plot(time, number[0], color=ACCENT, marker="o", ms=3, ls="", label="clusters")
    axes.axhline(float(comparison.facts()["fastest_wave"]), color=SOFT, ls=":", lw=1, label="fastest wave, theory")
    axes.set_ylim(0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    panel(axes, "How many clusters", "time", "number")


def _waves(axes: Axes, comparison: Comparison) -> None:
    """Moments of the first seed, and the growth of the followed one by theory."""
    facts, time, moments = comparison.facts(), comparison.axis("time"), of_tokens(comparison, "moment")[0]
    followed, rate, late = int(facts["followed_wave"]), float(facts["wave_rate_theory"]), float(facts["formation_theory"])
    for colour, mode in zip(CURVES[1:], [mode for mode in range(1, moments.shape[1] + 1) if mode != followed][:3]):
        axes.semilogy(time, moments[:, mode - 1], color=colour, lw=0.9, alpha=0.7, label=f"{mode} wave(s)")
    axes.semilogy(time, moments[:, followed - 1], color=INK, label=f"{followed} wave(s), followed")
    if np.isfinite(late):
        line = np.linspace(0, min(late, time[-1]), 200)
        axes.semilogy(line, np.exp(rate * (line - late)), color=ACCENT, ls=":", lw=1.6, label="theory")
    axes.set_ylim(max(1e-12, np.nanmin(moments[:, followed - 1]) / 10), 2)
    panel(axes, "How waves grow", "time", "|mean e^(ikθ)|")


def _mergers(comparison: Comparison) -> Drawing:
    """Clusters and N₂ of every seed over log t, and the lifetimes of equal clusters on a ring."""
    facts, time, number = comparison.facts(), comparison.axis("time"), of_tokens(comparison, "number")
    count, lifetime = comparison.axis("count"), of_tokens(comparison, "ring_lifetime")[0]
    figure = canvas(3.9)
    axes = figure.add_subplot()
    for row, (of_seed, soft) in enumerate(zip(number, of_tokens(comparison, "number_2"))):
        axes.plot(time[1:], soft[1:], color=SOFT, ls="--", lw=0.8, label="N₂" if row == 0 else None)
        axes.step(time[1:], of_seed[1:] + 0.05 * (row - (len(number) - 1) / 2), where="post", color=INK, lw=1, alpha=max(0.3, 1 / len(number)),
                  label="clusters, a line for each seed" if row == 0 else None)
    most = int(np.nanmax(number))
    known = [k for k in range(2, most + 1) if k <= count[-1] and np.isfinite(lifetime[k - 1])]
    for k in known:
        axes.plot([lifetime[k - 1]] * 2, [k - 1, k], color=ACCENT, ls=":", lw=1.8,
                  label="lifetime of so many equal ones on a ring" if k == known[0] else None)
        axes.annotate(f"{lifetime[k - 1]:.3g}", (lifetime[k - 1], k), xytext=(3, -2), textcoords="offset points", fontsize=8, color=ACCENT, va="top")
    axes.set_xscale("log")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(0.5, max(most, float(np.nanmax(of_tokens(comparison, "number_2")))) + 0.5)
    panel(axes, "How clusters merge", "time", "clusters")
    legend(figure, axes)
    return Drawing("clusters-mergers", "Clusters merge",
                   f"Clusters and N₂ over time, β = {facts['beta']:g}, {len(number)} start(s). Dotted, from k to k − 1: the time 1/rate in "
                   "which k equal clusters on a ring leave their places, e-fold, by theory. Random starts make clusters that differ in mass and "
                   "distance: the nearest ones merge first.", figure, comparison.runs)


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: what the seeds found, beside theory."""
    facts = comparison.facts()
    rows: list[tuple[str, ...]] = [
        ("", "seeds", "theory"),
        (f"rate of {facts['followed_wave']} wave(s)", mean_and_spread(of_tokens(comparison, "wave_rate")),
         f"{facts['wave_rate_theory']:.6f}"),
        ("N₂ at the end", mean_and_spread(of_tokens(comparison, "number_2")[:, -1]), "")]
    if (number := comparison.measure(attention_of(comparison), "number")) is None:
        return [*rows, ("unresolved from t", mean_and_spread(of_tokens(comparison, "unresolved")), "")]
    rows[1:1] = [("clusters at the end", counts_of_seeds(number[:, -1]), f"fastest wave: {facts['fastest_wave']}")]
    rows.append(("time of the first clusters", mean_and_spread(of_tokens(comparison, "formed")),
                 f"order one at {facts['formation_theory']:.3f}" if np.isfinite(facts["formation_theory"]) else ""))
    by, lifetime = of_tokens(comparison, "merged_by"), of_tokens(comparison, "ring_lifetime")[0]
    return rows + [(f"fewer than {k} clusters from", mean_and_spread(by[:, k - 1]), f"{lifetime[k - 1]:.5g}, {k} equal ones on a ring")
                   for k in range(2, by.shape[1] + 1) if np.isfinite(by[:, k - 1]).any()]


SECTIONS = (Section(22, "clusters-circle", "Tokens on the circle", EXPERIMENT, draw, table),)
