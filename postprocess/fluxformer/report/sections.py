"""The sections of the report: the module fluxformer.<family>.<experiment> of an experiment says in SECTIONS
what it draws and in which place; it is found by the names of family and experiment."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import NamedTuple

from fluxformer.experiments import families
from fluxformer.report.data import Comparison, Study
from fluxformer.report.style import Drawing


Rows = list[tuple[str, ...]]  # rows of a table, the first of them headings


class Section(NamedTuple):
    """What a module of figures adds to the page of a data set."""
    place: int             # among the sections
    anchor: str            # in links
    heading: str
    experiment: str        # whose files it is about, <experiment>.<study> if it has several
    draw: Callable[[Study], list[Drawing]]  # none where there is nothing to draw
    table: Callable[[Comparison], Rows] | None = None


def sections() -> list[Section]:
    """The sections of all experiments that have some, in their order."""
    modules = [f"fluxformer.{family}.{name}" for name, family in families().items()
               if importlib.util.find_spec(f"fluxformer.{family}.{name}") is not None]
    return sorted((one for module in modules for one in importlib.import_module(module).SECTIONS), key=lambda one: one.place)
