"""Random tokens on the circle: where they are in time, how many clusters there are, and how fast waves grow."""

from __future__ import annotations

import numpy as np
from matplotlib.ticker import MaxNLocator

from fluxformer.clusters.shared import CURVES, GROUP
from fluxformer.report.data import Comparison, Study, mean_and_spread
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, panel
from fluxformer.style import ACCENT, INK, SOFT

EXPERIMENT = "clusters_circle"


def draw(study: Study) -> list[Drawing]:
    """Draws tokens by angle and time, numbers of clusters and moments of the first seed; none without a file of `clusters_circle`."""
    comparison = study.of(EXPERIMENT)
    if comparison is None:
        return []
    facts, time = comparison.facts(), comparison.axis("time")
    figure = canvas(6.6)
    grid = figure.add_gridspec(2, 2)
    wide, left, right = (figure.add_subplot(place) for place in (grid[0, :], grid[1, 0], grid[1, 1]))
    density = comparison.numbers(GROUP, "density")[0]
    even = 1 / density.shape[1]
    edges = np.concatenate([[time[0]], (time[1:] + time[:-1]) / 2, [time[-1]]])
    image = wide.pcolormesh(edges, np.linspace(0, 360, density.shape[1] + 1), density.T / even, cmap="magma", vmin=0, vmax=min(20, density.max() / even),
                            rasterized=True)
    figure.colorbar(image, ax=wide, label="tokens, over an even circle", extend="max")
    wide.set_yticks(range(0, 361, 90))
    panel(wide, "Where tokens are", "time", "angle  [degrees]")
    wide.grid(False)

    left.plot(time, comparison.numbers(GROUP, "number_2")[0], color=INK, label="N₂")
    left.plot(time, comparison.numbers(GROUP, "number_1")[0], color=SOFT, ls="--", label="N₁")
    left.plot(time, comparison.numbers(GROUP, "number")[0], color=ACCENT, marker="o", ms=3, ls="", label="clusters")
    left.axhline(float(facts["fastest_wave"]), color=SOFT, ls=":", lw=1, label="fastest wave, theory")
    left.set_ylim(0)
    left.yaxis.set_major_locator(MaxNLocator(integer=True))
    panel(left, "How many clusters", "time", "number")

    moments, fastest, rate = comparison.numbers(GROUP, "moment")[0], int(facts["fastest_wave"]), float(facts["wave_rate_theory"])
    for colour, mode in zip(CURVES[1:], [mode for mode in range(1, moments.shape[1] + 1) if mode != fastest][:3]):
        right.semilogy(time, moments[:, mode - 1], color=colour, lw=0.9, alpha=0.7, label=f"{mode} wave(s)")
    right.semilogy(time, moments[:, fastest - 1], color=INK, label=f"{fastest} wave(s), the fastest")
    late = np.log(float(facts["tokens"])) / 2 / rate
    line = np.linspace(0, late, 2)
    right.semilogy(line, np.exp(rate * line) / np.sqrt(float(facts["tokens"])), color=ACCENT, ls=":", lw=1.6, label="theory, from 1/√n")
    panel(right, "How waves grow", "time", "|mean e^(ikθ)|")
    legend(figure, left, right)
    return [Drawing("clusters-circle", "Tokens on the circle gather",
                    f"{facts['tokens']:,} random tokens, β = {facts['beta']:g}, seed {comparison.seeds[0]}. Above: tokens by angle and time. Below: N₂ "
                    f"and N₁, numbers of clusters without a threshold, and components of tokens at most {facts['delta']:.2g} apart where nearly all "
                    "tokens are in compact ones; moments of the angles, with the rate of linear theory.", figure, comparison.runs)]


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: what the seeds found, beside theory."""
    facts = comparison.facts()
    last = comparison.numbers(GROUP, "number")[:, -1]
    counts = {count: int((last == count).sum()) for count in sorted(set(last[np.isfinite(last)].tolist()))}
    found = ", ".join(f"{count:g} in {times} of {len(last)}" for count, times in counts.items()) or "none"
    return [("", "seeds", "theory"),
            ("clusters at the end", found, f"fastest wave: {facts['fastest_wave']}"),
            ("rate of the fastest wave", mean_and_spread(comparison.numbers(GROUP, "wave_rate")), f"{facts['wave_rate_theory']:.6f}"),
            ("time of the first clusters", mean_and_spread(comparison.numbers(GROUP, "formed")), f"order one at {facts['formation_theory']:.3f}"),
            ("N₂ at the end", mean_and_spread(comparison.numbers(GROUP, "number_2")[:, -1]), "")]


SECTIONS = (Section(22, "clusters-circle", "Tokens on the circle", EXPERIMENT, draw, table),)
