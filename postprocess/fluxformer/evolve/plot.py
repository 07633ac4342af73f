"""Figures of an `evolve` run: the information front, token maps by layer, profiles over depth.

The files are front, token_maps and profiles. A run with a single depth row has no front: its files are histories and tokens (over
time). A run that measured clusters also has clusters. Fields that the run did not store are not drawn.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from fluxformer.evolve.figures import Evolution, clusters, front, histories, profiles, token_history, token_maps
from fluxformer.io import Run, RunError

OPTIONS = ("sample",)


def draw(run: Run, folder: str, sample: int) -> list[str]:
    """Draws the available data; returns the paths written. RunError for a sample that the file does not hold."""
    evolution = Evolution(run)
    deep = len(evolution.depth) > 1
    written = [front(evolution, folder), profiles(evolution, folder)] if deep else [histories(evolution, folder)]
    counted = "number_2" in run.analyses("evolve")
    if "u" in run.fields or counted:
        samples = run.field("u").shape[3] if "u" in run.fields else run.analysis("evolve", "number_2").shape[2]
        if not 0 <= sample < samples:
            raise RunError(f"--sample {sample}: the field holds samples 0 to {samples - 1}")
    if "u" in run.fields:
        written.append((token_maps if deep else token_history)(evolution, folder, sample))
    if counted:
        written.append(clusters(evolution, folder, sample))
    return written


def plot(paths: list[str], folder: str, options: argparse.Namespace) -> Iterator[str]:
    """Draws each run and yields the paths written; `options.sample` is the one whose token maps and clusters are drawn."""
    for path in paths:
        with Run(path, unfinished=options.unfinished) as run:
            yield from draw(run, folder, options.sample or 0)
