"""Predicts the time of a step for untested rank counts and sizes from small runs of `fluxformer scaling`.

    fluxformer predict FIT.h5 ... [--check RUN.h5 ...] [--tokens 4096 1000000] [--output DIR]

FIT are runs of one workload, precision and width, of several sizes (input/scaling/sizes.txt is a table of them), best on all cores of
a node, which share its memory. Their compute phase gives the rates of the work; the messages that the run on most nodes has
timed give latency and bandwidth (--latency, --bandwidth: of another network). --check compares with runs that were not used.
The problem is that of the first FIT, with other --tokens, --cells, --samples.

Prints the rates, prediction against measurement, and a table to 10 000 ranks: for each number of ranks the best grid of depth
x token x sample ranks, the time of a step, its efficiency and the term that costs most. Writes prediction.csv, .png and .pdf.
The assumptions are listed in fluxformer/scaling/model.py. Jitter, other jobs and network contention are ignored.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import dataclasses
import os
from collections.abc import Callable, Iterable

import numpy as np
from matplotlib.axes import Axes

from fluxformer.io import Run, RunError, without_checkpoints
from fluxformer.scaling.data import Measured
from fluxformer.scaling.model import WORDS, WORK, Case, Compared, Grid, Machine, Predicted, Wire, fit_line
from fluxformer.style import ACCENT, INK, SOFT, save, sheet

SERIES = ("#1f6feb", ACCENT, "#2f855a", "#8250df", "#b7791f")


def whole(number: int) -> str:
    """A whole number with a space between thousands."""
    return f"{number:_}".replace("_", " ")


def trust(axes: Axes, rows: list[Compared], good: float) -> None:
    """Draws predicted against measured times, and the band of relative errors up to `good`."""
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
    """Draws efficiency over ranks, a line for each case."""
    for rows, colour in zip(predictions, SERIES):
        axes.plot([row.ranks for row in rows], [row.efficiency for row in rows], "o-", ms=3.5, color=colour,
                  label=f"{whole(rows[0].case.tokens)} tokens")
    axes.axhline(1, color=SOFT, lw=1, ls=":")
    axes.set(xscale="log", ylim=(0, 1.1), xlabel="ranks", ylabel="efficiency  T(1) / (P T(P))", title="Efficiency predicted")
    axes.grid(True)
    axes.legend(loc="lower left", fontsize=8.5)


def losses(axes: Axes, rows: list[Predicted]) -> None:
    """Draws the fractions of a step's time that do not shrink with more ranks."""
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
    """Draws the three panels of a prediction; returns the path written.

    Parameters
    ----------
    rows : list of Compared
    predictions : list of list of Predicted
        Predictions by number of tokens and number of ranks.
    base : Case
        Sizes that all predictions share.
    network : str
        The network in words.
    run : Run
        Run that the footer names.
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


RANKS = (1, 2, 4, 8, 16, 32, 64, 100, 200, 400, 800, 1000, 2000, 4000, 8000, 10000)
GOOD = 0.25  # requirements on a prediction


class Sized(Measured):
    """A run of `fluxformer scaling` with its case and its grid of ranks.

    Attributes
    ----------
    median, work : float
        Seconds of a step, and of the work in it on the slowest rank.
    network : tuple or None
        Latency and bandwidth of messages, and of a doubling of the ranks in a sum; None if they were not measured.

    Raises
    ------
    RunError
        If the run's attention does less work than the formula says.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        facts = self.facts
        if run.settings.get("attention.causal") or run.settings.get("data.set") in ("20news", "topics", "tokens"):
            raise RunError(f"{run.path}: tokens that are causal or may be padded, whose attention does less work than the formula says")
        sizes = {name: facts[name] for name in ("workload", "cells", "tokens", "samples", "width", "ffn", "heads")}
        case = Case(**sizes, passes=1.0, number=8 if facts["precision"] == "double" else 4,
                    summed=24 if facts["workload"] == "evolve" else 8 * facts["parameters"],
                    micro_batches=facts.get("micro_batches", 1))
        parts = case.micro_batches or 1
        filled = facts["groups"] * parts * -(-(-(-facts["samples"] // facts["groups"])) // parts)  # all are as large
        self.case = dataclasses.replace(case, passes=facts["flops"] / case.pass_flops * facts["samples"] / filled)
        self.grid: Grid = (facts["ranks_depth"], facts["ranks_token"], facts["groups"])
        self.kind = (facts["workload"], facts["precision"])
        self.median = float(np.median(self.step))
        self.work = float(np.median(run.numbers("scaling", "compute/seconds")[:, 2]))
        self.network: tuple[Wire, Wire] | None = None
        if self.ranks > 1 and "machine" in run.names("scaling"):
            length, sums = run.coordinate("message_bytes"), run.numbers("scaling", "machine/sum_seconds") / np.log2(self.ranks)
            self.network = fit_line(length, run.numbers("scaling", "machine/message_seconds")), fit_line(length, sums)


def machine_of(fit: list[Sized]) -> Machine:
    """Rates from all runs, network from the run on most nodes and ranks; RunError if none has measured it."""
    found = [((run.facts["nodes"], run.ranks), run.network) for run in fit if run.network]
    if not found:
        raise RunError("no run on two ranks or more that has measured the machine is among the files to fit")
    message, sums = max(found, key=lambda one: one[0])[1]
    return Machine.fitted([(run.case, run.grid, run.work) for run in fit], message, sums)


def on_network(machine: Machine, latency: float | None, bandwidth: float | None) -> Machine:
    """The machine with another network; the steps of a sum, which is a tree of messages, change accordingly."""
    slower = latency / machine.message[0] if latency else 1
    faster = bandwidth / machine.message[1] if bandwidth else 1
    return Machine(machine.rates, (slower * machine.message[0], faster * machine.message[1]),
                   (slower * machine.sum_over_ranks[0], faster * machine.sum_over_ranks[1]))


def describe(machine: Machine) -> str:
    """Rates and network, in two lines."""
    rows, kernel, cell, update = machine.rates
    rate = [f"{1e-9 / x:.3g} Gflop/s" if x > 0 else "too little to be seen" for x in (rows, kernel / 4)]
    return (f"on a rank: products with all passes over the state {rate[0]}, attention's kernel {rate[1]}, "
            f"{1e6 * cell:.3g} us for each cell{f', {1e6 * update:.3g} us to update its weights' if update > 0 else ''}\n"
            f"{describe_network(machine)}")


def describe_network(machine: Machine) -> str:
    """Times of messages and sums, in one line."""
    return (f"messages {1e6 * machine.message[0]:.3g} us + size / {machine.message[1] / 1e9:.3g} GB/s; "
            f"sums log2 P x ({1e6 * machine.sum_over_ranks[0]:.3g} us + size / {machine.sum_over_ranks[1] / 1e9:.3g} GB/s)")


def note_unseen(machine: Machine) -> None:
    """Prints which terms the fit could not see."""
    unseen = [WORDS[name] for name, rate in zip(WORK, machine.rates) if rate == 0 and name != "update"]
    if unseen:
        print(f"note: {', '.join(unseen)} cannot be told from the rest in the runs that were fitted: more sizes would help")


def compare(machine: Machine, runs: list[Sized], used: bool) -> list[Compared]:
    """Predictions against measurements; `used`: the runs were fitted."""
    return [Compared(run.run.path, used, run.case, run.grid, run.median, machine.seconds(run.case, run.grid)) for run in runs]


def print_comparison(rows: list[Compared]) -> None:
    """Prints comparisons as a table."""
    print(f"\n{'cells':>6} {'tokens':>7} {'samples':>7}  {'ranks':<9} {'measured':>11} {'predicted':>11} {'error':>7}")
    for row in rows:
        case = row.case
        print(f"{case.cells:>6} {case.tokens:>7} {case.samples:>7}  {'x'.join(map(str, row.grid)):<9} "
              f"{1e3 * row.measured:>8.3g} ms {1e3 * row.predicted:>8.3g} ms {100 * row.error:>+6.1f} %"
              f"{'  fitted' if row.used else ''}")


def predict(machine: Machine, case: Case, ranks: Iterable[int]) -> list[Predicted]:
    """Predictions for each number of ranks on which the case can be distributed."""
    grids = (machine.best_grid(case, count) for count in ranks)
    return [Predicted(case, grid, machine) for grid in grids if grid is not None]


def print_prediction(case: Case, rows: list[Predicted]) -> None:
    """Prints predictions as a table."""
    print(f"\n{case.tokens} tokens, {case.cells} cells, {case.samples} samples, width {case.width}: "
          "ranks = depth x token x sample")
    for row in rows:
        print(f"{row.ranks:>6} {'x'.join(map(str, row.grid)):>12} {row.seconds:>10.4g} s "
              f"{100 * row.efficiency:>6.1f} %  {row.limit}")
    print("efficiency: a P-th of the time on one rank over the time on P; behind it, what loses most")


def write_csv(path: str, predictions: list[list[Predicted]]) -> None:
    """Writes a line for each prediction: tokens, ranks and their grid, seconds of a step and of its terms, efficiency."""
    names = list(predictions[0][0].parts)
    with open(path, "w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["tokens", "ranks", "ranks_depth", "ranks_token", "groups", "step_s", "efficiency",
                        *(f"{name}_s" for name in names)])
        for row in (row for rows in predictions for row in rows):
            table.writerow([row.case.tokens, row.ranks, *row.grid, row.seconds, row.efficiency, *(row.parts[name] for name in names)])


def positive(kind: type[int] | type[float]) -> Callable[[str], int | float]:
    """Type of an argument: a number above 0."""
    def read(word: str) -> int | float:
        number = kind(word)
        if not number > 0:
            raise argparse.ArgumentTypeError(f"{word} is not above 0")
        return number
    return read


def parse(arguments: list[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="fluxformer predict", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fit", nargs="+", metavar="FIT", help="runs whose times are fitted")
    parser.add_argument("--check", nargs="+", default=[], metavar="RUN", help="runs to compare with")
    parser.add_argument("--tokens", nargs="+", type=positive(int), metavar="N", help="numbers of tokens of the problem, a curve for each")
    parser.add_argument("--cells", type=positive(int), metavar="M", help="number of depth cells of the problem")
    parser.add_argument("--samples", type=positive(int), metavar="B", help="number of samples of the problem")
    parser.add_argument("--ranks", nargs="+", type=positive(int), default=RANKS, metavar="P", help="numbers of ranks (default: up to 10 000)")
    parser.add_argument("--latency", type=positive(float), metavar="S", help="seconds of an empty message, instead of what was measured")
    parser.add_argument("--bandwidth", type=positive(float), metavar="B", help="bytes per second of a message, instead of what was measured")
    parser.add_argument("--output", metavar="DIR", help="folder for table and figure (default: figures/ beside the first file)")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """`fluxformer predict`: prints what was fitted and predicted, and writes prediction.csv and its figure."""
    options = parse(arguments)
    files = without_checkpoints(options.fit), without_checkpoints(options.check)
    folder = options.output or os.path.join(os.path.dirname(files[0][0]), "figures")
    with contextlib.ExitStack() as stack:
        fit, check = ([Sized(stack.enter_context(Run(path))) for path in paths] for paths in files)
        for other in fit + check:
            if other.kind != fit[0].kind:
                raise RunError(f"{other.run.path}: {' '.join(other.kind)}, but {fit[0].run.path}: {' '.join(fit[0].kind)}")
            if (other.case.width, other.case.ffn) != (fit[0].case.width, fit[0].case.ffn):
                raise RunError(f"{other.run.path}: another width than {fit[0].run.path}, and rates belong to a width")
        machine = machine_of(fit)
        print(describe(machine))
        note_unseen(machine)
        rows = compare(machine, fit, True) + compare(machine, check, False)
        print_comparison(rows)
        if max(abs(row.error) for row in rows if row.used) > GOOD:
            print(f"note: runs that were fitted are more than {100 * GOOD:.0f} % off: were the cores shared with other work?")
        if check:
            worst = max(abs(row.error) for row in rows if not row.used)
            print(f"worst of those that were not fitted: {100 * worst:.1f} %")
        if options.latency or options.bandwidth:
            machine = on_network(machine, options.latency, options.bandwidth)
            print(f"\non another network: {describe_network(machine)}")
        sizes = {name: value for name, value in (("cells", options.cells), ("samples", options.samples)) if value}
        base = dataclasses.replace(fit[0].case, micro_batches=0, **sizes)  # micro_batches = 0: as many as suit each grid
        predictions = []
        for tokens in options.tokens or [base.tokens, 1_000_000]:
            case = dataclasses.replace(base, tokens=tokens)
            rows_of_case = predict(machine, case, options.ranks)
            if not rows_of_case:
                raise RunError(f"{tokens} tokens, {case.cells} cells, {case.samples} samples: no such number of ranks can share them")
            predictions.append(rows_of_case)
            print_prediction(case, predictions[-1])
        os.makedirs(folder, exist_ok=True)
        write_csv(os.path.join(folder, "prediction.csv"), predictions)
        print("\n" + figure(rows, predictions, base, describe_network(machine), fit[0].run, folder, GOOD))
