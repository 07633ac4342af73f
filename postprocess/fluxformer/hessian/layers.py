"""Figures of the studies of one attention layer, sizes of entries and heat map (blocks) and growth of norms
(scaling): functions that draw into axes, for `plot` and the report, and the sheets of `plot`."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from fluxformer.hessian.spectra import PARTS
from fluxformer.report.data import MODELS, Comparison, mean_and_spread
from fluxformer.report.style import panel
from fluxformer.statistics import Effect
from fluxformer.style import ACCENT, INK, SOFT, save, sheet

WEIGHTS = (("value V", INK, "-"), ("query Q", ACCENT, "-"), ("key K", "#2563eb", "--"))  # name, colour, line
VALUE, QUERY, KEY = range(len(WEIGHTS))
NORMS = ("block_norm_by_sigma", "matrix_norm_by_sigma")  # norms of attention; norms of a linear network


def numbers(data: Comparison, kind: str, part: str, measure: str) -> np.ndarray:
    """The numbers of a measure of a part; the first axis is the seed."""
    return data.numbers(kind, measure if part == "hessian" else f"{part}_{measure}")


def draw_entries(axes: Axes, data: Comparison, kind: str) -> None:
    """Draws histograms of the entries of the diagonal blocks of H, with their medians."""
    low = data.axis("entry_size")
    shares, medians = numbers(data, kind, "hessian", "entry_share"), numbers(data, kind, "hessian", "median_entry")
    for number, (label, colour, _) in zip(range(shares.shape[1]), WEIGHTS):
        axes.stairs(100 * shares[:, number].mean(axis=0), [*low, 2 * low[-1] - low[-2]], color=colour, lw=1.6, label=label)
        axes.axvline(medians[:, number].mean(), color=colour, lw=1, ls="--")
    if (seen := low[shares.max(axis=(0, 1)) > 1e-4]).size:
        axes.set_xlim(seen[0], seen[-1] + 0.5)
    gap = mean_and_spread(medians[:, VALUE] - medians[:, QUERY]) + " decades" if medians.shape[1] > QUERY else ""
    panel(axes, f"{MODELS[kind].label}\nV over Q {gap}" if gap else MODELS[kind].label, "log₁₀ |entry|", "share of the entries  [%]")


def entries(data: Comparison, folder: str, name: str) -> str:
    """Draws histograms of the entries of the diagonal blocks of H on a sheet; returns the path written."""
    kinds = data.having("entry_share")
    figure = sheet(5.2 * len(kinds), 4.6, "Entries of the Hessian's diagonal blocks",
                   "One attention layer with random weights; lines are means over seeds, dashed their medians")
    for axes, kind in zip(figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0], kinds):
        draw_entries(axes, data, kind)
    figure.axes[0].legend()
    return save(figure, data.runs[0], folder, name)


def with_growth(data: Comparison) -> list[str]:
    """The kinds of layers whose norms were measured by sigma."""
    return [kind for kind in data.models if set(NORMS) & set(data.measures[kind])]


def curves(data: Comparison, kind: str, part: str, layer: int) -> list[tuple[tuple[str, str, str], np.ndarray]]:
    """The norms of a layer as curves: name, colour, line and numbers of shape (seeds, sigmas)."""
    blocks, matrices = NORMS
    if matrices in data.measures[kind]:  # a linear network has no V, Q, K
        return [((f"W_{layer + 1}", INK, "-"), numbers(data, kind, part, matrices)[:, layer])]
    norms = numbers(data, kind, part, blocks)[:, layer]
    return [(how, norms[:, number]) for number, how in zip(range(norms.shape[1]), WEIGHTS)]


def slope(sigma: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Exponent of the growth between the two smallest sigma; NaN if there is only one. `norms`: shape (..., sigmas)."""
    if len(sigma) < 2:
        return np.full(norms.shape[:-1], np.nan)
    with np.errstate(all="ignore"):
        return np.log(norms[..., 1] / norms[..., 0]) / np.log(sigma[1] / sigma[0])


def _power(sigma: np.ndarray, norms: np.ndarray) -> str:
    """The exponent of norms in words, ", n = 5.00 ± 0.01": mean of `slope` over seeds and its 95 % interval;
    nothing for a single sigma."""
    if len(sigma) < 2:
        return ""
    slopes = Effect(slope(sigma, norms))
    half = slopes.interval()[1] - slopes.mean
    return f", n = {slopes.mean:z.2f}".replace("-", "−") + (f" ± {half:.2f}" if np.isfinite(half) else "")


def draw_growth(axes: Axes, data: Comparison, kind: str, part: str, layer: int) -> None:
    """Draws norms of the diagonal blocks of a layer by sigma, with the slope between the two smallest; 0 and
    overflow are left out."""
    axes.set(xscale="log", yscale="log")
    for (label, colour, line), norms in curves(data, kind, part, layer):
        mean = norms.mean(axis=0)
        if (drawn := np.isfinite(mean) & (mean > 0)).any():
            place = data.axis("sigma")[drawn]
            axes.plot(place, mean[drawn], color=colour, lw=1.7, ls=line, label=label + _power(place, norms[:, drawn]))
    panel(axes, PARTS[part], "", "")
    if axes.lines:
        axes.legend(fontsize=8)
    else:
        known = all(np.isfinite(norms).all() for _, norms in curves(data, kind, part, layer))
        axes.text(0.5, 0.5, "0" if known else "not finite", transform=axes.transAxes, ha="center", va="center", color=SOFT)


def growth_sentence() -> str:
    """A sentence on how to read `draw_growth`."""
    return ("Frobenius norm of the diagonal blocks; lines are means over seeds, n the slope between the two smallest sigma (mean over seeds, "
            "95 % interval)")


def growth(data: Comparison, folder: str, name: str) -> str:
    """Draws norms of the diagonal blocks of each layer by sigma, with the slope between the two smallest;
    returns the path written."""
    rows = [(kind, layer) for kind in with_growth(data) for layer in range(len(data.axis("layer")))]
    figure = sheet(4.2 * len(PARTS), 1.2 + 3.3 * len(rows), "Growth of the Hessian's blocks with the embeddings",
                   growth_sentence())
    panels = figure.subplots(len(rows), len(PARTS), squeeze=False, sharex=True, sharey="row")
    for line, (kind, layer) in zip(panels, rows):
        for axes, part in zip(line, PARTS):
            draw_growth(axes, data, kind, part, layer)
            axes.set_title(PARTS[part] if axes.get_subplotspec().is_first_row() else "")
        line[0].set_ylabel(f"{MODELS[kind].label}, layer {layer + 1}\nnorm  [nat]")
    for axes in panels[-1]:
        axes.set_xlabel("sigma of the embeddings")
    return save(figure, data.runs[0], folder, name)


def _mark_blocks(axes: Axes, names: list[str], sizes: np.ndarray) -> None:
    """Draws lines between the blocks of both axes, and writes their names at the middle of each."""
    ends = np.cumsum(sizes)
    for end in ends[:-1]:
        for line in (axes.axhline, axes.axvline):
            line(end - 0.5, color="white", lw=0.5, alpha=0.7)
    middles = ends - sizes / 2
    axes.set_xticks(middles, names, rotation=90, fontsize=7)
    axes.set_yticks(middles, names, fontsize=7)
    axes.tick_params(length=2)


def heat_map(data: Comparison, folder: str, name: str) -> str:
    """Draws the sizes of all entries of the Hessian of the first seed, a panel for each kind of layer;
    returns the path written."""
    kinds, run = data.having("heat_map"), data.runs[0]
    figure = sheet(1.6 + 6.2 * len(kinds), 7.4, "Entries of the whole Hessian",
                   f"log₁₀(|H| + 10⁻⁶) over all weights of a decoder with one layer, seed {data.seeds[0]}")
    maps = {kind: run.analysis("hessian", f"{kind}/heat_map") for kind in kinds}  # stored for one seed: no axis of seeds
    largest = max(float(np.nanmax(values)) for values in maps.values())
    for axes, kind in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds):
        image = axes.imshow(maps[kind], vmin=-6, vmax=largest, cmap="magma")
        axes.set_title(MODELS[kind].label)
        about = data.facts(kind)
        _mark_blocks(axes, str(about["blocks"]).split("\n"), np.array(str(about["block_sizes"]).split("\n"), dtype=int))
    figure.colorbar(image, ax=figure.axes, label="log₁₀(|H| + 10⁻⁶)", shrink=0.8)
    return save(figure, run, folder, name)
