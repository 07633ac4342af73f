#!/usr/bin/env python3
"""Draws docs/figures/floors.png: the floors of the source and the families (folders) on each, as they are in the tree.

    /usr/bin/python3 docs/figures/floors.py
"""

import os
import textwrap

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 (after the back end is chosen)

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FLOORS = ((("src/base", "errors, options, streams, profiling"),),
          (("src/mesh", "depth × token mesh, ghosts"),),
          (("src/io", "HDF5, variables, checkpoints"),),
          (("src/operators", "terms of the equation"), ("src/data", "data sets")),
          (("src/model", "Transformer and PDE model"),),
          (("src/training", "optimisers"), ("src/analysis", "measures"), ("solvers", "PETSc TS")),
          (("drivers", "experiments"),))
INK, SOFT, FILLS = "#1b1f24", "#6b7280", ("#eef2ff", "#e0e7ff", "#e0f2fe", "#dcfce7", "#fef9c3", "#ffedd5", "#fee2e2")
SHARES = {"src/training": 0.26, "src/analysis": 0.46, "solvers": 0.28}  # of the width of their floor
BESIDE = ("input/  decks", "jobscripts/  SLURM", "postprocess/  Python package", "tests/")


def families(folder):
    """The sub-folders of a floor that hold sources."""
    path = os.path.join(ROOT, folder)
    return [name for name in sorted(os.listdir(path)) if os.path.isdir(os.path.join(path, name)) and not name.startswith("_")]


def main():
    lines = {folder: textwrap.wrap("   ".join(families(folder)), int(115 * SHARES.get(folder, 1 / len(rooms)))) for rooms in FLOORS for folder, _ in rooms}
    heights = [0.74 + 0.3 * max(len(lines[folder]) for folder, _ in rooms) for rooms in FLOORS]
    top = sum(heights)
    figure, axes = plt.subplots(figsize=(10.8, 0.68 * top))
    axes.set(xlim=(0, 100), ylim=(-0.75, top + 0.05))
    axes.axis("off")
    for level, (rooms, height) in enumerate(zip(FLOORS, heights)):
        left, floor = 4.0, sum(heights[:level])
        for folder, words in rooms:
            width = 96 * SHARES.get(folder, 1 / len(rooms))
            axes.add_patch(plt.Rectangle((left, floor + 0.06), width - 0.8, height - 0.14, facecolor=FILLS[level], edgecolor=SOFT, lw=0.8))
            title = axes.text(left + 1, floor + height - 0.38, folder + "/", fontsize=11, fontweight="bold", color=INK, va="center")
            axes.annotate(words, (1, 0), xycoords=title, xytext=(10, 1), textcoords="offset points", fontsize=9, color=SOFT)
            axes.text(left + 1, floor + height - 0.62, "\n".join(lines[folder]), fontsize=9, color=INK, va="top", linespacing=1.3)
            left += width
    axes.annotate("", (1.8, 0.1), (1.8, top - 0.1), arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.4})
    axes.text(0.6, top / 2, "includes go down only", rotation=90, fontsize=9.5, color=INK, va="center", ha="center")
    axes.text(4, -0.4, "beside them:   " + "     ".join(BESIDE), fontsize=9, color=SOFT, va="center")
    figure.savefig(os.path.join(HERE, "floors.png"), dpi=130, bbox_inches="tight", pad_inches=0.08)


if __name__ == "__main__":
    main()
