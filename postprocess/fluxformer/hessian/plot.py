"""Figures of `hessian`: <name>_spectrum; <name>_blocks_<model> and <name>_distances_<model> where blocks and their spectra were measured;
<name>_course where the largest eigenvalue was followed over the training. Of the studies of one layer: <name>_entries, <name>_heat_map where it
was stored, or <name>_growth.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from fluxformer.hessian.figures import blocks, course, distances, spectrum
from fluxformer.hessian.layers import NORMS, entries, growth, heat_map, kinds_of
from fluxformer.hessian.spectra import Spectra
from fluxformer.io import Run

OPTIONS = ()


def plot(paths: list[str], folder: str, options: argparse.Namespace) -> Iterator[str]:
    """The figures of each file; yields their paths."""
    for path in paths:
        with Run(path, unfinished=options.unfinished) as run:
            name = os.path.basename(path).removesuffix(".h5")
            if kinds_of(run, "entry_share"):
                yield entries(run, folder, f"{name}_entries")
                if kinds_of(run, "heat_map"):
                    yield heat_map(run, folder, f"{name}_heat_map")
                continue
            if kinds_of(run, *NORMS):
                yield growth(run, folder, f"{name}_growth")
                continue
            data = Spectra(run)
            if data.have_density:
                yield spectrum(data, folder, f"{name}_spectrum")
            for model in data.with_blocks:
                yield blocks(data, model, folder, f"{name}_blocks_{model}")
                if data.parts(model, "block_distance"):
                    yield distances(data, model, folder, f"{name}_distances_{model}")
            if data.with_course:
                yield course(data, folder, f"{name}_course")
