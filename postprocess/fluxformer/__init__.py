"""Reading, plotting and judging what Fluxformer writes, and models and samples from elsewhere.

    import fluxformer
    data = fluxformer.open("out/evolve.h5")              # an xarray Dataset: data["field/u"], data["history/norm"], coordinates
    data = fluxformer.open("out/evolve.h5", "history")   # one group of it: data["norm"]

    python3 -m fluxformer plot out/evolve.h5             # commands: plot, view, report, predict, import, tokens, text, export (--help)
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray

__all__ = ["RunError", "open"]


def open(path: str | os.PathLike, group: str = "", unfinished: bool = False) -> xarray.Dataset:  # noqa: A001 (as xarray.open_dataset)
    """Opens an output file as an xarray Dataset with its coordinates; numbers are read when they are indexed.

    Parameters
    ----------
    path : path-like
        Output of any experiment, model file, or the history file of a training.
    group : str
        Group whose variables are returned, with names relative to it: "history", "analysis/attention/distilled", ...; "": all
        variables, named by their path ("history/norm", "field/u").
    unfinished : bool
        True: also accept a file whose run failed, was interrupted or is still running.

    Returns
    -------
    xarray.Dataset
        Its `attrs` are the attributes of the file (settings, revision, seed, ...) or of the group; the `attrs` of a variable are
        `long_name` and `units`. Close the dataset, or use it in a `with` statement.

    Raises
    ------
    RunError
        If the file is missing, unreadable, unfinished or not of Fluxformer, or has no such group.
    """
    from fluxformer.dataset import dataset
    return dataset(path, group, unfinished)


def __getattr__(name: str) -> type[Exception]:
    if name == "RunError":  # without h5py the command line must be able to say so
        from fluxformer.io import RunError
        return RunError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
