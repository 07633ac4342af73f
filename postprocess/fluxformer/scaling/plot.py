"""Tables and figures of scaling studies: speed-up with the number of ranks, and what limits it.

Prints a table for each study and writes <study>_<mode>.csv and <study>_<mode>_scaling. A study is one problem (scaling.study, the
sizes, the settings) on several numbers of ranks; other problems are drawn by themselves, with what differs in the file name.
Repetitions of files with the same number of ranks are taken together. Files of other experiments and runs that are not over are
skipped, and that is said.
"""

from __future__ import annotations

import argparse
import csv
import glob
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from fluxformer.io import Run, RunError, Value, without_checkpoints
from fluxformer.scaling.data import LAYOUT, PHASES, Measured, Point, Study, number, ranks_of, studies
from fluxformer.style import ACCENT, INK, SOFT, save, sheet

OPTIONS = ("mixed",)
FOLDERS = True  # all files of a folder make studies
EPILOG = """columns (T: median over the repetitions of the time of a step; n ranks against the fewest ranks m):
  speed-up      strong: T(m)/T(n), at best n/m.  weak (scaling.mode = weak): T(m)/T(n) n/m
  efficiency    strong: T(m) m / (T(n) n).  weak: T(m)/T(n).  Above 1: what a rank holds fits into its caches, or noise
  Gflop/s       of products, per rank; beside it the share of what a large product reaches there while all ranks do one
                (- with scaling.machine = false)
  costs most    the phase besides compute with the largest share of a step, waiting included: ghosts (depth cells of
                neighbours), ring (keys and values around the ranks), reduction (sums over ranks), pipeline (micro-batches
                from and to the stages of depth of a training); medians over ranks
  messages      and bytes that all ranks send in a step; a sum over ranks counts as one message of each
  ranks differ  (figure) what the medians of the phases leave of a step: ranks spend their time differently

what to look at:
  - bars much longer than the difference: repeat on a machine of your own, or with more scaling.steps
  - efficiency falls, compute keeps its share: the ranks share memory bandwidth, caches or clock; see Gflop/s per rank
  - ghosts, ring or reduction grow: too little work per rank (more samples, tokens or cells), or ranks of unequal work
  - pipeline is large: of P stages with m micro-batches each waits (P - 1) / (m + P - 1) of a step: a larger train.micro_batches

examples:
  fluxformer plot out/scaling                               all studies of a folder (its own files, not those of folders below)
  fluxformer plot a/evolve_*.h5 b/evolve_*.h5 --output new  files of two folders, as one set
"""

COLOURS = {"compute": "#cbd5e1", "ghosts": "#2563eb", "ring": "#0f9d78", "reduction": "#e4572e", "pipeline": "#8b5cf6",
           "ranks differ": "#f1f5f9"}
MOST_TICKS = 10  # rank counts named on an axis
MOST_NAMES = 6  # files named in the footer

_plain_numbers = FuncFormatter(lambda value, _: f"{value:,.10g}")


class Origin:
    """The footer: one line for a single file, else the files and what they have in common."""

    def __init__(self, study: Study) -> None:
        files = [file.run for file in study.files]
        self.origin = files[0].origin
        if len(files) > 1:
            names = [os.path.basename(run.path) for run in files]
            if len(names) > MOST_NAMES:
                names[MOST_NAMES - 2:-1] = ["..."]
            counts = ", ".join(str(point.ranks) for point in study.points)
            of_all = files[0].origin.split(" · ")[1:-1]
            self.origin = (f"{len(files)} files of {os.path.dirname(files[0].path) or '.'}: {', '.join(names)}\n"
                           + " · ".join([*of_all, f"{counts} rank(s)"]))


def _ends(study: Study) -> tuple[float, float]:
    """Limits of the rank axis, with room beside the outermost points."""
    base, last = study.base.ranks, study.last.ranks
    room = max(1.25, (last / base) ** 0.08)
    return base / room, last * room


def _ranks_axis(axes: Axes, study: Study) -> None:
    ranks = [point.ranks for point in study.points]
    axes.set_xscale("log", base=2)
    axes.set_xlim(_ends(study))
    keep = slice(None, None, -(-len(ranks) // MOST_TICKS))
    axes.xaxis.set_major_locator(FixedLocator(ranks[keep]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(_plain_numbers)
    axes.set_xlabel("ranks")
    axes.grid(True)
    axes.set_axisbelow(True)


def _points(axes: Axes, study: Study, triples: Sequence[Sequence[float]], label: Callable[[float], str], beside: bool = False) -> None:
    """Draws medians with bars from minimum to maximum, each with its number if there is room: above the bar
    unless that is far, or `beside` a line that rises."""
    ranks = [point.ranks for point in study.points]
    middle, least, greatest = np.array(triples).T
    axes.errorbar(ranks, middle, [middle - least, greatest - middle], color=ACCENT, marker="o", ms=6, lw=2, capsize=4,
                  elinewidth=1.2, zorder=3, label="median, least to greatest")
    for point, y, top in zip(study.points if len(ranks) <= MOST_TICKS else (), middle, greatest):
        place = {"xy": (point.ranks, top), "xytext": (0, 5), "ha": "center"}
        if top > 1.2 * y:
            place = {"xy": (point.ranks, y), "xytext": (7, 6), "ha": "left"}
        if beside:
            better = study.efficiency(point)[0] > 1
            place = {"xy": (point.ranks, y), "xytext": (-7, 5) if better else (7, -13), "ha": "right" if better else "left"}
        axes.annotate(label(y), **place, textcoords="offset points", fontsize=9, color=INK, zorder=4,
                      bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75})


def _speed_up(axes: Axes, study: Study) -> None:
    ends = np.array(_ends(study))
    axes.plot(ends, ends / study.base.ranks, "--", color=SOFT, lw=1.4, label="ideal")
    _ranks_axis(axes, study)
    _points(axes, study, [study.speed_up(point) for point in study.points], number, beside=True)
    axes.set_yscale("log", base=2)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.7), max(high, 1.4))
    narrow = high < 8 * low
    axes.yaxis.set_major_locator(LogLocator(base=2, subs=(1, 1.5) if narrow else (1,)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(_plain_numbers)
    axes.set_title("Speed-up")
    axes.set_ylabel(f"times as fast as on {ranks_of(study.base)}")
    axes.legend(loc="best")


def _time(axes: Axes, study: Study) -> None:
    axes.axhline(1e3 * study.base.time, ls="--", color=SOFT, lw=1.4, label="ideal")
    _ranks_axis(axes, study)
    _points(axes, study, [(1e3 * point.time, 1e3 * point.least, 1e3 * point.greatest) for point in study.points], number)
    axes.set_ylim(0, 1.25e3 * max(point.greatest for point in study.points))
    axes.yaxis.set_major_formatter(_plain_numbers)
    axes.set_title("Time of a step")
    axes.set_ylabel("wall time of a step  [ms]")
    axes.legend(loc="lower left")


def _efficiency(axes: Axes, study: Study) -> None:
    triples = [study.efficiency(point) for point in study.points]
    axes.axhline(1, ls="--", color=SOFT, lw=1.4, label="ideal")
    _ranks_axis(axes, study)
    _points(axes, study, triples, lambda y: f"{y:.2f}")
    axes.set_ylim(0, max(1.1, 1.08 * np.max(triples)))  # above 1: what a rank holds fits into its caches, or noise
    axes.yaxis.set_major_locator(MaxNLocator(steps=[1, 2, 5, 10]))
    axes.set_title("Efficiency")
    axes.set_ylabel(f"time on {ranks_of(study.base)} / time" if study.weak else "speed-up / ideal speed-up")


def shares(point: Point) -> dict[str, float]:
    """Parts of a bar by phase; they add up to 1. Medians over ranks may add up to more than a step: then they
    are scaled down. If they add up to less, the rest is due to ranks that spend their time differently."""
    found = {phase: point.share(phase) for phase in PHASES}
    total = sum(found.values())
    return {phase: share / max(1, total) for phase, share in found.items()} | {"ranks differ": max(0, 1 - total)}


def _phases(axes: Axes, study: Study) -> None:
    """Draws equidistant bars: fractions of a step in strong mode, milliseconds in weak mode."""
    place = np.arange(len(study.points))
    height = np.array([1e3 * point.time if study.weak else 100 for point in study.points])
    parts = {phase: np.array([shares(point)[phase] for point in study.points]) for phase in (*PHASES, "ranks differ")}
    bottom = np.zeros(len(place))
    width = 0.62 if len(place) > 2 else 0.2 * (1 + len(place))
    for phase, part in parts.items():
        if part.max() > (1e-2 if phase == "ranks differ" else 5e-4):
            hatch = {"hatch": "////", "edgecolor": "#94a3b8", "lw": 0} if phase == "ranks differ" else {}
            label = phase if phase == "compute" else f"{phase}\n≤ {_percent(part.max())}"
            axes.bar(place, height * part, width, bottom, color=COLOURS[phase], label=label, **hatch)
        bottom += height * part
    small, gap = (9, " ") if len(place) <= 4 else (8, "\n")
    for x, top, point, part in zip(place, height, study.points, parts["compute"]):
        axes.annotate(f"{number(1e3 * point.time)}{gap}ms", (x, top), xytext=(0, 3), textcoords="offset points", ha="center",
                      fontsize=small)
        if len(place) <= MOST_TICKS:
            axes.annotate(_percent(part), (x, top * part / 2), ha="center", va="center", fontsize=small)
    several = any(point.facts["nodes"] > 1 for point in study.points)
    axes.set_xticks(place, [f"{point.ranks}" + (f"\n{point.facts['nodes']}" if several else "") for point in study.points],
                    fontsize=10 if len(place) <= MOST_TICKS else 8)
    axes.set_xlim(-0.6, len(place) - 0.4)
    axes.set_xlabel("ranks, and nodes below" if several else "ranks")
    axes.set_ylim(0, 1.16 * height.max())
    if not study.weak:
        axes.set_yticks(range(0, 101, 20))
    axes.set_title("Where the time of a step goes")
    axes.set_ylabel("wall time of a step  [ms]" if study.weak else "share of a step  [%]")
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], loc="upper left", bbox_to_anchor=(1, 0.9), handlelength=1.2, fontsize=9,
                labelspacing=0.9)


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %" if part >= 0.1 else f"{100 * part:.1f} %"


def figure(study: Study, folder: str) -> str:
    """Draws the three panels of a study; returns the path written."""
    repetitions = sorted({len(point.steps) for point in study.points})
    counts = f"{repetitions[0]} to {repetitions[-1]}" if len(repetitions) > 1 else str(repetitions[0])
    origin = Origin(study)
    explanation = f"{study.description}\nMedians of {counts} repetitions; bars reach from the least to the greatest. "
    explanation += " ".join(study.notes[-1:] if study.weak else [])
    page = sheet(14.2, 5.5, study.headline, explanation, 1 + origin.origin.count("\n"))
    engine = page.get_layout_engine()
    left, bottom, width, height = engine.get()["rect"]
    engine.set(rect=(left, bottom, width, height - 0.16 / page.get_figheight()), h_pad=0.08, w_pad=0.1)
    axes = page.subplots(1, 3, width_ratios=(1, 1, 1.25))
    (_time if study.weak else _speed_up)(axes[0], study)
    _efficiency(axes[1], study)
    _phases(axes[2], study)
    return save(page, origin, folder, study.title + "_scaling")


def _or_dash(value: float, form: Callable[[float], str] = number) -> str:
    return form(value) if np.isfinite(value) else "-"


def _bytes(value: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{number(value / size)} {unit}"
    return f"{value:.0f} B"


def _costs_most(point: Point) -> str:
    phase = point.costs_most
    return f"{phase} {100 * point.share(phase):.1f} %" if phase and point.share(phase) >= 5e-4 else "-"


# Two lines of heading, and the cell of a point.
COLUMNS: tuple[tuple[str, str, Callable[[Study, Point], str]], ...] = (
    ("", "ranks", lambda study, point: str(point.ranks)),
    ("", "nodes", lambda study, point: str(point.facts["nodes"])),
    ("step", "[ms]", lambda study, point: number(1e3 * point.time)),
    ("least..greatest", "[ms]", lambda study, point: f"{number(1e3 * point.least)}..{number(1e3 * point.greatest)}"),
    ("", "speed-up", lambda study, point: f"{study.speed_up(point)[0]:.2f}"),
    ("", "efficiency", lambda study, point: f"{study.efficiency(point)[0]:.2f}"),
    ("Gflop/s", "per rank", lambda study, point: number(point.rate / 1e9)),
    ("of product", "peak", lambda study, point: _or_dash(100 * point.rate / point.peak, lambda share: f"{share:.0f} %")),
    ("besides compute", "costs most", lambda study, point: _costs_most(point)),
    ("messages", "per step", lambda study, point: f"{point.messages:,.10g}"),
    ("sent", "per step", lambda study, point: _bytes(point.bytes)),
    ("memory of", "largest rank", lambda study, point: _bytes(point.memory)),
    ("checkpoint", "[MB/s]", lambda study, point: _or_dash(point.checkpoint / 1e6)),
)


def table(study: Study) -> str:
    """A study as text: headline, problem, one line for each number of ranks, notes."""
    rows = [[column[0] for column in COLUMNS], [column[1] for column in COLUMNS]]
    rows += [[cell(study, point) for _, _, cell in COLUMNS] for point in study.points]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    against = f"Times are medians over repetitions; speed-up and efficiency are against {ranks_of(study.base)}."
    return "\n".join([study.headline, study.description, "", *lines, "", against, *study.notes])


def _row(study: Study, point: Point) -> dict[str, Value]:
    """A row of the CSV as name -> value; a name ends in its unit unless it is a pure number. Empty: not measured."""
    row: dict[str, Value] = {"ranks": point.ranks, **{name: point.facts[name] for name in LAYOUT},
           "files": " ".join(file.name for file in point.files), "repetitions": len(point.steps),
           "step_median_s": point.time, "step_least_s": point.least, "step_greatest_s": point.greatest}
    for name, values in (("speed_up", study.speed_up(point)), ("efficiency", study.efficiency(point))):
        row |= {name: values[0], name + "_least": values[1], name + "_greatest": values[2]}
    row |= {"work_per_rank_gflop": study.work_per_rank(point) / 1e9, "rate_per_rank_gflop_per_s": point.rate / 1e9,
            "share_of_product_peak_percent": 100 * point.rate / point.peak}
    row |= {f"{phase}_percent": 100 * point.share(phase) for phase in PHASES}
    row |= {"costs_most": point.costs_most, "messages_per_step": point.messages, "sent_per_step_byte": point.bytes,
            "memory_of_largest_rank_byte": point.memory, "checkpoint_megabyte_per_s": point.checkpoint / 1e6}
    return {name: "" if isinstance(value, float) and not np.isfinite(value) else value for name, value in row.items()}


def write_csv(study: Study, folder: str) -> str:
    """Writes folder/<title>.csv; returns the path."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, study.title + ".csv")
    rows = [_row(study, point) for point in study.points]
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def listed(arguments: Iterable[str]) -> tuple[list[str], list[str]]:
    """Lists files, and the files in folders, each once; returns them and the skipped paths, with reasons.
    RunError for a path that is not there."""
    paths: dict[str, str] = {}
    skipped: list[str] = []
    for argument in arguments:
        if not os.path.exists(argument):
            raise RunError(f"{argument}: no such file or folder")
        inside = sorted(glob.glob(os.path.join(glob.escape(argument), "*.h5"))) if os.path.isdir(argument) else [argument]
        paths |= {os.path.realpath(path): path for path in inside}
        if os.path.isdir(argument):
            parts = sorted(glob.glob(os.path.join(glob.escape(argument), "*.h5.part")))
            skipped += [f"{part}: the run that writes it is not finished, or was killed" for part in parts]
    return list(paths.values()), skipped


def read(paths: Iterable[str]) -> tuple[list[Measured], list[str]]:
    """Reads the files; returns the measured ones and the reasons for skipping the others."""
    files, skipped = [], []
    for path in paths:
        try:
            with Run(path) as run:
                files.append(Measured(run))
        except RunError as failure:
            skipped.append(str(failure))
    return files, skipped


def plot(places: list[str], folder: str, options: argparse.Namespace) -> Iterator[str]:
    """Draws a figure and prints a table of each study of the files, and of those in folders; yields what was written.

    `options.mixed`: times of different programs are compared, too."""
    paths, unfinished = listed(places)
    files, skipped = read(without_checkpoints(paths))
    for reason in skipped + unfinished:
        print(f"skipped: {reason}", file=sys.stderr)
    if not files:
        raise RunError(f"no finished output of `fluxformer scaling` in {', '.join(places)}")
    for study in studies(files, options.mixed):
        print(table(study), end="\n\n")
        numbers = write_csv(study, folder)
        picture = figure(study, folder)
        yield f"written: {numbers}\n         {picture} and .pdf\n"
