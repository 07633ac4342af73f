"""Figures of Hessians: of `hessian_spectrum` <name>_spectrum; <name>_blocks_<model> and <name>_distances_<model> where blocks and their spectra were measured;
<name>_course where the largest eigenvalue was followed over the training; of `hessian_blocks` <name>_entries and, where it was stored,
<name>_heat_map; of `hessian_scaling` <name>_growth.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from fluxformer.hessian.figures import blocks, course, distances, spectrum
from fluxformer.hessian.layers import entries, growth, heat_map, with_growth
from fluxformer.hessian.spectra import Spectra
from fluxformer.io import Run, RunError
from fluxformer.report.data import Comparison

OPTIONS = ()


def plot(paths: list[str], folder: str, options: argparse.Namespace) -> Iterator[str]:
    """Draws the figures of each file; yields the paths written."""
    for path in paths:
        with Run(path, unfinished=options.unfinished) as run:
            name = os.path.basename(path).removesuffix(".h5")
            comparison = Comparison([run])
            if comparison.having("entry_share"):
                yield entries(comparison, folder, f"{name}_entries")
                if comparison.having("heat_map"):
                    yield heat_map(comparison, folder, f"{name}_heat_map")
                continue
            if with_growth(comparison):
                yield growth(comparison, folder, f"{name}_growth")
                continue
            data = Spectra(comparison)
            if not (data.with_density() or data.having("block_norm") or data.having("epoch_largest_eigenvalue")):
                raise RunError(f"{path}: holds eigenvalues alone; there are figures of densities, blocks and epochs")
            if data.with_density():
                yield spectrum(data, folder, f"{name}_spectrum")
            for model in data.having("block_norm"):
                yield blocks(data, model, folder, f"{name}_blocks_{model}")
                if data.parts(model, "block_distance"):
                    yield distances(data, model, folder, f"{name}_distances_{model}")
            if data.having("epoch_largest_eigenvalue"):
                yield course(data, folder, f"{name}_course")
