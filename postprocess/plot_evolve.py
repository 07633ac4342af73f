#!/usr/bin/env python3
"""Figures of an `evolve` run: the information front, token maps by layer, profiles over depth.

    /usr/bin/python3 postprocess/plot_evolve.py out/evolve.h5 [--output DIR] [--sample N] [--unfinished]

Writes front, token_maps and profiles, each as .png and .pdf, into DIR (default: figures/ beside the file). A run with a
single depth row has no front: histories and tokens (over time) instead. Fields that the run did not store are not drawn.
"""

import argparse
import os
import sys

try:
    from fluxformer_io import Run, RunError  # first: it says how to install what is missing
    from evolve_figures import Evolution, front, profiles, token_maps
    from single_row_figures import histories, token_history
except ImportError as failure:
    sys.exit(f"plot_evolve.py: {failure}")


def draw(run, folder, sample):
    """Draws the available data; returns the paths written."""
    evolution = Evolution(run)
    deep = len(evolution.depth) > 1
    written = [front(evolution, folder), profiles(evolution, folder)] if deep else [histories(evolution, folder)]
    if "u" in run.fields:
        samples = run.field("u").shape[3]
        if not 0 <= sample < samples:
            raise RunError(f"--sample {sample}: the field holds samples 0 to {samples - 1}")
        written.append((token_maps if deep else token_history)(evolution, folder, sample))
    return written


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="output of `fluxformer evolve`")
    parser.add_argument("--output", metavar="DIR", help="folder for the figures")
    parser.add_argument("--sample", type=int, default=0, help="whose token maps are drawn (default 0)")
    parser.add_argument("--unfinished", action="store_true", help="also draw a run that did not end normally")
    options = parser.parse_args()
    folder = options.output or os.path.join(os.path.dirname(options.file), "figures")
    try:
        with Run(options.file, unfinished=options.unfinished) as run:
            for path in draw(run, folder, options.sample):
                print(path)
    except (RunError, OSError) as failure:
        sys.exit(f"plot_evolve.py: {failure}")


if __name__ == "__main__":
    main()
