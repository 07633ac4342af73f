"""Figures of clusters, as in their sections of the report; with --animation also tokens in time, as animated GIFs.

    fluxformer plot out/clusters_circle.h5 [--animation]
    fluxformer plot out/formation_*.h5

Runs of clusters_circle that differ in clusters.tokens are one study: times at which clusters form over the number of tokens, with a table.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterator, Mapping

from fluxformer.clusters import clusters_circle, clusters_sphere, formation
from fluxformer.clusters.frames import Scene, animate
from fluxformer.io import Run, RunError
from fluxformer.report.data import Comparison, open_run, studies
from fluxformer.report.plot import pictures
from fluxformer.report.style import write

OPTIONS = ("animation",)
SCENES: Mapping[str, Callable[[Comparison], Scene]] = {one.EXPERIMENT: one.scene for one in (clusters_circle, clusters_sphere)}


def plot(paths: list[str], folder: str, options: argparse.Namespace) -> Iterator[str]:
    """Draws each study of the files; yields the paths of the pictures. `options.animation`: and animations."""
    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(open_run(path)) for path in paths]
        series = formation.in_series(runs)
        others = [run for run in runs if run not in series]
        if options.animation:
            scenes = _scenes(others)  # refuses before anything is drawn
        if series:
            yield _formation(series, folder)
        if others:
            yield from pictures(others, folder)
        if options.animation:
            for scene in scenes:
                yield animate(scene, os.path.join(folder, f"{scene.name}.gif"))


def _formation(runs: list[Run], folder: str) -> str:
    """Draws formation times and prints their table; returns the path of the picture."""
    found = formation.read(runs)
    line = formation.fitted(found.starts)
    print(formation.table(found, line))
    os.makedirs(folder, exist_ok=True)
    drawing = formation.draw(found, line)
    return write(drawing, os.path.join(folder, drawing.name))


def _scenes(runs: list[Run]) -> list[Scene]:
    """The scenes of the runs that can be animated; RunError if there are none."""
    found = [scene(comparison) for study in studies(runs) for experiment, scene in SCENES.items() if (comparison := study.of(experiment))]
    if not found:
        raise RunError(f"--animation: only runs of {' and '.join(SCENES)} are animated, and not those that differ in clusters.tokens")
    return found
