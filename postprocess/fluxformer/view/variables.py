"""Every variable of result files as a panel: the same variable of several models and files together."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import numpy as np

from fluxformer.experiments import family_of
from fluxformer.hdf5_file import reading
from fluxformer.io import Array, Run, plain, unit_of
from fluxformer.report.data import MODELS
from fluxformer.view.panels import TOKENS, Axis, Panel, Series, Values

APART = ("state", "optimiser")  # what a run that continues needs; nothing to look at
LAST = ("model/", "timing/")  # in the menu of all variables
MANY = 64  # samples whose words are told in hover texts
PIXELS = 1_000_000  # of pictures beside maps, at most
LONG = 4096  # words of a vocabulary, at most, that are told
FEW = 4  # measures that are shown at first of experiments that choose none
DERIVED = ("_null", "_uniform", "_permuted", "_untrained", "_ceiling", "_by_sample", "_epsilon", "seconds")  # endings of what stands beside a measure
# Attributes of a group that name the entries of an axis, a line each: <axis>_names, or these.
NAMES = {"part": "parts", "further_set": "further_sets", "block": "blocks", "quantity": "quantities", "judged_set": "judged_sets",
         "pruning_order": "pruning_orders", "order": "pruning_orders", "pruning_rule": "pruning_rules", "other_path": "path_names"}


class Cut:
    """An array of a file, as long as its axes are: a run that goes on extends them last."""

    def __init__(self, array: Array, shape: tuple[int, ...]) -> None:
        self._array, self.shape = array, shape

    def __getitem__(self, index: Any) -> np.ndarray:
        """Slices of all axes, as `storage` takes them."""
        return self._array[tuple(slice(*one.indices(size)) for one, size in zip(index, self.shape))]


class Stack:
    """The same array of every layer, with the layer as first axis."""

    def __init__(self, layers: list[Values]) -> None:
        self._layers, self.shape = layers, (len(layers), *layers[0].shape)

    def __getitem__(self, index: Any) -> np.ndarray:
        """Slices of all axes, as `storage` takes them."""
        return np.stack([one[index[1:]] for one in self._layers[index[0]]])


def names_of(runs: Sequence[Run]) -> dict[str, str]:
    """What each file is called on the page, by its path: its name, or its path where two have the same name."""
    short = [os.path.basename(run.path).removesuffix(".h5") for run in runs]
    return {run.path: name if short.count(name) == 1 else run.path for run, name in zip(runs, short)}


def variables(runs: Sequence[Run]) -> dict[str, Panel]:
    """A panel for every array of numbers in these files, by its place without the model: "history/norm", "analysis/attention/map"; where a later file
    has another unit than the first one, by place and unit: "history/norm [1/time]".

    Raises
    ------
    RunError
        If a file cannot be read.
    """
    called = names_of(runs)
    found: dict[str, Panel] = {}
    for run in runs:
        with reading(run.path):
            for key, title, unit, series in _of_run(run, called[run.path]):
                own = key if key not in found or found[key].unit == unit else f"{key} [{unit}]"
                panel = found.get(own, Panel(key, title, unit, ()))
                found[own] = dataclasses.replace(panel, series=(*panel.series, series))
    order = [*called.values()]
    found = dict(sorted(found.items(), key=lambda one: (one[0].startswith(LAST), one[0])))
    return {key: dataclasses.replace(panel, series=tuple(sorted(panel.series, key=lambda one: (order.index(one.file), _rank(one.model)))))
            for key, panel in found.items()}


def _rank(model: str) -> int:
    """The place of a model among others, as on all figures."""
    return [*MODELS].index(model) if model in MODELS else len(MODELS)


def chosen(runs: Sequence[Run], everything: Mapping[str, Panel], first: Mapping[str, Sequence[str]]) -> list[Panel]:
    """The measures that are shown at first of the experiments of these runs: those of `first`, as far as they are there, else the first few."""
    found: list[Panel] = []
    for experiment in dict.fromkeys(str(run.attributes["experiment"]) for run in runs):
        groups = tuple(f"analysis/{name}/" for name in (experiment, family_of(experiment)))
        these = [panel for name in first.get(experiment, ()) for group in groups for panel in everything.values()
                 if panel.key == group + name and not panel.is_empty()]
        found += these or [panel for panel in everything.values()
                           if panel.key.startswith(groups) and not panel.is_number() and not panel.key.endswith(DERIVED) and not panel.is_empty()][:FEW]
    return found


class Known:
    """What many arrays of a file share, each read once: coordinates, their units and long names, attributes of groups."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.coordinates = {name: run.coordinate(name) for name in run.coordinates}
        self.units = {name: run.unit(name) for name in self.coordinates}
        self.meanings = {name: str(plain(run.file[name].attrs.get("long_name", ""))) for name in self.coordinates}
        self.described = functools.cache(run.described)

    @functools.cached_property
    def lines(self) -> list[list[str]]:
        """The words of each sample, of files that hold them for a few samples; else empty."""
        if "sample_words" in self.coordinates:
            return [[str(plain(word)) for word in line] for line in self.coordinates["sample_words"][:MANY]]
        if not {"ids", "words"} <= {*self.coordinates} or self.coordinates["ids"].ndim != 2 or len(self.coordinates["ids"]) > MANY:
            return []
        words = [str(plain(word)) for word in self.coordinates["words"]]
        return [[words[number] if 0 <= number < len(words) else "" for number in line] for line in self.coordinates["ids"]]

    @functools.cache
    def pictures(self, columns: int, rows: int) -> tuple[np.ndarray, ...]:
        """The pictures that tokens of this lattice are patches of: of each sample, or of the only one; empty if the file holds none.

        Parameters
        ----------
        columns, rows : int
        """
        if "sample_features" not in self.coordinates:
            return ()
        features = self.coordinates["sample_features"]
        samples = features.reshape(-1, *features.shape[-2:])
        colours = 3 if samples.shape[-1] % 3 == 0 and math.isqrt(samples.shape[-1] // 3) ** 2 * 3 == samples.shape[-1] else 1
        side = math.isqrt(samples.shape[-1] // colours)
        if samples.shape[1:] != (columns * rows, colours * side * side):
            return ()
        found: list[np.ndarray] = []
        for sample in samples[:max(1, PIXELS // samples[0].size)]:
            # token (row, column) x (colour, row, column in the patch), as images are cut into patches
            pixels = sample.reshape(rows, columns, colours, side, side).transpose(0, 3, 1, 4, 2).reshape(rows * side, columns * side, colours)
            low, high = float(pixels.min()), float(pixels.max())
            found.append(np.round(255 * (pixels - low) / (high - low if high > low else 1)).astype(np.uint8))
        return tuple(found)

    @functools.cached_property
    def ends(self) -> Axis | None:
        """The time at the end of each step of the history; None in files without."""
        if "time" not in self.run.histories:
            return None
        time = self.run.file["history/time"]
        return Axis("time", unit_of(time), time[...], what=str(plain(time.attrs.get("long_name", ""))))

    def facts(self, group: str) -> dict[str, Any]:
        """Attributes of a group, and of the one that it is in."""
        return {**self.described("/".join(group.split("/")[:2])), **self.described(group)}


def _of_run(run: Run, name: str) -> list[tuple[str, str, str, Series]]:
    """Key, title, unit and series of every variable of a file."""
    known = Known(run)
    datasets: list[h5py.Dataset] = []

    def visit(place: str, one: h5py.HLObject) -> None:
        if isinstance(one, h5py.Dataset) and one.shape is not None and one.dtype.kind in "iufb" and place.split("/")[0] not in APART:
            datasets.append(one)

    run.file.visititems(visit)
    found, layers = [], {}  # type: ignore[var-annotated]
    for one in datasets:
        parts = one.name.strip("/").split("/")
        if len(parts) == 1 and (h5py.h5ds.is_scale(one.id) or one.ndim == 0) or 0 in one.shape:
            continue
        if parts[:2] == ["model", "layers"] and len(parts) == 4 and parts[2].isdigit():
            layers.setdefault(parts[3], {})[int(parts[2])] = one
            continue
        group = one.parent.name.strip("/")
        model = parts[2] if parts[0] == "analysis" and len(parts) == 4 else ""
        key = "/".join((*parts[:2], parts[3])) if model else "/".join(parts)
        axes, values = _axes(known, one, group, model)
        if all(map(len, axes)):
            found.append((key, _title(one), unit_of(one), Series(name, model, axes, values)))
    for weight, by_layer in layers.items():
        if len({one.shape for one in by_layer.values()}) == 1:
            parts_of = [_axes(known, by_layer[layer], "model", "") for layer in sorted(by_layer)]
            axis = Axis("layer", "", np.array(sorted(by_layer)))
            first = next(iter(by_layer.values()))
            series = Series(name, "", (axis, *parts_of[0][0]), Stack([values for _, values in parts_of]))
            found.append((f"model/{weight}", f"{weight} of each layer", unit_of(first), series))
    return found


def _title(one: h5py.Dataset) -> str:
    """The long name, with a capital; its place if there is none."""
    text = str(plain(one.attrs.get("long_name", ""))) or one.name.strip("/").removeprefix("model/").replace("_", " ")
    return text[:1].upper() + text[1:]


def _axes(known: Known, one: h5py.Dataset, group: str, model: str) -> tuple[tuple[Axis, ...], Values]:
    array = Array(one)
    facts = known.facts(group)
    own = [name.removeprefix(f"{model}_") if model else name for name in array.dims]
    axes: list[Axis] = []
    for number, (stored, size) in enumerate(zip(array.dims, array.shape)):
        name = own[number] if own.count(own[number]) == 1 else stored
        if not name or name.startswith("extent_"):
            name = ("row", "column", "plane")[number] if array.shape[1:] and number < 3 else f"entry{number or ''}"
            axes.append(Axis(name, "", np.arange(size)))
            continue
        if stored == "step" and known.ends and one.name != "/history/time":
            axes.append(dataclasses.replace(known.ends, values=known.ends.values[:size]))
            continue
        values = (known.coordinates[stored] if stored in known.coordinates else array.coordinate(number))[:size]
        if values.dtype.kind not in "iufb":
            values = np.arange(size)
        if name in TOKENS and "sample" in own and known.lines:
            axes.append(Axis(name, "", values, known.lines, by="sample", what=known.meanings.get(stored, "")))
            continue
        cut = lattice(known, facts, size) if name in TOKENS else None
        axes.append(Axis(name, known.units.get(stored, ""), values, _names(known.run, facts, name, values), lattice=cut,
                         pictures=known.pictures(*cut) if cut else (), what=known.meanings.get(stored, "")))
    return tuple(axes), Cut(array, tuple(map(len, axes)))


def _names(run: Run, facts: dict[str, Any], axis: str, values: np.ndarray) -> list[str]:
    """What the entries of an axis are called; empty if they have numbers alone."""
    for attribute in (f"{axis}_names", NAMES.get(axis, "")):
        if isinstance(facts.get(attribute), str):
            lines = facts[attribute].splitlines()
            places = values.astype(int) - 1 if values.dtype.kind in "iu" and axis == "goal" else np.arange(len(values))
            if len(lines) and places.min(initial=0) >= 0 and places.max(initial=0) < len(lines):
                return [lines[place] for place in places]
    if axis in TOKENS and isinstance(facts.get("sample_words"), str):
        words = facts["sample_words"].split("\n")
        return [words[k] if k < len(words) else "" for k in range(len(values))]
    if values.dtype.kind == "f" and not np.isfinite(values).all():  # a width without end has no place on an axis of numbers
        return [f"{value:g}".replace("inf", "∞") for value in values]
    if axis == "word" and len(values) <= LONG and len(vocabulary := run.vocabulary) == len(values):
        return vocabulary
    return []


def lattice(known: Known, facts: dict[str, Any], tokens: int) -> tuple[int, int] | None:
    """Columns and rows of the picture that tokens come from; None for a line of tokens."""
    if "token_x" in known.coordinates and "token_y" in known.coordinates:
        columns, rows = (int(known.coordinates[name].max(initial=0)) + 1 for name in ("token_x", "token_y"))
    else:
        columns, rows = (int(facts.get(name, 0)) for name in ("tokens_x", "tokens_y"))
        side = math.isqrt(tokens)
        if not columns and known.run.settings.get("data.tokens") in ("patches", "pixels") and side * side == tokens:
            columns = rows = side
    return (columns, rows) if columns > 1 and rows > 1 and columns * rows == tokens else None
