"""The origin of the numbers of the report: the runs behind a figure or a claim, with deck and wall time, in text."""

from __future__ import annotations

import os
from typing import NamedTuple

from fluxformer.io import Run
from fluxformer.text import seed_list


def deck_of(run: Run) -> str:
    """The deck that a run was started with, in words."""
    return f"deck {run.deck_name}" if run.deck_name != "defaults" else f"no deck: fluxformer {run.attributes['experiment']} ..."


def wall_time(run: Run) -> float:
    """Wall time of all phases of a run  [s]."""
    return sum(run.timing.values())


def duration(seconds: float) -> str:
    """A duration in the unit in which it is easy to read, with that unit."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


class Behind(NamedTuple):
    """Files of one deck that a claim rests on."""
    files: list[tuple[int, str]]  # place in the list of all runs, from 1; name without its folder
    deck: str
    cost: str                     # wall time of all files together


def behind(some: list[Run], runs: list[Run]) -> list[Behind]:
    """Groups `some` of the `runs` by deck."""
    by_deck: dict[str, list[Run]] = {}
    for run in some:
        by_deck.setdefault(deck_of(run), []).append(run)
    return [Behind([(runs.index(run) + 1, os.path.basename(run.path)) for run in members], deck,
                   duration(sum(wall_time(run) for run in members)) + (" together" if len(members) > 1 else ""))
            for deck, members in by_deck.items()]


def origins(runs: list[Run]) -> list[str]:
    """Lines that lead from a figure back to its runs, one for those of the same deck and revision."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(f"{deck_of(run)} · revision {run.revision}", []).append(run)
    lines = []
    for made, members in groups.items():
        seeds = [seed for run in members for seed in run.seeds]
        lines.append(f"{', '.join(run.path for run in members)} · {made} · seed{'s' * (len(set(seeds)) > 1)} {seed_list(seeds)}")
    return lines
