#!/usr/bin/env python3
"""Figure of a training: loss, accuracy, learning rate, gradient. Several files are drawn in one figure, to compare them.

    /usr/bin/python3 postprocess/plot_training.py out/train.h5 [more.h5 ...] [--output DIR] [--unfinished]

Writes <name>_training (several files: trainings_compared) as .png and .pdf into DIR (default: figures/ beside the first
file). While the training goes on, out/train.h5 is not there yet and out/train.history.h5 is drawn instead.
"""

import argparse
import contextlib
import os
import sys

try:
    from fluxformer_io import Run, RunError, training_file  # first: it says how to install what is missing
    from training_figures import figure
except ImportError as failure:
    sys.exit(f"plot_training.py: {failure}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="file", help="output of `fluxformer train`, or its history file")
    parser.add_argument("--output", metavar="DIR", help="folder for the figure")
    parser.add_argument("--unfinished", action="store_true", help="also draw a run that did not end normally")
    options = parser.parse_args()
    folder = options.output or os.path.join(os.path.dirname(options.files[0]), "figures")
    try:
        with contextlib.ExitStack() as stack:
            print(figure([stack.enter_context(Run(training_file(path), unfinished=options.unfinished))
                          for path in options.files], folder))
    except (RunError, OSError) as failure:
        sys.exit(f"plot_training.py: {failure}")


if __name__ == "__main__":
    main()
