"""Tokens on the circle or the sphere at a few times side by side, and as an animation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.collections import EllipseCollection
from matplotlib.patches import Circle

from fluxformer.report.data import Comparison
from fluxformer.report.origins import origins
from fluxformer.report.style import Drawing, canvas
from fluxformer.style import ACCENT, INK, SOFT, plt
from fluxformer.text import counted

SHOWN = 7        # frames of a strip
ANIMATED = 80    # frames of an animation at most
RATE = 12        # frames of an animation per second
HELD = 18        # times that its last frame is repeated
INCHES, DOTS = 4.2, 100  # its size, and dots per inch
AROUND = 1.25    # half the width of a frame; the circle has radius 1
BEAD = 0.34      # radius of the bead that stands for all tokens


class Scene(NamedTuple):
    """One start as it is drawn.

    Attributes
    ----------
    comparison : Comparison
        The run.
    name, title, sentence : str
        Those of the drawing.
    time, number_2, number : ndarray, shape (times,)
        Stored times; N_2, not finite where nothing is known; number of clusters, NaN where there are none.
    paint : callable
        Draws the tokens at a stored time, by its place among them.
    """
    comparison: Comparison
    name: str
    title: str
    sentence: str
    time: np.ndarray
    number_2: np.ndarray
    number: np.ndarray
    paint: Callable[[Axes, int], None]


def chosen(number_2: np.ndarray, count: int) -> list[int]:
    """Places of up to `count` stored times, the first and the last known ones among them.

    They are evenly spread over (place / places + fallen share of log N_2) / 2: half of the strip follows the stored times, which a run spaces
    evenly or ever wider, half of it goes to the times at which N_2 changes."""
    known = np.flatnonzero(np.isfinite(number_2))
    if len(known) <= count:
        return known.tolist()
    place = np.linspace(0, 1, len(known))
    fallen = np.concatenate([[0], np.abs(np.diff(np.log(number_2[known]))).cumsum()])
    course = place + fallen / fallen[-1] if fallen[-1] > 1e-9 else place
    wanted = np.linspace(0, course[-1], count)
    return known[np.unique(np.abs(course[:, None] - wanted).argmin(axis=0))].tolist()


def beads(axes: Axes, places: np.ndarray, shares: np.ndarray, colours: np.ndarray, inside: str = "none", least: float = 0.0) -> None:
    """A circle of radius 1, filled with the colour `inside`, and beads in the areas of the shares of the tokens for which they stand.

    Parameters
    ----------
    places : ndarray, shape (beads, 2)
    shares : ndarray, shape (beads,)
    colours : ndarray, shape (beads, 3 or 4)
    least : float
        The least radius of a bead.
    """
    axes.add_patch(Circle((0, 0), 1, fc=inside, ec="#d1d5db", lw=1))
    size = 2 * np.maximum(BEAD * np.sqrt(shares), least)
    axes.add_collection(EllipseCollection(size, size, np.zeros_like(size), units="xy", offsets=places, offset_transform=axes.transData,
                                          facecolors=colours, lw=0, clip_on=False))


def _frame(axes: Axes, scene: Scene, at: int) -> None:
    """One frame with time and numbers of clusters below it."""
    axes.set(xlim=(-AROUND, AROUND), ylim=(-AROUND, AROUND), aspect="equal", anchor="N")
    axes.axis("off")
    scene.paint(axes, at)
    counted_now = bool(np.isfinite(scene.number[at]))
    words = counted(round(float(scene.number[at])), "cluster") if counted_now else "spread" if np.isfinite(scene.number).any() else ""
    for line, (text, colour, bold) in enumerate(((f"t = {float(f'{scene.time[at]:.3g}'):g}", INK, True), (words, ACCENT if counted_now else SOFT, counted_now),
                                                 (f"N₂ = {scene.number_2[at]:.2f}", SOFT, False))):
        axes.annotate(text, (0.5, 0), xycoords="axes fraction", xytext=(0, -2 - 13 * line), textcoords="offset points", ha="center", va="top",
                      color=colour, fontsize=9.5, fontweight="bold" if bold else "normal")


def strip(scene: Scene) -> Drawing:
    """The frames of a strip."""
    places = chosen(scene.number_2, SHOWN)
    figure = canvas(2.2)
    figure.get_layout_engine().set(w_pad=0.01, h_pad=0.02, wspace=0)
    for axes, at in zip(figure.subplots(1, SHOWN)[(SHOWN - len(places)) // 2:], places):
        _frame(axes, scene, at)
    for axes in figure.axes:
        axes.axis("off")  # fewer stored times than frames
    return Drawing(scene.name, scene.title, scene.sentence, figure, scene.comparison.runs)


def animate(scene: Scene, path: str) -> str:
    """Writes the frames as an animated GIF, which begins again at its end; returns the path."""
    places = chosen(scene.number_2, ANIMATED)
    figure = plt.figure(figsize=(INCHES, INCHES + 0.9))
    axes = figure.add_axes((0, 0.9 / (INCHES + 0.9), 1, INCHES / (INCHES + 0.9)))
    origin = "\n".join(origins(scene.comparison.runs))

    def draw(at: int) -> None:
        axes.clear()
        _frame(axes, scene, at)

    figure.text(0.5, 0.01, origin, fontsize=4.5, color=SOFT, ha="center", va="bottom", parse_math=False, wrap=True)
    FuncAnimation(figure, draw, [*places, *places[-1:] * HELD], init_func=lambda: None).save(path, PillowWriter(RATE), dpi=DOTS)
    plt.close(figure)
    return path
