"""The sections of the report: the module fluxformer.<family>.<experiment> of an experiment says in SECTIONS what it draws and in which
place; it is found by the names of family and experiment."""

import importlib
import importlib.util
from typing import Callable, NamedTuple

from fluxformer.experiments import families


class Section(NamedTuple):
    """What a module of figures adds to the page of a data set."""
    place: int             # among the sections
    anchor: str            # in links
    heading: str
    experiment: str        # whose files it is about
    draw: Callable         # study -> [Drawing]; none where there is nothing to draw
    table: Callable | None = None  # Comparison -> rows, the first of them headings


def sections():
    """Those of all experiments that have some, in their order."""
    modules = [f"fluxformer.{family}.{name}" for name, family in families().items()
               if importlib.util.find_spec(f"fluxformer.{family}.{name}") is not None]
    return sorted((one for module in modules for one in importlib.import_module(module).SECTIONS), key=lambda one: one.place)
