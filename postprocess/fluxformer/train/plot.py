"""Figure of a training: loss, accuracy, learning rate, gradient. Several files are drawn in one figure, to compare them.

<name>_training (several files: trainings_compared). While the training goes on, its history file is drawn.
"""

import contextlib

from fluxformer.io import Run, training_file
from fluxformer.train.figures import figure

OPTIONS = ()


def plot(paths, folder, options):
    """One figure of all trainings."""
    with contextlib.ExitStack() as stack:
        yield figure([stack.enter_context(Run(training_file(path), unfinished=options.unfinished)) for path in paths], folder)
