"""What a page shows: panels with the curves or pictures of one variable of several models and files, as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from fluxformer.report.data import MODELS
from fluxformer.style import ACCENT

QUICK = 1e6  # numbers that are read in a moment
ROUND_OFF = 1e-12  # of the largest coordinate of an axis: what sums of some thousand steps differ by
TOKENS = ("token", "query", "key", "input_token")  # axes whose entries are tokens of a sample
PAIRS = (("key", "query"), ("input_token", "token"), ("other_path", "path"), ("column", "row"))  # across and, from the top, up in a picture of all pairs
LATTICE = "lattice:"  # before the name of an axis of tokens that is laid out as the picture that it comes from
# What lies across before anything else, then up: what a measure changes along.
ALONG = ("time", "step", "epoch", "epochs done", "depth", "layer", "layer_end", "edge", "cell", "multiple", "kept", "width", "distance", "mode", "token")
LOOKS = ((ACCENT, "solid", "circle"), ("#2563eb", "dash", "triangle-up"), ("#0f9d78", "dot", "diamond"), ("#9333ea", "solid", "square"),
         ("#b45309", "dashdot", "x"), ("#475569", "dash", "triangle-down"), ("#c2338f", "dot", "cross"), ("#0891b2", "solid", "pentagon"))
DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot", "": "solid"}  # of matplotlib, by their names in plotly.js
DASHED = ("solid", "dot", "dash", "dashdot", "longdash", "longdashdot")  # of variables that are drawn together
SYMBOLS = {"o": "circle", "s": "square", "X": "x", "^": "triangle-up", "p": "pentagon", "D": "diamond", "v": "triangle-down", "P": "cross"}


class Values(Protocol):
    """Numbers that are read when they are indexed: an array of numpy, or of a file."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""

    def __getitem__(self, index: Any) -> np.ndarray:
        """The numbers there."""


@dataclasses.dataclass(frozen=True)
class Axis:
    """An axis of an array, with its coordinates.

    Attributes
    ----------
    name, unit : str
        As on the page: of the depth of a model "depth", whatever model it is.
    values : ndarray, shape (entries,)
    names : list of str, or of lists
        What the entries are called instead of their numbers: words, goals. Of tokens of several samples a list for each entry of the axis `by`.
    by : str
        The axis that the names depend on; empty: none.
    lattice : tuple of int, or None
        Columns and rows of the picture that tokens come from.
    pictures : tuple of ndarray, each of shape (rows of pixels, columns, 1 or 3), 0 to 255
        The picture of each sample that tokens with a lattice come from, or of the only one.
    what : str
        Its long name.
    """
    name: str
    unit: str
    values: np.ndarray
    names: list[Any] = dataclasses.field(default_factory=list)
    by: str = ""
    lattice: tuple[int, int] | None = None
    pictures: tuple[np.ndarray, ...] = ()
    what: str = ""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def exact(self) -> bool:
        """True if an entry is one thing (head 3), and not a place between others (depth 0.5)."""
        return bool(self.names) or self.values.dtype.kind in "iub"


@dataclasses.dataclass(frozen=True)
class Look:
    """Colour, line and marker of a curve, by their names in plotly.js."""
    colour: str
    dash: str = "solid"
    symbol: str = "circle"
    light: bool = False  # a course of single steps behind its means


@dataclasses.dataclass(frozen=True)
class Series:
    """A variable of one model in one file: a curve, or a picture of its own.

    Attributes
    ----------
    file : str
        Its name on the page; empty for what is the same for all files.
    model : str
        Empty where the file has no models.
    axes : tuple of Axis
        Those of `values`, in their order; empty: a number that is the same everywhere, drawn as a line across.
    label : str
        In legends, if it is not to be made of model and file.
    """
    file: str
    model: str
    axes: tuple[Axis, ...]
    values: Values
    label: str = ""
    look: Look | None = None

    def axis(self, name: str) -> Axis | None:
        """The axis of that name; None if there is none."""
        return next((one for one in self.axes if one.name == name), None)


@dataclasses.dataclass(frozen=True)
class Panel:
    """What is drawn together: the same variable of all models and files.

    Attributes
    ----------
    key : str
        The place in the file, without the model: "history/norm", "analysis/attention/map".
    title, unit : str
    series : tuple of Series
    across, up : str
        Names of the axes that are drawn at first; an empty `up` draws curves, else pictures. All other axes get sliders and menus.
    what : str
        A sentence about what is shown, where the title does not say it.
    logarithmic : bool or None
        Scale of the values at first; None: logarithmic if they span several decades.
    label : str
        Of the values on an axis; empty: the name of the variable.
    alone : bool or None
        Whether each picture has a scale of its own at first, or that of all places of the sliders; None: curves have, pictures have not.
    """
    key: str
    title: str
    unit: str
    series: tuple[Series, ...]
    across: str = ""
    up: str = ""
    what: str = ""
    logarithmic: bool | None = None
    label: str = ""
    alone: bool | None = None

    def lengths(self) -> dict[str, int]:
        """The axes of all series that have more than one entry, in their order, and the entries of the longest."""
        found: dict[str, int] = {}
        for series in self.series:
            for axis in series.axes:
                found[axis.name] = max(len(axis), found.get(axis.name, 0))
        return {name: length for name, length in found.items() if length > 1}

    def is_empty(self) -> bool:
        """True if it has no number at all, as far as that is read in a moment."""
        return all(np.prod(one.values.shape, dtype=float) < QUICK and not np.isfinite(one.values[(slice(None),) * len(one.axes)]).any() for one in self.series)

    def is_number(self) -> bool:
        """True if there is nothing to draw: a number for each series, or one for each of its seeds."""
        return not set(self.lengths()) - {"seed"}


def drawn(panel: Panel) -> Panel:
    """The panel with axes to begin with, where it names none.

    Pairs make a picture, tokens on a lattice are laid out as it; one model alone makes a picture of two axes, several make curves.
    """
    if panel.across:
        return panel
    names = [name for name in panel.lengths() if name != "seed"]
    for across, up in PAIRS:
        if across in names and up in names:
            return dataclasses.replace(panel, across=across, up=up)
    for name in names:
        if name in TOKENS and all((axis := one.axis(name)) and axis.lattice for one in panel.series):
            return dataclasses.replace(panel, across=LATTICE + name, up=LATTICE + name)
    along = sorted(names, key=lambda name: ALONG.index(name) if name in ALONG else len(ALONG))
    picture = len(along) > 1 and len(panel.series) == 1
    return dataclasses.replace(panel, across=along[0] if along else "seed", up=along[1] if picture else "")


def together(title: str, parts: Sequence[tuple[str, Panel | None]], **changes: Any) -> list[Panel]:
    """Several variables as curves of one panel: pairs of what each is called and its panel. A list of this panel; empty if there is none of them."""
    there = [(label, panel) for label, panel in parts if panel]
    if not there:
        return []
    measured = [*dict.fromkeys((one.file, one.model) for _, panel in there for one in panel.series)]
    looks = _looks(measured)
    series = []
    for place, (label, panel) in enumerate(there):
        for one in panel.series:
            own = looks[measured.index((one.file, one.model))]
            look = dataclasses.replace(own, dash=DASHED[place % len(DASHED)]) if len(measured) > 1 else look_of(place)
            series.append(dataclasses.replace(one, label=", ".join(filter(None, (name_of(one.model), label))), look=look))
    return [dataclasses.replace(there[0][1], title=title, series=tuple(series), **changes)]


def _looks(measured: Sequence[tuple[str, str]]) -> list[Look]:
    """A look for each file and model: those of the models, unless one is there twice."""
    models = [model for _, model in measured]
    return [Look((style := MODELS[model]).colour, DASHES[style.line], SYMBOLS[style.marker]) if model in MODELS and len({*models}) == len(models)
            else look_of(place) for place, model in enumerate(models)]


def name_of(model: str) -> str:
    """A model as on figures; other groups by their names."""
    return MODELS[model].label if model in MODELS else model.replace("_", " ")


def look_of(place: int) -> Look:
    """The look of the series at a place, counted from 0: colours and markers come again after the last, each time with another line."""
    again, place = divmod(place, len(LOOKS))
    colour, dash, symbol = LOOKS[place]
    return Look(colour, DASHED[(DASHED.index(dash) + again) % len(DASHED)], symbol)


def joined(panel: Panel) -> Panel:
    """The panel with the same coordinates in all series where those of a later one differ by round-off alone: times 0.1 + 0.2 and 0.3 are one place."""
    known: dict[str, np.ndarray] = {}  # in rising order
    series = []
    for one in panel.series:
        axes = tuple(axis if axis.exact else dataclasses.replace(axis, values=_nearest(axis.values, known.get(axis.name, np.zeros(0)))) for axis in one.axes)
        known.update({axis.name: np.union1d(known.get(axis.name, np.zeros(0)), axis.values) for axis in axes if not axis.exact})
        series.append(dataclasses.replace(one, axes=axes))
    return dataclasses.replace(panel, series=tuple(series))


def _nearest(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """For each value the known one (in rising order) that equals it but for round-off, else itself. Values that differ stay different."""
    if not known.size:
        return values
    above = np.searchsorted(known, values).clip(max=known.size - 1)
    below = (above - 1).clip(min=0)
    found = np.where(np.abs(values - known[below]) < np.abs(values - known[above]), known[below], known[above])
    sizes = np.abs(np.concatenate([values, known]))
    close = np.abs(found - values) <= ROUND_OFF * sizes[np.isfinite(sizes)].max(initial=0)
    found = np.where(close, found, values)
    return found if np.unique(found).size == np.unique(values).size else values


def finished(panel: Panel) -> Panel:
    """The panel with a label and a look for every series: the look of its model, unless several files are compared."""
    files = {one.file for one in panel.series} - {""}
    found: list[Series] = []
    for one, look in zip(panel.series, _looks([(one.file, one.model) for one in panel.series])):
        label = one.label or (name_of(one.model) if one.model else "")
        if len(files) > 1 or not label:
            label = ": ".join(filter(None, (one.file, label)))
        found.append(dataclasses.replace(one, label=label, look=one.look or look))
    return dataclasses.replace(panel, series=tuple(found))
