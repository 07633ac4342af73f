"""Reading, plotting and judging what Fluxformer writes, and models and samples from elsewhere.

    import fluxformer
    data = fluxformer.open("out/evolve.h5")              # an xarray Dataset: data["field/u"], data["history/norm"], coordinates
    data = fluxformer.open("out/evolve.h5", "history")   # one group of it: data["norm"]

    data = fluxformer.run("evolve", deck="input/evolve/evolve.ini", settings={"mesh.layers": 24}, output="out/deep.h5", ranks=2)
    fluxformer.experiments(), fluxformer.keys("evolve")  # what there is to run, and to set
    fluxformer.sweep(...)                                # runs over values of keys, and continues where it stopped

    fluxformer plot out/evolve.h5                        # commands: plot, view, report, predict, import, tokens, text, export, convert (--help)
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from fluxformer.environment import ipython

if TYPE_CHECKING:
    import xarray

    from fluxformer.io import RunError
    from fluxformer.solver.program import build_info, experiments, keys
    from fluxformer.solver.running import ProgramError, run
    from fluxformer.solver.sweeps import sweep

__all__ = ["ProgramError", "RunError", "build_info", "experiments", "keys", "open", "run", "sweep"]


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
    return _module("dataset").dataset(path, group, unfinished)


# Imported when they are first used: without h5py the command line must be able to say so.
_FROM = {"RunError": "io", "ProgramError": "solver.running", "run": "solver.running", "sweep": "solver.sweeps", "build_info": "solver.program",
         "experiments": "solver.program", "keys": "solver.program"}


def _module(name: str) -> Any:
    """A module of this package. Where Python lacks a library that it needs, ImportError says how to get it."""
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as failure:
        from fluxformer.environment import fault
        raise ModuleNotFoundError(fault(failure), name=failure.name) from None


def __getattr__(name: str) -> Any:
    if name in _FROM:
        return getattr(_module(_FROM[name]), name)
    advice = ""
    if not name.startswith("_"):
        from fluxformer.commands import COMMANDS
        advice = f"; it is a command for the shell, fluxformer {COMMANDS[name].name} {COMMANDS[name].arguments}" if name in COMMANDS else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{advice}")


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__file__"]  # what the tab key shows


def load_ipython_extension(shell: Any) -> None:
    """Completion of experiments and keys in texts, in IPython and notebooks; importing the package there is enough."""
    from fluxformer.solver.completion import load
    load(shell)


if (_shell := ipython()) is not None:
    load_ipython_extension(_shell)
