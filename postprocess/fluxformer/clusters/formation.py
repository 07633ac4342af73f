"""Formation times of clusters over the number n of random tokens on the circle: runs of `clusters_circle` that differ in clusters.tokens.

The formation time of a start is that at which the wave that grows fastest by theory has |M_k| = 0.1. Independent tokens have E|M_k|^2 = 1/n at
t = 0, and |M_k|^2 an exponential distribution; by linear theory, |M_k| growing at the rate s, the mean over starts is

    t = (log n / 2 + log 0.1 + gamma / 2) / s,    gamma = 0.5772 (Euler),

with a deviation of pi / (sqrt(24) s) over starts, whatever n is. So the slope of t over log n is 1 / (2 s).

It is that of this wave, not of the first wave of any kind to reach 0.1: of those that grow nearly as fast one may begin larger, and more of them
do where n is small; the slope of the first one is larger, and reaches 1 / (2 s) late, for n without bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from fluxformer.clusters.shared import GROUP
from fluxformer.io import Run, RunError
from fluxformer.report.data import experiment_of, mean_and_spread, number
from fluxformer.report.style import Drawing, canvas, legend, panel
from fluxformer.style import ACCENT, INK, SOFT
from fluxformer.text import counted

EXPERIMENT = "clusters_circle"
LEVEL = 0.1
FEWEST = 1000    # tokens, whose waves begin below LEVEL but for one start in 20000
DRAWS = 10_000   # of the bootstrap
SHARE = 0.95     # of the interval
# Keys that may differ within a study: seeds and times, and where runs are written.
FREE = ("clusters.tokens", "clusters.seeds", "clusters.time", "clusters.every", "clusters.stretch", "clusters.reduce", "output.", "checkpoint.", "run.")


class Starts(NamedTuple):
    """All starts of one number of tokens.

    Attributes
    ----------
    tokens : int
    seeds : list of int
    times : ndarray, shape (seeds,)
        Formation times; NaN where the wave did not grow so far.
    linear : ndarray, shape (seeds,)
        The same by linear theory, from the size of the wave at t = 0.
    """
    tokens: int
    seeds: list[int]
    times: np.ndarray
    linear: np.ndarray


class Formation(NamedTuple):
    """Formation times of several numbers of tokens, the fewest first; `rate`: of the wave with so many `waves`, by theory."""
    runs: list[Run]
    beta: float
    waves: int
    rate: float
    starts: list[Starts]

    @property
    def slope_theory(self) -> float:
        """The slope of time over log n."""
        return 1 / (2 * self.rate)

    def mean_theory(self, tokens: float) -> float:
        """The mean formation time of so many tokens by linear theory."""
        return (math.log(tokens) / 2 + math.log(LEVEL) + np.euler_gamma / 2) / self.rate


class Line(NamedTuple):
    """t = middle + slope (log n - mean log n), by least squares over all starts, and the interval of its slope."""
    slope: float
    interval: tuple[float, float]
    middle: float
    mean_log: float

    def at(self, tokens: float) -> float:
        """The line at so many tokens."""
        return self.middle + self.slope * (math.log(tokens) - self.mean_log)


def reached(time: np.ndarray, size: np.ndarray, level: float) -> float:
    """The first time at which a size has a level: between the first stored time with it and the one before, linear in log size. NaN if it begins
    there, or does not come so far."""
    above = np.flatnonzero(size >= level)
    if not len(above) or above[0] == 0:
        return math.nan
    at = int(above[0])
    low, high = math.log(size[at - 1]), math.log(size[at])
    return float(time[at - 1] + (math.log(level) - low) / (high - low) * (time[at] - time[at - 1]))


def in_series(runs: Iterable[Run]) -> list[Run]:
    """The runs of `clusters_circle` among these, if they differ in the number of tokens; else none."""
    circles = [run for run in runs if experiment_of(run) == EXPERIMENT]
    return circles if len({run.settings.get("clusters.tokens") for run in circles}) > 1 else []


def read(runs: list[Run]) -> Formation:
    """Formation times of runs that differ in their tokens and seeds; RunError if they differ in more, or are not of random tokens."""
    first, seen = runs[0], set()
    found: dict[int, list[Starts]] = {}
    for run in runs:
        if run.settings.get("clusters.start") != "random":
            raise RunError(f"{run.path}: its tokens are not random (clusters.start): formation times over clusters.tokens are of random ones")
        if other := _differences(first, run):
            raise RunError(f"{run.path}: differs from {first.path} in more than the tokens: {', '.join(other)}")
        facts = run.described("analysis/clusters")
        if (tokens := int(facts["tokens"])) < FEWEST:
            raise RunError(f"{run.path}: {counted(tokens, 'token')}; formation times begin with {FEWEST}")
        starts = _starts(run, tokens, int(facts["followed_wave"]), float(facts["wave_rate_theory"]))
        for seed in starts.seeds:
            if (tokens, seed) in seen:
                raise RunError(f"{run.path}: {tokens} tokens with seed {seed} are in another file, too")
            seen.add((tokens, seed))
        found.setdefault(tokens, []).append(starts)
    facts = first.described("analysis/clusters")
    every = [Starts(tokens, [seed for one in some for seed in one.seeds], np.concatenate([one.times for one in some]),
                    np.concatenate([one.linear for one in some])) for tokens, some in sorted(found.items())]
    return Formation(runs, float(facts["beta"]), int(facts["followed_wave"]), float(facts["wave_rate_theory"]), every)


def _differences(first: Run, run: Run) -> list[str]:
    """Settings that differ and should not."""
    keys = {*first.settings, *run.settings}
    return sorted(key for key in keys if not key.startswith(FREE) and first.settings.get(key) != run.settings.get(key))


def _starts(run: Run, tokens: int, waves: int, rate: float) -> Starts:
    time, moment = run.coordinate("time"), run.analysis(f"clusters/{run.settings.get('clusters.normalisation', GROUP)}", "moment")[:, :, waves - 1]
    return Starts(tokens, [int(seed) for seed in run.coordinate("seed")], np.array([reached(time, size, LEVEL) for size in moment]),
                  np.log(LEVEL / moment[:, 0]) / rate)


def fitted(starts: list[Starts]) -> Line:
    """The line through the formation times of all starts; its slope's interval by bootstrap over the starts of each number of tokens.

    RunError without two starts of each of two numbers of tokens."""
    times = [one.times[np.isfinite(one.times)] for one in starts]
    if len(times) < 2 or min(map(len, times)) < 2:
        raise RunError("formation times: two numbers of tokens or more are needed, each with two starts whose wave has grown to "
                       f"{LEVEL:g} (clusters.time)")
    logs, counts = np.log([one.tokens for one in starts]), np.array([len(one) for one in times])
    mean_log = float(np.average(logs, weights=counts))
    factors = counts * (logs - mean_log)  # of the mean times: the slope is a sum of them
    factors /= factors @ (logs - mean_log)
    random = np.random.default_rng(0)
    drawn = np.column_stack([one[random.integers(len(one), size=(DRAWS, len(one)))].mean(axis=1) for one in times]) @ factors
    low, high = np.quantile(drawn, [(1 - SHARE) / 2, (1 + SHARE) / 2])
    means = np.array([one.mean() for one in times])
    return Line(float(means @ factors), (float(low), float(high)), float(np.average(means, weights=counts)), mean_log)


def draw(found: Formation, line: Line) -> Drawing:
    """Formation times over n with the line and theory, and against those by linear theory from the start's own wave."""
    figure = canvas(3.9)
    left, right = figure.subplots(1, 2)
    tokens = np.array([one.tokens for one in found.starts])
    ends = tokens[[0, -1]] * [0.7, 1.4]
    low, high = line.interval
    left.plot(ends, [found.mean_theory(n) for n in ends], color=ACCENT, ls=":", lw=1.8, label=f"theory, mean: slope {found.slope_theory:.4f}")
    left.plot(ends, [line.at(n) for n in ends], color=INK, lw=1.4, label=f"fit: slope {line.slope:.3f}, {low:.3f} to {high:.3f}")
    for one in found.starts:
        aside = 10 ** np.linspace(-0.08, 0.08, len(one.times))
        left.plot(one.tokens * aside, one.times, "o", color=SOFT, ms=3, mew=0, alpha=0.5, label="starts" if one.tokens == tokens[0] else None)
        left.plot(one.tokens, np.nanmean(one.times), "D", color=INK, ms=5.5, mec="white", label="their mean" if one.tokens == tokens[0] else None)
    left.set_xscale("log")
    left.xaxis.set_major_locator(FixedLocator(tokens))
    left.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
    left.xaxis.set_minor_locator(NullLocator())
    left.set_xlim(ends[0] * 0.8, ends[-1] * 1.25)
    left.set_ylim(0)
    panel(left, "When clusters form", "tokens n", f"time at which |M{_subscript(found.waves)}| = {LEVEL:g}")

    both = np.concatenate([np.concatenate([one.linear, one.times]) for one in found.starts])
    span = [0, float(np.nanmax(both)) * 1.04]
    right.plot(span, span, color=ACCENT, ls=":", lw=1.8)
    for colour, one in zip(_shades(len(found.starts)), found.starts):
        right.plot(one.linear, one.times, "o", color=colour, ms=4, mew=0, alpha=0.7, label=f"{one.tokens:,} tokens")
    right.set(xlim=span, ylim=span)
    panel(right, "Start by start", "linear theory, from |M(0)| of the start", "time")
    legend(figure, left, right)
    return Drawing("clusters-formation", "Clusters form after a time like log n / (2σ)",
                   f"β = {found.beta:g}, random tokens: the time at which the wave that grows fastest by theory ({found.waves} around the circle, rate σ = "
                   f"{found.rate:.4f}) has grown to {LEVEL:g}. The slope is over log n, its interval of {100 * SHARE:.0f} % by bootstrap over starts.",
                   figure, found.runs)


def _subscript(number_: int) -> str:
    return "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(number_))


def _shades(count: int) -> list[str]:
    """Greys, the darkest last."""
    return [str(grey) for grey in np.linspace(0.75, 0.1, count)]


def table(found: Formation, line: Line) -> str:
    """The numbers as text, a line for each number of tokens."""
    heads = ("tokens", "starts", "formation time", "theory", "less linear theory of the start")
    rows = [(f"{one.tokens}", f"{np.isfinite(one.times).sum()} of {len(one.times)}", mean_and_spread(one.times), number(found.mean_theory(one.tokens)),
             mean_and_spread(one.times - one.linear)) for one in found.starts]
    widths = [max(map(len, column)) for column in zip(heads, *rows)]
    low, high = line.interval
    return "\n".join(["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in (heads, *rows)]
                     + [f"slope over log n: {line.slope:.4f}, {100 * SHARE:.0f} % {low:.4f} to {high:.4f}; theory 1/(2 rate) = {found.slope_theory:.6f}"])
