"""The numbers of claims, once more: from the HDF5 files to one number per seed and its jackknife over test samples, with plain numpy.

Written from docs/reference/output-format.md and the heads of the files of claims, without the code of the report, so that a mistake there is seen.
"""

from configparser import ConfigParser

import h5py
import numpy as np


def data_set(file):
    """(set, tokens) of the samples of a file; for attention paths the task."""
    settings = ConfigParser(strict=False, interpolation=None)
    settings.read_string(file.attrs["settings"])
    get = lambda section, key: settings.get(section, key, fallback="")  # noqa: E731
    if experiment(file) in ("hessian_blocks", "hessian_scaling"):
        return "addition", ""
    if task := get("paths", "task"):
        return task, get("paths", "images" if task == "one_shot" else "variant")
    return get("data", "set"), "" if get("data", "set") in ("topics", "20news") else get("data", "tokens")


def experiment(file):
    """The experiment of a run as claims name it; those of Hessians and of attention paths were studies of one experiment each before."""
    settings = ConfigParser(strict=False, interpolation=None)
    settings.read_string(file.attrs["settings"])
    name = file.attrs["experiment"]
    study = settings.get(name, "study", fallback="")
    return f"{name}_{study}" if study else name


class Experiment:
    """All files of one experiment on one data set, in the order of their seeds."""

    def __init__(self, paths):
        self.files = sorted((h5py.File(path) for path in paths), key=lambda file: file["seed"][0])
        self.groups = [next(iter(file["analysis"].values())) for file in self.files]
        self.seeds = sum(len(file["seed"]) for file in self.files)
        self.models = [name for name in self.groups[0] if all(name in group for group in self.groups)]
        samples = [file["sample"][...] for file in self.files if "sample" in file]
        self.same_samples = len(samples) == len(self.files) and all(np.array_equal(one, samples[0]) for one in samples)

    def has(self, model, name):
        return any(model in group and name in group[model] for group in self.groups)

    def array(self, model, name):
        """[seed, ...], NaN for the seeds of a file without it; None if no file has it."""
        if not self.has(model, name) or name.endswith("_by_sample") and not self.same_samples:
            return None
        shape = next(group[model][name].shape[1:] for group in self.groups if name in group[model])
        return np.concatenate([group[model][name][...] if name in group[model] else np.full((len(file["seed"]), *shape), np.nan)
                               for file, group in zip(self.files, self.groups)])

    def axes(self, model, name):
        """Names of the axes after the seed, "" where the file has none."""
        data = next(group[model][name] for group in self.groups if name in group[model])
        return [axis[0].name.strip("/") if len(axis) else "" for axis in data.dims][1:]

    def coordinate(self, name):
        return self.files[0][name][...]

    def chance(self):
        """The accuracy of guessing and two standard errors more; None where classes or samples are not stored."""
        group = self.groups[0].attrs
        if not {"classes", "samples"} <= set(group):
            return None
        return 1 / group["classes"] + 2 * np.sqrt((1 - 1 / group["classes"]) / group["classes"] / group["samples"])


class Quantity:
    """What a claim measures: `claim` is its table in the file of claims."""

    def __init__(self, experiment, claim):
        self.of, self.claim = experiment, claim
        self.where, self.along, self.levels = claim.get("where", {}), claim.get("along", ""), claim.get("levels", "")
        self.kept = None  # places on the axis of the levels that are reduced; None: all

    def level_places(self):
        """The places of the levels on their axis; the clean input at 0."""
        places = self.of.coordinate(self.levels)
        return np.concatenate([[0.0], places]) if self.claim.get("start") else places

    def choose_levels(self, models, quantity):
        """The levels in the window; of accuracies none beyond the first at which the best of the models only guesses."""
        places = self.level_places()
        if window := self.claim.get("window"):
            self.kept = np.flatnonzero((places >= window[0]) & (places <= window[1]))
        elif (limit := self.of.chance()) is not None and self.claim.get("start"):
            best = np.max([np.nanmean(self.of.array(model, quantity), axis=0) for model in models], axis=0)
            guessing = np.flatnonzero(np.concatenate([[np.inf], best]) <= limit)
            self.kept = np.arange(guessing[0] + 1) if len(guessing) else np.arange(len(places))

    def prepared(self, model, name, suffix="", epoch=None):
        """[seed(, sample), others, last]: the last axis is the one that is reduced."""
        values = self.of.array(model, name + suffix)
        if values is None:
            return None
        lead = 2 if suffix else 1
        axes = [""] * (values.ndim - lead) if suffix else self.of.axes(model, name)
        if epoch is not None:
            values, axes = values[:, epoch], axes[1:]
        for axis, coordinate in self.where.items():
            if axis not in axes or not len(place := np.flatnonzero(self.of.coordinate(axis) == coordinate)):
                return None
            values = values.take(place[0], axis=lead + axes.index(axis))
            axes.remove(axis)
        if "head" in axes:
            at = lead + axes.index("head")
            there = np.isfinite(values).any(axis=tuple(axis for axis in range(values.ndim) if axis != at))
            values = values.take(np.flatnonzero(there), axis=at) if there.any() else values
        if self.along:
            if self.along not in axes:
                return None
            values = np.moveaxis(values, lead + axes.index(self.along), -1)
        depth = f"{model}_depth"
        if not suffix and values.ndim > lead and depth in self.of.files[0]:
            last = self.along or (axes[-1] if axes else "")
            depths = self.of.coordinate(depth)
            if last == depth or last == "" and values.shape[-1] == len(depths):
                ends = self.of.coordinate("transformer_depth") if "transformer_depth" in self.of.files[0] else np.arange(round(depths[-1]) + 1)
                values = values[..., [int(np.argmin(abs(depths - end))) for end in ends]]
        if start := self.claim.get("start"):
            clean = self.of.array(model, start + suffix)
            if clean is None:
                return None
            values = np.concatenate([clean[..., None], values], axis=-1)
        if self.levels and self.kept is not None:
            values = values[..., self.kept]
        return values

    def one_number(self, values):
        """One number of an array [others, last]; a number is itself."""
        values = np.asarray(values, dtype=float)
        while values.ndim > 1:
            values = values.mean(axis=0)
        values = np.atleast_1d(values)
        if not len(values):
            return np.nan
        places = self.level_places() if self.levels else np.arange(len(values), dtype=float)
        if self.levels and self.kept is not None:
            places = places[self.kept]
        return REDUCE[self.claim.get("reduce", "mean")](values, places)

    def by_seed(self, model, name, epoch=None):
        """[seed]; NaN where there is no number."""
        values = self.prepared(model, name, epoch=epoch)
        return np.full(self.of.seeds, np.nan) if values is None else rounded([self.one_number(one) for one in values])

    def without_each(self, model, name):
        """[seed, sample]: the number without each of the test samples; None where outcomes by sample are not stored or not asked for."""
        how = self.claim.get("samples", "")
        outcomes = self.prepared(model, name, "_by_sample") if how else None
        if outcomes is None:
            return None
        found = np.full(outcomes.shape[:2], np.nan)
        for seed, of_seed in enumerate(outcomes):
            there = np.isfinite(of_seed).reshape(len(of_seed), -1).all(axis=1)
            for left_out in np.flatnonzero(there):
                rest = of_seed[there & (np.arange(len(of_seed)) != left_out)]
                found[seed, left_out] = self.one_number(np.sqrt((rest ** 2).mean(axis=0)) if how == "rms" else rest.mean(axis=0))
        return found


def rounded(values):
    """Numbers rounded to twelve digits: what differs beyond them is round-off, and no spread."""
    return np.array([float(f"{value:.11e}") for value in values])


def _half_fall(values, places):
    if not values[0] > values[-1]:
        return np.nan
    left = (values - values[-1]) / (values[0] - values[-1])
    k = int(np.argmax(left <= 0.5))
    way = k - 1 + (left[k - 1] - 0.5) / (left[k - 1] - left[k])
    return way / (len(values) - 1)


def _exponent(values, places):
    if len(values) < 2 or not (values > 0).all():
        return np.nan
    return np.polyfit(np.log(places), np.log(values), 1)[0]


REDUCE = {
    "mean": lambda values, _: values.mean(),
    "first": lambda values, _: values[0],
    "last": lambda values, _: values[-1],
    "fall": lambda values, _: values[0] - values[-1],
    "later_fall": lambda values, _: values[1] - values[-1] if len(values) > 2 else np.nan,
    "half_fall": _half_fall,
    "largest": lambda values, _: np.nanmax(values) if np.isfinite(values).any() else np.nan,
    "smallest": lambda values, _: np.nanmin(values) if np.isfinite(values).any() else np.nan,
    "disparity": lambda values, _: values.max() / values.min(),
    "gap": lambda values, _: values[0] - values[1],
    "exponent": _exponent,
    "area": lambda values, places: sum((values[k] + values[k + 1]) / 2 * (places[k + 1] - places[k]) for k in range(len(values) - 1))
    / (places[-1] - places[0]),
}
