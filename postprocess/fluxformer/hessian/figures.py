"""The figures of Hessians of trained models: functions that draw into axes, for `plot` and the report, and
the sheets of `plot`."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.image import AxesImage
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from fluxformer.hessian.spectra import EXACT, PARTS_OF_MODELS, Spectra
from fluxformer.report.data import MODELS
from fluxformer.report.style import panel
from fluxformer.style import ACCENT, INK, SOFT, no_data, save, sheet

COLOURS = {"hessian": INK, "gauss_newton": ACCENT, "functional": "#2563eb", EXACT: "#b45309"}
WIDTH = 0.12  # standard deviation of the Gaussians, in asinh(eigenvalue / scale)
# measure over the epochs: title, axis
COURSES = {"largest_eigenvalue": ("Largest eigenvalue", "λ  [nat]"), "loss": ("Loss of the samples", "loss  [nat]")}
SHARPNESS = {"largest_eigenvalue": ("Sharpness", "learning rate × largest λ"),
             "preconditioned_eigenvalue": ("Preconditioned sharpness", "learning rate × preconditioned λ")}


def density_scale(data: Spectra) -> float:
    """The eigenvalue at which the axis turns from linear to logarithmic: a ten-thousandth of the largest."""
    largest = max(np.abs(data.quadrature(model, part)[0]).max() for model in data.models for part in data.parts_with_density(model))
    return 1e-4 * float(largest) if largest > 0 else 1.0


def density_sentence(scale: float) -> str:
    """A sentence on how to read `draw_density`."""
    return (f"Density of the eigenvalues λ by Lanczos quadrature, on the axis asinh(λ/λ₀) with λ₀ = {scale:.2g} nat, broadened by {WIDTH}; "
            "marks: the outermost eigenvalues")


def _ticks(axes: Axes, scale: float, low: float, high: float) -> None:
    """Ticks of an axis that is logarithmic on both sides of 0: powers of ten."""
    first, last = np.floor(np.log10(scale)) + 1, np.ceil(np.log10(scale * np.sinh(max(high, -low))))
    values = [sign * 10.0 ** power for power in np.arange(first, last + 1) for sign in (-1, 1)] + [0.0]
    shown = [value for value in sorted(values) if low <= np.arcsinh(value / scale) <= high]
    axes.xaxis.set_major_locator(FixedLocator([float(np.arcsinh(value / scale)) for value in shown]))
    labels = {float(np.arcsinh(value / scale)): f"{value:g}".replace("-", "−") for value in shown}
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: labels.get(x, "")))


def draw_density(axes: Axes, data: Spectra, model: str, scale: float) -> None:
    """Draws the spectral density of each part of a model's Hessian, the extreme eigenvalues as marks."""
    parts = data.parts_with_density(model)
    ends = np.concatenate([data.quadrature(one, part)[0] for one in data.models for part in data.parts_with_density(one)])
    low, high = (float(np.arcsinh(edge / scale)) for edge in (ends.min(), ends.max()))  # all models share an axis
    grid = np.linspace(low - 1, high + 1, 1200)
    for part in parts:
        axes.plot(grid, data.density(model, part, grid, scale, WIDTH), color=COLOURS[part], lw=1.6, label=PARTS_OF_MODELS[part])
        for end in ("largest_eigenvalue", "smallest_eigenvalue"):
            if data.has(model, part, end):
                values = data.numbers(model, part, end).ravel()
                values = values[np.isfinite(values)]
                axes.plot(np.arcsinh(values / scale), np.full(len(values), 2e-5), "|", color=COLOURS[part], ms=11, mew=1.4)
    axes.set_yscale("log")
    axes.set_ylim(1e-5, 10)
    axes.axvline(0, color=SOFT, lw=0.8)
    panel(axes, MODELS[model].label, "", "density")
    _ticks(axes, scale, low - 1, high + 1)


def spectrum(data: Spectra, folder: str, name: str) -> str:
    """Draws spectral densities by model and part, the extreme eigenvalues as marks; returns the path written."""
    models, scale = data.with_density(), density_scale(data)
    figure = sheet(9.5, 1.2 + 2.9 * len(models), "Spectrum of the Hessian", density_sentence(scale))
    rows = figure.subplots(len(models), 1, squeeze=False, sharex=True)[:, 0]
    for axes, model in zip(rows, models):
        draw_density(axes, data, model, scale)
        axes.legend(loc="upper right")
    rows[-1].set_xlabel("eigenvalue λ  [nat]")
    return save(figure, data.run, folder, name)


def _draw_over_epochs(axes: Axes, data: Spectra, model: str, values: np.ndarray) -> None:
    """Draws means over seeds as a line, seeds as dots. `values`: shape (seeds, epochs)."""
    epochs, style = data.comparison.axis("copied_epoch"), MODELS[model]
    axes.plot(epochs, np.nanmean(values, axis=0), style.line, color=style.colour, lw=1.8, label=style.label)
    axes.plot(np.broadcast_to(epochs, values.shape).ravel(), values.ravel(), style.marker, color=style.colour, ms=3.5, alpha=0.5)


def _set_epochs(axes: Axes, title: str, label: str) -> None:
    """Sets scales and labels of a panel over epochs; a panel without numbers above 0 says so."""
    if not any((np.asarray(line.get_ydata()) > 0).any() for line in axes.lines):
        axes.clear()
        no_data(axes, "no finite numbers above 0")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel(axes, title, "epoch", label)


def draw_course(axes: Axes, data: Spectra, measure: str) -> None:
    """Draws a measure of COURSES over the training, by model."""
    for model in data.having(f"epoch_{measure}"):
        values = data.numbers(model, "hessian", f"epoch_{measure}")
        _draw_over_epochs(axes, data, model, values[..., 0] if values.ndim > 2 else values)
    _set_epochs(axes, *COURSES[measure])


def with_sharpness(data: Spectra) -> list[str]:
    """The eigenvalues of SHARPNESS that can be compared with a learning rate."""
    return [name for name in SHARPNESS if any(data.sharpness(model, name) is not None for model in data.models)]


def draw_sharpness(axes: Axes, data: Spectra, eigenvalue: str) -> None:
    """Draws learning rate times an eigenvalue over the training, by model, with the values at which the
    optimisers become unstable."""
    limits: dict[float, list[str]] = {}
    for model in data.models:
        if (values := data.sharpness(model, eigenvalue)) is not None:
            _draw_over_epochs(axes, data, model, values)
            if (limit := data.threshold(model, eigenvalue)) is not None:
                limits.setdefault(limit, []).append(model)
    for limit, models in limits.items():
        axes.axhline(limit, color=SOFT if len(limits) == 1 else MODELS[models[0]].colour, ls="--", lw=1.3,
                     label=f"unstable above {limit:.3g}" + (f" ({', '.join(MODELS[one].label for one in models)})" if len(limits) > 1 else ""))
    _set_epochs(axes, *SHARPNESS[eigenvalue])


def course(data: Spectra, folder: str, name: str) -> str:
    """Draws the largest eigenvalues over the training, the loss, and the products with the learning rate;
    returns the path written."""
    sharp = with_sharpness(data)
    rows = 1 if not sharp else 2
    figure = sheet(9.5, 1.0 + 3.6 * rows, "Largest eigenvalue of the Hessian over the training",
                   "At the copies of the weights after some epochs; lines are means over seeds, dots are seeds")
    places = figure.subplots(rows, 2, squeeze=False)
    for axes, measure in zip(places[0], COURSES):
        draw_course(axes, data, measure)
    for axes, eigenvalue in zip(places[-1], sharp):
        draw_sharpness(axes, data, eigenvalue)
        if limits := [line for line in axes.lines if str(line.get_label()).startswith("unstable")]:
            axes.legend(handles=limits, fontsize=8)
    for axes in places[-1][len(sharp):] if sharp else ():
        axes.remove()
    places[0][0].legend(fontsize=8)
    return save(figure, data.run, folder, name)


def draw_heterogeneity(axes: Axes, data: Spectra, part: str) -> None:
    """Draws the heterogeneity of the blocks by model: seeds as dots, their mean as a bar."""
    models = [model for model in data.models if data.has(model, part, "heterogeneity")]
    for place, model in enumerate(models):
        values, style = data.numbers(model, part, "heterogeneity"), MODELS[model]
        shift = np.linspace(-0.15, 0.15, len(values)) if len(values) > 1 else np.zeros(1)
        axes.plot(place + shift, values, style.marker, color=style.colour, ms=5, alpha=0.7, mec="white", mew=0.5)
        axes.plot([place - 0.28, place + 0.28], [np.nanmean(values)] * 2, color=style.colour, lw=2)
    axes.set_xticks(range(len(models)), [MODELS[model].label.replace(" ", "\n") for model in models])
    axes.set_xlim(-0.6, len(models) - 0.4)
    panel(axes, PARTS_OF_MODELS[part], "model", "mean distance between blocks")


def draw_block_ends(axes: Axes, data: Spectra, model: str) -> None:
    """Draws the largest |eigenvalue| of each diagonal block, of each part, one row for each block; seeds as dots."""
    names = data.block_names(model)
    for part in data.parts(model, "block_largest_eigenvalue"):
        values = np.abs(data.numbers(model, part, "block_largest_eigenvalue"))
        values = np.where(values > 0, values, np.nan)
        axes.plot(values.ravel(), np.tile(np.arange(len(names)), len(values)), "o", color=COLOURS[part], ms=3, alpha=0.4)
        axes.plot(np.nanmean(values, axis=0), np.arange(len(names)), "|", color=COLOURS[part], ms=8, mew=1.8, label=PARTS_OF_MODELS[part])
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names, fontsize=6)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_title("Largest |λ| of the block")
    axes.set(xlabel="|λ|  [nat]")
    axes.grid(True, axis="both", lw=0.5)


def _heat_map(axes: Axes, numbers: np.ndarray, names: list[str], title: str, **how: object) -> AxesImage:
    image = axes.imshow(numbers, **how)
    axes.set_title(title)
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
    axes.set_yticks(range(len(names)), names, fontsize=6)
    return image


def distances(data: Spectra, model: str, folder: str, name: str) -> str:
    """Draws distances between the spectral densities of blocks, a heat map for each part; returns the path written."""
    parts, names = data.parts(model, "block_distance"), data.block_names(model)
    side = max(3.6, 0.17 * len(names))
    noise = "; white: within the noise of the probes" if set(parts) - {EXACT} else ""
    figure = sheet(1.9 + (side + 0.9) * len(parts), 1.6 + side, f"Heterogeneity of the blocks: {MODELS[model].label}",
                   f"Jensen-Shannon distance of their densities, eigenvalues over their rms{noise}")
    for axes, part in zip(figure.subplots(1, len(parts), squeeze=False)[0], parts):
        told = data.numbers(model, part, "block_distance").mean(axis=0)
        if part != EXACT:
            floor = data.numbers(model, part, "block_floor").mean(axis=0)
            told = np.where(told >= 2 * np.maximum(floor[:, None], floor[None, :]), told, np.nan)
        mean = np.nanmean(data.numbers(model, part, "heterogeneity"))
        image = _heat_map(axes, told, names, f"{PARTS_OF_MODELS[part]}: mean {mean:.3f}", vmin=0, vmax=1, cmap="magma")
    figure.colorbar(image, ax=figure.axes, label="distance (0: equal, 1: no overlap)", shrink=0.8)
    return save(figure, data.run, folder, name)


def blocks(data: Spectra, model: str, folder: str, name: str) -> str:
    """Draws Frobenius norms of the blocks, a heat map for each part, and the largest |eigenvalues| of the
    diagonal blocks; returns the path written."""
    parts, ends = data.parts(model, "block_norm"), data.parts(model, "block_largest_eigenvalue")
    names = data.block_names(model)
    norms = {part: data.numbers(model, part, "block_norm").mean(axis=0) for part in parts}
    positive = np.concatenate([norm[norm > 0] for norm in norms.values()])
    side = max(3.6, 0.17 * len(names))
    figure = sheet(1.9 + (side + 0.9) * len(parts) + (3.4 if ends else 0), 1.6 + side, f"Blocks of the Hessian: {MODELS[model].label}",
                   "Frobenius norm of each block of rows and columns, mean over seeds"
                   + ("; largest absolute eigenvalue of the diagonal blocks: dots are seeds, bars their means" if ends else ""))
    shade = LogNorm(positive.min(), positive.max()) if len(positive) else None
    panels = figure.subplots(1, len(parts) + bool(ends), squeeze=False, width_ratios=[side] * len(parts) + [2.2] * bool(ends))[0]
    maps = panels[:len(parts)]
    for axes, part in zip(maps, parts):
        image = _heat_map(axes, norms[part], names, PARTS_OF_MODELS[part], norm=shade, cmap="magma")
    if ends:
        draw_block_ends(panels[-1], data, model)
        panels[-1].legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    figure.colorbar(image, ax=maps, label="Frobenius norm  [nat]", shrink=0.8)
    return save(figure, data.run, folder, name)
