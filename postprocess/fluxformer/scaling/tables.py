"""A scaling study as a table for a reader and as a CSV for other programs."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable

import numpy as np

from fluxformer.io import Value
from fluxformer.scaling.data import LAYOUT, PHASES, Point, Study, number, ranks_of


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
    """Headline, problem, one line for each number of ranks, notes."""
    rows = [[column[0] for column in COLUMNS], [column[1] for column in COLUMNS]]
    rows += [[cell(study, point) for _, _, cell in COLUMNS] for point in study.points]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    against = f"Times are medians over repetitions; speed-up and efficiency are against {ranks_of(study.base)}."
    return "\n".join([study.headline, study.description, "", *lines, "", against, *study.notes])


def _row(study: Study, point: Point) -> dict[str, Value]:
    """name -> value; a name ends in its unit unless it is a pure number. Empty: not measured."""
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
    """folder/<title>.csv; returns the path."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, study.title + ".csv")
    rows = [_row(study, point) for point in study.points]
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path
