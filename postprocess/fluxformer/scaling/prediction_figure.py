"""The figure of a prediction: accuracy of the prediction, and its result."""

from __future__ import annotations

from matplotlib.axes import Axes

from fluxformer.io import Run
from fluxformer.scaling.model import WORDS, Case, Compared, Predicted
from fluxformer.style import ACCENT, INK, SOFT, save, sheet

SERIES = ("#1f6feb", ACCENT, "#2f855a", "#8250df", "#b7791f")


def whole(number: int) -> str:
    """With a space between thousands."""
    return f"{number:_}".replace("_", " ")


def trust(axes: Axes, rows: list[Compared], good: float) -> None:
    """Predicted against measured times, and the band of relative errors up to `good`."""
    low = min(min(row.measured, row.predicted) for row in rows) / 1.6
    high = max(max(row.measured, row.predicted) for row in rows) * 1.6
    line = [1e3 * low, 1e3 * high]
    axes.fill_between(line, [x * (1 - good) for x in line], [x * (1 + good) for x in line], color="#eef1f5", lw=0,
                      label=f"within {100 * good:.0f} %")
    axes.plot(line, line, color=SOFT, lw=1)
    for used, colour, name in ((True, SOFT, "fitted"), (False, ACCENT, "not used in the fit")):
        mine = [row for row in rows if row.used == used]
        if mine:
            axes.plot([1e3 * row.measured for row in mine], [1e3 * row.predicted for row in mine], "o", ms=5, color=colour, label=name)
    axes.set(xscale="log", yscale="log", xlim=line, ylim=line, xlabel="measured time of a step  [ms]",
             ylabel="predicted  [ms]", title="Prediction and measurement")
    axes.legend(loc="upper left", fontsize=8.5)


def curves(axes: Axes, predictions: list[list[Predicted]]) -> None:
    """Efficiency over ranks, a line for each case."""
    for rows, colour in zip(predictions, SERIES):
        axes.plot([row.ranks for row in rows], [row.efficiency for row in rows], "o-", ms=3.5, color=colour,
                  label=f"{whole(rows[0].case.tokens)} tokens")
    axes.axhline(1, color=SOFT, lw=1, ls=":")
    axes.set(xscale="log", ylim=(0, 1.1), xlabel="ranks", ylabel="efficiency  T(1) / (P T(P))", title="Efficiency predicted")
    axes.grid(True)
    axes.legend(loc="lower left", fontsize=8.5)


def losses(axes: Axes, rows: list[Predicted]) -> None:
    """Fractions of a step's time that do not shrink with more ranks."""
    names = [name for name in rows[0].losses if max(row.losses[name] / row.seconds for row in rows) > 1e-3]
    places = range(len(rows))
    below = [0.0] * len(rows)
    for name, colour in zip(names, SERIES):
        height = [100 * max(0.0, row.losses[name]) / row.seconds for row in rows]
        axes.bar(places, height, bottom=below, color=colour, label=WORDS[name])
        below = [x + y for x, y in zip(below, height)]
    axes.set_xticks(places, [whole(row.ranks) for row in rows], rotation=60, fontsize=8)
    axes.set(xlabel="ranks", ylabel="share of a step  [%]", ylim=(0, max(1.35 * max(below), 1)),
             title=f"What is lost with {whole(rows[0].case.tokens)} tokens")
    if max(below) > 50:
        axes.set_yticks(range(0, 101, 20))
    if names:
        axes.legend(loc="upper left", fontsize=8.5)
    else:
        axes.text(0.5, 0.5, "less than 0.1 % everywhere", transform=axes.transAxes, ha="center", color=INK)


def figure(rows: list[Compared], predictions: list[list[Predicted]], base: Case, network: str, run: Run, folder: str, good: float) -> str:
    """Three panels; returns the path written.

    Parameters
    ----------
    rows : list of Compared
    predictions : list of list of Predicted
        By number of tokens and number of ranks.
    base : Case
        What all predictions share.
    network : str
        In words.
    run : Run
        In the footer.
    good : float
        Relative error up to which a prediction counts as good.
    """
    checked = [abs(row.error) for row in rows if not row.used]
    last = predictions[-1][-1]
    heading = (f"{whole(last.case.tokens)} tokens on {whole(last.ranks)} ranks: {last.seconds:.3g} s a step, "
               f"efficiency {100 * last.efficiency:.0f} % predicted")
    trusted = f"{100 * max(checked):.0f} % off at most where it was checked" if checked else "not checked against other runs"
    sheet_ = sheet(13, 4.6, heading, f"{base.cells} cells, {base.samples} sample(s), width {base.width}, feed-forward {base.ffn}; "
                   f"best grid of depth x token x sample ranks; {trusted}; {network.split(';')[0]}")
    left, middle, right = sheet_.subplots(1, 3)
    trust(left, rows, good)
    curves(middle, predictions)
    losses(right, min(predictions, key=lambda some: some[-1].efficiency))
    return save(sheet_, run, folder, "prediction")
