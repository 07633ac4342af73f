"""Figures of the studies of one attention layer: sizes of entries (blocks) and growth of norms (scaling)."""

from __future__ import annotations

import numpy as np

from fluxformer.hessian.spectra import PARTS
from fluxformer.io import Run
from fluxformer.style import ACCENT, INK, panel, save, sheet

KINDS = ("softmax", "linear")
WEIGHTS = (("value V", INK, "-"), ("query Q", ACCENT, "-"), ("key K", "#2563eb", "--"))  # name, colour, line


def kinds_of(run: Run, measure: str) -> list[str]:
    """The kinds of attention for which a file has a measure."""
    return [kind for kind in KINDS if measure in run.names(f"analysis/hessian/{kind}")]


def _numbers(run: Run, kind: str, part: str, measure: str) -> np.ndarray:
    """A measure of a part, seeds first."""
    return run.analysis("hessian", f"{kind}/{measure if part == 'hessian' else f'{part}_{measure}'}")


def entries(run: Run, folder: str, name: str) -> str:
    """Histograms of the entries of the diagonal blocks of H; returns the path."""
    kinds = kinds_of(run, "entry_share")
    figure = sheet(5.2 * len(kinds), 4.6, "Entries of the Hessian's diagonal blocks",
                   "One attention layer with random weights; lines are means over seeds, dashed their medians")
    low = run.coordinate("entry_size")
    for axes, kind in zip(figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0], kinds):
        shares, medians = _numbers(run, kind, "hessian", "entry_share"), _numbers(run, kind, "hessian", "median_entry")
        for number, (label, colour, _) in enumerate(WEIGHTS):
            axes.stairs(100 * shares[:, number].mean(axis=0), [*low, 2 * low[-1] - low[-2]], color=colour, lw=1.6, label=label)
            axes.axvline(medians[:, number].mean(), color=colour, lw=1, ls="--")
        seen = low[(shares.max(axis=(0, 1)) > 1e-4)]
        axes.set_xlim(seen[0], seen[-1] + 0.5)
        gap = medians[:, 0] - medians[:, 1]
        panel(axes, f"{kind}: V over Q {gap.mean():.2f} ± {gap.std(ddof=1) if len(gap) > 1 else np.nan:.2f} decades".replace("-", "−"),
              "share of the entries  [%]", "log₁₀ |entry|")
    figure.axes[0].legend()
    return save(figure, run, folder, name)


def growth(run: Run, folder: str, name: str) -> str:
    """Norms of the diagonal blocks of each layer by sigma, with the slope between the two smallest; returns the path."""
    kinds, sigma = kinds_of(run, "block_norm_by_sigma"), run.coordinate("sigma")
    layers = _numbers(run, kinds[0], "hessian", "block_norm_by_sigma").shape[1]
    figure = sheet(4.2 * len(PARTS), 1.2 + 3.3 * len(kinds) * layers, "Growth of the Hessian's blocks with the embeddings",
                   "Frobenius norm of the diagonal blocks; lines are means over seeds, n the slope between the two smallest sigma")
    rows = figure.subplots(len(kinds) * layers, len(PARTS), squeeze=False, sharex=True, sharey="row")
    for row, (kind, layer) in zip(rows, [(kind, layer) for kind in kinds for layer in range(layers)]):
        for axes, (part, title) in zip(row, PARTS.items()):
            norms = _numbers(run, kind, part, "block_norm_by_sigma")[:, layer]
            for number, (label, colour, line) in enumerate(WEIGHTS):
                mean = norms[:, number].mean(axis=0)
                if not (mean > 0).all():
                    continue  # the value block of the functional part is 0 in the last layer
                slope = np.log(mean[1] / mean[0]) / np.log(sigma[1] / sigma[0]) if len(sigma) > 1 else np.nan
                axes.loglog(sigma, mean, color=colour, lw=1.7, ls=line, label=f"{label}, n = {slope:.2f}")
            panel(axes, f"{kind}, layer {layer + 1}: {title}", "norm  [nat]" if axes is row[0] else "", "")
            if axes.lines:
                axes.legend(fontsize=8)
    for axes in rows[-1]:
        axes.set_xlabel("sigma of the embeddings")
    return save(figure, run, folder, name)
