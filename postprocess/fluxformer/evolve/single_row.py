"""The figures of an `evolve` run with a single depth row (particles, diffusion): everything against time."""

from __future__ import annotations

import numpy as np

from fluxformer.evolve.figures import MEASURES, RATE, Evolution, chosen_moments, on_lattice
from fluxformer.style import ACCENT, FOOTER, HEADING, no_data, panel, save, sheet

PANELS = (*MEASURES[:3], ("rate", *RATE), ("step_size", "Step size", "Δt  [time units]"),
          ("cfl", "CFL number", "c Δt / h"))


def histories(evolution: Evolution, folder: str) -> str:
    """Norm, token variance, Dirichlet energy, rate, step size over time; returns the path written."""
    figure = sheet(12.6, 7.6, "How the tokens change in time", "One depth row: attention, reaction and diffusion alone.")
    figure.get_layout_engine().set(h_pad=0.12, w_pad=0.08)
    for axes, (name, title, unit) in zip(figure.subplots(2, 3).ravel(), PANELS):
        values = evolution.history(name)
        if values is None:
            no_data(axes, "not recorded")
        elif name == "cfl" and not np.any(values):
            no_data(axes, "no transport: c = 0")
        else:
            values = values.reshape(len(evolution.time), -1)[:, 0]
            axes.plot(evolution.time, values, color=ACCENT, lw=2)
            axes.set_xlim(evolution.time[0], evolution.time[-1])
            if name in ("step_size", "cfl") or np.ptp(values) < 1e-6 * np.max(values):  # round-off does not count as a change
                axes.set_ylim(0, 1.1 * np.nanmax(values) or 1)
        panel(axes, title, unit, evolution.time_name)
    return save(figure, evolution.run, folder, "histories")


def token_history(evolution: Evolution, folder: str, sample: int = 0) -> str:
    """The first channel of u: on a line tokens x time, on a patch grid one map per chosen moment. Returns the path written."""
    field = evolution.run.field("u")
    time, first = field.coordinate(0), field[:, 0, :, sample, 0].astype(float)
    bound = np.nanmax(np.abs(first)) or 1.0
    look = {"cmap": "RdBu_r", "vmin": -bound, "vmax": bound}
    moments = np.concatenate([[0], chosen_moments(len(time), 5)]) if len(time) > 1 else np.array([0])
    maps = [on_lattice(evolution.run, first[moment]) for moment in moments]
    if maps[0].shape[0] > 1:
        lines, columns = maps[0].shape
        height = 9.6 / len(maps) * min(lines / columns, 1.5)
        figure = sheet(11, HEADING + FOOTER + 0.4 + max(height, 1), "How the tokens change in time", f"First channel of u on the patch grid. Across: {evolution.time_name}.")
        panels = figure.subplots(1, len(maps))
        for axes, moment, values in zip(np.atleast_1d(panels), moments, maps):
            image = axes.imshow(values, **look)
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            axes.set_title(f"t = {time[moment]:.3g}", loc="center")
        figure.colorbar(image, ax=panels, label="u, channel 0", pad=0.01, aspect=14)
    else:
        figure = sheet(9.5, 5.2, "How the tokens change in time", "First channel of u; each row of the picture is a token.")
        axes = figure.subplots()
        image = axes.pcolormesh(time, np.arange(first.shape[1]), first.T, shading="nearest", rasterized=True, **look)
        axes.set(xlabel=evolution.time_name, ylabel="token")
        figure.colorbar(image, ax=axes, label="u, channel 0", pad=0.01)
    return save(figure, evolution.run, folder, "tokens")
