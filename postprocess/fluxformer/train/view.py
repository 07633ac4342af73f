"""What `fluxformer view` shows at first of trainings: loss, accuracy and perplexity beside counting, rate and gradient over the epochs done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fluxformer.io import Run, RunError
from fluxformer.style import ACCENT, INK, SOFT
from fluxformer.train.plot import BLUE, FILES, Training, measured
from fluxformer.view.panels import DASHED, Axis, Look, Panel, Series
from fluxformer.view.variables import names_of

DONE = "epochs done"
SPLITS = (("train", "training, mean of the epoch", ACCENT, "solid", "square"), ("validation", "validation", BLUE, "dash", "diamond"),
          ("test", "test", INK, "solid", "circle"))
COUNTED = ("Kneser-Ney", "Witten-Bell")


def explore(runs: Sequence[Run], everything: Mapping[str, Panel]) -> list[Panel]:
    """Curves of all trainings together; none of what has not made a step yet."""
    called, trainings = names_of(runs), {}
    for run in runs:
        try:
            trainings[called[run.path]] = Training(run)
        except RunError:
            continue
    if not trainings:
        return []
    panels = [
        _panel("training/loss", "Loss", "loss", _of_steps(trainings, "loss", "each step") + _of_epochs(trainings, "loss")),
        _panel("training/test_accuracy", "Accuracy", "accuracy", _of_epochs(trainings, "accuracy") + _baselines(trainings)),
        _panel("training/test_perplexity", "Perplexity of next words", "perplexity", _of_epochs(trainings, "perplexity") + _counted(trainings)) if any(
            training.steps("ngram_accuracy") is not None for training in trainings.values()) else None,
        _panel("training/learning_rate", "Learning rate", "learning rate", _of_steps(trainings, "learning_rate", "", light=False), logarithmic=False),
        _panel("training/gradient_norm", "Norm of the gradient, before it is clipped", "gradient norm", _of_steps(trainings, "gradient_norm", "each step")),
    ]
    return [panel for panel in panels if panel]


def _panel(key: str, title: str, label: str, series: list[Series], logarithmic: bool | None = None) -> Panel | None:
    return Panel(key, title, "", tuple(series), across=DONE, label=label, logarithmic=logarithmic) if series else None


def _of_steps(trainings: Mapping[str, Training], name: str, what: str, light: bool = True) -> list[Series]:
    """A measure of every step, and where it scatters its means over so many steps that the course is seen."""
    found = []
    for number, (colour, (file, training)) in enumerate(zip(_colours(trainings), trainings.items())):
        values = training.steps(name)
        if values is None or not np.isfinite(values).any():
            continue
        scatters = light and training.window > 1
        if not scatters or len(trainings) == 1:  # of several files the steps hide each other
            dash = "solid" if light else DASHED[number % len(DASHED)]  # curves that do not scatter may be the same one
            found.append(Series(file, "", (Axis(DONE, "", training.done),), values, what, Look(colour, dash, light=scatters)))
        if scatters:
            place, smooth = training.smoothed(values)
            found.append(Series(file, "", (Axis(DONE, "", place),), smooth, f"mean of {training.window} steps", Look(colour)))
    return found


def _of_epochs(trainings: Mapping[str, Training], measure: str) -> list[Series]:
    """A measure after each epoch, for every split that has one."""
    found = []
    for colour, (file, training) in zip(_colours(trainings), trainings.items()):
        for split, label, own, dash, symbol in SPLITS:
            if split == "train" and measure == "loss" or len(trainings) > 1 and split != measured(training):
                continue  # the steps show it; several files are compared by one split
            values = training.epochs(f"{split}_{measure}")
            if values is not None:
                look = Look(own, dash, symbol) if len(trainings) == 1 else Look(colour, "dash", symbol)
                found.append(Series(file, "", (Axis(DONE, "", np.arange(1.0, len(values) + 1)),), values, label, look))
    return found


def _baselines(trainings: Mapping[str, Training]) -> list[Series]:
    """What simpler models reach, as lines across; the same of several files once."""
    found: dict[str, Series] = {}
    for training in trainings.values():
        known = {"naive Bayes": training.facts.get("baseline_accuracy"), "most frequent word": training.facts.get("unigram_accuracy"),
                 "most frequent word after the one before": training.facts.get("bigram_accuracy")}
        if (counted := training.steps("ngram_accuracy")) is not None:
            known["best n-gram"] = float(np.nanmax(counted))
        for name, value in known.items():
            if isinstance(value, float) and np.isfinite(value):
                found.setdefault(f"{name}, {value:.6g}", Series("", "", (), np.asarray(value), f"{name}: {value:.3g}", Look(SOFT, "dot")))
    return list(found.values())


def _counted(trainings: Mapping[str, Training]) -> list[Series]:
    """The best of each smoothing of n-grams, which only count words, as lines across."""
    found: dict[str, Series] = {}
    for training in trainings.values():
        for name, dash in zip(COUNTED, ("dot", "dashdot")):
            values = training.steps(name.lower().replace("-", "_") + "_perplexity")
            if values is not None and np.isfinite(values).any():
                best = int(np.nanargmin(values))
                label = f"{name} {best + 1}-gram: {values[best]:.4g}"
                found.setdefault(label, Series("", "", (), np.asarray(values[best]), label, Look(SOFT, dash)))
    return list(found.values())


def _colours(trainings: Mapping[str, Training]) -> list[str]:
    return [FILES[k % len(FILES)] for k in range(len(trainings))]
