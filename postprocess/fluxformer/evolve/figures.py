"""The figures of an `evolve` run: with depth, and with a single depth row (particles, diffusion), where
everything is drawn against time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from fluxformer.io import Array, Run
from fluxformer.style import ACCENT, FOOTER, HEADING, INK, SOFT, no_data, panel, plt, save, sheet

MOST_COLUMNS = 1500  # columns of a heat map: more steps than pixels are thinned out
MOST_MARKERS = 24  # on a line: with more depth rows the markers are omitted
TIME_COLOURS = plt.get_cmap("viridis")
RATE = ("Rate of change", "‖∂u/∂t‖  (rms)  [1/time unit]")  # title, axis


def _plural(unit: str) -> str:
    """The label of a unit on an axis: its plural."""
    return {"layer": "layers", "time": "time units"}.get(unit, unit)


class Evolution:
    """The data of one run for all figures.

    Attributes
    ----------
    depth, time : ndarray, shape (rows,) and (lines of the history,)
        Coordinates in layers and in time units; `depth_name`, `time_name`: labels of their axes.
    speed : float
        Speed of transport, c  [layers per time unit].
    threshold : float
        Relative distance to the steady state that defines the front.
    arrival : ndarray, shape (rows,), or None
        Arrival times of the front; NaN where it did not arrive.
    entropy : ndarray, shape (rows, heads), or None
        Entropy of attention over log n.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.depth = run.coordinate("depth")
        self.time = run.history("time")
        self.speed = float(run.settings.get("equation.c", 1.0))
        there = run.analyses("evolve")
        self.arrival = run.analysis("evolve", "arrival_time") if "arrival_time" in there else None
        self.entropy = run.analysis("evolve", "attention_entropy") if "attention_entropy" in there else None
        self.threshold = float(run.settings.get("front.threshold", 0.05))
        self.depth_name = f"depth s  [{_plural(run.unit('depth')) or 'layers'}]"
        self.time_name = f"time t  [{_plural(run.unit('time')) or 'time units'}]"

    def history(self, name: str) -> np.ndarray | None:
        """A history [step, depth]; None if the run did not record it."""
        return self.run.history(name) if name in self.run.histories else None

    def front_speed(self) -> float:
        """Speed of the front in layers per time unit: slope of s against the arrival times (least squares);
        NaN for fewer than three arrivals."""
        if self.arrival is None:
            return np.nan
        arrived = np.isfinite(self.arrival)
        if arrived.sum() < 3 or np.ptp(self.arrival[arrived]) == 0:
            return np.nan
        return 1.0 / np.polyfit(self.depth[arrived], self.arrival[arrived], 1)[0]


def _thin(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(count, MOST_COLUMNS)).round().astype(int))


def _heat_map(axes: Axes, evolution: Evolution, values: np.ndarray, norm: LogNorm, colours: str) -> QuadMesh:
    keep = _thin(len(evolution.time))
    return axes.pcolormesh(evolution.time[keep], evolution.depth, values[keep].T, shading="nearest", norm=norm,
                           cmap=colours, rasterized=True)


def _draw_front(axes: Axes, evolution: Evolution) -> None:
    """Draws the line s = ct and the arrival times, if there are any."""
    if evolution.speed > 0:
        reach = min(evolution.time[-1], evolution.depth[-1] / evolution.speed)
        line = [0, reach], [0, evolution.speed * reach]
        axes.plot(*line, color="white", lw=3.2)
        axes.plot(*line, "--", color=INK, lw=1.6, label=f"s = c t  (c = {evolution.speed:g})")
    if evolution.arrival is not None:
        axes.plot(evolution.arrival, evolution.depth, color="white", lw=4)
        axes.plot(evolution.arrival, evolution.depth, "o-", color=ACCENT, lw=2.2, mec="white", mew=0.9,
                  ms=6 if len(evolution.depth) <= MOST_MARKERS else 0, label="front: arrival time τ(s)")
    half = 0.5 * (evolution.depth[1] - evolution.depth[0])
    time = evolution.time
    axes.set(xlim=(max(0, time[0] - 0.5 * (time[1] - time[0])), time[-1]) if len(time) > 1 else (0, 1), ylim=(evolution.depth[0] - half, evolution.depth[-1] + half))
    axes.set_xlabel(evolution.time_name)


class FrontMap(NamedTuple):
    """A picture over depth and time on which the front is drawn."""
    title: str
    unit: str
    values: np.ndarray  # [step, depth]
    colours: str        # name of a colour map
    low: float          # range of the colours, logarithmic
    high: float


def front_maps(evolution: Evolution) -> list[FrontMap]:
    """The maps on which the front is drawn: those that were recorded and have a number to show."""
    maps = []
    distance, rate = evolution.history("distance"), evolution.history("rate")
    if distance is not None and np.isfinite(distance).any():
        maps.append(FrontMap("Distance to the steady state", "‖u − u*‖ / ‖u*‖", distance, "viridis_r", 1e-3, 1.0))
    if rate is not None and np.nanmax(rate) > 0:
        maps.append(FrontMap(*RATE, rate, "magma", 1e-4 * np.nanmax(rate), np.nanmax(rate)))
    return maps


def draw_front(figure: Figure, evolution: Evolution, maps: list[FrontMap]) -> None:
    """Draws each map over depth x time, with the front on it."""
    rows = figure.subplots(1, len(maps), sharey=True, squeeze=False)[0]
    for axes, (title, unit, values, colours, low, high) in zip(rows, maps):
        mesh = _heat_map(axes, evolution, values, LogNorm(low, high, clip=True), colours)
        _draw_front(axes, evolution)
        axes.set_title(title)
        figure.colorbar(mesh, ax=axes, label=unit, pad=0.01, extend="both" if np.nanmax(values) > high else "min")
    rows[0].set_ylabel(evolution.depth_name)
    rows[0].legend(loc="lower right")


def front(evolution: Evolution, folder: str) -> str:
    """Draws distance to the steady state and rate of change over depth x time, with the front on both;
    returns the path written."""
    maps = front_maps(evolution)
    speed = evolution.front_speed()
    heading = "The information front crosses the layers"
    if np.isfinite(speed):
        heading += f" at {speed:.2f} layers per time unit"
    figure = sheet(6.3 * len(maps), 5.4, heading,
                   "The front τ(s) is the first time after which the state at depth s stays within "
                   f"{100 * evolution.threshold:g} % of its steady state; dashed: pure transport.")
    draw_front(figure, evolution, maps)
    return save(figure, evolution.run, folder, "front")


def _chosen_depths(count: int, most: int = 6) -> np.ndarray:
    """At most `most` rows out of 0..count-1, evenly spaced, including the deepest."""
    return np.unique(np.round(np.arange(1, min(count, most) + 1) * count / min(count, most)).astype(int)) - 1


def chosen_moments(count: int, most: int) -> np.ndarray:
    """At most `most` indices out of 0..count-1, evenly spaced, including the last but not the first."""
    return np.unique(np.round(np.linspace(0, count - 1, most + 1)[1:]).astype(int))


def on_lattice(run: Run, values: np.ndarray) -> np.ndarray:
    """One number per token as the patch grid [y, x]; on a line [1, x]."""
    columns, lines = (run.coordinate(name).astype(int) for name in ("token_x", "token_y"))
    columns, lines = columns - columns.min(), lines - lines.min()
    grid = np.full((lines.max() + 1, columns.max() + 1), np.nan)
    grid[lines, columns] = values
    return grid


def _strength(evolution: Evolution, field: Array, moment: int, row: int, sample: int) -> np.ndarray:
    """The norm over channels (rms) of each token."""
    return on_lattice(evolution.run, np.sqrt(np.mean(np.square(field[moment, row, :, sample, :].astype(float)), axis=-1)))


def token_maps(evolution: Evolution, folder: str, sample: int = 0) -> str:
    """Draws the norm of u per token: one column per chosen depth, one row per chosen moment (the last is the
    end). Returns the path written."""
    field = evolution.run.field("u")
    depth, time = field.coordinate(1), field.coordinate(0)
    rows, moments = _chosen_depths(len(depth)), chosen_moments(len(time), 4)
    maps = np.array([[_strength(evolution, field, m, r, sample) for r in rows] for m in moments])
    on_grid = maps.shape[2] > 1
    figure = sheet(max(1.55 * len(rows) + 1.6, 9.5), (1.5 if on_grid else 0.8) * len(moments) + 1.9,
                   "What each token holds, layer by layer",
                   f"Norm of u over the channels (rms). Across: {evolution.depth_name};  down: {evolution.time_name}.  "
                   "Grey: below the scale, not arrived.")
    colours = plt.get_cmap("viridis").with_extremes(under="#e5e7eb", bad="white")
    panels = figure.subplots(len(moments), len(rows), squeeze=False)
    for j, row in enumerate(rows):
        low, high = np.nanmin(maps[-1, j]), np.nanmax(maps[-1, j])
        low -= 0.05 * (high - low)
        for i, (moment, axes) in enumerate(zip(moments, panels[:, j])):
            image = axes.imshow(maps[i, j], cmap=colours, vmin=low, vmax=max(high, low + 1e-12),
                                aspect="equal" if on_grid else "auto")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            if i == 0:
                axes.set_title(f"s = {depth[row]:g}", loc="center")
            if j == 0:
                axes.set_ylabel(f"t = {time[moment]:g}", rotation=0, ha="right", va="center", fontweight="bold")
        bar = figure.colorbar(image, ax=panels[:, j], location="bottom", aspect=12, pad=0.02, extend="min")
        bar.set_ticks([low, high], labels=[f"{low:.2g}", f"{high:.2g}"], fontsize=8)
        for label, side in zip(bar.ax.get_xticklabels(), ("left", "right")):  # within the bar: the next one begins close by
            label.set_ha(side)
    return save(figure, evolution.run, folder, "token_maps")


MEASURES = (  # history, title, axis
    ("norm", "Size of the state", "‖u‖  (rms)"),
    ("token_variance", "Token variance", "⟨|u − ⟨u⟩|²⟩ per channel"),
    ("dirichlet_energy", "Dirichlet energy over tokens", "½ ⟨|∇ₓu|²⟩ per channel"),
    ("flux", "Flux through depth", "c⟨u⟩ − ε ∂ₛ⟨u⟩  [1/time unit]"),
)
PANELS = (*MEASURES[:3], ("rate", *RATE), ("step_size", "Step size", "Δt  [time units]"), ("cfl", "CFL number", "c Δt / h"))


def _by_depth(axes: Axes, evolution: Evolution, values: np.ndarray,
              colours: Callable[[float], tuple[float, float, float, float]]) -> None:
    for moment in chosen_moments(len(evolution.time), 6):
        axes.plot(evolution.depth, values[moment], "o-", ms=3 if len(evolution.depth) <= MOST_MARKERS else 0, lw=1.6,
                  color=colours(evolution.time[moment]))
    axes.set_xlim(0, None)


def _arrivals(axes: Axes, evolution: Evolution) -> None:
    tau = evolution.arrival
    if tau is None or not np.isfinite(tau).any():
        no_data(axes, "the front arrived nowhere" if tau is not None else "no steady state to compare with")
    else:
        axes.plot(evolution.depth, tau, "o-", color=ACCENT, lw=1.8, label="τ(s)",
                  ms=4 if len(evolution.depth) <= MOST_MARKERS else 0)
        if evolution.speed > 0:
            axes.plot(evolution.depth, evolution.depth / evolution.speed, "--", color=INK, lw=1.4, label="s / c")
        axes.set(xlim=(0, None), ylim=(0, None))
        axes.legend(loc="upper left")
    panel(axes, "Arrival of the front", evolution.time_name.replace("time t", "time τ"), evolution.depth_name)


def _entropies(axes: Axes, evolution: Evolution) -> None:
    entropy = evolution.entropy
    if entropy is None:
        no_data(axes, "no attention in this run")
    else:
        axes.plot(evolution.depth, entropy, "o", ms=4, color=SOFT, alpha=0.55, mew=0)
        axes.plot(evolution.depth, entropy.mean(axis=1), color=ACCENT, lw=2, label="mean over heads")
        axes.plot([], [], "o", ms=4, color=SOFT, alpha=0.55, mew=0, label="one head")
        axes.set(xlim=(0, None), ylim=(0, 1.04))
        axes.legend(loc="lower left")
    panel(axes, "Attention entropy", "entropy / log n   (1: uniform)", evolution.depth_name)


def profiles(evolution: Evolution, folder: str) -> str:
    """Draws norm, token variance, Dirichlet energy, flux at several times, arrival times and attention
    entropy over depth. Returns the path written."""
    figure = sheet(12.6, 7.6, "How the state changes with depth, and when",
                   "Colour: the moment, from early (dark) to the end (light). Orange: arrival times and mean entropy.")
    figure.get_layout_engine().set(h_pad=0.12, w_pad=0.08)
    panels = figure.subplots(2, 3).ravel()
    scale = plt.Normalize(0, evolution.time[-1])
    for axes, (name, title, unit) in zip(panels[[0, 1, 2, 3]], MEASURES):
        values = evolution.history(name)
        if values is None:
            no_data(axes, "not recorded")
        else:
            _by_depth(axes, evolution, values, lambda t: TIME_COLOURS(scale(t)))
        panel(axes, title, unit, evolution.depth_name)
    figure.colorbar(plt.cm.ScalarMappable(scale, TIME_COLOURS), ax=panels, label=evolution.time_name, aspect=40, pad=0.01)
    _arrivals(panels[4], evolution)
    _entropies(panels[5], evolution)
    return save(figure, evolution.run, folder, "profiles")


def histories(evolution: Evolution, folder: str) -> str:
    """Draws norm, token variance, Dirichlet energy, rate and step size over time; returns the path written."""
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


def _between(axes: Axes, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
    """Draws the range in which numbers of components lie; a line where it has no width."""
    axes.fill_between(x, low, high, color=ACCENT, alpha=0.25, lw=0)
    axes.plot(x, high, color=ACCENT, lw=1, label="components")


def clusters(evolution: Evolution, folder: str, sample: int = 0) -> str:
    """Draws numbers of clusters and the energy of a sample's tokens, over depth at several stored times, or over time where there is one
    depth row. Returns the path written."""
    run, time, depth = evolution.run, evolution.run.coordinate("time"), evolution.depth
    number_2, number_1, energy, low, high = (run.analysis("evolve", name)[:, :, sample] for name in
                                             ("number_2", "number_1", "energy", "components_low", "components_high"))
    kernel = run.described("analysis/evolve")
    deep = len(depth) > 1
    colours = ", at the end. Colour: the moment, from early (dark) to the end (light)" if deep else ""
    figure = sheet(11, 5.2, "How many clusters the tokens form", f"N₂ and N₁ need no threshold (β = {float(kernel['beta']):.3g}); components of tokens at "
                   f"most {float(kernel['delta']):.2g} apart lie in the shaded range{colours}.")
    numbers, energies = figure.subplots(1, 2)
    name = evolution.depth_name if deep else evolution.time_name
    markers = "o-" if len(depth if deep else time) <= MOST_MARKERS else "-"
    if not np.isfinite(number_2).any():
        for axes in (numbers, energies):
            no_data(axes, "all tokens are 0")
    elif deep:
        scale = plt.Normalize(0, time[-1] or 1)
        for moment in chosen_moments(len(time), 6):
            for axes, values in ((numbers, number_2), (energies, energy)):
                axes.plot(depth, values[moment], markers, ms=3, lw=1.6, color=TIME_COLOURS(scale(time[moment])))
        numbers.plot(depth, number_1[-1], "--", color=SOFT, label="N₁, at the end")
        numbers.plot([], [], "o-", ms=3, color=TIME_COLOURS(1.0), label="N₂")
        _between(numbers, depth, low[-1], high[-1])
        figure.colorbar(plt.cm.ScalarMappable(scale, TIME_COLOURS), ax=energies, label=evolution.time_name, pad=0.02)
    else:
        numbers.plot(time, number_2[:, 0], markers, ms=3, color=INK, label="N₂")
        numbers.plot(time, number_1[:, 0], "--", color=SOFT, label="N₁")
        _between(numbers, time, low[:, 0], high[:, 0])
        energies.plot(time, energy[:, 0], markers, ms=3, color=ACCENT)
    if np.isfinite(number_2).any():
        numbers.set_ylim(0, None)
        numbers.legend()
    panel(numbers, "Numbers of clusters", "number", name)
    panel(energies, "Energy", "E", name)
    return save(figure, run, folder, "clusters")


def token_history(evolution: Evolution, folder: str, sample: int = 0) -> str:
    """Draws the first channel of u: on a line tokens x time, on a patch grid one map per chosen moment.
    Returns the path written."""
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
