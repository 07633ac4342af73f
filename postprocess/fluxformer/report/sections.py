"""The sections of the report: the module fluxformer.<family>.<experiment> of an experiment, or fluxformer.<family>.<family> of several
of them, says in SECTIONS what it draws and in which place; it is found by these names."""

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
    experiment: str        # whose files it is about
    draw: Callable[[Study], list[Drawing]]  # none where there is nothing to draw
    table: Callable[[Comparison], Rows] | None = None  # of the comparison of this experiment
    rows: Callable[[Study], Rows] | None = None        # of a table, where there is no comparison
    controls: tuple[tuple[str, str], ...] = ()         # words for null controls that mean something else than in claims.NAMES


def sections() -> list[Section]:
    """The sections of all experiments that have some, in their order."""
    names = dict.fromkeys(f"fluxformer.{family}.{one}" for name, family in families().items() for one in (name, family))
    modules = [name for name in names if importlib.util.find_spec(name) is not None]
    return sorted((one for module in modules for one in importlib.import_module(module).SECTIONS), key=lambda one: one.place)
