"""Shared by all figures: style, heading, the footer that identifies the run, PNG and PDF output. Needs no display."""

import os

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 (after the back end is chosen)
from matplotlib.ticker import FuncFormatter  # noqa: E402

INK, SOFT, ACCENT = "#1b1f24", "#6b7280", "#e4572e"
HEADING, FOOTER, LINE = 0.78, 0.30, 0.13  # inches kept free at the top and at the bottom; per further line there

plt.rcParams.update({
    "savefig.dpi": 150, "font.size": 10, "axes.titlesize": 11, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.edgecolor": SOFT, "axes.labelcolor": INK, "text.color": INK,
    "xtick.color": SOFT, "ytick.color": SOFT, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "axes.spines.top": False, "axes.spines.right": False, "grid.color": "#e5e7eb", "legend.frameon": False,
    "pdf.fonttype": 42,
})


plain_numbers = FuncFormatter(lambda value, _: f"{value:g}".replace("-", "−"))


def decades(numbers):
    """How many powers of ten the finite numbers above 0 span; 0 if there are none."""
    numbers = numbers[np.isfinite(numbers) & (numbers > 0)]
    return np.log10(numbers.max() / numbers.min()) if len(numbers) else 0.0


def sheet(width, height, heading, explanation, runs=1):
    """An empty figure (inches) with its message in bold and, below it, what is shown; `runs`: number of runs in the footer."""
    figure = plt.figure(figsize=(width, height), layout="constrained")
    footer = FOOTER + LINE * (runs - 1)
    figure.get_layout_engine().set(rect=(0.005, footer / height, 0.99, 1 - (footer + HEADING) / height))
    figure.text(0.012, 1 - 0.12 / height, heading, fontsize=15, fontweight="bold", va="top")
    figure.text(0.012, 1 - 0.44 / height, explanation, fontsize=10, color=SOFT, va="top")
    return figure


def save(figure, run, folder, name):
    """Writes folder/name.png and folder/name.pdf; returns the first path. `run` may be a list of them."""
    os.makedirs(folder, exist_ok=True)
    origin = "\n".join(one.origin for one in run) if isinstance(run, list) else run.origin
    figure.text(0.012, 0.07 / figure.get_figheight(), origin, fontsize=7.5, color=SOFT, va="bottom", parse_math=False)
    path = os.path.join(folder, name)
    figure.savefig(path + ".png")
    figure.savefig(path + ".pdf", metadata={"CreationDate": None})
    plt.close(figure)
    return path + ".png"
