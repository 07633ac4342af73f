"""The sections of the report: each report_figures_<name>.py beside this file says in SECTIONS what it draws, of which experiment and
in which place, and is found by its name."""

import importlib
import os
from typing import Callable, NamedTuple


class Section(NamedTuple):
    """What a module of figures adds to the page of a data set."""
    place: int             # among the sections
    anchor: str            # in links
    heading: str
    experiment: str        # whose files it is about
    draw: Callable         # study -> [Drawing]; none where there is nothing to draw
    table: Callable | None = None  # Comparison -> rows, the first of them headings


def sections():
    """Those of all modules, in their order."""
    here = os.path.dirname(os.path.abspath(__file__))
    names = sorted(name[:-3] for name in os.listdir(here) if name.startswith("report_figures_") and name.endswith(".py"))
    return sorted((one for name in names for one in importlib.import_module(name).SECTIONS), key=lambda one: one.place)
