"""The figures of `hessian`."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.image import AxesImage
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from fluxformer.hessian.spectra import PARTS, Spectra
from fluxformer.style import ACCENT, INK, SOFT, panel, save, sheet

COLOURS = {"hessian": INK, "gauss_newton": ACCENT, "functional": "#2563eb"}
MODEL_COLOURS = (INK, ACCENT, "#2563eb", "#0f9d78")
WIDTH = 0.12  # of the Gaussians, in asinh(eigenvalue / scale)


def _scale(data: Spectra) -> float:
    """The eigenvalue at which the axis turns from linear to logarithmic: a ten-thousandth of the largest."""
    largest = max(np.nanmax(np.abs(data.numbers(model, part, "density_node")))
                  for model in data.models for part in data.parts(model, "density_node"))
    return 1e-4 * float(largest) if largest > 0 else 1.0


def _ticks(axes: Axes, scale: float, low: float, high: float) -> None:
    """Powers of ten on both sides of 0."""
    first, last = np.floor(np.log10(scale)) + 1, np.ceil(np.log10(scale * np.sinh(max(high, -low))))
    values = [sign * 10.0 ** power for power in np.arange(first, last + 1) for sign in (-1, 1)] + [0.0]
    shown = [value for value in sorted(values) if low <= np.arcsinh(value / scale) <= high]
    axes.xaxis.set_major_locator(FixedLocator([float(np.arcsinh(value / scale)) for value in shown]))
    labels = {float(np.arcsinh(value / scale)): f"{value:g}".replace("-", "−") for value in shown}
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: labels.get(x, "")))


def spectrum(data: Spectra, folder: str, name: str) -> str:
    """Spectral density by model and part, the extreme eigenvalues as marks; returns the path."""
    models = [model for model in data.models if data.parts(model, "density_node")]
    scale = _scale(data)
    figure = sheet(9.5, 1.2 + 2.9 * len(models), "Spectrum of the Hessian",
                   f"Density of the eigenvalues λ by Lanczos quadrature, on the axis asinh(λ/λ₀) with λ₀ = {scale:.2g} nat, broadened by "
                   f"{WIDTH}; marks: the outermost eigenvalues")
    rows = figure.subplots(len(models), 1, squeeze=False, sharex=True)[:, 0]
    for axes, model in zip(rows, models):
        ends = np.concatenate([data.numbers(model, part, "density_node").ravel() for part in data.parts(model, "density_node")])
        low, high = (float(np.arcsinh(edge / scale)) for edge in (np.nanmin(ends), np.nanmax(ends)))
        grid = np.linspace(low - 1, high + 1, 1200)
        for part in data.parts(model, "density_node"):
            axes.plot(grid, data.density(model, part, grid, scale, WIDTH), color=COLOURS[part], lw=1.6, label=PARTS[part])
            for end in ("largest_eigenvalue", "smallest_eigenvalue"):
                if data.has(model, part, end):
                    values = data.numbers(model, part, end).ravel()
                    values = values[np.isfinite(values)]
                    axes.plot(np.arcsinh(values / scale), np.full(len(values), 2e-5), "|", color=COLOURS[part], ms=11, mew=1.4)
        axes.set_yscale("log")
        axes.set_ylim(1e-5, 10)
        axes.axvline(0, color=SOFT, lw=0.8)
        panel(axes, f"{model}", "density", "")
        axes.legend(loc="upper right")
        _ticks(axes, scale, low - 1, high + 1)
    rows[-1].set_xlabel("eigenvalue λ  [nat]")
    return save(figure, data.run, folder, name)


def _heat_map(axes: Axes, numbers: np.ndarray, names: list[str], title: str, **how: object) -> AxesImage:
    image = axes.imshow(numbers, **how)
    axes.set_title(title)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
    axes.set_yticks(range(len(names)), names, fontsize=6)
    return image


def course(data: Spectra, folder: str, name: str) -> str:
    """The largest eigenvalues over the training, and the loss; returns the path."""
    figure = sheet(9.5, 4.6, "Largest eigenvalue of the Hessian over the training",
                   "At the copies of the weights after some epochs; lines are means over seeds, dots are seeds")
    largest, loss = figure.subplots(1, 2)
    for number, model in enumerate(data.with_course):
        epochs, colour = data.run.coordinate("copied_epoch"), MODEL_COLOURS[number]
        for axes, values in ((largest, data.numbers(model, "hessian", "epoch_largest_eigenvalue")[..., 0]),
                             (loss, data.numbers(model, "hessian", "epoch_loss"))):
            axes.plot(epochs, values.mean(axis=0), color=colour, lw=1.8, label=model)
            axes.plot(np.broadcast_to(epochs, values.shape).ravel(), values.ravel(), "o", color=colour, ms=3.5, alpha=0.5)
    for axes, title, label in ((largest, "Largest eigenvalue", "λ  [nat]"), (loss, "Loss of the samples", "loss  [nat]")):
        axes.set_yscale("log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel(axes, title, label, "epoch")
    largest.legend()
    return save(figure, data.run, folder, name)


def distances(data: Spectra, model: str, folder: str, name: str) -> str:
    """Distances between the spectral densities of blocks, a heat map for each part; returns the path."""
    parts, names = data.parts(model, "block_distance"), data.block_names(model)
    side = max(3.6, 0.17 * len(names))
    spread = ", ".join(f"{PARTS[part]} {np.nanmean(data.numbers(model, part, 'heterogeneity')):.2f}" for part in parts)
    figure = sheet(1.9 + (side + 0.9) * len(parts), 1.6 + side, f"Heterogeneity of the blocks: {model}",
                   f"Jensen-Shannon distance between their spectral densities, each in units of its rms eigenvalue; white: within twice the "
                   f"distance of two halves of the probes; heterogeneity: {spread}")
    for axes, part in zip(figure.subplots(1, len(parts), squeeze=False)[0], parts):
        apart, floor = (data.numbers(model, part, name_).mean(axis=0) for name_ in ("block_distance", "block_floor"))
        told = np.where(apart >= 2 * np.maximum(floor[:, None], floor[None, :]), apart, np.nan)
        image = _heat_map(axes, told, names, PARTS[part], vmin=0, vmax=1, cmap="magma")
    figure.colorbar(image, ax=figure.axes, label="distance (0: equal, 1: no overlap)", shrink=0.8)
    return save(figure, data.run, folder, name)


def blocks(data: Spectra, model: str, folder: str, name: str) -> str:
    """Frobenius norms of the blocks, a heat map for each part; returns the path."""
    parts = data.parts(model, "block_norm")
    names = data.block_names(model)
    norms = {part: data.numbers(model, part, "block_norm").mean(axis=0) for part in parts}
    positive = np.concatenate([norm[norm > 0] for norm in norms.values()])
    side = max(3.6, 0.17 * len(names))
    figure = sheet(1.9 + (side + 0.9) * len(parts), 1.6 + side, f"Blocks of the Hessian: {model}",
                   "Frobenius norm of each block of rows and columns (Hutchinson); mean over seeds")
    shade = LogNorm(positive.min(), positive.max()) if len(positive) else None
    for axes, part in zip(figure.subplots(1, len(parts), squeeze=False)[0], parts):
        image = _heat_map(axes, norms[part], names, PARTS[part], norm=shade, cmap="magma")
    figure.colorbar(image, ax=figure.axes, label="Frobenius norm  [nat]", shrink=0.8)
    return save(figure, data.run, folder, name)
