"""The figures of comparisons, ablations, identifiability and attention paths, one by one as in their sections of the report."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator

from fluxformer.io import Run
from fluxformer.report.data import experiment_of, open_run, studies
from fluxformer.report.sections import sections
from fluxformer.report.style import write

OPTIONS = ()  # `fluxformer plot` takes this module for a family that has no module `plot` of its own


def plot(paths: list[str], folder: str, _options: argparse.Namespace) -> Iterator[str]:
    """Draws each study of the files; yields the paths of the pictures."""
    with contextlib.ExitStack() as stack:
        yield from pictures([stack.enter_context(open_run(path)) for path in paths], folder)


def pictures(runs: list[Run], folder: str) -> Iterator[str]:
    """Draws each study of the runs, which are open; yields the paths of the pictures."""
    known = {experiment_of(run) for run in runs}
    os.makedirs(folder, exist_ok=True)
    for study in studies(runs):
        for section in sections():
            if section.experiment in known:
                for drawing in section.draw(study):
                    yield write(drawing, os.path.join(folder, drawing.name))
