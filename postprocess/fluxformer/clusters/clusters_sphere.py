"""Tokens on a sphere of any dimension: how near to each other they are in time, how many clusters there are, and where they are in space."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.ticker import MaxNLocator

from fluxformer.clusters.shared import CURVES, GROUP, counts_of_seeds, edges_of
from fluxformer.report.data import Comparison, Study, mean_and_spread
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, panel
from fluxformer.style import ACCENT, INK, SOFT

EXPERIMENT = "clusters_sphere"
CELLS = 80  # of cosines


def _cosines(position: np.ndarray) -> np.ndarray:
    """Density of the cosines of each two different tokens, [time][cell], over an even one on [-1, 1]; `position`: [time][token][channel]."""
    upper = np.triu_indices(position.shape[1], 1)
    counts = np.array([np.histogram(np.clip(x @ x.T, -1, 1)[upper], CELLS, (-1, 1))[0] for x in position])
    return counts * CELLS / max(1, len(upper[0]))


def _in_time(comparison: Comparison) -> Drawing:
    facts, time = comparison.facts(), comparison.axis("time")
    figure = canvas(6.6)
    grid = figure.add_gridspec(2, 2)
    wide, left, right = (figure.add_subplot(place) for place in (grid[0, :], grid[1, 0], grid[1, 1]))
    density = _cosines(comparison.numbers(GROUP, "position")[0])
    most = max(1.0, float(density.max()))
    image = wide.pcolormesh(edges_of(time), np.linspace(-1, 1, CELLS + 1), np.where(density > 0, density, np.nan).T, cmap="magma",
                            norm=LogNorm(most / 1e4, most), rasterized=True)
    figure.colorbar(image, ax=wide, label="pairs, over even cosines")
    panel(wide, "How near tokens are", "time", "cosine of two tokens")
    wide.grid(False)

    number_2 = comparison.numbers(GROUP, "number_2")[0]
    low, high = (comparison.numbers(GROUP, name)[0] for name in ("components_low", "components_high"))
    left.fill_between(time, low, high, color=ACCENT, alpha=0.2, lw=0, label="components, range")
    left.plot(time, number_2, color=INK, label="N₂")
    left.plot(time, comparison.numbers(GROUP, "number_1")[0], color=SOFT, ls="--", label="N₁")
    left.plot(time, comparison.numbers(GROUP, "number")[0], color=ACCENT, marker="o", ms=3, ls="", label="clusters")
    left.set_ylim(0, 1.2 * number_2[0])
    left.yaxis.set_major_locator(MaxNLocator(integer=True))
    panel(left, "How many clusters", "time", "number")

    powers = np.maximum(comparison.numbers(GROUP, "degree_power")[0], 1e-20)  # 0 up to round-off
    for degree in (1, 2):
        right.semilogy(time, powers[:, degree - 1], color=CURVES[degree], label=f"degree {degree}")
    fastest, rate, formation = int(facts["fastest_harmonic"]), float(facts["harmonic_rate_theory"]), float(facts["formation_theory"])
    if fastest in (1, 2) and np.isfinite(formation):
        line = np.linspace(0, formation, 2)
        right.semilogy(line, powers[0, fastest - 1] * np.exp(2 * rate * line), color=ACCENT, ls=":", lw=1.6, label=f"theory, degree {fastest}")
    panel(right, "Power of the first harmonics", "time", "1: all at one pole, or at two")
    legend(figure, left, right)
    return Drawing("clusters-sphere", "Tokens on the sphere gather",
                   f"{facts['tokens']:,} tokens ({facts['start']}) in dimension {facts['dimension']}, β = {facts['beta']:g}, seed {comparison.seeds[0]}. "
                   f"Above: cosines of each two of {comparison.numbers(GROUP, 'position').shape[2]} tokens. Below: N₂ and N₁, numbers of clusters without a "
                   f"threshold, and components of tokens at most {facts['delta']:.2g} apart, as clusters where nearly all tokens are in compact ones; powers "
                   "of degrees 1 and 2.", figure, comparison.runs)


def _in_space(comparison: Comparison) -> Drawing:
    """Maps of the tokens at the beginning, at the first time with clusters (or half-way), and at the end."""
    time, position = comparison.axis("time"), comparison.numbers(GROUP, "position")[0]
    formed = float(comparison.numbers(GROUP, "formed")[0])
    middle = int(np.abs(time - formed).argmin()) if np.isfinite(formed) else len(time) // 2
    figure = canvas(2.8)
    for place, k in enumerate((0, middle, len(time) - 1)):
        axes = figure.add_subplot(1, 3, place + 1, projection="mollweide")
        x, y, z = position[k].T
        axes.plot(np.arctan2(y, x), np.arcsin(np.clip(z, -1, 1)), "o", color=ACCENT, ms=3, alpha=0.6, mew=0)
        axes.set(xticklabels=[], yticklabels=[])
        axes.grid(color=SOFT, lw=0.3)
        axes.set_title(f"t = {time[k]:g}", fontsize=10.5)
    return Drawing("clusters-sphere-map", "Where tokens are", f"{position.shape[1]} tokens, seed {comparison.seeds[0]}, on maps that keep areas: at the "
                   "beginning, at the first time with clusters (half-way if there is none), and at the end.", figure, comparison.runs)


def draw(study: Study) -> list[Drawing]:
    """Draws cosines, numbers of clusters and powers of the first seed, in space also maps; none without a file of `clusters_sphere`."""
    comparison = study.of(EXPERIMENT)
    if comparison is None:
        return []
    return [_in_time(comparison), *([_in_space(comparison)] if int(comparison.facts()["dimension"]) == 3 else [])]


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: what the seeds found, beside theory."""
    facts, formation = comparison.facts(), float(comparison.facts()["formation_theory"])
    return [("", "seeds", "theory"),
            ("clusters at the end", counts_of_seeds(comparison.numbers(GROUP, "number")[:, -1]), ""),
            ("time of the first clusters", mean_and_spread(comparison.numbers(GROUP, "formed")),
             f"degree {facts['fastest_harmonic']} of order one at {formation:.3f}" if np.isfinite(formation) else ""),
            ("N₂ at the beginning", mean_and_spread(comparison.numbers(GROUP, "number_2")[:, 0]), ""),
            ("N₂ at the end", mean_and_spread(comparison.numbers(GROUP, "number_2")[:, -1]), "")]


SECTIONS = (Section(22, "clusters-sphere", "Tokens on the sphere", EXPERIMENT, draw, table),)
