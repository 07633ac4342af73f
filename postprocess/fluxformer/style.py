"""What all figures share: style, heading, the footer that identifies the run, PNG and PDF output. Needs no display."""

from __future__ import annotations

import os
from typing import Protocol

# Before matplotlib, which stops at a back end that it does not have: a shell inside Jupyter names one.
os.environ["MPLBACKEND"] = "Agg"

import matplotlib  # noqa: E402
import numpy as np  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.text import Text  # noqa: E402
from matplotlib.ticker import FuncFormatter  # noqa: E402

INK, SOFT, ACCENT = "#1b1f24", "#6b7280", "#e4572e"
HEADING, FOOTER, LINE = 0.78, 0.30, 0.13  # inches kept free at the top and at the bottom; per further line there
SMOOTHED = 60  # number of means that show a course over steps

# Figures look the same everywhere: a matplotlibrc of the user may ask for TeX (text.usetex), which reads names with _ and % as commands.
matplotlib.rcdefaults()
plt.rcParams.update({
    "savefig.dpi": 150, "font.size": 10, "axes.titlesize": 11, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.edgecolor": SOFT, "axes.labelcolor": INK, "text.color": INK,
    "xtick.color": SOFT, "ytick.color": SOFT, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "axes.spines.top": False, "axes.spines.right": False, "grid.color": "#e5e7eb",
    "legend.facecolor": "white", "legend.edgecolor": "none", "legend.framealpha": 0.9, "pdf.fonttype": 42,
})


plain_numbers = FuncFormatter(lambda value, _: f"{value:g}".replace("-", "−"))


class HasOrigin(Protocol):
    """A thing that a footer can name: a Run, or several of them as one."""

    @property
    def origin(self) -> str:
        """Text on where a figure comes from, a line or several."""


def decades(numbers: np.ndarray) -> float:
    """The number of powers of ten that the finite numbers above 0 span; 0 if there are none."""
    numbers = numbers[np.isfinite(numbers) & (numbers > 0)]
    return float(np.log10(numbers.max() / numbers.min())) if len(numbers) else 0.0


def means(values: np.ndarray, window: int) -> np.ndarray:
    """Means over `window` consecutive numbers along the last axis; a remainder at its end is left out."""
    count = values.shape[-1] // window
    return values[..., :count * window].reshape(*values.shape[:-1], count, window).mean(axis=-1)


def no_data(axes: Axes, why: str) -> None:
    """Says in an empty panel why it is empty."""
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color=SOFT)
    axes.set(xticks=[], yticks=[])


def panel(axes: Axes, title: str, ylabel: str, xlabel: str) -> None:
    """Sets title, axis labels and horizontal grid lines of a panel."""
    axes.set_title(title)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.grid(True, axis="y")


def sheet(width: float, height: float, heading: str, explanation: str, runs: int = 1) -> Figure:
    """An empty figure with a heading.

    Parameters
    ----------
    width, height : float
        Size in inches.
    heading : str
        The message, in bold.
    explanation : str
        What is shown.
    runs : int
        Lines of the footer that `save` writes.
    """
    figure = plt.figure(figsize=(width, height), layout="constrained")
    footer = FOOTER + LINE * (runs - 1)
    figure.get_layout_engine().set(rect=(0.005, footer / height, 0.99, 1 - (footer + HEADING) / height))
    _fit(figure.text(0.012, 1 - 0.12 / height, heading, fontsize=15, fontweight="bold", va="top"))
    _fit(figure.text(0.012, 1 - 0.44 / height, explanation, fontsize=10, color=SOFT, va="top"))
    return figure


def _fit(text: Text) -> None:
    """Makes the letters of a text smaller if it is wider than its figure."""
    wide = text.get_window_extent().width / (0.976 * text.figure.bbox.width)
    if wide > 1:
        text.set_fontsize(text.get_fontsize() / wide)


def save(figure: Figure, run: HasOrigin | list[HasOrigin], folder: str, name: str) -> str:
    """Writes folder/name.png and folder/name.pdf with the origin of the run (or runs) at the foot; returns the first path."""
    os.makedirs(folder, exist_ok=True)
    origin = "\n".join(one.origin for one in run) if isinstance(run, list) else run.origin
    figure.text(0.012, 0.07 / figure.get_figheight(), origin, fontsize=7.5, color=SOFT, va="bottom", parse_math=False)
    path = os.path.join(folder, name)
    figure.savefig(path + ".png")
    figure.savefig(path + ".pdf", metadata={"CreationDate": None})
    plt.close(figure)
    return path + ".png"
