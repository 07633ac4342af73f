"""What the comparison report reads: runs by data set, and measures of several models over seeds."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fluxformer.experiments import family_of, makes_its_data, name_today
from fluxformer.io import Run, RunError, Value


class Style(NamedTuple):
    """The look of a model in every figure of a page: models are told apart by colour, by marker and by line."""
    label: str
    colour: str
    marker: str
    line: str


# Vermilion, blue and green of this lightness stay apart for colour-blind readers; the reference is ink. Trained models, then
# the layers with random weights and the controls of the studies of Hessians ("linear" is both).
MODELS = {
    "transformer": Style("Transformer", "#1b1f24", "o", "-"),
    "independent": Style("PDE, independent", "#e4572e", "s", "-"),
    "normed": Style("PDE with LayerNorm", "#c2338f", "X", "-."),
    "distilled": Style("PDE, distilled", "#2563eb", "^", "--"),
    "converged": Style("PDE, converged in depth", "#0891b2", "p", "-"),
    "inherited": Style("PDE, inherited", "#0f9d78", "D", ":"),
    "softmax": Style("soft-max", "#1b1f24", "o", "-"),
    "softmax_pre_norm": Style("soft-max, pre-norm", "#e4572e", "s", "-"),
    "softmax_post_norm": Style("soft-max, post-norm", "#2563eb", "^", "--"),
    "linear": Style("linear attention", "#8e44ad", "v", "-."),
    "mlp": Style("MLP", "#b7791f", "P", ":"),
    "linear_mlp": Style("linear network", "#b7791f", "P", ":"),
    "theory": Style("theory of attention paths", "#1b1f24", "o", "-"),
    "network": Style("trained network of paths", "#8e44ad", "v", "-"),
    "wishart": Style("draws of order parameters", "#0f9d78", "s", ""),
    "hmc": Style("draws of all weights", "#2563eb", "^", ""),
}
INDEPENDENT = ("independent", "normed", "converged")  # trained on the labels alone
COUPLINGS = {
    "independent": "trained on the labels, apart from the Transformer",
    "normed": "trained on the labels, too, with normalisation; its first weights are those of the independent one",
    "distilled": "trained to follow the Transformer: what it shares was asked for",
    "converged": "trained on the labels to be converged in depth, so that finer cells give the same loss",
    "inherited": "not trained: the Transformer's own weights, interpolated in depth",
}
CONTROLS = {
    "linear": "a control: the Transformer without soft-max, trained on the same data",
    "mlp": "a control: of the same widths without attention, all channels of a sample at once",
}
DATA_SETS = {"digits": "built-in digits", "mnist": "MNIST", "omniglot": "Omniglot", "topics": "built-in topics",
             "20news": "20 Newsgroups", "tokens": "token file", "addition": "addition of numbers", "sphere": "tokens on the sphere",
             "markov": "hidden Markov chains", "surrogate": "one-shot surrogate", "one_shot": "one-shot images"}
MADE = {"hessian": "addition", "clusters": "sphere"}  # by families that make their data
TOKENS = {"four_paths": "four paths", "two_paths": "two paths", "patches": "4 × 4 patches", "rows": "rows of pixels", "pixels": "pixels", "whole": "one token"}
TEXTS = ("topics", "20news")


def spread(values: ArrayLike) -> np.ndarray:
    """Standard deviation over seeds; NaN for fewer than two."""
    values = np.asarray(values, dtype=float)
    return np.std(values, axis=0, ddof=1) if len(values) > 1 else np.full(values.shape[1:], np.nan)


def number(value: float) -> str:
    """A number with three or four digits that matter."""
    value = float(value)
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    size = abs(value)
    if value == int(value) and size < 1e6:
        text = f"{value:.0f}"
    else:
        text = _fixed(value, 3 - math.floor(math.log10(size))) if 1e-3 <= size < 1e5 else f"{value:.2e}"
    return text.replace("-", "−")


def _fixed(value: float, decimals: int) -> str:
    return f"{value:.{max(0, min(decimals, 7))}f}"


def mean_and_spread(values: ArrayLike) -> str:
    """One number per seed as text: mean ± standard deviation."""
    finite = [value for value in np.ravel(values) if np.isfinite(value)]
    if not finite:
        return "–"
    mean, deviation = float(np.mean(finite)), float(spread(finite))
    if deviation < 1e-12 * np.max(np.abs(finite)):  # round-off of equal numbers
        deviation = 0.0
    if not deviation > 0 or not 1e-6 <= deviation < 1e5:
        return number(mean) + (f" ± {number(deviation)}" if len(finite) > 1 else "")
    decimals = 1 - math.floor(math.log10(deviation))  # two digits of the deviation matter, and as many of the mean
    return f"{_fixed(mean, decimals)} ± {_fixed(deviation, decimals)}".replace("-", "−")


def first_and_last(values: ArrayLike) -> str:
    """Numbers [seed, depth] as text: mean at the first depth, and mean ± standard deviation at the last."""
    values = np.asarray(values, dtype=float)
    return f"{number(float(np.nanmean(values[:, 0])))} → {mean_and_spread(values[:, -1])}"


# Settings that seeds added later may change.
APART = ("models.", "ablation.seeds", "hessian.seeds", "output.", "checkpoint.", "run.time_limit", "run.progress")
BY_SAMPLE = "_by_sample"


def experiment_of(run: Run) -> str:
    """The experiment that wrote a file, by its name of today: that under which claims and sections ask for it."""
    return name_today(run.attributes["experiment"], run.settings)


def group_of(run: Run) -> str:
    """The group of its measures in /analysis: that of the experiment, or one that its family shares."""
    name = experiment_of(run)
    family = family_of(name)
    return family if family and run.analyses(family) and not run.analyses(name) else name


class Comparison:
    """The measures of one experiment. The first axis of every array is the seed.

    Parameters
    ----------
    runs : list of Run
        Files with different seeds, made with the same settings.

    Attributes
    ----------
    group : str
        The group of its measures in /analysis.
    seeds : list of int
    models : list of str
        Models of MODELS in their order, then others (the variants of an ablation) by name.
    axes : list of str
        Names of the axes but that of the seeds.
    depths : dict of ndarray
        Depths at which the states of a model stand, in layers, by model; without an entry for models that have no depth axis.
    measures : dict of list
        Names of what was measured in any of the files, by model.

    Raises
    ------
    RunError
        If a file holds no measures, or does not belong to the first.
    """

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs
        self.group: str = group_of(runs[0])
        self.seeds = [int(seed) for run in runs for seed in run.coordinate("seed")]
        for run in runs:
            if not run.analyses(self.group):
                raise RunError(f"{run.path}: holds no measures of {experiment_of(run)} (no /analysis/{self.group})")
            self._check(run)
        # An ablation may draw other test samples for each seed: then they are not shared, and outcomes by sample are of no use.
        samples = [run.coordinate("sample") for run in runs if "sample" in run.coordinates]
        same_samples = len(samples) == len(runs) and all(np.array_equal(one, samples[0]) for one in samples)
        there = set.intersection(*(set(run.analyses(self.group)) for run in runs))
        self.models = [name for name in MODELS if name in there] + sorted(name for name in there if name not in MODELS)
        self.axes = [name for name in runs[0].coordinates if name != "seed"]
        self.depths = {model: self.axis(f"{model}_depth") for model in self.models if f"{model}_depth" in self.axes}
        self.measures = {model: sorted({name for run in runs for name in run.analyses(f"{self.group}/{model}")
                                        if same_samples or not name.endswith(BY_SAMPLE)}) for model in self.models}

    def _check(self, run: Run) -> None:
        """Checks that a further file belongs to the first."""
        first = self.runs[0]
        settings = [{key: value for key, value in one.settings.items() if not key.startswith(APART)} for one in (first, run)]
        if run.attributes["experiment"] != first.attributes["experiment"]:  # one of the time before holds the keys of other studies, too
            both = {*settings[0]} & {*settings[1]}
            settings = [{key: one[key] for key in both} for one in settings]
        if settings[0] != settings[1]:
            names = sorted(key for key in set(settings[0]) | set(settings[1]) if settings[0].get(key) != settings[1].get(key))
            raise RunError(f"{run.path}: its settings are not those of {first.path}, to which it would add seeds: {', '.join(names)}")
        for name in {*run.coordinates, *first.coordinates} - {"seed", "sample"}:
            if not (name in first.coordinates and name in run.coordinates and np.array_equal(first.coordinate(name), run.coordinate(name))):
                raise RunError(f"{run.path}: its axis {name} is not that of {first.path}, to which it would add seeds")

    @functools.cache  # claims, figures and tables ask for the same again and again
    def measure(self, model: str, name: str) -> np.ndarray | None:
        """The numbers of a measure, read-only; None if this model has not been measured so; NaN for the seeds
        of a file without it (one seed has no ceiling)."""
        if name not in self.measures.get(model, ()):
            return None
        group = f"{self.group}/{model}"
        parts = [run.analysis(group, name) if name in run.analyses(group) else None for run in self.runs]
        for run, part in zip(self.runs, parts):
            if part is not None and part.shape[:1] != run.coordinate("seed").shape:
                raise RunError(f"{run.path}: /analysis/{group}/{name} has shape {part.shape}, not one entry for each seed")
        shape = next(part.shape[1:] for part in parts if part is not None)
        values = np.concatenate([np.full((len(run.coordinate("seed")), *shape), np.nan) if part is None else part
                                 for run, part in zip(self.runs, parts)])
        values.flags.writeable = False
        return values

    def numbers(self, model: str, name: str) -> np.ndarray:
        """The numbers of a measure that has to be there; RunError if it is not."""
        values = self.measure(model, name)
        if values is None:
            raise RunError(f"{self.runs[0].path}: {name} of {model} was not measured (/analysis/{self.group}/{model})")
        return values

    @functools.cache
    def axes_of(self, model: str, name: str) -> tuple[str, ...]:
        """Names of the axes of a measure that some file has; "" for an axis without a name."""
        group = f"{self.group}/{model}"
        return next(run.dimensions(group, name) for run in self.runs if name in run.analyses(group))

    def at(self, model: str, name: str, where: Mapping[str, float], along: str = "") -> np.ndarray | None:
        """The numbers at one place of each of the axes `where`, which are left out; the axis `along`, if
        given, comes last. Heads that a model does not have (NaN in every file) are left out. None if there
        are no numbers there."""
        measured = self.measure(model, name)
        if measured is None:
            return None
        values, axes = measured, list(self.axes_of(model, name))
        for axis, place in where.items():
            if axis not in axes or not (found := np.flatnonzero(self.axis(axis) == place)).size:
                return None
            values = np.take(values, int(found[0]), axis=axes.index(axis))
            axes.remove(axis)
        if "head" in axes:
            there = ~np.isnan(np.moveaxis(values, axes.index("head"), 0)).reshape(values.shape[axes.index("head")], -1).all(axis=1)
            values = np.compress(there, values, axis=axes.index("head")) if there.any() else values
        if not along:
            return values
        return np.moveaxis(values, axes.index(along), -1) if along in axes else None

    def having(self, name: str) -> list[str]:
        """The models that have this measure."""
        return [model for model in self.models if name in self.measures[model]]

    def table(self, columns: Mapping[str, Callable[[str], str | None]]) -> list[tuple[str, ...]]:
        """Rows of text, headings first: a row for each model of MODELS. `columns`: numbers by heading, None for those without."""
        rows = [(MODELS[model].label, *(column(model) or "–" for column in columns.values())) for model in self.models if model in MODELS]
        return [("model", *columns), *(row for row in rows if set(row[1:]) != {"–"})]

    def axis(self, name: str) -> np.ndarray:
        """The numbers of an axis."""
        return self.runs[0].coordinate(name)

    def depth(self, model: str) -> np.ndarray:
        """Depths of a model's states, in layers; 0 is the embedded input."""
        return self.depths[model]

    def at_transformer_depths(self, model: str) -> list[int]:
        """Places on a model's depth axis of the ends of the Transformer's layers (without one: of whole depths)."""
        ends = self.depths["transformer"] if "transformer" in self.depths else np.arange(round(self.depths[model][-1]) + 1)
        places = [int(np.argmin(np.abs(self.depths[model] - depth))) for depth in ends]
        if apart := [depth for place, depth in zip(places, ends) if abs(self.depths[model][place] - depth) > 1e-9]:
            raise RunError(f"{self.runs[0].path}: no depth cell of the model '{model}' ends at {apart[0]:g}, where a layer of the Transformer does: "
                           "they cannot be compared layer by layer")
        return places

    def facts(self, model: str | None = None) -> dict[str, Value]:
        """Attributes of a model's group or the experiment's, as in the first file; those with a line per seed, of all files."""
        group = "/".join(filter(None, ("analysis", self.group, model)))
        every = [run.described(group) for run in self.runs]
        return {**every[0], **{name: "\n".join(one[name] for one in every) for name in ("files", "trained") if name in every[0]}}


def data_of(run: Run) -> tuple[str, str]:
    """The data that a run has seen: (set, tokens)."""
    experiment = experiment_of(run)
    if makes_its_data(experiment):
        return MADE[family_of(experiment) or ""], ""
    if task := run.settings.get("paths.task"):
        return task, run.settings.get("paths.images" if task == "one_shot" else "paths.variant", "")
    name = run.settings.get("data.set", "none")
    if name == "tokens":
        return name, os.path.basename(run.settings.get("data.file", ""))
    return name, "" if name in TEXTS else run.settings.get("data.tokens", "")


def data_name(data: tuple[str, str]) -> str:
    """The data that a run has seen, in words."""
    name, tokens = data
    return ", ".join(filter(None, (DATA_SETS.get(name, name), TOKENS.get(tokens, tokens))))


class Study:
    """All runs on one data set.

    Parameters
    ----------
    data : tuple of str
        The data (set, tokens), as `data_of` gives it.
    runs : list of Run
    note : str
        Text that tells the study apart from others on the same data.

    Attributes
    ----------
    name : str
        The data in words.
    comparisons : dict of Comparison
        Comparisons by the name of the experiment.
    trainings, evolutions : list of Run
    """

    def __init__(self, data: tuple[str, str], runs: list[Run], note: str = "") -> None:
        self.name = data_name(data) + (f" ({note})" if note else "")
        self.data, self.runs = data, runs
        compared: dict[str, list[Run]] = {}
        for run in runs:
            if (name := experiment_of(run)) not in ("train", "evolve"):
                compared.setdefault(name, []).append(run)
        self.comparisons = {name: Comparison(sorted(some, key=lambda run: run.coordinate("seed")[0])) for name, some in compared.items()}
        self.trainings = [run for run in runs if run.attributes["experiment"] == "train"]
        self.evolutions = [run for run in runs if run.attributes["experiment"] == "evolve"]

    def of(self, experiment: str) -> Comparison | None:
        """The comparison of this experiment; None if it was not run."""
        return self.comparisons.get(experiment)


def _clash(runs: list[Run]) -> tuple[Run, Run] | None:
    """Two files of the same comparison that have a seed in common, or None."""
    seen: dict[tuple[str, int], Run] = {}
    for run in runs:
        name = experiment_of(run)
        if name in ("train", "evolve"):
            continue
        for seed in run.coordinate("seed"):
            if (name, int(seed)) in seen:
                return seen[name, int(seed)], run
            seen[name, int(seed)] = run
    return None


def studies(runs: list[Run]) -> list[Study]:
    """The runs by data set. A data set that has the same comparison twice is split by folder and named from
    where the folders part."""
    by_data: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        by_data.setdefault(data_of(run), []).append(run)
    found = []
    for data, members in by_data.items():
        if not _clash(members):
            found.append(Study(data, members))
            continue
        by_folder: dict[str, list[Run]] = {}
        for run in members:
            by_folder.setdefault(os.path.abspath(os.path.dirname(run.path)), []).append(run)
        common = os.path.commonpath(list(by_folder))
        for folder, some in by_folder.items():
            if clash := _clash(some):
                raise RunError(f"{clash[0].path} and {clash[1].path} are the same experiment on the same data with the same seed: give "
                               "one of them, or keep what belongs together in folders of their own")
            found.append(Study(data, some, os.path.relpath(folder, common)))
    return found


def open_run(path: str | os.PathLike[str], known: Collection[str] | None = None) -> Run:
    """Opens a finished run of one of the experiments `known` (None: any); RunError if it is not one."""
    run = Run(path)
    if known is not None and (name := experiment_of(run)) not in known:
        run.close()
        raise RunError(f"{path}: is a run of '{name}'; the report knows {', '.join(sorted(known))}")
    return run
