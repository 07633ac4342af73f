"""Tokens on a sphere of any dimension: how near to each other they are in time, how many clusters there are, and where they are in space."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, to_rgb
from matplotlib.ticker import MaxNLocator
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from fluxformer.clusters.frames import Scene, beads, strip
from fluxformer.clusters.shared import CURVES, counts_of_seeds, edges_of, of_tokens
from fluxformer.report.data import Comparison, Study, mean_and_spread
from fluxformer.report.sections import Section
from fluxformer.report.style import Drawing, canvas, legend, panel
from fluxformer.style import ACCENT, INK, SOFT

EXPERIMENT = "clusters_sphere"
CELLS = 80  # of cosines
MOST = 600  # tokens of a frame
# Colours of the largest clusters, apart for colour-blind readers (Okabe and Ito), and of all others.
GROUPS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#1b1f24", "#9ca3af")
INSIDE = "#f6f7f9"
NEAR = 0.05  # distance of tokens whose beads become one
TURN = 0.6  # radians, by which the frames look from the side at the first principal axis


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
    density = _cosines(of_tokens(comparison, "position")[0])
    most = max(1.0, float(density.max()))
    image = wide.pcolormesh(edges_of(time), np.linspace(-1, 1, CELLS + 1), np.where(density > 0, density, np.nan).T, cmap="magma",
                            norm=LogNorm(most / 1e4, most), rasterized=True)
    figure.colorbar(image, ax=wide, label="pairs, over even cosines")
    panel(wide, "How near tokens are", "time", "cosine of two tokens")
    wide.grid(False)

    number_2 = of_tokens(comparison, "number_2")[0]
    low, high = (of_tokens(comparison, name)[0] for name in ("components_low", "components_high"))
    left.fill_between(time, low, high, color=ACCENT, alpha=0.2, lw=0, label="components, range")
    left.plot(time, number_2, color=INK, label="N₂")
    left.plot(time, of_tokens(comparison, "number_1")[0], color=SOFT, ls="--", label="N₁")
    left.plot(time, of_tokens(comparison, "number")[0], color=ACCENT, marker="o", ms=3, ls="", label="clusters")
    left.set_ylim(0, 1.2 * number_2[0])
    left.yaxis.set_major_locator(MaxNLocator(integer=True))
    panel(left, "How many clusters", "time", "number")

    powers = np.maximum(of_tokens(comparison, "degree_power")[0], 1e-20)  # 0 up to round-off
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
                   f"Above: cosines of each two of {of_tokens(comparison, 'position').shape[2]} tokens. Below: N₂ and N₁, numbers of clusters without a "
                   f"threshold, and components of tokens at most {facts['delta']:.2g} apart, as clusters where nearly all tokens are in compact ones; powers "
                   "of degrees 1 and 2.", figure, comparison.runs)


def _in_space(comparison: Comparison) -> Drawing:
    """Maps of the tokens at the beginning, at the first time with clusters (or half-way), and at the end."""
    time, position = comparison.axis("time"), of_tokens(comparison, "position")[0]
    formed = float(of_tokens(comparison, "formed")[0])
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


def _axes_of(end: np.ndarray) -> np.ndarray:
    """Three orthonormal directions of view, [channel][3]: to the right, up, towards the reader. They span the first principal axes of the tokens at
    the end, [token][channel], about the centre of the sphere, the first of which points to the right and, by TURN, towards the reader."""
    basis = np.zeros((end.shape[1], 3))
    found = np.linalg.svd(end, full_matrices=True)[2][:3]
    basis[:, :len(found)] = found.T
    basis[:, 0] *= 1 if (end @ basis[:, 0]).mean() >= 0 else -1
    turned = np.array([[np.cos(TURN), 0, np.sin(TURN)], [0, 1, 0], [-np.sin(TURN), 0, np.cos(TURN)]])
    return basis @ turned


def _groups_of(end: np.ndarray, delta: float) -> np.ndarray:
    """The group of each token, [token], from 0 on, the largest first: tokens at most delta apart."""
    near = csr_array(np.linalg.norm(end[:, None] - end[None], axis=2) <= 2 * np.sin(delta / 2))
    found = connected_components(near, directed=False)[1]
    return np.argsort(np.argsort(-np.bincount(found), kind="stable"))[found]


def scene(comparison: Comparison) -> Scene:
    """The shown tokens of the first seed on the sphere, in the colours of the clusters in which they end."""
    facts, time = comparison.facts(), comparison.axis("time")
    position, number = of_tokens(comparison, "position")[0][:, :MOST], of_tokens(comparison, "number")[0]
    view, dimension = _axes_of(position[-1]), int(facts["dimension"])
    known = np.isfinite(number[-1])
    colours = np.array([to_rgb(one) for one in GROUPS])[_groups_of(position[-1], float(facts["delta"])).clip(max=len(GROUPS) - 1)] if known else np.full(
        (position.shape[1], 3), to_rgb(ACCENT))

    def paint(axes: Axes, at: int) -> None:
        x = position[at]
        near = np.exp(-(np.maximum(0, 2 - 2 * x @ x.T) / NEAR**2)).mean(axis=1)
        right, up, depth = (x @ view).T
        order = depth.argsort()
        far = (0.65 * np.clip(0.5 - 2 * depth, 0, 1))[:, None]  # share of the colour of the sphere: the far side is pale
        beads(axes, np.column_stack([right, up])[order], near[order], ((1 - far) * colours + far * to_rgb(INSIDE))[order], inside=INSIDE, least=0.025)

    space = "seen from outside, the far side faded" if dimension <= 3 else "along the first three principal axes of the last state"
    return Scene(comparison, "clusters-sphere-frames", "Tokens find their clusters",
                 f"{position.shape[1]} of {facts['tokens']:,} tokens in dimension {dimension}, β = {facts['beta']:g}, seed {comparison.seeds[0]}, {space}. "
                 + ("Colours: the cluster in which a token ends. " if known else "")
                 + "Below: the number of clusters, once nearly all tokens are in compact components, and N₂.",
                 time, of_tokens(comparison, "number_2")[0], number, paint)


def draw(study: Study) -> list[Drawing]:
    """Draws cosines, numbers of clusters and powers of the first seed, a strip of frames, in space also maps; none without a file of
    `clusters_sphere`."""
    comparison = study.of(EXPERIMENT)
    if comparison is None:
        return []
    return [_in_time(comparison), strip(scene(comparison)), *([_in_space(comparison)] if int(comparison.facts()["dimension"]) == 3 else [])]


def table(comparison: Comparison) -> list[tuple[str, ...]]:
    """Rows of text, the first of them headings: what the seeds found, beside theory."""
    facts, formation = comparison.facts(), float(comparison.facts()["formation_theory"])
    return [("", "seeds", "theory"),
            ("clusters at the end", counts_of_seeds(of_tokens(comparison, "number")[:, -1]), ""),
            ("time of the first clusters", mean_and_spread(of_tokens(comparison, "formed")),
             f"degree {facts['fastest_harmonic']} of order one at {formation:.3f}" if np.isfinite(formation) else ""),
            ("N₂ at the beginning", mean_and_spread(of_tokens(comparison, "number_2")[:, 0]), ""),
            ("N₂ at the end", mean_and_spread(of_tokens(comparison, "number_2")[:, -1]), "")]


SECTIONS = (Section(22, "clusters-sphere", "Tokens on the sphere", EXPERIMENT, draw, table),)
