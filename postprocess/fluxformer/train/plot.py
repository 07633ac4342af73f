"""Figure of a training: loss, accuracy, learning rate, gradient. Several files are drawn in one figure, to compare them.

<name>_training (several files: trainings_compared). While the training goes on, its history file is drawn.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

from fluxformer.io import Run, training_file
from fluxformer.train.figures import figure

OPTIONS = ()


def plot(paths: list[str], folder: str, options: argparse.Namespace) -> Iterator[str]:
    """One figure of all trainings; yields its path."""
    with contextlib.ExitStack() as stack:
        yield figure([stack.enter_context(Run(training_file(path), unfinished=options.unfinished)) for path in paths], folder)
