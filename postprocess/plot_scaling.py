#!/usr/bin/env python3
"""Tables and figures of scaling studies: speed-up with the number of ranks, and what limits it.

    mkdir -p out/scaling
    for n in 1 2 4 8; do
      mpiexec -n $n build/bin/fluxformer scaling input/scaling/evolve.ini --output.file=out/scaling/evolve_$n.h5
    done
    /usr/bin/python3 postprocess/plot_scaling.py out/scaling

prints a table for each study and writes <study>_<mode>.csv and <study>_<mode>_scaling.png and .pdf into DIR (default: figures/
in the folder, or beside the first file). A study is one problem (scaling.study, the sizes, the settings) on several numbers of
ranks; other problems are drawn by themselves, with what differs in the file name. Repetitions of files with the same number of
ranks are taken together. Files of other experiments and runs that are not over are skipped, and that is said.
"""

import argparse
import glob
import os
import sys

try:
    from fluxformer_io import Run, RunError  # first: it says how to install what is missing
    from scaling_data import Measured, studies
    from scaling_figures import figure
    from scaling_tables import table, write_csv
except ImportError as failure:
    sys.exit(f"plot_scaling.py: {failure}")

EPILOG = """columns (T: median over the repetitions of the time of a step; n ranks against the fewest ranks m):
  speed-up      strong: T(m)/T(n), at best n/m.  weak (scaling.mode = weak): T(m)/T(n) n/m
  efficiency    strong: T(m) m / (T(n) n).  weak: T(m)/T(n).  Above 1: what a rank holds fits into its caches, or noise
  Gflop/s       of products, per rank; beside it the share of what a large product reaches there while all ranks do one
                (- with scaling.machine = false)
  costs most    the phase besides compute with the largest share of a step, waiting included: ghosts (depth cells of
                neighbours), ring (keys and values around the ranks), reduction (sums over ranks); medians over ranks
  messages      and bytes that all ranks send in a step; a sum over ranks counts as one message of each
  ranks differ  (figure) what the medians of the phases leave of a step: ranks spend their time differently

what to look at:
  - bars much longer than the difference: repeat on a machine of your own, or with more scaling.steps
  - efficiency falls, compute keeps its share: the ranks share memory bandwidth, caches or clock; see Gflop/s per rank
  - ghosts, ring or reduction grow: too little work per rank (more samples, tokens or cells), or ranks of unequal work

examples:
  plot_scaling.py out/scaling                               all studies of a folder (its own files, not those of folders below)
  plot_scaling.py a/evolve_*.h5 b/evolve_*.h5 --output new  files of two folders, as one set
"""


def listed(arguments):
    """Files, and those in folders, each once; the skipped paths, with reasons. Throws RunError."""
    paths, skipped = {}, []
    for argument in arguments:
        if not os.path.exists(argument):
            raise RunError(f"{argument}: no such file or folder")
        inside = sorted(glob.glob(os.path.join(glob.escape(argument), "*.h5"))) if os.path.isdir(argument) else [argument]
        paths |= {os.path.realpath(path): path for path in inside}
        if os.path.isdir(argument):
            parts = sorted(glob.glob(os.path.join(glob.escape(argument), "*.h5.part")))
            skipped += [f"{part}: the run that writes it is not finished, or was killed" for part in parts]
    return list(paths.values()), skipped


def read(paths):
    """Measured files, and the reasons for skipping the others."""
    files, skipped = [], []
    for path in paths:
        try:
            with Run(path) as run:
                files.append(Measured(run))
        except RunError as failure:
            skipped.append(str(failure))
    return files, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="+", metavar="folder_or_file", help="output of `fluxformer scaling`, or a folder of it")
    parser.add_argument("--output", metavar="DIR", help="folder for tables and figures")
    parser.add_argument("--mixed", action="store_true",
                        help="also compare files of different revisions, compilers, libraries or kernels of matrix products")
    options = parser.parse_args()
    first = options.places[0]
    folder = options.output or os.path.join(first if os.path.isdir(first) else os.path.dirname(first), "figures")
    try:
        paths, unfinished = listed(options.places)
        files, skipped = read(paths)
        for reason in skipped + unfinished:
            print(f"skipped: {reason}", file=sys.stderr)
        if not files:
            raise RunError(f"no finished output of `fluxformer scaling` in {', '.join(options.places)}")
        for study in studies(files, options.mixed):
            print(table(study), end="\n\n")
            print(f"written: {write_csv(study, folder)}\n         {figure(study, folder)} and .pdf\n", flush=True)
    except (RunError, OSError) as failure:
        sys.exit(f"plot_scaling.py: {failure}")


if __name__ == "__main__":
    main()
