"""Figures of the studies of one attention layer: sizes of entries and heat map (blocks), growth of norms (scaling)."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from fluxformer.hessian.spectra import PARTS
from fluxformer.io import Run
from fluxformer.statistics import Effect
from fluxformer.style import ACCENT, INK, SOFT, panel, save, sheet

KINDS = {"softmax": "soft-max", "linear": "linear attention", "softmax_pre_norm": "soft-max, pre-norm",
         "softmax_post_norm": "soft-max, post-norm", "linear_mlp": "linear network"}
WEIGHTS = (("value V", INK, "-"), ("query Q", ACCENT, "-"), ("key K", "#2563eb", "--"))  # name, colour, line
NORMS = ("block_norm_by_sigma", "matrix_norm_by_sigma")  # of attention; of a linear network


def kinds_of(run: Run, *measures: str) -> list[str]:
    """The kinds of layers for which a file has one of these measures."""
    return [kind for kind in KINDS if set(measures) & set(run.names(f"analysis/hessian/{kind}"))]


def _signed(number: float) -> str:
    """Two decimals, with a minus sign."""
    return f"{number:.2f}".replace("-", "−")


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
        spread = f" ± {gap.std(ddof=1):.2f}" if len(gap) > 1 else ""
        panel(axes, f"{KINDS[kind]}: V over Q {_signed(gap.mean())}{spread} decades", "share of the entries  [%]", "log₁₀ |entry|")
    figure.axes[0].legend()
    return save(figure, run, folder, name)


def _curves(run: Run, kind: str, part: str, layer: int) -> list[tuple[tuple[str, str, str], np.ndarray]]:
    """Label, colour and line of each curve of a panel, and its numbers [seed, sigma]."""
    if kind == "linear_mlp":
        return [((f"W_{layer + 1}", INK, "-"), _numbers(run, kind, part, NORMS[1])[:, layer])]
    norms = _numbers(run, kind, part, NORMS[0])[:, layer]
    return [(how, norms[:, number]) for number, how in enumerate(WEIGHTS)]


def _power(sigma: np.ndarray, norms: np.ndarray) -> str:
    """The slope between two sigma, "5.00 ± 0.01": mean over seeds and its 95 % interval."""
    slopes = Effect(np.log(norms[:, 1] / norms[:, 0]) / np.log(sigma[1] / sigma[0]))
    half = slopes.interval()[1] - slopes.mean
    return _signed(slopes.mean) + (f" ± {half:.2f}" if np.isfinite(half) else "")


def growth(run: Run, folder: str, name: str) -> str:
    """Norms of the diagonal blocks of each layer by sigma, with the slope between the two smallest; returns the path."""
    kinds, sigma = kinds_of(run, *NORMS), run.coordinate("sigma")
    layers = len(run.coordinate("layer"))
    figure = sheet(4.2 * len(PARTS), 1.2 + 3.3 * len(kinds) * layers, "Growth of the Hessian's blocks with the embeddings",
                   "Frobenius norm of the diagonal blocks; lines are means over seeds, n the slope between the two smallest sigma (mean over "
                   "seeds, 95 % interval)")
    rows = figure.subplots(len(kinds) * layers, len(PARTS), squeeze=False, sharex=True, sharey="row")
    for number, (kind, layer) in enumerate([(kind, layer) for kind in kinds for layer in range(layers)]):
        row = rows[number]
        for axes, (part, title) in zip(row, PARTS.items()):
            axes.set(xscale="log", yscale="log")
            for (label, colour, line), norms in _curves(run, kind, part, layer):
                mean = norms.mean(axis=0)
                drawn = np.flatnonzero(np.isfinite(mean) & (mean > 0))
                if not len(drawn):
                    continue  # the value block of the functional part is 0 in the last layer
                power = f", n = {_power(sigma[drawn], norms[:, drawn])}" if len(drawn) > 1 else ""
                axes.plot(sigma[drawn], mean[drawn], color=colour, lw=1.7, ls=line, label=label + power)
            panel(axes, title if number == 0 else "", f"{KINDS[kind]}, layer {layer + 1}\nnorm  [nat]" if axes is row[0] else "", "")
            if axes.lines:
                axes.legend(fontsize=8)
            else:
                axes.text(0.5, 0.5, "0", transform=axes.transAxes, ha="center", va="center", color=SOFT)
    for axes in rows[-1]:
        axes.set_xlabel("sigma of the embeddings")
    return save(figure, run, folder, name)


def _mark_blocks(axes: Axes, names: list[str], sizes: np.ndarray) -> None:
    """Lines between the blocks of both axes, and their names at the middle of each."""
    ends = np.cumsum(sizes)
    for end in ends[:-1]:
        for line in (axes.axhline, axes.axvline):
            line(end - 0.5, color="white", lw=0.5, alpha=0.7)
    middles = ends - sizes / 2
    axes.set_xticks(middles, names, rotation=90, fontsize=7)
    axes.set_yticks(middles, names, fontsize=7)
    axes.tick_params(length=2)


def heat_map(run: Run, folder: str, name: str) -> str:
    """Sizes of all entries of the Hessian of the first seed, a panel for each kind of layer; returns the path."""
    kinds = kinds_of(run, "heat_map")
    figure = sheet(1.6 + 6.2 * len(kinds), 7.4, "Entries of the whole Hessian",
                   f"log₁₀(|H| + 10⁻⁶) over all weights of a decoder with one layer, seed {run.coordinate('seed')[0]:g}")
    maps = {kind: run.analysis("hessian", f"{kind}/heat_map") for kind in kinds}
    largest = max(float(np.nanmax(values)) for values in maps.values())
    for axes, kind in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds):
        image = axes.imshow(maps[kind], vmin=-6, vmax=largest, cmap="magma")
        axes.set_title(KINDS[kind])
        about = run.described(f"analysis/hessian/{kind}")
        _mark_blocks(axes, str(about["blocks"]).split("\n"), np.array(str(about["block_sizes"]).split("\n"), dtype=int))
    figure.colorbar(image, ax=figure.axes, label="log₁₀(|H| + 10⁻⁶)", shrink=0.8)
    return save(figure, run, folder, name)
