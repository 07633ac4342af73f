"""Tables and figures of scaling studies: speed-up with the number of ranks, and what limits it.

Prints a table for each study and writes <study>_<mode>.csv and <study>_<mode>_scaling. A study is one problem (scaling.study, the
sizes, the settings) on several numbers of ranks; other problems are drawn by themselves, with what differs in the file name.
Repetitions of files with the same number of ranks are taken together. Files of other experiments and runs that are not over are
skipped, and that is said.
"""

from __future__ import annotations

import argparse
import glob
import os
import sys
from collections.abc import Iterable, Iterator

from fluxformer.io import Run, RunError
from fluxformer.scaling.data import Measured, studies
from fluxformer.scaling.figures import figure
from fluxformer.scaling.tables import table, write_csv

OPTIONS = ("mixed",)
FOLDERS = True  # all files of a folder make studies
EPILOG = """columns (T: median over the repetitions of the time of a step; n ranks against the fewest ranks m):
  speed-up      strong: T(m)/T(n), at best n/m.  weak (scaling.mode = weak): T(m)/T(n) n/m
  efficiency    strong: T(m) m / (T(n) n).  weak: T(m)/T(n).  Above 1: what a rank holds fits into its caches, or noise
  Gflop/s       of products, per rank; beside it the share of what a large product reaches there while all ranks do one
                (- with scaling.machine = false)
  costs most    the phase besides compute with the largest share of a step, waiting included: ghosts (depth cells of
                neighbours), ring (keys and values around the ranks), reduction (sums over ranks), pipeline (micro-batches
                from and to the stages of depth of a training); medians over ranks
  messages      and bytes that all ranks send in a step; a sum over ranks counts as one message of each
  ranks differ  (figure) what the medians of the phases leave of a step: ranks spend their time differently

what to look at:
  - bars much longer than the difference: repeat on a machine of your own, or with more scaling.steps
  - efficiency falls, compute keeps its share: the ranks share memory bandwidth, caches or clock; see Gflop/s per rank
  - ghosts, ring or reduction grow: too little work per rank (more samples, tokens or cells), or ranks of unequal work
  - pipeline is large: of P stages with m micro-batches each waits (P - 1) / (m + P - 1) of a step: a larger train.micro_batches

examples:
  fluxformer plot out/scaling                               all studies of a folder (its own files, not those of folders below)
  fluxformer plot a/evolve_*.h5 b/evolve_*.h5 --output new  files of two folders, as one set
"""


def listed(arguments: Iterable[str]) -> tuple[list[str], list[str]]:
    """Files, and those in folders, each once; the skipped paths, with reasons. RunError for a path that is not there."""
    paths: dict[str, str] = {}
    skipped: list[str] = []
    for argument in arguments:
        if not os.path.exists(argument):
            raise RunError(f"{argument}: no such file or folder")
        inside = sorted(glob.glob(os.path.join(glob.escape(argument), "*.h5"))) if os.path.isdir(argument) else [argument]
        paths |= {os.path.realpath(path): path for path in inside}
        if os.path.isdir(argument):
            parts = sorted(glob.glob(os.path.join(glob.escape(argument), "*.h5.part")))
            skipped += [f"{part}: the run that writes it is not finished, or was killed" for part in parts]
    return list(paths.values()), skipped


def read(paths: Iterable[str]) -> tuple[list[Measured], list[str]]:
    """Measured files, and the reasons for skipping the others."""
    files, skipped = [], []
    for path in paths:
        try:
            with Run(path) as run:
                files.append(Measured(run))
        except RunError as failure:
            skipped.append(str(failure))
    return files, skipped


def plot(places: list[str], folder: str, options: argparse.Namespace) -> Iterator[str]:
    """A table and a figure of each study of the files, and of those in folders; yields what was written.

    `options.mixed`: also compare times of different programs."""
    paths, unfinished = listed(places)
    files, skipped = read(paths)
    for reason in skipped + unfinished:
        print(f"skipped: {reason}", file=sys.stderr)
    if not files:
        raise RunError(f"no finished output of `fluxformer scaling` in {', '.join(places)}")
    for study in studies(files, options.mixed):
        print(table(study), end="\n\n")
        csv = write_csv(study, folder)
        picture = figure(study, folder)
        yield f"written: {csv}\n         {picture} and .pdf\n"
